// Values: some numbers of each output, the program's beside onnxruntime's, with what rounding may do to each.

import { Surface } from "./canvas";
import { colour, css } from "./colours";
import { element, table } from "./dom";
import { count, counted, fixed } from "./format";
import type { Page, Pane } from "./pane";
import type { Sample, Values } from "./run";
import type { State } from "./selection";

const HIGH = 120; // pixels
const [LEFT, BOTTOM] = [46, 8];
const DECADES = 6; // below the bound

const SETS: [keyof Values & ("worst" | "first" | "spread"), string][] = [
  ["worst", "the worst"],
  ["first", "the first corner"],
  ["spread", "spread evenly"],
];

export class ValuesPane implements Pane {
  readonly element = element("section", { id: "values", "data-pane": "values" });
  private readonly surface = new Surface("");
  private readonly outputs = element("select", { id: "values-output", "aria-label": "Output and precision" });
  private readonly sets = element("select", { id: "values-set", "aria-label": "Which values" });
  private readonly content = element("div");
  private readonly place = element("div", { class: "surface" });

  constructor(private readonly page: Page) {
    const { canvas } = this.surface;
    canvas.tabIndex = -1;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "How far each value is off as a share of its bound; the table below has them");
    this.place.append(canvas);
    this.sets.append(...SETS.map(([name, text]) => element("option", { value: name }, text)));
    for (const field of [this.outputs, this.sets]) {
      field.addEventListener("change", () => {
        this.list();
        this.paint();
      });
    }
    this.element.append(
      element("h2", {}, "Values"),
      element(
        "div",
        { class: "tools" },
        element("label", {}, "output ", this.outputs),
        element("label", {}, "values ", this.sets),
      ),
      this.place,
      this.content,
    );
  }

  load(): void {
    const { values } = this.page.run.header;
    this.element.hidden = values.length === 0;
    const options = values.map((one, at) => element("option", { value: `${at}` }, `${one.output}, ${one.precision}`));
    this.outputs.replaceChildren(...options);
    this.list();
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (changed.has("strategy")) this.paint();
  }

  private get chosen(): Values | undefined {
    return this.page.run.header.values[Number(this.outputs.value)];
  }

  private get samples(): Sample[] {
    const found = this.chosen;
    return found === undefined ? [] : found[this.sets.value as (typeof SETS)[number][0]];
  }

  private list(): void {
    const one = this.chosen;
    if (one === undefined) return;
    const held = new Set([...one.first, ...one.worst, ...one.spread].map(([place]) => place.join())).size;
    const text =
      `${one.output} is ${one.dtype}[${one.shape.join("x")}]; ${counted(one.values, "value")} of an iteration were ` +
      `compared at ${one.precision}, and ${count(held)} of them are held here, of the first iteration: the ` +
      `${count(one.worst.length)} with the largest difference for their bound, a corner of ${one.corner.join(" x ")}, ` +
      `and ${count(one.spread.length)} at equal distances. The picture shows the difference of each as a share of its ` +
      "bound, which is what rounding may do to it: above the line it would be wrong.";
    const rows = this.samples.map(([place, found, expected, bound, share, decided]) => [
      `[${place.join(", ")}]`,
      shown(found),
      shown(expected),
      difference(found, expected),
      bound === "inf" ? "anything" : short(bound),
      typeof share === "number" ? fixed(share, 4) : share,
      decided ? "yes" : "no",
    ]);
    const heads = [
      "place",
      "program",
      "onnxruntime",
      "difference",
      "bound: rounding may do",
      "difference / bound",
      "decided",
    ];
    const none = "No value differs at all.";
    this.content.replaceChildren(
      element("p", { class: "note" }, text),
      rows.length === 0
        ? element("p", {}, none)
        : element("div", { class: "scroll tall" }, table(heads, rows, "values")),
    );
  }

  /** A point for each value: how far it is off, on a logarithmic scale; the line is its bound. */
  private paint(): void {
    const { samples } = this;
    if (this.chosen === undefined || !this.surface.fit(HIGH)) return;
    const { context, width } = this.surface;
    const { theme } = this.page;
    const floor = HIGH - BOTTOM;
    const up = (share: number) => {
      const decade = Math.log10(Math.max(share, 10 ** -DECADES));
      return 10 + (-Math.min(decade, 0) / DECADES) * (floor - 10);
    };
    context.clearRect(0, 0, width, HIGH);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    for (let decade = 0; decade <= DECADES; decade += 2) {
      const y = up(10 ** -decade);
      context.fillStyle = decade === 0 ? theme.accent : theme.line;
      context.fillRect(LEFT, y, width - LEFT, decade === 0 ? 2 : 1);
      context.fillStyle = theme.faint;
      context.fillText(decade === DECADES ? "equal" : decade === 0 ? "bound" : `${10 ** -decade} x`, 2, y);
    }
    const step = (width - LEFT - 8) / Math.max(1, samples.length);
    for (const [at, [, found, expected, , share, decided]] of samples.entries()) {
      const value = typeof share === "number" ? share : 1;
      const wrong = value > 1 || typeof share !== "number";
      context.fillStyle = wrong ? theme.accent : css(colour(decided ? 1 : 2));
      const y = found === expected ? floor : up(value);
      context.fillRect(LEFT + 4 + at * step, y - 2, Math.max(3, Math.min(8, step - 1)), 5);
    }
  }
}

/** As many digits as tell float32 values apart. */
function shown(value: number | string): string {
  return typeof value === "number" ? `${Number(value.toPrecision(9))}` : value;
}

function short(value: number | string): string {
  return typeof value === "number" ? value.toExponential(2) : value;
}

function difference(found: number | string, expected: number | string): string {
  if (typeof found !== "number" || typeof expected !== "number") return found === expected ? "none" : "not finite";
  return found === expected ? "none" : short(found - expected);
}
