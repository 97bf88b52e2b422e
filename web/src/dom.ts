// Elements without mark-up: text always becomes a text node, so nothing in it can be more than text.

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined | ((event: any) => void);
type Attributes = Record<string, Value>;

/** An element of the page. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, ...children);
  return element;
}

/** Adds what is there. */
export function append(element: Element, ...children: Child[]): void {
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
}

/** Replaces all that was inside. */
export function replace(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, ...children);
}

/** A text of the page's own, with what stands between backquotes as code. */
export const prose = (text: string): Child[] => text.split("`").map((part, i) => (i % 2 === 1 ? h("code", {}, ...part.split(/(?= )/).map((word) => h("span", { class: "word" }, word))) : part));

/** A name that may go on in the next line behind its signs. */
export const breakable = (text: string): Child[] => text.split(/(?<=[_./-])/).flatMap((part) => [part, h("wbr")]);

let counter = 0;

/** An id that nothing else has. */
export const uniqueId = (prefix: string): string => `${prefix}-${++counter}`;

/** A labelled choice. */
export function select(label: string, options: { value: string; label: string; group?: string }[], value: string, change: (value: string) => void): HTMLElement {
  const id = uniqueId("select");
  const element = h("select", { id, onchange: (event: Event) => change((event.target as HTMLSelectElement).value) });
  const groups = new Map<string, HTMLOptGroupElement>();
  for (const option of options) {
    let parent: HTMLElement = element;
    if (option.group) {
      if (!groups.has(option.group)) {
        const group = h("optgroup", { label: option.group });
        groups.set(option.group, group);
        element.append(group);
      }
      parent = groups.get(option.group)!;
    }
    parent.append(h("option", { value: option.value, selected: option.value === value }, option.label));
  }
  return h("div", { class: "field" }, h("label", { for: id }, label), element);
}

/** A few choices side by side; radio buttons to keyboards and screen readers. */
export function choice(label: string, options: { value: string; label: string }[], value: string, change: (value: string) => void): HTMLElement {
  const name = uniqueId("choice");
  return h("fieldset", { class: "choice" }, h("legend", {}, label), h("div", { class: "segments" }, ...options.map((option) => {
    const id = uniqueId("option");
    const input = h("input", { type: "radio", name, id, value: option.value, checked: option.value === value, onchange: () => change(option.value) });
    return h("span", {}, input, h("label", { for: id }, option.label));
  })));
}

/** A switch. */
export function toggle(label: string, value: boolean, change: (value: boolean) => void): HTMLElement {
  return h("label", { class: "toggle" }, h("input", { type: "checkbox", checked: value, onchange: (event: Event) => change((event.target as HTMLInputElement).checked) }), h("span", {}, label));
}
