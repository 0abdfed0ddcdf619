// The panes of a mapping on a machine tree that was given, and not searched for: its price, its nest, and where another
// program's rules differ.

import { element, scrolled, table } from "./dom";
import { count, counted, cycles, energy, percent, seconds } from "./format";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { energies, machinePane, ports, type TreeMapped, treeCode } from "./tree";

interface Moved {
  accesses: number;
  energy_pj: number;
}

interface GivenSummary extends ResultSummary {
  clock_hz: number | null;
  units: number;
  picture: string; // SVG
  memories: string[]; // the outermost first
  nest: string;
  program: string; // whose prices stand beside ours, or nothing
  drawn: TreeMapped;
  flows: (Moved & { memory: string; operand: string; direction: string })[];
  theirs: (Moved | null)[]; // by flow, where there is a program
  report: {
    machine: string;
    mapping: string;
    misfits: string[];
    notes: string[];
    layer: { name: string };
    by_rules_of?: { energy_pj: number };
  };
}

export async function givenTreePanes(_page: ResultPage, summary: GivenSummary): Promise<ResultPane[]> {
  return [verdict(summary), nest(summary), flows(summary), machinePane(summary.report.machine, summary.picture)];
}

function verdict(summary: GivenSummary): ResultPane {
  const { drawn, report, clock_hz: hz } = summary;
  const { misfits } = report;
  const time = hz === null ? "no clock given" : seconds(drawn.latency_cycles / hz);
  const figures = [
    figure(energy(drawn.energy_pj), "energy", "estimated", "of the layer, once"),
    figure(cycles(drawn.latency_cycles), "latency", "estimated", time),
    figure(drawn.edp_pj_cycles.toExponential(4), "EDP, pJ x cycles", "estimated", "energy x cycles"),
    figure(percent(drawn.utilization), "utilization", "estimated", `of ${counted(summary.units, "unit")}`),
  ];
  if (report.by_rules_of !== undefined) {
    figures.push(
      figure(energy(report.by_rules_of.energy_pj), `energy by ${summary.program}`, "estimated", "by its own rules"),
    );
  }
  const rows = [
    ["layer", report.layer.name],
    ["machine", `${report.machine}, ${counted(summary.units, "unit")}`],
    ["mapping", report.mapping],
  ];
  const outcome = misfits.length === 0 ? ["The mapping fits the machine."] : misfits.map(unfit);
  const kind = misfits.length === 0 ? "outcome" : "outcome failed";
  return verdictPane(
    figures,
    ...outcome.map((text) => element("p", { class: kind }, text)),
    made(summary, rows, report.notes),
  );
}

function unfit(misfit: string): string {
  return `DOES NOT FIT: ${misfit}; priced as if it did`;
}

function nest(summary: GivenSummary): ResultPane {
  const { drawn } = summary;
  const section = element(
    "section",
    { id: "nest", "data-pane": "nest" },
    element("h2", {}, `Loop nest and memories: ${summary.report.layer.name}`),
    element("p", { class: "note" }, summary.nest),
    element(
      "p",
      { class: "note" },
      "Nothing was searched: the mapping was given. Without --mapping the best is found.",
    ),
    treeCode(drawn, summary),
    element("h3", {}, "Energy (estimated)"),
    energies(drawn.operands, drawn.energy),
    element("h3", {}, "Ports (estimated)"),
    ports(drawn),
  );
  return { element: section, draw: () => {} };
}

function flows(summary: GivenSummary): ResultPane {
  const { program } = summary;
  const rows = summary.flows.map((one, at) => {
    const cells = [one.memory, one.operand, one.direction, count(one.accesses), energy(one.energy_pj)];
    const other = summary.theirs[at];
    return program === "" ? cells : [...cells, count(other?.accesses ?? 0), energy(other?.energy_pj ?? 0)];
  });
  const heads = ["memory", "operand", "direction", "accesses (estimated)", "energy (estimated)"];
  const beside = program === "" ? [] : [`accesses by ${program}`, `energy by ${program}`];
  const section = element(
    "section",
    { id: "flows", "data-pane": "flows" },
    element("h2", {}, "Accesses"),
    scrolled(element("div", { class: "prose" }, table([...heads, ...beside], rows, "flows"))),
  );
  return { element: section, draw: () => {} };
}
