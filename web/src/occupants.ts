// Who held the addresses of a memory, one after another.

import type { Run } from "./run";

/**
 * The buffers that lay last at the addresses of another one before it began, the latest first.
 *
 * A buffer whose place is taken over while it is read for the last time counts as well.
 */
export function before(run: Run, number: number): number[] {
  const { space, address, bytes, first, last } = run.buffers;
  const begin = address[number];
  const stop = begin + bytes[number];
  const candidates: number[] = [];
  for (let other = 0; other < space.length; other++) {
    if (other === number || space[other] !== space[number] || last[other] < 0) continue;
    const meets = address[other] < stop && begin < address[other] + bytes[other];
    if (meets && first[other] < first[number]) candidates.push(other);
  }
  candidates.sort((a, b) => last[b] - last[a] || a - b);
  let free: [number, number][] = [[begin, stop]]; // addresses whose last holder is not known yet
  const found: number[] = [];
  for (const other of candidates) {
    const rest: [number, number][] = [];
    let covers = false;
    for (const [from, to] of free) {
      const low = Math.max(from, address[other]);
      const high = Math.min(to, address[other] + bytes[other]);
      if (low >= high) {
        rest.push([from, to]);
        continue;
      }
      covers = true;
      if (from < low) rest.push([from, low]);
      if (high < to) rest.push([high, to]);
    }
    if (covers) found.push(other);
    free = rest;
    if (free.length === 0) break;
  }
  return found;
}

/** The next buffer of the same memory that holds a part of what a buffer held; -1 where there is none. */
export function comesAgain(run: Run, number: number): number {
  const { space, tensor, region, first, last } = run.buffers;
  let found = -1;
  for (let other = 0; other < space.length; other++) {
    if (space[other] !== space[number] || tensor[other] !== tensor[number] || last[other] < 0) continue;
    if (first[other] < last[number] || other === number || !run.overlap(region[other], region[number])) continue;
    if (found < 0 || first[other] < first[found]) found = other;
  }
  return found;
}

/** How full a memory is over time. */
export class Occupancy {
  /** One above the highest address that is ever used. */
  readonly highest: number;
  /** The most bytes in use at once, and since when; where two buffers share an address it counts once. */
  readonly most: number;
  readonly mostAt: number;

  constructor(
    private readonly run: Run,
    private readonly buffers: Int32Array,
  ) {
    const { address, bytes, first } = run.buffers;
    this.highest = buffers.reduce((most, i) => Math.max(most, address[i] + bytes[i]), 0);
    // Sums of sizes are an upper bound, which is exact but where a result takes the place of an operand.
    const events = [...buffers].flatMap((i) => [
      [first[i], bytes[i]],
      [run.buffers.last[i], -bytes[i]],
    ]);
    events.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
    const sums: [number, number][] = [];
    let sum = 0;
    for (let at = 0; at < events.length; at++) {
      sum += events[at][1];
      if (at + 1 === events.length || events[at + 1][0] !== events[at][0]) sums.push([sum, events[at][0]]);
    }
    sums.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    let most = 0;
    let mostAt = 0;
    for (const [bound, time] of sums) {
      if (bound <= most) break;
      const used = this.usedAt(time);
      if (used > most) [most, mostAt] = [used, time];
    }
    this.most = most;
    this.mostAt = mostAt;
  }

  /** The buffers that are in use at a time, by address. */
  private openAt(time: number): number[] {
    const { first, last, address } = this.run.buffers;
    const found: number[] = [];
    for (const i of this.buffers) {
      if (first[i] > time) break;
      if (last[i] > time) found.push(i);
    }
    return found.sort((a, b) => address[a] - address[b] || a - b);
  }

  usedAt(time: number): number {
    const { address, bytes } = this.run.buffers;
    let used = 0;
    let end = 0;
    for (const i of this.openAt(time)) {
      const stop = address[i] + bytes[i];
      used += Math.max(0, stop - Math.max(end, address[i]));
      end = Math.max(end, stop);
    }
    return used;
  }

  /** What lies free between address 0 and the last buffer that is in use at a time. */
  holesAt(time: number): { count: number; size: number } {
    const { address, bytes } = this.run.buffers;
    let [holes, size, end] = [0, 0, 0];
    for (const i of this.openAt(time)) {
      if (address[i] > end) {
        holes++;
        size += address[i] - end;
      }
      end = Math.max(end, address[i] + bytes[i]);
    }
    return { count: holes, size };
  }
}
