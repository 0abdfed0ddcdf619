// The array at a cycle: what its elements do and hold, what is on its networks; played, stepped, or chosen.

import { ArrayView, paler, type Shape } from "./array";
import { Surface } from "./canvas";
import { colour, colourIndex, css, type Rgb } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { count, counted, cycles } from "./format";
import type { Playback, SentWord } from "./playback";
import type { ResultPage } from "./results";

const WORKS = colour(1); // an element that multiplies and adds
const SUMS = colour(4);
const MOST_WORDS = 96; // of a register file that are shown
const MOST_SENT = 12; // values of a network that are shown
const LANE = 15; // pixels of a lane of the timeline
const NAMES = 92; // pixels of the names of lanes
const SPEEDS = [2, 8, 30, 120]; // cycles a second

export class Player {
  readonly element = element("div", { class: "player" });
  private playback: Playback | null = null;
  private first = 0; // the cycle that is shown if none is asked for
  private readonly view: ArrayView;
  private readonly lanes = new Surface(
    "What happens in the recorded cycles. Click, or use the arrow keys, to choose one.",
  );
  private readonly slider = element("input", { type: "range", id: "cycle", "aria-label": "Cycle" });
  private readonly number = element("input", { type: "number", id: "at", "aria-label": "Cycle" });
  private readonly play = button("play", "Play or pause (space)", () => this.toggle());
  private readonly speed = element("select", { id: "speed", "aria-label": "Cycles a second" });
  private readonly shows = element("select", { id: "shows", "aria-label": "Values in the elements" });
  private readonly said = element("p", { id: "now", "aria-live": "off" });
  private readonly legend = element("p", { class: "note", id: "legend" });
  private readonly networks = scrolled();
  private readonly registers = element("div", { id: "registers" });
  private timer = 0;

  constructor(
    private readonly page: ResultPage,
    private readonly shape: Shape,
  ) {
    this.view = new ArrayView(shape, "The array: rows and columns of elements. Arrow keys choose one.");
    const arrayPlace = element("div", { class: "surface", id: "array" });
    arrayPlace.append(this.view.surface.canvas);
    const lanesPlace = element("div", { class: "surface", id: "cycles" });
    lanesPlace.append(this.lanes.canvas);
    this.speed.append(...SPEEDS.map((one) => element("option", { value: `${one}` }, `${one} cycles a second`)));
    this.speed.value = "8";
    this.listen();
    const step = (text: string, title: string, by: number) => button(text, title, () => this.go(this.cycle + by));
    this.element.append(
      lanesPlace,
      element(
        "div",
        { class: "tools" },
        button("first", "First recorded cycle (Home)", () => this.go(this.begin)),
        step("back", "One cycle back (left arrow)", -1),
        this.play,
        step("step", "One cycle on (right arrow)", 1),
        button("last", "Last recorded cycle (End)", () => this.go(this.end - 1)),
        this.speed,
        element("label", {}, "cycle ", this.number),
        element("label", {}, "values ", this.shows),
      ),
      this.slider,
      this.said,
      element(
        "div",
        { class: "columns" },
        element("div", {}, arrayPlace, this.legend),
        element("div", {}, this.networks, this.registers),
      ),
    );
  }

  private listen(): void {
    const { canvas } = this.view.surface;
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.number.addEventListener("change", () => this.go(Number(this.number.value)));
    this.shows.addEventListener("change", () => this.page.choose({ shows: this.shows.value }));
    canvas.addEventListener("click", (event) => {
      const at = this.view.under(event);
      this.page.choose({ element: at < 0 ? "" : `${at}` });
    });
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => this.page.tip.hide());
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.page.choose({ element: "" });
      if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      event.stopPropagation();
      this.page.choose({ element: `${this.view.moved(this.selected, event.key)}` });
    });
    this.lanes.canvas.addEventListener("click", (event) => {
      const [x] = this.lanes.place(event);
      const share = (x - NAMES) / (this.lanes.width - NAMES);
      if (share >= 0) this.go(Math.floor(this.begin + share * (this.end - this.begin)));
    });
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  private get begin(): number {
    return this.playback?.header.begin ?? 0;
  }

  private get end(): number {
    return this.playback?.header.end ?? 1;
  }

  private get cycle(): number {
    const asked = Number(this.page.chosen("cycle") || `${this.first}`);
    return Number.isInteger(asked) ? Math.max(this.begin, Math.min(this.end - 1, asked)) : this.first;
  }

  private get selected(): number {
    const text = this.page.chosen("element");
    return /^\d+$/.test(text) && Number(text) < this.shape.elements ? Number(text) : 0;
  }

  /** Show a recording, from the cycle `first` on if none is asked for. */
  load(playback: Playback, first: number): void {
    this.first = first;
    this.pause();
    this.playback = playback;
    const { begin, end, operands } = playback.header;
    this.slider.min = this.number.min = `${begin}`;
    this.slider.max = this.number.max = `${end - 1}`;
    const chosen = this.shows.value;
    const result = operands.length - 1;
    this.shows.replaceChildren(
      element("option", { value: "product" }, "product"),
      ...operands.map((one, at) =>
        element("option", { value: one.name }, at === result ? `${one.name}, after the cycle` : one.name),
      ),
    );
    this.shows.value = operands.some((one) => one.name === chosen) ? chosen : operands[result].name;
    const edges = operands.map((one, at) => {
      const found = element(
        "span",
        {},
        element("span", { class: "swatch" }),
        `a word of ${one.name} arrives or leaves`,
      );
      found.style.setProperty("--swatch", css(edgeOf(at)));
      return found;
    });
    const works = element("span", {}, element("span", { class: "swatch" }), "multiplies and adds");
    works.style.setProperty("--swatch", css(WORKS));
    this.legend.replaceChildren(
      works,
      ...edges,
      element("span", {}, "pale: used, and rests; grey: left out by the mapping"),
    );
  }

  private go(cycle: number): void {
    if (!Number.isFinite(cycle)) return;
    this.page.choose({ cycle: `${Math.max(this.begin, Math.min(this.end - 1, Math.round(cycle)))}` });
  }

  private toggle(): void {
    if (this.timer !== 0) {
      this.pause();
      return;
    }
    if (this.cycle >= this.end - 1) this.go(this.begin);
    this.play.textContent = "pause";
    const start = performance.now();
    let done = 0;
    this.timer = window.setInterval(() => {
      const due = Math.floor(((performance.now() - start) / 1000) * Number(this.speed.value));
      if (due > done) this.go(this.cycle + due - done);
      done = Math.max(done, due);
      if (this.cycle >= this.end - 1) this.pause();
    }, 30);
  }

  private pause(): void {
    window.clearInterval(this.timer);
    this.timer = 0;
    this.play.textContent = "play";
  }

  private key(event: KeyboardEvent): void {
    if (event.target instanceof HTMLSelectElement || event.target instanceof HTMLInputElement) return;
    const to = {
      ArrowLeft: this.cycle - 1,
      ArrowRight: this.cycle + 1,
      Home: this.begin,
      End: this.end - 1,
    }[event.key];
    if (to !== undefined) this.go(to);
    else if (event.key === " " && !(event.target instanceof HTMLButtonElement)) this.toggle();
    else return;
    event.preventDefault();
  }

  draw(changed: ReadonlySet<string> | null): void {
    const { playback, cycle } = this;
    if (playback === null) return;
    if (changed === null && this.page.chosen("shows") !== "") this.shows.value = this.page.chosen("shows");
    this.slider.value = this.number.value = `${cycle}`;
    const before = playback.registersAfter(cycle - 1);
    const after = playback.registersAfter(cycle);
    this.drawArray(playback, cycle, before, after);
    this.drawLanes(playback, cycle);
    this.say(playback, cycle);
    this.fillNetworks(playback, cycle);
    this.fillRegisters(playback, cycle, after);
  }

  private drawArray(playback: Playback, cycle: number, before: ArrayLike<number>, after: ArrayLike<number>): void {
    const { header } = playback;
    const { theme } = this.page;
    const edges = new Map<number, Rgb>();
    const touch = (words: SentWord[]) => {
      for (const word of words) {
        for (const register of word.registers) {
          const operand = header.operands.findIndex(
            (one) => register >= one.registers && register < one.registers + 2 * one.buffer,
          );
          edges.set((register - header.operands[operand].registers) % header.elements, edgeOf(operand));
        }
      }
    };
    for (let network = 0; network < 3; network++) touch(playback.arriving(cycle, network));
    touch(playback.leaving(cycle));
    const texts = this.texts(playback, cycle, before, after);
    this.view.draw(
      theme,
      (at) => {
        if (at >= header.elements) return { fill: null, text: "", edge: null };
        const works = playback.works(cycle, at);
        return { fill: works ? WORKS : paler(WORKS, theme, 0.82), text: texts(at), edge: edges.get(at) ?? null };
      },
      this.selected,
    );
  }

  /** What stands in the elements: the product of the cycle, or what it uses of an operand. */
  private texts(
    playback: Playback,
    cycle: number,
    before: ArrayLike<number>,
    after: ArrayLike<number>,
  ): (at: number) => string {
    const { operands } = playback.header;
    if (!playback.executes(cycle)) return () => "";
    const result = operands.length - 1;
    const shown = operands.findIndex((one) => one.name === this.shows.value);
    if (shown >= 0) {
      const first = playback.readAt(cycle, shown);
      return (at) => valueText(after[first + at]);
    }
    const first = playback.readAt(cycle, result);
    return (at) => (playback.works(cycle, at) ? valueText(after[first + at] - before[first + at]) : "");
  }

  private drawLanes(playback: Playback, cycle: number): void {
    const { header } = playback;
    const { theme } = this.page;
    const names = ["elements", ...header.networks.filter((name) => name !== ""), "partial sums", "DMA", "waits"];
    if (!this.lanes.fit(names.length * LANE + 18)) return;
    const { context, width } = this.lanes;
    context.clearRect(0, 0, width, this.lanes.height);
    context.font = "11px sans-serif";
    const x = (at: number) => NAMES + ((at - this.begin) / (this.end - this.begin)) * (width - NAMES);
    for (const [row, name] of names.entries()) {
      context.fillStyle = css(theme.lane);
      context.fillRect(NAMES, row * LANE, width - NAMES, LANE - 2);
      context.fillStyle = theme.faint;
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(name, NAMES - 5, row * LANE + LANE / 2 - 1);
    }
    for (const event of playback.events()) {
      const [name, rgb] = laneOf(playback, event.kind, event.what);
      const row = names.indexOf(name);
      const left = Math.max(NAMES, x(event.begin));
      const right = Math.min(width, x(event.end));
      context.fillStyle = css(rgb);
      context.fillRect(left, row * LANE, Math.max(0.7, right - left - 0.4), LANE - 2);
    }
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x(cycle + 0.5), 0);
    context.lineTo(x(cycle + 0.5), names.length * LANE);
    context.stroke();
    context.fillStyle = theme.faint;
    context.textBaseline = "top";
    context.textAlign = "left";
    context.fillText(count(this.begin), NAMES, names.length * LANE + 3);
    context.textAlign = "right";
    context.fillText(count(this.end - 1), width, names.length * LANE + 3);
  }

  private say(playback: Playback, cycle: number): void {
    const { header } = playback;
    const parts = [`Cycle ${count(cycle)}`];
    if (playback.executes(cycle)) {
      let working = 0;
      for (let at = 0; at < header.elements; at++) working += playback.works(cycle, at) ? 1 : 0;
      parts.push(`pass ${count(playback.pass(cycle) + 1)}: ${counted(working, "element")} multiply and add`);
    } else parts.push("no instruction is executed");
    if (playback.hops(cycle) > 0) parts.push(`${counted(playback.hops(cycle), "partial sum")} to another element`);
    for (const event of playback.events()) {
      if (event.begin > cycle || event.end <= cycle) continue;
      if (event.kind === "wait") parts.push(`the array waits: ${header.causes[event.what].replace("_", " ")}`);
      if (event.kind === "DMA") {
        const way = event.one ? "stores" : "loads";
        parts.push(
          `DMA ${way} ${header.operands[event.what].name}, ${count(event.other)} B in ${cycles(event.end - event.begin)}`,
        );
      }
    }
    this.said.textContent = `${parts.join("; ")}.`;
  }

  /** Values that enter the networks, and those that are in their registers now. */
  private fillNetworks(playback: Playback, cycle: number): void {
    const { header } = playback;
    const rows: string[][] = [];
    header.networks.forEach((name, network) => {
      if (name === "") return;
      const out = network === header.operands[header.operands.length - 1].network ? playback.leaving(cycle) : [];
      rows.push([
        name,
        sentText(playback.sent(cycle, network)),
        sentText(playback.arriving(cycle, network)),
        sentText(out),
      ]);
    });
    const heads = ["network", "words sent", "words that arrive (x elements)", "results that leave"];
    this.networks.replaceChildren(element("h3", {}, "Networks in this cycle"), table(heads, rows, "networks"));
  }

  private fillRegisters(playback: Playback, cycle: number, after: ArrayLike<number>): void {
    const { header } = playback;
    const at = this.selected;
    const row = Math.floor(at / this.shape.columns);
    const parts: HTMLElement[] = [
      element(
        "h3",
        {},
        `Register file of element ${at} (row ${row}, column ${at % this.shape.columns}), after the cycle`,
      ),
    ];
    if (at >= header.elements) parts.push(element("p", {}, "This mapping leaves the element out."));
    else {
      header.operands.forEach((operand, number) => {
        const used = playback.bufferOf(cycle, number);
        for (const buffer of [used, 1 - used]) {
          const words = this.words(playback, cycle, after, number, buffer);
          if (words === null) continue;
          const pass = count(playback.passOf(cycle, number, buffer) + 1);
          const name = `${operand.name} of pass ${pass}${buffer === used ? "" : ", in the other buffer"}`;
          parts.push(
            element("div", { class: "file", "data-file": name }, element("span", { class: "note" }, name), words),
          );
        }
      });
    }
    parts.push(
      element(
        "p",
        { class: "note" },
        "A word is named as the pass says that uses it now, next, or last; until it has come, what was there before stands there.",
      ),
    );
    this.registers.replaceChildren(...parts);
  }

  /** The words of a buffer of the selected element with their indices; null where it is never used. */
  private words(
    playback: Playback,
    cycle: number,
    after: ArrayLike<number>,
    operand: number,
    buffer: number,
  ): HTMLElement | null {
    const { header } = playback;
    const { name, registers, buffer: size } = header.operands[operand];
    const pass = playback.passOf(cycle, operand, buffer);
    if (pass < 0) return null;
    const many = size / header.elements;
    const found = element("div", { class: "words" });
    const first = registers + buffer * size;
    const read = playback.works(cycle, this.selected) ? playback.readAt(cycle, operand) : -1;
    for (let word = 0; word < Math.min(many, MOST_WORDS); word++) {
      const at = first + word * header.elements;
      const indices = playback.indices(operand, pass, this.selected, word);
      const label = indices === null ? `${word}` : `${name}[${indices.join(",")}]`;
      const cell = element(
        "span",
        { class: read === at ? "word read" : "word" },
        element("span", { class: "note" }, label),
        element("b", {}, valueText(after[at + this.selected])),
      );
      found.append(cell);
    }
    if (many > MOST_WORDS) found.append(element("span", { class: "note" }, `and ${count(many - MOST_WORDS)} more`));
    return found;
  }

  private hover(event: MouseEvent): void {
    const at = this.view.under(event);
    if (at < 0 || this.playback === null) {
      this.page.tip.hide();
      return;
    }
    const { cycle } = this;
    const where = `element ${at}: row ${Math.floor(at / this.shape.columns)}, column ${at % this.shape.columns}`;
    const lines = [where];
    if (at >= this.playback.header.elements) lines.push("left out by this mapping");
    else if (this.playback.works(cycle, at)) {
      const after = this.playback.registersAfter(cycle);
      for (const [number, operand] of this.playback.header.operands.entries()) {
        lines.push(`${operand.name} ${valueText(after[this.playback.readAt(cycle, number) + at])}`);
      }
    } else lines.push("rests");
    this.page.tip.show(event, lines);
  }
}

function edgeOf(operand: number): Rgb {
  return colour([2, 3, 6, 7][operand % 4]);
}

function laneOf(playback: Playback, kind: string, what: number): [string, Rgb] {
  if (kind === "pass") return ["elements", WORKS];
  if (kind === "network" || kind === "results") {
    return [playback.header.networks[playback.header.operands[what].network], edgeOf(what)];
  }
  if (kind === "partial sums") return ["partial sums", SUMS];
  if (kind === "DMA") return ["DMA", edgeOf(what)];
  return ["waits", colour(colourIndex(-1))];
}

function valueText(value: number): string {
  return Number.isInteger(value) ? `${value}` : value.toPrecision(3);
}

function sentText(words: SentWord[]): string {
  const shown = words.slice(0, MOST_SENT).map((word) => {
    const many = word.registers.length;
    return many > 1 ? `${valueText(word.value)} (x${many})` : valueText(word.value);
  });
  if (words.length > MOST_SENT) shown.push(`and ${words.length - MOST_SENT} more`);
  return shown.join(", ");
}
