// What is looked at in the view of tokens: one point, a range of frequencies, pinned and chosen groups.

import type { Columns } from "../../data/blocks";
import type { Point, Range, Run } from "../../data/run";
import { note, route } from "../../state";
import { fitLine, type Fit } from "../../stats/line";
import { tokenName } from "../../text";

/** As many pins as there are colours. */
export const PINS = 12;

/** What is drawn against what: the names of two columns, or of their logarithms. */
export interface Axes {
  x: string;
  y: string;
}

export const AXES: Axes[] = [{ x: "m", y: "v" }, ...["q", "m", "v", "log_q", "log_m", "log_v"].map((y) => ({ x: "log_n", y }))];

const LABELS: Record<string, [string, string]> = {
  q: ["Q", "Q(Xₜ), mean squared norm"], m: ["M", "M(Xₜ), squared norm of the mean"], v: ["V", "V(Xₜ), variance"], log_n: ["log₁₀ n", "log₁₀ nₜ"],
  log_q: ["log₁₀(1 + Q)", "log₁₀(1 + Q(Xₜ))"], log_m: ["log₁₀(1 + M)", "log₁₀(1 + M(Xₜ))"], log_v: ["log₁₀(1 + V)", "log₁₀(1 + V(Xₜ))"],
};

/** A column's symbol, and its label on an axis. */
export const symbol = (name: string): string => LABELS[name]![0];
export const axisLabel = (name: string): string => LABELS[name]![1];

const logarithms = new WeakMap<Float64Array, Float64Array>();

export type Change = "point" | "filter" | "pins" | "chosen" | "aim";

export class Session {
  readonly points: Point[];
  readonly names: Columns;
  /** How often each group occurs, and the logarithm of that. */
  n!: Float64Array;
  logN!: Float64Array;
  table!: Columns;
  /** The groups in the range, rarest first, and the others. */
  inside = new Uint32Array();
  outside = new Uint32Array();
  fit: Fit = { n: 0, line: null };
  axes: Axes = AXES[0]!;
  pins: number[] = [];
  kept: number[] = [];
  chosen: Uint32Array | null = null;
  aim: number | null = null;
  /** 1 for groups that are never selected, such as special tokens; null where there are none. */
  readonly special: Float64Array | null;
  private readonly listeners: ((change: Change) => void)[] = [];
  private asked = 0;

  constructor(readonly run: Run, public place: number, public range: Range) {
    this.points = run.points.groups;
    this.names = run.groups!;
    this.count(this.names.reals("n"));
    this.special = this.names.has("special") ? this.names.reals("special") : null;
    const ids = this.names.reals("group_id");
    const pinned = (route().params.get("pin") ?? "").split(",").filter(Boolean).map(Number);
    this.axes = AXES.find(({ x, y }) => `${y}-${x}` === route().params.get("plot")) ?? AXES[0]!;
    this.pins = pinned.map((id) => ids.indexOf(id)).filter((place) => place >= 0).slice(0, PINS);
  }

  private count(n: Float64Array): void {
    if (n === this.n) return;
    this.n = n;
    this.logN = n.map(Math.log10);
  }

  /** Whether some group is made of several tokens: words. */
  get hasSubwords(): boolean {
    return this.names.has("subwords") && this.names.reals("subwords").some((parts) => parts > 1);
  }

  /** The groups whose states were kept: the tokens of figure 1. */
  async findKept(): Promise<void> {
    const point = this.run.points.tokens[0];
    if (!point) return;
    const table = await this.run.at(point);
    const kept = new Set(table.reals("group_id"));
    const ids = this.names.reals("group_id");
    this.kept = [...ids.keys()].filter((place) => kept.has(ids[place]!));
  }

  get point(): Point {
    return this.points[this.place]!;
  }

  on(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  private tell(change: Change): void {
    this.listeners.forEach((listener) => listener(change));
  }

  /** Goes to a point; while one is being decoded, only the last wish counts. */
  async move(place: number): Promise<void> {
    const ticket = ++this.asked;
    const table = await this.run.at(this.points[place]!);
    if (ticket !== this.asked) return;
    this.place = place;
    this.table = table;
    this.count(this.countsAt(table));
    this.sift();
    this.tell("point");
  }

  /** Takes another range of frequencies. */
  filter(range: Range): void {
    this.range = range;
    note({ min: range.minimum, max: range.maximum });
    this.sift();
    this.tell("filter");
  }

  /** Draws something else. */
  plot(axes: Axes): void {
    this.axes = axes;
    note({ plot: axes === AXES[0] ? null : `${axes.y}-${axes.x}` });
    this.sift();
    this.tell("filter");
  }

  /** How often each group occurs at some point. */
  countsAt(table: Columns): Float64Array {
    return (table.has("n") ? table : this.names).reals("n");
  }

  /** The values of a column, or log₁₀(1 + value), at some point. */
  values(name: string, table: Columns): Float64Array {
    if (name === "log_n") return table === this.table ? this.logN : this.countsAt(table).map(Math.log10);
    if (!name.startsWith("log_")) return table.reals(name);
    const own = table.reals(name.slice(4));
    let made = logarithms.get(own);
    if (!made) logarithms.set(own, (made = own.map((value) => Math.log10(1 + value))));
    return made;
  }

  private sift(): void {
    const { inside, outside } = this.split(this.n);
    this.inside = inside;
    this.outside = outside;
    this.fit = this.fitAt(this.table);
  }

  /** The line of y on x at some point, over the range. */
  fitAt(table: Columns): Fit {
    const own = table === this.table ? this.inside : this.split(this.countsAt(table)).inside;
    return fitLine(this.values(this.axes.x, table), this.values(this.axes.y, table), own);
  }

  /** The groups of a range of frequencies, which no special token is part of, and the others. */
  split(n: Float64Array, range = this.range): Parts {
    return split(n, range, this.special);
  }

  /** The groups that occur at this point. */
  present(): Uint32Array {
    return Uint32Array.from(this.n.keys()).filter((place) => this.n[place]! > 0);
  }

  /** Why a group is drawn faintly; nothing for those the line is fitted to. */
  apart(place: number): string {
    if (this.special?.[place] === 1) return "special token, never selected";
    return this.n[place]! >= this.range.minimum && this.n[place]! <= this.range.maximum ? "" : "outside the range";
  }

  name(place: number, length?: number): string {
    return tokenName(this.names.text("group", place), length);
  }

  pin(places: number[]): void {
    for (const place of places) if (!this.pins.includes(place) && this.pins.length < PINS) this.pins.push(place);
    this.pinned();
  }

  unpin(place: number | null): void {
    this.pins = place === null ? [] : this.pins.filter((own) => own !== place);
    this.pinned();
  }

  private pinned(): void {
    note({ pin: this.pins.map((place) => this.names.number("group_id", place)).join(",") });
    this.tell("pins");
  }

  choose(places: Uint32Array | null): void {
    this.chosen = places && places.length > 0 ? places : null;
    this.tell("chosen");
  }

  aimAt(place: number | null): void {
    if (place === this.aim) return;
    this.aim = place;
    this.tell("aim");
  }

  /** A group in one line, for eyes and ears. */
  describe(place: number): string {
    const value = (name: string) => short(this.table.number(name, place));
    return `${this.name(place)}: n ${this.n[place]!.toLocaleString("en-US")}, Q ${value("q")}, M ${value("m")}, V ${value("v")}${this.apart(place) && `, ${this.apart(place)}`}`;
  }
}

/** One decimal where the paper prints one; more for small numbers. */
const short = (value: number): string => (Number.isNaN(value) ? "–" : Math.abs(value) >= 100 ? value.toFixed(1) : value.toPrecision(4));

interface Parts {
  inside: Uint32Array<ArrayBuffer>;
  outside: Uint32Array<ArrayBuffer>;
}

/** The places whose n is in the range, and the others. */
function split(n: Float64Array, range: Range, special: Float64Array | null): Parts {
  const inside = new Uint32Array(n.length);
  const outside = new Uint32Array(n.length);
  let [a, b] = [0, 0];
  for (let i = 0; i < n.length; i++) {
    if (n[i]! >= range.minimum && n[i]! <= range.maximum && special?.[i] !== 1) inside[a++] = i;
    else outside[b++] = i;
  }
  return { inside: inside.slice(0, a), outside: outside.slice(0, b) };
}
