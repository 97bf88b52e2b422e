// Finding a token by its name: a box with suggestions, for keyboards and screen readers too.

import { h, replace, uniqueId } from "../../dom";
import { count } from "../../text";
import type { Session } from "./session";

const SHOWN = 10;

/** The box; choosing pins the token. */
export function searchBox(session: Session): HTMLElement {
  const [id, listId] = [uniqueId("search"), uniqueId("list")];
  const input = h("input", { type: "search", id, role: "combobox", autocomplete: "off", spellcheck: "false", placeholder: "Type a token…", "aria-expanded": "false", "aria-controls": listId, "aria-autocomplete": "list" });
  const list = h("ul", { id: listId, role: "listbox", "aria-label": "Tokens found", hidden: true });
  const status = h("p", { class: "visually-hidden", "aria-live": "polite" });
  let found: number[] = [];
  let at = 0;

  const show = () => {
    const open = found.length > 0;
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    replace(list, ...found.map((place, i) => h("li", { role: "option", id: `${listId}-${i}`, "aria-selected": String(i === at), onpointerdown: (event: Event) => { event.preventDefault(); take(i); }, onpointerenter: () => session.aimAt(place) },
      h("span", {}, session.name(place)), h("small", {}, count(session.n[place]!)))));
    if (open) input.setAttribute("aria-activedescendant", `${listId}-${at}`);
    else input.removeAttribute("aria-activedescendant");
    session.aimAt(open ? found[at]! : null);
  };
  const take = (i: number) => {
    const place = found[i];
    if (place === undefined) return;
    session.pin([place]);
    status.textContent = `${session.name(place)} is pinned`;
    input.value = "";
    found = [];
    show();
  };
  input.addEventListener("input", () => {
    found = find(session, input.value);
    at = 0;
    status.textContent = input.value === "" ? "" : found.length === 0 ? "no token found" : `${found.length === SHOWN ? "at least " : ""}${found.length} found`;
    show();
    if (input.value !== "" && found.length === 0) {
      list.hidden = false;
      replace(list, h("li", { class: "none" }, "No such token in this run"));
    }
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      at = (at + (event.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length);
      show();
    } else if (event.key === "Enter") take(at);
    else if (event.key === "Escape") {
      input.value = "";
      found = [];
      show();
    } else return;
    event.preventDefault();
  });
  input.addEventListener("blur", () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); });
  return h("div", { class: "field search" }, h("label", { for: id }, "Find a token and follow it"), input, list, status);
}

/** Exact names first, then those that begin with the text, then those that contain it; frequent before rare. Blanks at either end, which many tokens begin with, count only where they are typed. */
function find(session: Session, wanted: string): number[] {
  if (wanted === "") return [];
  const text = wanted.toLowerCase();
  const { codes, strings } = session.names.texts("group");
  const rank = strings.map((name) => {
    const own = text.trim() === text ? name.toLowerCase().trim() : name.toLowerCase();
    return own === text ? 0 : own.startsWith(text) ? 1 : own.includes(text) ? 2 : 3;
  });
  const places: number[][] = [[], [], []];
  for (let i = session.names.rows - 1; i >= 0; i--) places[rank[codes[i]!] ?? 3]?.push(i);
  return places.flat().slice(0, SHOWN);
}
