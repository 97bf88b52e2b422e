// What was measured and what stands out, in words and numbers.

import { append, breakable, h, s } from "../dom";
import { lines } from "../chart/lines";
import { marker } from "../chart/frame";
import type { Book, Run } from "../data/run";
import { FEW_GROUPS, fewestGroups, hasFewGroups, isOfRange } from "../few";
import { topics, type Topic } from "../findings";
import { command, selectionTitle } from "../how";
import { statesPhrase } from "../states";
import { link } from "../state";
import { bytes, capital, count, counted, number, seconds, visible } from "../text";
import { termed } from "../term";
import { seriesColour } from "../theme";
import { asked } from "./asked";
import { series } from "./profiles";
import type { View } from "./common";
import { sentences } from "./sentences";

export const overview: View = { name: "overview", title: "Overview", absent: () => null, show };

function show(book: Book, host: HTMLElement): void {
  const found = h("div", { class: "cards" });
  append(host, asked(book),
    h("header", { class: "view-head" }, h("h2", { tabindex: -1 }, "What was measured"), ...book.runs.map(lede), differences(book)),
    h("section", {}, h("h2", {}, "What stands out", statesPhrase() ? h("small", { class: "note" }, ` ${statesPhrase()}`) : null), found),
    h("div", { class: book.runs.length < 4 ? "grid two" : "stack" }, h("section", { class: "panel" }, h("h3", {}, "The runs"), facts(book)), trust(book)));
  const lengths = sentences(book);
  if (lengths) host.append(lengths);
  void topics(book).then((all) => found.append(...all.map(card)));
}

/** The colour and marker of a run. */
function sign(run: Run): SVGSVGElement {
  return s("svg", { width: 14, height: 14, viewBox: "0 0 14 14", class: "sign", "aria-hidden": "true" }, marker(run.place, 7, 7, 4.6, { fill: seriesColour(run.place) }));
}

/** How else the runs differ than in their models: what differs below may come from there. */
function differences(book: Book): HTMLElement | null {
  if (book.differences.length === 0) return null;
  return h("p", { class: "lede differences warning" }, book.differences.map((note) => `${capital(visible(note))}.`).join(" "));
}

function lede(run: Run): HTMLElement {
  const { model = {}, corpus = {}, points = [], grouping } = run.manifest;
  const known = (value: unknown): value is number => typeof value === "number";
  const parts = [
    known(model.layers) ? `, ${count(model.layers)} layers${known(model.width) ? ` of width ${count(model.width)}` : ""}` : "",
    known(corpus.tokens) ? `, read ${counted(corpus.tokens, "token")}${known(corpus.documents) ? ` of ${counted(corpus.documents, "document")}` : ""}` : "",
    known(corpus.states) ? `: ${counted(corpus.states, "state")}` : "",
    known(corpus.groups) ? ` in ${counted(corpus.groups, "group")} (by ${visible(String(grouping ?? "token"))})` : "",
    points.length > 0 ? `, measured at ${counted(points.length, "point")}` : "",
    run.steps.length > 0 ? ` of ${count(run.steps.length)} training steps, ${count(run.steps[0]!)} to ${count(run.steps.at(-1)!)}` : "",
  ];
  return h("p", { class: "lede" }, sign(run), h("strong", {}, visible(run.label)), parts.join(""), ".", model.altered ? h("span", { class: "warning" }, ` Altered: ${visible(String(model.altered))}.`) : null,
    hasFewGroups(run) ? h("span", { class: "warning few" }, ` Only ${counted(fewestGroups(run), "group")} ${fewestGroups(run) === 1 ? "is" : "are"} ${isOfRange(run) ? "selected" : "there, and none is selected"}: slopes, R² and shares over fewer than ${FEW_GROUPS} depend on single ones.`) : null);
}

/** What the numbers of a topic are over, as the view behind it says. */
function over(topic: Topic): string {
  const names = [...new Set(topic.findings.flatMap((finding) => finding.selection ?? []))];
  return names.length > 0 ? `; over ${names.map(selectionTitle).join(", or ")}` : "";
}

/** Relative depth from the first to the last layer, also where there is nothing to draw. */
const ALL_LAYERS: [number, number] = [-0.02, 1.02];

function card(topic: Topic): HTMLElement {
  const drawn = topic.findings.filter((finding) => finding.profile);
  const own = drawn.map((finding) => series(finding.run, finding.profile!, true, false));
  const picture = own.length > 0 ? lines({ width: 300, height: 64, bare: true, series: own, x: { label: "", domain: ALL_LAYERS }, y: { label: "" }, description: "" }) : null;
  picture?.setAttribute("aria-hidden", "true");
  picture?.setAttribute("preserveAspectRatio", "none");
  picture?.setAttribute("class", "spark");
  return h("article", { class: "card" }, h("h3", {}, ...termed(topic.title, topic.terms)), h("p", { class: "note" }, ...termed(topic.about, topic.terms), over(topic)), picture,
    h("ul", {}, ...topic.findings.map((finding) => h("li", {}, sign(finding.run), h("a", { href: finding.href }, h("span", { class: "who" }, `${visible(finding.run.label)} `), finding.text)))));
}

/** Table 1: what the models are; and what the runs took. */
function facts(book: Book): HTMLElement {
  const rows: [string, (run: Run) => string][] = [
    ["Family", (run) => text(run.manifest.model?.family)],
    ["Layers", (run) => amount(run.manifest.model?.layers)],
    ["Width", (run) => amount(run.manifest.model?.width)],
    ["Heads", (run) => amount(run.manifest.model?.heads)],
    ["Parameters", (run) => amount(run.manifest.model?.parameters)],
    ["Vocabulary", (run) => amount(run.manifest.model?.vocabulary)],
    ["Norm", (run) => text(run.manifest.model?.norms ?? ([run.manifest.model?.norm, run.manifest.model?.norm_placement].filter(Boolean).join(", ") || null))],
    ["Attention", (run) => (run.manifest.model?.causal === undefined ? "–" : run.manifest.model.causal ? "causal" : "both ways")],
    ["Documents", (run) => amount(run.manifest.corpus?.documents)],
    ["States", (run) => amount(run.manifest.corpus?.states)],
    ["Groups", (run) => amount(run.manifest.corpus?.groups)],
    ["Time", (run) => (run.manifest.wall_seconds ? seconds(run.manifest.wall_seconds) : "–")],
    ["States of all layers a second", (run) => amount(run.manifest.states_per_second)],
    ["Peak memory", (run) => (run.manifest.peak_memory_bytes ? bytes(run.manifest.peak_memory_bytes) : "–")],
  ];
  const head = h("tr", {}, h("td", {}), ...book.runs.map((run) => h("th", { scope: "col" }, sign(run), ...breakable(visible(run.label)))));
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Facts of the runs" }, h("table", { class: "facts" }, h("thead", {}, head), h("tbody", {}, ...rows.filter(([, value]) => book.runs.some((run) => value(run) !== "–")).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), ...book.runs.map((run) => h("td", {}, value(run))))))));
}

const text = (value: unknown): string => (value === null || value === undefined ? "–" : visible(String(value)));
const amount = (value: unknown): string => (typeof value === "number" ? count(value) : "–");

/** Why the numbers can be believed, and what to mind. */
function trust(book: Book): HTMLElement {
  const items = book.runs.flatMap((run) => {
    const identities: any[] = Array.isArray(run.manifest.identities) ? run.manifest.identities : [];
    const worst = identities.reduce((a, b) => (a === null || Math.abs(b?.residual ?? 0) > Math.abs(a?.residual ?? 0) ? b : a), null);
    const warnings: unknown[] = Array.isArray(run.manifest.warnings) ? run.manifest.warnings : [];
    const notes: unknown[] = Array.isArray(run.manifest.notes) ? run.manifest.notes : [];
    const dropped = run.manifest.corpus?.skipped ?? {};
    const skipped = (typeof dropped === "number" ? [["", dropped]] : Object.entries(dropped)).filter(([, n]) => Number(n) > 0);
    const missing = (Array.isArray(run.manifest.trajectory) ? run.manifest.trajectory : []).filter((step: any) => step?.status !== "measured");
    return [
      worst && h("li", {}, sign(run), h("a", { href: link("tables", { run: run.place, table: "identities" }) }, `${visible(run.label)}: ${count(identities.length)} identities checked`), `, the largest residual is ${number(worst.residual, 2)} (${visible(String(worst.identity))}, layer ${worst.layer ?? "–"}).`),
      skipped.length > 0 && h("li", {}, sign(run), `${visible(run.label)}: skipped documents: ${skipped.map(([reason, n]) => `${count(Number(n))} ${visible(String(reason))}`.trim()).join(", ")}.`),
      ...missing.map((step: any) => h("li", { class: "warning" }, sign(run), `${visible(run.label)}: ${visible(String(step.revision))} is ${visible(String(step.status))}: ${visible(String(step.reason ?? "no reason given"))}.`)),
      ...warnings.map((warning) => h("li", { class: "warning" }, sign(run), `${visible(run.label)}: ${visible(String(warning))}.`)),
      notes.length > 0 && h("li", {}, sign(run), h("details", {}, h("summary", {}, `${visible(run.label)}: ${count(notes.length)} ${notes.length === 1 ? "note" : "notes"}`), h("ul", { class: "notes" }, ...notes.map((note) => h("li", {}, visible(String(note))))))),
    ];
  }).filter(Boolean) as HTMLElement[];
  // Parts of one run have its command.
  const commands = [...new Set(book.runs.map((run) => command(run).textContent))];
  const again = commands.map((own) => book.runs.filter((run) => command(run).textContent === own)).map((runs) => h("li", { class: "again" }, ...runs.map(sign), command(runs[0]!)));
  return h("section", { class: "panel" }, h("h3", {}, "Checks and warnings"), items.length > 0 ? h("ul", { class: "plain" }, ...items) : h("p", {}, "Nothing to report."),
    h("h3", {}, "To compute it again"), h("ul", { class: "plain" }, ...again), link("method") && h("p", { class: "note" }, h("a", { href: link("method") }, "Formulas, variants and settings")));
}
