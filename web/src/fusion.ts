// The panes of a plan of fused blocks: the verdict, the blocks beside their layers unfused, and the nest of one.

import { Surface } from "./canvas";
import { drawBars } from "./chart";
import { colour, colourIndex, css, inkOn } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { bytes, count, counted, cycles, fixed, percent, scaled, seconds } from "./format";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";

interface Block {
  layers: string[];
  cores: number;
  time_ps: number;
  simulated_ps: number | null;
  computed_again: number;
}

interface DrawnLayer {
  name: string;
  operators: string[];
  operations: number;
  channels: number;
  rows: number;
  strip_rows: number; // that a core computes, those of its neighbours included
  weight_bytes: number;
  result_bytes: number;
  reads: { name: string; inside: boolean }[];
  leaves: boolean;
  one_core_ps: number;
}

interface FuseSummary extends ResultSummary {
  proof_checked: boolean;
  baseline_ps: number;
  alone_ps: number;
  drawn_blocks: { layers: DrawnLayer[]; one_core_ps: number; alone_ps: number }[];
  report: {
    network: string;
    machine: string;
    plan: string;
    time_ps: number;
    simulated: { latency_ps: number; latency_cycles: number; ddr_bytes: number; verified: boolean | null } | null;
    fits: boolean;
    speed_up: number;
    best_time_ps: number;
    best_is_proven: boolean;
    ideals: number | null;
    gap: number;
    bounds_ps: Record<string, number | null>;
    binding_bound: string;
    plans: { plan: string; time_ps: number; speed_up: number; blocks: number }[];
    blocks: Block[];
  };
}

const BOUNDS: Record<string, string> = {
  roofline: "all arithmetic on all cores, or every byte once",
  overheads: "strips of whole rows, every layer's overhead, one launch",
  traffic: "the least traffic of any plan whose blocks fit",
  relaxed: "the best plan if nothing were computed twice and everything fitted",
};

function time(picoseconds: number): string {
  return seconds(picoseconds / 1e12);
}

export async function fusePanes(page: ResultPage, summary: FuseSummary): Promise<ResultPane[]> {
  return [verdict(summary), new BlockTable(page, summary), new BlockPane(page, summary)];
}

function verdict(summary: FuseSummary): ResultPane {
  const { report } = summary;
  const { simulated } = report;
  const rows = [
    ["network", report.network],
    ["machine", report.machine],
    ["plan", report.plan],
    ["model", "the block model, which is inferred (docs/dlfusion.md)"],
  ];
  const proof = report.best_is_proven
    ? `proven over ${counted(report.ideals!, "ideal")}${summary.proof_checked ? "; the proof was checked" : ""}`
    : "not proven: the network has too many ideals";
  const bounds = Object.entries(report.bounds_ps).map(([name, value]) => [
    name,
    value === null ? "too many ideals" : time(value),
    value === null ? "" : `${fixed(report.time_ps / value, 2)} x`,
    name === report.binding_bound ? "binds" : "",
    BOUNDS[name] ?? "",
  ]);
  const plans = report.plans.map((one) => [
    one.plan,
    time(one.time_ps),
    `${fixed(one.speed_up, 2)} x`,
    counted(one.blocks, "block"),
  ]);
  return verdictPane(
    [
      figure(time(report.time_ps), "time", "estimated", `${counted(report.blocks.length, "block")} by ${report.plan}`),
      ...(simulated === null
        ? []
        : [
            figure(
              time(simulated.latency_ps),
              "time of one cluster",
              "simulated",
              `${cycles(simulated.latency_cycles)}; ${bytes(simulated.ddr_bytes)} of DDR traffic`,
            ),
          ]),
      figure(`${fixed(report.speed_up, 2)} x`, "speed-up", "estimated", "over one core without fusion"),
      figure(time(summary.baseline_ps), "unfused, one core", "estimated", "every layer alone"),
      figure(
        time(summary.alone_ps),
        "unfused, best cores",
        "estimated",
        "every layer alone, on the cores that suit it",
      ),
      figure(time(report.best_time_ps), "best plan", "estimated", proof),
      figure(
        percent(report.gap),
        report.best_is_proven ? "above the best plan" : "above the bound",
        report.best_is_proven ? "estimated / estimated" : "estimated / bound",
        "at most",
      ),
    ],
    element(
      "p",
      { class: report.fits ? "outcome" : "outcome failed" },
      report.fits
        ? "Every block fits the memory of the cores"
        : "It does not fit the memory of the cores; priced as if it did",
    ),
    element("h3", {}, "Bounds"),
    scrolled(table(["bound", "time", "plan / bound", "", "rests on"], bounds, "bounds")),
    ...(plans.length === 0
      ? []
      : [
          element("h3", {}, "Plans"),
          scrolled(table(["plan", "time (estimated)", "speed-up", "blocks"], plans, "plans")),
        ]),
    made(summary, rows, []),
  );
}

/** The number of the block that is chosen. */
function blockAt(page: ResultPage, blocks: readonly unknown[]): number {
  const text = page.chosen("block");
  return /^\d+$/.test(text) && Number(text) < blocks.length ? Number(text) : 0;
}

/** The blocks: their times beside those of their layers unfused. */
class BlockTable implements ResultPane {
  readonly element = element("section", { id: "blocks", "data-pane": "blocks" });
  private readonly bars = new Surface("Time of every block. The table below lists it.");
  private readonly buttons: HTMLButtonElement[];

  constructor(
    private readonly page: ResultPage,
    private readonly summary: FuseSummary,
  ) {
    const { report, drawn_blocks: drawn } = summary;
    this.buttons = report.blocks.map((_, at) =>
      button(`block\u00a0${at}`, `Show block ${at}`, () => page.choose({ block: `${at}` })),
    );
    const simulated = report.simulated !== null;
    const rows = report.blocks.map((block, at) => [
      this.buttons[at],
      block.layers.length === 1 ? block.layers[0] : `${block.layers[0]} .. ${block.layers[block.layers.length - 1]}`,
      count(block.layers.length),
      count(block.cores),
      percent(block.computed_again),
      time(block.time_ps),
      ...(simulated ? [time(block.simulated_ps!)] : []),
      time(drawn[at].alone_ps),
      time(drawn[at].one_core_ps),
      `${fixed(drawn[at].alone_ps / block.time_ps, 2)} x`,
    ]);
    const heads = [
      "",
      "layers",
      "number",
      "cores",
      "computed again",
      "time (estimated)",
      ...(simulated ? ["time (simulated)"] : []),
      "unfused, best cores (estimated)",
      "unfused, one core (estimated)",
      "fused is faster",
    ];
    const place = element("div", { class: "surface", id: "times" });
    place.append(this.bars.canvas);
    this.element.append(
      element("h2", {}, "Blocks"),
      ...(report.blocks.length > 1 ? [element("p", { class: "note" }, "Time of each block (estimated)."), place] : []),
      scrolled(table(heads, rows, "blocks")),
    );
    this.element.addEventListener("keydown", (event) => this.key(event));
  }

  draw(): void {
    const { report } = this.summary;
    const chosen = blockAt(this.page, report.blocks);
    for (const [at, one] of this.buttons.entries()) {
      if (at === chosen) one.setAttribute("aria-current", "true");
      else one.removeAttribute("aria-current");
    }
    if (report.blocks.length < 2) return;
    const few = report.blocks.length <= 16;
    const bars = report.blocks.map((block, at) => ({
      label: few ? `block ${at}\n${counted(block.cores, "core")}` : `${at}`,
      value: block.time_ps,
      text: few ? time(block.time_ps) : "",
    }));
    drawBars(this.bars, this.page.theme, bars, colour(1));
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const at = this.buttons.indexOf(document.activeElement as HTMLButtonElement);
    if (step === undefined || at < 0 || this.buttons[at + step] === undefined) return;
    event.preventDefault();
    this.buttons[at + step].focus();
    this.page.choose({ block: `${at + step}` });
  }
}

/** The nest of the chosen block: strips over cores, and in each the layers one after another. */
class BlockPane implements ResultPane {
  readonly element = element("section", { id: "nest", "data-pane": "nest" });

  constructor(
    private readonly page: ResultPage,
    private readonly summary: FuseSummary,
  ) {}

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("block")) return;
    const at = blockAt(this.page, this.summary.report.blocks);
    const block = this.summary.report.blocks[at];
    const { layers } = this.summary.drawn_blocks[at];
    const rows = layers.map((layer) => [
      layer.name,
      layer.operators.join(", "),
      scaled(layer.operations),
      `${count(layer.strip_rows)} of ${count(layer.rows)}`,
      count(layer.channels),
      bytes(layer.weight_bytes),
      bytes(layer.result_bytes),
      time(layer.one_core_ps),
    ]);
    const heads = [
      "layer",
      "operators",
      "operations",
      "rows of a core",
      "channels",
      "weights",
      "result",
      "alone on one core (estimated)",
    ];
    this.element.replaceChildren(
      element("h2", {}, `Nest of block ${at}`),
      element(
        "p",
        { class: "note" },
        "A core computes its strip of rows, and what the next layer needs beyond it. Results inside stay in its memory.",
      ),
      nestOf(block, layers),
      element("h3", {}, "Layers"),
      scrolled(table(heads, rows, "layers")),
    );
  }
}

function nestOf(block: Block, layers: DrawnLayer[]): HTMLElement {
  const found = element("div", { class: "nest" });
  const level = (name: string, number: number, lines: [string, number, string][]) => {
    const rgb = colour(colourIndex(number));
    const head = element("div", { class: "level-name" }, name);
    head.style.background = css(rgb);
    head.style.color = inkOn(rgb);
    const codes = lines.map(([text, depth, kind]) => {
      const code = element("code", { class: kind }, text);
      code.style.paddingLeft = `${1.2 * depth}em`;
      return code;
    });
    found.append(element("div", { class: "level" }, head, element("div", { class: "lines" }, ...codes)));
  };
  const loaded = [
    ...new Set(layers.flatMap((layer) => layer.reads.filter((one) => !one.inside).map((one) => one.name))),
  ];
  const stored = layers.filter((layer) => layer.leaves).map((layer) => layer.name);
  const weights = layers.reduce((sum, layer) => sum + layer.weight_bytes, 0);
  level("DDR", 0, [
    [`# read: ${loaded.join(", ") || "nothing"}; weights (${bytes(weights)})`, 0, "holds"],
    [`# written: ${stored.join(", ") || "nothing"}`, 0, "holds"],
  ]);
  level("cores", 1, [[`spread rows over ${counted(block.cores, "core")}:`, 0, "loop"]]);
  level(
    "memory of a core",
    2,
    layers.flatMap((layer): [string, number, string][] => [
      [`for row in ${count(layer.strip_rows)}:  # of ${count(layer.rows)}`, 1, "loop"],
      [`${layer.name} from ${layer.reads.map((one) => one.name).join(", ")}`, 2, "body"],
    ]),
  );
  return found;
}
