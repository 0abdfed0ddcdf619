// Light or dark, on a screen or on paper.

import { type Theme, theme } from "./colours";

/** Tell of every change of the theme; for paper the drawing must be done when `draw` returns. */
export function onAppearance(draw: (theme: Theme, forPaper: boolean) => void): void {
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(theme(), false));
  window.matchMedia("print").addEventListener("change", (event) => draw(theme(), event.matches));
  let opened: HTMLDetailsElement[] = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
  });
}
