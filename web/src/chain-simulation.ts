// The panes of simulated fused mappings: the verdict, the chains, their ports cycle by cycle, and what runs together.

import { ChainPane, type DrawnChains, namesOf, treeLabel, type Wired } from "./chains";
import { element } from "./dom";
import { count, counted, cycles, energy, fixed, percent, seconds } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import { type Place, PortsPane, type Recorded } from "./ports-pane";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { signed } from "./simulation";
import { machinePane } from "./tree";

interface SimulatedRow extends Wired {
  times: number;
  verified: boolean;
  simulated: { cycles: number; energy_pj: number };
  estimated: { cycles: number; energy_pj: number };
  cycle_error: number;
  of_unfused: number;
  groups: {
    operators: string[];
    mapping?: Omit<Wired, "operators">; // of several
    simulated: { cycles: number; cycles_by_cause: Record<string, number> };
    statistics: { ports: { port: string; busy_cycles: number }[] };
  }[];
}

interface Summary extends ResultSummary, DrawnChains {
  clock_hz: number | null;
  picture: string; // SVG
  chains: (DrawnChains["chains"][number] & { instead: string; recordings: (Place & { group: number })[] })[];
  report: {
    network: string;
    machine: string;
    mappings: string;
    values: string;
    verified: boolean;
    simulated: { cycles: number; energy_pj: number; utilization: number };
    simulated_unfused: { cycles: number; energy_pj: number };
    estimated: { cycles: number; energy_pj: number };
    cycle_error: number;
    notes: string[];
    chains: SimulatedRow[];
  };
}

export async function chainSimulationPanes(page: ResultPage, summary: Summary): Promise<ResultPane[]> {
  const { chains, machine } = summary.report;
  const names = namesOf(chains);
  const rows = chains.map((chain) => [
    count(chain.times),
    cycles(chain.simulated.cycles),
    cycles(chain.estimated.cycles),
    signed(chain.cycle_error),
    energy(chain.simulated.energy_pj),
    energy(chain.estimated.energy_pj),
    fixed(chain.of_unfused, 3),
    chain.groups.map((group) => count(group.operators.length)).join(" + "),
    chain.verified ? "equal numpy's" : "not verified",
  ]);
  const heads = [
    "chain",
    "times",
    "cycles (simulated)",
    "cycles (estimated)",
    "error of the estimate",
    "energy (simulated)",
    "energy (estimated)",
    "of unfused (simulated)",
    "together",
    "values",
  ];
  return [
    verdict(summary),
    new LayerTable(page, names, heads, rows, "Chains"),
    new PortsPane(page, (run) => recorded(page, summary, names, run)),
    new ChainPane(page, summary, names),
    machinePane(machine, summary.picture),
  ];
}

function verdict(summary: Summary): ResultPane {
  const { report, clock_hz: hz } = summary;
  const { simulated, simulated_unfused: unfused, estimated } = report;
  const time = (value: number) => (hz === null ? "" : `${seconds(value / hz)}, `);
  const times = report.chains.reduce((sum, one) => sum + one.times, 0);
  const rows = [
    ["network", report.network],
    ["machine", `${report.machine}, ${counted(summary.units, "unit")}`],
    ["chains", `${report.chains.length} different, ${times} in all`],
    ["mappings", report.mappings],
    ["values", report.values],
  ];
  const outcome = report.verified
    ? `Verified: every result equals numpy's (${report.values})`
    : "Not verified: no values were computed";
  return verdictPane(
    [
      figure(
        cycles(simulated.cycles),
        "latency, fused",
        "simulated",
        `${time(simulated.cycles)}${percent(simulated.cycles / unfused.cycles)} of ${cycles(unfused.cycles)} unfused`,
      ),
      figure(
        cycles(estimated.cycles),
        "latency of the model",
        "estimated",
        `${time(estimated.cycles)}${signed(report.cycle_error)} of what was simulated`,
      ),
      figure(
        energy(simulated.energy_pj),
        "energy, fused",
        "simulated",
        `${percent(simulated.energy_pj / unfused.energy_pj)} of ${energy(unfused.energy_pj)} unfused`,
      ),
      figure(energy(estimated.energy_pj), "energy of the model", "estimated", "of all chains, as often as they run"),
      figure(percent(simulated.utilization), "utilization", "simulated", "of all units"),
    ],
    element("p", { class: report.verified ? "outcome passed" : "outcome" }, outcome),
    made(summary, rows, report.notes),
  );
}

/** The recordings of the chosen chain, group by group, and all cycles of the group that is shown. */
function recorded(page: ResultPage, summary: Summary, names: string[], run: number): Recorded {
  const number = layerAt(
    page,
    names.map((name) => ({ name })),
  );
  const { groups } = summary.report.chains[number];
  const { recordings, instead } = summary.chains[number];
  const together = (group: number) => treeLabel({ ...groups[group].mapping, operators: groups[group].operators });
  const places = recordings.map((one) => ({ ...one, name: `${together(one.group)}, ${one.name}` }));
  const chosen = places.find((one) => one.run === run) ?? places[0];
  const { simulated, statistics } = groups[chosen.group];
  const note = `These operators take ${cycles(simulated.cycles)}. ${instead}`;
  return { places, chosen, title: together(chosen.group), note, ...simulated, ports: statistics.ports };
}
