// The components of one chosen token: what its Q is made of.

import { choice, h, prose, replace, s, select } from "../dom";
import { frame, round } from "../chart/frame";
import type { Columns } from "../data/blocks";
import type { Point, Run } from "../data/run";
import { Figure } from "../figure";
import { howDefined } from "../how";
import { note, route } from "../state";
import { count, number, percent, tokenName } from "../text";
import { theme } from "../theme";
import { absence, fileName } from "./common";

const DEFINITIONS: [string, string][] = [
  ["q_i(Xₜ)", "mean of x_i² over the states of token t; they sum to Q(Xₜ)"],
  ["μ_i(Xₜ)", "mean of x_i over the states of token t; the μ_i² sum to M(Xₜ)"],
  ["v_i(Xₜ)", "mean of (x_i − μ_i)² over the states of token t; they sum to V(Xₜ), and q_i = μ_i² + v_i (Yamagiwa & Shimodaira 2025, eqs. 17 to 19)"],
];

/** One component of the token. */
interface Part {
  component: number;
  q: number;
  mean: number;
  variance: number;
}

export interface TokenSection {
  element: HTMLElement;
  /** Goes to the point of this key. */
  move: (key: string) => void;
}

/** The section; null where the run has no such table. */
export function tokenSection(run: Run, key: string): TokenSection | null {
  const points = run.points.token_components;
  if (points.length === 0) return null;
  let at: Point | undefined;
  let token = route().params.has("token") ? Number(route().params.get("token")) : NaN;
  let bySize = route().params.get("order") === "size";
  let name = "";
  let parts: Part[] = [];
  const controls = h("div", { class: "controls" });
  const inside = h("div", { class: "stack" });
  const missing = run.leftOut.token_components ?? 0;
  const figure = new Figure({
    name: fileName("token-components", run.label), title: "Components of a token", note: `Every bar is q_i = μ_i² + v_i: the part below is the square of the mean, the part above the variance.`,
    draw: (width, say) => (parts.length === 0 ? null : draw(parts, bySize, width, `${name}, ${at!.title}`, say)),
    sheet: () => ({ names: ["layer", "point", "group_id", "token", "component", "q", "mean", "variance"], rows: parts.map((part) => [at!.layer, at!.point, token, name, part.component, part.q, part.mean, part.variance]) }),
    how: () => howDefined([run], DEFINITIONS),
  });
  const refresh = async () => {
    const wish = at;
    if (!wish) return replace(inside, absence(`${points.length} of ${points.length + missing} layers are in this file; \`layerscope serve\` shows all.`));
    const table = await run.at(wish);
    if (wish !== at) return;
    const tokens = tokensOf(table);
    if (!tokens.has(token)) token = tokens.keys().next().value ?? NaN;
    name = tokens.get(token) ?? "";
    parts = partsOf(table, token);
    replace(controls,
      select("Token", [...tokens].map(([id, text]) => ({ value: String(id), label: tokenName(text, 24) })), String(token), (value) => { token = Number(value); note({ token }); void refresh(); }),
      choice("Order", [{ value: "index", label: "By index" }, { value: "size", label: "By size" }], bySize ? "size" : "index", (value) => { bySize = value === "size"; note({ order: bySize ? "size" : null }); figure.redraw(); }));
    replace(inside, sums(parts), figure.element, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Largest components of the token" }, largest(parts)));
    figure.redraw();
  };
  const move = (wanted: string) => {
    at = points.find((point) => point.key === wanted);
    void refresh();
  };
  move(key);
  const element = h("section", { class: "panel", id: "token-components" }, h("h3", {}, "Token by token"), h("p", { class: "note" }, ...prose("The tokens of `--tokens`, exact over their states, at the layer above.")), controls, inside);
  return { element, move };
}

/** The tokens of a table by their ids, in the order of the table. */
function tokensOf(table: Columns): Map<number, string> {
  const found = new Map<number, string>();
  for (let row = 0; row < table.rows; row++) if (!found.has(table.number("group_id", row))) found.set(table.number("group_id", row), table.text("token", row) ?? "");
  return found;
}

function partsOf(table: Columns, token: number): Part[] {
  const parts: Part[] = [];
  for (let row = 0; row < table.rows; row++) {
    if (table.number("group_id", row) !== token) continue;
    parts.push({ component: table.number("component", row), q: table.number("q", row), mean: table.number("mean", row), variance: table.number("variance", row) });
  }
  return parts.sort((a, b) => a.component - b.component);
}

const ordered = (parts: Part[]): Part[] => [...parts].sort((a, b) => b.q - a.q);

const total = (parts: Part[], of: (part: Part) => number): number => parts.reduce((sum, part) => sum + of(part), 0);

function sums(parts: Part[]): HTMLElement {
  const [q, m, v] = [total(parts, (part) => part.q), total(parts, (part) => part.mean ** 2), total(parts, (part) => part.variance)];
  const value = (label: string, own: number, name: string) => h("div", {}, h("span", {}, label), h("b", { "data-name": name, "data-value": String(own) }, name === "half" ? count(own) : number(own)));
  return h("div", { class: "numbers even" }, value("Q(Xₜ) = Σ q_i", q, "q"), value("M(Xₜ) = Σ μ_i²", m, "m"), value("V(Xₜ) = Σ v_i", v, "v"), value("components with half of Q", half(parts, q), "half"));
}

/** How many of the largest components make up half of Q. */
function half(parts: Part[], q: number): number {
  let sum = 0;
  return ordered(parts).findIndex((part) => (sum += part.q) >= q / 2) + 1;
}

function draw(parts: Part[], bySize: boolean, width: number, where: string, say: (text: string) => void): SVGSVGElement {
  const shown = bySize ? ordered(parts) : parts;
  const x = (part: Part, i: number) => (bySize ? i + 1 : part.component);
  const last = shown.reduce((most, part, i) => Math.max(most, x(part, i)), 1);
  const top = shown.reduce((most, part) => Math.max(most, part.q), 0);
  const made = frame({
    width, height: 320, x: { domain: bySize ? [0.5, last + 0.5] : [-0.5, last + 0.5], label: bySize ? "component, by size" : "component" }, y: { domain: [0, top * 1.13 || 1], label: "q_i = μ_i² + v_i" },
    description: `Components of ${tokenName(where)}: squares of their means and variances`,
  });
  const colours = [theme().parts[0], theme().parts[1]] as const;
  const wide = Math.max(1, Math.min(8, (made.width / shown.length) * 0.7));
  const bars = (from: (part: Part) => number, to: (part: Part) => number, stroke: string) => {
    let path = "";
    shown.forEach((part, i) => { path += `M${round(made.x(x(part, i)))} ${round(made.y(from(part)))}V${round(made.y(to(part)))}`; });
    made.body.append(s("path", { d: path, stroke, "stroke-width": wide, fill: "none" }));
  };
  bars(() => 0, (part) => part.mean ** 2, colours[0]);
  bars((part) => part.mean ** 2, (part) => part.q, colours[1]);
  const spots: [number, number][] = [];
  for (const part of ordered(parts).slice(0, 8)) {
    const [at, y] = [made.x(x(part, shown.indexOf(part))), made.y(part.q)];
    if (spots.some(([a, b]) => Math.abs(a - at) < 34 && Math.abs(b - y) < 14)) continue;
    spots.push([at, y]);
    made.body.append(s("text", { x: round(at), y: round(y - 6), "text-anchor": at < 16 ? "start" : at > made.width - 16 ? "end" : "middle", "font-size": 11, fill: theme().quiet }, String(part.component)));
  }
  const names = ["μ_i²", "v_i"];
  names.forEach((text, i) => made.svg.append(s("rect", { x: made.left + made.width - 110 + 58 * i, y: 6, width: 11, height: 11, fill: colours[i]! }), s("text", { x: made.left + made.width - 94 + 58 * i, y: 16 }, text)));
  made.svg.addEventListener("pointermove", (event) => {
    const box = made.svg.getBoundingClientRect();
    const at = Math.round(made.x.invert(event.clientX - box.left - made.left));
    const part = bySize ? shown[at - 1] : shown.find((own) => own.component === at);
    say(part ? `component ${part.component}: q ${number(part.q)} = μ² ${number(part.mean ** 2)} + v ${number(part.variance)}` : "");
  });
  return made.svg;
}

function largest(parts: Part[]): HTMLElement {
  const q = total(parts, (part) => part.q);
  const rows = ordered(parts).slice(0, 10).map((part) => h("tr", {}, h("th", { scope: "row" }, String(part.component)), h("td", {}, number(part.q)), h("td", {}, percent(part.q / q)), h("td", {}, number(part.mean)), h("td", {}, number(part.variance))));
  return h("table", { "aria-label": `The largest of ${count(parts.length)} components` }, h("thead", {}, h("tr", {}, ...["Component", "q", "share of Q", "μ", "v"].map((head) => h("th", { scope: "col" }, head)))), h("tbody", {}, ...rows));
}
