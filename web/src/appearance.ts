// Light or dark, on a screen or on paper.

import { type Theme, theme } from "./colours";

/** Tell of every change of the theme; for paper the drawing must be done when `draw` returns. */
export function onAppearance(draw: (theme: Theme, forPaper: boolean) => void): void {
  let opened: HTMLDetailsElement[] = [];
  const open = () => {
    for (const one of document.querySelectorAll<HTMLDetailsElement>("details:not([open])")) {
      one.open = true;
      opened.push(one);
    }
  };
  const close = () => {
    for (const one of opened) one.open = false;
    opened = [];
  };
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(theme(), false));
  window.matchMedia("print").addEventListener("change", (event) => {
    draw(theme(), event.matches);
    if (event.matches)
      open(); // what was drawn anew is folded again
    else close();
  });
  window.addEventListener("beforeprint", open);
  window.addEventListener("afterprint", close);
}
