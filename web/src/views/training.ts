// Trajectories over training steps.

import { choice, h, replace, select } from "../dom";
import { heat } from "../chart/heat";
import { lines, type Series } from "../chart/lines";
import { pointKey, pointTick, pointTitle, type Book, type Run } from "../data/run";
import type { Curve, Value } from "../data/layers";
import { Figure } from "../figure";
import { howMeasured, selectionOption } from "../how";
import { phraseOf } from "../states";
import { note, route } from "../state";
import { capital, count, measureTitle } from "../text";
import { seriesColour, viridisColour } from "../theme";
import { chosenRun, fileName, heading, runSelect, type View } from "./common";
import { layerTicks } from "./profiles";

const has = (run: Run): boolean => run.steps.length > 1;

export const training: View = {
  name: "training",
  title: "Training",
  absent: (book) => (book.runs.some(has) ? null : "No run has training steps; `layerscope track` measures the checkpoints of one model."),
  show,
};

function show(book: Book, host: HTMLElement): void {
  const inside = h("div", { class: "stack" });
  const start = (run: Run) => { note({ run: run.key }); build(book, run, inside, start); };
  host.append(heading("Over training", "The same measures at every checkpoint. Step 0 is the model before training."), inside);
  build(book, chosenRun(book, has), inside, start);
}

function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): void {
  const params = route().params;
  const measures = [...new Set(run.layers.all().map((curve) => curve.measure))];
  const wanted = params.get("measure");
  let measure = wanted && measures.includes(wanted) ? wanted : measures.includes("anisotropy_svd") ? "anisotropy_svd" : measures[0]!;
  let curve: Curve = run.layers.plain(measure)!;
  let log = false;
  const controls = h("div", { class: "controls" });
  const figures = h("div", { class: "stack" });
  const refresh = () => {
    note({ measure });
    const curves = run.layers.of(measure);
    replace(controls, runSelect(book, has, run, restart),
      select("Measure", measures.map((name) => ({ value: name, label: measureTitle(name), group: book.measures.get(name)?.family ?? "other" })), measure, (value) => { measure = value; curve = run.layers.plain(value)!; refresh(); }),
      curves.length > 1 && select("Variant, over", curves.map((own, i) => ({ value: String(i), label: `${own.variant ?? "plain"}, ${selectionOption(run.layers.selection(own))}` })), String(curves.findIndex((own) => own.variant === curve.variant && own.selection === curve.selection)), (value) => { curve = curves[Number(value)]!; refresh(); }),
      choice("Scale", [{ value: "linear", label: "Linear" }, { value: "log", label: "Log" }], log ? "log" : "linear", (value) => { log = value === "log"; refresh(); }));
    replace(figures, ...drawings(book, run, curve, log));
  };
  refresh();
  replace(host, controls, figures);
}

function drawings(book: Book, run: Run, curve: Curve, log: boolean): (Node | null)[] {
  const values = run.layers.values(curve);
  const title = measureTitle(curve.measure);
  const terms = { [capital(title)]: curve.measure };
  const states = phraseOf(run.layers.selection(curve));
  const how = () => howMeasured(book, [run], [curve.measure], curve);
  const sheet = () => ({ names: ["step", "layer", "point", "value", "se", "n"], rows: values.map((value) => [value.step, value.layer, value.point, value.value, value.se, value.n]) });
  const layered = values.filter((value) => value.layer !== null);
  const steps = run.steps.filter((step) => values.some((value) => value.step === step));
  if (layered.length === 0) return [embeddings(run, curve, values, steps, title, how, sheet, log)];
  const points = [...new Map(layered.map((value) => [pointKey(value.layer, value.point), value])).entries()].sort((a, b) => a[1].layer! - b[1].layer! || (a[0] < b[0] ? -1 : 1));
  const lookup = new Map(layered.map((value) => [`${value.step}/${pointKey(value.layer, value.point)}`, value.value]));
  const map = new Figure({
    name: fileName("steps", curve.measure, run.label), title: `${capital(title)}, step by layer`, terms, states,
    draw: (width, say) => heat({
      width, say, log, xLabel: "layer", yLabel: "step", label: "", description: `${title} at ${steps.length} steps and ${points.length} points`,
      columns: points.map(([key, value]) => ({ label: pointTick(key, value.layer), title: pointTitle(value.layer, value.point) })),
      rows: steps.map((step) => ({ label: count(step), title: `step ${count(step)}` })),
      value: (row, column) => lookup.get(`${steps[row]}/${points[column]![0]}`) ?? NaN,
    }), sheet, how,
  });
  const byStep: Series[] = steps.map((step, i) => {
    const profile = run.layers.profile(curve, step);
    return { name: `step ${count(step)}`, colour: viridisColour(i / Math.max(1, steps.length - 1)), shape: steps.length > 12 ? -1 : i, points: profile.values.map((value) => ({ x: value.layer!, y: value.value })), aside: profile.before ? { x: profile.before.layer!, y: profile.before.value } : null };
  });
  const profile = new Figure({
    name: fileName("profile-per-step", curve.measure, run.label), title: `${capital(title)} per step`, terms, states, note: byStep.some((own) => own.aside) ? "Hollow: the last block, before the final norm." : "",
    draw: (width, say) => lines({ width, height: 320, series: byStep, say, x: { label: "layer", ticks: layerTicks(byStep), format: (x) => `layer ${x}` }, y: { label: title, log }, description: `${title} against layer, one curve per step` }), sheet, how,
  });
  return [map.element, h("div", { class: "grid two" }, profile.element, overSteps(run, curve, layered, steps, title, how, log).element)];
}

/** The mean over layers, and the last block against the final norm. */
function overSteps(run: Run, curve: Curve, layered: Value[], steps: number[], title: string, how: () => Node, log: boolean): Figure {
  // As the reference library counts layers: the last one once, after its norm.
  const mean = (step: number) => {
    const own = run.layers.profile(curve, step).values.filter((value) => Number.isFinite(value.value));
    return own.reduce((sum, value) => sum + value.value, 0) / own.length;
  };
  const norm = layered.find((value) => value.point === "final_norm");
  const at = (step: number, after: boolean) => layered.find((value) => value.step === step && value.layer === norm?.layer && value.point === (after ? "final_norm" : "block"))?.value ?? NaN;
  const x = (step: number) => Math.log10(1 + step);
  const curves: [string, (step: number) => number][] = [["mean over the layers", mean]];
  if (norm) curves.push(["before the final norm", (step) => at(step, false)], ["after it", (step) => at(step, true)]);
  // Embedding matrices have the measure too, where it is one of rows of a matrix.
  const matrices = run.layers.values(curve).filter((value) => value.layer === null);
  for (const point of new Set(matrices.map((value) => value.point))) curves.push([point.replace(/_/g, " "), (step) => matrices.find((value) => value.step === step && value.point === point)?.value ?? NaN]);
  const made = curves.map(([name, value], i) => ({ name, colour: seriesColour(i), shape: i, points: steps.map((step) => ({ x: x(step), y: value(step) })), dashed: i === 0 }));
  return new Figure({
    name: fileName("over-steps", curve.measure, run.label), title: `${capital(title)} against step`, terms: { [capital(title)]: curve.measure }, states: phraseOf(run.layers.selection(curve)), note: "Steps on a logarithmic axis of 1 + step.",
    draw: (width, say) => lines({ width, height: 320, series: made, say, x: { label: "step", ticks: steps.map((step) => ({ at: x(step), label: count(step) })), format: (place) => `step ${count(10 ** place - 1)}` }, y: { label: title, log }, description: `${title} against training step` }),
    sheet: () => ({ names: ["step", ...curves.map(([name]) => name)], rows: steps.map((step) => [step, ...curves.map(([, value]) => value(step))]) }), how,
  });
}

/** Measures of the embedding matrices, which have no layer. */
function embeddings(run: Run, curve: Curve, values: Value[], steps: number[], title: string, how: () => Node, sheet: () => any, log: boolean): HTMLElement {
  const points = [...new Set(values.map((value) => value.point))];
  const made = points.map((point, i) => ({ name: point.replace(/_/g, " "), colour: seriesColour(i), shape: i, points: steps.map((step) => ({ x: Math.log10(1 + step), y: values.find((value) => value.step === step && value.point === point)?.value ?? NaN })) }));
  return new Figure({
    name: fileName("weights", run.label), title: `${capital(title)} of the embedding matrices`, terms: { [capital(title)]: curve.measure }, states: "", note: "Steps on a logarithmic axis of 1 + step.",
    draw: (width, say) => lines({ width, height: 320, series: made, say, x: { label: "step", ticks: steps.map((step) => ({ at: Math.log10(1 + step), label: count(step) })), format: (place) => `step ${count(10 ** place - 1)}` }, y: { label: title, log }, description: `${title} of the embedding matrices against training step` }), sheet, how,
  }).element;
}
