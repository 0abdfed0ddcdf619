// A graph in layers from top to bottom: each node below all that it comes after (Sugiyama's method, its simplest form).
//
// Layers are longest paths; nodes of a layer are ordered by the mean place of their neighbours, in a few sweeps down and
// up; then each is moved towards that mean as far as its neighbours in the layer leave room.

export interface Node {
  width: number;
  height: number;
  x: number; // of the centre; set by the layout
  y: number;
}

export type Edge = readonly [from: number, to: number]; // `from` before `to` in the list of nodes

const SWEEPS = 6;
const [ACROSS, DOWN] = [22, 34]; // pixels between nodes of a layer, and between layers

/** Give nodes their places; the result's width and height. */
export function layered(nodes: Node[], edges: readonly Edge[]): { width: number; height: number } {
  const above: number[][] = nodes.map(() => []);
  const below: number[][] = nodes.map(() => []);
  for (const [from, to] of edges) {
    if (from >= to) continue; // in the order in which they run, no edge leads back
    above[to].push(from);
    below[from].push(to);
  }
  const layerOf = new Int32Array(nodes.length);
  const layers: number[][] = [];
  for (let node = 0; node < nodes.length; node++) {
    for (const from of above[node]) layerOf[node] = Math.max(layerOf[node], layerOf[from] + 1);
    layers[layerOf[node]] ??= [];
    layers[layerOf[node]].push(node);
  }
  const place = new Float64Array(nodes.length);
  for (const layer of layers) spread(nodes, layer, place, null);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      const wanted = (node: number) => mean(down ? above[node] : below[node], place, place[node]);
      layer.sort((a, b) => wanted(a) - wanted(b) || a - b);
      spread(nodes, layer, place, wanted);
    }
  }
  const left = nodes.reduce((least, node, at) => Math.min(least, place[at] - node.width / 2), Number.POSITIVE_INFINITY);
  let [width, y] = [0, 0];
  for (const layer of layers) {
    const height = Math.max(...layer.map((node) => nodes[node].height));
    for (const number of layer) {
      const node = nodes[number];
      node.x = place[number] - left;
      node.y = y + height / 2;
      width = Math.max(width, node.x + node.width / 2);
    }
    y += height + DOWN;
  }
  return { width, height: Math.max(0, y - DOWN) };
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
