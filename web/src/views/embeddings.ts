// The rows of the embedding matrices on the plane of their first two singular directions, step by step, and their measures.

import { choice, h, replace, s } from "../dom";
import { colourBar } from "../chart/heat";
import { frame, round, type Frame } from "../chart/frame";
import { Raster } from "../chart/raster";
import { padded } from "../chart/scale";
import { columns, type Columns } from "../data/blocks";
import type { Book, Run } from "../data/run";
import { Figure, howPanel } from "../figure";
import { howDefined, howMeasured } from "../how";
import { note, route } from "../state";
import { extent, quantile } from "../stats/spread";
import { term } from "../term";
import { capital, count, measureTitle, number, tokenName } from "../text";
import { theme } from "../theme";
import { chosenRun, fileName, heading, runSelect, type View } from "./common";

const has = (run: Run): boolean => run.projections.length > 0;
const MATRICES: [string, string][] = [["input_embedding", "Input"], ["output_embedding", "Output"]];

export const embeddings: View = {
  name: "embeddings",
  title: "Embeddings",
  absent: (book) => (book.runs.some(has) ? null : "No run has projected embedding matrices (`layerscope track` and `layerscope weights --out` make them)."),
  show: (book, host) => {
    const inside = h("div", { class: "stack" });
    const start = (run: Run) => { note({ run: run.key }); build(book, run, inside, start); };
    host.append(heading("Embedding matrices", "Every dot is a row of the matrix: a token. A cloud around the origin is isotropic; one that lies to a side is not."), inside);
    build(book, chosenRun(book, has), inside, start);
  },
};

/** One matrix at one step. */
interface Shown {
  table: Columns;
  rows: Uint32Array;
}

function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): void {
  const steps = run.projections;
  const wanted = steps.findIndex(({ step }) => step !== null && String(step) === route().params.get("step"));
  let place = wanted >= 0 ? wanted : steps.length - 1;
  let matrix = route().params.get("matrix") === MATRICES[1]![0] ? 1 : 0;
  let shown: Shown | null = null;
  let names: Map<number, string> = new Map();
  const raster = new Raster();
  let made: Frame;
  const figure = new Figure({
    name: fileName("embeddings", run.label), title: "Rows of the matrix on two singular directions", states: "", note: "Colour: the token's id, which in most vocabularies goes from frequent to rare. The cross is the origin.",
    draw: (width, say) => shown && draw(shown, width, say),
    layer: () => ({ canvas: raster.canvas, left: made.left, top: made.top, width: made.width, height: made.height }),
    sheet: () => ({ names: ["step", "point", "group_id", "x", "y"], rows: Array.from(shown!.rows, (row) => [steps[place]!.step, MATRICES[matrix]![0], shown!.table.number("group_id", row), shown!.table.number("x", row), shown!.table.number("y", row)]) }),
    how: () => howDefined([run], [["projection", "w · v₁ and w · v₂ for every row w of the matrix W, v the right singular vectors of W (not centred) with the largest singular values, each with its largest component positive"], ["rows", "all of them, or 4,096 at most, evenly spaced over the vocabulary"]]),
  });
  figure.stage.classList.add("scatter");
  figure.stage.append(raster.canvas);
  const draw = ({ table, rows }: Shown, width: number, say: (text: string) => void) => {
    const [ids, x, y] = ["group_id", "x", "y"].map((name) => table.reals(name)) as [Float64Array, Float64Array, Float64Array];
    const limits = (values: Float64Array): [number, number] => {
      const order = Float64Array.from(rows, (row) => values[row]!).sort();
      return padded(extent([quantile(order, 0.001), quantile(order, 0.999), 0]));
    };
    const bar = width > 520 ? 76 : 0;
    made = frame({
      width: width - bar, height: Math.min(620, Math.max(340, (width - bar) * 0.66)), equal: true, grid: false, x: { domain: limits(x), label: "w · v₁" }, y: { domain: limits(y), label: "w · v₂" },
      description: `${count(rows.length)} rows of the ${MATRICES[matrix]![1].toLowerCase()} embedding on its first two singular directions`,
    });
    made.svg.setAttribute("width", String(width));
    made.svg.setAttribute("viewBox", `0 0 ${width} ${made.svg.viewBox.baseVal.height}`);
    raster.canvas.style.left = `${made.left}px`;
    raster.canvas.style.top = `${made.top}px`;
    raster.clear(made.width, made.height);
    const last = rows.reduce((most, row) => Math.max(most, ids[row]!), 1);
    const [px, py, share] = [x.map((value) => made.x(value)), y.map((value) => made.y(value)), Float32Array.from(ids, (id) => id / last)];
    raster.draw({ x: px, y: py, places: rows, share, colour: [0, 0, 0], radius: 1.9, opacity: 0.75 });
    raster.show();
    const [zx, zy] = [round(made.x(0)), round(made.y(0))];
    made.body.append(s("path", { d: `M${zx - 6} ${zy - 6}l12 12m0 -12l-12 12`, stroke: theme().paper, "stroke-width": 5 }), s("path", { d: `M${zx - 6} ${zy - 6}l12 12m0 -12l-12 12`, stroke: theme().ink, "stroke-width": 2.2 }));
    if (bar > 0) made.svg.append(s("g", {}, s("text", { x: width - bar + 2, y: 15 }, "token id"), colourBar(width - bar + 6, made.top, made.height * 0.6, [0, last])));
    made.svg.addEventListener("pointermove", (event) => {
      const box = made.svg.getBoundingClientRect();
      const [a, b] = [event.clientX - box.left - made.left, event.clientY - box.top - made.top];
      let [found, closest] = [-1, 144];
      for (const row of rows) {
        const distance = (px[row]! - a) ** 2 + (py[row]! - b) ** 2;
        if (distance < closest) [found, closest] = [row, distance];
      }
      const name = names.get(ids[found] ?? -1);
      say(found < 0 ? "" : `token ${ids[found]}${name === undefined ? "" : ` (${tokenName(name)})`}: ${number(x[found]!)}, ${number(y[found]!)}`);
    });
    return made.svg;
  };
  const refresh = async () => {
    const wish = place;
    const table = await columns(steps[place]!.block);
    if (wish !== place) return;
    const rows = Uint32Array.from({ length: table.rows }, (_, row) => row).filter((row) => table.text("point", row) === MATRICES[matrix]![0]);
    shown = { table, rows };
    figure.redraw();
  };
  const present = MATRICES.filter(([point]) => run.layers.all().some((curve) => run.layers.values(curve).some((value) => value.point === point)));
  const slider = steps.length > 1 && stepSlider(steps.map(({ step }) => (step === null ? "–" : count(step))), place, (value) => { place = value; note({ step: steps[value]!.step }); void refresh(); });
  replace(host, h("div", { class: "controls" }, runSelect(book, has, run, restart),
    present.length > 1 && choice("Matrix", MATRICES.map(([value, label]) => ({ value, label })), MATRICES[matrix]![0], (value) => { matrix = value === MATRICES[1]![0] ? 1 : 0; note({ matrix: value }); void refresh(); }), slider),
    figure.element, measures(book, run));
  void refresh();
  // Names by id, where the run or a step of it was grouped by token.
  const named = run.hasGroups ? run : run.children.find((child) => child.hasGroups);
  if (named && run.manifest.grouping === "token") void named.named().then(({ groups }) => { if (groups) names = new Map(Array.from(groups.reals("group_id"), (id, row) => [id, groups.text("group", row) ?? ""])); });
}

function stepSlider(labels: string[], place: number, change: (place: number) => void): HTMLElement {
  const output = h("output", {}, `step ${labels[place]}`);
  const input = h("input", { type: "range", min: 0, max: labels.length - 1, step: 1, value: place, "aria-label": "Training step", "aria-valuetext": `step ${labels[place]}` });
  input.addEventListener("input", () => {
    output.textContent = `step ${labels[Number(input.value)]}`;
    input.setAttribute("aria-valuetext", output.textContent);
    change(Number(input.value));
  });
  return h("div", { class: "slider bare" }, input, output);
}

/** What was measured of the matrices, at the last step. */
function measures(book: Book, run: Run): HTMLElement {
  const last = run.steps.at(-1) ?? null;
  const rows = run.layers.all().flatMap((curve) => {
    const values = run.layers.values(curve, last).filter((value) => value.layer === null);
    const of = (point: string) => number(values.find((value) => value.point === point)?.value);
    return values.length === 0 ? [] : [h("tr", {}, h("th", { scope: "row" }, term(curve.measure, capital(measureTitle(curve.measure))), curve.variant ? h("span", { class: "note" }, ` ${curve.variant.replace(/_/g, " ")}`) : null), ...MATRICES.map(([point]) => h("td", {}, of(point))))];
  });
  const used = [...new Set(run.layers.all().filter((curve) => run.layers.values(curve).some((value) => value.layer === null)).map((curve) => curve.measure))];
  return h("section", { class: "panel" }, h("h3", {}, `Measures of the matrices${last === null ? "" : `, step ${count(last)}`}`),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Measures of the embedding matrices" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Measure"), ...MATRICES.map(([, name]) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows))),
    howPanel(() => howMeasured(book, [run], used)));
}
