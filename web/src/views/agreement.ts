// Do the two notions of anisotropy agree? M/Q against mean cosine, one point per layer and model.

import { h, s } from "../dom";
import { frame, marker, round } from "../chart/frame";
import { addLegend } from "../chart/lines";
import { padded } from "../chart/scale";
import type { Profile, Value } from "../data/layers";
import type { Book, Run } from "../data/run";
import { pointTitle } from "../data/run";
import { Figure } from "../figure";
import { howMeasured } from "../how";
import { extent } from "../stats/spread";
import { spearman } from "../stats/rank";
import { fixed3, number, visible } from "../text";
import { seriesColour, theme } from "../theme";

interface Pair {
  run: Run;
  at: Value;
  cosine: number;
  share: number;
  /** The last block, before the final norm: drawn hollow, not ranked. */
  before: boolean;
}

/** The section; null where no run has both measures. */
export function agreement(book: Book): HTMLElement | null {
  const pairs = book.runs.flatMap(pairsOf);
  const ranked = pairs.filter((pair) => !pair.before);
  if (ranked.length === 0) return null;
  const rho = spearman(ranked.map((pair) => pair.cosine), ranked.map((pair) => pair.share));
  const figure = new Figure({
    name: "agreement", title: "M / Q against mean cosine", terms: { "M / Q": "m_over_q", "mean cosine": "mean_cosine" },
    note: `${Number.isNaN(rho) ? "" : `Spearman’s ρ ${fixed3(rho)} over ${ranked.length} points. `}One point per layer; the dashed line is where both are equal.${pairs.some((pair) => pair.before) ? " Hollow: the last block, before the final norm." : ""}`,
    draw: (width, say) => draw(pairs, width, say),
    sheet: () => ({ names: ["model", "layer", "point", "mean_cosine", "m_over_q"], rows: pairs.map((pair) => [pair.run.label, pair.at.layer, pair.at.point, pair.cosine, pair.share]) }),
    how: () => howMeasured(book, book.runs, ["mean_cosine", "m_over_q"], { selection: book.runs[0]?.layers.plain("mean_cosine")?.selection }),
  });
  return h("section", { class: "panel" }, h("h3", {}, "Do the two notions of anisotropy agree?"), figure.element);
}

function pairsOf(run: Run): Pair[] {
  const selection = run.layers.plain("mean_cosine")?.selection ?? "all";
  const [cosine, share] = ["mean_cosine", "m_over_q"].map((measure) => run.layers.profile({ measure, variant: null, selection })) as [Profile, Profile];
  const all = ({ values, before }: Profile): Value[] => (before ? [...values, before] : values);
  return all(cosine).flatMap((at) => {
    const other = all(share).find((own) => own.layer === at.layer && own.point === at.point);
    return other && Number.isFinite(at.value) && Number.isFinite(other.value) ? [{ run, at, cosine: at.value, share: other.value, before: at === cosine.before }] : [];
  });
}

function draw(pairs: Pair[], width: number, say: (text: string) => void): SVGSVGElement {
  const made = frame({
    width, height: Math.min(420, Math.max(280, width * 0.5)), description: `M over Q against mean cosine at ${pairs.length} points`,
    x: { domain: padded(extent([0, ...pairs.map((pair) => pair.cosine)])), label: "mean cosine" }, y: { domain: padded(extent([0, ...pairs.map((pair) => pair.share)])), label: "M / Q" },
  });
  const [low, high] = [Math.max(made.x.domain[0], made.y.domain[0]), Math.min(made.x.domain[1], made.y.domain[1])];
  made.body.append(s("line", { x1: round(made.x(low)), y1: round(made.y(low)), x2: round(made.x(high)), y2: round(made.y(high)), stroke: theme().axis, "stroke-dasharray": "5 4" }));
  for (const run of new Set(pairs.map((pair) => pair.run))) {
    const own = pairs.filter((pair) => pair.run === run && !pair.before);
    made.body.append(s("path", { d: own.map((pair, i) => `${i ? "L" : "M"}${round(made.x(pair.cosine))} ${round(made.y(pair.share))}`).join(""), fill: "none", stroke: seriesColour(run.place), "stroke-opacity": 0.5 }));
  }
  for (const pair of pairs) {
    const colour = seriesColour(pair.run.place);
    const title = `${visible(pair.run.label)}, ${pointTitle(pair.at.layer, pair.at.point)}: mean cosine ${number(pair.cosine)}, M / Q ${number(pair.share)}`;
    const mark = marker(pair.run.place, made.x(pair.cosine), made.y(pair.share), 4, pair.before ? { fill: theme().paper, stroke: colour, "stroke-width": 1.5 } : { fill: colour });
    mark.append(s("title", {}, title));
    mark.addEventListener("pointerenter", () => say(title));
    made.body.append(mark);
  }
  addLegend(made.svg, [...new Set(pairs.map((pair) => pair.run))].map((run) => ({ name: visible(run.label), colour: seriesColour(run.place), shape: run.place })));
  return made.svg;
}
