// Search: how the least latency fell as candidates were simulated, and what made each that was faster than all before.

import { Chart, type ChartPoint } from "./chart";
import { colour } from "./colours";
import { element, scrolled, table } from "./dom";
import { count, counted, cycles, fixed, percent } from "./format";
import type { Page, Pane } from "./pane";
import type { Searched, SearchStep } from "./run";
import type { State } from "./selection";

export class SearchPane implements Pane {
  readonly element = element("section", { id: "search", "data-pane": "search" });
  private readonly chart = new Chart(
    "Latency against candidates simulated. Arrow keys go from one schedule to the next; the table below lists them.",
  );
  private readonly detail = element("p", { class: "note", id: "search-step" });
  private readonly content = element("div");
  private selected = -1;

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    place.append(this.chart.surface.canvas);
    this.chart.listen(page.tip, {
      selected: () => this.selected,
      select: (at) => {
        this.selected = at;
        this.paint();
      },
      describe: (at) => [this.described(this.steps[at])],
    });
    this.element.append(element("h2", {}, "Search"), place, this.detail, this.content);
  }

  private get searched(): Searched | undefined {
    return this.page.run.header.report.simulated.search;
  }

  private get steps(): SearchStep[] {
    return this.searched?.steps ?? [];
  }

  load(): void {
    this.selected = -1;
    this.element.hidden = this.searched === undefined;
    if (this.searched === undefined) return;
    const first = this.steps[0].latency_cycles;
    const rows = this.steps.map((step) => [
      count(step.evaluations),
      cycles(step.latency_cycles),
      percent(1 - step.latency_cycles / first),
      step.by,
    ]);
    this.content.replaceChildren(
      element(
        "details",
        {},
        element("summary", {}, `All ${counted(rows.length, "schedule")} that were faster than those before`),
        scrolled(table(["candidates", "latency (simulated)", "less than the first", "made by"], rows, "steps")),
      ),
    );
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (changed.has("strategy")) this.paint();
  }

  private paint(): void {
    if (this.searched === undefined) return;
    const points: ChartPoint[] = this.steps.map((step) => ({
      x: step.evaluations,
      y: step.latency_cycles,
      colour: colour(1),
      shape: "round",
      strong: false,
    }));
    this.chart.draw(this.page.theme, {
      x: { label: "candidates simulated", text: count },
      y: { label: "latency in cycles (simulated)", text: count },
      points,
      joined: points.map((_, at) => at),
      until: this.searched.evaluations,
      diagonal: "",
      selected: this.selected,
    });
    this.detail.textContent =
      this.selected < 0
        ? `Each point is faster than all before it; ${counted(this.searched.evaluations, "candidate")} were simulated in all. Choose one to see what made it.`
        : this.described(this.steps[this.selected]);
  }

  private described(step: SearchStep): string {
    const { bounds, what } = this.page.run.header.report;
    const ratio = step.latency_cycles / bounds.largest_cycles;
    const beside = what.batches === 1 ? `, ${fixed(ratio, 3)} x the largest bound` : "";
    const when = step.evaluations === 0 ? "before the search" : `after ${counted(step.evaluations, "candidate")}`;
    return `${cycles(step.latency_cycles)} (simulated)${beside}: ${when}, made by ${step.by}`;
  }
}
