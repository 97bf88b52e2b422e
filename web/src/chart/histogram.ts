// Bars of a distribution, with a part of it in front and single values marked.

import { s } from "../dom";
import { theme } from "../theme";
import { number } from "../text";
import { frame, round } from "./frame";

export interface HistogramOptions {
  width: number;
  height: number;
  label: string;
  description: string;
  domain: [number, number];
  counts: Uint32Array;
  /** Of the chosen points only. */
  part?: Uint32Array | null;
  /** A line at the mean. */
  mean?: number;
  marks?: { value: number; colour: string }[];
  yLabel: string;
  log?: boolean;
}

/** Draws the bars. */
export function bars(options: HistogramOptions): SVGSVGElement {
  const { quiet, accent, axis, ink } = theme();
  const top = Math.max(1, ...options.counts);
  const made = frame({
    width: options.width, height: options.height, description: options.description,
    x: { domain: options.domain, label: options.label },
    y: { domain: options.log ? [0.7, top * 1.2] : [0, top * 1.18], log: options.log, whole: true, label: options.yLabel },
  });
  const step = made.width / options.counts.length;
  const [low, high] = options.domain;
  // One path for all bars: they are drawn anew with every step of a slider.
  const draw = (counts: Uint32Array, fill: string) => {
    const wide = round(Math.max(0.5, step - 1));
    let d = "";
    counts.forEach((own, i) => { if (own > 0) d += `M${round(i * step + 0.5)} ${made.height}V${round(made.y(own))}h${wide}V${made.height}z`; });
    made.body.append(s("path", { d, fill }));
  };
  draw(options.counts, options.part ? theme().ghost : axis);
  if (options.part) draw(options.part, accent);
  if (options.mean !== undefined && Number.isFinite(options.mean) && options.mean >= low && options.mean <= high) {
    const x = round(made.x(options.mean));
    made.body.append(s("line", { x1: x, x2: x, y1: 0, y2: made.height, stroke: ink, "stroke-dasharray": "4 3" }));
    const right = x > made.width * 0.7;
    made.body.append(s("text", { x: x + (right ? -5 : 5), y: 11, "text-anchor": right ? "end" : "start", fill: quiet, "font-size": 11 }, `mean ${number(options.mean)}`));
  }
  for (const mark of options.marks ?? []) {
    if (!(mark.value >= low && mark.value <= high)) continue;
    const x = round(made.x(mark.value));
    made.body.append(s("path", { d: `M${x} ${made.height}l-5 -11h10z`, fill: mark.colour, stroke: theme().paper }));
  }
  return made.svg;
}
