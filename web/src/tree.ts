// The panes of mappings on a machine tree: the verdict, the layers, the nest of one of them, and the machine.

import { colour, colourIndex, css, inkOn } from "./colours";
import { element, scrolled, table } from "./dom";
import { bytes, count, counted, cycles, energy, percent, scaled, seconds } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

interface Block {
  memory: string;
  size_bits: number;
  instances: number;
  holds: { operand: number; extents: number[]; room_bits: number }[];
  loops: { name: string; count: number }[]; // the outermost first
}

export interface TreeMapped {
  energy_pj: number;
  latency_cycles: number;
  edp_pj_cycles: number;
  utilization: number;
  operands: string[];
  body: string;
  blocks: Block[];
  spread: { axis: string; loop: string; factor: string }[];
  working_units: number;
  energy: { name: string; operands_pj: number[]; energy_pj: number }[];
  ports: { memory: string; port: string; bits_per_cycle: number; busy_cycles: number }[];
}

interface TreeRow {
  name: string;
  operator: string;
  times: number;
  macs: number;
  energy_pj: number;
  latency_cycles: number;
  edp_pj_cycles: number;
  ideal_cycles: number;
  utilization: number;
  proven_best: boolean;
  bound_pj: number;
  bound_cycles: number;
  gap: number;
  labels: number;
  lattice_points: number;
  spatial_choices: number | null;
  spatial_choices_opened: number | null;
  spatial_choices_of_more_than?: number;
  notes: string[];
  flows: { operand: string; memory: string; direction: string; accesses: number; energy_pj: number }[];
}

interface Certificate {
  problem: string;
  value: string; // what no mapping has less of
  choices: number;
  opened: number;
  layers: string[];
}

interface TreeSummary extends ResultSummary {
  clock_hz: number | null;
  units: number;
  picture: string; // SVG
  sought: string;
  proof: string;
  memories: string[]; // the outermost first
  report: {
    network: string;
    machine: string;
    objective: string;
    sums: string;
    energy_pj: number;
    bound_pj: number;
    latency_cycles: number;
    bound_cycles: number;
    edp_pj_cycles: number;
    proven_best: boolean;
    notes: string[];
    layers: TreeRow[];
    unmapped: { name: string; reason: string }[];
  };
  layers: {
    nest: string;
    verdict: string;
    chosen: number;
    certificate: Certificate | null;
    mappings: TreeMapped[];
  }[];
}

export async function treePanes(page: ResultPage, summary: TreeSummary): Promise<ResultPane[]> {
  const { layers } = summary.report;
  const rows = layers.map((layer, at) => [
    count(layer.times),
    energy(layer.energy_pj),
    cycles(layer.latency_cycles),
    layer.edp_pj_cycles.toExponential(4),
    percent(layer.utilization),
    summary.layers[at].verdict,
  ]);
  const heads = [
    "layer",
    "times",
    "energy (estimated)",
    "latency (estimated)",
    "EDP, pJ x cycles (estimated)",
    "utilization (estimated)",
    "proof",
  ];
  const names = layers.map((layer) => layer.name);
  const panes = [verdict(summary), new LayerTable(page, names, heads, rows), new TreeNest(page, summary)];
  return [...panes, machinePane(summary.report.machine, summary.picture)];
}

function verdict(summary: TreeSummary): ResultPane {
  const { report, clock_hz: hz } = summary;
  const least = report.layers.reduce((sum, one) => sum + one.times * one.ideal_cycles, 0);
  const macs = report.layers.reduce((sum, one) => sum + one.times * one.macs, 0);
  const time = (value: number) => (hz === null ? "" : `${seconds(value / hz)}, `);
  const clock = hz === null ? "no clock given" : `clock ${count(hz / 1e6)} MHz`;
  const times = report.layers.reduce((sum, one) => sum + one.times, 0);
  const rows = [
    ["network", report.network],
    ["machine", `${report.machine}, ${counted(summary.units, "unit")}, ${clock}`],
    ["layers", `${report.layers.length} different, ${times} in all`],
    ["sums", `stored at ${report.sums} width`],
    ...report.unmapped.map((one) => [`not mapped: ${one.name}`, one.reason]),
  ];
  const note =
    report.unmapped.length === 0 ? "of all layers, each as often as it runs" : "of the layers with a mapping";
  return verdictPane(
    [
      figure(energy(report.energy_pj), "energy", "estimated", `${note}; bound ${energy(report.bound_pj)}`),
      figure(
        cycles(report.latency_cycles),
        "latency",
        "estimated",
        `${time(report.latency_cycles)}one layer after another; bound ${cycles(report.bound_cycles)}`,
      ),
      figure(report.edp_pj_cycles.toExponential(4), "EDP, pJ x cycles", "estimated", "of the sums"),
      figure(
        cycles(least),
        "every unit busy all the time",
        "bound: no mapping takes less",
        `${time(least)}${scaled(macs)} multiply-accumulates`,
      ),
      figure(percent(least / report.latency_cycles), "utilization", "estimated; bound / latency", "of all units"),
      figure(summary.sought, "objective", "exact search", "of each layer on its own"),
    ],
    element(
      "p",
      { class: report.proven_best ? "outcome passed" : "outcome" },
      `${report.proven_best ? "Proven" : "Not proven"}: ${summary.proof}`,
    ),
    ...report.unmapped.map((one) => element("p", { class: "outcome failed" }, `${one.name}: ${one.reason}`)),
    made(summary, rows, report.notes),
  );
}

/** The machine as a picture, on a white ground in both themes. */
export function machinePane(name: string, svg: string): ResultPane {
  const picture = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", `The memories and units of ${name}`);
  const section = element(
    "section",
    { id: "machine", "data-pane": "machine" },
    element("h2", {}, "Machine"),
    element(
      "p",
      { class: "note" },
      "Memories from the outermost on top; how often what is inside repeats is on the lines.",
    ),
    scrolled(document.importNode(picture, true)),
  );
  return { element: section, draw: () => {} };
}

/** The nest of the layer that is chosen, where its energy goes, how long its ports are occupied, and what is proven. */
class TreeNest implements ResultPane {
  readonly element = element("section", { id: "nest", "data-pane": "nest" });
  private readonly title = element("h2", {});
  private readonly text = element("p", { class: "note" });
  private readonly mappings = element("select", { id: "mapping", "aria-label": "Mapping" });
  private readonly choice = element("label", {}, "mapping ", this.mappings);
  private readonly body = element("div");

  constructor(
    private readonly page: ResultPage,
    private readonly summary: TreeSummary,
  ) {
    this.mappings.addEventListener("change", () => page.choose({ mapping: this.mappings.value }));
    this.element.append(this.title, this.text, element("div", { class: "tools" }, this.choice), this.body);
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer") && !changed.has("mapping")) return;
    const number = layerAt(this.page, this.summary.report.layers);
    const row = this.summary.report.layers[number];
    const layer = this.summary.layers[number];
    const asked = Number(this.page.chosen("mapping"));
    const known = Number.isInteger(asked) && asked >= 1 && asked <= layer.mappings.length;
    const rank = known ? asked - 1 : layer.chosen;
    const mapped = layer.mappings[rank];
    this.title.textContent = `Loop nest and memories: ${row.name}`;
    this.text.textContent = layer.nest;
    this.choice.hidden = layer.mappings.length < 2;
    this.mappings.replaceChildren(
      ...layer.mappings.map((one, at) =>
        element(
          "option",
          { value: `${at + 1}` },
          `${at + 1}: ${cycles(one.latency_cycles)}, ${energy(one.energy_pj)}${at === layer.chosen ? ", least EDP" : ""}`,
        ),
      ),
    );
    this.mappings.value = `${rank + 1}`;
    this.body.replaceChildren(
      element(
        "p",
        {},
        `${cycles(mapped.latency_cycles)}, ${energy(mapped.energy_pj)}, EDP ${mapped.edp_pj_cycles.toExponential(6)} ` +
          `pJ x cycles, utilization ${percent(mapped.utilization)} (estimated)`,
      ),
      ...row.notes.map((note) => element("p", { class: "note" }, note)),
      treeCode(mapped, this.summary),
      element("h3", {}, "Energy (estimated)"),
      energies(mapped.operands, mapped.energy),
      element("h3", {}, "Ports (estimated)"),
      element(
        "p",
        { class: "note" },
        "The cycles for which each port of one memory is occupied, beside the latency. A port that is occupied nearly " +
          "all the time limits it; with none, the units do, or transfers that wait for one another.",
      ),
      ports(mapped),
      ...proof(row, layer),
    );
  }
}

/** A line of code inside so many loops. */
export function levelLine(depth: number, kind: string, text: string): HTMLElement {
  const code = element("code", { class: kind }, text);
  code.style.paddingLeft = `${1.2 * depth}em`;
  return code;
}

/** Each memory as a block with its colour: what it holds inside the loops above, then the loops that follow. */
export function treeCode(mapped: TreeMapped, summary: { memories: string[]; units: number }): HTMLElement {
  const found = element("div", { class: "nest" });
  let depth = 0;
  const line = (lines: HTMLElement[], text: string, kind: string) => lines.push(levelLine(depth, kind, text));
  const add = (name: string, place: number, lines: HTMLElement[], room: string) => {
    const rgb = colour(colourIndex(place));
    const label = element("div", { class: "level-name" }, name);
    label.style.background = css(rgb);
    label.style.color = inkOn(rgb);
    const parts = [label, element("div", { class: "lines" }, ...lines), element("div", { class: "note room" }, room)];
    found.append(element("div", { class: "level", "data-level": name }, ...parts));
  };
  for (const block of mapped.blocks) {
    const lines: HTMLElement[] = [];
    const held = block.holds
      .map((one) => `${mapped.operands[one.operand]} ${one.extents.join("x") || "1"} (${bits(one.room_bits)})`)
      .join(", ");
    line(lines, `# holds ${held}`, "holds");
    for (const loop of block.loops) {
      line(lines, `for ${loop.name} in ${count(loop.count)}:`, "loop");
      depth++;
    }
    const used = block.holds.reduce((sum, one) => sum + one.room_bits, 0);
    const room = `${bits(used)} of ${bits(block.size_bits)}, ${percent(used / block.size_bits)}`;
    add(block.memory, summary.memories.indexOf(block.memory), lines, room);
  }
  const units: HTMLElement[] = [];
  const spread = mapped.spread.map((one) => `${one.loop} over ${one.factor} along ${one.axis}`).join(", ") || "nothing";
  line(units, `spread ${spread}:  # ${working(mapped)} of ${counted(summary.units, "unit")}`, "loop");
  depth++;
  line(units, mapped.body, "body");
  add("units", summary.memories.length, units, "");
  return found;
}

function working(mapped: TreeMapped): string {
  const { working_units: busy } = mapped;
  return Number.isInteger(busy) ? count(busy) : `on average ${busy.toFixed(1)}`;
}

/** Bits as bytes, or as they are where they are no whole bytes. */
function bits(value: number): string {
  return value % 8 === 0 ? bytes(value / 8) : counted(value, "bit");
}

/** Where energy goes: a row for each memory, a column for each operand or operator. */
export function energies(names: readonly string[], parts: TreeMapped["energy"]): HTMLElement {
  const whole = parts.reduce((sum, one) => sum + one.energy_pj, 0);
  const rows = parts.map((one) => {
    const share = whole > 0 ? one.energy_pj / whole : 0;
    const bar = element("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    return [
      one.name,
      ...names.map((_, at) => (one.operands_pj[at] > 0 ? energy(one.operands_pj[at]) : "")),
      energy(one.energy_pj),
      percent(share),
      element("span", { class: "bars" }, bar),
    ];
  });
  return scrolled(table(["memory", ...names, "all", "share", ""], rows, "energy"));
}

export function ports(mapped: TreeMapped): HTMLElement {
  const rows = mapped.ports.map((one) => {
    const share = one.busy_cycles / mapped.latency_cycles;
    const bar = element("span", { class: "bar" });
    bar.style.width = `${100 * Math.min(1, share)}%`;
    return [
      `${one.memory}, ${one.port}`,
      `${Number(one.bits_per_cycle.toPrecision(6))} bits/cycle`,
      cycles(one.busy_cycles),
      percent(share),
      element("span", { class: "bars" }, bar),
    ];
  });
  return scrolled(table(["port", "moves", "occupied", "of the latency", ""], rows, "ports"));
}

function proof(row: TreeRow, layer: TreeSummary["layers"][number]): HTMLElement[] {
  const lines = [
    `${counted(row.lattice_points, "tile")} in the lattice of cuts; ${counted(row.labels, "label")} were looked at.`,
  ];
  if (row.spatial_choices !== null) {
    lines.push(
      `${count(row.spatial_choices)} choices of what is spread; ${count(row.spatial_choices_opened ?? 0)} of them were ` +
        "searched, the bounds of the others are above what was found.",
    );
    const most = row.spatial_choices_of_more_than;
    if (most !== undefined) lines.push(`There are more than ${count(most)} choices, of which these are some.`);
  }
  lines.push(
    `No mapping takes less than ${energy(row.bound_pj)} or ${cycles(row.bound_cycles)} (bounds). This layer: ` +
      `${layer.verdict}.`,
  );
  const { certificate } = layer;
  if (certificate !== null) {
    lines.push(
      `Certificate of problem ${certificate.problem}: ${certificate.value}; ` +
        `${counted(certificate.choices, "way")} to spread loops, ${count(certificate.opened)} of them opened. ` +
        "tilestitch map --check judges it with a search of its own.",
    );
  } else if (row.proven_best) {
    lines.push("No certificate was asked for; --certificate FILE writes one, which --check judges.");
  }
  const title = row.proven_best ? "Proof" : "Search";
  const parts = lines.map((text) => element("p", {}, text));
  return [element("div", { id: "proof" }, element("h3", {}, title), ...parts)];
}
