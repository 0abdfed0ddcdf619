// The operators that changed most, as bars to either side, and all of them in a table.

import { Surface, shortened } from "./canvas";
import { css } from "./colours";
import { type DiffPage, type DiffPane, type OperatorChange, type Side, signed } from "./diff";
import { key, SIDES } from "./diff-bytes";
import { button, element, scrolled, table } from "./dom";
import { bytes, count } from "./format";

const ROW = 18; // pixels of a bar
const MOST = 24; // bars
const LISTED = 200; // rows of the table
const FEW = 40; // rows that are shown without a click
const LABEL = 76; // pixels of a number beside its bar

interface Measure {
  name: string;
  more: (one: OperatorChange) => number;
  shown: (value: number) => string;
}

const MEASURES: Measure[] = [
  { name: "occupied cycles", more: (one) => one.more_cycles, shown: count },
  { name: "DDR bytes", more: (one) => one.more_ddr_bytes, shown: bytes },
];

export class DiffOperators implements DiffPane {
  readonly element = element("section", { id: "operators", "data-pane": "operators" });
  private readonly surface = new Surface("");
  private readonly chooser = element("select", { id: "measure", "aria-label": "What the operators are ordered by" });
  private readonly rows = scrolled();
  private order: number[] = [];
  private measure = MEASURES[0];

  constructor(private readonly page: DiffPage) {
    const place = element("div", { class: "surface" });
    const { canvas } = this.surface;
    canvas.tabIndex = -1;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "The operators that changed most; the table below has all of them");
    canvas.addEventListener("click", (event) => {
      const at = this.order[Math.floor(this.surface.place(event)[1] / ROW)];
      if (at !== undefined) page.select(at);
    });
    place.append(canvas);
    this.chooser.append(...MEASURES.map((one) => element("option", {}, one.name)));
    this.chooser.addEventListener("change", () => {
      this.measure = MEASURES.find((one) => one.name === this.chooser.value)!;
      this.list();
      this.draw();
    });
    this.element.append(
      element("h2", {}, "Operators"),
      element("div", { class: "tools" }, element("label", {}, "by change of ", this.chooser)),
      element(
        "p",
        { class: "note" },
        "An operator is occupied while any of its instructions runs, transfers included; times of several operators " +
          "overlap. Of the first batch on one cluster (simulated). ",
        key("a"),
        "more in A ",
        key("b"),
        "more in B",
      ),
      place,
      this.rows,
    );
    this.list();
  }

  private list(): void {
    const { operators } = this.page.found;
    const { more, name } = this.measure;
    this.order = operators.map((_, at) => at);
    this.order.sort((a, b) => Math.abs(more(operators[b])) - Math.abs(more(operators[a])) || a - b);
    const cells = this.order.slice(0, LISTED).map((at) => {
      const one = operators[at];
      const side = (of: (side: Side) => string) => [one.a, one.b].map((run) => (run === null ? "–" : of(run)));
      return [
        button(one.name, `Select ${one.name}`, () => this.page.select(at)),
        one.kind,
        ...side((run) => count(run.occupied_cycles)),
        signed(one.more_cycles, count),
        ...side((run) => bytes(run.ddr_bytes)),
        signed(one.more_ddr_bytes, bytes),
        decided(one),
      ];
    });
    const heads = [
      "operator",
      "kind",
      "A cycles",
      "B cycles",
      "change",
      "A DDR",
      "B DDR",
      "change",
      "decided differently",
    ];
    const left = operators.length - LISTED;
    const more_ = left > 0 ? [element("p", { class: "note" }, `… ${count(left)} more; find them by name`)] : [];
    const title = element("summary", {}, `All operators by change of ${name}`);
    const open: Record<string, string> = operators.length > FEW ? {} : { open: "" };
    this.rows.replaceChildren(element("details", open, title, table(heads, cells, "operators"), ...more_));
  }

  draw(): void {
    const { operators } = this.page.found;
    const { more, shown } = this.measure;
    const drawn = this.order.slice(0, MOST).filter((at) => more(operators[at]) !== 0);
    const { context } = this.surface;
    const { theme, selected } = this.page;
    if (!this.surface.fit(Math.max(1, drawn.length) * ROW)) return;
    const { width, height } = this.surface;
    context.clearRect(0, 0, width, height);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    const names = Math.min(260, width * 0.4);
    const values = drawn.map((at) => more(operators[at]));
    const [least, most] = [Math.min(0, ...values), Math.max(0, ...values)];
    const room = width - names - (least < 0 ? LABEL : 0) - (most > 0 ? LABEL : 0);
    const scale = Math.max(0, room) / Math.max(1, most - least);
    const middle = names + (least < 0 ? LABEL : 0) - least * scale;
    context.fillStyle = theme.line;
    context.fillRect(middle, 0, 1, height);
    if (drawn.length === 0) {
      context.fillStyle = theme.faint;
      context.fillText("the same in both", 2, ROW / 2);
    }
    for (const [row, at] of drawn.entries()) {
      const value = more(operators[at]);
      const long = Math.abs(value) * scale;
      const y = row * ROW + ROW / 2;
      context.fillStyle = at === selected ? theme.accent : theme.ink;
      context.fillText(shortened(operators[at].name, names), 2, y);
      context.fillStyle = css(value < 0 ? SIDES.a : SIDES.b);
      context.fillRect(value < 0 ? middle - long : middle, row * ROW + 3, Math.max(1, long), ROW - 6);
      context.fillStyle = theme.faint;
      context.textAlign = value < 0 ? "right" : "left";
      context.fillText(signed(value, shown), value < 0 ? middle - long - 4 : middle + long + 4, y);
      context.textAlign = "left";
    }
  }
}

function decided(one: OperatorChange): string {
  if (one.a === null || one.b === null) return `in ${one.a === null ? "B" : "A"} alone`;
  return one.decided.map((change) => change.what).join(", ");
}
