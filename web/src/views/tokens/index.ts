// V against M, layer by layer.

import { choice, h, replace, select, toggle } from "../../dom";
import { lines } from "../../chart/lines";
import { pointTick, type Book, type Run } from "../../data/run";
import { FEW_GROUPS } from "../../few";
import { Figure, howPanel } from "../../figure";
import { howMeasured } from "../../how";
import { note, route } from "../../state";
import type { Fit } from "../../stats/line";
import { term } from "../../term";
import { count, fixed3, number } from "../../text";
import { theme } from "../../theme";
import { anyRun, chosenPoint, chosenRun, fileName, heading, pointSlider, runSelect, type View } from "../common";
import { frequencyFilter } from "./frequency";
import { histograms } from "./histograms";
import { pinList, tracks } from "./pins";
import { Scatter } from "./scatter";
import { searchBox } from "./search";
import { AXES, PINS, Session, symbol } from "./session";
import { sweepPanel } from "./sweep";

const has = (run: Run): boolean => run.hasGroups;

export const tokens: View = {
  name: "tokens",
  title: "Tokens",
  absent: (book) => (anyRun(book, has) ? null : "No run has a table of groups (--group none and `layerscope weights` have none)."),
  show: (book, host) => {
    const inside = h("div", { class: "stack" });
    host.append(heading("The trade-off of norm and variance", "Each point is a group of states, here a token: the squared norm of its mean, and how much it varies with context. Where a norm fixes Q, they fall on a line of slope -1. The line is fitted to the groups in the range, as you move."), inside);
    const start = (run: Run) => {
      note({ run: run.key });
      void run.named().then(() => build(book, run, inside, start));
    };
    const first = chosenRun(book, has);
    if (first.groups) build(book, first, inside, start);
    else void first.named().then(() => build(book, first, inside, start));
  },
};

function build(book: Book, run: Run, host: HTMLElement, restart: (run: Run) => void): void {
  const params = route().params;
  const range = { ...(book.frequency ?? run.frequency ?? { minimum: 1, maximum: 1e9 }) };
  if (params.has("min")) range.minimum = Number(params.get("min")) || 1;
  if (params.has("max")) range.maximum = Number(params.get("max")) || range.maximum;
  const session = new Session(run, chosenPoint(run, "groups"), range);
  const scatter = new Scatter(session, { full: false, log: false, others: true, kept: false, subwords: session.hasSubwords && run.manifest.grouping === "word" });
  const slider = pointSlider(session.points, session.place, (place) => void session.move(place));
  const fit = h("div", { class: "fit", role: "status" });
  const chosen = h("div", {});
  const pins = h("div", {});
  const distribution = histograms(session);
  const paths = tracks(session);
  const bounds = sweepPanel(book, session);
  const sweep = trend(book, session, (place) => { slider.set(place); note({ at: session.points[place]!.key }); void session.move(place); });
  const option = (name: "full" | "log" | "others" | "kept", label: string) => toggle(label, scatter.options[name], (value) => { scatter.options[name] = value; scatter.figure.redraw(); });
  replace(host,
    h("div", { class: "controls" }, runSelect(book, has, run, restart),
      select("Plot", AXES.map(({ x, y }, i) => ({ value: String(i), label: `${symbol(y)} against ${symbol(x)}` })), String(AXES.indexOf(session.axes)), (value) => session.plot(AXES[Number(value)]!)), slider.element),
    h("div", { class: "with-side" },
      h("div", {}, scatter.figure.element),
      h("aside", { class: "side", "aria-label": "Filter, regression and pinned tokens" },
        fit, frequencyFilter(session), searchBox(session),
        h("div", { class: "toggles" }, option("log", "Logarithmic axes"), option("full", "All points, outliers too"), option("others", "Groups outside the range, faint"), run.points.tokens.length > 0 && option("kept", "Names of the kept tokens")),
        session.hasSubwords && choice("Colour", [{ value: "n", label: "Occurrences" }, { value: "subwords", label: "Subwords" }], scatter.options.subwords ? "subwords" : "n", (value) => { scatter.options.subwords = value === "subwords"; scatter.figure.redraw(); }),
        chosen, h("h4", {}, "Pinned"), pins)),
    sweep.element, distribution.element, paths.element, bounds.element);
  session.on((change) => {
    if (change === "aim") return scatter.drawAim();
    scatter.figure.redraw();
    if (change === "point" || change === "filter") {
      replace(fit, ...fitLines(session));
      sweep.redraw();
    }
    if (change === "filter") {
      void sweep.compute();
      bounds.refresh();
    }
    if (change !== "chosen") replace(pins, pinList(session));
    replace(chosen, ...chosenLines(session));
    distribution.redraw();
    if (change === "pins") void paths.redraw();
  });
  void session.move(session.place).then(() => Promise.all([sweep.compute(), paths.redraw()]));
  void session.findKept().then(() => scatter.options.kept && scatter.figure.redraw());
}

function fitLines({ fit, axes }: Session): Node[] {
  const value = (label: string, own: number, name: string) => h("div", {}, h("span", {}, term(`${name}_${axes.y}_on_${axes.x}`, label)), h("b", { "data-name": name, "data-value": String(own), title: String(own) }, name === "intercept" ? number(own) : fixed3(own)));
  if (!fit.line) return [h("p", { class: "note" }, `No line: ${fit.n < 3 ? "fewer than three groups" : `no spread of ${symbol(axes.x)}`} (${count(fit.n)} groups).`)];
  return [
    h("div", { class: "numbers" }, value("slope", fit.line.slope, "slope"), value("R²", fit.line.r2, "r2"), value("intercept", fit.line.intercept, "intercept")),
    h("p", { class: "note" }, `${symbol(axes.y)} = intercept + slope · ${symbol(axes.x)} over `, h("span", { "data-name": "groups", "data-value": fit.n, class: fit.n < FEW_GROUPS ? "warning" : null }, `${fit.n < FEW_GROUPS ? "only " : ""}${count(fit.n)}`), " groups"),
  ];
}

function chosenLines(session: Session): Node[] {
  if (!session.chosen) return [];
  const places = [...session.chosen].reverse(); // frequent first
  const free = PINS - session.pins.length;
  return [h("div", { class: "chosen" },
    h("p", {}, `${count(places.length)} groups chosen: ${places.slice(0, 6).map((place) => session.name(place, 16)).join(", ")}${places.length > 6 ? " …" : ""}`),
    h("button", { type: "button", disabled: free === 0, onclick: () => session.pin(places.slice(0, free)) }, free === 0 ? `All ${PINS} pins are used` : `Pin ${places.length > free ? `the ${free} most frequent` : "them"}`), " ",
    h("button", { type: "button", onclick: () => session.choose(null) }, "Clear"))];
}

/** Slope and R^2 at every point, for the range that is set now. */
function trend(book: Book, session: Session, pick: (place: number) => void) {
  let fits: (Fit | null)[] = session.points.map(() => null);
  let asked = 0;
  const isFew = () => fits.some((fit) => fit !== null && fit.n < FEW_GROUPS);
  const about = h("p", { class: "note" });
  const figure = (name: "slope" | "r2", label: string) => new Figure({
    name: fileName(name, session.run.label), title: label, small: true,
    draw: (width) => lines({
      width, height: 170, x: { label: "layer", domain: [-0.3, session.points.length - 0.7], format: (x) => session.points[x]!.title, ticks: session.points.map((point, i) => ({ at: i, label: pointTick(point.key, point.layer) })) },
      y: { label: name === "r2" ? "R²" : "slope" }, mark: session.place, pick,
      series: [{ name: label, colour: theme().series[0]!, shape: 0, dashed: isFew(), points: fits.map((fit, i) => ({ x: i, y: fit?.line?.[name] ?? NaN })) }],
      description: `${label} at every layer for the range that is set`,
    }),
    sheet: () => ({ names: ["layer", "point", "slope", "intercept", "r2", "groups"], rows: session.points.map((point, i) => [point.layer, point.point, fits[i]?.line?.slope ?? null, fits[i]?.line?.intercept ?? null, fits[i]?.line?.r2 ?? null, fits[i]?.n ?? null]) }),
  });
  const figures = [figure("slope", "Slope"), figure("r2", "R²")];
  const redraw = () => {
    about.textContent = `For the range that is set; click to go to a layer.${isFew() ? ` Dashed: some layers have fewer than ${FEW_GROUPS} groups, of which a few decide.` : ""}`;
    figures.forEach((own) => own.redrawInTime());
  };
  redraw();
  return {
    element: h("section", { class: "panel" }, h("h3", {}, "The same line at every layer"), about, h("div", { class: "grid two" }, ...figures.map((own) => own.element)), howPanel(() => howMeasured(book, [session.run], ["slope", "intercept", "r2"].map((part) => `${part}_${session.axes.y}_on_${session.axes.x}`).filter((name) => book.measures.has(name))))),
    redraw,
    compute: async () => {
      const ticket = ++asked;
      const made: (Fit | null)[] = [];
      for (const point of session.points) {
        made.push(session.fitAt(await session.run.at(point)));
        await new Promise((resolve) => setTimeout(resolve)); // a slider in motion goes first
        if (ticket !== asked) return;
      }
      fits = made;
      redraw();
    },
  };
}
