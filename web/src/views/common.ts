// What views share: the choice of run and point, and a slider over points.

import { h, prose, select, uniqueId } from "../dom";
import type { Book, Kind, Point, Run } from "../data/run";
import { note, route } from "../state";
import { visible } from "../text";

export interface View {
  name: string;
  title: string;
  /** Why the view has nothing to show, or null. */
  absent: (book: Book) => string | null;
  show: (book: Book, host: HTMLElement) => void;
}

type Has = (run: Run) => boolean;

/** The run itself, or the last step of a trajectory: the first that has what a view needs. */
const leaf = (run: Run, has: Has): Run | undefined => (has(run) ? run : run.children.findLast(has));

/** Of every run that one, where there is one. */
export const leaves = (book: Book, has: Has): Run[] => book.runs.flatMap((run) => leaf(run, has) ?? []);

/** Whether some run, or some step of one, has what a view needs. */
export const anyRun = (book: Book, has: Has): boolean => leaves(book, has).length > 0;

/** The run of the address, among those that have what the view needs. */
export function chosenRun(book: Book, has: Has): Run {
  const key = route().params.get("run") ?? "0";
  const wanted = book.runs.flatMap((run) => [run, ...run.children]).find((run) => run.key === key);
  const found = wanted && (leaf(wanted, has) ?? (wanted.parent && leaf(wanted.parent, has)));
  return found ?? leaves(book, has)[0]!;
}

/** Choices of model and training step; nothing where there is only one. */
export function runSelect(book: Book, has: Has, run: Run, change: (run: Run) => void): HTMLElement | null {
  const runs = leaves(book, has);
  const steps = run.parent?.children.filter(has) ?? [];
  const measured = Array.isArray(run.manifest.trajectory) ? run.manifest.trajectory.filter((step: any) => step?.status === "measured").length : 0;
  const top = (own: Run) => own.parent ?? own;
  const models = runs.length > 1 && select("Model", runs.map((own) => ({ value: String(own.place), label: visible(top(own).label) })), String(run.place), (value) => change(runs.find((own) => own.place === Number(value))!));
  const training = steps.length > 1 && select("Step", steps.map((own) => ({ value: own.key, label: own.step === null ? visible(own.label) : own.step.toLocaleString("en-US") })), run.key, (value) => change(steps.find((own) => own.key === value)!));
  if (!models && !training) return null;
  const some = steps.length > 0 && steps.length < measured && h("p", { class: "note" }, ...prose(`${steps.length} of ${measured} steps are in this file; \`layerscope serve\` shows all.`));
  return h("div", { class: "runs" }, models, training, some);
}

/** The point of the address, else the middle one. */
export function chosenPoint(run: Run, kind: Kind): number {
  const points = run.points[kind];
  const wanted = points.findIndex((point) => point.key === route().params.get("at"));
  if (wanted >= 0) return wanted;
  // The middle layer, as in the figures.
  const middle = Math.floor(Math.max(...points.map((point) => point.layer ?? 0)) / 2);
  return Math.max(0, points.findIndex((point) => (point.layer ?? 0) >= middle));
}

export interface PointSlider {
  element: HTMLElement;
  set: (place: number) => void;
}

/** A slider over the points of a run: arrow keys, Home and End as ever. */
export function pointSlider(points: Point[], place: number, change: (place: number) => void): PointSlider {
  const id = uniqueId("slider");
  const output = h("output", { for: id });
  const input = h("input", { type: "range", id, min: 0, max: points.length - 1, step: 1, value: place });
  const step = (by: number) => h("button", { type: "button", class: "step", "aria-label": by < 0 ? "Previous layer" : "Next layer", onclick: () => { set(at() + by); moved(); } }, by < 0 ? "‹" : "›");
  const at = () => Number(input.value);
  const title = () => {
    output.textContent = points[at()]!.title;
    input.setAttribute("aria-valuetext", points[at()]!.title);
  };
  const moved = () => {
    title();
    note({ at: points[at()]!.key });
    change(at());
  };
  const set = (value: number) => {
    input.value = String(Math.max(0, Math.min(points.length - 1, value)));
    title();
  };
  input.addEventListener("input", moved);
  title();
  return { element: h("div", { class: "slider" }, h("label", { for: id }, "Layer"), step(-1), input, step(1), output), set };
}

/** The heading of a view. */
export const heading = (title: string, text: string): HTMLElement => h("header", { class: "view-head" }, h("h2", { tabindex: -1 }, title), h("p", {}, text));

/** One line instead of a figure. */
export const absence = (text: string): HTMLElement => h("p", { class: "absent" }, ...prose(text));

/** A file name from a run's label and more. */
export const fileName = (...parts: string[]): string => parts.map((part) => part.replace(/[^\w.-]+/g, "-").slice(0, 60)).join("-");
