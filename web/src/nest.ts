// A mapped loop nest as code, level by level, and where its energy goes.

import { colour, colourIndex, css, inkOn } from "./colours";
import { element, scrolled, table } from "./dom";
import { bytes, count, energy, percent } from "./format";

export interface Held {
  extents: number[];
  size_bytes: number;
}

/** One level of a machine: a memory, the array, or the arithmetic; the outermost comes first. */
export interface Level {
  name: string;
  kind: "memory" | "array" | "unit";
  loops: { name: string; count: number }[]; // over what the next level holds, the outermost first
  holds: Held[]; // by operand
  room_bytes: number | null;
  energy_pj: number;
  operands_pj: number[];
}

export interface Spread {
  loops: { name: string; count: number }[];
  summed: string[]; // loops over which several elements add to one result
  elements: number;
}

export interface MappedNest {
  operands: string[];
  body: string;
  levels: Level[];
  spread: Spread;
}

/** Each level as a block with its colour: what it holds, then its loops. */
export function nestCode(nest: MappedNest, elements: number): HTMLElement {
  const found = element("div", { class: "nest" });
  let depth = 0;
  for (const [number, level] of nest.levels.entries()) {
    const lines: HTMLElement[] = [];
    const line = (text: string, kind: string) => {
      const code = element("code", { class: kind }, text);
      code.style.paddingLeft = `${1.2 * depth}em`;
      lines.push(code);
    };
    if (level.kind === "unit") line(nest.body, "body");
    else line(`# ${level.kind === "array" ? "takes" : "holds"} ${heldText(nest, level)}`, "holds");
    if (level.kind === "array") {
      const loops = level.loops.map((loop) => `${loop.name} over ${count(loop.count)}`).join(", ") || "nothing";
      line(`spread ${loops}:  # ${count(nest.spread.elements)} of ${count(elements)} elements`, "loop");
      depth++;
    } else {
      for (const loop of level.loops) {
        line(`for ${loop.name} in ${count(loop.count)}:`, "loop");
        depth++;
      }
    }
    const rgb = colour(colourIndex(number));
    const name = element("div", { class: "level-name" }, level.name);
    name.style.background = css(rgb);
    name.style.color = inkOn(rgb);
    const room = level.room_bytes === null ? "" : roomText(level);
    found.append(
      element(
        "div",
        { class: "level", "data-level": level.name },
        name,
        element("div", { class: "lines" }, ...lines),
        element("div", { class: "note room" }, room),
      ),
    );
  }
  return found;
}

function heldText(nest: MappedNest, level: Level): string {
  return level.holds
    .map((held, at) => `${nest.operands[at]} ${held.extents.join("x") || "1"} (${bytes(held.size_bytes)})`)
    .join(", ");
}

function roomText(level: Level): string {
  const used = level.holds.reduce((sum, held) => sum + held.size_bytes, 0);
  return `${bytes(used)} of ${bytes(level.room_bytes!)}, ${percent(used / level.room_bytes!)}`;
}

/** Energy of each level by operand; what is no operand's is arithmetic and partial sums. */
export function energyTable(nest: MappedNest): HTMLElement {
  const whole = nest.levels.reduce((sum, level) => sum + level.energy_pj, 0);
  const rows = nest.levels.map((level) => {
    const rest = level.energy_pj - level.operands_pj.reduce((sum, one) => sum + one, 0);
    const small = Math.abs(rest) <= 1e-9 * Math.max(1, level.energy_pj);
    const share = level.energy_pj / whole;
    const bar = element("span", { class: "bar" });
    bar.style.width = `${100 * share}%`;
    return [
      level.name,
      ...level.operands_pj.map((one) => (one === 0 ? "" : energy(one))),
      small ? "" : energy(rest),
      energy(level.energy_pj),
      element("span", {}, percent(share)),
      element("span", { class: "bars" }, bar),
    ];
  });
  const heads = ["level", ...nest.operands, "arithmetic, partial sums", "all", "share", ""];
  return scrolled(table(heads, rows, "energy"));
}
