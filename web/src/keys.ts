// Keys that work anywhere on the page, and the list of them.

import { h, toggle } from "./dom";
import { note, route } from "./state";

export interface Key {
  key: string;
  text: string;
  act: () => void;
}

/** What other parts of the page do with keys. */
const ELSEWHERE: [string, string][] = [
  ["Esc", "close a definition or this list"],
  ["\u2190 \u2192", "move a slider; Home and End go to its ends"],
  ["\u2191 \u2193 Enter", "choose among the tokens that a search found"],
  ["arrows Enter", "in the plot of tokens: read the next point, pin it"],
];

/** Where letters are text, or choose. */
const TYPING = "input:not([type=range], [type=radio], [type=checkbox]), select, textarea";

/** Presses the first of these in the view, where there is one. */
export const press = (selector: string): void => document.querySelector<HTMLElement>(`main ${selector}`)?.click();

/** Listens to these keys, and to `?`. Returns the button that shows the list. */
export function startKeys(keys: Key[]): HTMLElement {
  const close = h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close");
  const row = (key: string, text: string) => [h("dt", {}, ...key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, text)];
  const all = [...keys, { key: "?", text: "show this list", act: () => dialog.showModal() }];
  const on = () => route().params.get("keys") !== "off";
  const dialog = h("dialog", { class: "keys", "aria-labelledby": "keys-title", onclick: (event: Event) => event.target === dialog && dialog.close() },
    h("div", {}, h("h2", { id: "keys-title" }, "Keys"),
      h("dl", {}, ...all.flatMap(({ key, text }) => row(key, text)), ...ELSEWHERE.flatMap(([key, text]) => row(key, text))),
      // Who talks to a computer, or hits keys by chance, can do without.
      toggle("Single keys work", on(), (value) => note({ keys: value ? null : "off" })), close));
  addEventListener("keydown", (event) => {
    const target = event.target as Element;
    if (!on() || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || target.closest(TYPING)) return;
    if (dialog.open) return event.key === "?" ? dialog.close() : undefined;
    const found = all.find(({ key }) => key === event.key);
    if (!found) return;
    event.preventDefault();
    found.act();
  });
  document.body.append(dialog);
  return h("button", { type: "button", class: "help", title: "Keys", "aria-label": "Keys", "aria-haspopup": "dialog", onclick: () => dialog.showModal() }, "?");
}
