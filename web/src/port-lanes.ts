// What the ports and the units of a tree do in the recorded cycles: a row for each, a box for each piece of time.

import { Surface, shortened } from "./canvas";
import { colour, colourIndex, css, inkOn, type Rgb } from "./colours";
import { unpack } from "./decode";
import { button, element } from "./dom";
import { count, cycles } from "./format";
import type { ResultPage } from "./results";

const NAMES = 132; // pixels of the names of lanes
const LANE = 20; // pixels of a lane
const RULER = 16;
const LEAST = 8; // cycles that are shown
const ZOOM = 1.6; // of a button or key
const CLICK = 4; // pixels that a pointer may move in a click
const UNITS = 0; // their lane, above those of the ports
const IDLE: Rgb = [150, 150, 150]; // units that wait

interface Header {
  begin: number;
  end: number;
  ports: string[];
  operands: string[];
  streams: { operand: number; way: string }[];
  causes: Record<string, number>;
}

/** A recording, unpacked. */
class Lanes {
  readonly header: Header;
  readonly begin: Float64Array;
  readonly length: Float64Array;
  readonly lane: Int32Array;
  readonly what: Int32Array;
  readonly number: Float64Array;

  constructor(found: Awaited<ReturnType<typeof unpack>>) {
    this.header = found.header as unknown as Header;
    this.begin = found.floats("begin");
    this.length = found.floats("length");
    this.lane = found.ints("lane");
    this.what = found.ints("what");
    this.number = found.floats("number");
  }

  /** The place of what happens in a lane at a time; -1 where nothing does. */
  at(lane: number, time: number): number {
    return this.lane.findIndex(
      (one, at) => one === lane && this.begin[at] <= time && time < this.begin[at] + this.length[at],
    );
  }
}

export class PortLanes {
  readonly element = element("div");
  private readonly surface = new Surface("What ports and units do. Click for what it is; wheel, drag or keys move.");
  private readonly said = element("p", { class: "note", "aria-live": "polite" });
  private readonly legend = element("p", { class: "note", id: "legend" });
  private readonly known = new Map<number, Promise<Lanes>>();
  private lanes: Lanes | null = null;
  private shown = -1;
  private from = 0;
  private to = 1;

  constructor(private readonly page: ResultPage) {
    const place = element("div", { class: "surface", id: "ports" });
    place.append(this.surface.canvas);
    const tool = (text: string, title: string, act: () => void) => button(text, title, act);
    this.element.append(
      element(
        "div",
        { class: "tools" },
        tool("in", "Fewer cycles (w)", () => this.zoom(ZOOM)),
        tool("out", "More cycles (s)", () => this.zoom(1 / ZOOM)),
        tool("back", "Earlier (a)", () => this.move(-0.5)),
        tool("on", "Later (d)", () => this.move(0.5)),
        tool("all", "All recorded cycles (0)", () => this.show(0, Number.POSITIVE_INFINITY)),
      ),
      place,
      this.said,
      this.legend,
    );
    this.listen();
  }

  /** Show a recording; of another one than before the beginning. */
  async load(run: number): Promise<void> {
    if (this.shown === run) {
      this.draw();
      return;
    }
    this.shown = run;
    let found = this.known.get(run);
    if (found === undefined) {
      found = unpack(document.getElementById(`run-${run}`)!.textContent!).then((unpacked) => new Lanes(unpacked));
      this.known.set(run, found);
    }
    const lanes = await found;
    if (this.shown !== run) return;
    this.lanes = lanes;
    this.said.textContent = "";
    this.explain(lanes.header.operands);
    this.show(0, Number.POSITIVE_INFINITY);
    document.documentElement.dataset.recording = `${run}`;
  }

  private get begin(): number {
    return this.lanes?.header.begin ?? 0;
  }

  private get end(): number {
    return this.lanes?.header.end ?? 1;
  }

  private get rate(): number {
    return Math.max(1, this.surface.width - NAMES) / (this.to - this.from);
  }

  private x(cycle: number): number {
    return NAMES + (cycle - this.from) * this.rate;
  }

  private cycle(x: number): number {
    return this.from + (x - NAMES) / this.rate;
  }

  private show(from: number, to: number): void {
    const most = this.end - this.begin;
    const length = Math.min(most, Math.max(Math.min(LEAST, most), to - from));
    this.from = Math.min(Math.max(this.begin, from), this.end - length);
    this.to = this.from + length;
    this.draw();
  }

  private zoom(factor: number, around = (this.from + this.to) / 2): void {
    this.show(around - (around - this.from) / factor, around + (this.to - around) / factor);
  }

  private move(share: number): void {
    const step = share * (this.to - this.from);
    this.show(this.from + step, this.to + step);
  }

  private listen(): void {
    const { canvas } = this.surface;
    let held: { x: number; from: number } | null = null;
    let moved = 0;
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const act = {
        w: () => this.zoom(ZOOM),
        s: () => this.zoom(1 / ZOOM),
        a: () => this.move(-0.25),
        d: () => this.move(0.25),
        ArrowLeft: () => this.move(-0.25),
        ArrowRight: () => this.move(0.25),
        "0": () => this.show(0, Number.POSITIVE_INFINITY),
      }[event.key];
      if (act === undefined) return;
      act();
      event.preventDefault();
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        this.zoom(Math.exp(-event.deltaY / 300), this.cycle(this.surface.place(event)[0]));
        event.preventDefault();
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = { x: event.clientX, from: this.from };
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null) {
        this.hover(event);
        return;
      }
      moved = Math.max(moved, Math.abs(event.clientX - held.x));
      const from = held.from + (held.x - event.clientX) / this.rate;
      if (moved > CLICK) this.show(from, from + this.to - this.from);
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held !== null && moved <= CLICK) this.said.textContent = this.under(event).join("; ");
      held = null;
    });
    canvas.addEventListener("pointercancel", () => {
      held = null;
    });
    canvas.addEventListener("pointerleave", () => this.page.tip.hide());
  }

  private hover(event: MouseEvent): void {
    const lines = this.under(event);
    if (lines.length === 0) this.page.tip.hide();
    else this.page.tip.show(event, lines);
  }

  /** What is under a pointer, in words. */
  private under(event: MouseEvent): string[] {
    const { lanes } = this;
    const [x, y] = this.surface.place(event);
    const lane = Math.floor((y - RULER) / LANE);
    if (lanes === null || x < NAMES || lane < 0 || lane > lanes.header.ports.length) return [];
    const at = lanes.at(lane, this.cycle(x));
    const name = lane === UNITS ? "units" : lanes.header.ports[lane - 1];
    if (at < 0) return [`${name}: idle`, `cycle ${count(Math.floor(this.cycle(x)))} (simulated)`];
    const begin = lanes.begin[at];
    const time = `${cycles(lanes.length[at])} from cycle ${count(begin)} on (simulated)`;
    if (lane === UNITS) return [`units: ${this.cause(lanes.what[at])}`, time];
    const stream = lanes.header.streams[lanes.what[at]];
    return [
      `${name}: ${lanes.header.operands[stream.operand]}, ${stream.way}`,
      `tile ${count(lanes.number[at] + 1)}`,
      time,
    ];
  }

  private cause(number: number): string {
    const { causes } = this.lanes!.header;
    return Object.keys(causes).find((name) => causes[name] === number) ?? "";
  }

  private rgb(lanes: Lanes, at: number): Rgb {
    if (lanes.lane[at] === UNITS) return lanes.what[at] === lanes.header.causes.compute ? WORK : IDLE;
    return operandColour(lanes.header.streams[lanes.what[at]].operand);
  }

  private explain(operands: readonly string[]): void {
    const swatch = (rgb: Rgb, text: string) => {
      const box = element("span", { class: "swatch" });
      box.style.background = css(rgb);
      return element("span", {}, box, ` ${text}`);
    };
    this.legend.replaceChildren(
      ...operands.map((name, at) => swatch(operandColour(at), name)),
      swatch(WORK, "units compute"),
      swatch(IDLE, "units wait"),
    );
  }

  draw(): void {
    const { lanes, surface } = this;
    if (lanes === null) return;
    const names = ["units", ...lanes.header.ports];
    if (!surface.fit(RULER + names.length * LANE)) return;
    const { context, width, height } = surface;
    const { theme } = this.page;
    context.clearRect(0, 0, width, height);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    for (const [row, name] of names.entries()) {
      context.fillStyle = css(theme.lane);
      context.fillRect(NAMES, RULER + row * LANE, width - NAMES, LANE - 2);
      context.fillStyle = theme.faint;
      context.textAlign = "right";
      context.fillText(shortened(name, NAMES - 8), NAMES - 5, RULER + row * LANE + LANE / 2 - 1);
    }
    context.textAlign = "left";
    for (let at = 0; at < lanes.begin.length; at++) this.box(lanes, at);
    context.fillStyle = theme.faint;
    context.fillText(`cycle ${count(Math.floor(this.from))}`, NAMES, RULER / 2);
    context.textAlign = "right";
    context.fillText(`${count(Math.ceil(this.to))}`, width, RULER / 2);
  }

  private box(lanes: Lanes, at: number): void {
    const { context, width } = this.surface;
    const left = Math.max(NAMES, this.x(lanes.begin[at]));
    const right = Math.min(width, this.x(lanes.begin[at] + lanes.length[at]));
    if (right <= left) return;
    const rgb = this.rgb(lanes, at);
    const top = RULER + lanes.lane[at] * LANE;
    const wide = Math.max(0.6, right - left - (right - left > 3 ? 1 : 0)); // what can be told apart stays apart
    context.fillStyle = css(rgb);
    context.fillRect(left, top, wide, LANE - 2);
    const text = lanes.lane[at] === UNITS ? this.cause(lanes.what[at]) : `${count(lanes.number[at] + 1)}`;
    if (wide < 7 * text.length + 6) return;
    context.fillStyle = inkOn(rgb);
    context.fillText(text, left + 4, top + LANE / 2 - 1);
  }
}

const WORK = colour(1);

function operandColour(operand: number): Rgb {
  return colour(colourIndex(operand + 1));
}
