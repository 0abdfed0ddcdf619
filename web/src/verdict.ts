// The verdict: what came out, beside its bounds, whether it was checked, and how to make it again.

import { button, element, scrolled, table } from "./dom";
import { bytes, count, counted, cycles, energy, fixed, percent, scaled, seconds } from "./format";
import { figure, made, type Origin } from "./made";
import type { Page, Pane } from "./pane";
import type { Proof, Report } from "./run";

/** What the page says of all runs: how it was made, and how the strategies compare. */
export interface Summary extends Origin {
  title: string;
  strategies: { strategy: string; does_not_fit: string | null; report: number }[];
  compared: {
    strategy: string;
    latency_cycles: number;
    latency_seconds: number;
    speed_up: number;
    latency_to_bound: number;
    ddr_bytes: number;
    energy_pj: number;
    verification: string;
  }[];
}

const OUTCOMES: Record<string, string> = {
  passed: "Verified: what the program computes equals onnxruntime's outputs",
  failed: "WRONG: what the program computes differs from onnxruntime's outputs",
  disputed: "Disputed: onnxruntime differs, and onnx's reference evaluator agrees with the program",
  "not conclusive": "Not conclusive: rounding could hide an error in too many values",
  "not verified": "Not verified: add --verify to compare what the program computes with onnxruntime",
};

export class Verdict implements Pane {
  readonly element = element("section", { id: "verdict", "data-pane": "verdict" });

  constructor(
    private readonly page: Page,
    private readonly summary: Summary,
  ) {}

  draw(): void {}

  load(): void {
    const { report } = this.page.run.header;
    const outcome = report.verification.result;
    this.element.replaceChildren(
      element("h2", {}, "Verdict"),
      ...this.comparison(),
      element("div", { class: "figures" }, ...figures(report)),
      element("p", { class: `outcome ${outcome.replace(" ", "-")}` }, OUTCOMES[outcome] ?? outcome),
      proven(this.page.run.header.proof),
      ...checks(report),
      bounds(report),
      element(
        "details",
        {},
        element("summary", {}, "Engines, ports and energy"),
        element("div", { class: "columns" }, ...shares(report)),
      ),
      this.origin(report),
    );
  }

  private comparison(): HTMLElement[] {
    const { compared, strategies } = this.summary;
    if (strategies.length < 2) return [];
    const first = compared[0].strategy;
    const rows = strategies.map((one) => {
      const row = compared[one.report];
      if (one.does_not_fit !== null) {
        return [one.strategy, element("span", { class: "note" }, `does not fit: ${one.does_not_fit}`)];
      }
      const name = button(one.strategy, `Show ${one.strategy}`, () => this.page.change({ strategy: one.strategy }));
      if (one.strategy === this.page.state.strategy) name.setAttribute("aria-current", "true");
      return [
        name,
        seconds(row.latency_seconds),
        `${fixed(row.speed_up, 2)} x`,
        `${fixed(row.latency_to_bound, 2)} x`,
        bytes(row.ddr_bytes),
        energy(row.energy_pj),
        row.verification,
      ];
    });
    const heads = [
      "strategy",
      "latency (simulated)",
      `speed-up over ${first}`,
      "latency\u00a0/ largest bound",
      "DDR traffic of a cluster (simulated)",
      "energy of a cluster (simulated)",
      "verification",
    ];
    return [scrolled(table(heads, rows, "compared"))];
  }

  private origin(report: Report): HTMLElement {
    const { what } = report;
    const rows = [
      ["network", what.network],
      ["machine", `${what.machine}, clock ${count(what.clock_hz / 1e6)} MHz`],
      ["strategy", what.strategy],
      [
        "samples",
        `batch ${count(what.batch)}: ${counted(what.clusters, "cluster")}, ${counted(what.iterations, "iteration")} ` +
          `each, ${count(what.batch_per_iteration)} an iteration`,
      ],
      ["simulated", `${counted(what.clusters_simulated, "cluster")} of ${count(what.clusters)}; this page shows one`],
      ["instructions", `${count(report.simulated.instructions)} of a cluster`],
    ];
    return made(this.summary, rows, what.notes);
  }
}

function figures(report: Report): HTMLElement[] {
  const { simulated, bounds, what } = report;
  const gap = simulated.latency_cycles - bounds.largest_cycles;
  const hz = what.clock_hz;
  const found = [
    figure(
      seconds(simulated.latency_seconds),
      "latency",
      "simulated",
      `${cycles(simulated.latency_cycles)} of one cold batch; everything starts in DDR`,
    ),
    figure(
      seconds(bounds.largest_cycles / hz),
      "largest bound",
      "bound: no schedule can beat it",
      cycles(bounds.largest_cycles),
    ),
    figure(
      `${fixed(bounds.latency_to_largest_ratio, 2)} x`,
      "latency / bound",
      "simulated / bound",
      `a gap of ${seconds(gap / hz)}, ${percent(gap / simulated.latency_cycles)} of the latency`,
    ),
    figure(
      `${fixed(simulated.samples_per_second, 2)} samples/s`,
      "throughput",
      "simulated",
      what.batches > 1
        ? `sustained over ${count(what.batches)} batches: ${fixed(simulated.sustained_samples_per_second, 2)} samples/s`
        : "batch / latency",
    ),
    figure(
      bytes(simulated.ddr_bytes),
      "DDR traffic of a cluster",
      "simulated",
      `${fixed(simulated.ddr_bytes / bounds.ddr_bytes, 2)} x the compulsory ${bytes(bounds.ddr_bytes)} (bound)`,
    ),
    figure(
      energy(simulated.energy_pj),
      "energy of a cluster",
      "simulated bytes and operations x the machine's energy for each",
      `${energy(simulated.energy_pj / what.batch_per_cluster)} a sample`,
    ),
  ];
  return found;
}

/** Whether the decisions are proven, and how far the run can be from the best. */
function proven(proof: Proof): HTMLElement {
  const [within] = proof.certain;
  return element("p", { id: "proven" }, `${proof.certain.at(-1)!.what} ${within.what}`);
}

function checks(report: Report): HTMLElement[] {
  const rows = report.verification.checks.map((check) => [
    check.precision,
    check.outcome,
    check.relative_error === null ? "not a number" : check.relative_error.toExponential(2),
    check.allowed_relative_error === null ? "not a number" : check.allowed_relative_error.toExponential(2),
    check.output,
    `${count(check.decided_values)} of ${count(check.compared_values)}`,
    check.dispute ?? "",
  ]);
  if (rows.length === 0) return [];
  const heads = ["check", "outcome", "largest relative error", "allowed", "of output", "values decided", "dispute"];
  return [scrolled(table(heads, rows, "checks"))];
}

function bounds(report: Report): HTMLElement {
  const { bounds: limits, simulated, what } = report;
  const row = (name: string, value: number, rests: string) => [
    name,
    seconds(value / what.clock_hz),
    cycles(value),
    `${fixed(simulated.latency_cycles / value, 2)} x`,
    rests,
  ];
  const heads = ["bound", "time", "cycles", "latency\u00a0/ bound", "rests on"];
  const rows = [
    row("compute roofline", limits.compute_cycles, `units at their peak, ${scaled(limits.macs)} MACs of a cluster`),
    row("attainable", limits.attainable_cycles, "best tiles on these units"),
    row("compulsory traffic", limits.traffic_cycles, `${bytes(limits.ddr_bytes)} of DDR traffic`),
  ].filter(([, , value]) => value !== cycles(0));
  return scrolled(element("h3", {}, "Bounds"), table(heads, rows, "bounds"));
}

function shares(report: Report): HTMLElement[] {
  const { simulated } = report;
  const rows = Object.entries(simulated.energy_pj_by_part).map(([part, value]) => [
    part,
    energy(value),
    percent(value / simulated.energy_pj),
  ]);
  const engines = simulated.engines.map((one) => [
    one.kind,
    count(one.count),
    count(one.instructions),
    percent(one.busy_cycles / simulated.latency_cycles),
  ]);
  const ports = simulated.traffic.map((one) => [
    one.level,
    count(one.ports),
    bytes(one.size_bytes),
    percent(one.busy_cycles / simulated.latency_cycles),
  ]);
  const part = (title: string, heads: string[], cells: string[][], name: string) =>
    scrolled(element("h3", {}, title), table(heads, cells, name));
  return [
    part("Engines of a cluster (simulated)", ["engine", "number", "instructions", "occupied"], engines, "engines"),
    part("Ports of a cluster (simulated)", ["port", "number", "bytes, bursts included", "occupied"], ports, "traffic"),
    part("Energy of a cluster (simulated)", ["part", "energy", "share"], rows, "energy"),
  ];
}
