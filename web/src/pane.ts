// What a pane is, and what it may ask of the page.

import type { Theme } from "./colours";
import type { Tip } from "./dom";
import type { Run } from "./run";
import type { Marks, Selection, State } from "./selection";

export interface Page {
  readonly run: Run;
  readonly state: State;
  readonly marks: Marks | null; // of what is selected
  readonly theme: Theme;
  readonly tip: Tip;
  select(selected: Selection | null): void;
  change(change: Partial<State>): void;
}

export interface Pane {
  readonly element: HTMLElement;
  /** Another run is shown. */
  load(): void;
  /** Something of the state has changed: draw anew, in the next frame. */
  draw(changed: ReadonlySet<keyof State>): void;
}
