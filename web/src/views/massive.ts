// The massive states: how many there are, what they carry, what they hide, and who they are.

import { h, replace } from "../dom";
import { heat } from "../chart/heat";
import { lines, type Series } from "../chart/lines";
import type { Columns } from "../data/blocks";
import type { Curve, Profile, Value } from "../data/layers";
import { pointTick, pointTitle, type Book, type Run } from "../data/run";
import { Figure, howPanel } from "../figure";
import { howDefined, howMeasured, selectionTitle, variantTitle } from "../how";
import { note } from "../state";
import { statesPhrase, typicalOf, type States } from "../states";
import { capital, count, measureTitle, number, percent, tokenName, visible } from "../text";
import { seriesColour } from "../theme";
import { absence, anyRun, chosenPoint, chosenRun, fileName, heading, pointSlider, runSelect, type View } from "./common";
import { layerTicks, series } from "./profiles";

const isMassive = (run: Run): boolean => run.massive !== null;

/** Of a training, its steps know who their massive states are. */
const has = (run: Run): boolean => isMassive(run) && (run.points.massive.length > 0 || run.children.length === 0);

/** Measures that a few long states change most. */
const HIDDEN = ["anisotropy_svd", "mean_cosine", "m_over_q", "matrix_entropy", "slope_v_on_m", "r2_v_on_m"];

/** So many tokens are listed and drawn; the table has all. */
const LISTED = 15;
const DRAWN = 14;

export const massive: View = {
  name: "massive",
  title: "Massive",
  absent: (book) => (book.runs.some(isMassive) ? null : "No state is massive: none is many times longer than the median of its layer (--massive sets how many)."),
  show: (book, host) => {
    const inside = h("div", { class: "stack" });
    const start = (run: Run) => { note({ run: run.key }); void build(book, run, inside, start); };
    host.append(heading("Massive states", "A few states, often of the first token, are far longer than all others: attention sinks. They carry nearly all of Q where they appear and hide what the other states do."), shares(book), inside);
    void build(book, chosenRun(book, anyRun(book, has) ? has : isMassive), inside, start);
  },
};

/** The share of Q that massive states carry, and how many they are, at every layer: Q of all states against Q of the typical ones. */
export function carried(run: Run): { share: Profile; states: Profile } {
  const q: Curve = { measure: "q", variant: null, selection: "all" };
  const [all, typical] = [run.layers.profile(q, run.step ?? undefined, "all"), run.layers.profile(q, run.step ?? undefined, "typical")];
  const other = (value: Value) => [...typical.values, ...(typical.before ? [typical.before] : [])].find((own) => own.layer === value.layer && own.point === value.point);
  const each = (change: (value: Value, other: Value) => number): Profile => {
    const changed = (value: Value): Value => { const own = other(value); return { ...value, se: NaN, value: own ? change(value, own) : NaN }; };
    return { values: all.values.map(changed), before: all.before && changed(all.before) };
  };
  return { share: each((a, t) => Math.max(0, 1 - (t.value * t.n) / (a.value * a.n))), states: each((a, t) => a.n - t.n) };
}

function shares(book: Book): HTMLElement {
  const runs = book.runs.filter(isMassive);
  const figure = (name: "share" | "states", title: string, label: string) => {
    const made: Series[] = runs.map((run) => series(run, carried(run)[name]));
    return new Figure({
      name: `massive-${name}`, title, terms: { [title]: name === "share" ? "massive_share_of_q" : "massive_activations" }, small: true, states: "",
      draw: (width) => lines({ width, height: 260, series: made, x: { label: "layer", ticks: layerTicks(made), format: (x) => `layer ${x}` }, y: { label, domain: name === "share" ? [0, 1.04] : undefined, whole: name === "states" }, description: `${title} of ${runs.length} runs` }),
      sheet: () => ({ names: ["model", "layer", "point", name === "share" ? "massive_share_of_q" : "massive_states", "n"], rows: runs.flatMap((run) => { const { values, before } = carried(run)[name]; return [...values, ...(before ? [before] : [])].map((value) => [run.label, value.layer, value.point, value.value, value.n]); }) }),
    }).element;
  };
  return h("section", { class: "panel" }, h("h3", {}, "What they carry"), h("div", { class: "grid two" }, figure("share", "Share of Q", "share of Q that massive states carry"), figure("states", "Number", "massive states")),
    howPanel(() => howDefined(runs, [["share", "1 − n′ Q′ / (n Q): n and Q of all states, n′ and Q′ of the typical ones"], ["massive", "a state whose norm is more than --massive times the median norm of all states at its point; Sun et al. (2024) mean single components, see massive_components"]], true)));
}

async function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): Promise<void> {
  const choice = runSelect(book, has, run, restart);
  replace(host, choice && h("div", { class: "controls" }, choice), hidden(book, run), await who(run));
}

/** The same measures with and without massive states; each over what the rest of the page means by its name. */
function hidden(book: Book, run: Run): HTMLElement | null {
  if (!run.hasTypical) return absence(`${visible(run.label)} was measured by an older version of Layerscope, which did not measure everything without massive states.`);
  const known = HIDDEN.flatMap((measure) => run.layers.plain(measure) ?? []);
  const figures = known.map((curve) => {
    const of = (states: States, selection: string): [string, Profile, string] => [statesPhrase(states), run.layers.profile(curve, run.step ?? undefined, selection), selection];
    const both = [of("all", curve.selection), of("typical", typicalOf(curve.selection))];
    const made: Series[] = both.map(([name, profile], i) => ({ ...series(run, profile), name, colour: seriesColour(i === 0 ? 1 : 0), shape: i, dashed: i === 0 }));
    const label = measureTitle(curve.measure);
    return new Figure({
      name: fileName("hidden", curve.measure, run.label), title: capital(label), terms: { [capital(label)]: curve.measure }, small: true, states: "",
      note: `Over ${selectionTitle(curve.selection)}${curve.variant ? `, ${variantTitle(curve.variant)}` : ""}.`,
      draw: (width) => lines({ width, height: 230, series: made, x: { label: "layer", ticks: layerTicks(made), format: (x) => `layer ${x}` }, y: { label }, description: `${label} over ${selectionTitle(curve.selection)}, with and without massive states` }),
      sheet: () => ({ names: ["states", "selection", "variant", "layer", "point", curve.measure], rows: both.flatMap(([name, { values, before }, selection]) => [...values, ...(before ? [before] : [])].map((value) => [name, selection, curve.variant, value.layer, value.point, value.value])) }),
    }).element;
  });
  return figures.length === 0 ? null : h("section", { class: "panel" }, h("h3", {}, "What they hide"), h("p", { class: "note" }, "The same measures with the massive states (dashed) and without them."), h("div", { class: "grid two" }, ...figures), howPanel(() => howMeasured(book, [run], known.map((curve) => curve.measure), { both: true })));
}

/** Tokens and positions of the massive states, layer by layer. */
async function who(run: Run): Promise<HTMLElement> {
  const points = run.points.massive;
  const frame = (...inside: (Node | null)[]) => h("section", { class: "panel", id: "who" }, h("h3", {}, "Who they are"), ...inside.filter((own): own is Node => own !== null));
  if (points.length === 0) return frame(absence("This run has no table of them; measure it again to see their tokens."));
  const tables = await Promise.all(points.map((point) => run.at(point)));
  let place = chosenPoint(run, "massive");
  const list = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Massive states" });
  const said = h("p", { class: "note" });
  const refresh = () => {
    const table = tables[place]!;
    const total = sum(table.reals("count"));
    replace(said, `${count(total)} massive states at ${points[place]!.title}${table.rows > LISTED ? `; the ${LISTED} most frequent of ${count(table.rows)} tokens and positions, all of them under Tables` : ""}`);
    replace(list, listing(table, total));
  };
  const slider = pointSlider(points, place, (value) => { place = value; refresh(); });
  refresh();
  return frame(h("div", { class: "controls" }, slider.element), said, list, way(run, tables).element);
}

const sum = (values: Iterable<number>): number => [...values].reduce((total, value) => total + value, 0);

const position = (table: Columns, row: number): string => (Number.isNaN(table.number("position", row)) ? "16 or later" : count(table.number("position", row)));

/** The three components that are largest in any of these states. */
function largest(table: Columns, row: number): string {
  const parts = [1, 2, 3].map((k) => [table.number(`component_${k}`, row), table.number(`value_${k}`, row)] as const);
  return parts.filter(([component]) => !Number.isNaN(component)).map(([component, value]) => `${component}: ${number(value, 3)}`).join(",  ");
}

function listing(table: Columns, total: number): HTMLElement {
  const rows = Array.from({ length: table.rows }, (_, row) => row).sort((a, b) => table.number("count", b) - table.number("count", a));
  const cells = rows.slice(0, LISTED).map((row) => h("tr", {}, h("th", { scope: "row" }, tokenName(table.text("token", row), 24)), h("td", { class: "right" }, position(table, row)), h("td", { class: "right" }, count(table.number("count", row))), h("td", { class: "right" }, percent(table.number("count", row) / total)), h("td", { class: "right" }, number(table.number("mean_norm", row))), h("td", {}, largest(table, row))));
  const heads: [string, boolean][] = [["Token", false], ["Position", true], ["States", true], ["of the massive", true], ["Mean norm", true], ["Largest components", false]];
  return h("table", {}, h("thead", {}, h("tr", {}, ...heads.map(([name, right]) => h("th", { scope: "col", class: right ? "right" : "" }, name)))), h("tbody", {}, ...cells));
}

/** From where to where each of them is massive. */
function way(run: Run, tables: Columns[]): Figure {
  const points = run.points.massive;
  const found = new Map<string, { label: string; title: string; counts: number[]; total: number }>();
  tables.forEach((table, k) => {
    for (let row = 0; row < table.rows; row++) {
      const name = tokenName(table.text("token", row), 14);
      const key = `${table.text("token", row)}\u0001${position(table, row)}`;
      if (!found.has(key)) found.set(key, { label: `${name} @ ${position(table, row)}`, title: `${name} at position ${position(table, row)}`, counts: points.map(() => NaN), total: 0 });
      const own = found.get(key)!;
      own.counts[k] = table.number("count", row);
      own.total += own.counts[k]!;
    }
  });
  const rows = [...found.values()].sort((a, b) => b.total - a.total).slice(0, DRAWN);
  return new Figure({
    name: fileName("massive-tokens", run.label), title: "Through the layers", note: `Massive states of the ${rows.length} most frequent tokens and positions (token @ position), colours logarithmic.`, states: "",
    draw: (width, say) => heat({
      width, say, log: true, whole: true, xLabel: "layer", yLabel: "token", label: "states", description: `Number of massive states of ${rows.length} tokens at ${points.length} layers`,
      columns: points.map((point) => ({ label: pointTick(point.key, point.layer), title: pointTitle(point.layer, point.point) })),
      rows, value: (row, column) => rows[row]!.counts[column]!,
    }),
    sheet: () => ({ names: ["layer", "point", ...tables[0]!.names], rows: tables.flatMap((table, k) => Array.from({ length: table.rows }, (_, row) => [points[k]!.layer, points[k]!.point, ...table.names.map((name) => table.cell(name, row))])) }),
  });
}
