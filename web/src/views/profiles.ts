// Every measure across the layers, models overlaid.

import { choice, h, replace, select, toggle } from "../dom";
import type { Book, Run } from "../data/run";
import { curveKey, type Curve, type Profile } from "../data/layers";
import { lines, type Series } from "../chart/lines";
import { stacked } from "../chart/stacked";
import { fewGroupsNote, hasFewGroups } from "../few";
import { Figure, howPanel } from "../figure";
import { howMeasured, selectionOption, selectionTitle } from "../how";
import { phraseOf, selectionOrder } from "../states";
import { note, route } from "../state";
import { explain, termed } from "../term";
import { capital, count, measureTitle, number, visible } from "../text";
import { seriesColour } from "../theme";
import type { Sheet } from "../download";
import { agreement } from "./agreement";
import { fileName, heading, type View } from "./common";

const PARTS: [string, string][] = [["m_over_q", "M"], ["v_between_over_q", "V between groups"], ["v_within_over_q", "V within groups"]];

export const profiles: View = {
  name: "profiles",
  title: "Layers",
  absent: (book) => (measuresOf(book).length > 0 ? null : "No run has measures of layers."),
  show,
};

/** Measures that some run has at some layer, in the order of the table of measures. */
function measuresOf(book: Book): string[] {
  const found = new Set(book.runs.flatMap((run) => run.layers.all().filter((curve) => run.layers.values(curve).some((value) => value.layer !== null)).map((curve) => curve.measure)));
  const order = [...book.measures.keys()];
  return [...found].sort((a, b) => (order.indexOf(a) + 1 || 999) - (order.indexOf(b) + 1 || 999));
}

function show(book: Book, host: HTMLElement): void {
  const measures = measuresOf(book);
  const params = route().params;
  let measure = measures.includes(params.get("measure") ?? "") ? params.get("measure")! : measures.includes("slope_v_on_m") ? "slope_v_on_m" : measures[0]!;
  let curve = pick(book, measure, params.get("variant"), params.get("selection"));
  let relative = params.get("depth") === "relative";
  let log = params.get("scale") === "log";
  let errors = true;
  const main = h("div", {});
  const controls = h("div", { class: "controls" });
  const refresh = () => {
    note({ measure, variant: curve.variant, selection: curve.selection, depth: relative ? "relative" : null, scale: log ? "log" : null });
    const curves = unique(book.runs.flatMap((run) => run.layers.of(measure)));
    const variants = [...new Set(curves.map((own) => own.variant))];
    const selections = [...new Set(curves.filter((own) => own.variant === curve.variant).map((own) => own.selection))];
    replace(controls,
      select("Measure", measures.map((name) => ({ value: name, label: measureTitle(name), group: book.measures.get(name)?.family ?? "other" })), measure, (value) => { measure = value; curve = pick(book, measure); refresh(); }),
      variants.length > 1 && select("Variant", variants.map((name) => ({ value: name ?? "", label: name ?? "plain" })), curve.variant ?? "", (value) => { curve = pick(book, measure, value || null, curve.selection); refresh(); }),
      selections.length > 1 && select("Over", selections.map((name) => ({ value: name, label: selectionOption(readFor(book, { ...curve, selection: name })) })), curve.selection, (value) => { curve = { ...curve, selection: value }; refresh(); }),
      choice("Depth", [{ value: "absolute", label: "Layer" }, { value: "relative", label: "Relative" }], relative ? "relative" : "absolute", (value) => { relative = value === "relative"; refresh(); }),
      choice("Scale", [{ value: "linear", label: "Linear" }, { value: "log", label: "Log" }], log ? "log" : "linear", (value) => { log = value === "log"; refresh(); }),
      toggle("Standard errors", errors, (value) => { errors = value; refresh(); }));
    const series = seriesOf(book, curve, relative, errors);
    const lost = log ? series.reduce((sum, own) => sum + own.points.filter((point) => point.y <= 0).length, 0) : 0;
    const notes = [
      series.length === 0 ? "No run has values of this." : "",
      curve.selection === "all" ? "" : `Over ${selectionTitle(curve.selection)}.`,
      series.some((own) => own.aside) ? "Hollow: the last block, before the final norm." : "",
      lost > 0 ? `${lost} values are not positive and have no place on a logarithmic axis.` : "",
      overGroups(measure) ? fewGroupsNote(book.runs, curve) : "",
      errors && series.some((own) => own.points.some((point) => (point.se ?? 0) > 0)) ? (spreadOf(book, curve) ? "Band: ± one standard deviation over batches." : "Band: ± one standard error.") : "",
    ];
    const figure = new Figure({
      name: fileName("profile", measure, curve.variant ?? "", curve.selection), title: capital(measureTitle(measure)), terms: { [capital(measureTitle(measure))]: measure }, states: phraseOf(readFor(book, curve)), note: notes.filter(Boolean).join(" "),
      draw: (width, say) => lines({ width, height: Math.min(420, Math.max(260, width * 0.5)), series, say, description: describe(measure, series),
        x: { label: relative ? "relative depth" : "layer", ticks: relative ? undefined : layerTicks(series), format: (x) => (relative ? `depth ${number(x, 3)}` : `layer ${x}`) }, y: { label: measureTitle(measure), log, whole: isCount(series) } }),
      sheet: () => sheet(book, [curve]), how: () => howMeasured(book, book.runs, [measure], curve),
    });
    replace(main, figure.element);
  };
  refresh();
  host.append(heading("Across the layers", "One curve per model. Layer 0 is the embedding; the last layer is shown after the final norm where the model has one."), controls, main);
  gallery(book, measures, host, (name) => { measure = name; curve = pick(book, name); refresh(); main.scrollIntoView({ block: "center" }); });
  decomposition(book, host);
  const both = agreement(book);
  if (both) host.append(both);
}

/** Whether all values are whole numbers, as those of counts are. */
const isCount = (series: Series[]): boolean => series.every((own) => own.points.every((point) => Number.isNaN(point.y) || Number.isInteger(point.y)));

/** Whether a measure is over groups, one point each. */
const overGroups = (measure: string): boolean => /^(slope|r2|intercept|cv_q)/.test(measure);

/** The selection that is read for a curve: without massive states in the runs that have it. */
const readFor = (book: Book, curve: Curve): string => book.runs.map((run) => run.layers.selection(curve)).find((selection) => selection !== curve.selection) ?? curve.selection;

const unique = (curves: Curve[]): Curve[] => [...new Map(curves.map((curve) => [curveKey(curve), curve])).values()];

/** What a bare name means for several runs: like beside like, in the first selection that all of them have. */
function plainOf(book: Book, measure: string): Curve | null {
  const place = (curve: Curve) => selectionOrder().indexOf(curve.selection);
  const own = book.runs.flatMap((run) => run.layers.plain(measure) ?? []);
  return own.length === 0 ? null : own.reduce((a, b) => (place(b) > place(a) ? b : a));
}

function pick(book: Book, measure: string, variant?: string | null, selection?: string | null): Curve {
  const curves = unique(book.runs.flatMap((run) => run.layers.of(measure)));
  const exact = curves.filter((curve) => variant === undefined || curve.variant === variant);
  const wanted = exact.find((curve) => curve.selection === selection) ?? (variant ? exact[0] : undefined);
  return wanted ?? plainOf(book, measure) ?? { measure, variant: null, selection: "all" };
}

/** The standard deviation over batches of a mean over batches, where there is one: a curve of its own. */
function spreadOf(book: Book, curve: Curve): Curve | null {
  const spread = { ...curve, variant: `${curve.variant}_std` };
  return curve.variant && book.runs.some((run) => run.layers.of(curve.measure).some((own) => curveKey(own) === curveKey(spread))) ? spread : null;
}

function seriesOf(book: Book, curve: Curve, relative: boolean, errors: boolean): Series[] {
  const spread = errors ? spreadOf(book, curve) : null;
  return book.runs.flatMap((run) => {
    const profile = run.layers.profile(curve);
    if (spread) {
      const known = run.layers.profile(spread).values;
      profile.values = profile.values.map((value) => ({ ...value, se: known.find((own) => own.layer === value.layer && own.point === value.point)?.value ?? NaN }));
    }
    return profile.values.length === 0 ? [] : [{ ...series(run, profile, relative, errors), dashed: overGroups(curve.measure) && hasFewGroups(run, curve) }];
  });
}

/** The curve of one run. */
export function series(run: Run, profile: Profile, relative = false, errors = true): Series {
  const deepest = relative ? Math.max(1, ...profile.values.map((value) => value.layer!)) : 1;
  return {
    name: visible(run.label), colour: seriesColour(run.place), shape: run.place,
    points: profile.values.map((value) => ({ x: value.layer! / deepest, y: value.value, se: errors ? value.se : undefined })),
    aside: profile.before ? { x: profile.before.layer! / deepest, y: profile.before.value } : null,
  };
}

/** Whole layers only. */
export function layerTicks(series: Series[]): { at: number; label: string }[] {
  const layers = [...new Set(series.flatMap((own) => own.points.map((point) => point.x)))].sort((a, b) => a - b);
  const every = Math.max(1, Math.ceil(layers.length / 26));
  return layers.filter((layer) => layer % every === 0).map((layer) => ({ at: layer, label: String(layer) }));
}

function describe(measure: string, series: Series[]): string {
  const parts = series.map((own) => {
    const known = own.points.filter((point) => Number.isFinite(point.y));
    if (known.length === 0) return `${own.name}: undefined`;
    const [first, last] = [known[0]!, known.at(-1)!];
    const top = known.reduce((a, b) => (b.y > a.y ? b : a));
    return `${own.name}: ${number(first.y)} at ${number(first.x, 3)}, at most ${number(top.y)} at ${number(top.x, 3)}, ${number(last.y)} at ${number(last.x, 3)}`;
  });
  return `${measureTitle(measure)} against layer. ${parts.join(". ")}.`;
}

function sheet(book: Book, curves: Curve[]): Sheet {
  const names = ["model", "layer", "point", "selection", "measure", "variant", "value", "se", "n"];
  const rows = book.runs.flatMap((run) => curves.flatMap((curve) => {
    const profile = run.layers.profile(curve);
    return [...profile.values, ...(profile.before ? [profile.before] : [])].map((value) => [run.label, value.layer, value.point, run.layers.selection(curve), curve.measure, curve.variant, value.value, value.se, value.n]);
  }));
  return { names, rows };
}

/** All measures as small pictures; one becomes the large one. */
function gallery(book: Book, measures: string[], host: HTMLElement, choose: (measure: string) => void): void {
  const cells = measures.map((measure) => {
    const curve = pick(book, measure);
    const own = seriesOf(book, curve, false, false);
    const button = h("button", { type: "button", class: "thumb", onclick: () => choose(measure) }, h("span", {}, measureTitle(measure)));
    button.append(lines({ width: 180, height: 70, series: own, bare: true, x: { label: "" }, y: { label: "" }, description: "" }));
    button.lastElementChild!.setAttribute("aria-hidden", "true");
    const known = own.flatMap((one) => one.points.map((point) => point.y)).filter(Number.isFinite);
    const shown = known.every(Number.isInteger) ? count : (value: number) => number(value, 3);
    button.append(h("small", {}, known.length > 0 ? `${shown(Math.min(...known))} … ${shown(Math.max(...known))}` : "undefined"));
    return explain(button, measure);
  });
  host.append(h("section", { class: "panel" }, h("h3", {}, "Every measure"), h("p", { class: "note" }, "Each on its own scale; choose one to see it large."), h("div", { class: "gallery" }, ...cells)));
}

/** What Q is made of, as stacked bars. */
function decomposition(book: Book, host: HTMLElement): void {
  const figures = book.runs.flatMap((run) => {
    const selection = run.layers.plain("m_over_q")?.selection ?? "all";
    const parts = PARTS.map(([measure]) => run.layers.profile({ measure, variant: null, selection }));
    if (parts.some((part) => part.values.length === 0)) return [];
    const bars = parts[0]!.values.map((value, i) => ({ label: String(value.layer), parts: parts.map((part) => part.values[i]?.value ?? NaN) }));
    return [new Figure({
      name: fileName("decomposition", run.label), title: visible(run.label), small: true, note: `Over ${selectionTitle(run.layers.selection({ measure: "m_over_q", variant: null, selection }))}.`,
      draw: (width) => stacked({ width, height: 260, bars, names: PARTS.map(([, name]) => name), xLabel: "layer", yLabel: "share of Q", description: `Shares of Q in ${visible(run.label)} per layer: M, V between groups, V within groups.` }),
      sheet: () => ({ names: ["layer", "point", ...PARTS.map(([name]) => name)], rows: parts[0]!.values.map((value, i) => [value.layer, value.point, ...parts.map((part) => part.values[i]?.value ?? null)]) }),
    }).element];
  });
  if (figures.length === 0) return;
  host.append(h("section", { class: "panel" }, h("h3", {}, "What Q is made of"), h("p", { class: "note" }, ...termed("Q = M + V between + V within: the mean of everything, the spread of the groups' means, the spread within groups.", { Q: "q", M: "m", "V between": "v_between", "V within": "v_within" })), h("div", { class: "grid two" }, ...figures), howPanel(() => howMeasured(book, book.runs, PARTS.map(([name]) => name)))));
}
