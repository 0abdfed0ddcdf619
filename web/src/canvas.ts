// A canvas that fills its place at the resolution of the screen.

export class Surface {
  readonly canvas = document.createElement("canvas");
  readonly context: CanvasRenderingContext2D;
  width = 0; // CSS pixels
  height = 0;
  ratio = 1; // device pixels of one

  constructor(label: string) {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", label);
    const context = this.canvas.getContext("2d");
    if (context === null) throw new Error("this browser has no canvas");
    this.context = context;
  }

  /** Take the width of the parent and a height; false where there is no room to draw. */
  fit(height: number): boolean {
    const width = this.canvas.parentElement?.clientWidth ?? 0;
    this.ratio = window.devicePixelRatio || 1;
    this.width = width;
    this.height = height;
    const wide = Math.round(width * this.ratio);
    const high = Math.round(height * this.ratio);
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
      this.canvas.style.setProperty("--height", `${height}px`);
    }
    this.context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    return wide > 0 && high > 0;
  }

  /** Where a pointer is, in CSS pixels of the canvas. */
  place(event: MouseEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

/** A text of at most so many pixels, cut at its end; letters of a 11 px font take about 6. */
export function clipped(text: string, pixels: number): string {
  const most = Math.floor(pixels / 6);
  if (text.length <= most) return text;
  return most < 3 ? "" : `${text.slice(0, most - 1)}…`;
}

/** A name of at most so many pixels, cut before its end, which is what tells `layer.0.query` from `layer.0.key`. */
export function shortened(name: string, pixels: number): string {
  const most = Math.floor(pixels / 6);
  if (name.length <= most) return name;
  const first = Math.floor((most - 1) / 3);
  return most < 3 ? "" : `${name.slice(0, first)}…${name.slice(name.length - (most - 1 - first))}`;
}
