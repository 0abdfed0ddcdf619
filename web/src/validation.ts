// The panes of a validation: the verdict, the mappings as points, the distribution of errors, the worst and why.

import type { Shape } from "./array";
import { Surface } from "./canvas";
import { Chart, type ChartPoint, drawBars } from "./chart";
import { colour, colourIndex } from "./colours";
import { unpack } from "./decode";
import { button, element, markCurrent, scrolled, table } from "./dom";
import { count, counted, cycles, fixed } from "./format";
import { figure, made, verdictPane } from "./made";
import { type MappedNest, nestCode } from "./nest";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

interface Errors {
  mappings: number; // the others are there unless it is 0; in percent of what was simulated
  mean_absolute_error: number;
  median_absolute_error: number;
  absolute_error_of_95_percent: number;
  worst_absolute_error: number;
  mean_error: number;
}

interface Case {
  layer: string;
  estimated_cycles: number;
  simulated_cycles: number;
  error: number;
  simulated_cycles_by_cause: Record<string, number>;
  mechanisms: string[];
  cycles_left: number;
  without: Record<string, { difference_cycles: number; error: number }>;
}

/** What the pages of arrays and of trees have. */
export interface JudgedSummary extends ResultSummary {
  worst: { point: number }[];
  report: Errors & {
    network: string;
    machine: string;
    seed: number;
    drawn: number;
    misfits: number;
    too_long: number;
    distribution: { up_to: number | null; mappings: number }[];
    energy: Record<string, { mappings_that_agree: number; worst_absolute_error: number }>;
    layers: (Errors & { name: string; times: number })[];
  };
}

interface ValidateSummary extends JudgedSummary {
  array: Shape;
  worst: { point: number; nest: string; missed: string; mapping: MappedNest }[];
  report: JudgedSummary["report"] & { worst: Case[] };
}

interface Points {
  layer: Int32Array;
  estimated: Float64Array;
  simulated: Float64Array;
}

export async function validatePanes(page: ResultPage, summary: ValidateSummary): Promise<ResultPane[]> {
  const judged = await judgedPanes(page, summary, `${count(summary.array.elements)} elements`);
  return [...judged, new WorstPane(page, summary)];
}

/** The panes of all mappings, whatever the machine is. */
export async function judgedPanes(page: ResultPage, summary: JudgedSummary, units: string): Promise<ResultPane[]> {
  const packed = await unpack(document.getElementById("run-0")!.textContent!);
  const points = {
    layer: packed.ints("layer"),
    estimated: packed.floats("estimated"),
    simulated: packed.floats("simulated"),
  };
  return [verdict(summary, units), new PointPane(page, summary, points), new ErrorPane(page, summary)];
}

export function share(percent: number, digits = 3): string {
  return `${fixed(percent, digits)} %`;
}

export function signed(percent: number): string {
  return `${percent < 0 ? "-" : "+"}${share(Math.abs(percent))}`;
}

function verdict(summary: JudgedSummary, units: string): ResultPane {
  const { report } = summary;
  const rows = [
    ["network", report.network],
    ["machine", `${report.machine}, ${units}`],
    ["drawn", `${counted(report.drawn, "mapping")}, seed ${report.seed}`],
    ["left out", `${count(report.misfits)} that do not fit, ${count(report.too_long)} too long to simulate`],
  ];
  const exact = report.distribution[0].mappings;
  return verdictPane(
    [
      figure(
        count(report.mappings),
        "mappings compared",
        "estimated and simulated",
        "random, in equal parts of the layers",
      ),
      figure(share(report.mean_absolute_error), "mean error", "estimated / simulated", "of the cycles, without signs"),
      figure(share(report.median_absolute_error), "median error", "estimated / simulated", "half of them have less"),
      figure(share(report.absolute_error_of_95_percent), "error of 95 %", "estimated / simulated", "have at most that"),
      figure(share(report.worst_absolute_error), "largest error", "estimated / simulated", "of one mapping"),
      figure(
        signed(report.mean_error),
        "mean with signs",
        "estimated / simulated",
        "+: the model says too many cycles",
      ),
      figure(
        count(exact),
        "without any error",
        "estimated = simulated",
        `${share((100 * exact) / report.mappings, 1)} of all`,
      ),
    ],
    made(summary, rows, []),
  );
}

/** Every mapping: estimated over simulated cycles. */
class PointPane implements ResultPane {
  readonly element = element("section", { id: "mappings", "data-pane": "mappings" });
  private readonly chart = new Chart("Estimated over simulated cycles. Arrow keys go from one mapping to the next.");
  private readonly said = element("p", { class: "note", id: "mapping-said" });

  constructor(
    private readonly page: ResultPage,
    private readonly summary: JudgedSummary,
    private readonly points: Points,
  ) {
    const place = element("div", { class: "surface", id: "points" });
    place.append(this.chart.surface.canvas);
    this.chart.listen(page.tip, {
      selected: () => this.selected,
      select: (at) => this.select(at),
      describe: (at) => this.describe(at),
    });
    const shown = points.layer.length;
    const cut = shown < summary.report.mappings ? ` The first ${count(shown)} of them are drawn.` : "";
    this.element.append(
      element("h2", {}, "Estimated and simulated"),
      element("p", { class: "note" }, `A point is a mapping; colours are layers, diamonds the worst below.${cut}`),
      place,
      this.said,
    );
  }

  private get selected(): number {
    const text = this.page.chosen("point");
    return /^\d+$/.test(text) && Number(text) < this.points.layer.length ? Number(text) : -1;
  }

  private select(at: number): void {
    this.page.choose({ point: at < 0 ? "" : `${at}` });
  }

  private describe(at: number): string[] {
    const [estimated, simulated] = [this.points.estimated[at], this.points.simulated[at]];
    return [
      this.summary.report.layers[this.points.layer[at]].name,
      `${cycles(estimated)} estimated`,
      `${cycles(simulated)} simulated`,
      `error ${signed((100 * (estimated - simulated)) / simulated)}`,
    ];
  }

  draw(): void {
    const worst = new Set(this.summary.worst.map((one) => one.point));
    const points: ChartPoint[] = Array.from(this.points.layer, (layer, at) => ({
      x: this.points.simulated[at],
      y: this.points.estimated[at],
      colour: colour(colourIndex(layer)),
      shape: worst.has(at) ? "diamond" : "round",
      strong: worst.has(at),
    }));
    const { selected } = this;
    this.chart.draw(this.page.theme, {
      x: { label: "cycles (simulated)", text: count },
      y: { label: "cycles (estimated)", text: count },
      points,
      joined: [],
      diagonal: "estimated = simulated",
      selected,
    });
    this.said.textContent = selected < 0 ? "" : `Mapping ${selected}: ${this.describe(selected).join(", ")}.`;
  }
}

const COMPONENTS: Record<string, string> = {
  mac: "arithmetic",
  rf: "register files",
  noc: "networks",
  spm: "scratchpad",
  dram: "DRAM",
};

/** How many mappings have errors of which size, by layers, and of the energy. */
class ErrorPane implements ResultPane {
  readonly element = element("section", { id: "errors", "data-pane": "errors" });
  private readonly bars = new Surface("How many mappings have errors of which size. The table below lists it.");

  constructor(
    private readonly page: ResultPage,
    private readonly summary: JudgedSummary,
  ) {
    const { report } = summary;
    const place = element("div", { class: "surface", id: "histogram" });
    place.append(this.bars.canvas);
    const limits = report.distribution.map((bucket) => [
      limitText(bucket.up_to),
      count(bucket.mappings),
      share((100 * bucket.mappings) / report.mappings, 1),
    ]);
    const layers = report.layers.map((layer) =>
      layer.mappings === 0
        ? [layer.name, "0", "", "", "", "", ""]
        : [
            layer.name,
            count(layer.mappings),
            share(layer.mean_absolute_error),
            share(layer.median_absolute_error),
            share(layer.absolute_error_of_95_percent),
            share(layer.worst_absolute_error),
            signed(layer.mean_error),
          ],
    );
    const parts = Object.entries(report.energy).map(([name, one]) => [
      COMPONENTS[name] ?? name,
      count(one.mappings_that_agree),
      share(one.worst_absolute_error),
    ]);
    this.element.append(
      element("h2", {}, "Errors"),
      place,
      element(
        "div",
        { class: "columns" },
        scrolled(
          element("h3", {}, "Distribution"),
          table(["error of the cycles", "mappings", "share"], limits, "distribution"),
        ),
        scrolled(
          element("h3", {}, "Energy"),
          table(["part", "mappings in which both agree", "largest difference"], parts, "energy"),
        ),
      ),
      element("h3", {}, "Layers"),
      scrolled(table(["layer", "mappings", "mean", "median", "95 %", "worst", "signed"], layers, "layers")),
    );
  }

  draw(): void {
    const { report } = this.summary;
    const bars = report.distribution.map((bucket) => ({
      label:
        bucket.up_to === null
          ? `over\n${share(report.distribution[report.distribution.length - 2].up_to!, 1)}`
          : bucket.up_to === 0
            ? "none"
            : `up to\n${share(bucket.up_to, 1)}`,
      value: bucket.mappings,
      text: count(bucket.mappings),
    }));
    drawBars(this.bars, this.page.theme, bars, colour(1));
  }
}

function limitText(limit: number | null): string {
  if (limit === null) return "more";
  return limit === 0 ? "none" : `up to ${share(limit, 1)}`;
}

/** The mappings with the largest errors, what the model misses in each, and the nest of the one that is chosen. */
class WorstPane implements ResultPane {
  readonly element = element("section", { id: "worst", "data-pane": "worst" });
  private readonly buttons: HTMLButtonElement[];
  private readonly detail = element("div");

  constructor(
    private readonly page: ResultPage,
    private readonly summary: ValidateSummary,
  ) {
    const { report, worst } = summary;
    this.buttons = report.worst.map((one, at) =>
      button(`${at + 1} ${one.layer}`, `Show ${at + 1}`, () => page.choose({ point: `${worst[at].point}` })),
    );
    const rows = report.worst.map((one, at) => [
      this.buttons[at],
      cycles(one.estimated_cycles),
      cycles(one.simulated_cycles),
      signed(one.error),
      worst[at].missed,
    ]);
    const heads = ["mapping", "cycles (estimated)", "cycles (simulated)", "error", "what the model misses"];
    this.element.append(
      element("h2", {}, "Largest errors, and what the model misses"),
      rows.length === 0
        ? element("p", {}, "No error is other than 0, or none was asked for.")
        : scrolled(table(heads, rows, "worst")),
      this.detail,
    );
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("point")) return;
    const at = this.summary.worst.findIndex((one) => `${one.point}` === this.page.chosen("point"));
    markCurrent(this.buttons, at);
    if (at < 0) {
      this.detail.replaceChildren();
      return;
    }
    const { nest, mapping } = this.summary.worst[at];
    const one = this.summary.report.worst[at];
    const trials = Object.entries(one.without).map(([name, trial]) => [
      name,
      one.mechanisms.includes(name) ? "yes" : "",
      `${count(trial.difference_cycles)} cycles`,
      signed(trial.error),
    ]);
    const causes = Object.entries(one.simulated_cycles_by_cause)
      .filter(([, spent]) => spent > 0)
      .map(([name, spent]) => [name.replace("_", " "), cycles(spent), share((100 * spent) / one.simulated_cycles, 1)]);
    this.detail.replaceChildren(
      element("h3", {}, `Mapping ${at + 1}: ${one.layer}`),
      element("p", { class: "note" }, nest),
      nestCode(mapping, this.summary.array.elements),
      element(
        "div",
        { class: "columns" },
        scrolled(
          element("h3", {}, "Asked again without a mechanism"),
          table(["mechanism", "missed", "estimated - simulated", "error"], trials, "trials"),
        ),
        scrolled(
          element("h3", {}, "Where the cycles go (simulated)"),
          table(["cause", "cycles", "share"], causes, "causes"),
        ),
      ),
    );
  }
}
