// What the reader looks at, kept in the address: every view can be linked to, and the way back works.

export interface Route {
  view: string;
  params: URLSearchParams;
}

/** Parameters that go along from view to view. */
const SHARED = ["run", "at", "min", "max", "pin", "states", "keys"];

/** Views that also go by what stands on their tab. */
const ALSO: Record<string, string> = { layers: "profiles" };

let views: string[] = [];

/** Takes the views of this page, the first of which is shown where the address names none. */
export function startViews(names: string[]): void {
  views = names;
}

/** The name of a view by what stands on its tab. */
export const viewName = (tab: string): string => (Object.hasOwn(ALSO, tab) ? ALSO[tab]! : tab);

/** Where the reader is. */
export function route(): Route {
  const [name = "", query = ""] = location.hash.replace(/^#/, "").split("?");
  const view = viewName(name.toLowerCase());
  return { view: views.includes(view) ? view : (views[0] ?? view), params: new URLSearchParams(query) };
}

/** The address of a view, with what is shared and what is said here; null where the page does not have the view. */
export function link(view: string, params: Record<string, string | number | null> = {}): string | null {
  if (!views.includes(view)) return null;
  const kept = new URLSearchParams();
  for (const [name, value] of route().params) if (SHARED.includes(name)) kept.set(name, value);
  for (const [name, value] of Object.entries(params)) {
    if (value === null) kept.delete(name);
    else kept.set(name, String(value));
  }
  const query = kept.toString();
  return `#${view}${query ? `?${query}` : ""}`;
}

/** Notes a choice in the address without leaving the view. */
export function note(params: Record<string, string | number | null>): void {
  const { view, params: own } = route();
  for (const [name, value] of Object.entries(params)) {
    if (value === null || value === "") own.delete(name);
    else own.set(name, String(value));
  }
  history.replaceState(null, "", `#${view}${own.size ? `?${own}` : ""}`);
  noted.forEach((listener) => listener());
}

const noted = new Set<() => void>();

/** Calls back when a choice was noted. */
export const onNote = (listener: () => void): void => void noted.add(listener);
