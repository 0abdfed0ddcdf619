// The table of layers, of which one is chosen.

import { button, element, markCurrent, scrolled, table } from "./dom";
import type { ResultPage, ResultPane } from "./results";

/** The number of the layer that is chosen by its name, the first where none is. */
export function layerAt(page: ResultPage, layers: readonly { name: string }[]): number {
  const asked = page.chosen("layer");
  return Math.max(
    0,
    layers.findIndex((layer) => layer.name === asked),
  );
}

export class LayerTable implements ResultPane {
  readonly element = element("section", { id: "layers", "data-pane": "layers" });
  private readonly buttons: HTMLButtonElement[];

  constructor(
    private readonly page: ResultPage,
    private readonly names: string[],
    heads: string[],
    rows: (Node | string)[][],
    title = "Layers",
  ) {
    this.buttons = names.map((name) => button(name, `Show ${name}`, () => this.choose(name)));
    const body = rows.map((row, at) => [this.buttons[at], ...row]);
    this.element.append(element("h2", {}, title), scrolled(table(heads, body, "layers")));
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  draw(): void {
    const chosen = layerAt(
      this.page,
      this.names.map((name) => ({ name })),
    );
    markCurrent(this.buttons, chosen);
  }

  private choose(name: string): void {
    this.page.choose({ layer: name, mapping: "", element: "", cycle: "", window: "" });
  }

  /** Up and down go from layer to layer. */
  private key(event: KeyboardEvent): void {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const at = this.buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    const next = this.buttons[at + step];
    if (next === undefined) return;
    next.focus();
    this.choose(this.names[at + step]);
  }
}
