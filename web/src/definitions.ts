// The table of measures, which comes with the page, and where the book says more of a family.

import { h } from "./dom";
import type { Measure } from "./data/run";
import { symbols } from "./text";

let measures = new Map<string, Measure>();
let address = "";

/** Takes what the index says; the book has no address where that is empty. */
export function startDefinitions(known: Map<string, Measure>, book: string): void {
  measures = known;
  address = book.replace(/\/$/, "");
}

/** The measure of this name, where the table has it. */
export const measureOf = (name: string): Measure | undefined => measures.get(name);

/** Its formula, what `n` counts, and its source. */
export const definition = (measure: Measure): string => `${symbols(measure.formula)}. n counts ${measure.counts}. ${measure.source}.`;

/** The page of the book on a family of measures: a link, or the name of its file. */
export function bookPage(family: string): HTMLElement {
  if (!address) return h("code", {}, `docs/measures/${family}.md`);
  return h("a", { href: `${address}/measures/${family}.html`, target: "_blank", rel: "noopener noreferrer" }, `measures/${family}`);
}
