// Paper, axes and grid of a drawing. Everything is set by attributes, so that a saved drawing looks the same anywhere.

import { s } from "../dom";
import { theme } from "../theme";
import { scale, tickLabels, type Scale } from "./scale";

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
export const TEXT = 12;

export interface AxisOptions {
  domain: [number, number];
  label: string;
  log?: boolean;
  /** Counts: nothing lies between two whole numbers. */
  whole?: boolean;
  /** Ticks instead of the scale's own. */
  ticks?: { at: number; label: string }[];
}

export interface FrameOptions {
  width: number;
  height: number;
  x: AxisOptions;
  y: AxisOptions;
  /** What it shows, for those who hear the page. */
  description: string;
  /** No axis texts: for pictures the size of a word. */
  bare?: boolean;
  /** False for drawings over pixels, which a grid would cross out. */
  grid?: boolean;
  /** Equal units on both axes: the larger wins. */
  equal?: boolean;
}

export interface Frame {
  svg: SVGSVGElement;
  /** Where marks go; clipped to the axes. */
  body: SVGGElement;
  x: Scale;
  y: Scale;
  left: number;
  top: number;
  width: number;
  height: number;
}

let clips = 0;

/** An empty figure with its axes. */
export function frame(options: FrameOptions): Frame {
  const { ink, quiet, line, axis, paper } = theme();
  const yTicks = ticksOf(options.y, Math.max(2, Math.round(options.height / (options.height > 240 ? 55 : 42))));
  const widest = Math.max(0, ...yTicks.map((tick) => textWidth(tick.label)));
  const margin = options.bare ? { left: 2, right: 2, top: 4, bottom: 4 } : { left: Math.ceil(widest) + 34, right: 14, top: 26, bottom: 46 };
  const width = Math.max(40, options.width - margin.left - margin.right);
  const height = Math.max(20, options.height - margin.top - margin.bottom);
  const domains = options.equal ? equalised(options.x.domain, options.y.domain, width, height) : [options.x.domain, options.y.domain];
  const x = scale(domains[0]!, [0, width], options.x.log);
  const y = scale(domains[1]!, [height, 0], options.y.log);
  const clip = `clip-${++clips}`;
  const svg = s("svg", {
    xmlns: "http://www.w3.org/2000/svg", width: options.width, height: options.height, viewBox: `0 0 ${options.width} ${options.height}`,
    role: "img", "aria-label": options.description, "font-family": FONT, "font-size": TEXT, fill: ink,
  });
  const inner = s("g", { transform: `translate(${margin.left} ${margin.top})` });
  svg.append(s("rect", { class: "paper", width: "100%", height: "100%", fill: paper, "fill-opacity": 0 }));
  svg.append(s("clipPath", { id: clip }, s("rect", { x: -1, y: -1, width: width + 2, height: height + 2 })), inner);
  if (!options.bare) {
    const xTicks = ticksOf({ ...options.x, domain: domains[0]! }, Math.max(2, Math.round(width / 85)));
    const ys = options.equal ? ticksOf({ ...options.y, domain: domains[1]! }, Math.max(2, Math.round(height / 55))) : yTicks;
    for (const tick of ys) {
      const at = round(y(tick.at));
      inner.append(options.grid === false ? s("line", { x1: -4, x2: 0, y1: at, y2: at, stroke: axis }) : s("line", { x1: 0, x2: width, y1: at, y2: at, stroke: line }));
      inner.append(s("text", { x: -8, y: at, dy: "0.35em", "text-anchor": "end", fill: quiet }, tick.label));
    }
    for (const tick of thinned(xTicks, x)) {
      const at = round(x(tick.at));
      inner.append(s("line", { x1: at, x2: at, y1: height, y2: height + 4, stroke: axis }));
      // The last one does not reach beyond the paper.
      const centre = Math.min(at, round(width + margin.right - textWidth(tick.label) / 2));
      inner.append(s("text", { x: centre, y: height + 18, "text-anchor": "middle", fill: quiet }, tick.label));
    }
    inner.append(s("line", { x1: 0, x2: width, y1: height, y2: height, stroke: axis }));
    if (options.grid === false) inner.append(s("line", { x1: 0, x2: 0, y1: 0, y2: height, stroke: axis }));
    inner.append(s("text", { x: width / 2, y: height + 38, "text-anchor": "middle", fill: ink }, options.x.label));
    // Above the axis and upright: read without turning the head, and safe from long tick labels.
    inner.append(s("text", { class: "y-label", x: -margin.left + 4, y: -11, fill: ink }, options.y.label));
  }
  const body = s("g", { "clip-path": `url(#${clip})` });
  inner.append(body);
  return { svg, body, x, y, left: margin.left, top: margin.top, width, height };
}

function ticksOf(axis: AxisOptions, about: number): { at: number; label: string }[] {
  if (axis.ticks) return axis.ticks;
  const ticks = scale(axis.domain, [0, 1], axis.log).ticks(about, axis.whole);
  return tickLabels(ticks).map((label, i) => ({ at: ticks[i]!, label }));
}

type Tick = { at: number; label: string };

const isName = (tick: Tick): boolean => Number.isNaN(Number(tick.label.replace(/,/g, "")));

/** Every k-th tick, so that labels keep apart. A name among numbers stays: nobody could guess it. */
function thinned(ticks: Tick[], x: Scale): Tick[] {
  const clear = (one: Tick, other: Tick) => Math.abs(x(one.at) - x(other.at)) > (textWidth(one.label) + textWidth(other.label)) / 2 + 8;
  const names = ticks.filter(isName);
  const isMixed = names.length < ticks.length && names.every((name, i) => i === 0 || clear(name, names[i - 1]!));
  if (names.length > 0 && isMixed) {
    const numbers = ticks.filter((tick) => !isName(tick) && names.every((name) => clear(tick, name)));
    return [...everyOther(numbers, clear), ...names];
  }
  return everyOther(ticks, clear);
}

function everyOther(ticks: Tick[], clear: (one: Tick, other: Tick) => boolean): Tick[] {
  for (let every = 1; every <= ticks.length; every++) {
    const kept = ticks.filter((_, i) => i % every === 0);
    if (kept.every((tick, i) => i === 0 || clear(tick, kept[i - 1]!))) return kept;
  }
  return ticks.slice(0, 1);
}

function equalised(x: [number, number], y: [number, number], width: number, height: number): [[number, number], [number, number]] {
  const unit = Math.max((x[1] - x[0]) / width, (y[1] - y[0]) / height);
  const around = ([low, high]: [number, number], size: number): [number, number] => [(low + high) / 2 - (unit * size) / 2, (low + high) / 2 + (unit * size) / 2];
  return [around(x, width), around(y, height)];
}

export const round = (value: number): number => Math.round(value * 100) / 100;

const ruler = document.createElement("canvas").getContext("2d");

/** The width of a text in a drawing. */
export function textWidth(text: string, size = TEXT, bold = false): number {
  if (!ruler) return text.length * size * 0.6;
  ruler.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
  return ruler.measureText(text).width;
}

const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down"] as const;

/** A marker of this series around a point. */
export function marker(series: number, x: number, y: number, size: number, attributes: Record<string, string | number>): SVGElement {
  const [a, b] = [round(x), round(y)];
  const path = (d: string) => s("path", { d, ...attributes });
  switch (SHAPES[series % SHAPES.length]) {
    case "circle": return s("circle", { cx: a, cy: b, r: size, ...attributes });
    case "square": return s("rect", { x: round(a - size * 0.9), y: round(b - size * 0.9), width: round(size * 1.8), height: round(size * 1.8), ...attributes });
    case "triangle": return path(`M${a} ${round(b - size * 1.2)}l${round(size * 1.15)} ${round(size * 2)}h${round(-size * 2.3)}z`);
    case "diamond": return path(`M${a} ${round(b - size * 1.3)}l${round(size * 1.3)} ${round(size * 1.3)}l${round(-size * 1.3)} ${round(size * 1.3)}l${round(-size * 1.3)} ${round(-size * 1.3)}z`);
    case "down": return path(`M${a} ${round(b + size * 1.2)}l${round(size * 1.15)} ${round(-size * 2)}h${round(-size * 2.3)}z`);
    default: return path(`M${round(a - size)} ${round(b - size / 3)}h${round(size * 0.67)}v${round(-size * 0.67)}h${round(size * 0.67)}v${round(size * 0.67)}h${round(size * 0.67)}v${round(size * 0.67)}h${round(-size * 0.67)}v${round(size * 0.67)}h${round(-size * 0.67)}v${round(-size * 0.67)}h${round(-size * 0.67)}z`);
  }
}
