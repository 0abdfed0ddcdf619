// Values: some numbers of each output and of the results between operators, the program's beside onnxruntime's.

import { Surface } from "./canvas";
import { colour, css } from "./colours";
import { button, element, table } from "./dom";
import { count, counted, fixed } from "./format";
import type { Page, Pane } from "./pane";
import type { PassedOn, Sample, Values } from "./run";
import type { State } from "./selection";

const HIGH = 120; // pixels
const [LEFT, BOTTOM] = [46, 8];
const DECADES = 6; // below the bound

/** One value as the pane shows it. */
interface Row {
  place: number[];
  found: number | string;
  expected: number | string;
  bound: number | string;
  share: number | string; // the difference / its bound
  decided: boolean | null; // null: not said
  writer: number | null; // the instruction that wrote it
}

/** A tensor at one precision, with its values in sets of which one is shown. */
interface Shown {
  tensor: string;
  precision: string;
  sets: [string, Row[]][];
  note: string;
}

export class ValuesPane implements Pane {
  readonly element = element("section", { id: "values", "data-pane": "values" });
  private readonly surface = new Surface("");
  private readonly tensors = element("select", { id: "values-output", "aria-label": "Tensor and precision" });
  private readonly sets = element("select", { id: "values-set", "aria-label": "Which values" });
  private readonly content = element("div");
  private readonly place = element("div", { class: "surface" });
  private readonly tools = element(
    "div",
    { class: "tools" },
    element("label", {}, "tensor ", this.tensors),
    element("label", {}, "values ", this.sets),
  );
  private all: Shown[] = [];

  constructor(private readonly page: Page) {
    const { canvas } = this.surface;
    canvas.tabIndex = -1;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "How far each value is off as a share of its bound; the table below has them");
    this.place.append(canvas);
    this.tensors.addEventListener("change", () => this.choose());
    this.sets.addEventListener("change", () => this.list());
    this.element.append(element("h2", {}, "Values"), this.tools, this.place, this.content);
  }

  load(): void {
    const { values, passed_on: results } = this.page.run.header;
    this.all = [...values.map(ofOutput), ...results.map(ofResult)];
    this.tools.hidden = this.place.hidden = this.all.length === 0;
    if (this.all.length === 0) this.content.replaceChildren(element("p", {}, this.missing()));
    const group = (label: string, first: number, last: number) =>
      element(
        "optgroup",
        { label },
        ...this.all
          .slice(first, last)
          .map((one, at) => element("option", { value: `${first + at}` }, `${one.tensor}, ${one.precision}`)),
      );
    const groups = [group("outputs", 0, values.length)];
    if (results.length > 0) groups.push(group("results between operators", values.length, this.all.length));
    this.tensors.replaceChildren(...groups);
    this.choose();
  }

  /** Why there are none. */
  private missing(): string {
    const { checks } = this.page.run.header.report.verification;
    if (checks.length > 0) return "No value is held: no output, and no result between operators, is a float.";
    return "Nothing was executed: add --verify to see what the program computes beside onnxruntime's values.";
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (changed.has("selected")) this.follow();
    if (changed.has("strategy")) this.paint();
  }

  /** Show the tensor that is selected, or the result of the operator that is, at the precision that is shown. */
  private follow(): void {
    const names = this.selectedTensors();
    const { precision } = this.chosen ?? { precision: "" };
    if (names.length === 0 || names.includes(this.chosen?.tensor ?? "")) return;
    const known = this.all.flatMap((one, at) => (names.includes(one.tensor) ? [{ ...one, at }] : []));
    const found = known.find((one) => one.precision === precision) ?? known[0];
    if (found === undefined) return;
    this.tensors.value = `${found.at}`;
    this.choose();
  }

  private selectedTensors(): string[] {
    const { run, state } = this.page;
    const { operators, tensors } = run.header.graph;
    if (state.selected === null) return [];
    const { kind, number } = state.selected;
    if (kind === "buffer") return [tensors[run.buffers.tensor[number]].name];
    const operator = kind === "operator" ? number : kind === "instruction" ? run.operator[number] : -1;
    return operator < 0 ? [] : operators[operator].writes.map((one) => tensors[one].name);
  }

  private get chosen(): Shown | undefined {
    return this.all[Number(this.tensors.value)];
  }

  private get rows(): Row[] {
    return this.chosen?.sets[Number(this.sets.value)]?.[1] ?? [];
  }

  private choose(): void {
    const one = this.chosen;
    if (one === undefined) return;
    this.sets.replaceChildren(...one.sets.map(([name], at) => element("option", { value: `${at}` }, name)));
    this.list();
  }

  private list(): void {
    const one = this.chosen;
    if (one === undefined) return;
    const rows = this.rows;
    const written = rows.some((row) => row.writer !== null);
    const cells = rows.map((row) => [
      `[${row.place.join(", ")}]`,
      shown(row.found),
      shown(row.expected),
      difference(row.found, row.expected),
      row.bound === "inf" ? "anything" : short(row.bound),
      typeof row.share === "number" ? fixed(row.share, 4) : row.share,
      written ? this.writer(row.writer) : row.decided ? "yes" : "no",
    ]);
    const heads = [
      "place",
      "program",
      "onnxruntime",
      "difference",
      "bound: rounding may do",
      "difference / bound",
      written ? "written by instruction" : "decided",
    ];
    this.content.replaceChildren(
      element("p", { class: "note" }, one.note),
      element("div", { class: "scroll tall" }, table(heads, cells, "values")),
    );
    this.paint();
  }

  private writer(number: number | null): HTMLElement | string {
    if (number === null) return "";
    const { page } = this;
    return button(`${number}`, `Select instruction ${number}`, () => page.select({ kind: "instruction", number }));
  }

  /** A point for each value: how far it is off, on a logarithmic scale; the line is its bound. */
  private paint(): void {
    const { rows } = this;
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
    const step = (width - LEFT - 8) / Math.max(1, rows.length);
    for (const [at, { found, expected, share, decided }] of rows.entries()) {
      const value = typeof share === "number" ? share : 1;
      const wrong = value > 1 || typeof share !== "number";
      context.fillStyle = wrong ? theme.accent : css(colour(decided === false ? 2 : 1));
      const y = found === expected ? floor : up(value);
      context.fillRect(LEFT + 4 + at * step, y - 2, Math.max(3, Math.min(8, step - 1)), 5);
    }
  }
}

function ofOutput(one: Values): Shown {
  const rows = (samples: Sample[]): Row[] =>
    samples.map(([place, found, expected, bound, share, decided]) => ({
      place,
      found,
      expected,
      bound,
      share,
      decided,
      writer: null,
    }));
  const held = new Set([...one.first, ...one.worst, ...one.spread].map(([place]) => place.join())).size;
  const note =
    `${one.output} is ${one.dtype}[${one.shape.join("x")}]; ${counted(one.values, "value")} of an iteration were ` +
    `compared at ${one.precision}, and ${count(held)} of them are held here, of the first iteration: ` +
    (one.worst.length > 0 ? `the ${count(one.worst.length)} with the largest difference for their bound, ` : "") +
    `a corner of ${one.corner.join(" x ")}, and ${count(one.spread.length)} at equal distances. ` +
    `${one.worst.length > 0 ? "" : "No value differs at all. "}The picture shows the difference of each as a share of its ` +
    "bound, which is what rounding may do to it: above the line it would be wrong.";
  const sets: Shown["sets"] = [
    ["the worst", rows(one.worst)],
    ["the first corner", rows(one.first)],
    ["spread evenly", rows(one.spread)],
  ];
  const some = sets.filter(([, values]) => values.length > 0); // none is the worst where none differs
  return { tensor: one.output, precision: one.precision, sets: some, note };
}

function ofResult(one: PassedOn): Shown {
  const sets = one.tiles.map((tile): [string, Row[]] => {
    const bounds = tile.start.map((start, axis) => `${start}:${tile.stop[axis]}`);
    const rows = tile.found.map((found, at): Row => {
      const [expected, bound] = [tile.expected[at], tile.bound[at]];
      return {
        place: placeIn(tile.start, tile.stop, at),
        found,
        expected,
        bound,
        share: shareOf(found, expected, bound),
        decided: null,
        writer: tile.written_by[at],
      };
    });
    return [`tile [${bounds.join(", ")}]`, rows];
  });
  const note =
    `${one.tensor} is ${one.dtype}[${one.shape.join("x")}], a result that operators pass on. Verification compares ` +
    `outputs; beside it ${counted(one.tiles.length, "tile")} of this tensor are held here at ${one.precision}, of the ` +
    "first iteration: its first, one in the middle, its last. Where several instructions compute a value, as at a " +
    "halo, the first is named. The picture shows the difference of each as a share of its bound.";
  return { tensor: one.tensor, precision: one.precision, sets, note };
}

/** The place of the value of that number in a box, row by row. */
function placeIn(start: number[], stop: number[], at: number): number[] {
  const found = [...start];
  let rest = at;
  for (let axis = start.length - 1; axis >= 0; axis--) {
    const extent = stop[axis] - start[axis];
    found[axis] += rest % extent;
    rest = Math.floor(rest / extent);
  }
  return found;
}

function shareOf(found: number | string, expected: number | string, bound: number | string): number | string {
  if (found === expected || bound === "inf") return 0;
  if (typeof found !== "number" || typeof expected !== "number" || typeof bound !== "number") return "not finite";
  return bound > 0 ? Math.abs(found - expected) / bound : "inf";
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
