// Colours that people with any kind of colour vision can tell apart, and those of the theme.

import type { Run } from "./run";
import type { Colouring } from "./selection";

export type Rgb = readonly [number, number, number];

// Okabe and Ito, Color Universal Design (2008), without black: neighbours differ in hue and in lightness.
const BASE: readonly Rgb[] = [
  [0, 114, 178],
  [230, 159, 0],
  [0, 158, 115],
  [204, 121, 167],
  [86, 180, 233],
  [213, 94, 0],
  [240, 228, 66],
];
const SHADES = [0, 0.32, -0.28]; // towards white, towards black

/** Of the causes of idle time, in the order of the header. */
export const CAUSE_COLOURS: readonly Rgb[] = [BASE[4], BASE[0], BASE[1], BASE[5], BASE[3], BASE[6], [128, 128, 128]];

export const NEUTRAL = 0; // of what belongs to nothing that has a colour
const COLOURS: readonly Rgb[] = [
  [128, 128, 128],
  ...SHADES.flatMap((shade) => BASE.map((rgb) => mixed(rgb, shade < 0 ? [0, 0, 0] : [255, 255, 255], Math.abs(shade)))),
];

export function mixed(one: Rgb, other: Rgb, share: number): Rgb {
  return [0, 1, 2].map((i) => one[i] + (other[i] - one[i]) * share) as unknown as Rgb;
}

/** The colour of the thing with a number; those that follow one another never share one. */
export function colourIndex(number: number): number {
  return number < 0 ? NEUTRAL : 1 + (number % (COLOURS.length - 1));
}

export function colour(index: number): Rgb {
  return COLOURS[index];
}

export function css(rgb: Rgb): string {
  return `rgb(${rgb.map(Math.round).join(",")})`;
}

/** Black or white, whichever has the higher contrast with a colour (WCAG 2.2, relative luminance). */
export function inkOn(rgb: Rgb): string {
  const [red, green, blue] = rgb.map((one) => {
    const share = one / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return (luminance + 0.05) ** 2 > 1.05 * 0.05 ? "#000" : "#fff";
}

/** The number of the thing that gives an instruction its colour. */
export function coloured(run: Run, colouring: Colouring, instruction: number): number {
  if (colouring === "operator") return run.operator[instruction];
  return colouring === "sub-graph" ? run.subGraphOf(instruction) : run.instanceOf(instruction);
}

/** Of every instruction, the index of its colour. */
export function colourIndices(run: Run, colouring: Colouring): Uint8Array {
  const found = new Uint8Array(run.length);
  for (let i = 0; i < run.length; i++) found[i] = colourIndex(coloured(run, colouring, i));
  return found;
}

/** Colours of the page, as the style sheet has them for the theme. */
export interface Theme {
  background: Rgb;
  ink: string;
  faint: string;
  line: string;
  accent: string;
  lane: Rgb;
}

export function theme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  const rgb = (name: string) => {
    const hex = value(name).slice(1);
    return [0, 2, 4].map((at) => Number.parseInt(hex.slice(at, at + 2), 16)) as unknown as Rgb;
  };
  return {
    background: rgb("--background"),
    ink: value("--ink"),
    faint: value("--faint"),
    line: value("--line"),
    accent: value("--accent"),
    lane: rgb("--lane"),
  };
}
