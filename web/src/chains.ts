// The panes of fused mappings: the verdict, the chains, what runs together in one of them, and the machine.

import { element } from "./dom";
import { count, counted, cycles, energy, percent } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { energies, levelLine, machinePane, type TreeMapped, treeCode } from "./tree";

/** Operators with what reads what. */
export interface Wired {
  operators: string[];
  readers?: number[]; // of each but the last which of them reads its result last, where that is not the next one
  more_readers?: [number, number][]; // an operator, and another one that reads its result before
  added?: [number, number][]; // of all these those to whose results it is added
}

export interface Group extends Wired {
  nests: string[];
  energy_pj: number;
  unfused_pj: number;
  stays: string[];
  alone: TreeMapped | null; // of one operator
  rows: [number, string, string][]; // of several: how many loops are outside, the kind of line, and the line
  energy: TreeMapped["energy"]; // by operator
}

export interface ChainRow extends Wired {
  times: number;
  energy_pj: number;
  unfused_pj: number;
  latency_cycles: number;
  unfused_cycles: number;
  proven_best: boolean;
  labels: number;
}

interface ChainsSummary extends ResultSummary {
  units: number;
  picture: string; // SVG
  most: number;
  proof: string;
  unit: string; // of the objective
  memories: string[]; // the outermost first
  report: {
    network: string;
    machine: string;
    energy_pj: number;
    unfused_pj: number;
    latency_cycles: number;
    unfused_cycles: number;
    bound_pj?: number; // the objective is energy
    bound_cycles?: number; // it is latency
    proven_best: boolean;
    notes: string[];
    chains: ChainRow[];
    unmapped: { operators: string[]; reason: string }[];
  };
  chains: { verdict: string; value: number; unfused_value: number; outside_pj: number; groups: Group[] }[];
}

export async function chainPanes(page: ResultPage, summary: ChainsSummary): Promise<ResultPane[]> {
  const { chains, machine } = summary.report;
  const names = namesOf(chains);
  const rows = chains.map((chain, at) => [
    count(chain.times),
    energy(chain.energy_pj),
    cycles(chain.latency_cycles),
    percent(summary.chains[at].value / summary.chains[at].unfused_value),
    summary.chains[at].groups.map((group) => count(group.operators.length)).join(" + "),
    summary.chains[at].verdict,
  ]);
  const share = `fused / unfused, ${summary.unit}`;
  const heads = ["chain", "times", "energy (estimated)", "latency (estimated)", share, "together", "proof"];
  const table = new LayerTable(page, names, heads, rows, "Chains");
  return [verdict(summary), table, new ChainPane(page, summary, names), machinePane(machine, summary.picture)];
}

/** Chains by number, since two may have operators of the same names. */
export function namesOf(chains: readonly Wired[]): string[] {
  return chains.map((wired, at) => {
    const { operators } = wired;
    const ends = `${operators[0]} > ... > ${operators[operators.length - 1]}`;
    return `${at + 1} ${operators.length < 5 ? treeLabel(wired) : ends}`;
  });
}

/**
 * Operators with what reads what: `a > b` in a row, `(a, b) > c` where one reads the results of several. Where several
 * read a result its operator is named again: `(a > b, a > c) > d`. What is added to results is left out.
 */
export function treeLabel({ operators, readers, more_readers, added }: Wired): string {
  const told: string[] = [];
  const named = new Set<number>();
  const pairs = operators.slice(1).map((_, link) => [link, readers === undefined ? link + 1 : readers[link]]);
  const count = (found: number[][], link: number, number: number) =>
    found.filter(([one, reader]) => one === link && reader === number).length;
  const reads = (link: number, number: number) =>
    count([...pairs, ...(more_readers ?? [])], link, number) > count(added ?? [], link, number);
  operators.forEach((name, number) => {
    const links = told.map((_, link) => link).filter((link) => reads(link, number));
    const before = links.map((link) => (named.has(link) ? operators[link] : told[link]));
    links.forEach((link) => {
      named.add(link);
    });
    const together = before.length === 1 ? before[0] : `(${before.join(", ")})`;
    told.push(before.length > 0 ? `${together} > ${name}` : name);
  });
  return told[told.length - 1];
}

function verdict(summary: ChainsSummary): ResultPane {
  const { report } = summary;
  const times = report.chains.reduce((sum, one) => sum + one.times, 0);
  const rows = [
    ["network", report.network],
    ["machine", `${report.machine}, ${counted(summary.units, "unit")}`],
    ["chains", `${report.chains.length} different, ${times} in all`],
  ];
  return verdictPane(
    [
      figure(
        energy(report.energy_pj),
        "energy, fused",
        "estimated",
        `${percent(report.energy_pj / report.unfused_pj)} of ${energy(report.unfused_pj)} unfused${report.bound_pj === undefined ? "" : `, bound ${energy(report.bound_pj)}`}`,
      ),
      figure(
        cycles(report.latency_cycles),
        "latency, fused",
        "estimated",
        `${percent(report.latency_cycles / report.unfused_cycles)} of ${cycles(report.unfused_cycles)} unfused${report.bound_cycles === undefined ? "" : `, bound ${cycles(report.bound_cycles)}`}`,
      ),
      figure(`${summary.most}`, "operators together, at most", "chosen by --fuse", "they share outer loops"),
    ],
    element(
      "p",
      { class: report.proven_best ? "outcome passed" : "outcome" },
      `${report.proven_best ? "Proven" : "Not proven"}: ${summary.proof}`,
    ),
    ...report.unmapped.map((one) =>
      element("p", { class: "outcome failed" }, `${one.operators.join(" > ")}: ${one.reason}`),
    ),
    made(summary, rows, report.notes),
  );
}

/** What the pane of a chain asks of a page. */
export interface DrawnChains {
  units: number;
  memories: string[]; // the outermost first
  chains: { outside_pj: number; groups: Group[] }[];
}

/** The groups of the chain that is chosen: what stays where, the loops, and where the energy goes. */
export class ChainPane implements ResultPane {
  readonly element = element("section", { id: "groups", "data-pane": "groups" });
  private readonly title = element("h2", {});
  private readonly body = element("div");

  constructor(
    private readonly page: ResultPage,
    private readonly summary: DrawnChains,
    private readonly names: string[],
  ) {
    this.element.append(this.title, this.body);
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer")) return;
    const number = layerAt(
      this.page,
      this.names.map((name) => ({ name })),
    );
    const { groups, outside_pj: outside } = this.summary.chains[number];
    this.title.textContent = `What runs together: ${this.names[number]}`;
    this.body.replaceChildren(...groups.flatMap((group) => this.group(group)));
    if (outside > 0) {
      const text = `Operators between groups read and write the outermost memory: ${energy(outside)} (estimated).`;
      this.body.append(element("p", {}, text));
    }
  }

  private group(group: Group): HTMLElement[] {
    const together = group.operators.length > 1;
    const beside = together ? `, ${energy(group.unfused_pj)} unfused` : "";
    return [
      element("h3", {}, `${treeLabel(group)}: ${together ? "together" : "alone"}`),
      element("p", {}, `${energy(group.energy_pj)}${beside} (estimated)`),
      ...group.nests.map((nest) => element("p", { class: "note" }, nest)),
      ...group.stays.map((line) => element("p", {}, line)),
      ...(group.alone === null
        ? [loops(group.rows), heading(), energies(group.operators, group.energy)]
        : [treeCode(group.alone, this.summary), heading(), energies(group.alone.operands, group.alone.energy)]),
    ];
  }
}

function heading(): HTMLElement {
  return element("h4", {}, "Energy (estimated)");
}

/** The lines of operators that share loops. */
function loops(rows: Group["rows"]): HTMLElement {
  const lines = rows.map(([depth, kind, text]) => levelLine(depth, kind, text));
  return element("div", { class: "nest" }, element("div", { class: "lines" }, ...lines));
}
