// The pane of what ports and units of a tree do in recorded cycles, and for how long in all of them.

import { element, scrolled, table } from "./dom";
import { count, cycles, percent } from "./format";
import { PortLanes } from "./port-lanes";
import type { ResultPage, ResultPane } from "./results";

/** Recorded cycles: what they show, and which of the runs that the page holds they are. */
export interface Place {
  name: string;
  begin: number;
  end: number;
  run: number;
}

/** What is shown of the chosen layer, or of the chosen chain: its recordings, and all of its cycles. */
export interface Recorded {
  places: Place[];
  chosen: Place;
  title: string;
  note: string;
  cycles: number;
  cycles_by_cause: Record<string, number>;
  ports: readonly { port: string; busy_cycles: number }[];
}

export class PortsPane implements ResultPane {
  readonly element = element("section", { id: "simulation", "data-pane": "simulation" });
  private readonly title = element("h2", {});
  private readonly windows = element("select", { id: "window", "aria-label": "Recorded cycles" });
  private readonly held = element("p", { class: "note", id: "held" });
  private readonly lanes: PortLanes;
  private readonly figures = element("div", { class: "columns" });

  /** `recorded` takes the number of the recording that is asked for, which may be of another layer. */
  constructor(
    private readonly page: ResultPage,
    private readonly recorded: (run: number) => Recorded,
  ) {
    this.lanes = new PortLanes(page);
    this.windows.addEventListener("change", () => page.choose({ window: this.windows.value }));
    this.element.append(
      this.title,
      this.held,
      element("div", { class: "tools" }, element("label", {}, "recorded ", this.windows)),
      this.lanes.element,
      this.figures,
    );
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer") && !changed.has("window")) return;
    const found = this.recorded(Number(this.page.chosen("window") || -1));
    this.title.textContent = `Ports and units, cycle by cycle: ${found.title}`;
    this.windows.replaceChildren(
      ...found.places.map((one) =>
        element("option", { value: `${one.run}` }, `${one.name}: cycles ${count(one.begin)} to ${count(one.end - 1)}`),
      ),
    );
    this.windows.value = `${found.chosen.run}`;
    this.held.textContent =
      `Simulated. ${found.note} A box is the time in which a port works for one tile of an operand; the number in it ` +
      "is the tile's.";
    const causes = Object.entries(found.cycles_by_cause).map(([name, spent]) => [name.replaceAll("_", " "), spent]);
    const ports = found.ports.map((one) => [one.port, one.busy_cycles]);
    this.figures.replaceChildren(
      shares("Where the cycles go (simulated)", ["cause", "cycles", "share"], "causes", causes, found.cycles),
      shares("Ports in all cycles (simulated)", ["port", "busy", "of the latency"], "busy", ports, found.cycles),
    );
    void this.lanes.load(found.chosen.run);
  }
}

/** Parts of all cycles, each with a bar. */
function shares(
  title: string,
  heads: string[],
  name: string,
  parts: (string | number)[][],
  whole: number,
): HTMLElement {
  const rows = parts.map(([what, spent]) => {
    const share = Number(spent) / whole;
    return [`${what}`, cycles(Number(spent)), percent(share), bar(share)];
  });
  return element("div", {}, element("h3", {}, title), scrolled(table([...heads, ""], rows, name)));
}

export function bar(share: number): HTMLElement {
  const found = element("span", { class: "bar" });
  found.style.width = `${100 * Math.min(1, share)}%`;
  return element("span", { class: "bars" }, found);
}
