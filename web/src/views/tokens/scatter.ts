// V against M, one point per group: pixels below, axes, line, pins and the reader's aim above.

import { s } from "../../dom";
import { colourBar } from "../../chart/heat";
import { frame, round, TEXT, textWidth, type Frame } from "../../chart/frame";
import { placeLabels } from "../../chart/labels";
import { Raster, rgb } from "../../chart/raster";
import { padded } from "../../chart/scale";
import { FEW_GROUPS } from "../../few";
import { Figure } from "../../figure";
import { howDefined, DEFINITIONS } from "../../how";
import { extent, quantile, sorted } from "../../stats/spread";
import { statesPhrase } from "../../states";
import { count, fixed3, tokenName, visible } from "../../text";
import { seriesColour, theme } from "../../theme";
import { fileName } from "../common";
import { axisLabel, symbol, type Session } from "./session";

export interface ScatterOptions {
  /** All points, or only those between the 0.1 and 99.9 percentiles. */
  full: boolean;
  log: boolean;
  /** Also the groups outside the range, faintly. */
  others: boolean;
  /** Names of the tokens whose states were kept. */
  kept: boolean;
  /** Colour by the number of subwords instead of occurrences. */
  subwords: boolean;
}

const REACH = 14; // pixels within which a point is meant

export class Scatter {
  readonly figure: Figure;
  private readonly raster = new Raster();
  private made!: Frame;
  private x = new Float32Array();
  private y = new Float32Array();
  private above: SVGGElement | null = null;
  private aim: SVGGElement | null = null;
  private readonly tip = document.createElement("div");
  private limits = new Map<string, [number, number]>();
  private lasso: [number, number][] | null = null;
  private shared: { of: Float64Array; share: Float32Array; low: number; high: number } | null = null;

  constructor(private readonly session: Session, public options: ScatterOptions) {
    const { run } = session;
    this.figure = new Figure({
      name: fileName("variance-on-mean", run.label),
      title: "Group by group",
      note: "One point per group; the line is fitted to those in the range, the others are faint. Hover or use the arrow keys to read a point, click or press Enter to pin it, drag around points to choose them.",
      draw: (width) => session.table && this.draw(width),
      layer: () => ({ canvas: this.raster.canvas, left: this.made.left, top: this.made.top, width: this.made.width, height: this.made.height }),
      sheet: () => this.sheet(),
      how: () => howDefined([run], DEFINITIONS),
    });
    const { stage } = this.figure;
    this.tip.className = "tip";
    this.tip.hidden = true;
    stage.classList.add("scatter");
    stage.append(this.raster.canvas, this.tip);
    stage.tabIndex = 0;
    stage.setAttribute("role", "group");
    stage.setAttribute("aria-roledescription", "scatter plot");
    stage.setAttribute("aria-label", "Scatter plot of groups. Right and left arrows move to the next group along the first axis, up and down along the second, Enter pins, Escape clears.");
    stage.addEventListener("keydown", (event) => this.key(event));
    this.listen(stage);
  }

  /** Pixels for 25,000 points take a few milliseconds; the drawing is made anew with them. */
  private draw(width: number): SVGSVGElement {
    const { table, run, point, inside, outside } = this.session;
    const { full, others } = this.options;
    const { axes } = this.session;
    const [m, v] = [this.session.values(axes.x, table), this.session.values(axes.y, table)];
    const [xLog, yLog] = [this.isLog(axes.x), this.isLog(axes.y)];
    const bar = width > 520 ? 70 : 0;
    const narrow = width < 520;
    const made = frame({
      width: width - bar, height: narrow ? 360 : Math.min(560, Math.max(380, (width - bar) * 0.62)),
      x: { domain: this.domain(axes.x, full, xLog), label: axisLabel(axes.x), log: xLog }, y: { domain: this.domain(axes.y, full, yLog), label: axisLabel(axes.y), log: yLog },
      description: this.summary(), grid: false,
    });
    this.made = made;
    made.svg.setAttribute("width", String(width));
    made.svg.setAttribute("viewBox", `0 0 ${width} ${made.svg.viewBox.baseVal.height}`);
    if (this.x.length !== m.length) [this.x, this.y] = [new Float32Array(m.length), new Float32Array(m.length)];
    made.x.all(m, this.x);
    made.y.all(v, this.y);
    this.raster.canvas.style.left = `${made.left}px`;
    this.raster.canvas.style.top = `${made.top}px`;
    this.raster.clear(made.width, made.height);
    const { share, low, high } = this.shares();
    const radius = inside.length > 8000 ? 1.7 : inside.length > 2000 ? 2.2 : 3;
    const dots = { x: this.x, y: this.y, share: null, colour: rgb(theme().ghost), radius: radius * 0.8, opacity: 0.8 };
    if (others) this.raster.draw({ ...dots, places: outside });
    const dimmed = this.session.chosen !== null;
    this.raster.draw({ ...dots, places: inside, share, radius, opacity: dimmed ? 0.22 : 0.8 });
    if (this.session.chosen) this.raster.draw({ ...dots, places: this.session.chosen, share, radius: radius + 0.6, opacity: 1 });
    this.raster.show();
    if (bar > 0) {
      const at = width - bar + 6;
      const colours = colourBar(at, made.top, made.height * 0.6, this.options.subwords ? [low, high] : [10 ** low, 10 ** high], !this.options.subwords, true);
      const scale = s("g", {}, s("text", { x: at - 10, y: 15 }, this.options.subwords ? "subwords" : "occurrences"), colours);
      made.svg.append(scale);
    }
    this.drawLine(made);
    this.above = s("g", {});
    this.aim = s("g", { class: "aim" });
    made.body.append(this.above, this.aim);
    this.drawPins();
    this.drawAim();
    const beyond = this.beyond(inside) + (others ? this.beyond(outside) : 0);
    made.svg.append(s("text", { x: made.left + made.width, y: 15, "text-anchor": "end", fill: theme().quiet }, narrow ? point.title : `${tokenName(run.label)}, ${point.title}${beyond > 0 ? ` · ${count(beyond)} beyond the axes` : ""}`));
    return made.svg;
  }

  /** Where each group stands between the rarest and the commonest, logarithmically; or between few and many subwords. */
  private shares(): { share: Float32Array; low: number; high: number } {
    const of = this.options.subwords ? this.session.names.reals("subwords") : this.session.logN;
    if (this.shared?.of !== of) {
      const [low, high] = extent(of); // extent leaves out groups that do not occur here
      this.shared = { of, low, high, share: Float32Array.from(of, (value) => (value - low) / (high - low || 1)) };
    }
    return this.shared;
  }

  /** Logarithms are not drawn on logarithmic axes. */
  private isLog(column: string): boolean {
    return this.options.log && !column.startsWith("log_");
  }

  private domain(column: string, full: boolean, log: boolean): [number, number] {
    const { place, range, inside, table } = this.session;
    const { others } = this.options;
    const key = [column, full, log, others, place, range.minimum, range.maximum].join();
    let limits = this.limits.get(key);
    if (!limits) {
      const drawn = others ? this.session.present() : inside;
      let values = sorted(this.session.values(column, table), drawn);
      if (log) values = values.subarray(values.findIndex((value) => value > 0));
      const edge = full ? 0 : 0.001;
      const [low, high] = [quantile(values, edge), quantile(values, 1 - edge)];
      limits = Number.isNaN(low) ? (log ? [1, 10] : [0, 1]) : [low, high];
      this.limits.set(key, limits);
    }
    // What is pinned is always in sight.
    const values = this.session.values(column, table);
    const pinned = this.session.pins.map((pin) => values[pin]!).filter((value) => !log || value > 0);
    return padded(extent([...limits, ...pinned]), log, 0.04);
  }

  private beyond(places: Uint32Array): number {
    let outside = 0;
    for (const i of places) if (Number.isFinite(this.x[i]!) && Number.isFinite(this.y[i]!) && !(this.x[i]! >= 0 && this.x[i]! <= this.made.width && this.y[i]! >= 0 && this.y[i]! <= this.made.height)) outside++;
    return outside;
  }

  private drawLine(made: Frame): void {
    const { line, n } = this.session.fit;
    if (!line) return;
    const [from, to] = made.x.domain;
    // Straight on linear axes; on logarithmic ones it bends, so it is drawn in steps.
    const parts = made.x.log || made.y.log ? 60 : 1;
    const places = Array.from({ length: parts + 1 }, (_, i) => (i === 0 ? from : i === parts ? to : made.x.invert((made.width * i) / parts)));
    const points = places.map((x) => [x, line.intercept + line.slope * x] as const).filter(([, y]) => !made.y.log || y > 0);
    const path = points.map(([x, y], i) => `${i ? "L" : "M"}${round(made.x(x))} ${round(made.y(y))}`).join("");
    made.body.append(s("path", { d: path, fill: "none", stroke: theme().paper, "stroke-width": 4, "stroke-opacity": 0.7 }), s("path", { d: path, fill: "none", stroke: theme().ink, "stroke-width": 1.6 }));
    const words = [`slope ${fixed3(line.slope)} · R² ${fixed3(line.r2)}`, ...(n < FEW_GROUPS ? [`only ${n} groups`] : [])];
    const said = textWidth(words.join(" · ")) < made.width / 2 ? [words.join(" · ")] : words;
    const wide = Math.max(...said.map((text) => textWidth(text)));
    const box = { x: line.slope > 0 ? 6 : made.width - wide - 18, y: 6 }; // away from the line
    made.body.append(s("rect", { ...box, width: wide + 14, height: 6 + 16 * said.length, rx: 4, fill: theme().paper, "fill-opacity": 0.85 }), ...said.map((text, i) => s("text", { x: box.x + 7, y: box.y + 15 + 16 * i }, text)));
  }

  /** Pinned groups with their names, placed where none covers another. */
  private drawPins(): void {
    if (!this.above) return;
    this.above.replaceChildren();
    const { pins } = this.session;
    const named = this.options.kept ? this.session.kept.filter((place) => !pins.includes(place)) : [];
    const here = pins.map((place) => ({ x: this.x[place]!, y: this.y[place]!, text: this.session.name(place, 24), bold: true }));
    const others = named.map((place) => ({ x: this.x[place]!, y: this.y[place]!, text: this.session.name(place, 20) })).filter(({ x, y }) => x >= 0 && y >= 0 && x <= this.made.width && y <= this.made.height);
    const spots = placeLabels([...here, ...others], this.made.width, this.made.height, TEXT, 8);
    others.forEach(({ x, y, text }, i) => {
      this.above!.append(s("circle", { cx: round(x), cy: round(y), r: 3.5, fill: "none", stroke: theme().ink, "stroke-width": 1.3 }));
      const spot = spots[here.length + i];
      if (spot) this.above!.append(s("text", { x: round(spot.x), y: round(spot.y), stroke: theme().paper, "stroke-width": 3.5, "stroke-linejoin": "round" }, text), s("text", { class: "kept", x: round(spot.x), y: round(spot.y), fill: theme().ink }, text));
    });
    here.forEach(({ x, y, text }, i) => {
      if (Number.isNaN(x) || Number.isNaN(y)) return;
      this.above!.append(s("circle", { cx: round(x), cy: round(y), r: 5, fill: seriesColour(i), stroke: theme().paper, "stroke-width": 1.5 }));
      const spot = spots[i];
      if (!spot) return; // its name is in the list
      const at = { x: round(spot.x), y: round(spot.y) };
      this.above!.append(s("text", { ...at, stroke: theme().paper, "stroke-width": 3.5, "stroke-linejoin": "round" }, text), s("text", { ...at, fill: theme().ink, "font-weight": 600 }, text));
    });
  }

  /** What the reader points at. */
  drawAim(): void {
    if (!this.aim) return;
    this.aim.replaceChildren();
    const { aim } = this.session;
    this.tip.hidden = true;
    if (this.lasso) this.aim.append(s("path", { d: `M${this.lasso.map(([x, y]) => `${round(x)} ${round(y)}`).join("L")}Z`, fill: theme().accent, "fill-opacity": 0.12, stroke: theme().accent, "stroke-dasharray": "4 3" }));
    if (aim === null) return;
    const [x, y] = [this.x[aim]!, this.y[aim]!];
    if (Number.isNaN(x) || Number.isNaN(y)) return;
    this.aim.append(s("circle", { cx: round(x), cy: round(y), r: 7, fill: "none", stroke: theme().ink, "stroke-width": 2 }));
    this.showTip(aim, x, y);
    this.figure.say(this.session.describe(aim));
  }

  private showTip(place: number, x: number, y: number): void {
    const { session } = this;
    const row = (label: string, value: string) => {
      const line = document.createElement("div");
      const [a, b] = [document.createElement("span"), document.createElement("b")];
      [a.textContent, b.textContent] = [label, value];
      line.append(a, b);
      return line;
    };
    const small = (text: string) => { const line = document.createElement("small"); line.textContent = text; return line; };
    const head = document.createElement("strong");
    head.textContent = session.name(place);
    const value = (name: string) => session.table.number(name, place);
    const digits = (number: number) => (Number.isNaN(number) ? "–" : Math.abs(number) >= 100 ? number.toFixed(1) : number.toPrecision(4));
    this.tip.replaceChildren(head, row("n", count(session.n[place]!)), row("Q", digits(value("q"))), row("M", digits(value("m"))), row("V", digits(value("v"))));
    for (const text of [session.apart(place), statesPhrase()]) if (text) this.tip.append(small(text));
    this.tip.hidden = false;
    const [left, top] = [this.made.left + x, this.made.top + y];
    const flip = left + this.tip.offsetWidth + 20 > this.figure.stage.clientWidth;
    this.tip.style.left = `${flip ? Math.max(0, left - this.tip.offsetWidth - 14) : left + 14}px`;
    this.tip.style.top = `${Math.max(0, Math.min(top - 20, this.figure.stage.clientHeight - this.tip.offsetHeight))}px`;
  }

  private listen(stage: HTMLElement): void {
    const place = (event: PointerEvent): [number, number] => {
      const box = stage.getBoundingClientRect();
      return [event.clientX - box.left - this.made.left, event.clientY - box.top - this.made.top];
    };
    let start: [number, number] | null = null;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = place(event);
      // A finger scrolls the page; only mouse and pen draw around points.
      if (event.pointerType !== "touch") stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (start && event.pointerType !== "touch" && (this.lasso || Math.hypot(at[0] - start[0], at[1] - start[1]) > 6)) {
        this.lasso ??= [start];
        this.lasso.push(at);
        this.session.aimAt(null);
        this.drawAim();
      } else if (!start) this.session.aimAt(this.nearest(at));
    });
    stage.addEventListener("pointerup", (event) => {
      if (this.lasso) this.session.choose(this.within(this.lasso));
      else if (start) {
        const near = this.nearest(place(event));
        if (near !== null) {
          this.session.aimAt(near);
          this.togglePin(near);
        }
      }
      this.lasso = start = null;
      this.drawAim();
    });
    stage.addEventListener("pointercancel", () => { this.lasso = start = null; });
    stage.addEventListener("pointerleave", () => { if (!start) this.session.aimAt(null); });
  }

  private togglePin(place: number): void {
    if (this.session.pins.includes(place)) this.session.unpin(place);
    else this.session.pin([place]);
  }

  private nearest([x, y]: [number, number]): number | null {
    let [found, closest]: [number | null, number] = [null, REACH * REACH];
    const look = (i: number) => {
      const distance = (this.x[i]! - x) ** 2 + (this.y[i]! - y) ** 2;
      if (distance <= closest) [found, closest] = [i, distance];
    };
    for (const i of this.session.inside) look(i);
    for (const i of this.session.pins) look(i);
    if (found === null && this.options.others) for (const i of this.session.outside) look(i);
    return found;
  }

  private within(path: [number, number][]): Uint32Array {
    return this.session.inside.filter((i) => {
      const [x, y] = [this.x[i]!, this.y[i]!];
      let odd = false;
      for (let a = 0, b = path.length - 1; a < path.length; b = a++) {
        const [xa, ya] = path[a]!;
        const [xb, yb] = path[b]!;
        if (ya > y !== yb > y && x < ((xb - xa) * (y - ya)) / (yb - ya) + xa) odd = !odd;
      }
      return odd;
    });
  }

  private key(event: KeyboardEvent): void {
    const { session } = this;
    const column = event.key === "ArrowLeft" || event.key === "ArrowRight" ? session.axes.x : event.key === "ArrowUp" || event.key === "ArrowDown" ? session.axes.y : null;
    if (column) {
      const values = session.values(column, session.table);
      const order = [...session.inside].filter((i) => !Number.isNaN(values[i]!)).sort((a, b) => values[a]! - values[b]!);
      const up = event.key === "ArrowRight" || event.key === "ArrowUp";
      const at = session.aim === null ? -1 : order.indexOf(session.aim);
      const next = at < 0 ? Math.floor(order.length / 2) : at + (up ? 1 : -1) * (event.shiftKey ? 50 : 1);
      session.aimAt(order[Math.max(0, Math.min(order.length - 1, next))] ?? null);
    } else if (event.key === "Enter" || event.key === " ") {
      if (session.aim !== null) this.togglePin(session.aim);
    } else if (event.key === "Escape") {
      session.aimAt(null);
      session.choose(null);
    } else return;
    event.preventDefault();
  }

  private summary(): string {
    const { fit, point, inside, run, axes } = this.session;
    const line = fit.line ? `slope ${fixed3(fit.line.slope)}, R squared ${fixed3(fit.line.r2)}` : "no line";
    return `${symbol(axes.y)} against ${symbol(axes.x)} of ${count(inside.length)} groups in ${visible(run.label)}, ${point.title}: ${line}.`;
  }

  private sheet() {
    const { session } = this;
    const names = ["group_id", "group", ...(session.hasSubwords ? ["subwords"] : []), "n", "q", "m", "v", "self_similarity", "mean_norm"];
    const cell = (place: number, name: string) => (name === "n" ? session.n[place]! : session.names.has(name) ? session.names.cell(name, place) : session.table.cell(name, place));
    return { names, rows: Array.from(session.inside, (place) => names.map((name) => cell(place, name))) };
  }
}
