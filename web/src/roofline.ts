// The roofline: operations a cycle over operations a byte, under what units and ports can do.

import { Surface } from "./canvas";
import { colour, colourIndex, css, type Rgb } from "./colours";
import { element, scrolled, table } from "./dom";
import { bytes, cycles, fixed, percent, scaled } from "./format";
import type { Page, Pane } from "./pane";
import type { Work } from "./run";
import type { Kind, State } from "./selection";

const HEIGHT = 420;
const [LEFT, RIGHT, TOP, BOTTOM] = [66, 16, 14, 44];
const NONE = 64; // pixels right of the plot for what has no traffic at all
const NEAR = 12;
const MOST_LISTED = 12;
const WIDEST = 1_100; // pixels of the plot

type Level = "ddr" | "gb";

interface Point {
  kind: Kind;
  number: number;
  name: string;
  work: Work;
  operations: number; // two a multiply-accumulate on matrix units, else those of vector units
  rate: number; // operations a cycle
  intensity: number; // operations a byte; infinite without traffic
}

const KINDS: readonly [Kind, "operators" | "sub_graphs" | "instances"][] = [
  ["operator", "operators"],
  ["sub-graph", "sub_graphs"],
  ["instance", "instances"],
];

export class Roofline implements Pane {
  readonly element = element("section", { id: "roofline", "data-pane": "roofline" });
  private readonly surface = new Surface(
    "Roofline: operations a cycle over operations a byte. The table below lists it.",
  );
  private readonly kinds = element("select", { name: "points", "aria-label": "Points" });
  private readonly levels = element("select", { name: "level", "aria-label": "Traffic" });
  private readonly list = scrolled();
  private points: Point[] = [];
  private x: [number, number] = [0, 1]; // powers of ten
  private y: [number, number] = [0, 1];

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    place.append(this.surface.canvas);
    this.kinds.append(...KINDS.map(([kind]) => element("option", { value: kind }, `${kind}s`)));
    for (const choice of [this.kinds, this.levels]) choice.addEventListener("change", () => this.arrange());
    this.element.append(
      element("h2", {}, "Roofline"),
      element(
        "p",
        { class: "note" },
        "Simulated work and traffic of the first batch on one cluster, over the time in which any instruction of it " +
          "runs. Round: what uses matrix units, whose multiply-accumulates count as two operations each; square: primitive " +
          "operations of what uses vector units alone. The larger, the longer it runs. The ceilings are the machine's: its units at " +
          "their peak, and the port of the memory at its bandwidth.",
      ),
      element(
        "div",
        { class: "tools" },
        element("label", {}, "points ", this.kinds),
        element("label", {}, "traffic of ", this.levels),
      ),
      place,
      this.list,
    );
    this.surface.canvas.addEventListener("click", (event) => this.click(event));
    this.surface.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.surface.canvas.addEventListener("pointerleave", () => page.tip.hide());
    this.surface.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  load(): void {
    const { ports } = this.page.run.header.ceilings;
    const chosen = this.levels.value;
    this.levels.replaceChildren(...ports.map(({ level }) => element("option", { value: level }, level.toUpperCase())));
    if (ports.some(({ level }) => level === chosen)) this.levels.value = chosen;
    this.collect();
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (changed.size === 2 && changed.has("from") && changed.has("to")) return; // it shows no time
    if (this.surface.fit(HEIGHT)) this.paint();
  }

  private arrange(): void {
    this.collect();
    if (this.surface.fit(HEIGHT)) this.paint();
  }

  private get level(): Level {
    return this.levels.value as Level;
  }

  private get bandwidth(): number {
    return this.page.run.header.ceilings.ports.find(({ level }) => level === this.level)!.bytes_per_cycle;
  }

  private collect(): void {
    const { header } = this.page.run;
    const [kind, key] = KINDS.find(([each]) => each === this.kinds.value) ?? KINDS[0];
    const names =
      kind === "operator"
        ? header.graph.operators.map((operator) => operator.name)
        : kind === "sub-graph"
          ? header.sub_graphs
          : header.instances;
    this.points = header.work[key].flatMap((work, number) => {
      const operations = work.matrix_macs > 0 ? 2 * work.matrix_macs : work.vector_operations;
      if (operations === 0 || work.occupied_cycles === 0) return [];
      const moved = this.level === "ddr" ? work.ddr_bytes : work.gb_bytes;
      const intensity = moved === 0 ? Number.POSITIVE_INFINITY : operations / moved;
      return [
        { kind, number, name: names[number], work, operations, rate: operations / work.occupied_cycles, intensity },
      ];
    });
    const ridge = Math.max(...header.ceilings.peaks.map((peak) => peak.operations_per_cycle)) / this.bandwidth;
    const finite = this.points.filter((point) => Number.isFinite(point.intensity)).map((point) => point.intensity);
    this.x = powers([...finite, ridge, ridge / 10]);
    this.y = powers([
      ...this.points.map((point) => point.rate),
      ...header.ceilings.peaks.map((peak) => 1.2 * peak.operations_per_cycle),
    ]);
    this.fill();
  }

  /** The points that take longest, as a table. */
  private fill(): void {
    const longest = [...this.points].sort(
      (a, b) => b.work.occupied_cycles - a.work.occupied_cycles || a.number - b.number,
    );
    const rows = longest.slice(0, MOST_LISTED).map((point) => {
      const name = element("button", { type: "button" }, point.name);
      name.addEventListener("click", () => this.page.select({ kind: point.kind, number: point.number }));
      return [
        name,
        cycles(point.work.occupied_cycles),
        fixed(point.rate, 1),
        this.intensityText(point),
        percent(point.rate / this.ceilingOf(point)),
      ];
    });
    const heads = [
      `${this.kinds.value}`,
      "occupied (simulated)",
      "operations a cycle (simulated)",
      `operations a byte of ${this.level.toUpperCase()}`,
      "of its ceiling",
    ];
    this.list.replaceChildren(element("h3", {}, "Those that take longest"), table(heads, rows, "roofline"));
  }

  private intensityText(point: Point): string {
    return Number.isFinite(point.intensity) ? fixed(point.intensity, 2) : "no traffic";
  }

  /** What the units that do the work of a point, and the port, let it reach. */
  private ceilingOf(point: Point): number {
    const { peaks } = this.page.run.header.ceilings;
    const of = (vector: boolean) =>
      peaks.filter((peak) => (peak.name === "vector units") === vector).map((peak) => peak.operations_per_cycle);
    const own = of(point.work.matrix_macs === 0);
    const peak = Math.max(...(own.length > 0 ? own : peaks.map((each) => each.operations_per_cycle)));
    return Math.min(peak, point.intensity * this.bandwidth);
  }

  private px(intensity: number): number {
    const right = this.plotWidth - RIGHT - NONE;
    if (!Number.isFinite(intensity)) return right + NONE / 2;
    return LEFT + ((Math.log10(intensity) - this.x[0]) / (this.x[1] - this.x[0])) * (right - LEFT);
  }

  private py(rate: number): number {
    const share = (Math.log10(rate) - this.y[0]) / (this.y[1] - this.y[0]);
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP);
  }

  private get plotWidth(): number {
    return Math.min(this.surface.width, WIDEST);
  }

  private paint(): void {
    const { page, surface } = this;
    const { context } = surface;
    context.clearRect(0, 0, surface.width, surface.height);
    context.font = "11px sans-serif";
    this.axes();
    this.ceilings();
    const { marks, state } = page;
    const belongs = (point: Point) => {
      if (marks === null) return true;
      if (point.kind === state.selected?.kind) return point.number === state.selected.number;
      const own =
        point.kind === "operator" ? marks.operators : point.kind === "sub-graph" ? marks.subGraphs : marks.instances;
      return own[point.number] === 1;
    };
    for (const shown of [false, true]) {
      for (const point of this.points) if (belongs(point) === shown) this.dot(point, shown);
    }
    if (marks === null) return;
    context.textBaseline = "middle";
    context.fillStyle = page.theme.ink;
    for (const point of this.points.filter(belongs).slice(0, 4)) {
      const x = this.px(point.intensity);
      const left = x > this.plotWidth / 2;
      context.textAlign = left ? "right" : "left";
      context.fillText(point.name, x + (left ? -11 : 11), this.py(point.rate));
      context.textAlign = "left";
    }
  }

  private dot(point: Point, shown: boolean): void {
    const { context } = this.surface;
    const share = point.work.occupied_cycles / this.page.run.duration;
    const radius = 3.5 + 8 * Math.sqrt(Math.min(1, share));
    const rgb: Rgb = colour(colourIndex(point.number));
    context.globalAlpha = shown ? 0.9 : 0.18;
    context.fillStyle = css(rgb);
    context.strokeStyle = this.page.theme.ink;
    context.lineWidth = this.page.marks !== null && shown ? 2 : 0.7;
    const [x, y] = [this.px(point.intensity), this.py(point.rate)];
    context.beginPath();
    if (point.work.matrix_macs > 0) context.arc(x, y, radius, 0, 2 * Math.PI);
    else context.rect(x - radius * 0.85, y - radius * 0.85, radius * 1.7, radius * 1.7);
    context.fill();
    context.stroke();
    context.globalAlpha = 1;
  }

  private axes(): void {
    const { context } = this.surface;
    const { theme } = this.page;
    const right = this.plotWidth - RIGHT - NONE;
    context.strokeStyle = theme.line;
    context.fillStyle = theme.faint;
    context.lineWidth = 1;
    context.textBaseline = "top";
    context.textAlign = "center";
    const every = this.px(10 ** (this.x[0] + 1)) - this.px(10 ** this.x[0]) < 34 ? 2 : 1; // where texts would touch
    for (let power = this.x[0]; power <= this.x[1]; power++) {
      const x = this.px(10 ** power);
      line(context, x, TOP, x, HEIGHT - BOTTOM);
      if (power < this.x[1] && (power - this.x[0]) % every === 0) {
        context.fillText(powerText(power), x, HEIGHT - BOTTOM + 5);
      }
    }
    const level = this.level.toUpperCase();
    context.fillText(`no ${level}`, right + NONE / 2, HEIGHT - BOTTOM + 5);
    context.fillText("traffic", right + NONE / 2, HEIGHT - BOTTOM + 17);
    line(context, right + 6, TOP, right + 6, HEIGHT - BOTTOM);
    context.fillStyle = theme.ink;
    context.fillText(`operational intensity (operations a byte of ${level} traffic)`, (LEFT + right) / 2, HEIGHT - 16);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let power = this.y[0]; power <= this.y[1]; power++) {
      const y = this.py(10 ** power);
      line(context, LEFT, y, this.plotWidth - RIGHT, y);
      context.fillStyle = theme.faint;
      context.fillText(powerText(power), LEFT - 5, y);
    }
    context.save();
    context.translate(12, (HEIGHT - BOTTOM + TOP) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillStyle = theme.ink;
    context.fillText("operations a cycle", 0, 0);
    context.restore();
    context.textAlign = "left";
  }

  private ceilings(): void {
    const { context } = this.surface;
    const { theme, run } = this.page;
    const right = this.plotWidth - RIGHT;
    context.strokeStyle = theme.ink;
    context.fillStyle = theme.ink;
    context.lineWidth = 1.5;
    context.textBaseline = "bottom";
    const hz = run.header.report.what.clock_hz;
    for (const peak of run.header.ceilings.peaks) {
      const ridge = Math.max(peak.operations_per_cycle / this.bandwidth, 10 ** this.x[0]);
      const y = this.py(peak.operations_per_cycle);
      line(context, this.px(ridge), y, right, y);
      const text = `${peak.name}: ${scaled(peak.operations_per_cycle)} a cycle, ${scaled(peak.operations_per_cycle * hz)}op/s`;
      context.textAlign = "right";
      context.fillText(text, right - 4, y - 3);
    }
    context.textAlign = "left";
    const highest = Math.max(...run.header.ceilings.peaks.map((peak) => peak.operations_per_cycle));
    const top = highest / this.bandwidth;
    const low = Math.max(10 ** this.x[0], 10 ** this.y[0] / this.bandwidth);
    line(context, this.px(low), this.py(low * this.bandwidth), this.px(top), this.py(highest));
    const [x, y] = [this.px(low), this.py(low * this.bandwidth)];
    const angle = Math.atan2(this.py(highest) - y, this.px(top) - x);
    context.save();
    context.translate(x + 14 * Math.cos(angle), y + 14 * Math.sin(angle) - 4);
    context.rotate(angle);
    const name = `${this.level.toUpperCase()}: ${fixed(this.bandwidth, 2)} B a cycle, ${bytes(this.bandwidth * hz)}/s`;
    context.fillText(name, 0, 0);
    context.restore();
  }

  private under(event: MouseEvent): Point | null {
    const [x, y] = this.surface.place(event);
    let found: Point | null = null;
    let least = NEAR;
    for (const point of this.points) {
      const far = Math.hypot(this.px(point.intensity) - x, this.py(point.rate) - y);
      if (far < least) [found, least] = [point, far];
    }
    return found;
  }

  private click(event: MouseEvent): void {
    const point = this.under(event);
    this.page.select(point === null ? null : { kind: point.kind, number: point.number });
  }

  private hover(event: MouseEvent): void {
    const point = this.under(event);
    if (point === null) {
      this.page.tip.hide();
      return;
    }
    const hz = this.page.run.header.report.what.clock_hz;
    this.page.tip.show(event, [
      `${point.kind} ${point.name}`,
      `${fixed(point.rate, 1)} operations a cycle, ${scaled(point.rate * hz)}op/s`,
      `${this.intensityText(point)} operations a byte of ${this.level.toUpperCase()}`,
      `${percent(point.rate / this.ceilingOf(point))} of its ceiling`,
      `${scaled(point.operations)} operations in ${cycles(point.work.occupied_cycles)}`,
    ]);
  }

  /** Arrows go from point to point, from the left. */
  private key(event: KeyboardEvent): void {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    const sorted = [...this.points].sort((a, b) => a.intensity - b.intensity || a.number - b.number);
    const { selected } = this.page.state;
    const at = sorted.findIndex((point) => point.kind === selected?.kind && point.number === selected.number);
    const next = sorted[at + (event.key === "ArrowRight" ? 1 : -1)] ?? sorted[0];
    if (next !== undefined) this.page.select({ kind: next.kind, number: next.number });
  }
}

function line(context: CanvasRenderingContext2D, x: number, y: number, toX: number, toY: number): void {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

/** A power of ten in few letters: 0.1, 10, 1 k. */
function powerText(power: number): string {
  if (power < 0) return (10 ** power).toString();
  const step = Math.min(4, Math.floor(power / 3));
  return `${10 ** (power - 3 * step)} ${["", "k", "M", "G", "T"][step]}`.trim();
}

/** The whole powers of ten around values. */
function powers(values: number[]): [number, number] {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  const low = Math.floor(Math.min(...logs) - 1e-9);
  return [low, Math.max(low + 1, Math.ceil(Math.max(...logs) - 1e-9))];
}
