// Which states are shown: all of them, or all but the few massive ones that would hide the others. One choice for every view, in the
// address like every other; what comes first is decided in crates/layerscope-report/src/states.rs.

import { route } from "./state";

export type States = "typical" | "all";

/** What is known of the massive states of a run. */
export interface Known {
  label: string;
  /** One line: how many, and what they carry; null where none is massive. */
  massive: string | null;
  /** Whether the run was also measured without them. */
  hasTypical: boolean;
}

/** The selections of all states that have a counterpart without the massive ones. */
const TYPICAL: Record<string, string> = { all: "typical", selected: "typical_selected", sample: "typical_sample" };
const ALL: Record<string, string> = Object.fromEntries(Object.entries(TYPICAL).map(([all, typical]) => [typical, all]));

let first: States = "all";
let known: Known[] = [];
let selections = ["selected", "all", "sample"];

/** Takes what the index says. */
export function startStates(lead: string | undefined, runs: Known[], order?: string[]): void {
  first = lead === "typical" ? "typical" : "all";
  known = runs;
  selections = order ?? selections;
}

/** The selections of all states, the one that a value is taken from first at the front. */
export const selectionOrder = (): string[] => selections;

/** The runs with massive states; without any there is nothing to choose. */
export const massiveRuns = (): Known[] => known.filter((run) => run.massive !== null);

/** Those of them that were measured by an older program, which left the typical states of the groups out. */
export const olderRuns = (): Known[] => massiveRuns().filter((run) => !run.hasTypical);

/** Whether the reader can choose. */
export const canChoose = (): boolean => massiveRuns().some((run) => run.hasTypical);

/** The states that come first. */
export const lead = (): States => first;

/** The states that are shown. */
export function states(): States {
  if (!canChoose()) return "all";
  const wanted = route().params.get("states");
  return wanted === "typical" || wanted === "all" ? wanted : first;
}

/** The selection of the tables that holds the states that are shown, where all of them are `all`, `selected` or `sample`. */
export const ofStates = (selection: string): string => (states() === "typical" ? typicalOf(selection) : selection);

/** The same without the massive ones; a selection that has no counterpart stays what it is. */
export const typicalOf = (selection: string): string => TYPICAL[selection] ?? selection;

/** The selection of all states behind one without the massive ones; null for any other. */
export const behind = (selection: string): string | null => ALL[selection] ?? null;

/** The states in words, for captions; nothing where none is massive. */
export function statesPhrase(shown: States = states()): string {
  if (massiveRuns().length === 0) return "";
  return shown === "typical" ? "without massive states" : "massive states included";
}

/** The states behind a selection in words. */
export const phraseOf = (selection: string): string => statesPhrase(behind(selection) ? "typical" : "all");
