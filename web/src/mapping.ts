// The panes of a mapping: the verdict, the layers, and the loop nest of one of them on the array.

import { ArrayView, type Shape } from "./array";
import { colour, colourIndex } from "./colours";
import { element } from "./dom";
import { count, cycles, energy, percent, scaled, seconds } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import { energyTable, type MappedNest, nestCode, type Spread } from "./nest";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

interface MappedRow {
  name: string;
  kind: string;
  nest: string;
  times: number;
  operators: string[];
  macs: number;
  proven_best: boolean;
  tilings_evaluated: number;
  spatial_tilings: number;
  spatial_tilings_pruned: number;
  mappings: Price[];
}

interface MapSummary extends ResultSummary {
  clock_hz: number;
  notes: string[];
  array: Shape;
  report: {
    network: string;
    machine: string;
    model: string;
    objective: string;
    search: string;
    cycles: number;
    latency_seconds: number;
    energy_pj: number;
    edp: number;
    macs: number;
    utilization: number;
    unmapped_operators: Record<string, number>;
    layers: MappedRow[];
  };
  layers: {
    nest: string;
    proof: {
      text: string;
      register_tilings_pruned: number;
      tile_tilings_pruned: number;
      certificate: { problem: string; bound: number; tilings: number } | null;
    };
    mappings: MappedNest[];
  }[];
}

export async function mapPanes(page: ResultPage, summary: MapSummary): Promise<ResultPane[]> {
  const { report } = summary;
  const rows = report.layers.map((layer) => {
    const best = layer.mappings[0];
    return [
      count(layer.times),
      cycles(best.cycles),
      seconds(best.cycles / summary.clock_hz),
      energy(best.energy_pj),
      best.edp.toExponential(4),
      percent(best.utilization),
      summary.layers[report.layers.indexOf(layer)].proof.text,
    ];
  });
  const heads = [
    "layer",
    "times",
    "cycles (estimated)",
    "latency (estimated)",
    "energy (estimated)",
    "EDP, pJ x cycles (estimated)",
    "utilization (estimated)",
    "tilings",
  ];
  const names = report.layers.map((layer) => layer.name);
  const layers = report.layers.map((row, at) => ({
    name: row.name,
    nest: summary.layers[at].nest,
    prices: row.mappings,
    mappings: summary.layers[at].mappings,
    proof: () => proofLines(row, summary.layers[at].proof, report.objective),
  }));
  return [verdict(summary), new LayerTable(page, names, heads, rows), new NestPane(page, summary.array, layers)];
}

function verdict(summary: MapSummary): ResultPane {
  const { report } = summary;
  const proven = report.layers.every((layer) => layer.proven_best);
  const least = report.macs / summary.array.elements;
  const unmapped = Object.entries(report.unmapped_operators);
  const rows = [
    ["network", report.network],
    [
      "machine",
      `${report.machine}, ${count(summary.array.elements)} elements, clock ${count(summary.clock_hz / 1e6)} MHz`,
    ],
    ["cost model", report.model],
    ["layers", `${report.layers.length} different, ${report.layers.reduce((sum, one) => sum + one.times, 0)} in all`],
    ...(unmapped.length > 0 ? [["left out", unmapped.map(([kind, n]) => `${kind} ${n}`).join(", ")]] : []),
  ];
  const outcome = proven
    ? `Proven: of all mappings that the search may choose, none of a layer has less ${objectiveText(report.objective)}`
    : "Not proven: the best of what dMazeRunner's rules leave";
  return verdictPane(
    [
      figure(seconds(report.latency_seconds), "latency", "estimated", cycles(report.cycles)),
      figure(energy(report.energy_pj), "energy", "estimated", "of all layers, each as often as it runs"),
      figure(report.edp.toExponential(4), "EDP, pJ x cycles", "estimated", "energy of all layers x their cycles"),
      figure(
        seconds(least / summary.clock_hz),
        "every element busy all the time",
        "bound: no mapping takes less",
        `${cycles(Math.ceil(least))} for ${scaled(report.macs)} multiply-accumulates`,
      ),
      figure(percent(report.utilization), "utilization", "estimated; bound / latency", "of all elements"),
      figure(objectiveText(report.objective), "objective", `${report.search} search`, "of each layer on its own"),
    ],
    element("p", { class: proven ? "outcome passed" : "outcome" }, outcome),
    made(summary, rows, summary.notes),
  );
}

function objectiveText(objective: string): string {
  return (
    { edp: "EDP", energy: "energy", latency: "latency", pareto: "latency and energy (front)" }[objective] ?? objective
  );
}

interface Price {
  cycles: number;
  energy_pj: number;
  edp: number;
  utilization: number;
}

/** A layer as the pane of nests shows it. */
interface ShownLayer {
  name: string;
  nest: string;
  prices: Price[];
  mappings: MappedNest[];
  proof: () => HTMLElement[];
}

interface GivenSummary extends ResultSummary {
  clock_hz: number;
  notes: string[];
  array: Shape;
  name: string;
  nest: string;
  macs: number;
  mapping: MappedNest;
  report: { machine: string; model: string; valid: boolean; reason?: string; cycles: number; energy_pj: number };
}

/** The panes of a mapping that was given: what it costs, and its nest. */
export async function givenPanes(page: ResultPage, summary: GivenSummary): Promise<ResultPane[]> {
  const { report, array, clock_hz: hz } = summary;
  const edp = report.cycles * report.energy_pj;
  const utilization = summary.macs / array.elements / report.cycles;
  const rows = [
    ["layer", summary.name],
    ["machine", `${report.machine}, ${count(array.elements)} elements, clock ${count(hz / 1e6)} MHz`],
    ["cost model", report.model],
  ];
  const outcome = report.valid
    ? "The mapping fits the machine."
    : `DOES NOT FIT: ${report.reason}; priced as if it did`;
  const figures = [
    figure(seconds(report.cycles / hz), "latency", "estimated", cycles(report.cycles)),
    figure(energy(report.energy_pj), "energy", "estimated", "of the layer, once"),
    figure(edp.toExponential(4), "EDP, pJ x cycles", "estimated", "energy x cycles"),
    figure(percent(utilization), "utilization", "estimated", `of ${count(array.elements)} elements`),
  ];
  const layer = {
    name: summary.name,
    nest: summary.nest,
    prices: [{ cycles: report.cycles, energy_pj: report.energy_pj, edp, utilization }],
    mappings: [summary.mapping],
    proof: () => [
      element("h3", {}, "Search"),
      element("p", {}, "Nothing was searched: the mapping was given. Without --mapping the best one is found."),
    ],
  };
  return [
    verdictPane(
      figures,
      element("p", { class: report.valid ? "outcome" : "outcome failed" }, outcome),
      made(summary, rows, summary.notes),
    ),
    new NestPane(page, array, [layer]),
  ];
}

function proofLines(row: MappedRow, proof: MapSummary["layers"][number]["proof"], objective: string): HTMLElement[] {
  const lines = [
    `${count(row.spatial_tilings)} ways to spread the loops over the elements; ${count(row.spatial_tilings_pruned)} of ` +
      "them were left out whole, as a bound says that nothing in them is better.",
  ];
  if (proof.register_tilings_pruned + proof.tile_tilings_pruned > 0) {
    lines.push(
      `Of the others ${count(proof.register_tilings_pruned)} tilings were left out with their register files and ` +
        `${count(proof.tile_tilings_pruned)} with their tiles of the scratchpad, by bounds likewise.`,
    );
  }
  lines.push(`${count(row.tilings_evaluated)} tilings were priced, in all orders that may be best.`);
  if (!row.proven_best) lines.push("dMazeRunner's rules left out others without a bound: nothing is proven.");
  if (proof.certificate !== null) {
    lines.push(
      `Certificate of problem ${proof.certificate.problem}: of ${count(proof.certificate.tilings)} tilings that fit ` +
        `none has less ${objectiveText(objective)} than ${proof.certificate.bound.toExponential(6)}. ` +
        "tilestitch map --check judges it with an enumeration of its own.",
    );
  } else if (row.proven_best && objective !== "pareto") {
    lines.push("No certificate was asked for; --certificate FILE writes one, which --check judges.");
  }
  const head = row.proven_best ? "Proof" : "Search";
  return [element("h3", {}, head), ...lines.map((text) => element("p", {}, text))];
}

/** The nest of the layer that is chosen, its energy, its proof, and who of the array does what. */
class NestPane implements ResultPane {
  readonly element = element("section", { id: "nest", "data-pane": "nest" });
  private readonly title = element("h2", {});
  private readonly text = element("p", { class: "note" });
  private readonly mappings = element("select", { id: "mapping", "aria-label": "Mapping" });
  private readonly choice = element("label", {}, "mapping ", this.mappings);
  private readonly body = element("div");
  private readonly proof = element("div", { id: "proof" });
  private readonly colours = element("select", { id: "colours", "aria-label": "Colours of elements" });
  private readonly said = element("p", { class: "note", id: "element" });
  private readonly view: ArrayView;

  constructor(
    private readonly page: ResultPage,
    private readonly array: Shape,
    private readonly layers: ShownLayer[],
  ) {
    this.view = new ArrayView(array, "The array: rows and columns of elements. Arrow keys choose one.");
    const place = element("div", { class: "surface" });
    const { canvas } = this.view.surface;
    place.append(canvas);
    this.mappings.addEventListener("change", () => page.choose({ mapping: this.mappings.value, element: "" }));
    this.colours.addEventListener("change", () => page.choose({ colours: this.colours.value }));
    canvas.addEventListener("click", (event) => this.select(this.view.under(event)));
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => page.tip.hide());
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.element.append(
      this.title,
      this.text,
      element("div", { class: "tools" }, this.choice),
      this.body,
      this.proof,
      element("h3", {}, "Array"),
      element("div", { class: "tools" }, element("label", {}, "colours by ", this.colours)),
      place,
      this.said,
    );
  }

  private get number(): number {
    return layerAt(this.page, this.layers);
  }

  private get rank(): number {
    const asked = Number(this.page.chosen("mapping") || "1");
    return Number.isInteger(asked) && asked >= 1 && asked <= this.layer.mappings.length ? asked - 1 : 0;
  }

  private get layer() {
    return this.layers[this.number];
  }

  private get mapped(): MappedNest {
    return this.layer.mappings[this.rank];
  }

  draw(changed: ReadonlySet<string> | null): void {
    const { layer, mapped } = this;
    if (changed === null || changed.has("layer") || changed.has("mapping")) {
      const price = layer.prices[this.rank];
      this.title.textContent = `Loop nest and array: ${layer.name}`;
      this.text.textContent = layer.nest;
      this.choice.hidden = layer.mappings.length < 2;
      this.mappings.replaceChildren(
        ...layer.prices.map((one, at) =>
          element("option", { value: `${at + 1}` }, `${at + 1}: ${cycles(one.cycles)}, ${energy(one.energy_pj)}`),
        ),
      );
      this.mappings.value = `${this.rank + 1}`;
      this.body.replaceChildren(
        element(
          "p",
          {},
          `${cycles(price.cycles)}, ${energy(price.energy_pj)}, EDP ${price.edp.toExponential(6)} pJ x cycles, ` +
            `utilization ${percent(price.utilization)} (estimated)`,
        ),
        nestCode(mapped, this.array.elements),
        element("h3", {}, "Energy (estimated)"),
        energyTable(mapped),
      );
      this.proof.replaceChildren(...layer.proof());
      const loops = mapped.spread.loops.map((loop) => loop.name);
      this.colours.replaceChildren(...["result", ...loops].map((name) => element("option", {}, name)));
    }
    const { spread } = mapped;
    const asked = this.page.chosen("colours");
    this.colours.value = spread.loops.some((loop) => loop.name === asked) ? asked : "result";
    const selected = this.selected;
    this.view.draw(
      this.page.theme,
      (at) => {
        const place = placeOf(spread, at);
        if (place === null) return { fill: null, text: "", edge: null };
        return { fill: colour(colourIndex(this.group(place))), text: place.join(","), edge: null };
      },
      selected,
    );
    this.said.textContent = selected < 0 ? this.legend() : this.describe(selected).join("; ");
  }

  private get selected(): number {
    const text = this.page.chosen("element");
    return /^\d+$/.test(text) && Number(text) < this.array.elements ? Number(text) : -1;
  }

  /** The number of what gives an element its colour: the results that it works on, or its place in one loop. */
  private group(place: number[]): number {
    const { spread } = this.mapped;
    const at = spread.loops.findIndex((loop) => loop.name === this.colours.value);
    if (at >= 0) return place[at];
    return spread.loops.reduce(
      (sum, loop, i) => (spread.summed.includes(loop.name) ? sum : sum * loop.count + place[i]),
      0,
    );
  }

  private legend(): string {
    const { spread } = this.mapped;
    const names = spread.loops.map((loop) => loop.name).join(", ");
    const idle = this.array.elements - spread.elements;
    const parts = [names === "" ? "Nothing is spread: one element works." : `In each element its place in ${names}.`];
    if (spread.summed.length > 0) {
      parts.push(`Elements of one colour add to the same results, over ${spread.summed.join(", ")}.`);
    }
    if (idle > 0) parts.push(`${count(idle)} elements are left out.`);
    return parts.join(" ");
  }

  private describe(at: number): string[] {
    const { spread } = this.mapped;
    const place = placeOf(spread, at);
    const { columns } = this.array;
    const where = `element ${at}: row ${Math.floor(at / columns)}, column ${at % columns}`;
    if (place === null) return [where, "left out by this mapping"];
    const loops = spread.loops.map((loop, i) => `${loop.name} = ${place[i]} of ${loop.count}`);
    return [where, loops.join(", ") || "the only one that works"];
  }

  private select(at: number): void {
    this.page.choose({ element: at < 0 || at === this.selected ? "" : `${at}` });
  }

  private hover(event: MouseEvent): void {
    const at = this.view.under(event);
    if (at < 0) this.page.tip.hide();
    else this.page.tip.show(event, this.describe(at));
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") this.page.choose({ element: "" });
    if (!event.key.startsWith("Arrow")) return;
    event.preventDefault();
    const { selected } = this;
    this.page.choose({ element: `${selected < 0 ? 0 : this.view.moved(selected, event.key)}` });
  }
}

/** Where an element is in the loops that are spread, the last fastest; null where the mapping leaves it out. */
export function placeOf(spread: Spread, at: number): number[] | null {
  if (at >= spread.elements) return null;
  const found: number[] = [];
  let rest = at;
  for (const loop of [...spread.loops].reverse()) {
    found.unshift(rest % loop.count);
    rest = Math.floor(rest / loop.count);
  }
  return found;
}
