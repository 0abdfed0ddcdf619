// The page: reads what it was given, draws the panes, and keeps what they share.

import { onAppearance } from "./appearance";
import { type Theme, theme } from "./colours";
import { unpack } from "./decode";
import { Details } from "./details";
import { element, Tip } from "./dom";
import { Graph } from "./graph";
import { Memories } from "./memories";
import type { Page, Pane } from "./pane";
import { ProofPane } from "./proof";
import { Roofline } from "./roofline";
import { Run } from "./run";
import { SearchPane } from "./search-curve";
import {
  COLOURINGS,
  hashOf,
  type Marks,
  marksOf,
  parsedSelection,
  type Selection,
  type State,
  selectionText,
  stateIn,
  strategyIn,
} from "./selection";
import { Timeline } from "./timeline";
import { ValuesPane } from "./values";
import { type Summary, Verdict } from "./verdict";
import { Why } from "./why";

const EVERYTHING: (keyof State)[] = [
  "strategy",
  "selected",
  "from",
  "to",
  "colouring",
  "memory",
  "path",
  "ports",
  "idle",
];
const HASH_DELAY = 200; // ms after the last change

class Application implements Page {
  run!: Run;
  state!: State;
  marks: Marks | null = null;
  theme: Theme = theme();
  readonly tip = new Tip();
  private readonly panes: Pane[];
  private readonly runs = new Map<string, Run>();
  private changed = new Set<keyof State>();
  private frame = 0;
  private written = "";
  private writing = 0;
  private readonly strategies = element("select", { id: "strategy", "aria-label": "Strategy" });
  private readonly colourings = element("select", { id: "colouring", "aria-label": "Colours" });
  private readonly finder = element("input", {
    id: "find",
    type: "search",
    list: "names",
    placeholder: "operator or instruction:123",
    "aria-label": "Find an operator, a sub-graph, an instance, an instruction or a buffer",
  });
  private readonly names = element("datalist", { id: "names" });

  constructor(private readonly summary: Summary) {
    const verdict = new Verdict(this, summary);
    const why = new Why(this);
    const search = new SearchPane(this);
    const timeline = new Timeline(this);
    const memories = new Memories(this);
    const graph = new Graph(this);
    const roofline = new Roofline(this);
    const values = new ValuesPane(this);
    const proof = new ProofPane(this);
    const details = new Details(this);
    this.panes = [verdict, why, search, timeline, memories, graph, roofline, values, proof, details];
    const shown = this.panes.filter((pane) => pane !== details).map((pane) => pane.element);
    const main = element("main", {}, ...shown);
    document.body.append(this.header(), element("div", { class: "page" }, main, details.element), this.tip.element);
  }

  private header(): HTMLElement {
    const fitting = this.summary.strategies.filter((one) => one.does_not_fit === null);
    this.strategies.append(...fitting.map((one) => element("option", {}, one.strategy)));
    this.strategies.addEventListener("change", () => this.change({ strategy: this.strategies.value }));
    this.colourings.append(...COLOURINGS.map((name) => element("option", {}, name)));
    this.colourings.addEventListener("change", () => {
      this.change({ colouring: this.colourings.value as State["colouring"] });
    });
    this.finder.addEventListener("change", () => this.find());
    const strategy = element("label", {}, "strategy ", this.strategies);
    if (fitting.length < 2) strategy.hidden = true;
    return element(
      "header",
      {},
      element("h1", {}, this.summary.title),
      strategy,
      element("label", {}, "colours by ", this.colourings),
      element("label", {}, "find ", this.finder),
      this.names,
    );
  }

  private find(): void {
    const text = this.finder.value.trim();
    for (const kind of ["", "operator:", "sub-graph:", "instance:", "instruction:"]) {
      const found = parsedSelection(this.run, kind + text);
      if (found === null) continue;
      this.finder.setCustomValidity("");
      this.select(found);
      return;
    }
    this.finder.setCustomValidity(text === "" ? "" : "Nothing here has that name.");
    this.finder.reportValidity();
  }

  async begin(): Promise<void> {
    window.addEventListener("resize", () => this.redraw(EVERYTHING));
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.written) void this.open(location.hash);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !(event.target instanceof HTMLInputElement)) this.select(null);
    });
    onAppearance((found, forPaper) => {
      this.theme = found;
      this.redraw(EVERYTHING);
      if (forPaper) this.drawPanes();
    });
    await this.open(location.hash);
  }

  /** Show what an address asks for. */
  private async open(hash: string): Promise<void> {
    const known = this.summary.strategies.filter((one) => one.does_not_fit === null);
    const asked = known.find((one) => one.strategy === strategyIn(hash)) ?? known[0];
    await this.show(asked.strategy, hash);
  }

  private async show(strategy: string, hash: string): Promise<void> {
    const run = this.runs.get(strategy) ?? (await this.read(strategy));
    this.run = run;
    this.state = stateIn(hash, run, strategy);
    this.marks = this.state.selected === null ? null : marksOf(run, this.state.selected);
    const { operators } = run.header.graph;
    const choices = [
      ...operators.map((one) => one.name),
      ...run.header.sub_graphs.map((name) => `sub-graph:${name}`),
      ...run.header.instances.map((name) => `instance:${name}`),
    ];
    this.names.replaceChildren(...choices.map((value) => element("option", { value })));
    for (const pane of this.panes) pane.load();
    this.redraw(EVERYTHING);
  }

  private async read(strategy: string): Promise<Run> {
    const { report } = this.summary.strategies.find((one) => one.strategy === strategy)!;
    const run = new Run(await unpack(document.getElementById(`run-${report}`)!.textContent!));
    this.runs.set(strategy, run);
    return run;
  }

  select(selected: Selection | null): void {
    this.change({ selected });
  }

  change(change: Partial<State>): void {
    if (change.strategy !== undefined && change.strategy !== this.state.strategy) {
      // What is selected stays so where the other run has something of that name.
      const { selected, from, to, ...kept } = this.state;
      const named = selected !== null && !["instruction", "buffer"].includes(selected.kind);
      const whole = { ...kept, selected: named ? selected : null, from: 0, to: this.run.duration };
      void this.show(change.strategy, hashOf(this.run, whole));
      return;
    }
    this.state = { ...this.state, ...change };
    if (change.selected !== undefined) {
      this.marks = change.selected === null ? null : marksOf(this.run, change.selected);
    }
    this.redraw(Object.keys(change) as (keyof State)[]);
  }

  private redraw(changed: (keyof State)[]): void {
    for (const key of changed) this.changed.add(key);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.drawPanes());
  }

  private drawPanes(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { changed } = this;
    this.changed = new Set();
    if (this.run === undefined) return;
    for (const pane of this.panes) pane.draw(changed);
    this.strategies.value = this.state.strategy;
    this.colourings.value = this.state.colouring;
    if (changed.has("selected") && this.state.selected !== null) {
      this.finder.value = selectionText(this.run, this.state.selected);
    }
    window.clearTimeout(this.writing);
    this.writing = window.setTimeout(() => this.write(), HASH_DELAY);
    document.documentElement.dataset.drawn = this.state.strategy;
  }

  private write(): void {
    const hash = hashOf(this.run, this.state);
    if (hash === location.hash) return;
    this.written = hash;
    history.replaceState(null, "", hash);
  }
}

function failed(error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  document.body.append(element("p", { role: "alert" }, `This page cannot be shown: ${reason}`));
  throw error;
}

const summary = JSON.parse(document.getElementById("summary")!.textContent!) as Summary;
new Application(summary).begin().catch(failed);
