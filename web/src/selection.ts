// What all panes share: the run that is shown, what is selected, the window of time; kept in the address behind #.

import type { Run } from "./run";

export type Kind = "instruction" | "operator" | "sub-graph" | "instance" | "buffer";
export type Colouring = "operator" | "sub-graph" | "instance";

export interface Selection {
  kind: Kind;
  number: number;
}

export interface State {
  strategy: string;
  selected: Selection | null;
  from: number; // cycles
  to: number;
  colouring: Colouring;
  memory: string; // the name of a memory, or of a level for the memories of all cores
  path: boolean; // whether the critical path is drawn
  ports: boolean; // whether the timeline has lanes of ports
  idle: boolean; // whether idle time has the colour of its cause
}

export const COLOURINGS: readonly Colouring[] = ["operator", "sub-graph", "instance"];

/** What a selection means for each thing that can be drawn: 1 for what belongs to it. */
export interface Marks {
  instructions: Uint8Array;
  buffers: Uint8Array;
  operators: Uint8Array;
  subGraphs: Uint8Array;
  instances: Uint8Array;
}

function names(run: Run, kind: Kind): string[] | null {
  if (kind === "operator") return run.header.graph.operators.map((operator) => operator.name);
  if (kind === "sub-graph") return run.header.sub_graphs;
  if (kind === "instance") return run.header.instances;
  return null;
}

function countOf(run: Run, kind: Kind): number {
  return kind === "instruction" ? run.length : kind === "buffer" ? run.buffers.space.length : names(run, kind)!.length;
}

/** A selection as text that keeps its meaning in another run: names where there are any. */
export function selectionText(run: Run, selected: Selection): string {
  const known = names(run, selected.kind);
  return `${selected.kind}:${known === null ? selected.number : known[selected.number]}`;
}

export function parsedSelection(run: Run, text: string): Selection | null {
  const colon = text.indexOf(":");
  const kind = text.slice(0, colon) as Kind;
  const rest = text.slice(colon + 1);
  if (!["instruction", "operator", "sub-graph", "instance", "buffer"].includes(kind)) return null;
  const known = names(run, kind);
  const number = known === null ? (/^\d+$/.test(rest) ? Number(rest) : -1) : known.indexOf(rest);
  return number >= 0 && number < countOf(run, kind) ? { kind, number } : null;
}

function instructionMarks(run: Run, selected: Selection): Uint8Array {
  const found = new Uint8Array(run.length);
  const { kind, number } = selected;
  if (kind === "instruction") found[number] = 1;
  else if (kind === "buffer") for (const user of run.usersOf(number)) found[user] = 1;
  else {
    for (let i = 0; i < run.length; i++) {
      const part = kind === "operator" ? run.operator[i] : kind === "sub-graph" ? run.subGraphOf(i) : run.instanceOf(i);
      if (part === number) found[i] = 1;
    }
  }
  return found;
}

export function marksOf(run: Run, selected: Selection): Marks {
  const found: Marks = {
    instructions: instructionMarks(run, selected),
    buffers: new Uint8Array(run.buffers.space.length),
    operators: new Uint8Array(run.header.graph.operators.length),
    subGraphs: new Uint8Array(run.header.sub_graphs.length),
    instances: new Uint8Array(run.header.instances.length),
  };
  for (let i = 0; i < run.length; i++) {
    if (found.instructions[i] === 0) continue;
    if (run.operator[i] >= 0) found.operators[run.operator[i]] = 1;
    found.subGraphs[run.subGraphOf(i)] = 1;
    found.instances[run.instanceOf(i)] = 1;
    if (selected.kind === "buffer") continue;
    for (let at = run.operandAt[i]; at < run.operandAt[i + 1]; at++) found.buffers[run.operandBuffer[at]] = 1;
  }
  if (selected.kind === "buffer") found.buffers[selected.number] = 1;
  if (selected.kind === "operator") found.operators.fill(0)[selected.number] = 1;
  return found;
}

/** The state as the part of an address behind #. */
export function hashOf(run: Run, state: State): string {
  const parts = new URLSearchParams();
  parts.set("strategy", state.strategy);
  if (state.selected !== null) parts.set("select", selectionText(run, state.selected));
  if (state.from > 0 || state.to < run.duration) {
    parts.set("cycles", `${Math.round(state.from)}-${Math.round(state.to)}`);
  }
  if (state.colouring !== "operator") parts.set("colour", state.colouring);
  const first = state.selected?.kind === "buffer" ? memoryOf(run, state.selected.number) : defaultMemory(run);
  if (state.memory !== first) parts.set("memory", state.memory);
  if (state.path) parts.set("path", "shown");
  if (state.ports) parts.set("ports", "shown");
  if (!state.idle) parts.set("idle", "hidden");
  return `#${parts.toString()}`;
}

/** The strategy that an address asks for, "" where it asks for none. */
export function strategyIn(hash: string): string {
  return new URLSearchParams(hash.slice(1)).get("strategy") ?? "";
}

/** What an address says about a run; what is not understood is as it is at the beginning. */
export function stateIn(hash: string, run: Run, strategy: string): State {
  const parts = new URLSearchParams(hash.slice(1));
  const cycles = /^(\d+)-(\d+)$/.exec(parts.get("cycles") ?? "");
  const colour = parts.get("colour") as Colouring;
  const memory = parts.get("memory") ?? "";
  const window = cycles === null ? [0, run.duration] : [Number(cycles[1]), Number(cycles[2])];
  const sound = window[0] < window[1] && window[1] <= run.duration;
  const selected = parsedSelection(run, parts.get("select") ?? "");
  const first = selected?.kind === "buffer" ? memoryOf(run, selected.number) : defaultMemory(run);
  return {
    strategy,
    selected,
    from: sound ? window[0] : 0,
    to: sound ? window[1] : Math.max(1, run.duration),
    colouring: COLOURINGS.includes(colour) ? colour : "operator",
    memory: memoryChoices(run).includes(memory) ? memory : first,
    path: parts.get("path") === "shown",
    ports: parts.get("ports") === "shown",
    idle: parts.get("idle") !== "hidden",
  };
}

/** Every memory by its name, and before the first of several of one level the level, which stands for all of them. */
export function memoryChoices(run: Run): string[] {
  const spaces = run.header.program.spaces;
  const found: string[] = [];
  for (const space of spaces) {
    const alike = spaces.filter((other) => other.level === space.level);
    if (alike.length > 1 && !found.includes(space.level)) found.push(space.level);
  }
  return [...spaces.filter((space) => space.core === null).map((space) => space.name), ...found].concat(
    spaces.filter((space) => space.core !== null).map((space) => space.name),
  );
}

/** The memory of a buffer. */
export function memoryOf(run: Run, buffer: number): string {
  return run.header.program.spaces[run.buffers.space[buffer]].name;
}

/** The first memory on the chip. */
export function defaultMemory(run: Run): string {
  const spaces = run.header.program.spaces;
  return (spaces.find((space) => space.level !== "ddr") ?? spaces[0]).name;
}
