// Bars of parts that add up to one.

import { s } from "../dom";
import { number } from "../text";
import { theme } from "../theme";
import { frame, round, textWidth } from "./frame";

export interface StackedOptions {
  width: number;
  height: number;
  bars: { label: string; parts: number[] }[];
  names: string[];
  xLabel: string;
  yLabel: string;
  description: string;
}

/** Draws the bars, the first part below. */
export function stacked(options: StackedOptions): SVGSVGElement {
  const ticks = options.bars.map((bar, i) => ({ at: i + 0.5, label: bar.label }));
  const made = frame({
    width: options.width, height: options.height, description: options.description,
    x: { domain: [0, options.bars.length], label: options.xLabel, ticks }, y: { domain: [0, 1], label: options.yLabel },
  });
  const step = made.width / options.bars.length;
  options.bars.forEach((bar, i) => {
    let below = 0;
    bar.parts.forEach((part, k) => {
      if (!Number.isFinite(part)) return;
      const top = made.y(below + part);
      const title = s("title", {}, `${options.xLabel} ${bar.label}, ${options.names[k]}: ${number(part)}`);
      made.body.append(s("rect", { x: round(i * step + 1), y: round(top), width: round(Math.max(1, step - 2)), height: round(made.y(below) - top), fill: theme().parts[k] ?? theme().axis }, title));
      below += part;
    });
  });
  let [at, y] = [10, options.height + 4];
  options.names.forEach((name, k) => {
    const wide = textWidth(name) + 38;
    if (at > 10 && at + wide - 20 > options.width) [at, y] = [10, y + 20];
    made.svg.append(s("rect", { x: round(at), y, width: 11, height: 11, fill: theme().parts[k] ?? theme().axis }), s("text", { x: round(at + 17), y: y + 10 }, name));
    at += wide;
  });
  made.svg.setAttribute("height", String(y + 18));
  made.svg.setAttribute("viewBox", `0 0 ${options.width} ${y + 18}`);
  return made.svg;
}
