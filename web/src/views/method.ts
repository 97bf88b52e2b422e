// How everything was computed: command, model, settings, formulas.

import { h } from "../dom";
import type { Book, Run } from "../data/run";
import { bookPage } from "../definitions";
import { command, DEFINITIONS } from "../how";
import { count, measureTitle, symbols, visible } from "../text";
import { heading, type View } from "./common";

export const method: View = {
  name: "method",
  title: "Method",
  absent: () => null,
  show: (book, host) => {
    host.append(heading("How this was computed", `By Layerscope ${book.program}. Undefined values are null, never NaN; sums and regressions are in 64-bit floating point.`),
      ...book.runs.map(runPanel), definitions(), formulas(book));
  },
};

function runPanel(run: Run): HTMLElement {
  const { model = {}, corpus = {}, settings = {}, host = {} } = run.manifest;
  const facts: [string, unknown][] = [
    ["Program", run.manifest.program], ["Revision", model.revision], ["Model fingerprint", model.fingerprint], ["Altered", model.altered],
    ["Corpus", Array.isArray(corpus.inputs) ? corpus.inputs.join(", ") : null], ["Corpus fingerprint", corpus.fingerprint], ["Grouping", run.manifest.grouping],
    ["Frequency range", run.frequency ? `${count(run.frequency.minimum)} to ${count(run.frequency.maximum)}` : null], ["Host", [host.name, host.cores && `${host.cores} cores`, host.isa].filter(Boolean).join(", ")],
  ];
  const rows = Object.entries(settings as Record<string, any>).map(([name, own]) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, visible(name))), h("td", {}, visible(String(own?.value ?? ""))), h("td", {}, visible(String(own?.from ?? "")))));
  return h("section", { class: "panel" }, h("h3", {}, visible(run.label)), command(run),
    h("dl", { class: "facts-list" }, ...facts.filter(([, value]) => value !== null && value !== undefined && value !== "").flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, visible(String(value)))])),
    model.diagram ? h("div", {}, h("h4", {}, "The block"), h("pre", { tabindex: 0, class: "diagram" }, String(model.diagram))) : null,
    rows.length > 0 ? h("details", {}, h("summary", {}, "Settings and where each came from"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Settings" }, h("table", {}, h("thead", {}, h("tr", {}, ...["Setting", "Value", "From"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows)))) : null);
}

function definitions(): HTMLElement {
  return h("section", { class: "panel" }, h("h3", {}, "Norm and variance"), h("dl", {}, ...DEFINITIONS.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
}

function formulas(book: Book): HTMLElement {
  const rows = [...book.measures.values()].map((measure) => h("tr", {}, h("th", { scope: "row" }, h("code", {}, measure.name)), h("td", {}, measureTitle(measure.name)), h("td", {}, symbols(measure.formula)), h("td", { "data-label": "variants: " }, measure.variants.join(", ")), h("td", { "data-label": "n counts: " }, measure.counts), h("td", { "data-label": "source: " }, measure.source), h("td", {}, bookPage(measure.family))));
  return h("section", { class: "panel" }, h("h3", {}, "Measures"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Measures" }, h("table", { class: "wrap" }, h("thead", {}, h("tr", {}, ...["Name", "In words", "Formula", "Variants", "n counts", "Source", "In the book"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows))));
}
