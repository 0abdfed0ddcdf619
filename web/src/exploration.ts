// The panes of an exploration: the verdict, the designs as points, and the one that is chosen.

import { Chart, type ChartPoint } from "./chart";
import { colour } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { bytes, count, counted, energy, seconds } from "./format";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

interface Metric {
  name: string;
  value: number;
  unit: string;
  origin: string;
}

interface Design {
  design: number;
  values: Record<string, string>;
  points: { network: string; infeasible: string | null; metrics: Metric[] }[];
}

/** The objectives of every feasible design, of a network or of all together. */
interface Front {
  name: string;
  network: number; // -1: all together
  designs: number[];
  objectives: number[][];
}

interface ExploreSummary extends ResultSummary {
  fronts: Front[];
  origins: Record<string, string>; // of objectives
  report: {
    machine: string;
    networks: string[];
    parameters: { name: string; stands_for: string[]; values: string[] }[];
    scale_energy: boolean;
    method: string;
    evaluator: string;
    objectives: { name: string; unit: string }[];
    run: { infeasible: number };
    fronts: { network: string | null; designs: number[] }[];
    designs: Design[];
  };
}

const MOST_ROWS = 400; // of a table of designs
const BEATEN = colour(0);
const BEST = colour(1);

export async function explorePanes(page: ResultPage, summary: ExploreSummary): Promise<ResultPane[]> {
  return [verdict(summary), new DesignPane(page, summary)];
}

function unitText(unit: string, value: number): string {
  if (unit === "s") return seconds(value);
  if (unit === "pJ") return energy(value);
  if (unit === "B") return bytes(value);
  if (unit === "cycles" || unit === "MAC/cycle") return `${count(value)} ${unit}`;
  return `${value.toPrecision(6)} ${unit}`;
}

function verdict(summary: ExploreSummary): ResultPane {
  const { report, fronts } = summary;
  const points = report.designs.length * report.networks.length;
  const rows = [
    ["machine", report.machine],
    ["networks", report.networks.join(", ")],
    ["method", report.method],
    ["evaluator", report.evaluator],
    ["energies", report.scale_energy ? "grow with the sizes" : "as the machine says"],
    ...report.parameters.map((one) => [
      `varied: ${one.name}`,
      `${one.stands_for.join(", ")}: ${one.values.join(", ")}`,
    ]),
  ];
  const best = fronts.map((front, at) =>
    figure(
      counted(report.fronts[at].designs.length, "design"),
      report.objectives.length > 1 ? "Pareto front" : `least ${report.objectives[0].name}`,
      [...new Set(report.objectives.map((one) => summary.origins[one.name]))].join(", "),
      `of ${count(front.designs.length)} feasible: ${front.name}`,
    ),
  );
  return verdictPane(
    [
      figure(counted(report.designs.length, "design"), "explored", report.method, counted(points, "point")),
      figure(
        counted(report.run.infeasible, "point"),
        "infeasible",
        "cannot be built, or does not fit",
        `of ${count(points)}`,
      ),
      ...best,
      figure(
        report.objectives.map((one) => one.name).join(", "),
        "objectives",
        "less is better",
        report.objectives.map((one) => one.unit).join(", "),
      ),
    ],
    made(summary, rows, []),
  );
}

/** Every design as a point; the front is marked, and one may be chosen. */
class DesignPane implements ResultPane {
  readonly element = element("section", { id: "designs", "data-pane": "designs" });
  private readonly chart = new Chart(
    "Designs as points. Arrow keys go from one to the next; the tables below list them.",
  );
  private readonly networks = element("select", { id: "network", "aria-label": "Network" });
  private readonly across = element("select", { id: "across", "aria-label": "Across" });
  private readonly up = element("select", { id: "up", "aria-label": "Up" });
  private readonly detail = element("div", { id: "design" });
  private readonly tables = element("div");
  private shown: { design: number; best: boolean }[] = [];

  constructor(
    private readonly page: ResultPage,
    private readonly summary: ExploreSummary,
  ) {
    const place = element("div", { class: "surface", id: "points" });
    place.append(this.chart.surface.canvas);
    this.networks.append(...summary.fronts.map((front) => element("option", {}, front.name)));
    this.networks.addEventListener("change", () => page.choose({ network: this.networks.value, across: "", up: "" }));
    this.across.addEventListener("change", () => page.choose({ across: this.across.value }));
    this.up.addEventListener("change", () => page.choose({ up: this.up.value }));
    this.chart.listen(page.tip, {
      selected: () => this.shown.findIndex((one) => one.design === this.selected),
      select: (at) => this.select(at),
      describe: (at) => this.describe(at),
    });
    const legend = element(
      "p",
      { class: "note" },
      "Diamonds: the Pareto front, which no other design beats; left of and below the line is nothing that was explored. ",
    );
    legend.append("Grey: beaten by another.");
    const label = element("label", {}, "network ", this.networks);
    label.hidden = summary.fronts.length < 2;
    this.element.append(
      element("h2", {}, "Designs"),
      element(
        "div",
        { class: "tools" },
        label,
        element("label", {}, "across ", this.across),
        element("label", {}, "up ", this.up),
      ),
      place,
      legend,
      this.detail,
      this.tables,
    );
  }

  private get front(): Front {
    const asked = this.page.chosen("network");
    return this.summary.fronts.find((one) => one.name === asked) ?? this.summary.fronts[0];
  }

  private get best(): number[] {
    return this.summary.report.fronts[this.summary.fronts.indexOf(this.front)].designs;
  }

  /** What may be drawn: the objectives, and of one network its other numbers. */
  private choices(): { name: string; unit: string; origin: string }[] {
    const { report, origins } = this.summary;
    const found = report.objectives.map((one) => ({ ...one, origin: origins[one.name] }));
    if (this.front.network < 0) return found;
    for (const design of report.designs) {
      for (const { name, unit, origin } of design.points[this.front.network].metrics) {
        if (!found.some((one) => one.name === name)) found.push({ name, unit, origin });
      }
    }
    return found;
  }

  private value(design: number, name: string): number | null {
    const { front } = this;
    const { report } = this.summary;
    const objective = report.objectives.findIndex((one) => one.name === name);
    const at = front.designs.indexOf(design);
    if (at < 0) return null;
    if (objective >= 0) return front.objectives[at][objective];
    const one = report.designs.find((each) => each.design === design)!;
    return one.points[front.network].metrics.find((metric) => metric.name === name)?.value ?? null;
  }

  draw(changed: ReadonlySet<string> | null): void {
    const choices = this.choices();
    const pick = (select: HTMLSelectElement, name: string, fallback: string) => {
      select.replaceChildren(...choices.map((one) => element("option", {}, one.name)));
      const asked = this.page.chosen(name);
      select.value = choices.some((one) => one.name === asked) ? asked : fallback;
    };
    this.networks.value = this.front.name;
    pick(this.across, "across", choices[0].name);
    pick(this.up, "up", (choices[1] ?? choices[0]).name);
    const best = new Set(this.best);
    const points: ChartPoint[] = [];
    this.shown = [];
    for (const design of this.front.designs) {
      const [x, y] = [this.value(design, this.across.value), this.value(design, this.up.value)];
      if (x === null || y === null) continue;
      const strong = best.has(design);
      points.push({ x, y, colour: strong ? BEST : BEATEN, shape: strong ? "diamond" : "round", strong });
      this.shown.push({ design, best: strong });
    }
    const axis = (name: string) => {
      const one = choices.find((each) => each.name === name)!;
      return { label: `${name} (${one.origin})`, text: (value: number) => unitText(one.unit, value) };
    };
    const order = (name: string) => this.summary.report.objectives.findIndex((one) => one.name === name);
    const both =
      order(this.across.value) >= 0 && order(this.up.value) >= 0 && this.summary.report.objectives.length === 2;
    const joined = both
      ? this.shown
          .map((_, at) => at)
          .filter((at) => this.shown[at].best)
          .sort((a, b) => points[a].x - points[b].x || points[b].y - points[a].y)
      : [];
    const selected = this.shown.findIndex((one) => one.design === this.selected);
    this.chart.draw(this.page.theme, {
      x: axis(this.across.value),
      y: axis(this.up.value),
      points,
      joined,
      diagonal: "",
      selected,
    });
    if (changed === null || changed.has("network")) this.fillTables(best);
    this.fillDetail(best);
    for (const one of this.tables.querySelectorAll("button")) {
      if (one.dataset.design === `${this.selected}`) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
    }
  }

  private get selected(): number {
    const text = this.page.chosen("design");
    return /^\d+$/.test(text) ? Number(text) : -1;
  }

  private fillDetail(best: ReadonlySet<number>): void {
    const found = this.summary.report.designs.find((one) => one.design === this.selected);
    if (found === undefined) {
      this.detail.replaceChildren(
        element("p", { class: "note" }, "Choose a point or a row: its values are shown here."),
      );
      return;
    }
    const values = Object.entries(found.values).map(([name, value]) => [name, value]);
    const numbers = found.points.flatMap((point) =>
      point.infeasible === null
        ? point.metrics.map((metric) => [
            point.network,
            metric.name,
            unitText(metric.unit, metric.value),
            metric.origin,
          ])
        : [[point.network, "infeasible", point.infeasible, ""]],
    );
    const where = best.has(found.design) ? "on the front" : "not on the front";
    this.detail.replaceChildren(
      element("h3", {}, `Design ${found.design}: ${where} of ${this.front.name}`),
      element(
        "div",
        { class: "columns" },
        scrolled(table(["parameter", "value"], values, "parameters")),
        scrolled(table(["network", "number", "value", "from"], numbers, "numbers")),
      ),
    );
  }

  private fillTables(best: ReadonlySet<number>): void {
    const { report, origins } = this.summary;
    const names = report.parameters.map((one) => one.name);
    const heads = [
      "design",
      ...names,
      ...report.objectives.map((one) => `${one.name} (${origins[one.name]})`),
      "on the front",
    ];
    const row = (design: number) => {
      const one = report.designs.find((each) => each.design === design)!;
      const choose = button(`${design}`, `Show design ${design}`, () => this.page.choose({ design: `${design}` }));
      choose.dataset.design = `${design}`;
      const values = this.front.objectives[this.front.designs.indexOf(design)];
      const cells = values.map((value, at) => unitText(report.objectives[at].unit, value));
      return [choose, ...names.map((name) => one.values[name]), ...cells, best.has(design) ? "yes" : ""];
    };
    const front = this.best.slice(0, MOST_ROWS);
    const all = this.front.designs.slice(0, MOST_ROWS);
    const cut = (shown: number, many: number) =>
      element(
        "p",
        { class: "note" },
        shown < many ? `The first ${count(shown)} of ${count(many)}; --json has all.` : "",
      );
    this.tables.replaceChildren(
      element("h3", {}, report.objectives.length > 1 ? "Pareto front" : "Best"),
      scrolled(table(heads, front.map(row), "front")),
      cut(front.length, this.best.length),
      element(
        "details",
        {},
        element("summary", {}, `All ${counted(this.front.designs.length, "feasible design")}`),
        scrolled(table(heads, all.map(row), "designs")),
        cut(all.length, this.front.designs.length),
      ),
    );
  }

  private select(at: number): void {
    this.page.choose({ design: at < 0 ? "" : `${this.shown[at].design}` });
  }

  private describe(at: number): string[] {
    const { design, best } = this.shown[at];
    const one = this.summary.report.designs.find((each) => each.design === design)!;
    return [
      `design ${design}${best ? ", on the front" : ""}`,
      ...Object.entries(one.values).map(([name, value]) => `${name} ${value}`),
      ...[this.across.value, this.up.value].map((name) => {
        const { unit } = this.choices().find((each) => each.name === name)!;
        return `${name} ${unitText(unit, this.value(design, name)!)}`;
      }),
    ];
  }
}
