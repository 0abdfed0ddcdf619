// The panes of a validation on a tree: those of any, and of the worst mappings the nest and what its ports do.

import { button, element, markCurrent, scrolled, table } from "./dom";
import { counted, cycles } from "./format";
import { PortLanes } from "./port-lanes";
import type { Place } from "./ports-pane";
import type { ResultPage, ResultPane } from "./results";
import { type TreeMapped, treeCode } from "./tree";
import { type JudgedSummary, judgedPanes, share, signed } from "./validation";

interface Summary extends JudgedSummary {
  units: number;
  memories: string[]; // the outermost first
  worst: { point: number; nest: string; mapping: TreeMapped; recordings: Place[] }[];
  report: JudgedSummary["report"] & {
    worst: {
      estimated_cycles: number;
      simulated_cycles: number;
      error: number;
      cycles_by_cause: Record<string, number>;
    }[];
  };
}

export async function treeValidationPanes(page: ResultPage, summary: Summary): Promise<ResultPane[]> {
  const judged = await judgedPanes(page, summary, counted(summary.units, "unit"));
  return [...judged, new TreeWorstPane(page, summary)];
}

/** The mappings with the largest errors: of the one that is chosen the nest, its ports, and where its cycles go. */
class TreeWorstPane implements ResultPane {
  readonly element = element("section", { id: "worst", "data-pane": "worst" });
  private readonly buttons: HTMLButtonElement[];
  private readonly lanes: PortLanes;
  private readonly windows = element("select", { id: "window", "aria-label": "Recorded cycles" });
  private readonly detail = element("div");
  private readonly below = element("div");

  constructor(
    private readonly page: ResultPage,
    private readonly summary: Summary,
  ) {
    const { report, worst } = summary;
    this.lanes = new PortLanes(page);
    this.windows.addEventListener("change", () => page.choose({ window: this.windows.value }));
    this.buttons = worst.map((one, at) =>
      button(`${at + 1}`, `Show ${at + 1}`, () => page.choose({ point: `${one.point}`, window: "" })),
    );
    const rows = report.worst.map((one, at) => [
      this.buttons[at],
      cycles(one.estimated_cycles),
      cycles(one.simulated_cycles),
      signed(one.error),
      worst[at].nest,
    ]);
    const heads = ["mapping", "cycles (estimated)", "cycles (simulated)", "error", "layer"];
    this.element.append(
      element("h2", {}, "Largest errors"),
      rows.length === 0
        ? element("p", {}, "No error is other than 0, or none was asked for.")
        : scrolled(table(heads, rows, "worst")),
      this.detail,
    );
    this.below.append(
      element("div", { class: "tools" }, element("label", {}, "recorded ", this.windows)),
      this.lanes.element,
    );
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("point") && !changed.has("window")) return;
    const at = this.summary.worst.findIndex((one) => `${one.point}` === this.page.chosen("point"));
    markCurrent(this.buttons, at);
    if (at < 0) {
      this.detail.replaceChildren();
      return;
    }
    const { mapping, recordings } = this.summary.worst[at];
    const one = this.summary.report.worst[at];
    const place = recordings.find((found) => found.name === this.page.chosen("window")) ?? recordings[0];
    this.windows.replaceChildren(...recordings.map((found) => element("option", { value: found.name }, found.name)));
    this.windows.value = place.name;
    const causes = Object.entries(one.cycles_by_cause)
      .filter(([, spent]) => spent > 0)
      .map(([name, spent]) => [
        name.replaceAll("_", " "),
        cycles(spent),
        share((100 * spent) / one.simulated_cycles, 1),
      ]);
    this.detail.replaceChildren(
      element("h3", {}, `Mapping ${at + 1}`),
      treeCode(mapping, this.summary),
      element("h3", {}, "Ports and units, cycle by cycle (simulated)"),
      this.below,
      element("h3", {}, "Where the cycles go (simulated)"),
      scrolled(table(["cause", "cycles", "share"], causes, "causes")),
    );
    void this.lanes.load(place.run);
  }
}
