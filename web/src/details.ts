// What is selected, in words: an instruction with what it waited for, a buffer with what lay there before, a part.

import { button, element, table } from "./dom";
import { address, bytes, count, cycles, percent, scaled, seconds } from "./format";
import { before, comesAgain } from "./occupants";
import type { Page, Pane } from "./pane";
import { criticalPath, type Run, type Work } from "./run";
import type { Selection } from "./selection";
import { showAround } from "./time";

const MOST_ROWS = 16;

type Child = Node | string;

/** What a table leaves out. */
function more(all: number): Child[] {
  return all > MOST_ROWS ? [element("p", { class: "note" }, `and ${count(all - MOST_ROWS)} more`)] : [];
}

export class Details implements Pane {
  readonly element = element("aside", { id: "details", "aria-live": "polite", "aria-label": "Selection" });

  constructor(private readonly page: Page) {}

  load(): void {}

  draw(changed: ReadonlySet<string>): void {
    if (!changed.has("selected") && !changed.has("strategy")) return;
    const { selected } = this.page.state;
    this.element.replaceChildren(element("h2", {}, "Selection"));
    if (selected === null) {
      this.element.append(
        element(
          "p",
          { class: "note" },
          "Nothing is selected. Click an instruction, a buffer, an operator or a point, or find one by its name " +
            "above. What is selected is shown in every pane.",
        ),
      );
      return;
    }
    const close = button("×", "Select nothing (Escape)", () => this.page.select(null));
    close.className = "close";
    this.element.append(close, ...this.about(selected));
  }

  private about(selected: Selection): Child[] {
    const { run } = this.page;
    if (selected.kind === "instruction") return this.instruction(selected.number);
    if (selected.kind === "buffer") return this.buffer(selected.number);
    const { work, graph, sub_graphs, instances } = run.header;
    if (selected.kind === "operator") {
      const operator = graph.operators[selected.number];
      const parts = this.partsOf((i) => run.operator[i] === selected.number);
      return [
        element("h3", {}, `operator ${operator.name}`),
        element("p", {}, operator.kind),
        ...this.work(work.operators[selected.number]),
        ...this.instances(parts),
        element("h3", {}, "Tensors"),
        table(
          ["tensor", "shape", "bytes"],
          [
            ...operator.reads.map((number) => this.tensor(number, "reads")),
            ...operator.writes.map((number) => this.tensor(number, "writes")),
          ],
        ),
      ];
    }
    if (selected.kind === "sub-graph") {
      const parts = this.partsOf((i) => run.subGraphOf(i) === selected.number);
      return [
        element("h3", {}, `sub-graph ${sub_graphs[selected.number]}`),
        ...this.work(work.sub_graphs[selected.number]),
        ...this.instances(parts),
      ];
    }
    return [element("h3", {}, `instance ${instances[selected.number]}`), ...this.work(work.instances[selected.number])];
  }

  private tensor(number: number, verb: string): Child[] {
    const tensor = this.page.run.header.graph.tensors[number];
    return [`${verb} ${tensor.name}`, `${tensor.shape.join(" x ")} ${tensor.dtype}`, bytes(tensor.size_bytes)];
  }

  /** The instances of instructions, in the order of their first one. */
  private partsOf(belongs: (instruction: number) => boolean): number[] {
    const { run } = this.page;
    const found = new Set<number>();
    for (let i = 0; i < run.length; i++) if (belongs(i)) found.add(run.instanceOf(i));
    return [...found];
  }

  private instances(numbers: number[]): Child[] {
    const names = this.page.run.header.instances;
    const shown = numbers.slice(0, MOST_ROWS).map((number) => this.link({ kind: "instance", number }, names[number]));
    const more = numbers.length > MOST_ROWS ? [` and ${count(numbers.length - MOST_ROWS)} more`] : [];
    return [element("h3", {}, "Instances"), element("p", { class: "links" }, ...shown, ...more)];
  }

  private work(work: Work | undefined): Child[] {
    const { run } = this.page;
    if (work === undefined || work.instructions === 0) return [element("p", {}, "It has no instructions.")];
    const share = work.occupied_cycles / run.duration;
    const rows: Child[][] = [
      ["time in which any of it runs", `${this.time(work.occupied_cycles)}, ${percent(share)} of the run`],
      ["multiply-accumulates", scaled(work.macs)],
      ["vector operations", scaled(work.vector_operations)],
      ["DDR traffic", bytes(work.ddr_bytes)],
      ["GB traffic", bytes(work.gb_bytes)],
      ["cores at work", count(work.cores)],
      ["instructions", count(work.instructions)],
    ];
    return [element("h3", {}, "Simulated, in the first batch"), table([], rows, "work")];
  }

  private time(value: number): string {
    return `${seconds(this.page.run.secondsOf(value))} (${cycles(value)})`;
  }

  private link(selected: Selection, text: string): HTMLElement {
    return button(text, `Select ${selected.kind} ${text}`, () => this.page.select(selected));
  }

  private instruction(i: number): Child[] {
    const { run } = this.page;
    const { kinds, kernels } = run.header.program;
    const kernel = kernels[run.kernel[i]];
    const rows: Child[][] = [
      ["engine", run.engineName(i)],
      ["start", this.time(run.start[i])],
      ["end", this.time(run.end[i])],
      ["takes", this.time(run.end[i] - run.start[i])],
    ];
    if (run.bytes[i] > 0) rows.push(["moves", `${bytes(run.bytes[i])} after ${cycles(run.ownCycles[i])} of set-up`]);
    const operator = run.operator[i];
    if (operator >= 0) {
      const verb = kinds[run.kind[i]] === "copy" ? "for operator" : "operator";
      rows.push([verb, this.link({ kind: "operator", number: operator }, run.operatorName(operator))]);
    }
    if (run.box[i] >= 0) rows.push(["tile", run.regionText(run.box[i])]);
    const subGraph = { kind: "sub-graph", number: kernel.sub_graph } as const;
    const instance = { kind: "instance", number: kernel.instance } as const;
    rows.push(["sub-graph", this.link(subGraph, run.header.sub_graphs[kernel.sub_graph])]);
    rows.push(["instance", this.link(instance, run.header.instances[kernel.instance])]);
    rows.push(["kernel, iteration", `${kernel.name}, ${count(run.iteration[i])}`]);
    return [
      element("h3", {}, `instruction ${i}: ${kinds[run.kind[i]]} ${run.nameOf(i)}`),
      table([], rows, "instruction"),
      button("zoom to it", "Show it and its neighbours", () => showAround(this.page, run.start[i], run.end[i])),
      ...this.idle(i),
      ...this.waited(i),
      ...this.waiting(i),
      ...this.operands(i),
      ...this.path(i),
    ];
  }

  /** The idle time of its engine before it, and what that went to. */
  private idle(i: number): Child[] {
    const { run } = this.page;
    const { start, end, cause, waitedFor } = run.idle;
    const found = run.idle.before(run.engine[i], i);
    if (found.length === 0) return [];
    const rows = found
      .slice(0, MOST_ROWS)
      .map((at) => [
        this.link({ kind: "instruction", number: waitedFor[at] }, `${waitedFor[at]}`),
        `${run.engineName(waitedFor[at])} ${run.nameOf(waitedFor[at])}`,
        count(end[at] - start[at]),
        run.header.causes[cause[at]],
      ]);
    const heads = ["instruction", "what ran", "idle cycles", "cause"];
    return [element("h3", {}, "Idle before it"), table(heads, rows, "idle"), ...more(found.length)];
  }

  private waited(i: number): Child[] {
    const { run } = this.page;
    const found = [...new Set([...run.waitsOf(i), run.previous[i]])].filter((wait) => wait >= 0);
    found.sort((a, b) => run.end[b] - run.end[a] || a - b);
    const last = found.length > 0 ? run.end[found[0]] : 0;
    const rows = found
      .slice(0, MOST_ROWS)
      .map((wait) => [
        this.link({ kind: "instruction", number: wait }, `${wait}`),
        `${run.engineName(wait)} ${run.nameOf(wait)}`,
        count(run.end[wait]),
        wait === run.previous[i] ? "its engine was busy" : run.end[wait] === last ? "the last to end" : "",
      ]);
    const title = element("h3", {}, "What it waited for");
    if (found.length === 0) return [title, element("p", {}, "Nothing: it starts the run.")];
    return [title, table(["instruction", "what", "end (cycle)", ""], rows, "waited"), ...more(found.length)];
  }

  private waiting(i: number): Child[] {
    const { run } = this.page;
    const found = [...run.successors(i)].sort((a, b) => run.start[a] - run.start[b] || a - b);
    const rows = found
      .slice(0, MOST_ROWS)
      .map((after) => [
        this.link({ kind: "instruction", number: after }, `${after}`),
        `${run.engineName(after)} ${run.nameOf(after)}`,
        count(run.start[after]),
        run.start[after] === run.end[i] ? "it was the last" : "",
      ]);
    const title = element("h3", {}, `What waited for it: ${count(found.length)}`);
    if (found.length === 0) return [title];
    return [title, table(["instruction", "what", "start (cycle)", ""], rows, "waiting"), ...more(found.length)];
  }

  private operands(i: number): Child[] {
    const { run } = this.page;
    const modes = ["reads", "writes", "adds to"];
    const rows: Child[][] = [];
    for (let at = run.operandAt[i]; at < Math.min(run.operandAt[i + 1], run.operandAt[i] + MOST_ROWS); at++) {
      const buffer = run.operandBuffer[at];
      const place = `${run.header.program.spaces[run.buffers.space[buffer]].name} @ ${address(run.buffers.address[buffer])}`;
      const link = this.link({ kind: "buffer", number: buffer }, `${run.tensorName(buffer)} in ${place}`);
      rows.push([modes[run.operandMode[at]], link, run.regionText(run.operandRegion[at])]);
    }
    return rows.length === 0 ? [] : [element("h3", {}, "Operands"), table([], rows, "operands")];
  }

  /** Where the time until the end of an instruction went, along the waits that were critical. */
  private path(i: number): Child[] {
    const { run } = this.page;
    const path = criticalPath(run, i);
    const sums = new Map<string, number>();
    for (const each of path) {
      const kind = run.header.program.engines[run.engine[each]].kind;
      sums.set(kind, (sums.get(kind) ?? 0) + run.end[each] - run.start[each]);
    }
    const rows = [...sums]
      .sort((a, b) => b[1] - a[1])
      .map(([kind, sum]) => [kind, this.time(sum), percent(sum / Math.max(1, run.end[i]))]);
    return [
      element("h3", {}, `Critical path to its end: ${count(path.length)} instructions`),
      element("p", { class: "note" }, "Back from it, each time to what was waited for longest; the parts add up."),
      table(["engine", "time", "share"], rows, "path"),
    ];
  }

  private buffer(number: number): Child[] {
    const { run } = this.page;
    const { buffers } = run;
    const users = run.usersOf(number);
    const writers = [...users].filter((i) => !run.reads(i, number));
    const readers = [...users].filter((i) => run.reads(i, number));
    const row = (i: number) => [
      this.link({ kind: "instruction", number: i }, `${i}`),
      `${run.engineName(i)} ${run.header.program.kinds[run.kind[i]]} ${run.operatorName(run.operator[i])}`,
      count(run.end[i]),
    ];
    const facts = [
      ["memory", run.header.program.spaces[buffers.space[number]].name],
      ["address", address(buffers.address[number])],
      ["size", `${bytes(buffers.bytes[number])} (${count(buffers.bytes[number])} B)`],
      ["region", run.regionText(buffers.region[number])],
      ["from", this.time(buffers.first[number])],
      ["to", this.time(buffers.last[number])],
    ];
    const heads = ["instruction", "what", "end (cycle)"];
    return [
      element("h3", {}, `buffer ${number}: ${run.tensorName(number)}`),
      table([], facts, "buffer"),
      button("zoom to it", "Show its time", () => showAround(this.page, buffers.first[number], buffers.last[number])),
      ...this.occupants(run, number),
      element("h3", {}, `Written by ${count(writers.length)}`),
      table(heads, writers.slice(0, MOST_ROWS).map(row), "writers"),
      ...more(writers.length),
      element("h3", {}, `Read by ${count(readers.length)}`),
      table(heads, readers.slice(0, MOST_ROWS).map(row), "readers"),
      ...more(readers.length),
    ];
  }

  private occupants(run: Run, number: number): Child[] {
    const found = before(run, number);
    const rows = found.slice(0, MOST_ROWS).map((other) => {
      const again = comesAgain(run, other);
      const held = `${run.regionText(run.buffers.region[other])}, ${bytes(run.buffers.bytes[other])}`;
      return [
        element(
          "div",
          {},
          this.link({ kind: "buffer", number: other }, run.tensorName(other)),
          element("div", {}, held),
        ),
        count(run.buffers.last[other]),
        again < 0
          ? "not used again"
          : element(
              "span",
              {},
              "evicted: comes again as ",
              this.link({ kind: "buffer", number: again }, `buffer ${again}`),
            ),
      ];
    });
    const title = element("h3", {}, "Who made room for it");
    if (rows.length === 0) return [title, element("p", {}, "Nothing lay at its addresses before.")];
    return [title, table(["lay there before", "until (cycle)", "afterwards"], rows, "before"), ...more(found.length)];
  }
}
