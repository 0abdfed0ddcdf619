// Short ways to make elements; text is always text, never markup.

type Child = Node | string;

export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const found = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  found.append(...children);
  return found;
}

export function button(text: string, title: string, onClick: () => void): HTMLButtonElement {
  const found = element("button", { type: "button", title }, text);
  found.addEventListener("click", onClick);
  return found;
}

/** Show which of some buttons is chosen; none of them below 0. */
export function markCurrent(buttons: readonly HTMLButtonElement[], chosen: number): void {
  for (const [at, one] of buttons.entries()) {
    if (at === chosen) one.setAttribute("aria-current", "true");
    else one.removeAttribute("aria-current");
  }
}

/** A table whose first cell of each row is a heading. */
export function table(heads: string[], rows: Child[][], name = ""): HTMLTableElement {
  const found = element("table", name ? { "data-table": name } : {});
  if (heads.length > 0) {
    const cells = heads.map((text) => element("th", { scope: "col" }, text));
    found.append(element("thead", {}, element("tr", {}, ...cells)));
  }
  const body = element("tbody");
  for (const row of rows) {
    const cells = row.map((cell, i) => (i === 0 ? element("th", { scope: "row" }, cell) : element("td", {}, cell)));
    body.append(element("tr", {}, ...cells));
  }
  found.append(body);
  return found;
}

/** What may be wider than the page, and then scrolls sideways. */
export function scrolled(...children: Child[]): HTMLDivElement {
  return element("div", { class: "scroll" }, ...children);
}

/** What shows what is under the pointer. */
export class Tip {
  readonly element = element("div", { class: "tip", role: "status" });

  show(event: MouseEvent, lines: string[]): void {
    this.element.replaceChildren(...lines.map((line) => element("div", {}, line)));
    this.element.style.display = "block";
    const box = this.element.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const above = event.clientY + 18 + box.height > window.innerHeight;
    this.element.style.left = `${Math.max(4, left)}px`;
    this.element.style.top = `${above ? event.clientY - box.height - 10 : event.clientY + 18}px`;
  }

  hide(): void {
    this.element.style.display = "none";
  }
}
