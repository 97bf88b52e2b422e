// Distributions of Q, M, V and n over the groups in the range; chosen groups in front, pins and the aim as marks.

import { h, replace } from "../../dom";
import { bars } from "../../chart/histogram";
import { Figure, howPanel } from "../../figure";
import { DEFINITIONS, howDefined } from "../../how";
import { edge, extent, histogram, quantile, sorted } from "../../stats/spread";
import { seriesColour } from "../../theme";
import { fileName } from "../common";
import type { Session } from "./session";

const BINS = 50;
const COLUMNS: [string, string][] = [["q", "Q(Xₜ)"], ["m", "M(Xₜ)"], ["v", "V(Xₜ)"], ["log_n", "log₁₀ nₜ"]];

export interface Histograms {
  element: HTMLElement;
  redraw: () => void;
}

export function histograms(session: Session): Histograms {
  const everyone = Uint32Array.from({ length: session.names.rows }, (_, i) => i);
  const limits = new Map<string, { domain: [number, number]; mean: number }>();
  const figures = COLUMNS.map(([column, label]) => {
    const values = () => (column === "log_n" ? session.logN : session.table.reals(column));
    const counted = () => {
      const own = values();
      const places = column === "log_n" ? everyone : session.inside;
      const key = [column, column === "log_n" && !session.table.has("n") ? "" : session.place, session.range.minimum, session.range.maximum].join();
      let known = limits.get(key);
      if (!known) {
        const order = sorted(own, places);
        const top = column === "log_n" ? order.at(-1)! : quantile(order, 0.99);
        const [low] = extent(order);
        known = { domain: order.length > 0 && low < top ? [low, top] : [low - 0.5, low + 0.5], mean: order.reduce((sum, value) => sum + value, 0) / order.length };
        limits.set(key, known);
      }
      return { own, places, ...known, counts: histogram(own, places, ...known.domain, BINS) };
    };
    return new Figure({
      name: fileName("histogram", column, session.run.label), title: label, terms: { [label]: column }, small: true,
      draw: (width) => {
        if (!session.table) return null;
        const { own, domain, mean, counts } = counted();
        const part = session.chosen ? histogram(own, session.chosen, ...domain, BINS) : column === "log_n" ? histogram(own, session.inside, ...domain, BINS) : null;
        const marks = session.pins.map((place, i) => ({ value: own[place]!, colour: seriesColour(i) }));
        return bars({ width, height: 190, label, domain, counts, part, marks, mean: column === "log_n" ? undefined : mean, yLabel: column === "log_n" ? "groups, log" : "groups", log: column === "log_n", description: `Histogram of ${label} over ${counts.reduce((sum, one) => sum + one, 0)} groups, ${session.point.title}` });
      },
      sheet: () => {
        const { domain, counts } = counted();
        return { names: ["from", "to", "groups"], rows: Array.from(counts, (own, i) => [edge(...domain, BINS, i), edge(...domain, BINS, i + 1), own]) };
      },
    });
  });
  const how = () => howDefined([session.run], [...DEFINITIONS.slice(0, 4), ["Q, M, V", "groups in the range, values below their 99th percentile, 50 bins; the line is the mean of all of them"], ["n", "all groups, 50 bins of log₁₀ n; those in the range in colour"]]);
  const element = h("section", { class: "panel" });
  replace(element, h("h3", {}, "Distributions"), h("p", { class: "note" }, "Over the groups in the range, below the 99th percentile. Triangles are pinned tokens; groups you drew around stand in front."), h("div", { class: "grid four" }, ...figures.map((figure) => figure.element)), howPanel(how));
  return { element, redraw: () => figures.forEach((figure) => figure.redrawInTime()) };
}
