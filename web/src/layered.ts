// A graph in layers from top to bottom: each node below all that it comes after (Sugiyama's method, its simplest form).
//
// Layers are longest paths; nodes of a layer are ordered by the mean place of their neighbours, in a few sweeps down and
// up; then each is moved towards that mean as far as its neighbours in the layer leave room. The edges of a node that
// lead beyond the next layer share a chain of thin nodes, one in each layer on the way, so that they pass beside boxes.

export interface Node {
  width: number;
  height: number;
  x: number; // of the centre; set by the layout
  y: number;
}

export type Edge = readonly [from: number, to: number]; // `from` before `to` in the list of nodes

/** Where an edge passes through a layer between its ends: straight down. */
export interface Pass {
  x: number;
  top: number;
  bottom: number;
}

export interface Layout {
  width: number;
  height: number;
  ways: Pass[][]; // of each edge, from top to bottom
}

const SWEEPS = 6;
const [ACROSS, DOWN] = [22, 34]; // pixels between nodes of a layer, and between layers
const THIN = 6; // pixels of a long edge
const PULL = 0.1; // to the middle, without which a deep graph drifts sideways
const MOST_THIN = 20_000; // nodes that stand for long edges; with more of them, edges are drawn straight

/** Give nodes their places; the result has the size of all and the ways of edges. */
export function layered(nodes: Node[], edges: readonly Edge[]): Layout {
  const layerOf = layersOf(nodes.length, edges);
  const chains = chainsOf(layerOf, edges);
  const all: Node[] = [...nodes];
  const layers: number[][] = [];
  const add = (node: number, layer: number) => {
    layers[layer] ??= [];
    layers[layer].push(node);
  };
  nodes.forEach((_, node) => {
    add(node, layerOf[node]);
  });
  chains.forEach((chain, from) => {
    chain.forEach((node, at) => {
      all[node] = { width: THIN, height: 0, x: 0, y: 0 };
      add(node, layerOf[from] + 1 + at);
    });
  });
  const above: number[][] = all.map(() => []);
  const below: number[][] = all.map(() => []);
  const link = (from: number, to: number) => {
    above[to].push(from);
    below[from].push(to);
  };
  chains.forEach((chain, from) => {
    chain.forEach((node, at) => {
      link(at === 0 ? from : chain[at - 1], node);
    });
  });
  const long = ([from, to]: Edge) => chains[from].slice(0, Math.max(0, layerOf[to] - layerOf[from] - 1));
  for (const edge of edges) {
    if (edge[0] < edge[1]) link(long(edge).at(-1) ?? edge[0], edge[1]);
  }
  const place = new Float64Array(all.length);
  for (const layer of layers) spread(all, layer, place, null);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wanted = (node: number) => (1 - PULL) * mean(down ? above[node] : below[node], place, place[node]);
      layer.sort((a, b) => wanted(a) - wanted(b) || a - b);
      spread(all, layer, place, wanted);
    }
  }
  const left = all.reduce((least, node, at) => Math.min(least, place[at] - node.width / 2), Number.POSITIVE_INFINITY);
  let [width, y] = [0, 0];
  for (const layer of layers) {
    const height = Math.max(...layer.map((node) => all[node].height));
    for (const number of layer) {
      const node = all[number];
      node.x = place[number] - left;
      node.y = y + height / 2;
      if (number >= nodes.length) node.height = height;
      width = Math.max(width, node.x + node.width / 2);
    }
    y += height + DOWN;
  }
  const pass = (number: number): Pass => {
    const node = all[number];
    return { x: node.x, top: node.y - node.height / 2, bottom: node.y + node.height / 2 };
  };
  return { width, height: Math.max(0, y - DOWN), ways: edges.map((edge) => long(edge).map(pass)) };
}

/** Of every node, the length of the longest path to it; in the order in which nodes run, no edge leads back. */
function layersOf(count: number, edges: readonly Edge[]): Int32Array {
  const above: number[][] = Array.from({ length: count }, () => []);
  for (const [from, to] of edges) if (from < to) above[to].push(from);
  const found = new Int32Array(count);
  for (let node = 0; node < count; node++) {
    for (const from of above[node]) found[node] = Math.max(found[node], found[from] + 1);
  }
  return found;
}

/** Of every node, the numbers of the thin nodes below it, one in each layer as far as its longest edge passes. */
function chainsOf(layerOf: Int32Array, edges: readonly Edge[]): number[][] {
  const spans = new Int32Array(layerOf.length);
  for (const [from, to] of edges) spans[from] = Math.max(spans[from], layerOf[to] - layerOf[from] - 1);
  if (spans.reduce((sum, span) => sum + span, 0) > MOST_THIN) spans.fill(0);
  let next = layerOf.length;
  return Array.from(spans, (span) => Array.from({ length: span }, () => next++));
}

function mean(numbers: number[], place: Float64Array, own: number): number {
  if (numbers.length === 0) return own;
  let sum = 0;
  for (const number of numbers) sum += place[number];
  return sum / numbers.length;
}

/** Put the nodes of a layer, which are in order, where they want to be, without overlap, and so that the mean is right. */
function spread(nodes: Node[], layer: number[], place: Float64Array, wanted: ((node: number) => number) | null): void {
  const goals = layer.map((node) => (wanted === null ? 0 : wanted(node)));
  let before = Number.NEGATIVE_INFINITY;
  let shift = 0;
  layer.forEach((node, at) => {
    const half = nodes[node].width / 2;
    const least = before === Number.NEGATIVE_INFINITY ? goals[at] : before + ACROSS + half;
    place[node] = Math.max(goals[at], least);
    before = place[node] + half;
    shift += place[node] - goals[at];
  });
  for (const node of layer) place[node] -= shift / layer.length;
}
