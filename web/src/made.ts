// What every verdict has: figures with their origin, and how the page was made.

import { button, element, scrolled, table } from "./dom";
import type { ResultPane } from "./results";

export interface Origin {
  command: string; // that makes the page again
  options: [string, string][];
  versions: [string, string][];
}

/** A number in large letters, with its name, whether it is simulated, estimated or a bound, and a word more. */
export function figure(value: string, name: string, origin: string, more: string): HTMLElement {
  return element(
    "div",
    { class: "figure" },
    element("div", { class: "name" }, name),
    element("div", { class: "value" }, value),
    element("div", { class: "more" }, more),
    element("div", { class: "origin" }, origin),
  );
}

/** The first pane: figures side by side, and what follows them. */
export function verdictPane(figures: HTMLElement[], ...rest: HTMLElement[]): ResultPane {
  const section = element(
    "section",
    { id: "verdict", "data-pane": "verdict" },
    element("h2", {}, "Verdict"),
    element("div", { class: "figures" }, ...figures),
    ...rest,
  );
  return { element: section, draw: () => {} };
}

/** Notes, what the page was made from, and the command that makes it again. */
export function made(origin: Origin, rows: string[][], notes: readonly string[]): HTMLElement {
  const copy = button("copy", "Copy the command", () => void navigator.clipboard?.writeText(origin.command));
  const all = [...rows, ...origin.options, ...origin.versions];
  return element(
    "div",
    {},
    ...notes.map((note) => element("p", { class: "note" }, note)),
    element("details", {}, element("summary", {}, "What it was made from"), scrolled(table([], all, "origin"))),
    element("h3", {}, "What makes it again ", copy),
    element("pre", { id: "command" }, origin.command),
  );
}
