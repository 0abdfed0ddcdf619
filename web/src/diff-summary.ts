// Which run is faster, and every number of both.

import { type DiffPage, type DiffPane, figureText } from "./diff";
import { button, element, scrolled, table } from "./dom";
import { fixed } from "./format";

const CARDS = ["latency", "throughput", "DDR traffic of a cluster", "energy of a cluster"];

export class DiffSummary implements DiffPane {
  readonly element = element("section", { id: "differences", "data-pane": "differences" });

  constructor(page: DiffPage) {
    const { found } = page;
    const figures = CARDS.map((what) => found.figures.find((one) => one.what === what)!).map((one) =>
      element(
        "div",
        { class: "figure" },
        element("div", { class: "name" }, one.what),
        element("div", { class: "value" }, `${one.ratio === null ? "–" : fixed(one.ratio, 3)} x`),
        element("div", { class: "more" }, `A ${figureText(one.a, one.unit)}, B ${figureText(one.b, one.unit)}`),
        element("div", { class: "origin" }, `B / A, ${one.origin}`),
      ),
    );
    const runs = (["a", "b"] as const).map((side) => {
      const { file, machine, strategy, batch } = found[side];
      return [side.toUpperCase(), file, machine, strategy, `${batch}`];
    });
    const rows = found.figures.map((one) => [
      one.what,
      figureText(one.a, one.unit),
      figureText(one.b, one.unit),
      one.ratio === null ? "" : `${fixed(one.ratio, 3)} x`,
      one.origin,
    ]);
    const changes = found.settings.map((one) => [one.what, one.a, one.b]);
    const copy = button("copy", "Copy the command", () => void navigator.clipboard?.writeText(found.command));
    this.element.append(
      element("h2", {}, "Differences"),
      element("p", { class: "outcome" }, found.verdict),
      scrolled(table(["", "report", "machine", "strategy", "batch"], runs, "runs")),
      element("div", { class: "figures" }, ...figures),
      part("Numbers of both", table(["", "A", "B", "B / A", "origin"], rows, "figures")),
      part(
        "Settings that differ",
        changes.length > 0 ? table(["", "A", "B"], changes, "settings") : element("p", {}, "the same in both"),
      ),
      element("h3", {}, "What makes it again ", copy),
      element("pre", { id: "command" }, found.command),
      element("p", { class: "note" }, found.versions.map(([name, version]) => `${name} ${version}`).join(", ")),
    );
  }

  draw(): void {}
}

export function part(title: string, content: HTMLElement): HTMLElement {
  return scrolled(element("h3", {}, title), content);
}
