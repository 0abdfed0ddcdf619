// The window of time that the timeline and the memories share: how it is moved, and its ruler.

import type { Surface } from "./canvas";
import { count, seconds } from "./format";
import type { Page } from "./pane";

export const GUTTER = 92; // CSS pixels of names, left of what has a time
const LEAST = 20; // cycles in a window
const STEP = 1.25; // of a key that zooms
const CLICK = 4; // pixels that a pointer may move in a click

export class TimeScale {
  constructor(
    readonly from: number,
    readonly to: number,
    readonly width: number, // CSS pixels of the surface
  ) {}

  /** Pixels of one cycle. */
  get rate(): number {
    return Math.max(1, this.width - GUTTER) / (this.to - this.from);
  }

  x(cycle: number): number {
    return GUTTER + (cycle - this.from) * this.rate;
  }

  cycle(x: number): number {
    return this.from + (x - GUTTER) / this.rate;
  }
}

export function scaleOf(page: Page, surface: Surface): TimeScale {
  return new TimeScale(page.state.from, page.state.to, surface.width);
}

export function show(page: Page, from: number, to: number): void {
  const most = Math.max(1, page.run.duration);
  const length = Math.min(most, Math.max(Math.min(LEAST, most), to - from));
  const begin = Math.min(Math.max(0, from), most - length);
  page.change({ from: begin, to: begin + length });
}

function zoom(page: Page, factor: number, around: number): void {
  const { from, to } = page.state;
  show(page, around - (around - from) / factor, around + (to - around) / factor);
}

/** The window around a piece of time, which then takes a third of it. */
export function showAround(page: Page, start: number, end: number): void {
  const length = Math.max(end - start, LEAST);
  show(page, start - length, end + length);
}

/** Keys, wheel and drag on a surface; `click` gets what is neither zoom nor pan. */
export function attachTime(page: Page, surface: Surface, click: (event: MouseEvent) => void): void {
  const { canvas } = surface;
  let pointer = Number.NaN; // where it is, for the keys
  const held = new Map<number, { x: number; y: number }>();
  let moved = 0;

  canvas.addEventListener("keydown", (event) => {
    const { from, to } = page.state;
    const centre = Number.isNaN(pointer) ? (from + to) / 2 : scaleOf(page, surface).cycle(pointer);
    const step = (to - from) / 8;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "w") zoom(page, STEP, centre);
    else if (event.key === "s") zoom(page, 1 / STEP, centre);
    else if (event.key === "a") show(page, from - step, to - step);
    else if (event.key === "d") show(page, from + step, to + step);
    else if (event.key === "0") show(page, 0, page.run.duration);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      const along = event.shiftKey ? event.deltaY : event.deltaX;
      const zooms = event.ctrlKey || event.metaKey || document.activeElement === canvas;
      const { from, to } = page.state;
      if (Math.abs(along) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) {
        const shift = along / scaleOf(page, surface).rate;
        show(page, from + shift, to + shift);
      } else if (zooms) {
        zoom(page, Math.exp(-event.deltaY / 300), scaleOf(page, surface).cycle(surface.place(event)[0]));
      } else return;
      event.preventDefault();
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = surface.place(event);
    held.set(event.pointerId, { x, y });
    moved = 0;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = surface.place(event);
    pointer = x;
    const before = held.get(event.pointerId);
    if (before === undefined) return;
    moved += Math.abs(x - before.x) + Math.abs(y - before.y);
    const { from, to } = page.state;
    if (held.size === 1) {
      const shift = (before.x - x) / scaleOf(page, surface).rate;
      if (moved > CLICK) show(page, from + shift, to + shift);
    } else {
      const other = [...held].find(([id]) => id !== event.pointerId)![1];
      const factor = Math.max(1, Math.abs(x - other.x)) / Math.max(1, Math.abs(before.x - other.x));
      zoom(page, factor, scaleOf(page, surface).cycle(other.x));
    }
    held.set(event.pointerId, { x, y });
  });
  const release = (event: PointerEvent) => {
    const only = held.delete(event.pointerId) && held.size === 0;
    if (only && event.type === "pointerup" && moved <= CLICK) click(event);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    pointer = Number.NaN;
    page.tip.hide();
  });
}

/** A step of 1, 2 or 5 times a power of ten that leaves at most so many in a length. */
function niceStep(length: number, most: number): number {
  const least = length / most;
  const power = 10 ** Math.floor(Math.log10(least));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= least) ?? 10);
}

/** Times along the upper edge, and a line below each. */
export function drawRuler(page: Page, surface: Surface, bottom: number): void {
  const { context } = surface;
  const scale = scaleOf(page, surface);
  const step = Math.max(1, niceStep(scale.to - scale.from, Math.max(3, (surface.width - GUTTER) / 90)));
  context.font = "11px sans-serif";
  context.textBaseline = "alphabetic";
  context.lineWidth = 1;
  for (let at = Math.ceil(scale.from / step) * step; at <= scale.to; at += step) {
    const x = Math.round(scale.x(at)) + 0.5;
    context.strokeStyle = page.theme.line;
    context.beginPath();
    context.moveTo(x, 14);
    context.lineTo(x, bottom);
    context.stroke();
    context.fillStyle = page.theme.faint;
    const fine = scale.to - scale.from < 20_000;
    const text = at === 0 ? "0" : fine ? `${count(at)} cyc` : seconds(page.run.secondsOf(at));
    if (x + 6 * text.length < surface.width) context.fillText(text, x + 3, 11);
  }
}
