// What the reader looks at, kept in the address: every view can be linked to, and the way back works.

export interface Route {
  view: string;
  params: URLSearchParams;
}

/** Parameters that go along from view to view. */
const SHARED = ["run", "at", "min", "max", "pin", "states"];

/** Where the reader is. */
export function route(): Route {
  const [view = "", query = ""] = location.hash.replace(/^#/, "").split("?");
  return { view: view || "overview", params: new URLSearchParams(query) };
}

/** The address of a view, with what is shared and what is said here. */
export function link(view: string, params: Record<string, string | number | null> = {}): string {
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
