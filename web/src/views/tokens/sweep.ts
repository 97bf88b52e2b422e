// Is the range of frequencies harmless? C.V., slope and R² as its bounds move, one curve per layer.

import { h, replace } from "../../dom";
import { lines, type Series } from "../../chart/lines";
import { Figure, howPanel } from "../../figure";
import type { Book } from "../../data/run";
import { howMeasured } from "../../how";
import { fitLine, variation } from "../../stats/line";
import { count } from "../../text";
import { viridisColour } from "../../theme";
import { fileName } from "../common";
import type { Session } from "./session";

const LOWEST = [1, 2, 5, 10, 20, 50, 100, 200];
const HIGHEST = [100, 200, 500, 1000, 2000, 5000, 10_000, 100_000, 1_000_000];
const MEASURES: [string, string][] = [["cv_q", "C.V. of Q"], ["slope_v_on_m", "slope of V on M"], ["r2_v_on_m", "R² of V on M"]];

interface Row {
  sweep: "minimum" | "maximum";
  minimum: number;
  maximum: number;
  layer: number | null;
  point: string;
  place: number;
  values: number[];
}

/** A panel that computes when it is opened, and again when the range changes while it is open. */
export function sweepPanel(book: Book, session: Session): { element: HTMLElement; refresh: () => void } {
  const inside = h("div", { class: "stack" });
  const panel = h("details", { class: "panel", id: "sweep" }, h("summary", {}, h("span", { class: "summary-title" }, "Does the range of frequencies matter?")), inside);
  let asked = 0;
  const refresh = () => {
    if (!panel.open) return;
    const ticket = ++asked;
    void compute(session, () => ticket !== asked).then((rows) => rows && replace(inside, ...drawings(book, session, rows)));
  };
  panel.addEventListener("toggle", refresh);
  return { element: panel, refresh };
}

async function compute(session: Session, stale: () => boolean): Promise<Row[] | null> {
  const most = session.names.reals("n").reduce((a, b) => Math.max(a, b), 1);
  const end = HIGHEST.findIndex((bound) => bound >= most); // beyond the most frequent group nothing changes any more
  const { minimum, maximum } = session.range;
  const ranges = [
    ...LOWEST.filter((bound) => bound <= most).map((bound) => ({ sweep: "minimum" as const, minimum: bound, maximum })),
    ...HIGHEST.slice(0, end < 0 ? HIGHEST.length : end + 1).map((bound) => ({ sweep: "maximum" as const, minimum, maximum: bound })),
  ];
  const rows: Row[] = [];
  for (const [place, point] of session.points.entries()) {
    const table = await session.run.at(point);
    const n = session.countsAt(table);
    const [q, m, v] = ["q", "m", "v"].map((name) => table.reals(name)) as [Float64Array, Float64Array, Float64Array];
    for (const range of ranges) {
      const { inside } = session.split(n, range);
      const { line } = fitLine(m, v, inside);
      rows.push({ ...range, layer: point.layer, point: point.point, place, values: [variation(q, inside), line?.slope ?? NaN, line?.r2 ?? NaN] });
    }
    await new Promise((resolve) => setTimeout(resolve)); // a slider in motion goes first
    if (stale()) return null;
  }
  return rows;
}

function drawings(book: Book, session: Session, rows: Row[]): Node[] {
  const last = Math.max(1, session.points.length - 1);
  const figure = (sweep: Row["sweep"], index: number) => {
    const [measure, label] = MEASURES[index]!;
    const own = rows.filter((row) => row.sweep === sweep);
    const series: Series[] = session.points.map((point, place) => ({
      name: point.title, colour: viridisColour(place / last), shape: -1, width: 1.3,
      points: own.filter((row) => row.place === place).map((row) => ({ x: row[sweep], y: row.values[index]! })),
    }));
    return new Figure({
      name: fileName("sweep", sweep, measure, session.run.label), title: `${label}, ${sweep === "minimum" ? "smallest" : "largest"} n`, terms: { [label]: measure }, small: true,
      draw: (width) => lines({ width, height: 220, series, legend: false, mark: session.range[sweep], x: { label: `${sweep === "minimum" ? "smallest" : "largest"} number of occurrences`, log: true, format: (x) => count(x) }, y: { label }, description: `${label} at ${series.length} layers as the ${sweep} of the frequency range moves` }),
      sheet: () => ({ names: ["minimum", "maximum", "layer", "point", measure], rows: own.map((row) => [row.minimum, row.maximum, row.layer, row.point, Number.isNaN(row.values[index]!) ? null : row.values[index]!]) }),
    }).element;
  };
  return [
    h("p", { class: "note" }, "One curve per layer, from dark (first) to bright (last). Above the lower bound moves, below the upper one; the line is the range that is set. Flat curves say that the choice does not matter."),
    h("div", { class: "grid three" }, ...(["minimum", "maximum"] as const).flatMap((sweep) => MEASURES.map((_, index) => figure(sweep, index)))),
    howPanel(() => howMeasured(book, [session.run], MEASURES.map(([name]) => name))),
  ];
}
