// Proof: every bound, what verification compared and who judged it, which invariants were held, and what is certain.

import { Surface } from "./canvas";
import { colour, css, NEUTRAL } from "./colours";
import { element, table } from "./dom";
import { bytes, count, fixed, percent, scaled, seconds } from "./format";
import type { Page, Pane } from "./pane";
import type { Proof, Report } from "./run";
import type { State } from "./selection";

const ROW = 20; // pixels of a bar
const LEFT = 150;
const RIGHT = 96;

type Limit = Proof["limits"][number];

export class ProofPane implements Pane {
  readonly element = element("section", { id: "proof", "data-pane": "proof" });
  private readonly surface = new Surface("");
  private readonly content = element("div");

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    const { canvas } = this.surface;
    canvas.tabIndex = -1;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", "The latency and every bound as bars; the table below has them");
    place.append(canvas);
    this.element.append(
      element("h2", {}, "Proof"),
      element("p", { class: "note" }, "What no schedule can beat (bound), beside the latency (simulated)."),
      place,
      this.content,
    );
  }

  load(): void {
    const { proof, report } = this.page.run.header;
    this.content.replaceChildren(
      bounds(proof, report),
      element("h3", {}, "What is certain"),
      element("ul", {}, ...proof.certain.map((one) => certain(one.what, one.rests_on))),
      ...verification(proof, report),
      part(
        "Invariants that were held, stage by stage",
        table(
          ["stage", "looked at", "held", "what holds"],
          proof.verifiers.map((one) => [
            one.stage,
            one.looked_at,
            one.ran ? "yes" : "not looked at: add --verify",
            one.holds,
          ]),
          "verifiers",
        ),
        "prose",
      ),
    );
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (!changed.has("strategy")) return;
    const { report, proof } = this.page.run.header;
    const rows: [string, number][] = [["latency", report.simulated.latency_cycles]];
    rows.push(...proof.limits.map((one, at): [string, number] => [name(one, at, proof.limits), one.cycles]));
    if (!this.surface.fit(rows.length * ROW)) return;
    const { context, width, height } = this.surface;
    const { theme } = this.page;
    const most = Math.max(1, ...rows.map(([, value]) => value));
    context.clearRect(0, 0, width, height);
    context.font = "11px sans-serif";
    context.textBaseline = "middle";
    for (const [at, [what, value]] of rows.entries()) {
      const y = at * ROW;
      const long = (value / most) * (width - LEFT - RIGHT);
      context.fillStyle = theme.ink;
      context.fillText(what, 2, y + ROW / 2);
      const largest = at > 0 && value === report.bounds.largest_cycles;
      context.fillStyle = at === 0 ? css(colour(1)) : css(colour(largest ? 2 : NEUTRAL));
      context.fillRect(LEFT, y + 3, Math.max(value > 0 ? 1 : 0, long), ROW - 6);
      context.fillStyle = theme.faint;
      context.fillText(count(value), LEFT + long + 5, y + ROW / 2);
    }
  }
}

/** Two limits of one thing differ in what they assume. */
function name(one: Limit, at: number, all: Limit[]): string {
  const same = all.findIndex((other) => other.of === one.of);
  return same === at ? one.of : `${one.of}, best tiles`;
}

function part(title: string, content: HTMLElement, more = ""): HTMLElement {
  return element("div", { class: `scroll ${more}`.trim() }, element("h3", {}, title), content);
}

function certain(what: string, restsOn: string): HTMLElement {
  return element("li", {}, what, element("div", { class: "note" }, `Rests on: ${restsOn}.`));
}

function bounds(proof: Proof, report: Report): HTMLElement {
  const { bounds: limits, simulated } = report;
  const rows = proof.limits.map((one, at) => {
    const what = name(one, at, proof.limits);
    const largest = element("strong", {}, `${what}: the largest`);
    const ratio = one.cycles > 0 ? `${fixed(simulated.latency_cycles / one.cycles, 2)} x` : "";
    const work = one.unit === "bytes" ? bytes(one.work) : `${scaled(one.work)} ${one.unit}`;
    return [
      one.cycles === limits.largest_cycles ? largest : what,
      count(one.cycles),
      seconds(one.cycles / report.what.clock_hz),
      ratio,
      work,
      one.assumes,
    ];
  });
  const heads = ["bound of", "cycles", "time", "latency\u00a0/ bound", "work of a cluster", "assumes"];
  return part("Bounds of a batch on one cluster", table(heads, rows, "limits"), "prose");
}

function verification(proof: Proof, report: Report): HTMLElement[] {
  const { result, checks } = report.verification;
  if (checks.length === 0) {
    const text = "Nothing was executed: add --verify to compare every output value with onnxruntime's.";
    return [element("h3", {}, "Verification"), element("p", {}, text)];
  }
  const ratio = (value: number | null) => (value === null ? "not finite" : value.toExponential(2));
  const rows = checks.map((one) => [
    one.precision,
    one.outcome,
    count(one.compared_values),
    `${count(one.decided_values)} (${percent(one.decided_values / Math.max(1, one.compared_values))})`,
    one.output,
    ratio(one.relative_error),
    ratio(one.allowed_relative_error),
    one.largest_difference_to_rounding_ratio === null
      ? "not finite"
      : fixed(one.largest_difference_to_rounding_ratio, 3),
    percent(one.lost_share),
  ]);
  const heads = [
    "precision",
    "outcome",
    "values compared",
    "of them decided: a wrong one would show",
    "worst output",
    "largest error / largest magnitude",
    "allowed",
    "largest difference / its bound",
    "lost to float16",
  ];
  return [
    part(`Verification: ${result}`, table(heads, rows, "verification")),
    element("ul", { id: "judges" }, ...proof.judges.map((one) => element("li", {}, one))),
  ];
}
