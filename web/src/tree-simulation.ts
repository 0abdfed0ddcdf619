// The panes of a simulation on a tree: the verdict, the layers, the nest and its ports, cycle by cycle, and the machine.

import { element, scrolled, table } from "./dom";
import { count, counted, cycles, energy, percent, seconds } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import { PortLanes } from "./port-lanes";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { type RecordingPlace, signed } from "./simulation";
import { machinePane, type TreeMapped, treeCode } from "./tree";

interface SimulatedRow {
  name: string;
  times: number;
  macs: number;
  verified: boolean;
  simulated: {
    cycles: number;
    cycles_by_cause: Record<string, number>;
    energy_pj: number;
    energy: Record<string, number>;
    utilization: number;
  };
  estimated: { cycles: number; energy_pj: number };
  cycle_error: number;
  statistics: {
    ports: { port: string; busy_cycles: number }[];
    flows: { operand: string; memory: string; flow: string; accesses: number; energy_pj: number }[];
  };
}

interface Summary extends ResultSummary {
  clock_hz: number | null;
  units: number;
  picture: string; // SVG
  memories: string[]; // the outermost first
  report: {
    network: string;
    machine: string;
    mappings: string;
    values: string;
    verified: boolean;
    simulated: { cycles: number; latency_seconds: number | null; energy_pj: number; utilization: number };
    estimated: { cycles: number; energy_pj: number };
    cycle_error: number;
    notes: string[];
    layers: SimulatedRow[];
  };
  layers: {
    nest: string;
    instead: string; // why another mapping than the best is simulated
    mapping: TreeMapped;
    recordings: Omit<RecordingPlace, "first_work">[];
  }[];
}

export async function treeSimulationPanes(page: ResultPage, summary: Summary): Promise<ResultPane[]> {
  const { report } = summary;
  const rows = report.layers.map((layer) => [
    count(layer.times),
    cycles(layer.simulated.cycles),
    cycles(layer.estimated.cycles),
    signed(layer.cycle_error),
    energy(layer.simulated.energy_pj),
    energy(layer.estimated.energy_pj),
    percent(layer.simulated.utilization),
    layer.verified ? "equal numpy's" : "not verified",
  ]);
  const heads = [
    "layer",
    "times",
    "cycles (simulated)",
    "cycles (estimated)",
    "error of the estimate",
    "energy (simulated)",
    "energy (estimated)",
    "utilization (simulated)",
    "values",
  ];
  const names = report.layers.map((layer) => layer.name);
  return [
    verdict(summary),
    new LayerTable(page, names, heads, rows),
    new PortsPane(page, summary),
    new NestPane(page, summary),
    machinePane(report.machine, summary.picture),
  ];
}

function verdict(summary: Summary): ResultPane {
  const { report, clock_hz: hz } = summary;
  const { simulated, estimated } = report;
  const least = report.layers.reduce((sum, one) => sum + one.times * one.macs, 0) / summary.units;
  const times = report.layers.reduce((sum, one) => sum + one.times, 0);
  const clock = hz === null ? "no clock given" : `clock ${count(hz / 1e6)} MHz`;
  const time = (value: number) => (hz === null ? "" : `${seconds(value / hz)}, `);
  const rows = [
    ["network", report.network],
    ["machine", `${report.machine}, ${counted(summary.units, "unit")}, ${clock}`],
    ["layers", `${report.layers.length} different, ${times} in all`],
    ["mappings", report.mappings],
    ["values", report.values],
  ];
  const outcome = report.verified
    ? `Verified: every result equals numpy's (${report.values})`
    : "Not verified: no values were computed";
  return verdictPane(
    [
      figure(
        cycles(simulated.cycles),
        "latency",
        "simulated",
        `${time(simulated.cycles)}one layer after another, each as often as it runs`,
      ),
      figure(
        cycles(estimated.cycles),
        "latency of the model",
        "estimated",
        `${time(estimated.cycles)}${signed(report.cycle_error)} of what was simulated`,
      ),
      figure(
        cycles(Math.ceil(least)),
        "every unit busy all the time",
        "bound: no mapping takes less",
        `${time(least)}as many cycles as there are products for each unit`,
      ),
      figure(percent(simulated.utilization), "utilization", "simulated; bound / latency", "of all units"),
      figure(energy(simulated.energy_pj), "energy", "simulated", "of all layers, each as often as it runs"),
      figure(energy(estimated.energy_pj), "energy of the model", "estimated", "likewise"),
    ],
    element("p", { class: report.verified ? "outcome passed" : "outcome" }, outcome),
    made(summary, rows, report.notes),
  );
}

/** What the ports do in the recorded cycles of the chosen layer, and for how long in all of them. */
class PortsPane implements ResultPane {
  readonly element = element("section", { id: "simulation", "data-pane": "simulation" });
  private readonly title = element("h2", {});
  private readonly windows = element("select", { id: "window", "aria-label": "Recorded cycles" });
  private readonly held = element("p", { class: "note", id: "held" });
  private readonly lanes: PortLanes;
  private readonly figures = element("div", { class: "columns" });

  constructor(
    private readonly page: ResultPage,
    private readonly summary: Summary,
  ) {
    this.lanes = new PortLanes(page);
    this.windows.addEventListener("change", () => page.choose({ window: this.windows.value }));
    this.element.append(
      this.title,
      this.held,
      element("div", { class: "tools" }, element("label", {}, "recorded ", this.windows)),
      this.lanes.element,
      this.figures,
    );
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer") && !changed.has("window")) return;
    const number = layerAt(this.page, this.summary.report.layers);
    const row = this.summary.report.layers[number];
    const { recordings } = this.summary.layers[number];
    const asked = this.page.chosen("window");
    const place = recordings.find((one) => one.name === asked) ?? recordings[0];
    this.title.textContent = `Ports and units, cycle by cycle: ${row.name}`;
    this.windows.replaceChildren(
      ...recordings.map((one) =>
        element("option", { value: one.name }, `${one.name}: cycles ${count(one.begin)} to ${count(one.end - 1)}`),
      ),
    );
    this.windows.value = place.name;
    const many = recordings.reduce((sum, one) => sum + one.end - one.begin, 0);
    this.held.textContent =
      `Simulated. This page holds ${count(many)} of the layer's ${cycles(row.simulated.cycles)}. A box is the time ` +
      "in which a port works for one tile of an operand; the number in it is the tile's.";
    const { cycles: whole, cycles_by_cause: spent } = row.simulated;
    this.figures.replaceChildren(causes(spent, whole), busy(row.statistics.ports, whole));
    void this.lanes.load(place.run);
  }
}

export function causes(spent_by: Record<string, number>, whole: number): HTMLElement {
  const rows = Object.entries(spent_by).map(([name, spent]) => [
    name.replaceAll("_", " "),
    cycles(spent),
    percent(spent / whole),
    bar(spent / whole),
  ]);
  return element(
    "div",
    {},
    element("h3", {}, "Where the cycles go (simulated)"),
    scrolled(table(["cause", "cycles", "share", ""], rows, "causes")),
  );
}

export function busy(ports: readonly { port: string; busy_cycles: number }[], whole: number): HTMLElement {
  const rows = ports.map((one) => [
    one.port,
    cycles(one.busy_cycles),
    percent(one.busy_cycles / whole),
    bar(one.busy_cycles / whole),
  ]);
  return element(
    "div",
    {},
    element("h3", {}, "Ports in all cycles (simulated)"),
    scrolled(table(["port", "busy", "of the latency", ""], rows, "busy")),
  );
}

function bar(share: number): HTMLElement {
  const found = element("span", { class: "bar" });
  found.style.width = `${100 * Math.min(1, share)}%`;
  return element("span", { class: "bars" }, found);
}

/** The loop nest of the chosen layer memory by memory, and its accesses beside those of the model. */
class NestPane implements ResultPane {
  readonly element = element("section", { id: "nest", "data-pane": "nest" });

  constructor(
    private readonly page: ResultPage,
    private readonly summary: Summary,
  ) {}

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer")) return;
    const number = layerAt(this.page, this.summary.report.layers);
    const row = this.summary.report.layers[number];
    const { nest, instead, mapping } = this.summary.layers[number];
    const rows = row.statistics.flows.map((one) => [
      one.memory,
      one.operand,
      one.flow,
      count(one.accesses),
      energy(one.energy_pj),
      percent(one.energy_pj / row.simulated.energy_pj),
      bar(one.energy_pj / row.simulated.energy_pj),
    ]);
    const memories = new Set([...this.summary.memories, "arithmetic"]);
    const parts = Object.entries(row.simulated.energy).map(([name, spent]) => {
      const own = mapping.energy.filter((one) => (memories.has(name) ? one.name === name : !memories.has(one.name)));
      return [name, energy(spent), energy(own.reduce((sum, one) => sum + one.energy_pj, 0))];
    });
    this.element.replaceChildren(
      element("h2", {}, `Loop nest and memories: ${row.name}`),
      element("p", { class: "note" }, nest),
      ...(instead === "" ? [] : [element("p", { class: "note" }, instead)]),
      treeCode(mapping, this.summary),
      element("h3", {}, "Energy"),
      scrolled(table(["part", "simulated", "estimated"], parts, "components")),
      element("h3", {}, "Accesses (simulated)"),
      scrolled(table(["memory", "operand", "direction", "accesses", "energy", "share", ""], rows, "flows")),
    );
  }
}
