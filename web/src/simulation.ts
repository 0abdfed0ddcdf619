// The panes of a simulation: the verdict, the layers, where the cycles go, the loop nest, and the array at work.

import type { Shape } from "./array";
import { unpack } from "./decode";
import { element, scrolled, table } from "./dom";
import { count, cycles, energy, fixed, percent, seconds } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import { energyTable, type MappedNest, nestCode } from "./nest";
import { Playback } from "./playback";
import { Player } from "./player";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

/** What the report says of a layer, of an array and of a tree. */
export interface SimulatedLayer {
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
}

interface SimulatedRow extends SimulatedLayer {
  estimated: SimulatedLayer["estimated"] & { energy: Record<string, number> };
}

export interface RecordingPlace {
  name: string;
  begin: number;
  end: number;
  first_work: number | null; // the first cycle in which elements execute an instruction
  run: number;
}

interface SimulateSummary extends ResultSummary {
  clock_hz: number;
  notes: string[];
  array: Shape;
  report: {
    network: string;
    machine: string;
    mappings: string;
    values: string;
    verified: boolean;
    note: string | null;
    simulated: { cycles: number; latency_seconds: number; energy_pj: number; utilization: number };
    estimated: { cycles: number; energy_pj: number };
    cycle_error: number;
    macs: number;
    unmapped_operators: Record<string, number>;
    layers: SimulatedRow[];
  };
  layers: { nest: string; mapping: MappedNest; recordings: RecordingPlace[] }[];
}

export async function simulatePanes(page: ResultPage, summary: SimulateSummary): Promise<ResultPane[]> {
  return [
    verdict(summary),
    simulatedTable(page, summary.report.layers),
    new LayerPane(page, summary),
    new ArrayPane(page, summary),
  ];
}

/** The layers, simulated beside estimated. */
export function simulatedTable(page: ResultPage, layers: readonly SimulatedLayer[]): LayerTable {
  const rows = layers.map((layer) => [
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
  const names = layers.map((layer) => layer.name);
  return new LayerTable(page, names, heads, rows);
}

export function signed(share: number): string {
  return `${share < 0 ? "-" : "+"}${fixed(100 * Math.abs(share), 2)} %`;
}

function verdict(summary: SimulateSummary): ResultPane {
  const { report } = summary;
  const { simulated, estimated } = report;
  const least = report.macs / summary.array.elements;
  const rows = [
    ["network", report.network],
    [
      "machine",
      `${report.machine}, ${count(summary.array.elements)} elements, clock ${count(summary.clock_hz / 1e6)} MHz`,
    ],
    ["layers", `${report.layers.length} different, ${report.layers.reduce((sum, one) => sum + one.times, 0)} in all`],
    ["values", report.values],
  ];
  const outcome = report.verified
    ? `Verified: every result of the array equals numpy's (${report.values})`
    : `Not verified: ${report.note ?? "no values were computed"}`;
  return verdictPane(
    [
      figure(seconds(simulated.latency_seconds), "latency", "simulated", cycles(simulated.cycles)),
      figure(
        seconds(estimated.cycles / summary.clock_hz),
        "latency of the model",
        "estimated",
        `${cycles(estimated.cycles)}, ${signed(report.cycle_error)} of what was simulated`,
      ),
      figure(
        seconds(least / summary.clock_hz),
        "every element busy all the time",
        "bound: no mapping takes less",
        cycles(Math.ceil(least)),
      ),
      figure(percent(simulated.utilization), "utilization", "simulated; bound / latency", "of all elements"),
      figure(energy(simulated.energy_pj), "energy", "simulated", "of all layers, each as often as it runs"),
      figure(energy(estimated.energy_pj), "energy of the model", "estimated", "likewise"),
    ],
    element("p", { class: report.verified ? "outcome passed" : "outcome" }, outcome),
    made(summary, rows, summary.notes),
  );
}

const CAUSES: Record<string, string> = {
  compute: "instructions are issued",
  inputs: "inputs are on their networks",
  drain: "the last instructions are in the pipeline",
  partial_sums: "elements add up partial sums",
  results: "results are on their network",
  dma_load: "DMA brings the next tile",
  dma_results: "DMA stores results or brings them back",
  first_load: "configuration and first tile",
  last_store: "the last results go to DRAM",
};
const COMPONENTS: Record<string, string> = {
  mac: "arithmetic",
  rf: "register files",
  noc: "networks",
  spm: "scratchpad",
  dram: "DRAM",
};

/** Where the cycles and the energy of the chosen layer go, and its loop nest. */
class LayerPane implements ResultPane {
  readonly element = element("section", { id: "nest", "data-pane": "nest" });

  constructor(
    private readonly page: ResultPage,
    private readonly summary: SimulateSummary,
  ) {}

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer")) return;
    const number = layerAt(this.page, this.summary.report.layers);
    const row = this.summary.report.layers[number];
    const { nest, mapping } = this.summary.layers[number];
    const whole = row.simulated.cycles;
    const causes = Object.entries(row.simulated.cycles_by_cause).map(([name, spent]) => {
      const bar = element("span", { class: "bar" });
      bar.style.width = `${(100 * spent) / whole}%`;
      return [
        name.replace("_", " "),
        cycles(spent),
        percent(spent / whole),
        element("span", { class: "bars" }, bar),
        CAUSES[name],
      ];
    });
    const parts = Object.entries(row.simulated.energy).map(([name, spent]) => [
      COMPONENTS[name],
      energy(spent),
      energy(row.estimated.energy[name]),
      percent(spent / row.simulated.energy_pj),
    ]);
    this.element.replaceChildren(
      element("h2", {}, `Loop nest: ${row.name}`),
      element("p", { class: "note" }, nest),
      nestCode(mapping, this.summary.array.elements),
      element(
        "div",
        { class: "columns" },
        scrolled(
          element("h3", {}, "Where the cycles go (simulated)"),
          table(["cause", "cycles", "share", "", "the array waits because, or works as"], causes, "causes"),
        ),
        element(
          "div",
          {},
          element("h3", {}, "Energy"),
          scrolled(table(["part", "simulated", "estimated", "share (simulated)"], parts, "components")),
          element("h3", {}, "Energy by level and operand (estimated)"),
          energyTable(mapping),
        ),
      ),
    );
  }
}

/** The array in the cycles that are recorded of the chosen layer. */
class ArrayPane implements ResultPane {
  readonly element = element("section", { id: "simulation", "data-pane": "simulation" });
  private readonly title = element("h2", {});
  private readonly windows = element("select", { id: "window", "aria-label": "Recorded cycles" });
  private readonly held = element("p", { class: "note", id: "held" });
  private readonly player: Player;
  private readonly read = new Map<number, Promise<Playback>>();
  private shown = -1;

  constructor(
    private readonly page: ResultPage,
    private readonly summary: SimulateSummary,
  ) {
    this.player = new Player(page, summary.array);
    this.windows.addEventListener("change", () => page.choose({ window: this.windows.value, cycle: "" }));
    this.element.append(
      this.title,
      this.held,
      element("div", { class: "tools" }, element("label", {}, "recorded ", this.windows)),
      this.player.element,
    );
  }

  draw(changed: ReadonlySet<string> | null): void {
    const number = layerAt(this.page, this.summary.report.layers);
    const row = this.summary.report.layers[number];
    const { recordings } = this.summary.layers[number];
    const asked = this.page.chosen("window");
    const place =
      recordings.find((one) => one.name === asked) ??
      recordings.find((one) => one.first_work !== null) ??
      recordings[0];
    if (changed === null || changed.has("layer") || changed.has("window")) {
      this.title.textContent = `The array, cycle by cycle: ${row.name}`;
      this.windows.replaceChildren(
        ...recordings.map((one) =>
          element("option", { value: one.name }, `${one.name}: cycles ${count(one.begin)} to ${count(one.end - 1)}`),
        ),
      );
      this.windows.value = place.name;
      const many = recordings.reduce((sum, one) => sum + one.end - one.begin, 0);
      this.held.textContent =
        `Simulated. This page holds ${count(many)} of the layer's ${cycles(row.simulated.cycles)}: ` +
        recordings.map((one) => `${one.name}, ${count(one.begin)} to ${count(one.end - 1)}`).join("; ") +
        ".";
    }
    if (place.run === this.shown) this.player.draw(changed);
    else void this.show(place);
  }

  private async show({ run, begin, first_work: first }: RecordingPlace): Promise<void> {
    this.shown = run;
    let found = this.read.get(run);
    if (found === undefined) {
      found = unpack(document.getElementById(`run-${run}`)!.textContent!).then((unpacked) => new Playback(unpacked));
      this.read.set(run, found);
    }
    const playback = await found;
    if (this.shown !== run) return;
    this.player.load(playback, first ?? begin);
    this.player.draw(null);
    document.documentElement.dataset.recording = `${run}`;
  }
}
