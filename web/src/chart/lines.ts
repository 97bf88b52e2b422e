// Curves with markers, bands of standard errors, a legend below, and a reader's crosshair.

import { s } from "../dom";
import { theme } from "../theme";
import { number } from "../text";
import { frame, marker, round, textWidth, type AxisOptions, type Frame } from "./frame";
import { padded } from "./scale";
import { extent } from "../stats/spread";

export interface Series {
  name: string;
  colour: string;
  /** Which marker; none for -1. */
  shape: number;
  points: { x: number; y: number; se?: number; note?: string }[];
  /** A point beside the curve, drawn hollow. */
  aside?: { x: number; y: number; note?: string } | null;
  width?: number;
  dashed?: boolean;
}

export interface LinesOptions {
  width: number;
  height: number;
  series: Series[];
  x: Omit<AxisOptions, "domain"> & { domain?: [number, number]; format?: (x: number) => string };
  y: Omit<AxisOptions, "domain"> & { domain?: [number, number] };
  description: string;
  bare?: boolean;
  legend?: boolean;
  /** A vertical line here. */
  mark?: number;
  /** Called with what the crosshair points at. */
  say?: (text: string) => void;
  pick?: (x: number) => void;
}

/** Draws the curves. */
export function lines(options: LinesOptions): SVGSVGElement {
  const log = options.y.log ?? false;
  const drawable = (y: number) => Number.isFinite(y) && (!log || y > 0);
  const xLog = options.x.log ?? false;
  const points = options.series.flatMap((series) => [...series.points, ...(series.aside ? [series.aside] : [])]).filter((point) => drawable(point.y) && (!xLog || point.x > 0));
  const low = options.series.flatMap((series) => series.points.filter((point) => drawable(point.y)).flatMap((point) => [point.y - (point.se || 0), point.y + (point.se || 0)])).filter(drawable);
  const yDomain = options.y.domain ?? padded(points.length === 0 ? [1, 10] : extent([...points.map((point) => point.y), ...low]), log, options.bare ? 0.12 : 0.06);
  // Also where a value is undefined: neighbouring figures have the same axis.
  const xs = options.series.flatMap((series) => [...series.points, ...(series.aside ? [series.aside] : [])].map((point) => point.x)).filter((x) => !xLog || x > 0);
  const xDomain = options.x.domain ?? padded(xs.length === 0 ? [1, 10] : extent(xs), xLog, options.bare ? 0.02 : 0.025);
  const legend = options.legend === false || options.bare ? [] : legendRows(options.series, options.width - 20);
  const made = frame({
    width: options.width, height: options.height, bare: options.bare, description: options.description,
    x: { ...options.x, domain: xDomain }, y: { ...options.y, domain: yDomain },
  });
  if (options.mark !== undefined) {
    const at = round(made.x(options.mark));
    made.body.append(s("line", { x1: at, x2: at, y1: 0, y2: made.height, stroke: theme().accent, "stroke-width": 1.5 }));
  }
  for (const series of options.series) drawSeries(made, series, drawable, options.bare ?? false);
  if (legend.length > 0) drawLegend(made.svg, legend, options.width, options.height);
  if (options.say || options.pick) crosshair(made, options, points.length > 0);
  return made.svg;
}

function drawSeries(made: Frame, series: Series, drawable: (y: number) => boolean, bare: boolean): void {
  const shown = series.points.filter((point) => drawable(point.y));
  const banded = shown.filter((point) => (point.se ?? 0) > 0 && drawable(point.y - point.se!));
  if (banded.length > 1) {
    const edge = (sign: number) => banded.map((point) => `${round(made.x(point.x))} ${round(made.y(point.y + sign * point.se!))}`);
    made.body.append(s("path", { d: `M${[...edge(1), ...edge(-1).reverse()].join("L")}Z`, fill: series.colour, "fill-opacity": 0.16 }));
  }
  // A gap where a value is undefined: no line is drawn across it.
  let path = "";
  let pen = false;
  for (const point of series.points) {
    // `h0`, with round ends, is a dot: a value between two gaps is seen too.
    if (drawable(point.y)) path += `${pen ? "L" : "M"}${round(made.x(point.x))} ${round(made.y(point.y))}${pen ? "" : "h0"}`;
    pen = drawable(point.y);
  }
  made.body.append(s("path", { d: path, fill: "none", stroke: series.colour, "stroke-width": series.width ?? (bare ? 1.5 : 1.8), "stroke-linejoin": "round", "stroke-linecap": series.dashed ? null : "round", "stroke-dasharray": series.dashed ? "5 4" : null }));
  if (series.shape >= 0 && !bare && shown.length <= 60)
    for (const point of shown) made.body.append(marker(series.shape, made.x(point.x), made.y(point.y), 3.2, { fill: series.colour }));
  if (series.aside && drawable(series.aside.y))
    made.body.append(marker(series.shape, made.x(series.aside.x), made.y(series.aside.y), bare ? 2 : 3.6, { fill: theme().paper, stroke: series.colour, "stroke-width": 1.5 }));
}

/** What a legend says of a curve. */
export type Named = Pick<Series, "name" | "colour" | "shape" | "dashed" | "aside">;
type LegendRow = { series: Named; at: number; row: number };

function legendRows(series: Named[], width: number): LegendRow[] {
  if (series.length < 2 && !series.some((own) => own.aside)) return [];
  const rows: LegendRow[] = [];
  let [at, row] = [0, 0];
  for (const own of series) {
    const size = textWidth(own.name) + 38;
    if (at > 0 && at + size > width) [at, row] = [0, row + 1];
    rows.push({ series: own, at, row });
    at += size;
  }
  return rows;
}

/** A legend for a drawing of another kind; nothing for a single curve. */
export function addLegend(svg: SVGSVGElement, series: Named[]): void {
  const { width, height } = svg.viewBox.baseVal;
  const rows = legendRows(series, width - 20);
  if (rows.length > 0) drawLegend(svg, rows, width, height);
}

/** The legend stands below the axes: it covers no data. The drawing grows by its rows. */
function drawLegend(svg: SVGSVGElement, rows: LegendRow[], width: number, height: number): void {
  const total = height + 10 + 20 * (1 + Math.max(...rows.map((row) => row.row)));
  svg.setAttribute("height", String(total));
  svg.setAttribute("viewBox", `0 0 ${width} ${total}`);
  for (const { series, at, row } of rows) {
    const y = height + 12 + 20 * row;
    const group = s("g", { transform: `translate(${round(10 + at)} ${y})` });
    group.append(s("line", { x1: 0, x2: 20, y1: 0, y2: 0, stroke: series.colour, "stroke-width": 1.8, "stroke-dasharray": series.dashed ? "5 4" : null }));
    if (series.shape >= 0) group.append(marker(series.shape, 10, 0, 3.2, { fill: series.colour }));
    group.append(s("text", { x: 26, y: 0, dy: "0.35em" }, series.name));
    svg.append(group);
  }
}

function crosshair(made: Frame, options: LinesOptions, any: boolean): void {
  if (!any) return;
  const hair = s("g", { visibility: "hidden", class: "hair" });
  const line = s("line", { y1: 0, y2: made.height, stroke: theme().axis, "stroke-dasharray": "2 3" });
  hair.append(line);
  made.body.append(hair);
  const xs = [...new Set(options.series.flatMap((series) => series.points.filter((point) => Number.isFinite(point.y)).map((point) => point.x)))].sort((a, b) => a - b);
  const format = options.x.format ?? ((x: number) => `${options.x.label} ${number(x)}`);
  let last = NaN;
  const nearest = (event: PointerEvent) => {
    const box = made.svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) * made.svg.viewBox.baseVal.width) / box.width - made.left;
    return xs.reduce((best, x) => (Math.abs(made.x(x) - place) < Math.abs(made.x(best) - place) ? x : best), xs[0]!);
  };
  made.svg.addEventListener("pointermove", (event) => {
    const x = nearest(event);
    if (x === last) return;
    last = x;
    hair.setAttribute("visibility", "visible");
    const at = String(round(made.x(x)));
    line.setAttribute("x1", at);
    line.setAttribute("x2", at);
    options.say?.(`${format(x)}: ${readings(options.series, x)}`);
  });
  made.svg.addEventListener("pointerleave", () => {
    hair.setAttribute("visibility", "hidden");
    last = NaN;
    options.say?.("");
  });
  if (options.pick) {
    made.svg.style.cursor = "pointer";
    made.svg.addEventListener("click", (event) => options.pick!(nearest(event as PointerEvent)));
  }
}

function readings(series: Series[], x: number): string {
  const shown = series.flatMap((own) => {
    const point = own.points.find((candidate) => candidate.x === x);
    const aside = own.aside && own.aside.x === x && Number.isFinite(own.aside.y) ? ` (before the final norm ${number(own.aside.y)})` : "";
    if (!point || !Number.isFinite(point.y)) return [];
    const error = point.se && point.se > 0 ? ` ± ${number(point.se, 2)}` : "";
    return [`${series.length > 1 ? own.name + " " : ""}${number(point.y)}${error}${aside}`];
  });
  return shown.slice(0, 8).join(" · ") + (shown.length > 8 ? ` · and ${shown.length - 8} more` : "");
}
