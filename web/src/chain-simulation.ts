// The panes of simulated fused mappings: the verdict, the chains, their ports cycle by cycle, and what runs together.

import { ChainPane, type DrawnChains, namesOf } from "./chains";
import { element } from "./dom";
import { count, counted, cycles, energy, fixed, percent, seconds } from "./format";
import { LayerTable, layerAt } from "./layers";
import { figure, made, verdictPane } from "./made";
import { PortLanes } from "./port-lanes";
import type { ResultPage, ResultPane, ResultSummary } from "./results";
import { signed } from "./simulation";
import { machinePane } from "./tree";
import { busy, causes } from "./tree-simulation";

interface Place {
  group: number;
  name: string;
  begin: number;
  end: number;
  run: number;
}

interface SimulatedRow {
  operators: string[];
  times: number;
  verified: boolean;
  simulated: { cycles: number; energy_pj: number };
  estimated: { cycles: number; energy_pj: number };
  cycle_error: number;
  of_unfused: number;
  groups: {
    operators: string[];
    simulated: { cycles: number; cycles_by_cause: Record<string, number> };
    statistics: { ports: { port: string; busy_cycles: number }[] };
  }[];
}

interface Summary extends ResultSummary, DrawnChains {
  clock_hz: number | null;
  picture: string; // SVG
  chains: (DrawnChains["chains"][number] & { instead: string; recordings: Place[] })[];
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
    new PortsPane(page, summary, names),
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

/** What the ports do in the recorded cycles of a group of the chosen chain, and for how long in all of them. */
class PortsPane implements ResultPane {
  readonly element = element("section", { id: "simulation", "data-pane": "simulation" });
  private readonly title = element("h2", {});
  private readonly windows = element("select", { id: "window", "aria-label": "Recorded cycles" });
  private readonly held = element("p", { class: "note", id: "held" });
  private readonly lanes: PortLanes;
  private readonly figures = element("div", { class: "columns" });

  constructor(
    private readonly page: ResultPage,
    private readonly summary: Summary,
    private readonly names: string[],
  ) {
    this.lanes = new PortLanes(page);
    this.windows.addEventListener("change", () => page.choose({ window: this.windows.value }));
    this.element.append(
      this.title,
      this.held,
      element("div", { class: "tools" }, element("label", {}, "recorded ", this.windows)),
      this.lanes.element,
      this.figures,
    );
  }

  draw(changed: ReadonlySet<string> | null): void {
    if (changed !== null && !changed.has("layer") && !changed.has("window")) return;
    const number = layerAt(
      this.page,
      this.names.map((name) => ({ name })),
    );
    const { groups } = this.summary.report.chains[number];
    const { recordings, instead } = this.summary.chains[number];
    const asked = Number(this.page.chosen("window"));
    const place = recordings.find((one) => one.run === asked) ?? recordings[0];
    const group = groups[place.group];
    const name = ({ group: at }: Place) => groups[at].operators.join(" > ");
    this.title.textContent = `Ports and units, cycle by cycle: ${name(place)}`;
    this.windows.replaceChildren(
      ...recordings.map((one) => {
        const span = `cycles ${count(one.begin)} to ${count(one.end - 1)}`;
        return element("option", { value: `${one.run}` }, `${name(one)}, ${one.name}: ${span}`);
      }),
    );
    this.windows.value = `${place.run}`;
    this.held.textContent =
      `Simulated. These operators take ${cycles(group.simulated.cycles)}. A box is the time in which a port works for ` +
      `one tile of an operand; the number in it is the tile's. ${instead}`;
    const { cycles: whole, cycles_by_cause: spent } = group.simulated;
    this.figures.replaceChildren(causes(spent, whole), busy(group.statistics.ports, whole));
    void this.lanes.load(place.run);
  }
}
