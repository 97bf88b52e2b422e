// The runs of the page: what was measured where, and the tables of each point on demand.

import { columns, json, type Columns } from "./blocks";
import { startDefinitions } from "../definitions";
import { startStates, states } from "../states";
import { Layers } from "./layers";
import { tokenComponents, typicalGroups } from "./typical";

/** A place in the network where states were measured. */
export interface Point {
  layer: number | null;
  point: string;
  key: string;
  title: string;
  kind: Kind;
  block: string;
  /** The block of the typical states, where some are massive. */
  typical?: string;
}

const KINDS = ["groups", "components", "spectra", "tokens", "massive", "token_components"] as const;
export type Kind = (typeof KINDS)[number];

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
  /** Its name in the address: `0`, or `0.3` for a step of a trajectory. */
  readonly key: string;
  /** Its training step, where it is a step of a trajectory. */
  readonly step: number | null;
  /** One line about its massive states; null where it has none. */
  readonly massive: string | null;
  /** Whether its groups were also measured without them. */
  readonly hasTypical: boolean;
  /** How many points of a table a server has beyond those in this file. */
  readonly leftOut: Partial<Record<Kind, number>>;
  /** Tables by point; empty where the run has none. */
  readonly points: Record<Kind, Point[]>;
  /** The steps of a trajectory: runs with tables of their own. */
  readonly children: Run[];
  /** Embedding matrices on a plane, step by step. */
  readonly projections: { step: number | null; block: string }[];
  layers!: Layers;
  /** What its groups are called, rarest first; those of a step once it was asked for. */
  groups: Columns | null = null;
  norms: Columns | null = null;

  constructor(readonly place: number, private readonly entry: any, readonly parent: Run | null = null, number = 0) {
    this.key = parent ? `${place}.${number}` : String(place);
    this.step = parent ? (entry.step ?? null) : null;
    this.label = parent ? `${parent.label}, ${this.step === null ? entry.revision : `step ${this.step.toLocaleString("en-US")}`}` : entry.label;
    this.manifest = parent ? parent.manifest : (entry.manifest ?? {});
    this.massive = parent ? parent.massive : (entry.massive ?? null);
    this.hasTypical = parent ? parent.hasTypical : (entry.has_typical ?? false);
    this.leftOut = entry.left_out ?? {};
    this.points = Object.fromEntries(KINDS.map((kind) => [kind, (entry.points[kind] ?? []).map((own: any) => point(kind, own))])) as Record<Kind, Point[]>;
    this.children = (entry.steps ?? []).map((own: any, i: number) => new Run(place, own, this, i));
    this.projections = entry.projections ?? [];
  }

  async load(): Promise<this> {
    const optional = (block?: string) => (block ? columns(block) : Promise.resolve(null));
    const [layers, groups, norms] = await Promise.all([columns(this.entry.layers), optional(this.entry.groups), optional(this.entry.norms)]);
    this.layers = new Layers(layers, this.hasTypical);
    this.groups = groups;
    this.norms = norms;
    for (const child of this.children) [child.layers, child.norms] = [this.layers, norms];
    return this;
  }

  /** Whether it has groups, even if their names are not here yet. */
  get hasGroups(): boolean {
    return this.points.groups.length > 0 && Boolean(this.entry.groups);
  }

  /** With the names of its groups. */
  async named(): Promise<this> {
    if (!this.groups && this.entry.groups) this.groups = await columns(this.entry.groups);
    return this;
  }

  /** The table of a point: of the states that are shown. */
  at(point: Point): Promise<Columns> {
    const block = states() === "typical" ? (point.typical ?? point.block) : point.block;
    let table = this.tables.get(block);
    if (!table) {
      table = this.read(point, block);
      this.tables.set(block, table);
      table.catch(() => this.tables.delete(block));
    }
    return table;
  }

  private readonly tables = new Map<string, Promise<Columns>>();

  private async read(point: Point, block: string): Promise<Columns> {
    const own = block === point.block ? null : columns(block);
    if (point.kind === "token_components") return tokenComponents(await columns(point.block), await own);
    if (!own) return columns(point.block);
    if (point.kind !== "groups") return own;
    const [all, changes] = await Promise.all([columns(point.block), own, this.named()]);
    return typicalGroups(all, changes, this.groups!);
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

function point(kind: Kind, entry: { layer: number | null; point: string; block: string; typical?: string }): Point {
  return { ...entry, kind, key: pointKey(entry.layer, entry.point), title: pointTitle(entry.layer, entry.point) };
}

/** A point in an address: what follows the last block has a letter. */
export function pointKey(layer: number | null, point: string): string {
  return `${layer ?? ""}${point === "final_norm" ? "n" : point === "projected" ? "p" : ""}`;
}

/** A point on an axis, by its key. */
export const pointTick = (key: string, layer: number | null): string => (key.endsWith("n") ? "norm" : key.endsWith("p") ? "proj" : String(layer));

/** A point in words. */
export function pointTitle(layer: number | null, point: string): string {
  if (layer === null) return point.replace(/_/g, " ");
  if (point === "embedding") return "embedding (layer 0)";
  if (point === "projected") return `layer ${layer}, after the projection`;
  return point === "final_norm" ? `layer ${layer}, after the final norm` : `layer ${layer}`;
}

export interface Book {
  title: string;
  program: string;
  frequency: Range | null;
  /** How else the runs differ than in their models, a sentence each. */
  differences: string[];
  measures: Map<string, Measure>;
  runs: Run[];
  /** The tabs of this page. */
  views: string[];
  /** What was asked of the runs; null where nothing was. */
  findings: Columns | null;
}

/** Everything the page knows at first. */
export async function open(): Promise<Book> {
  const index = await json("index");
  const runs = await Promise.all(index.runs.map((entry: any, i: number) => new Run(i, entry).load()));
  startStates(index.states, runs, index.selections);
  const measures = new Map<string, Measure>(index.measures.map((measure: Measure) => [measure.name, measure]));
  startDefinitions(measures, index.book);
  return {
    title: index.title,
    program: index.program,
    frequency: index.frequency ? { minimum: index.frequency[0], maximum: index.frequency[1] } : null,
    differences: index.differences ?? [],
    measures,
    runs,
    views: index.views,
    findings: index.findings ? await columns(index.findings) : null,
  };
}
