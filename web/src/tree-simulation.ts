// The panes of a simulation on a tree: the verdict, the layers, the nest and its ports, cycle by cycle, and the machine.

import { element, scrolled, table } from "./dom";
import { count, counted, cycles, energy, percent, seconds } from "./format";
import { layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import { bar, type Place, PortsPane } from "./ports-pane";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { type SimulatedLayer, signed, simulatedTable } from "./simulation";
import { machinePane, type TreeMapped, treeCode } from "./tree";

interface SimulatedRow extends SimulatedLayer {
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
    recordings: Place[];
  }[];
}

export async function treeSimulationPanes(page: ResultPage, summary: Summary): Promise<ResultPane[]> {
  const { report } = summary;
  const recorded = (run: number) => {
    const number = layerAt(page, report.layers);
    const { name, simulated, statistics } = report.layers[number];
    const { recordings: places } = summary.layers[number];
    const many = places.reduce((sum, one) => sum + one.end - one.begin, 0);
    const note = `This page holds ${count(many)} of the layer's ${cycles(simulated.cycles)}.`;
    const chosen = places.find((one) => one.run === run) ?? places[0];
    return { places, chosen, title: name, note, ...simulated, ports: statistics.ports };
  };
  return [
    verdict(summary),
    simulatedTable(page, report.layers),
    new PortsPane(page, recorded),
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
