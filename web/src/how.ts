// What stands behind a number: formula, source, variant, and the command that computes it again.

import { h, prose } from "./dom";
import type { Book, Run } from "./data/run";
import { massiveRuns, ofStates, states } from "./states";
import { bookPage, definition } from "./definitions";
import { count, measureTitle, visible } from "./text";

/** Definitions that every view rests on, in the notation of the tables. */
export const DEFINITIONS: [string, string][] = [
  ["Xₜ, nₜ", "the hidden states of group t (a token, unless said otherwise) at one point of the network, and how many there are"],
  ["Q(Xₜ)", "mean of ‖x‖² over Xₜ"],
  ["M(Xₜ)", "‖μ(Xₜ)‖², μ(Xₜ) the mean of x over Xₜ"],
  ["V(Xₜ)", "mean of ‖x − μ(Xₜ)‖² over Xₜ (divisor nₜ); Q = M + V"],
  ["slope, R²", "least-squares line of V(Xₜ) on M(Xₜ) with intercept, every group once, over the groups with MIN ≤ nₜ ≤ MAX"],
];

const SELECTIONS: Record<string, string> = {
  all: "all states", selected: "groups in the run's frequency range", sample: "the kept sample of states",
  typical: "all states but the massive ones", typical_selected: "groups in the run's frequency range, without massive states", typical_sample: "the kept sample without massive states",
};

export const selectionTitle = (name: string): string => SELECTIONS[name] ?? name;

/** The same in few words, for a choice that must fit a phone. */
const SHORT: Record<string, string> = {
  selected: "groups in range", sample: "kept sample",
  typical: "all but massive states", typical_selected: "groups in range, no massive states", typical_sample: "kept sample, no massive states",
};

export const selectionOption = (name: string): string => SHORT[name] ?? selectionTitle(name);

/** What the variants are. */
const VARIANTS: Record<string, string> = {
  corpus: "from the covariance of the whole corpus", batch4096: "mean over batches of 4096 states of the sample",
  batch4096_std: "standard deviation over those batches", twonn: "TwoNN, maximum likelihood, 10 % largest ratios censored",
  twonn_facco: "TwoNN, fit through the origin over the lowest 90 %", twonn_razzhigaev: "TwoNN over the lowest 20 %, batches of 4096",
  mle: "Levina–Bickel with MacKay–Ghahramani averaging, k = 20", unbiased: "without the bias of plug-in values: V n/(n−1) and M − V/(n−1) for n ≥ 2, V within and between as in an analysis of variance", default: "over v and −v", machina: "over v as the eigen-solver returns it",
};

export const variantTitle = (name: string): string => VARIANTS[name] ?? name;

export interface Behind {
  variant?: string | null;
  selection?: string;
  /** With and without massive states, whatever the switch says. */
  both?: boolean;
}

/** Formula and source of these measures, and the commands of these runs. */
export function howMeasured(book: Book, runs: Run[], measures: string[], { variant, selection, both }: Behind = {}): Node {
  const rows = measures.map((name) => {
    const measure = book.measures.get(name);
    return [h("dt", {}, measureTitle(name), " ", h("code", {}, name)), h("dd", {}, ...(measure ? [definition(measure), " In the book: ", bookPage(measure.family), "."] : prose("See `layerscope measures`.")))];
  });
  return h("div", {},
    h("dl", {}, ...rows.flat(),
      ...(variant ? [h("dt", {}, "Variant ", h("code", {}, variant)), h("dd", {}, ...prose(VARIANTS[variant] ?? "see `layerscope measures`"))] : []),
      ...(selection ? [h("dt", {}, "Over"), h("dd", {}, selectionTitle(ofStates(selection)))] : []), ...statesRows(runs, both)),
    commands(runs));
}

/** Definitions instead of single measures. */
export function howDefined(runs: Run[], definitions: [string, string][], both = false): Node {
  return h("div", {}, h("dl", {}, ...definitions.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]), ...statesRows(runs, both)), commands(runs));
}

/** Which states are meant, where some are massive. */
function statesRows(runs: Run[], both = false): Node[] {
  if (massiveRuns().length === 0) return [];
  const threshold = Number(runs[0]?.manifest.settings?.massive?.value);
  const massive = `those whose norm is more than ${Number.isFinite(threshold) ? count(threshold) : "10"} times the median norm of the point`;
  return [h("dt", {}, "States"), h("dd", {}, both ? `all of them, and all but the massive ones: ${massive}` : states() === "typical" ? `all but the massive ones, ${massive}` : `all, massive ones too: ${massive}`)];
}

/** The commands that make these runs again. */
export function commands(runs: Run[]): HTMLElement {
  return h("div", { class: "commands" }, ...runs.map((run) => h("p", {}, h("span", { class: "note" }, visible(run.label)), command(run))));
}

/** A command as a shell reads it; a line ends between words, not inside one. */
export function command(run: Run): HTMLElement {
  const words: string[] = Array.isArray(run.manifest.command) ? run.manifest.command.map(String) : [];
  if (words[0]) words[0] = words[0].replace(/^.*[\\/]/, ""); // wherever the program lay
  const quoted = words.map((word) => visible(/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`));
  return h("code", { class: "command" }, ...(words.length === 0 ? ["(the manifest names no command)"] : quoted.flatMap((word) => [h("span", {}, word), " "])));
}
