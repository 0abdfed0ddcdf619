// Rows of a timeline as pixels: each pixel is the mean colour of what happens in its piece of time.
//
// Of many neighbours too small to be seen a level stands: level L takes 4^L instructions of an engine as one box, which
// knows how much of its time is occupied and which of its instructions takes longest. So a row costs about as much as it
// has pixels, however many instructions there are, and no instruction is left out of the mean.

import { colour, type Rgb } from "./colours";
import type { Run } from "./run";

/** When each of some things begins and ends: instructions, or idle times. */
interface Times {
  start: Float64Array;
  end: Float64Array;
}

const FACTOR = 4;

interface Level {
  size: number; // instructions of a box
  occupied: Float64Array; // cycles
  longest: Int32Array; // of its instructions, by number in the program
}

/** The instructions of one engine, or its idle times, merged by 1, 4, 16, ... neighbours. */
export class Lane {
  private readonly levels: Level[] = [];
  /** Before each place, how many cycles of the instructions are marked, and the place of the next marked one. */
  private marked: { cycles: Float64Array; next: Int32Array } | null = null;

  constructor(
    private readonly times: Times,
    readonly numbers: Int32Array,
  ) {
    let size = 1;
    let occupied = Float64Array.from(numbers, (i) => times.end[i] - times.start[i]);
    let longest = numbers;
    for (;;) {
      this.levels.push({ size, occupied, longest });
      if (occupied.length <= 1) return;
      const boxes = Math.ceil(occupied.length / FACTOR);
      const sums = new Float64Array(boxes);
      const most = new Int32Array(boxes);
      for (let box = 0; box < boxes; box++) {
        let best = -1;
        for (let at = box * FACTOR; at < Math.min(occupied.length, (box + 1) * FACTOR); at++) {
          sums[box] += occupied[at];
          const length = times.end[longest[at]] - times.start[longest[at]];
          if (length > best) {
            best = length;
            most[box] = longest[at];
          }
        }
      }
      size *= FACTOR;
      occupied = sums;
      longest = most;
    }
  }

  mark(marks: Uint8Array | null): void {
    if (marks === null) {
      this.marked = null;
      return;
    }
    const length = this.numbers.length;
    const cycles = new Float64Array(length + 1);
    const next = new Int32Array(length + 1).fill(length);
    for (let at = 0; at < length; at++) {
      const i = this.numbers[at];
      cycles[at + 1] = cycles[at] + (marks[i] ? this.times.end[i] - this.times.start[i] : 0);
    }
    for (let at = length - 1; at >= 0; at--) next[at] = marks[this.numbers[at]] ? at : next[at + 1];
    this.marked = { cycles, next };
  }

  /** The place of the first instruction that ends after a time. */
  firstAfter(time: number): number {
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times.end[this.numbers[middle]] > time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** The place of the first instruction that starts at a time or later. */
  firstFrom(time: number): number {
    let low = 0;
    let high = this.numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times.start[this.numbers[middle]] >= time) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Give each box of a window its time, how much of that is occupied, and its instruction; of marked ones theirs. */
  boxes(from: number, to: number, pixels: number, paint: Paint): void {
    const first = this.firstAfter(from);
    const stop = this.firstFrom(to);
    let number = 0;
    while (number + 1 < this.levels.length && (stop - first) / this.levels[number].size > 2 * pixels) number++;
    const { size, occupied, longest } = this.levels[number];
    for (let box = Math.floor(first / size); box * size < stop; box++) {
      const begin = box * size;
      const end = Math.min(this.numbers.length, begin + size);
      const start = this.times.start[this.numbers[begin]];
      const length = Math.max(1e-9, this.times.end[this.numbers[end - 1]] - start);
      if (this.marked === null) {
        paint(start, length, occupied[box] / length, longest[box], 1);
        continue;
      }
      const cycles = this.marked.cycles[end] - this.marked.cycles[begin];
      paint(start, length, (occupied[box] - cycles) / length, longest[box], DIMMED);
      if (cycles > 0) paint(start, length, cycles / length, this.numbers[this.marked.next[begin]], 1);
    }
  }
}

type Paint = (start: number, length: number, share: number, instruction: number, strength: number) => void;

const DIMMED = 0.22; // strength of what is not selected

/** Rows of pixels, one after another: colours add up by the share of a pixel that they cover. */
export class Row {
  readonly image: ImageData;
  private readonly sums: Float32Array;

  private begin = 0; // of the row at hand in the image

  constructor(
    readonly width: number,
    rows: number,
  ) {
    this.image = new ImageData(width, rows);
    this.sums = new Float32Array(4 * width);
  }

  /** Begin a row. */
  clear(row: number): void {
    this.sums.fill(0);
    this.begin = 4 * this.width * row;
  }

  /** Paint from one pixel to another, both fractions, with a colour, so strong. */
  add(from: number, to: number, rgb: Rgb, strength: number): void {
    const begin = Math.max(0, from);
    const end = Math.min(this.width, to);
    if (end <= begin) return;
    const { sums } = this;
    const last = Math.min(this.width - 1, Math.floor(end));
    for (let pixel = Math.floor(begin); pixel <= last; pixel++) {
      const covered = (Math.min(end, pixel + 1) - Math.max(begin, pixel)) * strength;
      const at = 4 * pixel;
      sums[at] += covered * rgb[0];
      sums[at + 1] += covered * rgb[1];
      sums[at + 2] += covered * rgb[2];
      sums[at + 3] += covered;
    }
  }

  /** The sums on nothing: what they leave free can be seen through. */
  finishClear(): void {
    const { data } = this.image;
    const { sums } = this;
    const begin = this.begin;
    for (let at = 0; at < sums.length; at += 4) {
      const covered = sums[at + 3];
      if (covered === 0) continue;
      data[begin + at] = sums[at] / covered;
      data[begin + at + 1] = sums[at + 1] / covered;
      data[begin + at + 2] = sums[at + 2] / covered;
      data[begin + at + 3] = 255 * Math.min(1, covered);
    }
  }

  /** The sums over a ground. */
  finish(ground: Rgb): void {
    const { data } = this.image;
    const { sums } = this;
    const begin = this.begin;
    for (let at = 0; at < sums.length; at += 4) {
      const covered = sums[at + 3];
      const scale = covered > 1 ? 1 / covered : 1;
      const rest = Math.max(0, 1 - covered);
      data[begin + at] = sums[at] * scale + rest * ground[0];
      data[begin + at + 1] = sums[at + 1] * scale + rest * ground[1];
      data[begin + at + 2] = sums[at + 2] * scale + rest * ground[2];
      data[begin + at + 3] = 255;
    }
  }
}

export function paintLane(row: Row, lane: Lane, from: number, to: number, colours: Uint8Array, ground: Rgb): void {
  const rate = row.width / (to - from);
  lane.boxes(from, to, row.width, (start, length, share, instruction, strength) => {
    const begin = (start - from) * rate;
    const end = begin + length * rate;
    // A box that can be seen leaves its last pixel free, so that neighbours of one colour stay apart.
    const stop = end - begin > 5 ? end - 1 : end;
    row.add(begin, stop, colour(colours[instruction]), share * strength);
  });
  row.finish(ground);
}

/** The idle times of a lane, each in the colour of its cause. */
export function paintIdle(
  row: Row,
  lane: Lane,
  from: number,
  to: number,
  cause: Int32Array,
  colours: readonly Rgb[],
): void {
  const rate = row.width / (to - from);
  lane.boxes(from, to, row.width, (start, length, share, number, strength) => {
    row.add((start - from) * rate, (start + length - from) * rate, colours[cause[number]], share * strength);
  });
  row.finishClear();
}

/** What a port carries: the bytes of each transfer on a path through it, spread evenly over the time of the transfer. */
export class Port {
  private readonly times: Float64Array;
  private readonly sums: Float64Array; // bytes until then
  private readonly rates: Float64Array; // from then on

  constructor(run: Run, resource: number) {
    const through = run.header.program.paths.map((path) => path.includes(resource));
    const events: [number, number][] = [];
    for (let i = 0; i < run.length; i++) {
      if (run.path[i] < 0 || !through[run.path[i]] || run.bytes[i] === 0) continue;
      const begin = Math.min(run.start[i] + run.ownCycles[i], run.end[i] - 1);
      const rate = run.bytes[i] / (run.end[i] - begin);
      events.push([begin, rate], [run.end[i], -rate]);
    }
    events.sort((one, other) => one[0] - other[0]);
    this.times = Float64Array.from(events, ([time]) => time);
    this.sums = new Float64Array(events.length);
    this.rates = new Float64Array(events.length);
    let rate = 0;
    let sum = 0;
    for (let at = 0; at < events.length; at++) {
      if (at > 0) sum += rate * (this.times[at] - this.times[at - 1]);
      rate += events[at][1];
      this.sums[at] = sum;
      this.rates[at] = rate;
    }
  }

  get used(): boolean {
    return this.times.length > 0;
  }

  /** Bytes until a time. */
  until(time: number): number {
    let low = 0;
    let high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle] > time) high = middle;
      else low = middle + 1;
    }
    return low === 0 ? 0 : this.sums[low - 1] + this.rates[low - 1] * (time - this.times[low - 1]);
  }
}

/** A row of a port: the stronger, the more of its bandwidth is used. */
export function paintPort(
  row: Row,
  port: Port,
  from: number,
  to: number,
  bandwidth: number,
  ground: Rgb,
  ink: Rgb,
): void {
  const step = (to - from) / row.width;
  let before = port.until(from);
  for (let pixel = 0; pixel < row.width; pixel++) {
    const after = port.until(from + (pixel + 1) * step);
    row.add(pixel, pixel + 1, ink, Math.min(1, (after - before) / (step * bandwidth)));
    before = after;
  }
  row.finish(ground);
}
