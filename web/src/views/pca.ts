// The states of chosen tokens on the plane of their means' first two principal components, with the origin.

import { h, replace, s, toggle } from "../dom";
import { colourBar } from "../chart/heat";
import { frame, round, type Frame } from "../chart/frame";
import { placeLabels } from "../chart/labels";
import { Raster } from "../chart/raster";
import { padded } from "../chart/scale";
import type { Columns } from "../data/blocks";
import type { Book, Run } from "../data/run";
import { Figure } from "../figure";
import { howDefined } from "../how";
import { note } from "../state";
import { extent, quantile, sorted } from "../stats/spread";
import { count, number, percent, tokenName, visible } from "../text";
import { theme, viridisColour } from "../theme";
import { anyRun, chosenPoint, chosenRun, fileName, heading, pointSlider, runSelect, type View } from "./common";

const has = (run: Run): boolean => run.points.tokens.length > 0;

export const pca: View = {
  name: "pca",
  title: "PCA",
  absent: (book) => (anyRun(book, has) ? null : "No run kept states of chosen tokens (--tokens none)."),
  show: (book, host) => {
    const inside = h("div", { class: "stack" });
    const start = (run: Run) => { note({ run: run.key }); build(book, run, inside, start); };
    host.append(heading("States of chosen tokens", "Every dot is a state, every ring the mean of a token's states, the cross the origin. Distance from the cross shows M, the size of a cloud shows V, as far as two directions can."), inside);
    build(book, chosenRun(book, has), inside, start);
  },
};

/** Axes end where this share of the states lies beyond either end, but hold those that are not farther out than this part of the axis: as in figure 1. */
const OUTSIDE = 0.005;
const FAR = 0.1;

interface Token {
  name: string;
  n: number;
  mean: number;
  states: Uint32Array;
}

function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): void {
  const points = run.points.tokens;
  let place = chosenPoint(run, "tokens");
  let table: Columns | null = null;
  let tokens: Token[] = [];
  let one: string | null = null;
  let names = true;
  const raster = new Raster();
  let made: Frame;
  const figure = new Figure({
    name: fileName("pca", run.label), title: "Principal components of the tokens' means", note: "Percentages are of the variance of the means and the origin. States far beyond their 0.5 and 99.5 percentiles are not shown.",
    draw: (width) => table && draw(width),
    layer: () => ({ canvas: raster.canvas, left: made.left, top: made.top, width: made.width, height: made.height }),
    sheet: () => ({ names: table!.names, rows: Array.from({ length: table!.rows }, (_, row) => table!.names.map((name) => table!.cell(name, row))) }),
    how: () => howDefined([run], [["projection", "PCA with two components, fitted to the means of the chosen tokens and the origin, then moved so that the origin lies at (0, 0)"], ["chosen tokens", "ten equal bins of log₁₀ nₜ over the selected groups; names of at least three characters; 2 + ⌊4 √(|Tᵣ| / max |Tᵣ|)⌋ drawn per bin (Yamagiwa & Shimodaira 2025, appendix A), unless --tokens named them"]]),
  });
  figure.stage.classList.add("scatter");
  figure.stage.append(raster.canvas);
  /** Where an axis ends: at the percentiles of the states or a little further, with the means and the origin inside. */
  const domain = (values: Float64Array): [number, number] => {
    const states = sorted(values, Uint32Array.from(tokens.flatMap((token) => [...token.states])));
    const ends = states.length > 0 ? [quantile(states, OUTSIDE), quantile(states, 1 - OUTSIDE)] : [];
    const [low, high] = padded(extent([...tokens.map((token) => values[token.mean] ?? NaN), ...ends, 0]));
    const reach = FAR * (high - low);
    const [first, last] = extent(states.filter((value) => value >= low - reach && value <= high + reach));
    return [Math.min(low, first - 0.2 * reach), Math.max(high, last + 0.2 * reach)];
  };
  /** What an axis explains of the variance of the means and the origin; runs of older programs do not know. */
  const explained = (name: string): string => {
    const share = table!.has(name) ? (table!.reals(name).find((value) => !Number.isNaN(value)) ?? NaN) : NaN;
    return Number.isNaN(share) ? "" : ` (${percent(share)} of the variance)`;
  };
  const draw = (width: number) => {
    const [x, y] = [table!.reals("x"), table!.reals("y")];
    const bar = width > 520 ? 70 : 0;
    made = frame({
      width: width - bar, height: Math.min(640, Math.max(360, (width - bar) * 0.72)), equal: true, grid: false,
      x: { domain: domain(x), label: `first component${explained("explained_x")}` }, y: { domain: domain(y), label: `second component${explained("explained_y")}` },
      description: `Projection of ${count(table!.rows)} states of ${tokens.length} tokens, ${points[place]!.title}`,
    });
    made.svg.setAttribute("width", String(width));
    made.svg.setAttribute("viewBox", `0 0 ${width} ${made.svg.viewBox.baseVal.height}`);
    raster.canvas.style.left = `${made.left}px`;
    raster.canvas.style.top = `${made.top}px`;
    raster.clear(made.width, made.height);
    const [low, high] = extent(tokens.map((token) => Math.log10(token.n)));
    const share = (token: Token) => (Math.log10(token.n) - low) / (high - low || 1);
    const [px, py, shares] = [x.map((value) => made.x(value)), y.map((value) => made.y(value)), new Float32Array(x.length)];
    for (const token of tokens) {
      shares.fill(share(token));
      const faint = one !== null && token.name !== one;
      raster.draw({ x: px, y: py, places: token.states, share: shares, colour: [0, 0, 0], radius: 1.7, opacity: faint ? 0.06 : one ? 0.9 : 0.6 });
    }
    raster.show();
    const zero = [round(made.x(0)), round(made.y(0))] as const;
    made.body.append(s("path", { d: `M${zero[0] - 6} ${zero[1] - 6}l12 12m0 -12l-12 12`, stroke: theme().ink, "stroke-width": 2.2 }));
    const shown = tokens.filter((token) => !Number.isNaN(px[token.mean] ?? NaN));
    for (const token of shown) made.body.append(s("circle", { cx: round(px[token.mean]!), cy: round(py[token.mean]!), r: token.name === one ? 6 : 4, fill: viridisColour(share(token)), stroke: theme().ink, "stroke-width": 1.4, "fill-opacity": one !== null && token.name !== one ? 0.3 : 1 }));
    const labelled = names ? shown : shown.filter((token) => token.name === one);
    const cross = { x: zero[0], y: zero[1], text: "" }; // names keep off the origin too
    const spots = placeLabels([...labelled.map((token) => ({ x: px[token.mean]!, y: py[token.mean]!, text: tokenName(token.name, 20) })), cross], made.width, made.height, 12);
    labelled.forEach((token, i) => {
      const spot = spots[i];
      if (!spot) return;
      const at = { x: round(spot.x), y: round(spot.y), "pointer-events": "none" };
      made.body.append(s("text", { ...at, stroke: theme().paper, "stroke-width": 3, "stroke-linejoin": "round" }, tokenName(token.name, 20)), s("text", { ...at, "font-weight": token.name === one ? 700 : 400 }, tokenName(token.name, 20)));
    });
    if (bar > 0) made.svg.append(s("g", {}, s("text", { x: width - bar - 4, y: 15 }, "occurrences"), colourBar(width - bar + 6, made.top, made.height * 0.6, [10 ** low, 10 ** high], true, true)));
    listen(px, py);
    return made.svg;
  };
  const listen = (px: Float64Array, py: Float64Array) => {
    const near = (event: MouseEvent): number | null => {
      const box = made.svg.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left - made.left, event.clientY - box.top - made.top];
      let [found, closest]: [number | null, number] = [null, 144];
      for (let i = 0; i < px.length; i++) {
        const distance = (px[i]! - x) ** 2 + (py[i]! - y) ** 2;
        if (distance < closest) [found, closest] = [i, distance];
      }
      return found;
    };
    made.svg.addEventListener("pointermove", (event) => {
      const row = near(event);
      figure.say(row === null ? "" : sentence(table!, row));
    });
    made.svg.addEventListener("click", (event) => {
      const row = near(event);
      const name = row === null ? null : table!.text("group", row);
      choose(name === one ? null : name);
    });
  };
  const list = h("div", { class: "chips", role: "group", "aria-label": "Tokens" });
  const choose = (name: string | null) => {
    one = name;
    figure.redraw();
    chips();
  };
  const chips = () => replace(list, ...tokens.map((token) => h("button", { type: "button", class: "chip", "aria-pressed": String(token.name === one), onclick: () => choose(token.name === one ? null : token.name) }, tokenName(token.name, 20))));
  const refresh = async () => {
    const wish = place;
    const own = await run.at(points[place]!);
    if (wish !== place) return;
    table = own;
    tokens = tokensOf(own);
    figure.redraw();
    chips();
  };
  const slider = pointSlider(points, place, (value) => { place = value; void refresh(); });
  replace(host, h("div", { class: "controls" }, runSelect(book, has, run, restart), slider.element, toggle("Names", names, (value) => { names = value; figure.redraw(); })), figure.element,
    h("section", { class: "panel" }, h("h3", {}, `Tokens of ${visible(run.label)}`), h("p", { class: "note" }, "Choose one to see it alone."), list));
  void refresh();
}

/** The chosen tokens, rarest first. */
function tokensOf(table: Columns): Token[] {
  const byName = new Map<string, { n: number; mean: number; states: number[] }>();
  for (let row = 0; row < table.rows; row++) {
    const name = table.text("group", row) ?? "";
    if (!byName.has(name)) byName.set(name, { n: table.number("n", row), mean: -1, states: [] });
    const own = byName.get(name)!;
    if (table.text("role", row) === "mean") own.mean = row;
    else own.states.push(row);
  }
  return [...byName].map(([name, own]) => ({ name, n: own.n, mean: own.mean, states: Uint32Array.from(own.states) })).sort((a, b) => a.n - b.n);
}

function sentence(table: Columns, row: number): string {
  const name = `${tokenName(table.text("group", row))} (n ${count(table.number("n", row))})`;
  if (table.text("role", row) === "mean") {
    const explained = table.number("explainable_variance", row);
    return `${name}: mean of its states${Number.isNaN(explained) ? "" : `, maximum explainable variance ${number(explained)}`}`;
  }
  const document = table.text("document", row);
  return `${name}${document ? ` in ${visible(document)}, position ${count(table.number("position", row))}` : ""}`;
}
