// The live page: choose a network, change its schedule by hand, and see what each change costs.

import { colour, colourIndex, css } from "./colours";
import { button, element, scrolled, table } from "./dom";
import { bytes, count, counted, cycles, energy, fixed, percent, seconds } from "./format";

interface Choice {
  name: string;
  about: string;
}

interface Choices {
  networks: Choice[];
  machines: Choice[];
  strategies: Choice[];
  folder: string;
}

interface Group {
  name: string;
  operators: string[];
  kernels: string[];
  axis: number;
  pieces: number;
  besides: string;
  extents: number[];
}

interface Piece {
  name: string;
  group: number;
  scope: string | null;
  stays: string[];
}

interface Answer {
  key: number;
  network: string;
  strategy: string;
  batch: number;
  batch_per_iteration: number;
  latency_cycles: number;
  latency_seconds: number;
  bound_cycles: number;
  ddr_bytes: number;
  energy_pj: number;
  gap: { unit: string; cycles: number; parts: { part: string; cycles: number; meaning: string }[] };
  notes: string[];
  not_editable: string | null;
  groups?: Group[];
  order?: Piece[];
}

/** One entry of the history: what was done, and what came out. */
interface Step {
  what: string;
  answer: Answer;
  asked: string; // network, machine and batch; steps of another are not compared
}

type Edit = Record<string, string | number | boolean | null>;

const SCOPES: [string, string][] = [
  ["", "the order decides"],
  ["lb", "LB"],
  ["gb", "GB"],
  ["ddr", "DDR"],
];
const DIFFERENT = "different";

class Refused extends Error {
  constructor(
    message: string,
    readonly exists: boolean,
  ) {
    super(message);
  }
}

const token = document.querySelector<HTMLMetaElement>("meta[name='token']")!.content;

async function ask<T>(path: string, body?: unknown): Promise<T> {
  const headers: Record<string, string> = { "X-Tilestitch-Token": token };
  const init: RequestInit = { headers };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.method = "POST";
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Refused("The server does not answer; is tilestitch serve still running?", false);
  }
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as T;
  if (!response.headers.get("Content-Type")?.includes("json")) throw new Refused(text, false);
  const found = JSON.parse(text) as { error: string; exists?: boolean };
  throw new Refused(found.error, found.exists === true);
}

function chooser(id: string, label: string, options: [string, string][], chosen: string): HTMLSelectElement {
  const found = element("select", { id, "aria-label": label });
  found.append(...options.map(([value, text]) => element("option", { value }, text)));
  found.value = chosen;
  return found;
}

function labelled(text: string, field: HTMLElement): HTMLElement {
  return element("label", {}, `${text} `, field);
}

function figure(title: string, value: string, more: string, id: string): HTMLElement {
  return element(
    "div",
    { class: "figure", id },
    element("div", { class: "note" }, title),
    element("div", { class: "value" }, value),
    element("div", { class: "more" }, more),
  );
}

/** How much faster or slower one latency is than another. */
function change(now: number, before: number): [string, string] {
  if (now === before) return ["the same", "0 cycles"];
  const word = now < before ? "faster" : "slower";
  const sign = now < before ? "−" : "+";
  return [`${percent(Math.abs(now / before - 1))} ${word}`, `${sign}${cycles(Math.abs(now - before))}`];
}

class Live {
  private steps: Step[] = [];
  private at = -1;
  private busy = false;
  private readonly network = element("input", { id: "network", list: "networks", "aria-label": "Network" });
  private readonly machine = element("select", { id: "machine", "aria-label": "Machine" });
  private readonly strategy = element("select", { id: "strategy", "aria-label": "Strategy to begin with" });
  private readonly batch = element("input", {
    id: "batch",
    type: "number",
    min: "1",
    placeholder: "own",
    "aria-label": "Batch",
  });
  private readonly go = button("Compile", "Compile the network by the strategy", () => void this.start());
  private readonly status = element("p", { id: "status", role: "status" });
  private readonly fault = element("p", { id: "fault", role: "alert" });
  private readonly price = element("section", { id: "price" });
  private readonly groups = element("section", { id: "groups" });
  private readonly order = element("section", { id: "order" });
  private readonly history = element("section", { id: "history" });
  private readonly save = element("section", { id: "save" });
  private readonly frame = element("iframe", { title: "The page of this schedule", sandbox: "allow-scripts" });
  private readonly link = element("a", { target: "_blank", rel: "noopener" }, "in a tab of its own");
  private readonly whole = element("details", { id: "whole" });
  private readonly name = element("input", { id: "file", "aria-label": "Name of the file", spellcheck: "false" });
  private readonly saved = element("div", { id: "saved", role: "status" });

  constructor(choices: Choices) {
    const list = element("datalist", { id: "networks" });
    list.append(...choices.networks.map((one) => element("option", { value: one.name }, one.about)));
    this.network.value = choices.networks.find((one) => one.name === "resnet18:small")!.name;
    for (const [field, options] of [
      [this.machine, choices.machines],
      [this.strategy, choices.strategies],
    ] as const) {
      field.append(...options.map((one) => element("option", { value: one.name, title: one.about }, one.name)));
    }
    this.machine.value = "stcp920";
    this.strategy.value = "graphturbo";
    for (const field of [this.network, this.batch]) {
      field.addEventListener("keydown", (event) => {
        if (event.key === "Enter") void this.start();
      });
    }
    const header = element(
      "header",
      {},
      element("h1", {}, "Tilestitch: a schedule by hand"),
      labelled("network", this.network),
      list,
      labelled("machine", this.machine),
      labelled("batch", this.batch),
      labelled("begin with", this.strategy),
      this.go,
    );
    this.whole.append(
      element("summary", {}, "Timeline, memories, graph and roofline of this schedule"),
      this.link,
      this.frame,
    );
    this.whole.addEventListener("toggle", () => this.showWhole());
    const say = element("div", { class: "say" }, this.status, this.fault);
    const side = element("div", { class: "side" }, this.history, this.save);
    const main = element("main", {}, say, this.price, this.groups, this.order);
    document.body.append(header, element("div", { class: "page" }, main, side), this.whole);
    for (const hidden of [this.price, this.groups, this.order, this.history, this.save, this.whole])
      hidden.hidden = true;
    this.status.textContent = `Networks and machines of ${choices.folder}, and those that are built in.`;
    document.addEventListener("keydown", (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.target instanceof HTMLInputElement) return;
      const key = event.key.toLowerCase();
      if (key !== "z" && key !== "y") return;
      event.preventDefault();
      this.back(key === "y" || event.shiftKey ? 1 : -1);
    });
  }

  private async start(): Promise<void> {
    const [network, machine, strategy] = [this.network.value.trim(), this.machine.value, this.strategy.value];
    const batch = this.batch.value === "" ? null : Number(this.batch.value);
    const asked = JSON.stringify([network, machine, batch]);
    await this.compile({ network, machine, batch, strategy }, `strategy ${strategy}`, asked);
  }

  private async edit(what: string, edit: Edit): Promise<void> {
    const { answer, asked } = this.steps[this.at];
    await this.compile({ key: answer.key, edit }, what, asked);
  }

  private async compile(body: unknown, what: string, asked: string): Promise<void> {
    if (this.busy) return;
    this.wait(true);
    this.fault.textContent = "";
    this.status.textContent = "compiling …";
    const start = performance.now();
    try {
      const answer = await ask<Answer>("compile", body);
      const same = this.at >= 0 && this.steps[this.at].asked === asked;
      this.steps = same ? this.steps.slice(0, this.at + 1) : [];
      this.steps.push({ what, answer, asked });
      this.at = this.steps.length - 1;
      this.status.textContent = `${what}: compiled in ${fixed((performance.now() - start) / 1000, 2)} s`;
    } catch (error) {
      this.status.textContent = "";
      this.fault.textContent = `${what}: ${error instanceof Error ? error.message : String(error)}`;
    }
    this.wait(false);
    this.draw();
  }

  private wait(busy: boolean): void {
    this.busy = busy;
    this.go.disabled = busy;
    document.body.setAttribute("aria-busy", String(busy));
  }

  private back(steps: number): void {
    const to = this.at + steps;
    if (this.busy || to < 0 || to >= this.steps.length) return;
    this.at = to;
    this.fault.textContent = "";
    this.status.textContent = `back at: ${this.steps[to].what}`;
    this.draw();
  }

  private draw(): void {
    if (this.at < 0) return;
    const focus = document.activeElement?.id ?? "";
    const { answer } = this.steps[this.at];
    for (const shown of [this.price, this.history, this.save, this.whole]) shown.hidden = false;
    this.drawPrice(answer);
    this.drawGroups(answer);
    this.drawOrder(answer);
    this.drawHistory();
    this.drawSave(answer);
    this.showWhole();
    if (focus !== "") document.getElementById(focus)?.focus({ preventScroll: true });
    document.documentElement.dataset.drawn = String(answer.key);
  }

  private drawPrice(answer: Answer): void {
    const latency = answer.latency_cycles;
    const compared: HTMLElement[] = [];
    for (const [name, id, at] of [
      ["against the step before", "change-before", this.at - 1],
      ["against the first", "change-first", 0],
    ] as const) {
      if (at < 0) continue;
      const [value, more] = change(latency, this.steps[at].answer.latency_cycles);
      compared.push(figure(name, value, `${more}; ${this.steps[at].what}`, id));
    }
    const figures = element(
      "div",
      { class: "figures" },
      figure("latency (simulated)", count(latency), `cycles, ${seconds(answer.latency_seconds)}`, "latency"),
      figure(
        "largest bound",
        count(answer.bound_cycles),
        `cycles; ${fixed(latency / answer.bound_cycles, 2)} x`,
        "bound",
      ),
      ...compared,
      figure("DDR traffic", bytes(answer.ddr_bytes), "of a cluster", "traffic"),
      figure("energy", energy(answer.energy_pj), "of a cluster", "energy"),
    );
    const parts = answer.gap.parts.map((one, at) => ({ ...one, rgb: css(colour(colourIndex(at))) }));
    const { unit } = answer.gap;
    const it = unit.startsWith("port") ? `the ${unit}` : `the mean of the ${unit}`;
    const positive = parts.filter((one) => one.cycles > 0);
    const bar = element("div", { class: "bar", "aria-hidden": "true" });
    for (const one of positive) {
      const piece = element("div", { title: `${one.part}: ${count(one.cycles)} cycles` });
      piece.style.background = one.rgb;
      piece.style.flexGrow = String(one.cycles);
      bar.append(piece);
    }
    const rows = [...parts]
      .sort((a, b) => b.cycles - a.cycles)
      .map((one) => {
        const swatch = element("span", { class: "swatch" });
        swatch.style.setProperty("--swatch", one.rgb);
        const share = answer.gap.cycles === 0 ? "" : percent(one.cycles / answer.gap.cycles);
        return [element("span", {}, swatch, one.part), count(one.cycles), share, one.meaning];
      });
    const title = `${answer.network}, batch ${count(answer.batch)}, ${this.steps[this.at].what}`;
    this.price.replaceChildren(
      element("h2", {}, title),
      figures,
      element("h3", {}, `Why not faster: ${cycles(Math.round(answer.gap.cycles))} beyond the bound`),
      bar,
      scrolled(table(["part", "cycles", "of the gap", `“it” is ${it}`], rows, "gap")),
      ...answer.notes.map((note) => element("p", { class: "note" }, note)),
    );
  }

  private drawGroups(answer: Answer): void {
    const { groups, order } = answer;
    this.groups.hidden = false;
    if (groups === undefined || order === undefined) {
      this.groups.replaceChildren(element("h2", {}, "Groups"), element("p", {}, answer.not_editable ?? ""));
      return;
    }
    const rows = groups.map((group, at) => this.groupRow(group, at, groups, order));
    const all = (name: string, text: string) =>
      this.tool(`order-${name}`, text, `Run all pieces ${text}`, `all pieces ${text}`, { kind: "order", order: name });
    this.groups.replaceChildren(
      element("h2", {}, `${counted(groups.length, "group")}, ${counted(order.length, "piece")}`),
      element("div", { class: "tools" }, all("depth_first", "depth first"), all("breadth_first", "breadth first")),
      element(
        "div",
        { class: "scroll tall" },
        table(
          ["", "operators", "border behind it", "split behind", "cut along", "pieces", "results wait in"],
          rows,
          "groups",
        ),
      ),
    );
  }

  private groupRow(group: Group, at: number, groups: Group[], order: Piece[]): (Node | string)[] {
    const { name, kernels, operators } = group;
    const last = at === groups.length - 1;
    const [first, end] = [operators[0], operators[operators.length - 1]];
    const of = `${counted(kernels.length, "kernel")}, ${counted(operators.length, "operator")}`;
    const names = element("div", { title: operators.join("\n") }, first === end ? first : `${first} … ${end}`);
    const what = element("div", { class: "names" }, names, element("div", { class: "note" }, of));
    const border = element("div", { class: "tools" });
    if (!last) {
      const next = groups[at + 1].name;
      const id = `g${at}`;
      border.append(
        this.tool(`${id}-earlier`, "◂", `${name} gives its last kernel to ${next}`, `border of ${name} earlier`, {
          kind: "border",
          group: at,
          later: false,
        }),
        this.tool(`${id}-later`, "▸", `${name} takes the first kernel of ${next}`, `border of ${name} later`, {
          kind: "border",
          group: at,
          later: true,
        }),
        this.tool(`${id}-merge`, "merge", `Make one group of ${name} and ${next}`, `${name} and ${next} merged`, {
          kind: "merge",
          group: at,
        }),
      );
    }
    return [
      name,
      what,
      border,
      this.splitter(group, at),
      this.axis(group, at),
      this.pieces(group, at),
      this.keepAll(group, at, order),
    ];
  }

  private tool(id: string, text: string, title: string, what: string, edit: Edit): HTMLButtonElement {
    const found = button(text, title, () => void this.edit(what, edit));
    found.id = id;
    found.setAttribute("aria-label", title);
    return found;
  }

  private splitter(group: Group, at: number): Node | string {
    if (group.kernels.length < 2) return "";
    const options = group.kernels.slice(0, -1).map((name, number): [string, string] => [String(number + 1), name]);
    const found = chooser(`g${at}-split`, `Split ${group.name} behind a kernel`, [["", "…"], ...options], "");
    found.addEventListener("change", () => {
      if (found.value === "") return;
      void this.edit(`${group.name} split`, { kind: "split", group: at, kernels: Number(found.value) });
    });
    return found;
  }

  private axis(group: Group, at: number): Node | string {
    const options = group.extents.map((extent, axis): [string, string] => [
      String(axis),
      `axis ${axis}: ${count(extent)}`,
    ]);
    const found = chooser(`g${at}-axis`, `Axis of ${group.name}`, options, String(group.axis));
    found.addEventListener("change", () => this.cut(group, at, Number(found.value), group.pieces));
    return found;
  }

  private pieces(group: Group, at: number): Node {
    const most = String(group.extents[group.axis] ?? 1);
    const found = element("input", {
      id: `g${at}-pieces`,
      type: "number",
      min: "1",
      max: most,
      value: String(group.pieces),
      "aria-label": `Pieces of ${group.name}`,
    });
    found.addEventListener("change", () => this.cut(group, at, group.axis, Math.round(Number(found.value))));
    return group.besides === "" ? found : element("span", {}, found, ` (${group.besides})`);
  }

  private cut(group: Group, at: number, axis: number, pieces: number): void {
    const what = `${group.name} in ${counted(pieces, "piece")} along axis ${axis}`;
    void this.edit(what, { kind: "cut", group: at, axis, pieces });
  }

  private keepAll(group: Group, at: number, order: Piece[]): Node {
    const scopes = new Set(order.filter((one) => one.group === at).map((one) => one.scope ?? ""));
    const same = scopes.size === 1;
    const options = same ? SCOPES : [[DIFFERENT, DIFFERENT] as [string, string], ...SCOPES];
    const found = chooser(
      `g${at}-keep`,
      `Where results of ${group.name} wait`,
      options,
      same ? [...scopes][0] : DIFFERENT,
    );
    found.addEventListener("change", () => {
      if (found.value === DIFFERENT) return;
      const scope = found.value === "" ? null : found.value;
      void this.edit(`results of ${group.name}: ${found.selectedOptions[0].text}`, {
        kind: "keep-all",
        group: at,
        scope,
      });
    });
    return found;
  }

  private drawOrder(answer: Answer): void {
    const { order } = answer;
    this.order.hidden = order === undefined;
    if (order === undefined) return;
    const top = this.order.querySelector(".tall")?.scrollTop ?? 0;
    const rows = order.map((piece, at) => {
      const move = element("div", { class: "tools" });
      for (const [text, later, word] of [
        ["▴", false, "earlier"],
        ["▾", true, "later"],
      ] as const) {
        if (at === (later ? order.length - 1 : 0)) continue;
        const id = `p${piece.name}-${word}`;
        move.append(
          this.tool(id, text, `Run ${piece.name} ${word}`, `${piece.name} ${word}`, { kind: "move", place: at, later }),
        );
      }
      const scope = chooser(`p${piece.name}-keep`, `Where results of ${piece.name} wait`, SCOPES, piece.scope ?? "");
      scope.addEventListener("change", () => {
        const value = scope.value === "" ? null : scope.value;
        void this.edit(`results of ${piece.name}: ${scope.selectedOptions[0].text}`, {
          kind: "keep",
          place: at,
          scope: value,
        });
      });
      return [String(at), piece.name, move, scope, piece.stays.map((one) => one.toUpperCase()).join(", ")];
    });
    const list = element(
      "div",
      { class: "scroll tall" },
      table(["", "piece", "run", "results wait in, at best", "they are in"], rows, "order"),
    );
    this.order.replaceChildren(element("h2", {}, "Order of the pieces"), list);
    list.scrollTop = top;
  }

  private drawHistory(): void {
    const list = element("ol", { start: "0" });
    this.steps.forEach((step, at) => {
      const text = `${step.what}: ${count(step.answer.latency_cycles)}`;
      const go = button(text, "Go back to this step", () => this.back(at - this.at));
      go.id = `step-${at}`;
      if (at === this.at) go.setAttribute("aria-current", "step");
      list.append(element("li", {}, go));
    });
    const undo = button("Undo", "Back by one step (Ctrl+Z)", () => this.back(-1));
    const redo = button("Redo", "Forward by one step (Ctrl+Y)", () => this.back(1));
    undo.id = "undo";
    redo.id = "redo";
    undo.disabled = this.at === 0;
    redo.disabled = this.at === this.steps.length - 1;
    this.history.replaceChildren(element("h2", {}, "History"), element("div", { class: "tools" }, undo, redo), list);
  }

  private drawSave(answer: Answer): void {
    if (this.save.childElementCount === 0) {
      const write = button("Save", "Write the schedule to the folder of the server", () => void this.write(false));
      write.id = "write";
      this.save.append(
        element("h2", {}, "Save as a schedule file"),
        element("div", { class: "tools" }, this.name, write),
        this.saved,
      );
    }
    if (this.name.value === "") this.name.value = `${answer.network.replace(/[^A-Za-z0-9]+/g, "-")}.schedule.json`;
    this.saved.replaceChildren();
  }

  private async write(replace: boolean): Promise<void> {
    const { key } = this.steps[this.at].answer;
    try {
      const found = await ask<{ saved: string; command: string }>("save", {
        key,
        name: this.name.value.trim(),
        replace,
      });
      const command = element("pre", { id: "command" }, found.command);
      this.saved.replaceChildren(
        element("p", {}, `${found.saved} is written; in that folder this gives the same:`),
        command,
      );
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const more = error.exists ? [button("Replace it", "Write over the file", () => void this.write(true))] : [];
      this.saved.replaceChildren(element("p", { class: "fault" }, error.message), ...more);
    }
  }

  private showWhole(): void {
    const { key } = this.steps[this.at].answer;
    const address = `page/${key}?token=${encodeURIComponent(token)}`;
    this.link.href = address;
    if (this.whole.open && this.frame.getAttribute("src") !== address) this.frame.setAttribute("src", address);
  }
}

ask<Choices>("choices")
  .then((choices) => {
    new Live(choices);
    document.documentElement.dataset.ready = "yes";
  })
  .catch((error: unknown) => {
    const reason = error instanceof Error ? error.message : String(error);
    document.body.append(element("p", { role: "alert" }, `This page cannot be shown: ${reason}`));
  });
