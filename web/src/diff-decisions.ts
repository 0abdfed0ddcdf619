// What was decided otherwise: the operators of both runs in their sub-graphs, and tables.

import { clipped, Surface } from "./canvas";
import { colour, colourIndex, css, inkOn } from "./colours";
import type { DiffPage, DiffPane, SubGraph } from "./diff";
import { part } from "./diff-summary";
import { element, table } from "./dom";
import { counted } from "./format";

const HIGH = 34; // pixels of the strip of a run
const BETWEEN = 8;
const LEFT = 18; // for the name of a run
const LISTED = 10; // sub-graphs

export class DiffDecisions implements DiffPane {
  readonly element = element("section", { id: "decisions", "data-pane": "decisions" });
  private readonly surface = new Surface("");
  private readonly place = new Map<string, number>(); // of an operator

  constructor(private readonly page: DiffPage) {
    const { found } = page;
    for (const [at, one] of found.operators.entries()) this.place.set(one.name, at);
    const place = element("div", { class: "surface" });
    const { canvas } = this.surface;
    canvas.tabIndex = -1;
    canvas.setAttribute("role", "img");
    canvas.setAttribute(
      "aria-label",
      "The sub-graph of each operator in either run; the tables below say how they differ",
    );
    canvas.addEventListener("mousemove", (event) => this.point(event));
    canvas.addEventListener("mouseleave", () => page.tip.hide());
    canvas.addEventListener("click", (event) => {
      const at = this.at(event);
      if (at >= 0) page.select(at);
    });
    place.append(canvas);
    const changes = found.decisions.map((one) => [one.what, one.a, one.b]);
    this.element.append(
      element("h2", {}, "What was decided"),
      element(
        "p",
        { class: "note" },
        "Each column is an operator, in the order in which A runs it first. Operators of one sub-graph have one colour " +
          "in a strip; a line marks those about which anything was decided otherwise.",
      ),
      place,
      part(
        "Of one iteration (decided)",
        changes.length > 0 ? table(["", "A", "B"], changes, "decisions") : element("p", {}, "the same in both"),
      ),
      element("div", { class: "columns" }, this.alone("a"), this.alone("b")),
    );
  }

  /** The sub-graphs whose operators are no sub-graph of the other run. */
  private alone(side: "a" | "b"): HTMLElement {
    const { found } = this.page;
    const names = new Set(found.sub_graphs_of_one[side]);
    const all = found.sub_graphs[side].filter((one) => names.has(one.name));
    const rows = all.slice(0, LISTED).map((one) => [one.name, counted(one.pieces, "piece"), ends(one)]);
    if (all.length > LISTED) rows.push([`… ${all.length - LISTED} more`, "", ""]);
    const title = `Sub-graphs of ${side.toUpperCase()} alone (decided)`;
    return part(title, rows.length > 0 ? table([], rows, `alone ${side}`) : element("p", {}, "none"));
  }

  draw(): void {
    const { context } = this.surface;
    const { found, theme, selected } = this.page;
    if (!this.surface.fit(2 * HIGH + BETWEEN + 6)) return;
    const { width, height } = this.surface;
    context.clearRect(0, 0, width, height);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    const wide = (width - LEFT) / found.operators.length;
    for (const [row, side] of (["a", "b"] as const).entries()) {
      const top = row * (HIGH + BETWEEN);
      context.fillStyle = theme.ink;
      context.fillText(side.toUpperCase(), 2, top + HIGH / 2);
      for (const [number, subGraph] of found.sub_graphs[side].entries()) {
        this.strip(subGraph, colourIndex(number), top, wide);
      }
    }
    context.fillStyle = theme.ink;
    for (const [at, one] of found.operators.entries()) {
      if (one.decided.length > 0 || one.a === null || one.b === null) {
        context.fillRect(LEFT + at * wide, HIGH + BETWEEN / 2 - 1, Math.max(1, wide - 1), 2);
      }
    }
    if (selected >= 0) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 2;
      context.strokeRect(LEFT + selected * wide - 1, 1, Math.max(3, wide + 1), height - 4);
    }
  }

  /** The operators of one sub-graph: runs of neighbours, the longest with its name. */
  private strip(subGraph: SubGraph, index: number, top: number, wide: number): void {
    const { context } = this.surface;
    const rgb = colour(index);
    const places = subGraph.operators.map((name) => this.place.get(name) ?? -1).filter((at) => at >= 0);
    places.sort((a, b) => a - b);
    let [longest, from] = [0, 0];
    for (let first = 0; first < places.length; ) {
      let next = first + 1;
      while (next < places.length && places[next] === places[next - 1] + 1) next++;
      const [x, length] = [LEFT + places[first] * wide, (next - first) * wide];
      context.fillStyle = css(rgb);
      context.fillRect(x, top, length > 3 ? length - 1 : length, HIGH);
      if (length > longest) [longest, from] = [length, x];
      first = next;
    }
    context.fillStyle = inkOn(rgb);
    const name = subGraph.pieces > 1 ? `${subGraph.name}, ${subGraph.pieces} pieces` : subGraph.name;
    context.fillText(clipped(name, longest - 8), from + 4, top + HIGH / 2);
  }

  private at(event: MouseEvent): number {
    const [x] = this.surface.place(event);
    const at = Math.floor(((x - LEFT) / (this.surface.width - LEFT)) * this.page.found.operators.length);
    return x >= LEFT && at < this.page.found.operators.length ? at : -1;
  }

  private point(event: MouseEvent): void {
    const at = this.at(event);
    if (at < 0) {
      this.page.tip.hide();
      return;
    }
    const one = this.page.found.operators[at];
    const where = (["a", "b"] as const).map(
      (side) => `${side.toUpperCase()}: sub-graph ${one[side]?.sub_graph ?? "–"}`,
    );
    const decided = one.decided.map((change) => change.what).join(", ");
    this.page.tip.show(event, [one.name, ...where, decided === "" ? "" : `decided differently: ${decided}`]);
  }
}

function ends(subGraph: SubGraph): string {
  const { operators } = subGraph;
  if (operators.length === 1) return operators[0];
  return `${operators[0]} to ${operators[operators.length - 1]}, ${counted(operators.length, "operator")}`;
}
