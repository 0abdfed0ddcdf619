// The page of two runs of one network side by side: which is faster, where the bytes went, what was decided otherwise.

import { onAppearance } from "./appearance";
import { type Theme, theme } from "./colours";
import { DiffBytes } from "./diff-bytes";
import { DiffDecisions } from "./diff-decisions";
import { DiffOperators } from "./diff-operators";
import { DiffSummary } from "./diff-summary";
import { button, element, Tip, table } from "./dom";
import { bytes, count, energy, fixed, seconds } from "./format";

export interface Figure {
  what: string;
  unit: string;
  origin: string;
  a: number;
  b: number;
  ratio: number | null;
}

export interface Change {
  what: string;
  a: string;
  b: string;
}

export interface Side {
  sub_graph: string;
  occupied_cycles: number;
  ddr_bytes: number;
  gb_bytes: number;
  macs: number;
  vector_operations: number;
  cores: number;
  pieces: number;
  tiling: string;
}

export interface OperatorChange {
  name: string;
  kind: string;
  a: Side | null;
  b: Side | null;
  more_cycles: number;
  more_ddr_bytes: number;
  decided: Change[];
}

export interface SubGraph {
  name: string;
  operators: string[];
  pieces: number;
}

interface OneRun {
  file: string;
  network: string;
  machine: string;
  strategy: string;
  batch: number;
  latency_cycles: number;
  latency_seconds: number;
}

export interface Found {
  heading: string;
  verdict: string;
  a: OneRun;
  b: OneRun;
  figures: Figure[];
  traffic: Figure[];
  settings: Change[];
  decisions: Change[];
  sub_graphs: { a: SubGraph[]; b: SubGraph[] };
  sub_graphs_of_one: { a: string[]; b: string[] };
  operators: OperatorChange[];
  command: string;
  versions: [string, string][];
}

/** What a pane of this page may ask of it. */
export interface DiffPage {
  readonly found: Found;
  readonly theme: Theme;
  readonly tip: Tip;
  readonly selected: number; // of the operators; -1 for none
  select(operator: number): void;
}

export interface DiffPane {
  readonly element: HTMLElement;
  draw(): void;
}

/** A number with its unit, as the text has it. */
export function figureText(value: number, unit: string): string {
  if (unit === "s") return seconds(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "pJ") return energy(value);
  if (unit === "% of latency") return `${fixed(value, 1)} %`;
  return `${Number.isInteger(value) ? count(value) : fixed(value, 2)} ${unit}`.trim();
}

export function signed(value: number, shown: (value: number) => string): string {
  return value > 0 ? `+${shown(value)}` : value < 0 ? `−${shown(-value)}` : shown(0);
}

class Application implements DiffPage {
  theme = theme();
  readonly tip = new Tip();
  selected = -1;
  private readonly panes: DiffPane[];
  private readonly details = element("aside", { id: "details", "aria-live": "polite" });
  private readonly finder = element("input", {
    id: "find",
    type: "search",
    list: "names",
    placeholder: "operator",
    "aria-label": "Find an operator",
  });
  private frame = 0;

  constructor(readonly found: Found) {
    this.panes = [new DiffSummary(this), new DiffDecisions(this), new DiffBytes(this), new DiffOperators(this)];
    const main = element("main", {}, ...this.panes.map((pane) => pane.element));
    document.body.append(this.header(), element("div", { class: "page" }, main, this.details), this.tip.element);
  }

  private header(): HTMLElement {
    this.finder.addEventListener("change", () => this.find());
    const names = element("datalist", { id: "names" });
    names.append(...this.found.operators.map((one) => element("option", { value: one.name })));
    return element(
      "header",
      {},
      element("h1", {}, this.found.heading),
      element("label", {}, "find ", this.finder),
      names,
    );
  }

  private find(): void {
    const text = this.finder.value.trim();
    const number = this.found.operators.findIndex((one) => one.name === text);
    this.finder.setCustomValidity(number < 0 && text !== "" ? "No operator has that name." : "");
    this.finder.reportValidity();
    if (number >= 0) this.select(number);
  }

  begin(): void {
    const again = () => this.redraw();
    window.addEventListener("resize", again);
    window.addEventListener("hashchange", () => this.open());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !(event.target instanceof HTMLInputElement)) this.select(-1);
    });
    onAppearance((found, forPaper) => {
      this.theme = found;
      this.redraw();
      if (forPaper) this.draw();
    });
    this.open();
  }

  /** Select what the address names. */
  private open(): void {
    const name = new URLSearchParams(location.hash.slice(1)).get("select") ?? "";
    this.selected = this.found.operators.findIndex((one) => one.name === name);
    this.redraw();
  }

  select(operator: number): void {
    this.selected = operator === this.selected ? -1 : operator;
    const name = this.selected < 0 ? "" : this.found.operators[this.selected].name;
    history.replaceState(null, "", name === "" ? "#" : `#${new URLSearchParams({ select: name })}`);
    if (name !== "") this.finder.value = name;
    this.redraw();
  }

  private redraw(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    for (const pane of this.panes) pane.draw();
    this.describe();
    document.documentElement.dataset.drawn = "differences";
  }

  private describe(): void {
    if (this.selected < 0) {
      const text = "Nothing is selected. Click an operator, or find it by its name.";
      this.details.replaceChildren(element("h2", {}, "Selected"), element("p", { class: "note" }, text));
      return;
    }
    const one = this.found.operators[this.selected];
    const numbers: [string, (side: Side) => string][] = [
      ["occupied cycles", (side) => count(side.occupied_cycles)],
      ["DDR traffic", (side) => bytes(side.ddr_bytes)],
      ["GB traffic", (side) => bytes(side.gb_bytes)],
      ["multiply-accumulates", (side) => count(side.macs)],
      ["vector operations", (side) => count(side.vector_operations)],
      ["cores", (side) => count(side.cores)],
      ["sub-graph", (side) => side.sub_graph],
      ["pieces", (side) => count(side.pieces)],
      ["tiling", (side) => side.tiling],
    ];
    const rows = numbers.map(([what, of]) => [what, ...[one.a, one.b].map((side) => (side === null ? "–" : of(side)))]);
    const changes = one.decided.map((change) => [change.what, change.a, change.b]);
    this.details.replaceChildren(
      element("h2", {}, one.name),
      element(
        "div",
        { class: "close" },
        button("×", "Select nothing (Escape)", () => this.select(-1)),
      ),
      element("p", { class: "note" }, `${one.kind}; numbers are simulated, of the first batch on one cluster`),
      table(["", "A", "B"], rows, "operator"),
      element("h3", {}, "Decided differently"),
      changes.length > 0
        ? table(["", "A", "B"], changes, "operator decisions")
        : element("p", { class: "note" }, one.a && one.b ? "nothing" : `is in ${one.a ? "A" : "B"} alone`),
    );
  }
}

const found = JSON.parse(document.getElementById("summary")!.textContent!) as Found;
new Application(found).begin();
