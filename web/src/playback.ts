// Recorded cycles of an array: from what happened in each follow the registers in every one of them.

import type { Unpacked } from "./decode";

type Numbers = Int32Array | Float32Array;

export interface RecordedOperand {
  name: string;
  registers: number; // first register x elements of its two buffers
  buffer: number; // registers x elements of one
  network: number;
  extents: number[]; // of what one element holds
  axes: [number, number][][]; // (loop, step) terms of each axis
}

export interface RecordingHeader {
  begin: number;
  end: number;
  before: number; // rows before the first cycle: words that were on their way
  lag: number; // cycles from the sending of a word until it is in its registers
  elements: number;
  float: boolean;
  operands: RecordedOperand[];
  networks: string[];
  loops: string[];
  rf: number[];
  spatial: number[];
  events: string[];
  causes: string[];
  first_row: number;
  first_mask: number;
  first_hop: number;
  first_word: number;
}

export interface SentWord {
  value: number;
  registers: number[]; // register x elements + element within all registers
}

const LANES = 4; // three networks, and results on their way out
const RESULTS = 3;
const KEPT = 64; // cycles from one state that is kept to the next

export class Playback {
  readonly header: RecordingHeader;
  private readonly columns: Record<string, ArrayLike<number>>;
  private readonly values: Numbers;
  private readonly valueAt: Int32Array; // row x lanes + lane: the first of its values
  private readonly kept = new Map<number, Numbers>();

  constructor(found: Unpacked) {
    this.header = found.header as unknown as RecordingHeader;
    const names = ["pass", "row", "mask", "hop", "hops", "results", "words", "registers", "instructions", "works"];
    names.push("sum_source", "sum_target", "aim", "target", "pass_number", "pass_start");
    for (let lane = 0; lane < LANES; lane++) names.push(`count${lane}`, `first${lane}`, `place${lane}`);
    this.header.operands.forEach((_, at) => {
      names.push(`buffer${at}`);
    });
    for (const name of ["kind", "what", "begin", "end", "one", "other"]) names.push(`event_${name}`);
    this.columns = Object.fromEntries(names.map((name) => [name, found.ints(name)]));
    this.values = this.asValues(this.columns.words);
    const rows = this.columns.pass.length;
    this.valueAt = new Int32Array(rows * LANES + 1);
    for (let row = 0; row < rows; row++) {
      for (let lane = 0; lane < LANES; lane++) {
        const at = row * LANES + lane;
        this.valueAt[at + 1] = this.valueAt[at] + this.columns[`count${lane}`][row];
      }
    }
    this.kept.set(this.header.begin - 1, this.asValues(this.columns.registers));
  }

  /** Whole numbers of 32 bits, or the floats of the same bits. */
  private asValues(numbers: ArrayLike<number>): Numbers {
    const whole = Int32Array.from(numbers);
    return this.header.float ? new Float32Array(whole.buffer) : whole;
  }

  private rowOf(cycle: number): number {
    return cycle - this.header.begin + this.header.before;
  }

  private column(name: string, cycle: number): number {
    return this.columns[name][this.rowOf(cycle)];
  }

  /** The registers at the end of a cycle. */
  registersAfter(cycle: number): Numbers {
    let from = cycle;
    while (!this.kept.has(from)) from--;
    const found = this.kept.get(from)!.slice() as Numbers;
    for (let at = from + 1; at <= cycle; at++) {
      this.step(found, at);
      if ((at - this.header.begin) % KEPT === 0) this.kept.set(at, found.slice() as Numbers);
    }
    return found;
  }

  /** What happens in a cycle: words arrive, an instruction is executed, sums go on, and results leave. */
  private step(registers: Numbers, cycle: number): void {
    for (let network = 0; network < RESULTS; network++) {
      for (const word of this.arriving(cycle, network)) {
        for (const to of word.registers) registers[to] = word.value;
      }
    }
    if (this.executes(cycle)) {
      const products = this.products(registers, cycle);
      const first = this.readAt(cycle, this.header.operands.length - 1);
      for (let element = 0; element < this.header.elements; element++) {
        if (this.works(cycle, element)) registers[first + element] += products[element];
      }
    }
    const hop = this.column("hop", cycle) - this.header.first_hop;
    const base = this.column("results", cycle);
    for (let at = hop; at < hop + this.hops(cycle); at++) {
      const source = base + this.columns.sum_source[at];
      registers[base + this.columns.sum_target[at]] += registers[source];
      registers[source] = 0;
    }
    for (const word of this.leaving(cycle)) for (const from of word.registers) registers[from] = 0;
  }

  /** Whether an instruction is executed. */
  executes(cycle: number): boolean {
    return this.column("row", cycle) >= 0;
  }

  /** Whether an element takes part in the instruction of a cycle. */
  works(cycle: number, element: number): boolean {
    const mask = this.column("mask", cycle);
    if (!this.executes(cycle) || element >= this.header.elements) return false;
    return mask < 0 || this.columns.works[(mask - this.header.first_mask) * this.header.elements + element] === 1;
  }

  /** The pass whose instruction is executed, by its number in the layer; -1: none. */
  pass(cycle: number): number {
    return this.column("pass", cycle);
  }

  /** The first register x elements that the instruction of a cycle uses of an operand. */
  readAt(cycle: number, operand: number): number {
    const { elements, operands, first_row } = this.header;
    const row = this.column("row", cycle) - first_row;
    return (
      this.column(`buffer${operand}`, cycle) + this.columns.instructions[row * operands.length + operand] * elements
    );
  }

  /** The products of a cycle, with the registers as they are then. */
  products(registers: Numbers, cycle: number): Numbers {
    const { elements, operands, float } = this.header;
    const found = float ? new Float32Array(elements).fill(1) : new Int32Array(elements).fill(1);
    for (let operand = 0; operand < operands.length - 1; operand++) {
      const first = this.readAt(cycle, operand);
      for (let element = 0; element < elements; element++) {
        const factor = registers[first + element];
        found[element] = float ? found[element] * factor : Math.imul(found[element], factor);
      }
    }
    return found;
  }

  /** Partial sums that go to another element in a cycle. */
  hops(cycle: number): number {
    return this.column("hops", cycle);
  }

  /** Words that a network sends in a cycle, with the registers in which they will be. */
  sent(cycle: number, network: number): SentWord[] {
    return this.words(this.rowOf(cycle), network, this.columns[`place${network}`]);
  }

  /** Words that a network sent so long ago that they are in their registers in this cycle. */
  arriving(cycle: number, network: number): SentWord[] {
    const row = this.rowOf(cycle) - this.header.lag;
    return row < 0 ? [] : this.words(row, network, this.columns[`place${network}`]);
  }

  /** Results that leave their registers in a cycle. */
  leaving(cycle: number): SentWord[] {
    return this.words(this.rowOf(cycle), RESULTS, this.columns.results);
  }

  private words(row: number, lane: number, places: ArrayLike<number>): SentWord[] {
    const found: SentWord[] = [];
    const count = this.columns[`count${lane}`][row];
    const first = this.columns[`first${lane}`][row] - this.header.first_word;
    for (let one = 0; one < count; one++) {
      const registers: number[] = [];
      for (let at = this.columns.aim[first + one]; at < this.columns.aim[first + one + 1]; at++) {
        registers.push(places[row] + this.columns.target[at]);
      }
      found.push({ value: this.values[this.valueAt[row * LANES + lane] + one], registers });
    }
    return found;
  }

  /** The pass that uses a buffer of an operand in a cycle, next, or else last; -1: none in the recording. */
  passOf(cycle: number, operand: number, buffer: number): number {
    const { begin, end, operands } = this.header;
    const base = operands[operand].registers + buffer * operands[operand].buffer;
    const uses = (at: number) => this.executes(at) && this.column(`buffer${operand}`, at) === base;
    for (let at = cycle; at < end; at++) if (uses(at)) return this.pass(at);
    for (let at = cycle; at >= begin; at--) if (uses(at)) return this.pass(at);
    return -1;
  }

  /** The buffer of an operand that is in use in a cycle: that of the instruction then, or of the next, or of the last. */
  bufferOf(cycle: number, operand: number): number {
    const { begin, end, operands } = this.header;
    const which = (at: number) => (this.column(`buffer${operand}`, at) === operands[operand].registers ? 0 : 1);
    for (let at = cycle; at < end; at++) if (this.executes(at)) return which(at);
    for (let at = cycle; at >= begin; at--) if (this.executes(at)) return which(at);
    return 0;
  }

  /** The indices of a word of an operand that an element has in a pass, such as [3, 5]; null where it is not known. */
  indices(operand: number, pass: number, element: number, word: number): number[] | null {
    const at = Array.prototype.indexOf.call(this.columns.pass_number, pass);
    if (at < 0) return null;
    const { loops, rf, spatial, operands } = this.header;
    const place: number[] = [];
    let rest = element;
    for (let loop = loops.length - 1; loop >= 0; loop--) {
      place[loop] = rest % spatial[loop];
      rest = Math.floor(rest / spatial[loop]);
    }
    const { axes, extents } = operands[operand];
    const found: number[] = [];
    let left = word;
    for (let axis = axes.length - 1; axis >= 0; axis--) {
      const begin = axes[axis].reduce(
        (sum, [loop, step]) =>
          sum + step * (this.columns.pass_start[at * loops.length + loop] + place[loop] * rf[loop]),
        0,
      );
      found[axis] = begin + (left % extents[axis]);
      left = Math.floor(left / extents[axis]);
    }
    return found;
  }

  /** What takes time in the recording: passes, words on networks, sums, results, DMA, waits. */
  events(): { kind: string; what: number; begin: number; end: number; one: number; other: number }[] {
    const { event_kind: kind } = this.columns;
    return Array.from(kind, (_, at) => ({
      kind: this.header.events[kind[at]],
      what: this.columns.event_what[at],
      begin: this.columns.event_begin[at],
      end: this.columns.event_end[at],
      one: this.columns.event_one[at],
      other: this.columns.event_other[at],
    }));
  }
}
