// Eigenvalues of the covariance, all layers of a model or one layer of all.

import { choice, h, replace } from "../dom";
import { lines, type Series } from "../chart/lines";
import type { Book, Run } from "../data/run";
import { Figure } from "../figure";
import { howDefined } from "../how";
import { note, route } from "../state";
import { visible } from "../text";
import { seriesColour, theme, viridisColour } from "../theme";
import { anyRun, chosenPoint, chosenRun, fileName, heading, leaves, pointSlider, runSelect, type View } from "./common";

const has = (run: Run): boolean => run.points.spectra.length > 0;

export const spectrum: View = {
  name: "spectrum",
  title: "Spectrum",
  absent: (book) => (anyRun(book, has) ? null : "No run has spectra (the family `spectrum` was not measured)."),
  show: (book, host) => {
    const inside = h("div", { class: "stack" });
    const start = (run: Run) => { note({ run: run.key }); build(book, run, inside, start); };
    host.append(heading("Spectrum of the covariance", "How the variance spreads over directions: a flat curve is isotropic, a steep one lies along few."), inside);
    build(book, chosenRun(book, has), inside, start);
  },
};

function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): void {
  const points = run.points.spectra;
  let place = chosenPoint(run, "spectra");
  let share = route().params.get("of") === "share";
  let models = false;
  let series: Series[] = [];
  // Models beside each other; of a single training, its steps.
  const training = leaves(book, has).length < 2;
  const others = training ? (run.parent?.children.filter(has) ?? []) : leaves(book, has);
  const curve = async (own: Run, k: number) => {
    const table = await own.at(own.points.spectra[k]!);
    const [ranks, values] = [table.reals("rank"), table.reals("eigenvalue")];
    const total = share ? values.reduce((sum, value) => sum + (value || 0), 0) : 1;
    return Array.from(ranks, (x, i) => ({ x, y: values[i]! / total })).sort((a, b) => a.x - b.x);
  };
  const figure = new Figure({
    name: fileName("spectrum", run.label), title: "Eigenvalues by rank", note: `Both axes logarithmic. Layers: thin curves from dark (first) to bright (last), the chosen one thick.${others.length > 1 ? (training ? " Steps: the chosen layer during training, from dark to bright." : " Models: each at the same relative depth.") : ""}`,
    draw: (width, say) => series.length === 0 ? null : lines({ width, height: Math.min(460, Math.max(300, width * 0.5)), series, legend: models, say, x: { label: "rank", log: true, format: (x) => `rank ${x}` }, y: { label: share ? "share of the variance" : "eigenvalue λ", log: true }, description: `Eigenvalues of the covariance by rank, ${points[place]!.title}` }),
    sheet: async () => ({ names: ["model", "layer", "point", "rank", share ? "share" : "eigenvalue"], rows: (await Promise.all(points.map(async (point, k) => (await curve(run, k)).map(({ x, y }) => [run.label, point.layer, point.point, x, y] as (string | number | null)[])))).flat() }),
    how: () => howDefined([run], [["λ", "eigenvalues of the covariance of the states that are shown, at the point (divisor n − 1), sorted; those below 1e-12 of the largest count as 0"], ["anisotropy", "λ₁ / Σλ"], ["participation ratio", "(Σλ)² / Σλ²"]]),
  });
  let asked = 0;
  const refresh = async () => {
    const ticket = ++asked;
    const made: Series[] = [];
    if (models) {
      for (const [i, own] of others.entries()) {
        const k = Math.min(own.points.spectra.length - 1, Math.round((place / Math.max(1, points.length - 1)) * (own.points.spectra.length - 1)));
        made.push({ name: `${visible(own.label)}, ${own.points.spectra[k]!.title}`, colour: training ? viridisColour(i / Math.max(1, others.length - 1)) : seriesColour(own.place), shape: -1, points: await curve(own, k), width: 2.2 });
      }
    } else {
      for (let k = 0; k < points.length; k++) if (k !== place) made.push({ name: points[k]!.title, colour: viridisColour(k / Math.max(1, points.length - 1)), shape: -1, points: await curve(run, k), width: 1 });
      made.push({ name: points[place]!.title, colour: theme().ink, shape: -1, points: await curve(run, place), width: 2.6 });
    }
    if (ticket !== asked) return;
    series = made;
    figure.redraw();
  };
  const slider = pointSlider(points, place, (value) => { place = value; void refresh(); });
  replace(host, h("div", { class: "controls" }, runSelect(book, has, run, restart), slider.element,
    choice("Show", [{ value: "value", label: "Eigenvalues" }, { value: "share", label: "Shares" }], share ? "share" : "value", (value) => { share = value === "share"; note({ of: share ? "share" : null }); void refresh(); }),
    others.length > 1 ? choice("Curves", [{ value: "layers", label: "Layers" }, { value: "models", label: training ? "Steps" : "Models" }], "layers", (value) => { models = value === "models"; void refresh(); }) : null),
    figure.element);
  void refresh();
}
