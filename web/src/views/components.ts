// Single components of the states: which are large, which carry the cosine.

import { h, replace, s, select } from "../dom";
import { frame, round } from "../chart/frame";
import { lines } from "../chart/lines";
import type { Columns } from "../data/blocks";
import { pointTick, type Book, type Run } from "../data/run";
import { Figure } from "../figure";
import { howDefined } from "../how";
import { note, route } from "../state";
import { extent } from "../stats/spread";
import { number, percent } from "../text";
import { theme } from "../theme";
import { tokenSection } from "./token_components";
import { anyRun, chosenPoint, chosenRun, fileName, heading, pointSlider, runSelect, type View } from "./common";

const has = (run: Run): boolean => run.points.components.length > 0 || run.points.token_components.length > 0;

const COLUMNS: Record<string, [string, string]> = {
  cosine_contribution: ["contribution to the mean cosine", "(s_i² − Σ u_i²) / (n (n − 1)), s the sum of unit vectors u; over all i they sum to mean_cosine. The largest are the rogue dimensions (Timkey & van Schijndel 2021)"],
  second_moment: ["second moment q_i", "mean of x_i² over the states that are shown; they sum to Q"],
  mean: ["mean μ_i", "mean of x_i over the states that are shown"],
  variance: ["variance v_i", "mean of (x_i − μ_i)² over the states that are shown; they sum to V"],
  variance_within: ["variance within groups", "Σ pₜ v_i(Xₜ)"],
  variance_between: ["variance between groups", "Σ pₜ (μ_i(Xₜ) − μ_i(X))²"],
};

export const components: View = {
  name: "components",
  title: "Components",
  absent: (book) => (anyRun(book, has) ? null : "No run has a table of components."),
  show: (book, host) => {
    const inside = h("div", { class: "stack" });
    const start = (run: Run) => { note({ run: run.key }); void build(book, run, inside, start); };
    host.append(heading("Component by component", "One bar per coordinate of the hidden states. A few rogue ones often carry most of the norm or of the cosine. Values are over all groups, not only the selected ones."), inside);
    void build(book, chosenRun(book, has), inside, start);
  },
};

async function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): Promise<void> {
  const points = run.points.components;
  if (points.length === 0) return onlyTokens(book, run, host, restart);
  const params = route().params;
  let place = chosenPoint(run, "components");
  const first = await run.at(points[place]!);
  const offered = Object.entries(COLUMNS).filter(([name]) => first.has(name)); // without cosines there are no parts of them
  let column = offered.find(([name]) => name === params.get("column"))?.[0] ?? offered[0]![0];
  let followed = params.has("component") ? Number(params.get("component")) : -1;
  let table: Columns | null = null;
  let way: number[] = [];
  const title = () => COLUMNS[column]![0];
  const how = () => howDefined([run], Object.values(COLUMNS).map(([name, text]) => [name, text]));
  const figure = new Figure({
    name: fileName("components", run.label), title: "Every component", note: "Click a bar to follow that component through the layers.",
    draw: (width, say) => table && stems(table, column, title(), followed, width, points[place]!.title, say, (component) => void follow(component)),
    sheet: () => ({ names: table!.names, rows: Array.from({ length: table!.rows }, (_, row) => table!.names.map((name) => table!.cell(name, row))) }), how,
  });
  const ranking = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Largest components" });
  const path = h("div", {});
  const refresh = async () => {
    const wish = place;
    const own = await run.at(points[place]!);
    if (wish !== place) return;
    table = own;
    figure.redraw();
    replace(ranking, largest(own, column, title(), (component) => void follow(component)));
    if (followed < 0) await follow(top(own, column), false);
  };
  const follow = async (component: number, tell = true) => {
    followed = component;
    if (tell) note({ component });
    const tables = await Promise.all(points.map((point) => run.at(point)));
    way = tables.map((own) => own.number(column, own.reals("component").indexOf(followed)));
    figure.redraw();
    const drawn = new Figure({
      name: fileName("component", String(followed), column, run.label), title: `Component ${followed} through the layers`, small: true,
      draw: (width) => lines({ width, height: 230, mark: place, x: { label: "layer", ticks: points.map((point, i) => ({ at: i, label: pointTick(point.key, point.layer) })), format: (x) => points[x]!.title }, y: { label: title() }, series: [{ name: `component ${followed}`, colour: theme().series[0]!, shape: 0, points: way.map((y, x) => ({ x, y })) }], description: `${title()} of component ${followed} across the layers` }),
      sheet: () => ({ names: ["layer", "point", "component", column], rows: points.map((point, i) => [point.layer, point.point, followed, way[i]!]) }), how,
    });
    replace(path, drawn.element);
  };
  const section = tokenSection(run, points[place]!.key);
  const slider = pointSlider(points, place, (value) => { place = value; section?.move(points[value]!.key); void refresh().then(() => follow(followed, false)); });
  replace(host, h("div", { class: "controls" }, runSelect(book, has, run, restart), slider.element,
    select("Show", offered.map(([value, [label]]) => ({ value, label })), column, (value) => { column = value; note({ column }); void refresh().then(() => follow(followed, false)); })),
    figure.element, h("div", { class: "grid two" }, h("section", { class: "panel" }, h("h3", {}, "The largest"), ranking), path), section && section.element);
  void refresh().then(() => follow(followed, false));
}

/** Where only the chosen tokens have components. */
function onlyTokens(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): void {
  const points = run.points.token_components;
  const place = chosenPoint(run, "token_components");
  const section = tokenSection(run, points[place]!.key)!;
  replace(host, h("div", { class: "controls" }, runSelect(book, has, run, restart), pointSlider(points, place, (value) => section.move(points[value]!.key)).element), section.element);
}

const top = (table: Columns, column: string): number => table.number("component", order(table, column)[0] ?? 0);

const order = (table: Columns, column: string): number[] => {
  const values = table.reals(column);
  return [...values.keys()].filter((row) => !Number.isNaN(values[row]!)).sort((a, b) => Math.abs(values[b]!) - Math.abs(values[a]!));
};

function stems(table: Columns, column: string, label: string, followed: number, width: number, where: string, say: (text: string) => void, pick: (component: number) => void): SVGSVGElement {
  const [components, values] = [table.reals("component"), table.reals(column)];
  const [low, high] = extent(values);
  const made = frame({
    width, height: 320, x: { domain: [-0.5, Math.max(...components) + 0.5], label: "component" },
    y: { domain: [low < 0 ? 1.15 * low : 0, high > 0 ? high + 0.13 * (high - Math.min(0, low)) : 0], label }, description: `${label} of ${components.length} components, ${where}`,
  });
  const zero = made.y(0);
  let path = "";
  values.forEach((value, row) => { if (!Number.isNaN(value)) path += `M${round(made.x(components[row]!))} ${round(zero)}V${round(made.y(value))}`; });
  made.body.append(s("path", { d: path, stroke: theme().series[0]!, "stroke-width": Math.max(1, Math.min(6, (made.width / components.length) * 0.7)), fill: "none" }));
  const spots: [number, number][] = [];
  for (const row of order(table, column).slice(0, 6)) {
    const [x, y] = [made.x(components[row]!), made.y(values[row]!)];
    if (spots.some(([a, b]) => Math.abs(a - x) < 34 && Math.abs(b - y) < 14)) continue;
    spots.push([x, y]);
    made.body.append(s("text", { x: round(x), y: round(values[row]! >= 0 ? y - 9 : y + 18), "text-anchor": x < 16 ? "start" : x > made.width - 16 ? "end" : "middle", "font-size": 11, fill: theme().quiet }, String(components[row])));
  }
  const row = components.indexOf(followed);
  if (row >= 0 && !Number.isNaN(values[row]!)) made.body.append(s("circle", { cx: round(made.x(followed)), cy: round(made.y(values[row]!)), r: 5, fill: "none", stroke: theme().accent, "stroke-width": 2 }));
  const at = (event: MouseEvent) => {
    const box = made.svg.getBoundingClientRect();
    return Math.round(made.x.invert(event.clientX - box.left - made.left));
  };
  made.svg.style.cursor = "pointer";
  made.svg.addEventListener("pointermove", (event) => { const found = components.indexOf(at(event)); say(found < 0 ? "" : `component ${components[found]}: ${label} ${number(values[found]!)}`); });
  made.svg.addEventListener("click", (event) => { const component = at(event); if (components.includes(component)) pick(component); });
  return made.svg;
}

function largest(table: Columns, column: string, label: string, pick: (component: number) => void): HTMLElement {
  const values = table.reals(column);
  const total = values.reduce((sum, value) => sum + (Number.isNaN(value) ? 0 : Math.abs(value)), 0);
  const rows = order(table, column).slice(0, 10).map((row) => {
    const component = table.number("component", row);
    return h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "link", "aria-label": `Follow component ${component}`, onclick: () => pick(component) }, String(component))), h("td", {}, number(values[row]!)), h("td", {}, percent(Math.abs(values[row]!) / total)), h("td", {}, number(table.number("mean", row))), h("td", {}, number(table.number("variance", row))));
  });
  return h("table", { "aria-label": `Components with the largest ${label}` }, h("thead", {}, h("tr", {}, ...["Component", "value", "share", "mean", "variance"].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows));
}
