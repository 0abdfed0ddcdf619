// The page of a result of map, simulate, explore, validate, traffic or fuse: its panes, and the state that they share.

import { onAppearance } from "./appearance";
import { chainSimulationPanes } from "./chain-simulation";
import { chainPanes } from "./chains";
import { type Theme, theme } from "./colours";
import { element, Tip } from "./dom";
import { explorePanes } from "./exploration";
import { fusePanes } from "./fusion";
import { givenTreePanes } from "./given-tree";
import { checkedPanes, pricedPanes } from "./judged";
import type { Origin } from "./made";
import { givenPanes, mapPanes } from "./mapping";
import { simulatePanes } from "./simulation";
import { trafficPanes } from "./traffic";
import { treePanes } from "./tree";
import { treeSimulationPanes } from "./tree-simulation";
import { treeValidationPanes } from "./tree-validation";
import { validatePanes } from "./validation";

/** What every such page has; each kind has more. */
export interface ResultSummary extends Origin {
  kind: string;
  title: string;
}

export interface ResultPage {
  readonly theme: Theme;
  readonly tip: Tip;
  /** What is chosen under a name, "" where nothing is. */
  chosen(name: string): string;
  /** Choose; what is "" is taken away. */
  choose(values: Record<string, string>): void;
}

export interface ResultPane {
  readonly element: HTMLElement;
  /** Something of what is chosen has changed, or the place or the theme has (null): draw anew, in the next frame. */
  draw(changed: ReadonlySet<string> | null): void;
}

type Panes = (page: ResultPage, summary: never) => Promise<ResultPane[]>;
const KINDS: Record<string, Panes> = {
  chains: chainPanes,
  checked: checkedPanes,
  explore: explorePanes,
  fuse: fusePanes,
  given: givenPanes,
  "given-tree": givenTreePanes,
  map: mapPanes,
  priced: pricedPanes,
  simulate: simulatePanes,
  "simulate-chains": chainSimulationPanes,
  "simulate-tree": treeSimulationPanes,
  traffic: trafficPanes,
  tree: treePanes,
  validate: validatePanes,
  "validate-tree": treeValidationPanes,
};
const HASH_DELAY = 200; // ms after the last change

class Results implements ResultPage {
  theme: Theme = theme();
  readonly tip = new Tip();
  private panes: ResultPane[] = [];
  private state = new Map<string, string>();
  private changed: Set<string> | null = new Set();
  private frame = 0;
  private writing = 0;
  private written = "";

  constructor(private readonly summary: ResultSummary) {}

  async begin(): Promise<void> {
    this.read();
    this.panes = await KINDS[this.summary.kind](this, this.summary as never);
    const main = element("main", {}, ...this.panes.map((pane) => pane.element));
    const header = element("header", {}, element("h1", {}, this.summary.title));
    document.body.append(header, element("div", { class: "page single" }, main), this.tip.element);
    window.addEventListener("resize", () => this.redraw(null));
    window.addEventListener("hashchange", () => {
      if (location.hash === this.written) return;
      this.read();
      this.redraw(null);
    });
    onAppearance((found, forPaper) => {
      this.theme = found;
      this.redraw(null);
      if (forPaper) this.draw();
    });
    this.redraw(null);
  }

  chosen(name: string): string {
    return this.state.get(name) ?? "";
  }

  choose(values: Record<string, string>): void {
    for (const [name, value] of Object.entries(values)) {
      if (value === "") this.state.delete(name);
      else this.state.set(name, value);
    }
    this.redraw(Object.keys(values));
  }

  private read(): void {
    this.state = new Map(new URLSearchParams(location.hash.slice(1)));
  }

  private redraw(changed: string[] | null): void {
    if (changed === null) this.changed = null;
    else for (const name of changed) this.changed?.add(name);
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { changed } = this;
    this.changed = new Set();
    for (const pane of this.panes) pane.draw(changed);
    window.clearTimeout(this.writing);
    this.writing = window.setTimeout(() => this.write(), HASH_DELAY);
    document.documentElement.dataset.drawn = this.summary.kind;
  }

  private write(): void {
    const text = new URLSearchParams([...this.state]).toString();
    const hash = text === "" ? "" : `#${text}`;
    if (hash === location.hash) return;
    this.written = hash;
    history.replaceState(null, "", hash === "" ? location.pathname : hash);
  }
}

function failed(error: unknown): void {
  const reason = error instanceof Error ? error.message : String(error);
  document.body.append(element("p", { role: "alert" }, `This page cannot be shown: ${reason}`));
  throw error;
}

const summary = JSON.parse(document.getElementById("summary")!.textContent!) as ResultSummary;
new Results(summary).begin().catch(failed);
