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
