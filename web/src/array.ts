// The array of processing elements: rows and columns of cells on a canvas.

import { Surface } from "./canvas";
import type { Rgb, Theme } from "./colours";
import { css, inkOn, mixed } from "./colours";

export interface Shape {
  elements: number;
  columns: number;
}

/** What of an element is drawn. */
export interface Cell {
  fill: Rgb | null; // null: the mapping leaves it out
  text: string;
  edge: Rgb | null; // around it
}

const [LEFT, TOP] = [30, 18];
const WIDEST = 54; // pixels of a cell
const LETTERS = 15; // pixels from which on a cell has text
const MARK = 3; // pixels of an edge

export class ArrayView {
  readonly surface: Surface;
  private cell = 1;

  constructor(
    private readonly shape: Shape,
    label: string,
  ) {
    this.surface = new Surface(label);
  }

  get rows(): number {
    return Math.ceil(this.shape.elements / this.shape.columns);
  }

  /** Draw every element; false where there is no room. */
  draw(theme: Theme, cellOf: (element: number) => Cell, selected: number): boolean {
    const { columns, elements } = this.shape;
    const width = this.surface.canvas.parentElement?.clientWidth ?? 0;
    this.cell = Math.max(1, Math.min(WIDEST, (width - LEFT - 2) / columns));
    if (!this.surface.fit(TOP + Math.ceil(this.rows * this.cell) + 4)) return false;
    const { context } = this.surface;
    context.clearRect(0, 0, this.surface.width, this.surface.height);
    this.axes(theme);
    for (let at = 0; at < elements; at++) this.element(theme, at, cellOf(at), at === selected);
    return true;
  }

  private element(theme: Theme, at: number, cell: Cell, selected: boolean): void {
    const { context } = this.surface;
    const { columns } = this.shape;
    const gap = this.cell > 8 ? 1 : 0;
    const x = LEFT + (at % columns) * this.cell + gap;
    const y = TOP + Math.floor(at / columns) * this.cell + gap;
    const side = Math.max(1, this.cell - 2 * gap);
    const fill = cell.fill ?? theme.lane;
    context.fillStyle = css(fill);
    context.fillRect(x, y, side, side);
    if (cell.edge !== null && side > 2 * MARK) {
      context.strokeStyle = css(cell.edge);
      context.lineWidth = MARK;
      context.strokeRect(x + MARK / 2, y + MARK / 2, side - MARK, side - MARK);
    }
    if (cell.text !== "" && side >= LETTERS) {
      context.font = `${Math.max(8, Math.min(12, side / Math.max(2.2, 0.62 * cell.text.length)))}px sans-serif`;
      const wide = context.measureText(cell.text).width;
      if (wide <= side - 2) {
        context.fillStyle = inkOn(fill);
        context.textAlign = "center";
        context.textBaseline = "middle";
        context.fillText(cell.text, x + side / 2, y + side / 2 + 0.5);
      }
    }
    if (selected) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 2.5;
      context.strokeRect(x, y, side, side);
    }
  }

  private axes(theme: Theme): void {
    const { context } = this.surface;
    context.font = "10px sans-serif";
    context.fillStyle = theme.faint;
    context.textBaseline = "middle";
    const step = Math.max(1, Math.ceil(22 / this.cell));
    context.textAlign = "center";
    for (let column = 0; column < this.shape.columns; column += step) {
      context.fillText(`${column}`, LEFT + (column + 0.5) * this.cell, TOP / 2);
    }
    context.textAlign = "right";
    for (let row = 0; row < this.rows; row += step) {
      context.fillText(`${row}`, LEFT - 5, TOP + (row + 0.5) * this.cell);
    }
  }

  /** The element under a pointer, -1 where there is none. */
  under(event: MouseEvent): number {
    const [x, y] = this.surface.place(event);
    const column = Math.floor((x - LEFT) / this.cell);
    const row = Math.floor((y - TOP) / this.cell);
    if (column < 0 || column >= this.shape.columns || row < 0) return -1;
    const at = row * this.shape.columns + column;
    return at < this.shape.elements ? at : -1;
  }

  /** The element that an arrow key leads to; the same at an edge. */
  moved(at: number, key: string): number {
    const step =
      { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.shape.columns, ArrowDown: this.shape.columns }[key] ?? 0;
    const next = at + step;
    return next >= 0 && next < this.shape.elements ? next : at;
  }
}

/** A paler form of a colour, in the theme. */
export function paler(rgb: Rgb, theme: Theme, share: number): Rgb {
  return mixed(rgb, theme.background, share);
}
