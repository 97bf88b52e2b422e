// The tidy table of layers, asked by measure.

import { behind, canChoose, ofStates, selectionOrder, states } from "../states";
import type { Columns } from "./blocks";

export interface Value {
  layer: number | null;
  point: string;
  step: number | null;
  value: number;
  se: number;
  n: number;
}

/** What names one curve. Its selection is one of all states; the switch of the page says whether the massive ones are left out. */
export interface Curve {
  measure: string;
  variant: string | null;
  selection: string;
}

/** A curve across layers: the last value is after the final norm where there is one. States after a last projection have another width, and are not on it. */
export interface Profile {
  values: Value[];
  /** The last block's own output, before the final norm. */
  before: Value | null;
}

const SEPARATOR = "\u0001";
export const curveKey = (curve: Curve): string => [curve.measure, curve.variant ?? "", curve.selection].join(SEPARATOR);

export class Layers {
  readonly steps: number[];
  private readonly rows = new Map<string, number[]>();
  private readonly curves = new Map<string, Curve>();
  /** The selections of which more is known than how many states and groups they have. */
  private readonly known = new Set<string>();

  constructor(readonly table: Columns, private readonly hasTypical = true) {
    const [measures, variants, selections] = [table.texts("measure"), table.texts("variant"), table.texts("selection")];
    const keys = new Map<number, number[]>();
    const width = variants.strings.length + 1;
    const depth = selections.strings.length + 1;
    for (let row = 0; row < table.rows; row++) {
      const code = (measures.codes[row]! * width + Math.min(variants.codes[row]!, width - 1)) * depth + Math.min(selections.codes[row]!, depth - 1);
      const rows = keys.get(code);
      if (rows) rows.push(row);
      else keys.set(code, [row]);
    }
    for (const rows of keys.values()) {
      const row = rows[0]!;
      const curve = { measure: table.text("measure", row) ?? "", variant: table.text("variant", row), selection: table.text("selection", row) ?? "" };
      this.curves.set(curveKey(curve), curve);
      this.rows.set(curveKey(curve), rows);
      if (curve.measure !== "groups" && curve.measure !== "states" && rows.some((own) => !Number.isNaN(table.number("layer", own)) && !Number.isNaN(table.number("value", own)))) this.known.add(curve.selection);
    }
    this.steps = [...new Set(Array.from(table.reals("step")).filter((step) => !Number.isNaN(step)))].sort((a, b) => a - b);
  }

  /** Every curve there is to choose, in the order of the table; those without massive states are not curves of their own. */
  all(): Curve[] {
    return [...this.curves.values()].filter((curve) => !this.isBehind(curve));
  }

  private isBehind(curve: Curve): boolean {
    const all = behind(curve.selection);
    return this.hasTypical && all !== null && this.curves.has(curveKey({ ...curve, selection: all }));
  }

  /** The selection that is read for a curve: that without massive states, where these are left out and it was measured so. */
  selection(curve: Curve): string {
    const typical = ofStates(curve.selection);
    return this.hasTypical && this.rows.has(curveKey({ ...curve, selection: typical })) ? typical : curve.selection;
  }

  /** The rows of the table about the states that are shown, and about what has no states. */
  shown(): Columns {
    if (!canChoose()) return this.table;
    const rows = [...this.curves.values()].flatMap((curve) => {
      const own = this.rows.get(curveKey(curve))!;
      if (this.isBehind(curve)) return states() === "typical" ? own : [];
      return this.selection(curve) === curve.selection ? own : own.filter((row) => Number.isNaN(this.table.number("layer", row)));
    });
    return this.table.only(rows.sort((a, b) => a - b));
  }

  /** The variants and selections of one measure. */
  of(measure: string): Curve[] {
    return this.all().filter((curve) => curve.measure === measure);
  }

  /** The curve that a reader means by the bare name: the plain or the first variant, in the first selection that has values at all. */
  plain(measure: string): Curve | null {
    const rank = (curve: Curve) => (curve.variant ? (curve.variant.endsWith("_std") ? 2000 : 1000) : 0) + (this.known.has(curve.selection) ? 0 : 100) + (selectionOrder().indexOf(curve.selection) + 50) % 50;
    return this.of(measure).sort((a, b) => rank(a) - rank(b))[0] ?? null;
  }

  /** The values of a curve, of the states that are shown or of another selection. */
  values(curve: Curve, step?: number | null, selection = this.selection(curve)): Value[] {
    const table = this.table;
    const all = this.rows.get(curveKey(curve)) ?? [];
    // Weights have no massive states: their rows belong to either.
    const rows = selection === curve.selection ? all : [...(this.rows.get(curveKey({ ...curve, selection })) ?? []), ...all.filter((row) => Number.isNaN(table.number("layer", row)))];
    const values: Value[] = [];
    for (const row of rows) {
      const own = table.number("step", row);
      if (step !== undefined && !(step === null ? Number.isNaN(own) : own === step)) continue;
      const layer = table.number("layer", row);
      values.push({
        layer: Number.isNaN(layer) ? null : layer, point: table.text("point", row) ?? "", step: Number.isNaN(own) ? null : own,
        value: table.number("value", row), se: table.number("se", row), n: table.number("n", row),
      });
    }
    return values;
  }

  /** The curve across layers; of the last step where there are steps. */
  profile(curve: Curve, step?: number, selection = this.selection(curve)): Profile {
    const wanted = step ?? this.steps.at(-1) ?? null;
    const values = this.values(curve, wanted, selection).filter((value) => value.layer !== null && value.point !== "projected");
    values.sort((a, b) => a.layer! - b.layer! || Number(a.point === "final_norm") - Number(b.point === "final_norm"));
    const norm = values.find((value) => value.point === "final_norm");
    const before = norm ? values.find((value) => value.layer === norm.layer && value.point !== "final_norm") ?? null : null;
    return { values: values.filter((value) => value !== before), before };
  }
}
