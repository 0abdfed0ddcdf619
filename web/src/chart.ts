// A chart of points on a canvas: two axes, linear or logarithmic, a click on a point, and bars of a histogram.

import { Surface } from "./canvas";
import type { Theme } from "./colours";
import { css, type Rgb } from "./colours";
import type { Tip } from "./dom";

export interface Axis {
  label: string; // with the unit, and where the numbers come from
  text: (value: number) => string;
}

export interface ChartPoint {
  x: number;
  y: number;
  colour: Rgb;
  shape: "round" | "diamond";
  strong: boolean; // drawn last, larger
}

export interface ChartOptions {
  x: Axis;
  y: Axis;
  points: ChartPoint[];
  joined: number[]; // points that steps join, in this order
  until?: number; // where on the horizontal axis the last step ends
  diagonal: string; // what the line of equal values stands for; "": no such line
  selected: number; // -1: none
}

/** Whose points the chart shows: `at` counts its points; -1 is none. */
export interface Chooser {
  selected: () => number;
  select: (at: number) => void;
  describe: (at: number) => string[];
}

const HEIGHT = 400;
const [LEFT, RIGHT, TOP, BOTTOM] = [86, 18, 16, 46];
const NEAR = 14;
const WIDE = 20; // from this ratio of the largest to the smallest value on, an axis is logarithmic
const TICKS = 6;

interface Scale {
  low: number;
  high: number;
  logarithmic: boolean;
  ticks: number[];
}

export class Chart {
  readonly surface: Surface;
  private options: ChartOptions | null = null;
  private x!: Scale;
  private y!: Scale;

  constructor(label: string) {
    this.surface = new Surface(label);
  }

  /** Let points be chosen with the pointer and the arrow keys, and described under the pointer. */
  listen(tip: Tip, chooser: Chooser): void {
    const { canvas } = this.surface;
    canvas.addEventListener("click", (event) => chooser.select(this.under(event)));
    canvas.addEventListener("pointermove", (event) => {
      const at = this.under(event);
      if (at < 0) tip.hide();
      else tip.show(event, chooser.describe(at));
    });
    canvas.addEventListener("pointerleave", () => tip.hide());
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") chooser.select(-1);
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      chooser.select(this.beside(chooser.selected(), event.key === "ArrowRight"));
    });
  }

  draw(theme: Theme, options: ChartOptions): void {
    this.options = options;
    const { points } = options;
    if (!this.surface.fit(HEIGHT) || points.length === 0) return;
    const xs = [...points.map((point) => point.x), ...(options.until === undefined ? [] : [options.until])];
    const ys = points.map((point) => point.y);
    if (options.diagonal !== "") this.x = this.y = scaleOf([...xs, ...ys]);
    else [this.x, this.y] = [scaleOf(xs), scaleOf(ys)];
    const { context, width } = this.surface;
    context.clearRect(0, 0, width, HEIGHT);
    context.font = "11px sans-serif";
    this.axes(theme, options);
    this.lines(theme, options);
    const order = points
      .map((_, at) => at)
      .sort((a, b) => Number(points[a].strong) - Number(points[b].strong) || a - b);
    for (const at of order) if (at !== options.selected) this.dot(theme, points[at], false);
    if (options.selected >= 0) this.dot(theme, points[options.selected], true);
  }

  private px(value: number): number {
    return LEFT + share(this.x, value) * (this.surface.width - LEFT - RIGHT);
  }

  private py(value: number): number {
    return HEIGHT - BOTTOM - share(this.y, value) * (HEIGHT - TOP - BOTTOM);
  }

  private axes(theme: Theme, options: ChartOptions): void {
    const { context, width } = this.surface;
    context.strokeStyle = theme.line;
    context.lineWidth = 1;
    context.fillStyle = theme.faint;
    context.textBaseline = "top";
    context.textAlign = "center";
    let free = 0;
    for (const tick of this.x.ticks) {
      const at = this.px(tick);
      this.line(at, TOP, at, HEIGHT - BOTTOM);
      const text = options.x.text(tick);
      const half = context.measureText(text).width / 2;
      if (at - half < free || at + half > width) continue;
      context.fillText(text, at, HEIGHT - BOTTOM + 5);
      free = at + half + 6;
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tick of this.y.ticks) {
      const at = this.py(tick);
      this.line(LEFT, at, width - RIGHT, at);
      context.fillText(options.y.text(tick), LEFT - 5, at);
    }
    context.fillStyle = theme.ink;
    context.textAlign = "center";
    context.fillText(options.x.label, (LEFT + width - RIGHT) / 2, HEIGHT - 12);
    context.save();
    context.translate(11, (HEIGHT - BOTTOM + TOP) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(options.y.label, 0, 0);
    context.restore();
  }

  private lines(theme: Theme, options: ChartOptions): void {
    const { context } = this.surface;
    context.lineWidth = 1.5;
    if (options.diagonal !== "") {
      context.strokeStyle = theme.faint;
      this.line(this.px(this.x.low), this.py(this.x.low), this.px(this.x.high), this.py(this.x.high));
      context.fillStyle = theme.faint;
      context.textAlign = "right";
      context.textBaseline = "top";
      context.fillText(options.diagonal, this.surface.width - RIGHT - 4, HEIGHT - BOTTOM - 18);
    }
    context.strokeStyle = theme.ink;
    context.beginPath();
    for (const [number, at] of options.joined.entries()) {
      const [x, y] = [this.px(options.points[at].x), this.py(options.points[at].y)];
      if (number === 0) context.moveTo(x, y);
      else {
        context.lineTo(x, this.py(options.points[options.joined[number - 1]].y)); // a step: between them is nothing
        context.lineTo(x, y);
      }
    }
    const last = options.joined.at(-1);
    if (last !== undefined && options.until !== undefined) {
      context.lineTo(this.px(options.until), this.py(options.points[last].y));
    }
    context.stroke();
  }

  private dot(theme: Theme, point: ChartPoint, selected: boolean): void {
    const { context } = this.surface;
    const [x, y] = [this.px(point.x), this.py(point.y)];
    const radius = (point.strong ? 6 : 4) + (selected ? 2 : 0);
    context.fillStyle = css(point.colour);
    context.strokeStyle = selected ? theme.accent : theme.ink;
    context.lineWidth = selected ? 3 : 0.7;
    context.globalAlpha = point.strong || selected ? 1 : 0.7;
    context.beginPath();
    if (point.shape === "round") context.arc(x, y, radius, 0, 2 * Math.PI);
    else {
      context.moveTo(x, y - 1.3 * radius);
      context.lineTo(x + 1.3 * radius, y);
      context.lineTo(x, y + 1.3 * radius);
      context.lineTo(x - 1.3 * radius, y);
      context.closePath();
    }
    context.fill();
    context.stroke();
    context.globalAlpha = 1;
  }

  private line(x: number, y: number, toX: number, toY: number): void {
    const { context } = this.surface;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
  }

  /** The point under a pointer, -1 where there is none. */
  private under(event: MouseEvent): number {
    const [x, y] = this.surface.place(event);
    let found = -1;
    let least = NEAR;
    for (const [at, point] of (this.options?.points ?? []).entries()) {
      const far = Math.hypot(this.px(point.x) - x, this.py(point.y) - y);
      if (far < least) [found, least] = [at, far];
    }
    return found;
  }

  /** The next point to the right (or to the left) of one. */
  private beside(at: number, right: boolean): number {
    const points = this.options?.points ?? [];
    const order = points.map((_, number) => number).sort((a, b) => points[a].x - points[b].x || a - b);
    const place = order.indexOf(at);
    return order[place < 0 ? 0 : Math.max(0, Math.min(order.length - 1, place + (right ? 1 : -1)))] ?? -1;
  }
}

function share(scale: Scale, value: number): number {
  const turn = scale.logarithmic ? Math.log : (one: number) => one;
  return (turn(value) - turn(scale.low)) / (turn(scale.high) - turn(scale.low));
}

/** From a little below the least value to a little above the largest, with round ticks. */
function scaleOf(values: number[]): Scale {
  const least = Math.min(...values);
  const most = Math.max(...values);
  if (least > 0 && most >= WIDE * least) {
    const [low, high] = [least / 1.25, most * 1.25];
    const ticks: number[] = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      if (10 ** power >= low && 10 ** power <= high) ticks.push(10 ** power);
    }
    return { low, high, logarithmic: true, ticks: ticks.length > 0 ? ticks : [low, high] };
  }
  const room = 0.06 * (most - least || Math.abs(most) || 1);
  const [low, high] = [least >= 0 ? Math.max(0, least - room) : least - room, most + room];
  const rough = (high - low) / TICKS;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * unit >= rough)! * unit;
  const ticks: number[] = [];
  for (let at = Math.ceil(low / step); at * step <= high; at++) ticks.push(at * step);
  return { low, high, logarithmic: false, ticks };
}

export interface Bar {
  label: string;
  value: number;
  text: string; // above the bar
}

const BARS = 210; // pixels of height

/** Bars beside one another, with a number above and a label below each. */
export function drawBars(surface: Surface, theme: Theme, bars: Bar[], colour: Rgb): void {
  if (!surface.fit(BARS)) return;
  const { context, width } = surface;
  context.clearRect(0, 0, width, BARS);
  const most = Math.max(1, ...bars.map((bar) => bar.value));
  const wide = Math.min(110, (width - 8) / bars.length);
  context.textAlign = "center";
  for (const [at, bar] of bars.entries()) {
    const high = (bar.value / most) * (BARS - 56);
    const x = 4 + at * wide;
    context.fillStyle = css(colour);
    context.fillRect(x + 2, BARS - 32 - high, wide - 4, high);
    context.fillStyle = theme.ink;
    context.font = "11px sans-serif";
    context.textBaseline = "bottom";
    const lines = context.measureText(bar.text).width + 8 < wide ? [bar.text] : bar.text.split(" ").reverse();
    for (const [line, word] of lines.entries()) context.fillText(word, x + wide / 2, BARS - 35 - high - 11 * line);
    context.fillStyle = theme.faint;
    context.font = wide < 62 ? "9px sans-serif" : "11px sans-serif";
    context.textBaseline = "top";
    for (const [line, word] of bar.label.split("\n").entries()) {
      context.fillText(word, x + wide / 2, BARS - 28 + 13 * line);
    }
  }
}
