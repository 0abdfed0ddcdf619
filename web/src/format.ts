// Numbers as text, always with their unit; the same rules as the text report (base/units.py).

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return grouped.format(value);
}

/** With so many digits; a tie goes to the even one, as in Python. */
export function fixed(value: number, digits: number): string {
  const places = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  const options: Intl.NumberFormatOptions & { roundingMode: string } = { ...places, roundingMode: "halfEven" };
  return value.toLocaleString("en-US", options);
}

export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function cycles(value: number): string {
  return counted(value, "cycle");
}

function prefixed(value: number, steps: readonly (readonly [number, number, string])[]): string {
  const step = steps.find(([limit]) => value < limit) ?? steps[steps.length - 1];
  return `${fixed(value * step[1], 3)} ${step[2]}`;
}

export function bytes(value: number): string {
  let size = value;
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (size < 1024) return unit === "B" ? `${count(size)} B` : `${fixed(size, 2)} ${unit}`;
    size /= 1024;
  }
  return `${fixed(size, 2)} PiB`;
}

export function seconds(value: number): string {
  return prefixed(value, [
    [1e-6, 1e9, "ns"],
    [1e-3, 1e6, "us"],
    [1, 1e3, "ms"],
    [Number.POSITIVE_INFINITY, 1, "s"],
  ]);
}

export function energy(picojoules: number): string {
  return prefixed(picojoules, [
    [1e3, 1, "pJ"],
    [1e6, 1e-3, "nJ"],
    [1e9, 1e-6, "uJ"],
    [1e12, 1e-9, "mJ"],
    [Number.POSITIVE_INFINITY, 1e-12, "J"],
  ]);
}

/** A large count with a letter, such as 65.43 G. */
export function scaled(value: number): string {
  for (const [scale, letter] of [
    [1e15, "P"],
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (value >= scale) return `${fixed(value / scale, 2)} ${letter}`;
  }
  return value < 10 && value > 0 ? value.toPrecision(3) : count(value);
}

export function percent(share: number): string {
  return `${fixed(100 * share, 1)} %`;
}

export function address(value: number): string {
  return `0x${value.toString(16)}`;
}
