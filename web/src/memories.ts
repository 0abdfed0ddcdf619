// The memories: address x time, who holds what, and how full each memory is.

import { clipped, Surface } from "./canvas";
import { colour, colourIndex, inkOn, mixed, type Rgb } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { address, bytes, count, percent, seconds } from "./format";
import { Occupancy } from "./occupants";
import type { Page, Pane } from "./pane";
import type { Run } from "./run";
import { memoryChoices, type State } from "./selection";
import { attachTime, drawRuler, GUTTER, scaleOf, showAround } from "./time";

const TOP = 20;
const ALONE = 300; // pixels of a memory that is shown alone
const LEAST = 70; // of one of several
const BETWEEN = 22;
const MOST_LISTED = 12;
const MOST_NAMED = 250; // rectangles that may have their names in them

interface Map_ {
  space: number;
  occupancy: Occupancy;
  y: number;
  height: number;
  top: number; // the highest address that is shown
}

export class Memories implements Pane {
  readonly element = element("section", { id: "memories", "data-pane": "memories" });
  private readonly surface = new Surface(
    "Memories: addresses over time. Keys: w and s zoom, a and d move, 0 shows everything.",
  );
  private readonly choice = element("select", { id: "memory", "aria-label": "Memory" });
  private readonly facts = element("div", { class: "facts" });
  private maps: Map_[] = [];
  private known = new Map<number, Occupancy>();
  private height = 0;
  private colours: Uint8Array = new Uint8Array(0); // of buffers
  private buffers: Int32Array[] = []; // of each memory, those that are used, in the order of their beginnings

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    place.append(this.surface.canvas);
    this.choice.addEventListener("change", () => page.change({ memory: this.choice.value }));
    this.element.append(
      element("h2", {}, "Memories"),
      element(
        "p",
        { class: "note" },
        "Simulated: each box is a buffer, from the start of the first instruction that uses it to the end of the last, " +
          "at its addresses. What is not coloured below the line is a hole; the line is the high-water mark. A click " +
          "says what lay there before.",
      ),
      element("div", { class: "tools" }, element("label", {}, "memory ", this.choice)),
      place,
      this.facts,
    );
    attachTime(page, this.surface, (event) => this.click(event));
    this.surface.canvas.addEventListener("pointermove", (event) => this.hover(event));
  }

  load(): void {
    const { run } = this.page;
    this.known = new Map();
    this.choice.replaceChildren(
      ...memoryChoices(run).map((name) => {
        const several = !run.header.program.spaces.some((space) => space.name === name);
        return element("option", { value: name }, several ? `${name}, all cores` : name);
      }),
    );
    const lists: number[][] = run.header.program.spaces.map(() => []);
    const { space, first, last } = run.buffers;
    for (let i = 0; i < space.length; i++) if (last[i] >= 0) lists[space[i]].push(i);
    this.buffers = lists.map((list) => Int32Array.from(list.sort((a, b) => first[a] - first[b] || a - b)));
  }

  draw(changed: ReadonlySet<keyof State>): void {
    const { run, state } = this.page;
    if (changed.has("strategy") || changed.has("memory") || changed.has("selected")) this.follow(changed);
    if (changed.has("strategy") || changed.has("memory")) this.arrange();
    if (changed.has("strategy") || changed.has("colouring")) this.colours = bufferColours(run, state.colouring);
    this.choice.value = state.memory;
    if (this.surface.fit(this.height)) this.paint();
  }

  /** Show the memory of a buffer that has been selected elsewhere. */
  private follow(changed: ReadonlySet<keyof State>): void {
    const { run, state } = this.page;
    if (!changed.has("selected") || changed.has("memory") || state.selected?.kind !== "buffer") return;
    const { name, level } = run.header.program.spaces[run.buffers.space[state.selected.number]];
    if (state.memory !== name && state.memory !== level) this.page.change({ memory: name });
  }

  private occupancy(space: number): Occupancy {
    const found = this.known.get(space) ?? new Occupancy(this.page.run, this.buffers[space]);
    this.known.set(space, found);
    return found;
  }

  private arrange(): void {
    const { run, state } = this.page;
    const { spaces } = run.header.program;
    const shown = spaces.flatMap((one, at) => (one.name === state.memory || one.level === state.memory ? [at] : []));
    const chosen = shown.some((at) => spaces[at].name === state.memory)
      ? shown.filter((at) => spaces[at].name === state.memory)
      : shown;
    const height = chosen.length === 1 ? ALONE : Math.max(LEAST, Math.round(560 / chosen.length));
    this.maps = chosen.map((space, number) => {
      const occupancy = this.occupancy(space);
      // A memory of which little is used is shown up to a quarter above its high-water mark.
      const top = Math.min(spaces[space].size_bytes, 1.25 * occupancy.highest);
      return { space, occupancy, y: TOP + number * (height + BETWEEN), height, top: Math.max(1, top) };
    });
    this.height = TOP + chosen.length * (height + BETWEEN);
    this.state();
  }

  /** Figures of the memories that are shown, and the largest buffers in them. */
  private state(): void {
    const { run } = this.page;
    const { spaces } = run.header.program;
    const rows = this.maps.map(({ space, occupancy }) => [
      spaces[space].name,
      bytes(spaces[space].size_bytes),
      `${bytes(occupancy.highest)}, ${percent(occupancy.highest / spaces[space].size_bytes)}`,
      bytes(occupancy.most),
      bytes(occupancy.holesAt(occupancy.mostAt).size),
      count(this.buffers[space].length),
    ]);
    const heads = ["memory", "holds", "high-water mark", "most in use at once", "holes then", "buffers"];
    const numbers = this.maps.flatMap(({ space }) => [...this.buffers[space]]);
    numbers.sort((a, b) => run.buffers.bytes[b] - run.buffers.bytes[a] || a - b);
    const largest = numbers
      .slice(0, MOST_LISTED)
      .map((number) => [
        button(run.tensorName(number), `Select buffer ${number}`, () => this.selectBuffer(number)),
        bytes(run.buffers.bytes[number]),
        spaces[run.buffers.space[number]].name,
        address(run.buffers.address[number]),
        seconds(run.secondsOf(run.buffers.first[number])),
        seconds(run.secondsOf(run.buffers.last[number])),
      ]);
    this.facts.replaceChildren(
      scrolled(element("h3", {}, "How full (simulated)"), table(heads, rows, "memories")),
      scrolled(
        element("h3", {}, "The largest buffers"),
        table(["tensor", "size", "memory", "address", "from", "to"], largest, "largest"),
      ),
    );
  }

  private selectBuffer(number: number): void {
    const { first, last } = this.page.run.buffers;
    this.page.select({ kind: "buffer", number });
    showAround(this.page, first[number], last[number]);
  }

  private paint(): void {
    const { page, surface } = this;
    const { context } = surface;
    const { spaces } = page.run.header.program;
    context.clearRect(0, 0, surface.width, surface.height);
    drawRuler(page, surface, this.height - BETWEEN);
    for (const map of this.maps) {
      this.paintMap(map);
      const { size_bytes, name } = spaces[map.space];
      const { highest } = map.occupancy;
      context.fillStyle = page.theme.ink;
      context.font = "11px sans-serif";
      context.textBaseline = "top";
      context.fillText(name, 4, map.y);
      context.fillStyle = page.theme.faint;
      context.fillText(bytes(map.top), 4, map.y + 13);
      context.textBaseline = "alphabetic";
      context.fillText("0", 4, map.y + map.height);
      const y = map.y + map.height * (1 - highest / map.top);
      context.strokeStyle = page.theme.accent;
      context.lineWidth = 1;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(GUTTER, Math.round(y) + 0.5);
      context.lineTo(surface.width, Math.round(y) + 0.5);
      context.stroke();
      context.setLineDash([]);
      const text = `high-water mark ${bytes(highest)} of ${bytes(size_bytes)}`;
      context.fillText(text, GUTTER, map.y + map.height + 13);
    }
  }

  private paintMap(map: Map_): void {
    const { page, surface } = this;
    const { run, marks } = page;
    const { context, ratio } = surface;
    const scale = scaleOf(page, surface);
    const width = Math.max(1, Math.round((surface.width - GUTTER) * ratio));
    const height = Math.max(1, Math.round(map.height * ratio));
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const ground = packed(page.theme.lane);
    pixels.fill(ground);
    const strong = Uint32Array.from({ length: 64 }, (_, index) => packed(paletteColour(index)));
    const pale = Uint32Array.from({ length: 64 }, (_, i) => packed(mixed(paletteColour(i), page.theme.lane, 0.78)));
    const { first, last, address: at, bytes: size } = run.buffers;
    const rate = width / (scale.to - scale.from);
    const high = height / map.top;
    for (const marked of marks === null ? [1] : [0, 1]) {
      for (const number of this.buffers[map.space]) {
        if (first[number] > scale.to) break;
        if (last[number] < scale.from || (marks !== null && marks.buffers[number] !== marked)) continue;
        const left = Math.max(0, Math.floor((first[number] - scale.from) * rate));
        const right = Math.min(width, Math.max(left + 1, Math.floor((last[number] - scale.from) * rate)));
        const bottom = height - Math.floor(at[number] * high);
        const top = Math.max(0, Math.min(bottom - 1, height - Math.floor((at[number] + size[number]) * high)));
        const value = (marked ? strong : pale)[this.colours[number]];
        // What can be seen as a box leaves an edge free.
        const edge = right - left > 4 ? 1 : 0;
        const lip = bottom - top > 4 ? 1 : 0;
        for (let y = top + lip; y < bottom; y++) pixels.fill(value, y * width + left, y * width + right - edge);
      }
    }
    context.putImageData(image, Math.round(GUTTER * ratio), Math.round(map.y * ratio));
    this.names(map);
    this.outline(map);
  }

  private box(map: Map_, number: number): [number, number, number, number] {
    const { first, last, address: at, bytes: size } = this.page.run.buffers;
    const scale = scaleOf(this.page, this.surface);
    const left = Math.max(GUTTER, scale.x(first[number]));
    const right = Math.min(this.surface.width, scale.x(last[number]));
    const high = map.height / map.top;
    const bottom = map.y + map.height - at[number] * high;
    return [left, bottom - size[number] * high, right - left, size[number] * high];
  }

  private names(map: Map_): void {
    const { page, surface } = this;
    const { first, last } = page.run.buffers;
    const { from, to } = page.state;
    const seen: number[] = [];
    for (const number of this.buffers[map.space]) {
      if (first[number] > to) break;
      if (last[number] >= from) seen.push(number);
      if (seen.length > MOST_NAMED) return;
    }
    surface.context.font = "11px sans-serif";
    surface.context.textBaseline = "middle";
    for (const number of seen) {
      const [x, y, width, height] = this.box(map, number);
      const text = height < 12 ? "" : clipped(page.run.tensorName(number), width - 8);
      if (text === "") continue;
      const dimmed = page.marks !== null && page.marks.buffers[number] === 0;
      surface.context.fillStyle = dimmed ? page.theme.ink : inkOn(paletteColour(this.colours[number]));
      surface.context.fillText(text, x + 4, y + height / 2);
    }
  }

  private outline(map: Map_): void {
    const { page, surface } = this;
    const { selected } = page.state;
    if (selected?.kind !== "buffer" || page.run.buffers.space[selected.number] !== map.space) return;
    const [x, y, width, height] = this.box(map, selected.number);
    if (width <= 0) return;
    surface.context.strokeStyle = page.theme.accent;
    surface.context.lineWidth = 2;
    surface.context.strokeRect(x, y, Math.max(3, width), Math.max(3, height));
  }

  /** The memory, the time, the address and the buffer under a pointer. */
  private at(event: MouseEvent): { map: Map_; cycle: number; place: number; buffer: number } | null {
    const [x, y] = this.surface.place(event);
    const map = this.maps.find((each) => y >= each.y && y < each.y + each.height);
    if (map === undefined || x < GUTTER) return null;
    const { first, last, address: at, bytes: size } = this.page.run.buffers;
    const scale = scaleOf(this.page, this.surface);
    const cycle = scale.cycle(x);
    const place = (1 - (y - map.y) / map.height) * map.top;
    const near = 2 / scale.rate;
    const close = (2 * map.top) / map.height;
    let buffer = -1;
    let least = Number.POSITIVE_INFINITY;
    for (const number of this.buffers[map.space]) {
      if (first[number] > cycle + near) break;
      const wide = Math.max(0, cycle - last[number], first[number] - cycle) / near;
      const high = Math.max(0, at[number] - place, place - at[number] - size[number]) / close;
      if (wide > 1 || high > 1 || wide + high >= least) continue;
      least = wide + high;
      buffer = number;
    }
    return { map, cycle, place, buffer };
  }

  private click(event: MouseEvent): void {
    const under = this.at(event);
    const found = under !== null && under.buffer >= 0;
    this.page.select(found ? { kind: "buffer", number: under.buffer } : null);
  }

  private hover(event: PointerEvent): void {
    const under = event.buttons === 0 ? this.at(event) : null;
    if (under === null) {
      this.page.tip.hide();
      return;
    }
    const { run } = this.page;
    const name = run.header.program.spaces[under.map.space].name;
    const holes = under.map.occupancy.holesAt(under.cycle);
    const lines = [
      `${name} at ${seconds(run.secondsOf(under.cycle))}: ${bytes(under.map.occupancy.usedAt(under.cycle))} in use, ` +
        `${bytes(holes.size)} in ${count(holes.count)} holes`,
    ];
    if (under.buffer >= 0) {
      const { first, last, bytes: size, region, address: at } = run.buffers;
      lines.push(`${run.tensorName(under.buffer)} ${run.regionText(region[under.buffer])}`);
      lines.push(`${bytes(size[under.buffer])} at ${address(at[under.buffer])}`);
      lines.push(`${count(first[under.buffer])} to ${count(last[under.buffer])} (cycles)`);
    }
    this.page.tip.show(event, lines);
  }
}

function paletteColour(index: number): Rgb {
  return colour(index) ?? [0, 0, 0];
}

function packed(rgb: Rgb): number {
  const [red, green, blue] = rgb.map(Math.round);
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** Of every buffer the colour of what wrote it: by operator, that of the operator whose tensor it is. */
function bufferColours(run: Run, colouring: State["colouring"]): Uint8Array {
  const found = new Uint8Array(run.buffers.space.length);
  const done = new Uint8Array(found.length);
  const producer = new Map<number, number>();
  run.header.graph.operators.forEach((operator, number) => {
    for (const tensor of operator.writes) producer.set(tensor, number);
  });
  for (let i = 0; i < run.length; i++) {
    for (let at = run.operandAt[i]; at < run.operandAt[i + 1]; at++) {
      const buffer = run.operandBuffer[at];
      if (done[buffer]) continue;
      done[buffer] = 1;
      const own = producer.get(run.buffers.tensor[buffer]) ?? run.operator[i];
      const number = colouring === "operator" ? own : colouring === "instance" ? run.instanceOf(i) : run.subGraphOf(i);
      found[buffer] = colourIndex(number);
    }
  }
  return found;
}
