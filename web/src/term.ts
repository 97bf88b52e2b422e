// A name of a measure with its definition: on hover, on focus, on touch. Esc closes it.

import { h, replace, type Child } from "./dom";
import { bookPage, definition, measureOf } from "./definitions";
import { capital, measureTitle } from "./text";

/** Milliseconds before a definition opens or closes: a pointer may be on its way elsewhere. */
const WAIT = 250;

/** One box for all of them: it stands behind the name it explains, so that Tab leads into it. */
const box = h("div", { class: "definition", onpointerenter: () => wait(null), onpointerleave: () => wait(close, WAIT) });
let owner: HTMLElement | null = null;
let timer = 0;

function wait(then: (() => void) | null, time = 0): void {
  clearTimeout(timer);
  if (then) timer = window.setTimeout(then, time);
}

function open(element: HTMLElement, name: string): void {
  wait(null);
  const measure = measureOf(name)!;
  if (owner === element && box.isConnected) return;
  close();
  owner = element;
  replace(box, h("p", {}, h("strong", {}, capital(measureTitle(name))), " ", h("code", {}, name)), h("p", { id: "definition", role: "tooltip" }, definition(measure)), h("p", { class: "note" }, "More in the book: ", bookPage(measure.family)));
  element.setAttribute("aria-describedby", "definition");
  element.after(box);
  place();
}

function close(): void {
  wait(null);
  owner?.removeAttribute("aria-describedby");
  owner = null;
  box.remove();
}

/** Below the name, or above where there is no room; always inside the window. */
function place(): void {
  if (!owner) return;
  const [at, own] = [owner.getBoundingClientRect(), box.getBoundingClientRect()];
  const below = at.bottom + 6 + own.height <= innerHeight || at.top < own.height + 6;
  box.style.top = `${below ? at.bottom + 6 : at.top - own.height - 6}px`;
  box.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - own.width - 8))}px`;
}

/** Explains an element that has a purpose of its own, by the measure of this name. */
export function explain<E extends HTMLElement>(element: E, name: string): E {
  if (!measureOf(name)) return element;
  element.addEventListener("pointerenter", (event) => event.pointerType !== "touch" && wait(() => open(element, name), WAIT));
  element.addEventListener("pointerleave", () => wait(close, WAIT));
  element.addEventListener("focus", () => element.matches(":focus-visible") && open(element, name));
  element.addEventListener("blur", (event) => !box.contains(event.relatedTarget as Node | null) && close());
  return element;
}

/** The name of a measure; plain text where the table does not have it. */
export function term(name: string, label: string): Child {
  if (!measureOf(name)) return label;
  const element = h("button", { type: "button", class: "term", onclick: () => open(element, name) }, label);
  return explain(element, name);
}

/** A text in which some words are names of measures. */
export function termed(text: string, names: Record<string, string>): Child[] {
  const words = Object.keys(names).sort((a, b) => b.length - a.length).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (words.length === 0) return [text];
  return text.split(new RegExp(`(${words.join("|")})`)).map((part, i) => (i % 2 === 1 ? term(names[part]!, part) : part));
}

/** Listens for what closes a definition. */
export function startTerms(): void {
  box.addEventListener("focusout", (event) => event.relatedTarget !== owner && close());
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", place);
  addEventListener("pointerdown", (event) => !box.contains(event.target as Node) && event.target !== owner && close());
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !owner || !box.isConnected) return;
    event.stopPropagation(); // it closes one thing at a time
    if (box.contains(document.activeElement)) owner.focus();
    close();
  }, true);
}
