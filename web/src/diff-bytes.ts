// Where the bytes went: what passed the ports of each level of memory, in both runs.

import { Surface } from "./canvas";
import { colour, css } from "./colours";
import { type DiffPage, type DiffPane, figureText } from "./diff";
import { element, scrolled, table } from "./dom";
import { bytes, fixed } from "./format";

const HIGH = 12; // pixels of a bar
const ROW = 2 * HIGH + 12;
const LEFT = 92;
const RIGHT = 84; // for the numbers

export const SIDES = { a: colour(1), b: colour(2) };

export class DiffBytes implements DiffPane {
  readonly element = element("section", { id: "bytes", "data-pane": "bytes" });
  private readonly surface = new Surface("");

  constructor(private readonly page: DiffPage) {
    const place = element("div", { class: "surface" });
    const { canvas } = this.surface;
    canvas.tabIndex = -1;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "Bytes through the ports of each level of memory; the table below has them");
    place.append(canvas);
    const rows = page.found.traffic.map((one) => [
      one.what,
      figureText(one.a, one.unit),
      figureText(one.b, one.unit),
      one.ratio === null ? "" : `${fixed(one.ratio, 3)} x`,
    ]);
    this.element.append(
      element("h2", {}, "Where the bytes went"),
      element(
        "p",
        { class: "note" },
        "Bytes through all ports of a level of one cluster, bursts included, of one batch (simulated). ",
        key("a"),
        "A ",
        key("b"),
        "B",
      ),
      place,
      scrolled(table(["ports", "A", "B", "B / A"], rows, "traffic")),
    );
  }

  draw(): void {
    const rows = this.page.found.traffic;
    if (!this.surface.fit(rows.length * ROW)) return;
    const { context, width, height } = this.surface;
    const { theme } = this.page;
    const most = Math.max(1, ...rows.flatMap((one) => [one.a, one.b]));
    context.clearRect(0, 0, width, height);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    for (const [at, one] of rows.entries()) {
      context.fillStyle = theme.ink;
      context.fillText(one.what, 2, at * ROW + HIGH + 3);
      for (const [row, side] of (["a", "b"] as const).entries()) {
        const top = at * ROW + 3 + row * (HIGH + 1);
        const long = (one[side] / most) * (width - LEFT - RIGHT);
        context.fillStyle = css(SIDES[side]);
        context.fillRect(LEFT, top, long, HIGH);
        context.fillStyle = theme.faint;
        context.fillText(bytes(one[side]), LEFT + long + 5, top + HIGH / 2 + 1);
      }
    }
  }
}

export function key(side: "a" | "b"): HTMLElement {
  const found = element("span", { class: "swatch" });
  found.style.setProperty("--swatch", css(SIDES[side]));
  return found;
}
