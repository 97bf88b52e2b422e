// The page: a title, the views, and which of them is shown.

import { h, replace } from "./dom";
import { Lost, served } from "./data/blocks";
import { open, type Book } from "./data/run";
import { press, startKeys, type Key } from "./keys";
import { startPrint } from "./print";
import { link, note, onNote, route, startViews, viewName } from "./state";
import { canChoose, lead, states, type States } from "./states";
import { massiveLine, statesSwitch } from "./states_switch";
import { startTerms } from "./term";
import { onTheme, startTheme, theme, toggleTheme } from "./theme";
import { visible } from "./text";
import { absence, type View } from "./views/common";
import { components } from "./views/components";
import { embeddings } from "./views/embeddings";
import { massive } from "./views/massive";
import { method } from "./views/method";
import { overview } from "./views/overview";
import { pca } from "./views/pca";
import { profiles } from "./views/profiles";
import { spectrum } from "./views/spectrum";
import { tables } from "./views/tables";
import { tokens } from "./views/tokens";
import { training } from "./views/training";

const ALL: View[] = [overview, tokens, profiles, training, spectrum, components, massive, pca, embeddings, tables, method];

/** Those that the page has; `layerscope report --only` leaves some out. */
let views: View[] = [];

/** The view of the address. */
const current = (): View => views.find((view) => view.name === route().view)!;

const app = document.getElementById("app")!;
const trouble = h("p", { class: "trouble", role: "alert" });

// A layer that did not come, whichever view asked for it; what is shown stays.
addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof Lost)) return;
  event.preventDefault();
  replace(trouble, visible(event.reason.message), " ", h("button", { type: "button", onclick: () => location.reload() }, "Load again"));
});

async function start(): Promise<void> {
  startTheme();
  const book = await open();
  const tabs = book.views.map(viewName);
  views = ALL.filter((view) => tabs.includes(view.name));
  startViews(views.map((view) => view.name));
  startTerms();
  startPrint();
  const main = h("main", { id: "main" });
  const nav = h("nav", { "aria-label": "Views" });
  const name = () => (theme().name === "dark" ? "Light" : "Dark");
  const shade = h("button", { type: "button", class: "shade", title: "Other colours", onclick: toggleTheme }, name());
  const line = massiveLine(book.runs.length > 1);
  const choose = (wanted: States | null) => {
    main.style.minHeight = `${main.offsetHeight}px`; // what the reader looks at stays in sight
    note({ states: wanted });
    show();
  };
  const chosen = statesSwitch(choose);
  const turn = (by: number) => { location.hash = link(views[(views.indexOf(current()) + by + views.length) % views.length]!.name)!; };
  const keys: Key[] = [
    { key: "n", text: "next view", act: () => turn(1) },
    { key: "p", text: "previous view", act: () => turn(-1) },
    { key: ".", text: "next layer, where the view has a slider", act: () => press(".slider .step:nth-of-type(2)") },
    { key: ",", text: "previous layer", act: () => press(".slider .step") },
    { key: "/", text: "search or filter, where the view can", act: () => main.querySelector<HTMLElement>("input[type=search]")?.focus() },
    { key: "t", text: "light or dark colours", act: toggleTheme },
    ...(canChoose() ? [{ key: "s", text: "typical or all states", act: () => choose(otherStates()) }] : []),
  ];
  replace(app,
    h("a", { class: "skip", href: "#main", onclick: (event: Event) => { event.preventDefault(); main.querySelector<HTMLElement>("h2")?.focus(); } }, "Skip to the figures"),
    h("header", { class: "top" }, h("div", { class: "bar" }, h("h1", {}, visible(book.title)), h("div", { class: "tools" }, chosen.element, shade, startKeys(keys))), trouble, nav), line && line.element, main,
    h("footer", {}, `Layerscope ${book.program} · `, served() ? "layers come from the server of this page, nothing from anywhere else" : "this file holds all its data and asks nothing of the network"));
  app.removeAttribute("aria-busy");
  const anchors = views.map((view) => h("a", { class: view.absent(book) ? "empty" : "" }, view.title));
  replace(nav, ...anchors);
  const links = () => {
    views.forEach((view, i) => {
      anchors[i]!.setAttribute("href", link(view.name)!);
      if (view === current()) anchors[i]!.setAttribute("aria-current", "page");
      else anchors[i]!.removeAttribute("aria-current");
    });
    line?.sync();
  };
  const show = () => {
    links();
    chosen.sync();
    // Only sideways: a narrow screen shows part of the bar.
    const tab = nav.querySelector<HTMLElement>('[aria-current="page"]');
    if (tab) nav.scrollLeft = tab.offsetLeft - nav.offsetLeft - (nav.clientWidth - tab.offsetWidth) / 2;
    display(book, main);
  };
  let shown = route().view;
  addEventListener("hashchange", () => {
    const moved = route().view !== shown;
    shown = route().view;
    main.style.minHeight = "";
    show();
    if (moved) {
      scrollTo(0, 0);
      main.querySelector<HTMLElement>("h2")?.focus({ preventScroll: true });
    }
  });
  onNote(links);
  onTheme(() => {
    shade.textContent = name();
    show();
  });
  show();
  document.documentElement.dataset.ready = "true";
}

/** The states that are not shown; those that come first need not stand in the address. */
function otherStates(): States | null {
  const other: States = states() === "typical" ? "all" : "typical";
  return other === lead() ? null : other;
}

function display(book: Book, main: HTMLElement): void {
  const view = current();
  replace(trouble);
  main.replaceChildren();
  main.dataset.view = view.name;
  const why = view.absent(book);
  if (why) main.append(h("header", { class: "view-head" }, h("h2", { tabindex: -1 }, view.title)), absence(why));
  else view.show(book, main);
}

start().catch((error: unknown) => {
  replace(app, h("p", { class: "absent", role: "alert" }, `The page cannot be shown: ${error instanceof Error ? error.message : String(error)}`));
  throw error;
});
