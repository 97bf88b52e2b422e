// A figure on the page: its drawing, a line that reads it out, downloads, and how it was computed.

import { textWidth } from "./chart/frame";
import { h, replace, s } from "./dom";
import { saveCsv, savePng, saveSvg, type Layer, type Sheet } from "./download";
import { statesPhrase } from "./states";
import { termed } from "./term";
import { capital } from "./text";
import { theme } from "./theme";

export interface FigureOptions {
  /** Names its files. */
  name: string;
  title: string;
  /** The names of measures in the title. */
  terms?: Record<string, string>;
  note?: string;
  /** The drawing; null while there is nothing to draw yet. */
  draw: (width: number, say: (text: string) => void) => SVGSVGElement | null;
  sheet?: () => Sheet | Promise<Sheet>;
  /** Pixels that belong under the drawing. */
  layer?: () => Layer | null;
  how?: () => Node;
  /** The states it shows, in words, where they are not those of the switch; empty where it shows none. */
  states?: string;
  /** Smaller headings, no reading line: one of several. */
  small?: boolean;
}

export class Figure {
  readonly element: HTMLElement;
  readonly stage = h("div", { class: "stage" });
  private readonly reading = h("p", { class: "reading", "aria-live": "polite" });
  private svg: SVGSVGElement | null = null;
  private width = 0;
  private seen = true;
  private wait = 0;
  /** The states that are shown, in words. */
  private readonly phrase: string;

  constructor(private readonly options: FigureOptions) {
    const { name, title, sheet, how, small } = options;
    this.phrase = options.states ?? statesPhrase();
    const note = [options.note, !small && this.phrase && `${capital(this.phrase)}.`].filter(Boolean).join(" ");
    const button = (label: string, save: () => void) => h("button", { type: "button", class: "quiet", "aria-label": `Download ${title} as ${label}`, onclick: save }, label);
    const layer = () => options.layer?.() ?? null;
    const downloads = h("div", { class: "downloads" },
      button("SVG", () => this.svg && saveSvg(name, this.svg, layer())),
      button("PNG", () => this.svg && void savePng(name, this.svg, layer())),
      sheet ? button("CSV", async () => saveCsv(name, await sheet())) : null);
    this.element = h("figure", { class: small ? "figure small" : "figure", id: `figure-${name}` },
      h("figcaption", {}, h("div", {}, h(small ? "h4" : "h3", {}, ...termed(title, options.terms ?? {})), note ? h("p", { class: "note" }, note) : null), downloads),
      this.stage, small ? null : this.reading, how ? howPanel(how) : null);
    figures.set(this.element, this);
    new ResizeObserver(() => {
      const width = Math.floor(this.stage.clientWidth);
      if (width > 0 && width !== this.width) {
        this.width = width;
        this.redraw();
      }
    }).observe(this.stage);
    new IntersectionObserver((entries) => { this.seen = entries.at(-1)?.isIntersecting ?? true; }).observe(this.stage);
  }

  readonly say = (text: string): void => {
    this.reading.textContent = text && this.phrase ? `${text} · ${this.phrase}` : text;
  };

  /** Draws anew at once where it can be seen, else when the reader's hand rests: a slider moves what is in sight first. */
  redrawInTime(): void {
    if (this.seen) return this.redraw();
    clearTimeout(this.wait);
    this.wait = window.setTimeout(() => this.redraw(), 100);
  }

  /** Draws anew at the width it has now, whatever that was before. */
  fit(): void {
    this.width = Math.floor(this.stage.clientWidth);
    this.redraw();
  }

  /** Draws anew, at the present width. */
  redraw(): void {
    clearTimeout(this.wait);
    if (this.width === 0) return;
    const svg = this.options.draw(this.width, this.say);
    if (!svg) return;
    this.nameStates(svg);
    if (this.svg?.isConnected) this.svg.replaceWith(svg);
    else this.stage.append(svg);
    this.svg = svg;
  }

  /** Says which states are shown where a saved drawing says it too: behind the name of the upright axis, if there is room. */
  private nameStates(svg: SVGSVGElement): void {
    if (!this.phrase) return;
    svg.setAttribute("aria-label", `${svg.getAttribute("aria-label") ?? ""} ${capital(this.phrase)}.`);
    const label = svg.querySelector("text.y-label");
    const text = `, ${this.phrase}`;
    const room = (this.options.small ? 1 : 0.6) * svg.viewBox.baseVal.width - 8;
    if (label && textWidth(`${label.textContent}${text}`) < room) label.append(s("tspan", { fill: theme().quiet }, text));
  }
}

const figures = new WeakMap<Element, Figure>();

/** Draws every figure of the view anew, in the colours and at the width of this moment. */
export const redrawFigures = (): void => document.querySelectorAll(".figure").forEach((element) => figures.get(element)?.fit());

/** The panel that says how; made when it is opened. */
export function howPanel(make: () => Node): HTMLElement {
  const inside = h("div", {});
  const panel = h("details", { class: "how" }, h("summary", {}, "How was this computed?"), inside);
  panel.addEventListener("toggle", () => panel.open && replace(inside, make()), { once: true });
  return panel;
}
