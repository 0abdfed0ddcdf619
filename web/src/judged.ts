// The panes of what was judged without a search: proofs that were checked, mappings that were priced.

import { element, scrolled, table } from "./dom";
import { count, counted, cycles, energy, seconds } from "./format";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { machinePane } from "./tree";

interface CheckedSummary extends ResultSummary {
  network: string;
  machine: string;
  file: string;
  picture: string; // SVG, or nothing
  report: { checked: string[] };
}

export async function checkedPanes(_page: ResultPage, summary: CheckedSummary): Promise<ResultPane[]> {
  const { checked } = summary.report;
  const rows = checked.map((line) => {
    const end = line.indexOf(": ");
    return [line.slice(0, end), line.slice(end + 2)];
  });
  const verdict = verdictPane(
    [
      figure(
        counted(checked.length, "layer"),
        "proven best",
        "checked, not searched",
        `by the proofs of ${summary.file}`,
      ),
    ],
    element(
      "p",
      { class: "outcome passed" },
      "Every proof holds: the checker searched on its own, and found no better.",
    ),
    made(
      summary,
      [
        ["network", summary.network],
        ["machine", summary.machine],
        ["proofs", summary.file],
      ],
      [],
    ),
  );
  const layers = pane(
    "checked",
    "What the checker said",
    element("div", { class: "prose" }, table(["layer", "verdict"], rows, "checked")),
  );
  return summary.picture === "" ? [verdict, layers] : [verdict, layers, machinePane(summary.machine, summary.picture)];
}

interface PricedLine {
  error?: string;
  valid?: boolean;
  reason?: string;
  cycles: number;
  energy_pj: number;
}

interface PricedSummary extends ResultSummary {
  machine: string;
  clock_hz: number;
  file: string;
  lines: number;
  fitting: number;
  wrong: number;
  best: (PricedLine & { line: number }) | null; // of those that fit, the one with the least EDP
  report: PricedLine[]; // the first lines
}

export async function pricedPanes(_page: ResultPage, summary: PricedSummary): Promise<ResultPane[]> {
  const { best, clock_hz: hz, report } = summary;
  const unfit = summary.lines - summary.fitting - summary.wrong;
  const figures = [
    figure(counted(summary.lines, "mapping"), "priced", "estimated", `lines of ${summary.file}`),
    figure(count(summary.fitting), "fit", "the machine's memories and elements", `${count(unfit)} do not fit`),
    figure(count(summary.wrong), "say no mapping", "their line says why", "in the table below"),
  ];
  if (best !== null) {
    const edp = (best.cycles * best.energy_pj).toExponential(4);
    figures.push(figure(`line ${count(best.line)}`, "least EDP of those that fit", "estimated", `${edp} pJ x cycles`));
  }
  const rows = report.map((one, at) =>
    one.error === undefined
      ? [
          count(at + 1),
          cycles(one.cycles),
          seconds(one.cycles / hz),
          energy(one.energy_pj),
          (one.cycles * one.energy_pj).toExponential(4),
          one.valid ? "fits" : `does not fit: ${one.reason}`,
        ]
      : [count(at + 1), "", "", "", "", one.error],
  );
  const heads = ["line", "cycles (estimated)", "latency (estimated)", "energy (estimated)", "EDP, pJ x cycles", ""];
  const shown = report.length < summary.lines ? `The first ${count(report.length)} lines.` : "Every line.";
  const made_from = [
    ["machine", summary.machine],
    ["mappings", summary.file],
  ];
  return [
    verdictPane(figures, made(summary, made_from, [])),
    pane(
      "priced",
      "Mappings",
      element("p", { class: "note" }, shown),
      element("div", { class: "prose" }, table(heads, rows, "priced")),
    ),
  ];
}

function pane(id: string, title: string, ...content: HTMLElement[]): ResultPane {
  const section = element("section", { id, "data-pane": id }, element("h2", {}, title), scrolled(...content));
  return { element: section, draw: () => {} };
}
