// The network: operators in their sub-graphs, which fold; with cores, bytes and cycles.

import { clipped, Surface, shortened } from "./canvas";
import { colour, colourIndex, css, mixed, type Rgb } from "./colours";
import { button, element } from "./dom";
import { bytes, counted, cycles } from "./format";
import { type Edge, layered, type Node, type Pass } from "./layered";
import type { Page, Pane } from "./pane";
import type { Work } from "./run";
import type { Kind, State } from "./selection";

const [LOWEST, HIGHEST] = [160, 520]; // pixels of the pane
const [WIDE, HIGH] = [190, 46]; // pixels of an operator
const PAD = 12; // around the operators of a sub-graph
const HEAD = 52; // for its name
const FEW = 60; // operators of a network that begins unfolded
const MOST_NAMED = 600; // nodes with names in them
const CLICK = 4;
const READABLE = 0.7; // of the size in which names are drawn

interface Drawn extends Node {
  kind: Kind & ("operator" | "sub-graph");
  number: number;
  open: boolean; // of a sub-graph whose operators are shown
  name: string;
  lines: string[];
}

interface Arrow {
  from: Drawn;
  to: Drawn;
  way: Pass[];
}

export class Graph implements Pane {
  readonly element = element("section", { id: "graph", "data-pane": "graph" });
  private readonly surface = new Surface(
    "Graph of the network. Keys: w, a, s, d move, plus and minus zoom, 0 shows everything, Enter folds and unfolds.",
  );
  private drawn: Drawn[] = [];
  private arrows: Arrow[] = [];
  private size = { width: 1, height: 1 };
  private view = { x: 0, y: 0, scale: 1 }; // the point of the drawing in the upper left corner
  private open = new Set<number>(); // sub-graphs
  private subGraphOf: Int32Array = new Int32Array(0); // of operators
  private fitted = false;
  private height = LOWEST;

  constructor(private readonly page: Page) {
    const place = element("div", { class: "surface" });
    place.append(this.surface.canvas);
    this.element.append(
      element("h2", {}, "Graph"),
      element(
        "p",
        { class: "note" },
        "The network as it was scheduled: an arrow is a tensor. Cycles: the time in which anything of it runs; bytes: " +
          "DDR traffic of a cluster; both simulated, in the first batch. A double click folds and unfolds a sub-graph.",
      ),
      element(
        "div",
        { class: "tools" },
        button("+", "Zoom in", () => this.zoom(1.4, this.surface.width / 2, this.height / 2)),
        button("−", "Zoom out", () => this.zoom(1 / 1.4, this.surface.width / 2, this.height / 2)),
        button("whole network", "Show everything (0)", () => this.fit()),
        button("unfold all", "Show every operator", () => this.foldAll(false)),
        button("fold all", "Show sub-graphs alone", () => this.foldAll(true)),
      ),
      place,
    );
    this.attach();
  }

  load(): void {
    const { header } = this.page.run;
    const { operators } = header.graph;
    this.subGraphOf = new Int32Array(operators.length).fill(-1);
    this.placeOperators();
    const folds = operators.length > FEW && header.sub_graphs.length > 1;
    this.open = new Set(folds ? [] : header.sub_graphs.keys());
    this.fitted = false;
    this.arrange();
  }

  /**
   * An operator is drawn in the sub-graph that computes most of it; other sub-graphs may copy its result. One that
   * computes nothing is drawn where most of its instructions are.
   */
  private placeOperators(): void {
    const { run } = this.page;
    const compute = run.header.program.kinds.indexOf("compute");
    const counts = new Map<number, Map<number, number>>();
    for (let i = 0; i < run.length; i++) {
      const operator = run.operator[i];
      if (operator < 0) continue;
      const own = counts.get(operator) ?? new Map<number, number>();
      counts.set(operator, own);
      const weight = run.kind[i] === compute ? run.length : 1;
      own.set(run.subGraphOf(i), (own.get(run.subGraphOf(i)) ?? 0) + weight);
    }
    for (const [operator, own] of counts) {
      this.subGraphOf[operator] = [...own].sort((a, b) => b[1] - a[1] || a[0] - b[0])[0][0];
    }
  }

  draw(changed: ReadonlySet<keyof State>): void {
    if (changed.size === 2 && changed.has("from") && changed.has("to")) return; // it shows no time
    if (!this.surface.fit(this.height)) return;
    if (!this.fitted) {
      this.fit();
      if (this.view.scale < READABLE / 2) this.showTop();
    }
    if (changed.has("selected")) this.follow();
    this.paint();
  }

  private arrange(): void {
    const { header } = this.page.run;
    const groups = new Map<number, number[]>(); // operators by sub-graph, in the order of the first; -1 - n for none
    header.graph.operators.forEach((_, operator) => {
      const key = this.subGraphOf[operator] < 0 ? -1 - operator : this.subGraphOf[operator];
      const own = groups.get(key) ?? [];
      own.push(operator);
      groups.set(key, own);
    });
    const tensorEdges = this.operatorEdges();
    const edgesIn = new Map<number, number[]>(); // numbers of edges, of sub-graphs
    for (const [number, [from, to]] of tensorEdges.entries()) {
      const key = this.subGraphOf[from];
      if (key < 0 || key !== this.subGraphOf[to]) continue;
      const own = edgesIn.get(key) ?? [];
      own.push(number);
      edgesIn.set(key, own);
    }
    const pieces = header.sub_graphs.map(() => new Set<number>());
    for (const kernel of header.program.kernels) pieces[kernel.sub_graph].add(kernel.instance);
    const nodeOf = new Map<number, Drawn>(); // of operators, those of folded sub-graphs too
    const outer: Drawn[] = [];
    const inner: [Drawn, Drawn[], Pass[]][] = [];
    const ways: Pass[][] = tensorEdges.map(() => []);
    const place = new Map<number, number>(); // of operators, in `outer`
    for (const [key, operators] of groups) {
      for (const operator of operators) place.set(operator, outer.length);
      // A sub-graph of one operator is drawn as that.
      if (key < 0 || operators.length === 1) {
        const node = this.operatorNode(operators[0]);
        outer.push(node);
        nodeOf.set(operators[0], node);
        continue;
      }
      const node = this.subGraphNode(key, operators.length, pieces[key].size);
      outer.push(node);
      if (!node.open) {
        for (const operator of operators) nodeOf.set(operator, node);
        continue;
      }
      const nodes = operators.map((operator) => this.operatorNode(operator));
      operators.forEach((operator, at) => {
        nodeOf.set(operator, nodes[at]);
      });
      const at = new Map(operators.map((operator, index) => [operator, index]));
      const own = edgesIn.get(key) ?? [];
      const within = own.map((number): Edge => [at.get(tensorEdges[number][0])!, at.get(tensorEdges[number][1])!]);
      const layout = layered(nodes, within);
      node.width = Math.max(WIDE, layout.width + 2 * PAD);
      node.height = layout.height + HEAD + PAD;
      own.forEach((number, index) => {
        ways[number] = layout.ways[index];
      });
      inner.push([node, nodes, layout.ways.flat()]);
    }
    const layout = layered(
      outer,
      tensorEdges.map(([from, to]): Edge => [place.get(from)!, place.get(to)!]),
    );
    this.size = layout;
    for (const [node, nodes, passes] of inner) {
      const [x, y] = [node.x - node.width / 2 + PAD, node.y - node.height / 2 + HEAD];
      for (const each of nodes) {
        each.x += x;
        each.y += y;
      }
      for (const pass of passes) {
        pass.x += x;
        pass.top += y;
        pass.bottom += y;
      }
    }
    this.height = Math.min(HIGHEST, Math.max(LOWEST, this.size.height + 40));
    this.drawn = [...outer, ...inner.flatMap(([, nodes]) => nodes)];
    const pairs = new Map<Drawn, Map<Drawn, Pass[]>>();
    for (const [number, [from, to]] of tensorEdges.entries()) {
      const [a, b] = [nodeOf.get(from)!, nodeOf.get(to)!];
      const apart = place.get(from) !== place.get(to);
      if (a !== b) pairs.set(a, (pairs.get(a) ?? new Map()).set(b, apart ? layout.ways[number] : ways[number]));
    }
    this.arrows = [...pairs].flatMap(([from, targets]) => [...targets].map(([to, way]) => ({ from, to, way })));
  }

  /** From every writer of a tensor to every reader. */
  private operatorEdges(): Edge[] {
    const { operators } = this.page.run.header.graph;
    const writers = new Map<number, number[]>();
    operators.forEach((operator, number) => {
      for (const tensor of operator.writes) writers.set(tensor, [...(writers.get(tensor) ?? []), number]);
    });
    return operators.flatMap((operator, number) =>
      operator.reads.flatMap((tensor) => (writers.get(tensor) ?? []).map((from): Edge => [from, number])),
    );
  }

  private operatorNode(number: number): Drawn {
    const { header } = this.page.run;
    const { name, kind } = header.graph.operators[number];
    const lines = [kind, ...worked(header.work.operators[number])];
    return { kind: "operator", number, open: false, name, lines, width: WIDE, height: HIGH, x: 0, y: 0 };
  }

  private subGraphNode(number: number, operators: number, pieces: number): Drawn {
    const { header } = this.page.run;
    const open = this.open.has(number);
    const lines = [
      `${counted(operators, "operator")}, ${counted(pieces, "instance")}`,
      ...worked(header.work.sub_graphs[number]),
    ];
    const name = `sub-graph ${header.sub_graphs[number]}`;
    return { kind: "sub-graph", number, open, name, lines, width: WIDE, height: HIGH, x: 0, y: 0 };
  }

  private foldAll(folded: boolean): void {
    this.open = new Set(folded ? [] : this.page.run.header.sub_graphs.keys());
    this.arrange();
    this.fit();
    if (!folded && this.view.scale < READABLE) this.showTop();
  }

  private toggle(number: number): void {
    if (!this.open.delete(number)) this.open.add(number);
    const before = this.drawn.find((node) => node.kind === "sub-graph" && node.number === number);
    this.arrange();
    const after = this.drawn.find((node) => node.kind === "sub-graph" && node.number === number);
    if (before !== undefined && after !== undefined) {
      // Its upper edge stays where it was.
      this.view.x += after.x - before.x;
      this.view.y += after.y - after.height / 2 - (before.y - before.height / 2);
    }
    this.redraw();
  }

  private fit(): void {
    const { width, height } = this.size;
    const whole = Math.min((this.surface.width - 20) / width, (this.height - 20) / height, 1);
    const scale = Math.max(whole, 0.02);
    this.view = { scale, x: width / 2 - this.surface.width / 2 / scale, y: height / 2 - this.height / 2 / scale };
    this.fitted = this.surface.width > 0;
    this.redraw();
  }

  /** The beginning of a network that is too large to be read as a whole. */
  private showTop(): void {
    const shut = this.drawn.filter((node) => !node.open);
    const seen = this.surface.width / READABLE;
    const first = shut.reduce((one, other) => (other.y < one.y ? other : one), shut[0]);
    const middle = seen < this.size.width ? first.x : this.size.width / 2;
    this.view = { scale: READABLE, x: middle - seen / 2, y: -10 };
    this.redraw();
  }

  private redraw(): void {
    if (this.surface.fit(this.height)) this.paint();
  }

  private zoom(factor: number, x: number, y: number): void {
    const { view } = this;
    const scale = Math.min(2, Math.max(0.02, view.scale * factor));
    view.x += x / view.scale - x / scale;
    view.y += y / view.scale - y / scale;
    view.scale = scale;
    this.redraw();
  }

  private attach(): void {
    const { canvas } = this.surface;
    let held: { x: number; y: number } | null = null;
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      held = { x: event.clientX, y: event.clientY };
      moved = 0;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null) {
        this.hover(event);
        return;
      }
      moved += Math.abs(event.clientX - held.x) + Math.abs(event.clientY - held.y);
      this.view.x -= (event.clientX - held.x) / this.view.scale;
      this.view.y -= (event.clientY - held.y) / this.view.scale;
      held = { x: event.clientX, y: event.clientY };
      this.redraw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (held !== null && moved <= CLICK) this.click(event);
      held = null;
    });
    canvas.addEventListener("pointercancel", () => {
      held = null;
    });
    canvas.addEventListener("pointerleave", () => this.page.tip.hide());
    canvas.addEventListener("dblclick", (event) => {
      const node = this.under(event);
      if (node?.kind === "sub-graph") this.toggle(node.number);
    });
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 300), ...this.surface.place(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 60 / this.view.scale;
    const { selected } = this.page.state;
    if (event.key === "w" || event.key === "ArrowUp") this.view.y -= step;
    else if (event.key === "s" || event.key === "ArrowDown") this.view.y += step;
    else if (event.key === "a" || event.key === "ArrowLeft") this.view.x -= step;
    else if (event.key === "d" || event.key === "ArrowRight") this.view.x += step;
    else if (event.key === "+") this.zoom(1.25, this.surface.width / 2, this.height / 2);
    else if (event.key === "-") this.zoom(0.8, this.surface.width / 2, this.height / 2);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && selected?.kind === "sub-graph") this.toggle(selected.number);
    else return;
    event.preventDefault();
    this.redraw();
  }

  /** Bring into view what has been selected elsewhere; an operator of a folded sub-graph is shown by that. */
  private follow(): void {
    const { selected } = this.page.state;
    if (selected === null) return;
    let number = selected.number;
    let kind: Kind = selected.kind;
    if (kind === "operator" && !this.open.has(this.subGraphOf[number]) && this.subGraphOf[number] >= 0) {
      [kind, number] = ["sub-graph", this.subGraphOf[number]];
    }
    const node =
      this.drawn.find((each) => each.kind === kind && each.number === number) ??
      this.drawn.find((each) => each.kind === selected.kind && each.number === selected.number);
    if (node === undefined) return;
    const { view, surface } = this;
    const x = (node.x - view.x) * view.scale;
    const y = (node.y - Math.min(node.height, this.height / view.scale) / 2 - view.y) * view.scale;
    if (x > 0 && x < surface.width && y > 0 && y < this.height && view.scale > 0.4) return;
    view.scale = Math.max(view.scale, 0.7);
    view.x = node.x - surface.width / 2 / view.scale;
    view.y = node.y - Math.min(node.height / 2, this.height / 2 / view.scale - 20) - this.height / 3 / view.scale;
  }

  private under(event: MouseEvent): Drawn | null {
    const [px, py] = this.surface.place(event);
    const x = px / this.view.scale + this.view.x;
    const y = py / this.view.scale + this.view.y;
    let found: Drawn | null = null;
    for (const node of this.drawn) {
      if (Math.abs(x - node.x) <= node.width / 2 && Math.abs(y - node.y) <= node.height / 2) found = node;
    }
    return found;
  }

  private click(event: MouseEvent): void {
    const node = this.under(event);
    this.page.select(node === null ? null : { kind: node.kind, number: node.number });
  }

  private hover(event: MouseEvent): void {
    const node = this.under(event);
    if (node === null) this.page.tip.hide();
    else this.page.tip.show(event, [node.name, ...node.lines]);
  }

  private paint(): void {
    const { page, surface, view } = this;
    const { context } = surface;
    context.clearRect(0, 0, surface.width, this.height);
    context.save();
    context.scale(view.scale, view.scale);
    context.translate(-view.x, -view.y);
    const [right, bottom] = [view.x + surface.width / view.scale, view.y + this.height / view.scale];
    const seen = this.drawn.filter(
      (node) =>
        node.x + node.width / 2 > view.x &&
        node.x - node.width / 2 < right &&
        node.y + node.height / 2 > view.y &&
        node.y - node.height / 2 < bottom,
    );
    const named = seen.length <= MOST_NAMED && view.scale > 0.3;
    for (const node of seen) if (node.open) this.box(node, named);
    context.strokeStyle = page.theme.faint;
    context.lineWidth = Math.max(1, 0.8 / view.scale);
    context.beginPath();
    for (const arrow of this.arrows) this.arrow(arrow, view.y, bottom);
    context.stroke();
    for (const node of seen) if (!node.open) this.box(node, named);
    context.restore();
  }

  /** A tensor from its writer to its reader, if any of it lies between two heights. */
  private arrow({ from, to, way }: Arrow, above: number, below: number): void {
    const { context } = this.surface;
    let [x, y] = [from.x, from.y + from.height / 2];
    const end = to.y - to.height / 2;
    if (Math.min(y, end) > below || Math.max(y, end) < above) return;
    context.moveTo(x, y);
    const down = (toX: number, toY: number) => {
      const bend = Math.max(12, Math.abs(toY - y) / 3);
      context.bezierCurveTo(x, y + bend, toX, toY - bend, toX, toY);
      [x, y] = [toX, toY];
    };
    for (const pass of way) {
      down(pass.x, pass.top);
      context.lineTo(pass.x, pass.bottom);
      y = pass.bottom;
    }
    down(to.x, end);
    context.moveTo(to.x - 4, end - 7);
    context.lineTo(to.x, end);
    context.lineTo(to.x + 4, end - 7);
  }

  private box(node: Drawn, named: boolean): void {
    const { context } = this.surface;
    const { theme, marks, state } = this.page;
    const marked = node.kind === "operator" ? marks?.operators[node.number] : marks?.subGraphs[node.number];
    const own = state.selected?.kind === node.kind && state.selected.number === node.number;
    const rgb = this.colourOf(node);
    const [left, top] = [node.x - node.width / 2, node.y - node.height / 2];
    context.fillStyle = css(mixed(rgb, theme.background, node.open ? 0.9 : marks !== null && !marked ? 0.88 : 0.55));
    context.strokeStyle = own || marked ? theme.accent : css(rgb);
    context.lineWidth = (own ? 4 : marked ? 2.5 : 1.2) / Math.min(1, Math.max(0.25, this.view.scale));
    context.beginPath();
    context.roundRect(left, top, node.width, node.height, 5);
    context.fill();
    context.stroke();
    if (!named) return;
    context.textBaseline = "top";
    context.fillStyle = theme.ink;
    context.font = "bold 11px sans-serif";
    context.fillText(shortened(node.name, node.width - 10), left + 6, top + 4);
    context.font = "10px sans-serif";
    context.fillStyle = theme.ink;
    const [first, ...rest] = node.lines;
    context.fillText(clipped(first, node.width), left + 6, top + 18);
    context.fillText(rest.join(" · "), left + 6, top + 31);
  }

  private colourOf(node: Drawn): Rgb {
    const { colouring } = this.page.state;
    if (node.kind === "sub-graph") return colour(colouring === "sub-graph" ? colourIndex(node.number) : 0);
    const number =
      colouring === "operator" ? node.number : colouring === "sub-graph" ? this.subGraphOf[node.number] : -1;
    return colour(colourIndex(number));
  }
}

function worked(work: Work | undefined): string[] {
  if (work === undefined || work.instructions === 0) return ["no instructions"];
  return [cycles(work.occupied_cycles), bytes(work.ddr_bytes), counted(work.cores, "core")];
}
