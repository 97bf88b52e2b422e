// A grid of coloured cells with its scale of colours.

import { s } from "../dom";
import { count, number } from "../text";
import { inkOn, theme, viridisColour } from "../theme";
import { FONT, TEXT, round, textWidth } from "./frame";
import { scale, tickLabels } from "./scale";
import { extent } from "../stats/spread";

export interface HeatOptions {
  width: number;
  columns: { label: string; title: string }[];
  rows: { label: string; title: string }[];
  value: (row: number, column: number) => number;
  xLabel: string;
  yLabel: string;
  label: string;
  log?: boolean;
  /** Counts instead of measures. */
  whole?: boolean;
  description: string;
  say?: (text: string) => void;
}

/** Draws the cells; undefined ones stay empty. */
export function heat(options: HeatOptions): SVGSVGElement {
  const { ink, quiet, paper, line } = theme();
  const written = (value: number, digits?: number) => (options.whole ? count(value) : number(value, digits));
  const values = options.rows.map((_, row) => options.columns.map((_, column) => options.value(row, column)));
  const shown = values.flat().filter((value) => Number.isFinite(value) && (!options.log || value > 0));
  const domain = extent(shown);
  const share = options.log ? scale(domain, [0, 1], true) : scale(domain, [0, 1]);
  const left = Math.max(textWidth(options.yLabel), ...options.rows.map((row) => textWidth(row.label))) + 18;
  const right = 74;
  const width = Math.max(40, options.width - left - right);
  const cell = width / options.columns.length;
  const tall = Math.max(16, Math.min(28, 360 / options.rows.length));
  const height = tall * options.rows.length;
  const top = 30;
  const svg = s("svg", {
    xmlns: "http://www.w3.org/2000/svg", width: options.width, height: top + height + 52, viewBox: `0 0 ${options.width} ${top + height + 52}`,
    role: "img", "aria-label": options.description, "font-family": FONT, "font-size": TEXT, fill: ink,
  });
  svg.append(s("rect", { class: "paper", width: "100%", height: "100%", fill: paper, "fill-opacity": 0 }));
  const body = s("g", { transform: `translate(${left} ${top})` });
  svg.append(body, s("text", { class: "y-label", x: 4, y: 15 }, options.yLabel));
  const write = cell > 44 && tall >= 18;
  values.forEach((row, i) => {
    body.append(s("text", { x: -8, y: round((i + 0.5) * tall), dy: "0.35em", "text-anchor": "end", fill: quiet }, options.rows[i]!.label));
    row.forEach((value, j) => {
      const place = { x: round(j * cell), y: round(i * tall), width: round(cell - 1), height: round(tall - 1) };
      const known = Number.isFinite(value) && (!options.log || value > 0);
      const rect = s("rect", { ...place, fill: known ? viridisColour(share(value)) : "none", stroke: known ? null : line });
      const title = `${options.rows[i]!.title}, ${options.columns[j]!.title}: ${written(value)}`;
      rect.append(s("title", {}, title));
      rect.addEventListener("pointerenter", () => options.say?.(title));
      rect.addEventListener("pointerleave", () => options.say?.(""));
      body.append(rect);
      if (write && known) body.append(s("text", { x: round((j + 0.5) * cell), y: round((i + 0.5) * tall), dy: "0.35em", "text-anchor": "middle", "font-size": 11, fill: inkOn(share(value)), "pointer-events": "none" }, written(value, 3)));
    });
  });
  // From the last one back: it is the point after the final norm.
  const every = Math.ceil((Math.max(...options.columns.map((column) => textWidth(column.label))) + 8) / cell);
  options.columns.forEach((column, j) => {
    if ((options.columns.length - 1 - j) % every === 0) body.append(s("text", { x: round((j + 0.5) * cell), y: height + 18, "text-anchor": "middle", fill: quiet }, column.label));
  });
  body.append(s("text", { x: width / 2, y: height + 38, "text-anchor": "middle" }, options.xLabel));
  body.append(colourBar(width + 16, 0, height, domain, options.log, options.whole));
  svg.append(s("text", { x: options.width - 4, y: 15, "text-anchor": "end" }, options.label));
  return svg;
}

/** A scale of colours, upright. */
export function colourBar(x: number, y: number, height: number, domain: [number, number], log = false, whole = false): SVGGElement {
  const group = s("g", { transform: `translate(${x} ${y})` });
  const parts = 40;
  for (let i = 0; i < parts; i++)
    group.append(s("rect", { x: 0, y: round((height * i) / parts), width: 12, height: round(height / parts + 0.5), fill: viridisColour(1 - (i + 0.5) / parts) }));
  const own = scale(domain, [height, 0], log);
  const ticks = own.ticks(Math.max(2, Math.round(height / 50)), whole);
  tickLabels(ticks).forEach((label, i) => {
    const at = round(own(ticks[i]!));
    group.append(s("line", { x1: 12, x2: 15, y1: at, y2: at, stroke: theme().axis }), s("text", { x: 18, y: at, dy: "0.35em", fill: theme().quiet }, label));
  });
  return group;
}
