// Why not faster: the gap between latency and bound as parts that add up, of the run and of what is selected.

import { clipped, Surface } from "./canvas";
import { colour, colourIndex, css, inkOn, NEUTRAL, type Rgb } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { count, counted, fixed, percent } from "./format";
import type { Page, Pane } from "./pane";
import type { Gap, Gaps } from "./run";
import type { Kind, Selection, State } from "./selection";

const HIGH = 26; // pixels of the bar
const LARGE = 0.05; // of a gap
const TOP = 3; // operators and sub-graphs of each part

type Child = Node | string;
type Listed = "operators" | "sub_graphs" | "instances";

const LISTS: Partial<Record<Kind, Listed>> = {
  operator: "operators",
  "sub-graph": "sub_graphs",
  instance: "instances",
};

/** Whole numbers near some values, with the sum `total`: the largest rests are rounded up. */
function rounded(values: number[], total: number): number[] {
  const found = values.map(Math.floor);
  const order = values.map((_, at) => at).sort((a, b) => found[a] - values[a] - (found[b] - values[b]) || a - b);
  const missing = total - found.reduce((sum, value) => sum + value, 0);
  for (const at of order.slice(0, missing)) found[at]++;
  return found;
}

function share(some: number, whole: number): string {
  return some !== 0 && whole !== 0 ? percent(some / whole) : "";
}

export class Why implements Pane {
  readonly element = element("section", { id: "why", "data-pane": "why" });
  private readonly surface = new Surface("");
  private readonly heading = element("p", { id: "why-of" });
  private readonly parts = scrolled();
  private readonly heaviest = element("div", { class: "columns" });

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    this.surface.canvas.setAttribute("role", "img");
    this.surface.canvas.tabIndex = -1;
    place.append(this.surface.canvas);
    this.element.append(element("h2", {}, "Why not faster"), this.heading, place, this.parts, this.heaviest);
  }

  private get gaps(): Gaps {
    return this.page.run.header.gaps!;
  }

  load(): void {
    this.surface.canvas.hidden = this.page.run.header.gaps === null;
    if (this.page.run.header.gaps === null) {
      this.heading.textContent = "The gap is that of one batch; this run has several. Compile it without --batches.";
      this.parts.replaceChildren();
      this.heaviest.replaceChildren();
      return;
    }
    const { run } = this.page;
    const kinds: [string, Kind, string[]][] = [
      ["operators", "operator", run.header.graph.operators.map((one) => one.name)],
    ];
    if (run.header.sub_graphs.length > 1) kinds.push(["sub-graphs", "sub-graph", run.header.sub_graphs]);
    this.heaviest.replaceChildren(...kinds.map(([title, kind, names]) => this.heavy(title, kind, names)));
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (!changed.has("strategy") && !changed.has("selected")) return;
    const { gaps } = this.page.run.header;
    if (gaps === null) return;
    const selected = this.chosen();
    const gap = selected === null ? gaps.run : gaps[LISTS[selected.kind]!][selected.number];
    this.describe(gap, selected);
    if (this.surface.fit(HIGH)) this.paint(gap);
  }

  /** What is selected, where that has a gap of its own. */
  private chosen(): Selection | null {
    const { selected } = this.page.state;
    const list = selected === null ? undefined : LISTS[selected.kind];
    if (selected === null || list === undefined) return null;
    return selected.number < this.gaps[list].length ? selected : null;
  }

  private nameOf(selected: Selection): string {
    const { graph, sub_graphs, instances } = this.page.run.header;
    if (selected.kind === "operator") return `operator ${graph.operators[selected.number].name}`;
    const names = selected.kind === "sub-graph" ? sub_graphs : instances;
    return `${selected.kind} ${names[selected.number]}`;
  }

  private describe(gap: Gap, selected: Selection | null): void {
    const { unit, lanes, run } = this.gaps;
    const it = unit.startsWith("port") ? `the ${unit}` : `the mean of ${counted(lanes, unit.replace(/s$/, ""))}`;
    const of = selected === null ? "the run" : this.nameOf(selected);
    const sum =
      `${of}: ${fixed(gap.latency_cycles, 0)} cycles (simulated), ${fixed(gap.bound_cycles, 0)} of which the bound counts; ` +
      `the gap is ${fixed(gap.gap_cycles, 0)}`;
    const among =
      selected === null ? "" : `, ${percent(gap.gap_cycles / Math.max(1, run.gap_cycles))} of that of the run`;
    const whole = button("the whole run", "Select nothing (Escape)", () => this.page.select(null));
    const note = element("span", { class: "note" }, ` Times are those of ${it}, “it” below.`);
    this.heading.replaceChildren(`${sum}${among}. `, ...(selected === null ? [] : [whole]), note);
    this.surface.canvas.setAttribute("aria-label", `${sum}; the table below has its parts`);
    this.parts.replaceChildren(this.table(gap), ...this.ends(gap));
  }

  private table(gap: Gap): HTMLElement {
    const { parts, meanings } = this.gaps;
    const rows = [...gap.parts].sort((a, b) => b[1] - a[1]);
    const total = Math.round(gap.gap_cycles);
    const cycles = rounded(
      rows.map((row) => row[1]),
      total,
    );
    const cells: Child[][] = rows.map(([part, some, setup, ports, room], at) => [
      element("span", {}, this.swatch(part), parts[part]),
      count(cycles[at]),
      share(some, gap.gap_cycles),
      share(setup, gap.gap_cycles),
      share(ports, gap.gap_cycles),
      share(room, gap.gap_cycles),
      meanings[part],
    ]);
    cells.push(["all", count(total), share(gap.gap_cycles, gap.gap_cycles), "", "", "", ""]);
    return table(["part", "cycles", "of the gap", "in set-up", "at ports", "for room", ""], cells, "gap");
  }

  private swatch(part: number): HTMLElement {
    const found = element("span", { class: "swatch" });
    found.style.setProperty("--swatch", css(this.colour(part)));
    return found;
  }

  private colour(part: number): Rgb {
    return colour(colourIndex(part));
  }

  private ends(gap: Gap): HTMLElement[] {
    const { parts } = this.gaps;
    if (gap.ends.length === 0) return [];
    const rows = [...gap.ends]
      .sort((a, b) => b[1] - a[1])
      .map(([part, cycles]) => `${parts[part]} ${fixed(cycles, 0)}`);
    return [element("p", { class: "note" }, `At start and end it waits for ${rows.join(", ")}.`)];
  }

  /** Of each large part of the run, where most of it is. */
  private heavy(title: string, kind: Kind, names: string[]): HTMLElement {
    const { run, parts, ...lists } = this.gaps;
    const gaps = lists[LISTS[kind]!];
    const rows: Child[][] = [];
    for (const [part, all] of [...run.parts].sort((a, b) => b[1] - a[1])) {
      if (all < LARGE * run.gap_cycles) continue;
      const found = gaps.map((gap, number) => ({ number, cycles: gap.parts.find((row) => row[0] === part)?.[1] ?? 0 }));
      found.sort((a, b) => b.cycles - a.cycles || a.number - b.number);
      for (const [at, one] of found.slice(0, TOP).entries()) {
        if (one.cycles <= 0) break;
        const name = names[one.number];
        const link = button(name, `Select ${kind} ${name}`, () => this.page.select({ kind, number: one.number }));
        rows.push([at === 0 ? parts[part] : "", link, fixed(one.cycles, 0), share(one.cycles, all)]);
      }
    }
    const heads = ["part", kind, "cycles", "of the part"];
    return scrolled(
      element("h3", {}, `The heaviest ${title} of each part of the run`),
      table(heads, rows, `heaviest ${title}`),
    );
  }

  /** A bar as long as the latency: the bound, then each part. */
  private paint(gap: Gap): void {
    const { context, width } = this.surface;
    const { parts } = this.gaps;
    const rows = [...gap.parts].sort((a, b) => b[1] - a[1]).filter((row) => row[1] > 0);
    context.clearRect(0, 0, width, HIGH);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    const whole = gap.bound_cycles + rows.reduce((sum, row) => sum + row[1], 0);
    let x = 0;
    const box = (name: string, cycles: number, rgb: Rgb) => {
      const wide = (cycles / Math.max(1, whole)) * width;
      context.fillStyle = css(rgb);
      context.fillRect(x, 2, Math.max(0, wide > 3 ? wide - 1 : wide), HIGH - 4);
      context.fillStyle = inkOn(rgb);
      context.fillText(clipped(name, wide - 10), x + 5, HIGH / 2);
      x += wide;
    };
    box("bound", gap.bound_cycles, colour(NEUTRAL));
    for (const row of rows) box(parts[row[0]], row[1], this.colour(row[0]));
  }
}
