// The timeline: a lane for each engine, and if asked for each port.

import { clipped, Surface } from "./canvas";
import { CAUSE_COLOURS, colour, colourIndices, css, inkOn, type Rgb } from "./colours";
import { button, element } from "./dom";
import { bytes, count, fixed, percent, seconds } from "./format";
import { Lane, Port, paintIdle, paintLane, paintPort, Row } from "./lanes";
import type { Page, Pane } from "./pane";
import { criticalPath, lastToEnd } from "./run";
import type { State } from "./selection";
import { attachTime, drawRuler, GUTTER, scaleOf, show, showAround } from "./time";

const TOP = 20; // pixels of the ruler
const HIGH = 16; // of a lane
const BETWEEN = 7; // before the lanes of another core
const MOST_NAMED = 300; // boxes of a lane that may have their names in them
const MOST_ARROWS = 60; // of what the selected instruction waited for, and of what waited for it
const IDLE_PIXELS = 5; // of an idle time that can be clicked
const HATCH = 6; // device pixels from line to line
const WAITS = [
  "waits for a load, which comes closer to a core",
  "waits for a store, which goes towards GB or DDR",
  "waits for another engine to compute",
  "waits for a transfer that others delayed at its ports",
  "waits for room in memory",
  "waits for a kernel to start",
  "has nothing left to do",
];
const PORT_COLOUR: Rgb = [0, 114, 178];

type Switch = "path" | "ports" | "idle";

interface LaneRow {
  name: string;
  core: number | null;
  lane: Lane | null; // of an engine
  idle: Lane | null; // its idle times
  port: Port | null; // else of a port
  bandwidth: number; // bytes a cycle of a port
  y: number;
}

export class Timeline implements Pane {
  readonly element = element("section", { id: "timeline", "data-pane": "timeline" });
  private readonly surface = new Surface(
    "Timeline. Keys: w and s zoom, a and d move, 0 shows everything, arrows go from instruction to instruction.",
  );
  private readonly strip = document.createElement("canvas").getContext("2d")!;
  private readonly layer = document.createElement("canvas").getContext("2d")!; // of idle times
  private readonly hatch = hatching();
  private readonly buttons = element("div", { class: "tools" });
  private readonly legend = element("div", { class: "tools", id: "causes" });
  private rows: LaneRow[] = [];
  private colours: Uint8Array = new Uint8Array(0);
  private path: number[] = [];
  private height = 0;
  private ports = new Map<number, Port>();
  private lanes: Lane[] = [];
  private idle: Lane[] = [];

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    place.append(this.surface.canvas);
    this.element.append(
      element("h2", {}, "Timeline"),
      element(
        "p",
        { class: "note" },
        "Simulated: what each engine of one cluster does when. Drag moves; w and s, ctrl + wheel or two fingers zoom; " +
          "a click selects an instruction. Neighbours that are too small to be seen are merged: the paler, the more of " +
          "the time an engine is idle. Hatched: idle time, by what the engine waits for; a click selects that.",
      ),
      this.buttons,
      this.legend,
      place,
    );
    attachTime(page, this.surface, (event) => this.click(event));
    this.surface.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.surface.canvas.addEventListener("dblclick", (event) => this.zoomTo(event));
    this.surface.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  load(): void {
    const { run } = this.page;
    this.lanes = run.lanes.map((numbers) => new Lane(run, numbers));
    this.idle = run.idle.lanes.map((numbers) => new Lane(run.idle, numbers));
    this.legend.replaceChildren("idle: ", ...this.causes());
    this.ports = new Map();
    this.path = criticalPath(run, lastToEnd(run));
    this.buttons.replaceChildren(
      button("+", "Zoom in (w)", () => this.zoomBy(0.5)),
      button("−", "Zoom out (s)", () => this.zoomBy(2)),
      button("whole run", "Show everything (0)", () => show(this.page, 0, run.duration)),
      button("to the selection", "Show the selected instructions (f)", () => this.showSelected()),
      this.toggle("path", `critical path: ${count(this.path.length)} instructions`),
      this.toggle("ports", "ports"),
      this.toggle("idle", "idle time by cause"),
    );
  }

  draw(changed: ReadonlySet<keyof State>): void {
    const { run, state, marks } = this.page;
    if (changed.has("strategy") || changed.has("ports")) this.arrange();
    if (changed.has("strategy") || changed.has("colouring")) this.colours = colourIndices(run, state.colouring);
    if (changed.has("strategy") || changed.has("selected")) {
      for (const lane of this.lanes) lane.mark(marks?.instructions ?? null);
      const idle = marks === null ? null : run.idle.marks(marks.instructions);
      for (const lane of this.idle) lane.mark(idle);
    }
    for (const box of this.buttons.querySelectorAll("input")) box.checked = state[box.name as Switch];
    this.legend.hidden = !state.idle;
    if (this.surface.fit(this.height)) this.paint();
  }

  /** A legend: each cause that there is, with its share of all idle time. */
  private causes(): HTMLElement[] {
    const { header, idle } = this.page.run;
    const sums = header.causes.map(() => 0);
    let all = 0;
    for (let at = 0; at < idle.cause.length; at++) {
      const length = idle.end[at] - idle.start[at];
      sums[idle.cause[at]] += length;
      all += length;
    }
    return header.causes.flatMap((name, cause) => {
      if (sums[cause] === 0) return [];
      const swatch = element("span", { class: "swatch hatched" });
      swatch.style.setProperty("--swatch", css(CAUSE_COLOURS[cause]));
      const title = `the engine ${WAITS[cause]}`;
      return [element("span", { title, "data-cause": name }, swatch, `${name} ${percent(sums[cause] / all)}`)];
    });
  }

  private toggle(name: Switch, text: string): HTMLElement {
    const box = element("input", { type: "checkbox", name });
    box.checked = this.page.state[name];
    box.addEventListener("change", () => this.page.change({ [name]: box.checked }));
    return element("label", {}, box, text);
  }

  private arrange(): void {
    const { run, state } = this.page;
    const { engines, resources } = run.header.program;
    const rows: LaneRow[] = engines.map((engine, number) => ({
      name: engine.name,
      core: engine.core,
      lane: this.lanes[number],
      idle: this.idle[number],
      port: null,
      bandwidth: 0,
      y: 0,
    }));
    if (state.ports) {
      resources.forEach((resource, number) => {
        const port = this.ports.get(number) ?? new Port(run, number);
        this.ports.set(number, port);
        const digits = /\d+$/.exec(resource.name);
        const core = digits === null ? null : Number(digits[0]);
        const name = `port ${resource.name}`;
        if (port.used)
          rows.push({ name, core, lane: null, idle: null, port, bandwidth: resource.bytes_per_cycle, y: 0 });
      });
    }
    const cores = [...new Set(rows.map((row) => row.core))].sort((a, b) => (a ?? -1) - (b ?? -1));
    this.rows = cores.flatMap((core) => rows.filter((row) => row.core === core));
    let y = TOP;
    this.rows.forEach((row, at) => {
      if (at > 0 && this.rows[at - 1].core !== row.core) y += BETWEEN;
      row.y = y;
      y += HIGH;
    });
    this.height = y + 4;
  }

  private paint(): void {
    const { page, surface } = this;
    const { context } = surface;
    context.clearRect(0, 0, surface.width, surface.height);
    const width = Math.max(1, Math.round((surface.width - GUTTER) * surface.ratio));
    this.paintRows(width);
    context.imageSmoothingEnabled = false;
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    this.rows.forEach((line, number) => {
      const right = surface.width - GUTTER;
      context.drawImage(this.strip.canvas, 0, number, width, 1, GUTTER, line.y + 1, right, HIGH - 2);
    });
    if (page.state.idle) this.paintIdle(width);
    for (const line of this.rows) {
      context.fillStyle = page.theme.ink;
      context.fillText(line.name, 4, line.y + HIGH / 2);
      if (line.lane !== null) this.names(line, line.lane);
    }
    drawRuler(page, surface, TOP - 3);
    if (page.state.path) this.paintPath();
    this.paintSelected();
  }

  /** Every lane as a row of pixels, then the idle times of each. */
  private paintRows(width: number): void {
    const { page, strip } = this;
    const { from, to, idle } = page.state;
    const { canvas } = strip;
    const row = new Row(width, (idle ? 2 : 1) * this.rows.length);
    this.rows.forEach((line, number) => {
      row.clear(number);
      if (line.lane !== null) paintLane(row, line.lane, from, to, this.colours, page.theme.lane);
      else paintPort(row, line.port!, from, to, line.bandwidth, page.theme.lane, PORT_COLOUR);
      if (!idle || line.idle === null) return;
      row.clear(this.rows.length + number);
      paintIdle(row, line.idle, from, to, page.run.idle.cause, CAUSE_COLOURS);
    });
    if (canvas.width !== width || canvas.height !== row.image.height) {
      canvas.width = width;
      canvas.height = row.image.height;
    }
    strip.putImageData(row.image, 0, 0);
  }

  /** Idle times over the lanes, hatched so that they differ from work. */
  private paintIdle(width: number): void {
    const { surface, strip } = this;
    const layer = this.layer;
    const high = Math.round(surface.height * surface.ratio);
    if (layer.canvas.width !== width || layer.canvas.height !== high) {
      layer.canvas.width = width;
      layer.canvas.height = high;
      layer.imageSmoothingEnabled = false;
    }
    layer.clearRect(0, 0, width, high);
    layer.globalCompositeOperation = "source-over";
    this.rows.forEach((line, number) => {
      if (line.idle === null) return;
      const top = Math.round((line.y + 1) * surface.ratio);
      const tall = Math.round((HIGH - 2) * surface.ratio);
      layer.drawImage(strip.canvas, 0, this.rows.length + number, width, 1, 0, top, width, tall);
    });
    layer.globalCompositeOperation = "destination-out";
    layer.fillStyle = this.hatch;
    layer.fillRect(0, 0, width, high);
    surface.context.drawImage(layer.canvas, GUTTER, 0, surface.width - GUTTER, surface.height);
  }

  /** The names of instructions whose boxes have room for them. */
  private names(line: LaneRow, lane: Lane): void {
    const { page, surface } = this;
    const scale = scaleOf(page, surface);
    const first = lane.firstAfter(scale.from);
    const stop = lane.firstFrom(scale.to);
    if (stop - first > MOST_NAMED) return;
    for (let at = first; at < stop; at++) {
      const i = lane.numbers[at];
      const left = Math.max(GUTTER, scale.x(page.run.start[i]));
      const text = clipped(page.run.nameOf(i), Math.min(surface.width, scale.x(page.run.end[i])) - left - 8);
      if (text === "") continue;
      const dimmed = page.marks !== null && page.marks.instructions[i] === 0;
      surface.context.fillStyle = dimmed ? page.theme.ink : inkOn(colour(this.colours[i]));
      surface.context.fillText(text, left + 4, line.y + HIGH / 2 + 0.5);
    }
  }

  private yOf(instruction: number): number {
    const lane = this.lanes[this.page.run.engine[instruction]];
    return this.rows.find((row) => row.lane === lane)!.y;
  }

  private clip(): void {
    const { context, width, height } = this.surface;
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, width - GUTTER, height);
    context.clip();
  }

  private paintPath(): void {
    const { page, surface } = this;
    const { context } = surface;
    const { run } = page;
    const scale = scaleOf(page, surface);
    let low = 0;
    let high = this.path.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (run.end[this.path[middle]] < scale.from) low = middle + 1;
      else high = middle;
    }
    this.clip();
    context.beginPath();
    let lastX = Number.NEGATIVE_INFINITY;
    for (let at = low; at < this.path.length && run.start[this.path[at]] <= scale.to; at++) {
      const i = this.path[at];
      const y = this.yOf(i) + HIGH - 2;
      const x = Math.max(-10, scale.x(run.start[i]));
      if (lastX === Number.NEGATIVE_INFINITY) context.moveTo(x, y);
      else context.lineTo(x, y);
      lastX = Math.min(surface.width + 10, scale.x(run.end[i]));
      context.lineTo(lastX, y);
    }
    context.strokeStyle = page.theme.ink;
    context.lineWidth = 2;
    context.stroke();
    context.restore();
  }

  private paintSelected(): void {
    const { page, surface } = this;
    const { context } = surface;
    const { run, state } = page;
    if (state.selected?.kind !== "instruction") return;
    const i = state.selected.number;
    const scale = scaleOf(page, surface);
    this.clip();
    context.strokeStyle = page.theme.accent;
    context.lineWidth = 1;
    context.beginPath();
    for (const wait of run.waitsOf(i).subarray(0, MOST_ARROWS)) this.arrow(wait, i);
    for (const after of run.successors(i).subarray(0, MOST_ARROWS)) this.arrow(i, after);
    context.stroke();
    const left = scale.x(run.start[i]);
    context.lineWidth = 2;
    context.strokeRect(left, this.yOf(i), Math.max(3, scale.x(run.end[i]) - left), HIGH);
    context.restore();
  }

  /** From the end of an instruction to the start of one that waits for it. */
  private arrow(from: number, to: number): void {
    const { context } = this.surface;
    const scale = scaleOf(this.page, this.surface);
    const [x, y] = [scale.x(this.page.run.end[from]), this.yOf(from) + HIGH / 2];
    const [toX, toY] = [scale.x(this.page.run.start[to]), this.yOf(to) + HIGH / 2];
    context.moveTo(x, y);
    context.bezierCurveTo(x + 14, y, toX - 14, toY, toX, toY);
    context.lineTo(toX - 5, toY - 3);
    context.moveTo(toX, toY);
    context.lineTo(toX - 5, toY + 3);
  }

  /** The row and the instruction under a pointer; of several that are too small, the longest within 3 pixels. */
  private at(event: MouseEvent): { row: LaneRow; cycle: number; instruction: number } | null {
    const [x, y] = this.surface.place(event);
    const row = this.rows.find((each) => y >= each.y && y < each.y + HIGH);
    if (row === undefined || x < GUTTER) return null;
    const { run } = this.page;
    const scale = scaleOf(this.page, this.surface);
    const cycle = scale.cycle(x);
    let found = -1;
    if (row.lane !== null) {
      const near = 3 / scale.rate;
      const stop = Math.min(row.lane.firstFrom(cycle + near), row.lane.numbers.length);
      const first = Math.max(row.lane.firstAfter(cycle - near), stop - 2000);
      for (let at = first; at < stop; at++) {
        const i = row.lane.numbers[at];
        if (run.start[i] <= cycle && cycle < run.end[i]) return { row, cycle, instruction: i };
        if (found < 0 || run.end[i] - run.start[i] > run.end[found] - run.start[found]) found = i;
      }
    }
    return { row, cycle, instruction: found };
  }

  /** The idle time at a cycle of a lane, if it is large enough to be meant; -1 if there is none. */
  private idleAt(row: LaneRow, cycle: number): number {
    const { idle } = this.page.run;
    if (row.idle === null) return -1;
    const at = row.idle.numbers[row.idle.firstAfter(cycle)] ?? -1;
    if (at < 0 || idle.start[at] > cycle) return -1;
    return (idle.end[at] - idle.start[at]) * scaleOf(this.page, this.surface).rate >= IDLE_PIXELS ? at : -1;
  }

  private click(event: MouseEvent): void {
    const under = this.at(event);
    const idle = under === null || !this.page.state.idle ? -1 : this.idleAt(under.row, under.cycle);
    if (idle >= 0) {
      this.page.select({ kind: "instruction", number: this.page.run.idle.waitedFor[idle] });
      return;
    }
    const selects = under !== null && under.instruction >= 0;
    this.page.select(selects ? { kind: "instruction", number: under.instruction } : null);
  }

  private zoomTo(event: MouseEvent): void {
    const under = this.at(event);
    if (under === null || under.instruction < 0) return;
    showAround(this.page, this.page.run.start[under.instruction], this.page.run.end[under.instruction]);
  }

  private hover(event: PointerEvent): void {
    const under = event.buttons === 0 ? this.at(event) : null;
    if (under === null) {
      this.page.tip.hide();
      return;
    }
    const { run } = this.page;
    const when = `${seconds(run.secondsOf(under.cycle))} (cycle ${count(under.cycle)})`;
    if (under.row.port !== null) {
      const window = Math.max(1, 1 / scaleOf(this.page, this.surface).rate);
      const carried = under.row.port.until(under.cycle + window) - under.row.port.until(under.cycle);
      const rate = `${fixed(carried / window, 1)} B of ${fixed(under.row.bandwidth, 1)} B a cycle`;
      this.page.tip.show(event, [`${under.row.name}, ${when}`, `${rate}, each transfer spread evenly over its time`]);
      return;
    }
    const idle = this.idleAt(under.row, under.cycle);
    if (idle >= 0) {
      this.page.tip.show(event, this.idleText(under.row, idle));
      return;
    }
    const i = under.instruction;
    if (i < 0) {
      this.page.tip.show(event, [`${under.row.name} is idle at ${when}`]);
      return;
    }
    const lines = [
      `${under.row.name}: ${run.header.program.kinds[run.kind[i]]} ${run.nameOf(i)}`,
      `${count(run.start[i])} to ${count(run.end[i])}: ${count(run.end[i] - run.start[i])} cycles`,
    ];
    if (run.bytes[i] > 0) lines.push(bytes(run.bytes[i]));
    if (run.operator[i] >= 0) lines.push(`for ${run.operatorName(run.operator[i])}`);
    this.page.tip.show(event, lines);
  }

  private idleText(row: LaneRow, at: number): string[] {
    const { run } = this.page;
    const { start, end, cause, next, waitedFor } = run.idle;
    const name = (i: number) => `instruction ${i}, ${run.header.program.kinds[run.kind[i]]} ${run.nameOf(i)}`;
    return [
      `${row.name} ${WAITS[cause[at]]}`,
      `${count(start[at])} to ${count(end[at])}: idle for ${count(end[at] - start[at])} cycles`,
      `meanwhile: ${name(waitedFor[at])} on ${run.engineName(waitedFor[at])}`,
      next[at] < 0 ? "behind its last instruction" : `goes on with ${name(next[at])}`,
    ];
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "f") this.showSelected();
    else if (event.key === "Escape") this.page.select(null);
    else if (event.key.startsWith("Arrow")) {
      if (!this.step(event.key)) return;
    } else return;
    event.preventDefault();
  }

  /** To the next instruction of the lane, or to the nearest one of the next lane. */
  private step(key: string): boolean {
    const { run, state } = this.page;
    const lanes = this.rows.flatMap((row) => (row.lane !== null && row.lane.numbers.length > 0 ? [row.lane] : []));
    let next = lanes[0].numbers[lanes[0].firstAfter(state.from)] ?? lanes[0].numbers[0];
    if (state.selected?.kind === "instruction") {
      const i = state.selected.number;
      const lane = lanes.findIndex((each) => run.engine[each.numbers[0]] === run.engine[i]);
      const at = lanes[lane].numbers.indexOf(i);
      const along = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
      const other = lanes[lane + (key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0)];
      if (other === undefined) return true;
      const place = along !== 0 ? at + along : Math.min(other.firstAfter(run.start[i]), other.numbers.length - 1);
      next = other.numbers[place] ?? i;
    }
    this.page.select({ kind: "instruction", number: next });
    if (run.end[next] < state.from || run.start[next] > state.to) {
      const half = (state.to - state.from) / 2;
      show(this.page, run.start[next] - half, run.start[next] + half);
    }
    return true;
  }

  private zoomBy(factor: number): void {
    const { from, to } = this.page.state;
    const centre = (from + to) / 2;
    show(this.page, centre - ((to - from) * factor) / 2, centre + ((to - from) * factor) / 2);
  }

  private showSelected(): void {
    const { run, marks } = this.page;
    if (marks === null) return;
    let [start, end] = [Number.POSITIVE_INFINITY, 0];
    for (let i = 0; i < run.length; i++) {
      if (marks.instructions[i] === 0) continue;
      start = Math.min(start, run.start[i]);
      end = Math.max(end, run.end[i]);
    }
    if (start < end) show(this.page, start - (end - start) / 8, end + (end - start) / 8);
  }
}

/** Diagonal lines that take away most of what they are drawn on. */
function hatching(): CanvasPattern {
  const context = document.createElement("canvas").getContext("2d")!;
  context.canvas.width = context.canvas.height = HATCH;
  context.strokeStyle = "rgb(0 0 0 / 80%)";
  context.lineWidth = HATCH / 3;
  for (const shift of [-HATCH, 0, HATCH]) {
    context.moveTo(shift - 1, HATCH + 1);
    context.lineTo(shift + HATCH + 1, -1);
  }
  context.stroke();
  return context.createPattern(context.canvas, "repeat")!;
}
