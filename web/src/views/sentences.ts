// Lengths of sentences in words, of every different corpus.

import { h } from "../dom";
import { bars } from "../chart/histogram";
import type { Book, Run } from "../data/run";
import { Figure } from "../figure";
import { howDefined } from "../how";
import { bin, edge, extent } from "../stats/spread";
import { count, number, visible } from "../text";
import { fileName } from "./common";

const BINS = 30;

/** The section; null where no manifest has lengths. */
export function sentences(book: Book): HTMLElement | null {
  const known = new Set<unknown>();
  const figures = book.runs.flatMap((run) => {
    const words = wordsOf(run);
    const corpus = run.manifest.corpus?.fingerprint;
    if (words.length === 0 || (corpus && known.has(corpus))) return [];
    known.add(corpus);
    return [figure(run, words, book.runs.length > 1).element];
  });
  return figures.length === 0 ? null : h("section", { class: "panel" }, h("h3", {}, "The text"), h("div", { class: "grid two" }, ...figures));
}

const wordsOf = (run: Run): [number, number][] => (Array.isArray(run.manifest.sentence_words) ? run.manifest.sentence_words.filter((pair: any) => Number.isFinite(pair?.[0]) && Number.isFinite(pair?.[1])) : []);

function figure(run: Run, words: [number, number][], several: boolean): Figure {
  const [low, longest] = extent(words.map(([length]) => length));
  const high = longest > low ? longest : low + BINS;
  const counts = new Uint32Array(BINS);
  for (const [length, times] of words) counts[bin(length, low, high, BINS)]! += times;
  const total = words.reduce((sum, [, times]) => sum + times, 0);
  const mean = words.reduce((sum, [length, times]) => sum + length * times, 0) / total;
  return new Figure({
    name: fileName("sentence-lengths", run.label), title: "Lengths of sentences", small: true, states: "",
    note: `${several ? `${visible(run.label)}: ` : ""}${count(total)} sentences with ${number(mean, 3)} words on average.`,
    draw: (width) => bars({ width, height: 240, label: "words per sentence", domain: [low, high], counts, mean, yLabel: "sentences, log", log: true, description: `Histogram of the lengths of ${count(total)} sentences, ${low} to ${longest} words` }),
    sheet: () => ({ names: ["from", "to", "sentences"], rows: Array.from(counts, (own, i) => [edge(low, high, BINS, i), edge(low, high, BINS, i + 1), own]) }),
    how: () => howDefined([run], [["words", "parts of a document between spaces, after cleaning; 30 equal bins from the shortest to the longest"]]),
  });
}
