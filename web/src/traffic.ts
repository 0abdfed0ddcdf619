// The panes of least traffic by capacity: what the network needs at least, and the curve of a layer or of all.

import { Chart, type ChartPoint } from "./chart";
import { colour, colourIndex } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { bytes, count, fixed, scaled } from "./format";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

interface Curve {
  compulsory_bytes: number;
  least_bytes: (number | null)[]; // by capacity; null where not even single elements fit
}

interface Layer extends Curve {
  name: string;
  times: number;
  macs: number;
  enough_bytes: number;
}

interface TrafficSummary extends ResultSummary {
  report: Curve & { network: string; together: number; capacities_bytes: number[]; layers: Layer[] };
}

/** Of an axis, whose ticks are round decimal numbers. */
const size = (value: number) => `${scaled(value)}B`;

const ALL = "all layers, one after another";

export async function trafficPanes(page: ResultPage, summary: TrafficSummary): Promise<ResultPane[]> {
  return [verdict(summary), new CurvePane(page, summary)];
}

function verdict(summary: TrafficSummary): ResultPane {
  const { report } = summary;
  const enough = Math.max(...report.layers.map((one) => one.enough_bytes));
  const macs = report.layers.reduce((sum, one) => sum + one.times * one.macs, 0);
  const rows = [
    ["network", report.network],
    ["layers", `${count(report.layers.length)} different ones`],
    ["multiply-accumulates", count(macs)],
  ];
  return verdictPane(
    [
      figure(bytes(report.compulsory_bytes), "compulsory traffic", "estimated", "every element that is needed, once"),
      figure(bytes(enough), "enough", "estimated", "the least capacity with which no layer moves more than that"),
      figure(
        fixed(macs / report.compulsory_bytes, 2),
        "multiply-accumulates a byte",
        "estimated",
        "at most, layer by layer",
      ),
    ],
    made(summary, rows, []),
  );
}

/** What stays in the buffer between operators. */
function kept(together: number): string {
  if (together === 1) return "What stays on chip between layers is not in it.";
  return `Up to ${together} operators of a chain run together, and what passes between them stays in the buffer.`;
}

/** Least traffic over capacity: steps, as less cannot be had between two capacities that were asked for. */
class CurvePane implements ResultPane {
  readonly element = element("section", { id: "traffic", "data-pane": "traffic" });
  private readonly chart = new Chart("Least traffic over capacity. Arrow keys go from one capacity to the next.");
  private readonly choice = element("select", { id: "layer", "aria-label": "Layer" });
  private readonly said = element("p", { class: "note", id: "capacity-said" });
  private shown: number[] = []; // capacities that have a point

  constructor(
    private readonly page: ResultPage,
    private readonly summary: TrafficSummary,
  ) {
    const { layers } = summary.report;
    const place = element("div", { class: "surface", id: "points" });
    place.append(this.chart.surface.canvas);
    this.choice.append(element("option", { value: "" }, ALL));
    this.choice.append(...layers.map((one, at) => element("option", { value: `${at}` }, one.name)));
    this.choice.addEventListener("change", () => page.choose({ layer: this.choice.value }));
    this.chart.listen(page.tip, {
      selected: () => this.selected,
      select: (at) => this.select(at),
      describe: (at) => this.describe(at),
    });
    this.element.append(
      element("h2", {}, "Least traffic by capacity"),
      element(
        "p",
        { class: "note" },
        "What any mapping moves at least between one buffer of all operands and the memory outside it, among all " +
          `whose factors divide. ${kept(summary.report.together)}`,
      ),
      element("div", { class: "tools" }, element("label", {}, "layer ", this.choice)),
      place,
      this.said,
      this.list(),
    );
  }

  draw(): void {
    const { capacities_bytes } = this.summary.report;
    const curve = this.curve;
    this.choice.value = this.page.chosen("layer");
    if (this.choice.selectedIndex < 0) this.choice.value = "";
    const points: ChartPoint[] = [];
    this.shown = [];
    for (const [at, least] of curve.least_bytes.entries()) {
      if (least === null) continue;
      const strong = least === curve.compulsory_bytes;
      points.push({
        x: capacities_bytes[at],
        y: least,
        colour: colour(colourIndex(0)),
        shape: strong ? "diamond" : "round",
        strong,
      });
      this.shown.push(at);
    }
    this.chart.draw(this.page.theme, {
      x: { label: "capacity of the buffer", text: size },
      y: { label: "least traffic (estimated)", text: size },
      points,
      joined: points.map((_, at) => at),
      diagonal: "",
      selected: this.selected < points.length ? this.selected : -1,
    });
    const chosen = this.selected >= 0 && this.selected < points.length;
    this.said.textContent = chosen
      ? this.describe(this.selected).join(" · ")
      : "Diamonds: nothing but what is compulsory. Choose a point to read its numbers.";
  }

  private get curve(): Curve {
    const { report } = this.summary;
    return report.layers[Number(this.page.chosen("layer") || -1)] ?? report;
  }

  private get selected(): number {
    const text = this.page.chosen("capacity");
    return /^\d+$/.test(text) ? Number(text) : -1;
  }

  private select(at: number): void {
    this.page.choose({ capacity: at < 0 ? "" : `${at}` });
  }

  private describe(at: number): string[] {
    const { curve } = this;
    const number = this.shown[at];
    const least = curve.least_bytes[number] ?? 0;
    return [
      `capacity ${bytes(this.summary.report.capacities_bytes[number])}`,
      `at least ${bytes(least)}`,
      `${fixed(least / curve.compulsory_bytes, 2)} x what is compulsory`,
    ];
  }

  private list(): HTMLElement {
    const { layers } = this.summary.report;
    const rows = layers.map((one, at) => [
      button(one.name, `Show ${one.name}`, () => this.page.choose({ layer: `${at}` })),
      count(one.times),
      count(one.macs),
      bytes(one.compulsory_bytes),
      bytes(one.enough_bytes),
      fixed(one.macs / one.compulsory_bytes, 2),
    ]);
    const heads = ["layer", "times", "MACs", "compulsory (estimated)", "enough (estimated)", "MACs a byte, at most"];
    return scrolled(table(heads, rows, "layers"));
  }
}
