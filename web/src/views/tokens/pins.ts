// Pinned tokens: their values here, and their way through the layers.

import { h, replace } from "../../dom";
import { lines, type Series } from "../../chart/lines";
import { Figure, howPanel } from "../../figure";
import { DEFINITIONS, howDefined } from "../../how";
import type { Columns } from "../../data/blocks";
import { count, number } from "../../text";
import { seriesColour } from "../../theme";
import { layerTicks } from "../profiles";
import { fileName, absence } from "../common";
import type { Session } from "./session";

const TRACKS: [string, string][] = [["q", "Q(Xₜ)"], ["m", "M(Xₜ)"], ["v", "V(Xₜ)"], ["self_similarity", "self-similarity"]];

/** The list of pins with their values at this point. */
export function pinList(session: Session): HTMLElement {
  if (session.pins.length === 0) return h("p", { class: "note" }, "No token is pinned. Click points, search, or draw around some.");
  const value = (place: number, name: string) => number(session.table.number(name, place));
  const rows = session.pins.map((place, i) => {
    const swatch = h("span", { class: "swatch" });
    swatch.style.background = seriesColour(i);
    return h("tr", { onpointerenter: () => session.aimAt(place), onpointerleave: () => session.aimAt(null) },
      h("th", { scope: "row" }, swatch, session.name(place, 18)),
      h("td", {}, count(session.n[place]!)), h("td", {}, value(place, "m")), h("td", {}, value(place, "v")),
      h("td", {}, h("button", { type: "button", class: "quiet", "aria-label": `Unpin ${session.name(place)}`, onclick: () => session.unpin(place) }, "×")));
  });
  const head = h("tr", {}, ...["Token", "n", "M", "V"].map((name) => h("th", { scope: "col" }, name)), h("td", {}));
  return h("div", { class: "pins" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)),
    h("button", { type: "button", onclick: () => session.unpin(null) }, "Unpin all"));
}

export interface Tracks {
  element: HTMLElement;
  redraw: () => Promise<void>;
}

/** Curves of the pinned tokens across the layers. */
export function tracks(session: Session): Tracks {
  const inside = h("div", { class: "grid two" });
  let asked = 0;
  const redraw = async () => {
    const ticket = ++asked;
    if (session.pins.length === 0) return replace(inside, absence("Pin tokens to compare their way through the layers."));
    const tables = await Promise.all(session.points.map((point) => session.run.at(point)));
    if (ticket !== asked) return;
    const shown = TRACKS.filter(([column]) => tables.some((table) => table.has(column)));
    replace(inside, ...shown.map(([column, label]) => track(session, tables, column, label).element));
  };
  const element = h("section", { class: "panel", id: "tracks" }, h("h3", {}, "Pinned tokens through the layers"), inside, howPanel(() => howDefined([session.run], DEFINITIONS)));
  return { element, redraw };
}

function track(session: Session, tables: Columns[], column: string, label: string): Figure {
  const norm = session.points.findIndex((point) => point.point === "final_norm");
  const before = norm < 0 ? -1 : session.points.findIndex((point) => point.point === "block" && point.layer === session.points[norm]!.layer);
  const series: Series[] = session.pins.map((place, i) => {
    const at = (k: number) => ({ x: session.points[k]!.layer ?? 0, y: tables[k]!.number(column, place) });
    return { name: session.name(place, 20), colour: seriesColour(i), shape: i, points: session.points.map((_, k) => k).filter((k) => k !== before && session.points[k]!.point !== "projected").map(at), aside: before < 0 ? null : at(before) };
  });
  return new Figure({
    name: fileName("tracks", column, session.run.label), title: label, small: true,
    draw: (width) => lines({ width, height: 250, series, x: { label: "layer", ticks: layerTicks(series), format: (x) => `layer ${x}` }, y: { label }, mark: session.point.layer ?? undefined, description: `${label} of ${series.length} pinned tokens across the layers` }),
    sheet: () => ({ names: ["group", "layer", "point", column], rows: session.pins.flatMap((place) => session.points.map((point, k) => [session.names.text("group", place), point.layer, point.point, tables[k]!.cell(column, place)])) }),
  });
}
