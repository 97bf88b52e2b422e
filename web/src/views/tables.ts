// The numbers themselves: any table, sorted and filtered, with download.

import { h, replace, select, uniqueId, type Child } from "../dom";
import { Columns } from "../data/blocks";
import type { Book, Kind, Run } from "../data/run";
import { saveCsv } from "../download";
import { note, route } from "../state";
import { canChoose, states, statesPhrase } from "../states";
import { explain, term } from "../term";
import { count, number, shortened, visible } from "../text";
import { chosenPoint, fileName, heading, pointSlider, type View } from "./common";

const PAGE = 50;
/** The first columns of a narrow screen: the number, and all that tells it from the next one, several names in a column. */
const NARROW = [["value"], ["measure", "selection", "variant"], ["layer", "point"]];
const KINDS: Kind[] = ["groups", "components", "spectra", "tokens", "massive", "token_components"];

export const tables: View = { name: "tables", title: "Tables", absent: () => null, show };

/** What a run has, by name. */
function sources(run: Run): Map<string, (place: number) => Promise<Columns>> {
  const made = new Map<string, (place: number) => Promise<Columns>>();
  if (!run.parent) made.set("layers", async () => run.layers.shown()); // that of all steps
  for (const kind of KINDS)
    if (run.points[kind].length > 0) made.set(kind, async (place) => {
      const table = await run.at(run.points[kind][place]!);
      await run.named();
      if (kind !== "groups" || !run.groups) return table;
      const all = beside(run.groups, table);
      const n = all.reals("n");
      return n.includes(0) ? all.only(Uint32Array.from(n.keys()).filter((row) => n[row] !== 0)) : all; // groups that do not occur here
    });
  if (run.norms && !run.parent) made.set("norms", async () => run.norms!);
  const identities = run.manifest.identities;
  if (Array.isArray(identities) && identities.length > 0 && !run.parent) made.set("identities", async () => fromObjects(identities));
  if (Array.isArray(run.manifest.trajectory) && !run.parent) made.set("steps", async () => fromObjects(run.manifest.trajectory));
  return made;
}

/** Two tables of the same rows as one. */
function beside(left: Columns, right: Columns): Columns {
  const column = (table: Columns, name: string): [string, any, string[]?] => (table.isText(name) ? [name, table.texts(name).codes, table.texts(name).strings] : [name, table.reals(name)]);
  return new Columns(left.rows, [...left.names.filter((name) => !right.has(name)).map((name) => column(left, name)), ...right.names.map((name) => column(right, name))]);
}

function fromObjects(rows: Record<string, unknown>[]): Columns {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row ?? {})))];
  return new Columns(rows.length, names.map((name) => {
    const values = rows.map((row) => row?.[name] ?? null);
    if (values.every((value) => value === null || typeof value === "number")) return [name, Float64Array.from(values, (value) => (value === null ? NaN : (value as number)))];
    const strings = [...new Set(values.filter((value) => value !== null).map(String))];
    return [name, Uint32Array.from(values, (value) => (value === null ? 0xffffffff : strings.indexOf(String(value)))), strings];
  }));
}

function show(book: Book, host: HTMLElement): void {
  const params = route().params;
  const everything = book.runs.flatMap((own) => [own, ...own.children]);
  let run = everything.find((own) => own.key === params.get("run")) ?? book.runs[0]!;
  let name = params.get("table") ?? "layers";
  const inside = h("div", {});
  const controls = h("div", { class: "controls" });
  const build = () => {
    const own = sources(run);
    if (!own.has(name)) name = own.keys().next().value ?? "layers";
    note({ run: run.key, table: name });
    const kind = KINDS.find((one) => one === name);
    let place = kind ? chosenPoint(run, kind) : 0;
    const load = async () => {
      const table = await own.get(name)!(place);
      const where = kind ? `-${run.points[kind][place]!.key}` : "";
      replace(inside, grid(table, fileName(run.label, name + where, ...(canChoose() ? [states()] : []))));
    };
    replace(controls,
      everything.length > 1 && select("Run", everything.map((one) => ({ value: one.key, label: visible(one.label) })), run.key, (value) => { run = everything.find((one) => one.key === value)!; build(); }),
      select("Table", [...own.keys()].map((value) => ({ value, label: value })), name, (value) => { name = value; build(); }),
      kind && pointSlider(run.points[kind], place, (value) => { place = value; void load(); }).element);
    void load();
  };
  build();
  host.append(heading("Tables", `All digits go into the download; undefined cells are empty.${statesPhrase() ? ` Rows ${statesPhrase()}, as far as a table tells them apart.` : ""}`), controls, inside);
}

/** A table one sorts by its heads and filters by words or comparisons. */
function grid(table: Columns, file: string): HTMLElement {
  const id = uniqueId("filter");
  const filter = h("input", { type: "search", id, placeholder: "the   n>100   measure=mean_cosine", spellcheck: "false", autocomplete: "off" });
  const status = h("p", { class: "note", role: "status" });
  const body = h("tbody", {});
  const head = h("tr", {});
  const pages = h("div", { class: "pages" });
  const same = table.rows > 1 ? table.names.filter((name) => constant(table, name)) : [];
  const shown = table.names.filter((name) => !same.includes(name));
  const narrow = matchMedia("(max-width: 600px)");
  const wide = shown.map((name) => [name]);
  const first = shown.includes("value") ? NARROW.map((names) => names.filter((name) => shown.includes(name))).filter((names) => names.length > 0) : [];
  const columns = () => (narrow.matches ? [...first, ...wide.filter(([name]) => !first.flat().includes(name!))] : wide);
  let sort: { name: string; down: boolean } | null = null;
  let rows: number[] = [];
  let page = 0;
  const refresh = () => {
    rows = matching(table, filter.value);
    if (sort) rows.sort(comparer(table, sort.name, sort.down));
    page = 0;
    draw();
  };
  const draw = () => {
    const order = (name: string) => (sort?.name === name ? (sort.down ? "descending" : "ascending") : "none");
    const button = (name: string) => {
      const press = () => { sort = sort?.name === name ? (sort.down ? { name, down: false } : null) : { name, down: !table.isText(name) }; refresh(); (head.querySelector(`[data-name="${CSS.escape(name)}"]`) as HTMLElement | null)?.focus(); };
      return explain(h("button", { type: "button", class: "sort", "data-name": name, onclick: press }, visible(name), h("span", { "aria-hidden": "true" }, { none: "", ascending: " ▴", descending: " ▾" }[order(name)])), name);
    };
    replace(head, ...columns().map((names) => h("th", { scope: "col", "aria-sort": order(names.find((name) => name === sort?.name) ?? ""), class: place(table, names) }, ...names.flatMap((name) => [button(name), " "]))));
    const here = rows.slice(page * PAGE, (page + 1) * PAGE);
    replace(body, ...here.map((row) => h("tr", {}, ...columns().map((names) => cell(table, names, row)))));
    status.textContent = `${count(rows.length)} of ${count(table.rows)} rows${same.length > 0 ? `; in all of them ${same.map((name) => `${visible(name)} is ${written(table, name, 0) || "undefined"}`).join(", ")}` : ""}`;
    const last = Math.max(0, Math.ceil(rows.length / PAGE) - 1);
    const turn = (by: number, label: string) => h("button", { type: "button", disabled: page + by < 0 || page + by > last, onclick: () => { page += by; draw(); } }, label);
    replace(pages, turn(-1, "Previous"), h("span", {}, `page ${count(page + 1)} of ${count(last + 1)}`), turn(1, "Next"));
  };
  filter.addEventListener("input", refresh);
  narrow.addEventListener("change", draw);
  const save = () => saveCsv(file, { names: table.names, rows: rows.map((row) => table.names.map((name) => table.cell(name, row))) });
  refresh();
  return h("section", { class: "panel" },
    h("div", { class: "controls" }, h("div", { class: "field grow" }, h("label", { for: id }, "Filter: words, or column>number, column<number, column=value"), filter), h("button", { type: "button", onclick: save }, "Download CSV")),
    status, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" }, h("table", { class: "data" }, h("thead", {}, head), body)), pages);
}

/** Whether a column says the same in every row: it need not be shown in each. */
function constant(table: Columns, name: string): boolean {
  const first = table.cell(name, 0);
  for (let row = 1; row < table.rows; row++) if (table.cell(name, row) !== first) return false;
  return true;
}

/** Where the text of a column stands. */
const place = (table: Columns, names: string[]): string => (names.length > 1 ? "several" : table.isText(names[0]!) ? "" : "right");

/** A cell with one column, or several: the first of them above the others. */
function cell(table: Columns, names: string[], row: number): HTMLElement {
  const [name, ...others] = names as [string, ...string[]];
  const text = table.isText(name) ? table.text(name, row) : null;
  const first: Child = name === "measure" && text !== null ? term(text, written(table, name, row)) : written(table, name, row);
  const below = others.map((other) => written(table, other, row)).filter(Boolean).join(", ");
  const exact = table.isText(name) || Number.isNaN(table.number(name, row)) ? null : String(table.number(name, row));
  return h("td", { class: place(table, names), title: exact }, first, below && h("small", {}, below));
}

/** A value as people read it; nothing where it is undefined. */
function written(table: Columns, name: string, row: number): string {
  if (table.isText(name)) return shortened(table.text(name, row) ?? "", 60);
  const value = table.number(name, row);
  if (Number.isNaN(value)) return "";
  const whole = table.isWhole(name) || (Number.isInteger(value) && Math.abs(value) < 1e12);
  return name.endsWith("_id") ? String(value) : whole ? count(value) : number(value, 5);
}

/** Rows for which every term holds. */
function matching(table: Columns, text: string): number[] {
  const terms = text.trim().split(/\s+/).filter(Boolean).map((term) => test(table, term));
  const rows: number[] = [];
  for (let row = 0; row < table.rows; row++) if (terms.every((holds) => holds(row))) rows.push(row);
  return rows;
}

function test(table: Columns, term: string): (row: number) => boolean {
  const compare = /^([\w]+)(>=|<=|>|<|=)(.+)$/.exec(term);
  if (compare && table.has(compare[1]!)) {
    const [, name, sign, wanted] = compare as unknown as [string, string, string, string];
    if (table.isText(name)) return (row) => (table.text(name, row) ?? "").toLowerCase() === wanted.toLowerCase();
    const limit = Number(wanted);
    const holds: Record<string, (value: number) => boolean> = { ">": (v) => v > limit, "<": (v) => v < limit, ">=": (v) => v >= limit, "<=": (v) => v <= limit, "=": (v) => v === limit };
    return (row) => holds[sign]!(table.number(name, row));
  }
  const wanted = term.toLowerCase();
  const columns = table.names.filter((name) => table.isText(name)).map((name) => {
    const { strings, codes } = table.texts(name);
    const found = strings.map((string) => string.toLowerCase().includes(wanted));
    return (row: number) => found[codes[row]!] ?? false;
  });
  return (row) => columns.some((holds) => holds(row));
}

/** Undefined last, whichever way. */
function comparer(table: Columns, name: string, down: boolean): (a: number, b: number) => number {
  const sign = down ? -1 : 1;
  return (a, b) => {
    const [x, y] = [table.cell(name, a), table.cell(name, b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x) < String(y) ? -1 : x === y ? 0 : 1);
  };
}
