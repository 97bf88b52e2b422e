// The runs of the page: what was measured where, and the tables of each point on demand.

import { columns, json, type Columns } from "./blocks";
import { Layers } from "./layers";

/** A place in the network where states were measured. */
export interface Point {
  layer: number | null;
  point: string;
  key: string;
  title: string;
  block: string;
}

export type Kind = "groups" | "components" | "spectra" | "tokens";

export interface Measure {
  name: string;
  family: string;
  formula: string;
  source: string;
  counts: string;
  variants: string[];
}

export interface Range {
  minimum: number;
  maximum: number;
}

export class Run {
  readonly label: string;
  readonly manifest: any;
  /** Tables by point; empty where the run has none. */
  readonly points: Record<Kind, Point[]>;
  layers!: Layers;
  /** What its groups are called, rarest first. */
  groups: Columns | null = null;
  norms: Columns | null = null;

  constructor(readonly place: number, private readonly entry: any) {
    this.label = entry.label;
    this.manifest = entry.manifest ?? {};
    const kinds: Kind[] = ["groups", "components", "spectra", "tokens"];
    this.points = Object.fromEntries(kinds.map((kind) => [kind, (entry.points[kind] ?? []).map(point)])) as Record<Kind, Point[]>;
  }

  async load(): Promise<this> {
    const optional = (block?: string) => (block ? columns(block) : Promise.resolve(null));
    const [layers, groups, norms] = await Promise.all([columns(this.entry.layers), optional(this.entry.groups), optional(this.entry.norms)]);
    this.layers = new Layers(layers);
    this.groups = groups;
    this.norms = norms;
    return this;
  }

  at(point: Point): Promise<Columns> {
    return columns(point.block);
  }

  /** The range of n_t that the run itself selected. */
  get frequency(): Range | null {
    const range = this.manifest.frequency;
    return range && Number.isFinite(range.minimum) ? { minimum: range.minimum, maximum: range.maximum } : null;
  }

  get steps(): number[] {
    return this.layers.steps;
  }
}

function point(entry: { layer: number | null; point: string; block: string }): Point {
  return { ...entry, key: `${entry.layer ?? ""}${entry.point === "final_norm" ? "n" : ""}`, title: pointTitle(entry.layer, entry.point) };
}

/** A point in words. */
export function pointTitle(layer: number | null, point: string): string {
  if (layer === null) return point.replace(/_/g, " ");
  if (point === "embedding") return "embedding (layer 0)";
  return point === "final_norm" ? `layer ${layer}, after the final norm` : `layer ${layer}`;
}

export interface Book {
  title: string;
  program: string;
  frequency: Range | null;
  measures: Map<string, Measure>;
  runs: Run[];
}

/** Everything the page knows at first. */
export async function open(): Promise<Book> {
  const index = await json("index");
  const runs = await Promise.all(index.runs.map((entry: any, i: number) => new Run(i, entry).load()));
  return {
    title: index.title,
    program: index.program,
    frequency: index.frequency ? { minimum: index.frequency[0], maximum: index.frequency[1] } : null,
    measures: new Map(index.measures.map((measure: Measure) => [measure.name, measure])),
    runs,
  };
}
