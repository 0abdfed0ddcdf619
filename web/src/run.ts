// One run: names, numbers and columns, with what follows from them (lanes, lifetimes of buffers).

import type { Unpacked } from "./decode";

/** A schedule that is faster than all before it: after how many candidates, and what made it. */
export interface SearchStep {
  evaluations: number;
  latency_cycles: number;
  by: string;
}

export interface Searched {
  evaluations: number;
  steps: SearchStep[];
}

export interface Report {
  what: {
    network: string;
    machine: string;
    strategy: string;
    clock_hz: number;
    batch: number;
    clusters: number;
    clusters_simulated: number;
    batch_per_cluster: number;
    iterations: number;
    batch_per_iteration: number;
    batches: number;
    own_operators: number;
    generic_operators: { name: string; operator: string; evaluator: string }[];
    notes: string[];
  };
  simulated: {
    latency_cycles: number;
    latency_seconds: number;
    samples_per_second: number;
    sustained_samples_per_second: number;
    instructions: number;
    ddr_bytes: number;
    macs: number;
    energy_pj: number;
    energy_pj_by_part: Record<string, number>;
    engines: { kind: string; count: number; busy_cycles: number; instructions: number }[];
    traffic: { level: string; ports: number; size_bytes: number; busy_cycles: number }[];
    search?: Searched; // where there was one
  };
  bounds: {
    compute_cycles: number;
    attainable_cycles: number;
    traffic_cycles: number;
    largest_cycles: number;
    latency_to_largest_ratio: number;
    ddr_bytes: number;
    macs: number;
  };
  verification: {
    result: string;
    checks: {
      precision: string;
      output: string;
      relative_error: number | null;
      allowed_relative_error: number | null;
      outcome: string;
      largest_difference_to_rounding_ratio: number | null;
      lost_share: number;
      compared_values: number;
      decided_values: number;
      dispute: string | null;
    }[];
  };
  kernels: { name: string; operators: string[]; simulated: { cycles: number; ddr_read_bytes: number } }[];
}

export interface Work {
  macs: number;
  matrix_macs: number;
  vector_operations: number;
  ddr_bytes: number;
  gb_bytes: number;
  occupied_cycles: number;
  instructions: number;
  cores: number;
}

/** A latency, its bound, and the parts of what lies between, in cycles. */
export interface Gap {
  latency_cycles: number;
  bound_cycles: number;
  gap_cycles: number;
  /** Number of the part, cycles, and those of them in set-up, delayed by others at ports, and for want of room. */
  parts: [number, number, number, number, number][];
  ends: [number, number][]; // what is waited for at start and end: number of the part, cycles
}

export interface Gaps {
  unit: string;
  lanes: number;
  parts: string[];
  meanings: string[];
  run: Gap;
  operators: Gap[];
  sub_graphs: Gap[];
  instances: Gap[];
}

export interface Operator {
  name: string;
  kind: string;
  reads: number[];
  writes: number[];
}

export interface Tensor {
  name: string;
  shape: number[];
  dtype: string;
  size_bytes: number;
  role: "input" | "output" | "constant" | "result";
}

/** What is proven of a run, and by whom. */
export interface Proof {
  limits: { of: string; cycles: number; work: number; unit: string; assumes: string }[];
  verifiers: { stage: string; looked_at: string; ran: boolean; holds: string }[];
  judges: string[];
  certain: { what: string; rests_on: string }[];
}

/** Place, by the program, by onnxruntime, bound, difference / bound, and whether a wrong value would show. */
export type Sample = [number[], number | string, number | string, number | string, number | string, boolean];

/** Some values of one output at one precision. */
export interface Values {
  output: string;
  precision: string;
  dtype: string;
  shape: number[];
  values: number; // in all
  corner: [number, number];
  first: Sample[];
  worst: Sample[];
  spread: Sample[];
}

type Numbers = (number | string)[]; // what is no finite number as text

/** Tiles of a result that operators pass on, at one precision: values row by row, with what wrote each. */
export interface PassedOn {
  tensor: string;
  precision: string;
  dtype: string;
  shape: number[];
  tiles: {
    start: number[];
    stop: number[];
    found: Numbers;
    expected: Numbers;
    bound: Numbers;
    written_by: number[]; // instructions
  }[];
}

interface Header {
  report: Report;
  graph: { operators: Operator[]; tensors: Tensor[] };
  program: {
    kernels: { name: string; sub_graph: number; instance: number }[];
    kinds: string[];
    engines: { name: string; kind: string; core: number | null }[];
    spaces: { name: string; level: string; core: number | null; size_bytes: number }[];
    resources: { name: string; bytes_per_cycle: number }[];
    paths: number[][];
    inputs: number[];
    outputs: number[];
  };
  sub_graphs: string[];
  instances: string[];
  ceilings: {
    peaks: { name: string; operations_per_cycle: number }[];
    ports: { level: string; bytes_per_cycle: number }[];
  };
  work: { operators: Work[]; sub_graphs: Work[]; instances: Work[] };
  gaps: Gaps | null; // of one batch; null where several were simulated
  causes: string[];
  proof: Proof;
  values: Values[]; // none where nothing was verified
  passed_on: PassedOn[]; // likewise
}

export const READ = 0;

/** Offsets of lists of these lengths that lie one after another. */
function offsets(lengths: Int32Array): Int32Array {
  const found = new Int32Array(lengths.length + 1);
  for (let i = 0; i < lengths.length; i++) found[i + 1] = found[i] + lengths[i];
  return found;
}

export class Buffers {
  readonly space: Int32Array;
  readonly address: Float64Array;
  readonly bytes: Float64Array;
  readonly tensor: Int32Array;
  readonly region: Int32Array;
  /** From the start of the first instruction that uses the buffer to the end of the last one, in cycles. */
  readonly first: Float64Array;
  readonly last: Float64Array;

  constructor(columns: Unpacked) {
    this.space = columns.ints("buffer_space");
    this.address = columns.floats("buffer_address");
    this.bytes = columns.floats("buffer_bytes");
    this.tensor = columns.ints("buffer_tensor");
    this.region = columns.ints("buffer_region");
    this.first = new Float64Array(this.space.length).fill(Number.POSITIVE_INFINITY);
    this.last = new Float64Array(this.space.length).fill(-1);
  }
}

/** Every idle time of every engine, cut where what it waited for changes. */
export class Idle {
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly cause: Int32Array;
  readonly next: Int32Array; // the instruction that the engine goes on with; -1 behind the last
  readonly waitedFor: Int32Array;
  /** The idle times of each engine, in order. */
  readonly lanes: Int32Array[];

  constructor(columns: Unpacked, engines: number) {
    this.start = columns.floats("idle_start");
    this.end = columns.floats("idle_cycles");
    this.cause = columns.ints("idle_cause");
    this.next = columns.ints("idle_next");
    this.waitedFor = columns.ints("idle_back");
    const engine = columns.ints("idle_engine");
    for (let at = 0; at < engine.length; at++) {
      this.end[at] += this.start[at];
      this.waitedFor[at] = Math.max(0, this.next[at]) - this.waitedFor[at];
    }
    const numbers = engine.map((_, at) => at);
    let first = 0;
    this.lanes = Array.from({ length: engines }, (_, lane) => {
      let stop = first;
      while (stop < engine.length && engine[stop] === lane) stop++;
      const found = numbers.subarray(first, stop);
      first = stop;
      return found;
    });
  }

  /** Those before an instruction of an engine. */
  before(engine: number, instruction: number): number[] {
    return [...this.lanes[engine].filter((at) => this.next[at] === instruction)];
  }

  /** Of every idle time, whether the instruction that ends it is marked. */
  marks(instructions: Uint8Array): Uint8Array {
    return Uint8Array.from(this.next, (next) => (next < 0 ? 0 : instructions[next]));
  }
}

export class Run {
  readonly header: Header;
  readonly length: number;
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly engine: Int32Array;
  readonly kind: Int32Array;
  readonly kernel: Int32Array;
  readonly iteration: Int32Array;
  /** The operator that an instruction computes or moves something for; -1 for launches. */
  readonly operator: Int32Array;
  readonly box: Int32Array;
  readonly ownCycles: Float64Array;
  readonly bytes: Float64Array;
  readonly path: Int32Array;
  readonly operandAt: Int32Array;
  readonly operandBuffer: Int32Array;
  readonly operandRegion: Int32Array;
  readonly operandMode: Int32Array;
  readonly waitAt: Int32Array;
  readonly waits: Int32Array;
  /** The instruction before on the same engine; -1 for the first. */
  readonly previous: Int32Array;
  /** The instructions of each engine, in order. */
  readonly lanes: Int32Array[];
  readonly buffers: Buffers;
  readonly idle: Idle;
  /** When the last instruction has ended, in cycles. */
  readonly duration: number;
  private readonly regionAt: Int32Array;
  private readonly regionBounds: Float64Array;
  private following: Grouped | null = null;
  private users: Grouped | null = null;

  constructor(columns: Unpacked) {
    this.header = columns.header as unknown as Header;
    this.start = columns.floats("start");
    this.end = columns.floats("cycles");
    this.length = this.start.length;
    for (let i = 0; i < this.length; i++) this.end[i] += this.start[i];
    this.engine = columns.ints("engine");
    this.kind = columns.ints("kind");
    this.kernel = columns.ints("kernel");
    this.iteration = columns.ints("iteration");
    this.operator = columns.ints("operator");
    this.box = columns.ints("box");
    this.ownCycles = columns.floats("own_cycles");
    this.bytes = columns.floats("size_bytes");
    this.path = columns.ints("path");
    this.operandAt = offsets(columns.ints("operands"));
    this.operandBuffer = columns.ints("operand_buffer");
    this.operandRegion = columns.ints("operand_region");
    this.operandMode = columns.ints("operand_mode");
    this.waitAt = offsets(columns.ints("wait_count"));
    this.waits = columns.ints("waits_back");
    for (let i = 0; i < this.length; i++) {
      for (let at = this.waitAt[i]; at < this.waitAt[i + 1]; at++) this.waits[at] = i - this.waits[at];
    }
    this.buffers = new Buffers(columns);
    this.idle = new Idle(columns, this.header.program.engines.length);
    const ranks = columns.ints("region_rank");
    this.regionAt = offsets(ranks.map((rank) => 2 * rank));
    this.regionBounds = columns.floats("region_bounds");
    this.previous = new Int32Array(this.length).fill(-1);
    this.lanes = this.sortedByEngine();
    this.duration = this.end.reduce((most, end) => Math.max(most, end), 0);
    this.findLifetimes();
  }

  private sortedByEngine(): Int32Array[] {
    const engines = this.header.program.engines.length;
    const found: number[][] = Array.from({ length: engines }, () => []);
    const latest = new Int32Array(engines).fill(-1);
    for (let i = 0; i < this.length; i++) {
      const engine = this.engine[i];
      this.previous[i] = latest[engine];
      latest[engine] = i;
      found[engine].push(i);
    }
    return found.map((numbers) => Int32Array.from(numbers));
  }

  private findLifetimes(): void {
    const { first, last } = this.buffers;
    for (let i = 0; i < this.length; i++) {
      for (let at = this.operandAt[i]; at < this.operandAt[i + 1]; at++) {
        const buffer = this.operandBuffer[at];
        if (this.start[i] < first[buffer]) first[buffer] = this.start[i];
        if (this.end[i] > last[buffer]) last[buffer] = this.end[i];
      }
    }
    for (const buffer of this.header.program.inputs) if (last[buffer] >= 0) first[buffer] = 0;
    for (const buffer of this.header.program.outputs) if (last[buffer] >= 0) last[buffer] = this.duration;
  }

  /** What waits for an instruction: those that name it, and the next of its engine. */
  successors(instruction: number): Int32Array {
    if (this.following === null) {
      const before = new Int32Array(this.waits.length + this.length);
      const after = new Int32Array(before.length);
      let length = 0;
      for (let i = 0; i < this.length; i++) {
        for (let at = this.waitAt[i]; at < this.waitAt[i + 1]; at++) {
          before[length] = this.waits[at];
          after[length++] = i;
        }
        if (this.previous[i] < 0) continue;
        before[length] = this.previous[i];
        after[length++] = i;
      }
      this.following = grouped(before, after, length, this.length);
    }
    const { at, numbers } = this.following;
    return numbers.subarray(at[instruction], at[instruction + 1]);
  }

  waitsOf(instruction: number): Int32Array {
    return this.waits.subarray(this.waitAt[instruction], this.waitAt[instruction + 1]);
  }

  /** The instructions that use a buffer, in order. */
  usersOf(buffer: number): Int32Array {
    if (this.users === null) {
      const user = new Int32Array(this.operandBuffer.length);
      for (let i = 0; i < this.length; i++) user.fill(i, this.operandAt[i], this.operandAt[i + 1]);
      this.users = grouped(this.operandBuffer, user, user.length, this.buffers.space.length);
    }
    const { at, numbers } = this.users;
    return numbers.subarray(at[buffer], at[buffer + 1]);
  }

  /** Whether an instruction reads a buffer rather than writing it. */
  reads(instruction: number, buffer: number): boolean {
    for (let at = this.operandAt[instruction]; at < this.operandAt[instruction + 1]; at++) {
      if (this.operandBuffer[at] === buffer && this.operandMode[at] === READ) return true;
    }
    return false;
  }

  regionBoundsOf(region: number): Float64Array {
    return this.regionBounds.subarray(this.regionAt[region], this.regionAt[region + 1]);
  }

  /** A region as `[0:1, 4:8]`. */
  regionText(region: number): string {
    const bounds = this.regionBoundsOf(region);
    const rank = bounds.length / 2;
    return `[${Array.from({ length: rank }, (_, i) => `${bounds[i]}:${bounds[rank + i]}`).join(", ")}]`;
  }

  overlap(one: number, other: number): boolean {
    const a = this.regionBoundsOf(one);
    const b = this.regionBoundsOf(other);
    const rank = a.length / 2;
    if (b.length !== a.length) return false;
    for (let i = 0; i < rank; i++) if (a[i] >= b[rank + i] || b[i] >= a[rank + i]) return false;
    return true;
  }

  engineName(instruction: number): string {
    return this.header.program.engines[this.engine[instruction]].name;
  }

  operatorName(operator: number): string {
    return operator < 0 ? "" : this.header.graph.operators[operator].name;
  }

  tensorName(buffer: number): string {
    return this.header.graph.tensors[this.buffers.tensor[buffer]].name;
  }

  /** What an instruction is called in a box of the timeline. */
  nameOf(instruction: number): string {
    const kind = this.header.program.kinds[this.kind[instruction]];
    if (kind === "launch") return "launch";
    const last = this.operandAt[instruction + 1] - 1;
    if (kind === "copy" && last >= this.operandAt[instruction]) return this.tensorName(this.operandBuffer[last]);
    return this.operatorName(this.operator[instruction]);
  }

  subGraphOf(instruction: number): number {
    return this.header.program.kernels[this.kernel[instruction]].sub_graph;
  }

  instanceOf(instruction: number): number {
    return this.header.program.kernels[this.kernel[instruction]].instance;
  }

  secondsOf(cycles: number): number {
    return cycles / this.header.report.what.clock_hz;
  }
}

interface Grouped {
  at: Int32Array;
  numbers: Int32Array;
}

/** Numbers by their group, in their order, each once in a group; of both lists the first `length` count. */
function grouped(group: Int32Array, number: Int32Array, length: number, groups: number): Grouped {
  const counts = new Int32Array(groups);
  const latest = new Int32Array(groups).fill(-1);
  for (let i = 0; i < length; i++) {
    if (latest[group[i]] === number[i]) continue;
    latest[group[i]] = number[i];
    counts[group[i]]++;
  }
  const at = offsets(counts);
  const next = at.slice();
  const numbers = new Int32Array(at[groups]);
  latest.fill(-1);
  for (let i = 0; i < length; i++) {
    if (latest[group[i]] === number[i]) continue;
    latest[group[i]] = number[i];
    numbers[next[group[i]]++] = number[i];
  }
  return { at, numbers };
}

/**
 * The instructions that decided when one ends: back from it, each time to what it waited for longest.
 *
 * An instruction starts when the last of its waits and the instruction before it on its engine have ended, so the path
 * has no gaps, and the times of its instructions add up to the end of the last. Of several that end together it is the
 * first in the order of the program.
 */
export function criticalPath(run: Run, last: number): number[] {
  const found = [last];
  for (let at = last; ; ) {
    let latest = -1;
    for (const candidate of [...run.waitsOf(at), run.previous[at]].sort((a, b) => a - b)) {
      if (candidate >= 0 && (latest < 0 || run.end[candidate] > run.end[latest])) latest = candidate;
    }
    if (latest < 0) return found.reverse();
    found.push(latest);
    at = latest;
  }
}

/** The instruction that ends last, the first of several. */
export function lastToEnd(run: Run): number {
  let found = 0;
  for (let i = 1; i < run.length; i++) if (run.end[i] > run.end[found]) found = i;
  return found;
}
