// The tidy table of layers, asked by measure.

import type { Columns } from "./blocks";

export interface Value {
  layer: number | null;
  point: string;
  step: number | null;
  value: number;
  se: number;
  n: number;
}

/** What names one curve. */
export interface Curve {
  measure: string;
  variant: string | null;
  selection: string;
}

/** A curve across layers, as the reference library counts them: the last value is after the final norm where there is one. */
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

  constructor(readonly table: Columns) {
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
    }
    this.steps = [...new Set(Array.from(table.reals("step")).filter((step) => !Number.isNaN(step)))].sort((a, b) => a - b);
  }

  /** Every curve there is, in the order of the table. */
  all(): Curve[] {
    return [...this.curves.values()];
  }

  /** The variants and selections of one measure. */
  of(measure: string): Curve[] {
    return this.all().filter((curve) => curve.measure === measure);
  }

  /** The curve that a reader means by the bare name: `corpus` or the first variant, the preferred selection. */
  plain(measure: string, selections = ["all", "sample", "selected"]): Curve | null {
    const curves = this.of(measure);
    const rank = (curve: Curve) => (selections.indexOf(curve.selection) + 100) % 100 + (curve.variant ? (curve.variant.endsWith("_std") ? 0.5 : 0.1) : 0);
    return curves.sort((a, b) => rank(a) - rank(b))[0] ?? null;
  }

  values(curve: Curve, step?: number | null): Value[] {
    const rows = this.rows.get(curveKey(curve)) ?? [];
    const table = this.table;
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
  profile(curve: Curve, step?: number): Profile {
    const wanted = step ?? this.steps.at(-1) ?? null;
    const values = this.values(curve, wanted).filter((value) => value.layer !== null);
    values.sort((a, b) => a.layer! - b.layer! || Number(a.point === "final_norm") - Number(b.point === "final_norm"));
    const norm = values.find((value) => value.point === "final_norm");
    const before = norm ? values.find((value) => value.layer === norm.layer && value.point !== "final_norm") ?? null : null;
    return { values: values.filter((value) => value !== before), before };
  }
}
