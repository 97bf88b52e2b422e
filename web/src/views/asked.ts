// What papers found, and what these runs show: the page opens on it where somebody asked.

import { h } from "../dom";
import type { Book } from "../data/run";
import { capital, count, symbols, visible } from "../text";

/** The verdicts: a sign for those who do not see the colour, and how one and several of them are counted. */
const VERDICTS: Record<string, [sign: string, one: string, several: string]> = { agrees: ["\u2713", "agrees", "agree"], differs: ["\u2260", "differs", "differ"], "cannot tell": ["?", "cannot be told", "cannot be told"] };

/** The section; null where nothing was asked. */
export function asked(book: Book): HTMLElement | null {
  const table = book.findings;
  if (!table) return null;
  const rows = Array.from({ length: table.rows }, (_, row) => (name: string) => symbols(visible(table.text(name, row) ?? "")));
  const counts = Object.entries(VERDICTS).map(([verdict, [, one, several]]) => {
    const found = rows.filter((of) => of("verdict") === verdict).length;
    return `${count(found)} ${found === 1 ? one : several}`;
  });
  return h("section", { class: "asked" }, h("h2", { tabindex: -1 }, "What papers found, and what is seen here"),
    h("p", { class: "note" }, `Of ${count(rows.length)} statements ${counts.join(", ")}: by more than two standard errors, where these are known.`),
    h("div", { class: "cards" }, ...rows.map((of) => h("article", { class: "card" },
      h("p", { class: `verdict ${of("verdict").replace(/ /g, "-")}` }, h("span", { "aria-hidden": "true" }, VERDICTS[of("verdict")]?.[0] ?? ""), ` ${of("verdict")}`),
      h("h3", {}, capital(of("statement"))), h("p", {}, `Here: ${of("seen here")}.`), h("p", { class: "note" }, `${of("paper")}: ${of("the paper saw")}.`)))));
}
