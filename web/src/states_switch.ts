// The switch between all states and the typical ones, and the line that says why there is one.

import { h, uniqueId } from "./dom";
import { canChoose, lead, massiveRuns, olderRuns, states, type States } from "./states";
import { link, route } from "./state";
import { visible } from "./text";

const LABELS: [States, string][] = [["typical", "Typical"], ["all", "All"]];

export interface Switch {
  element: HTMLElement | null;
  /** Follows the address. */
  sync: () => void;
}

/** The switch; no element where no state is massive. */
export function statesSwitch(change: (value: States | null) => void): Switch {
  if (massiveRuns().length === 0) return { element: null, sync: () => {} };
  const name = uniqueId("states");
  const inputs = LABELS.map(([value, label]) => {
    const id = uniqueId("option");
    // The states that come first need not stand in the address.
    const input = h("input", { type: "radio", name, id, value, disabled: !canChoose(), onchange: () => change(value === lead() ? null : value) });
    return { value, input, part: h("span", {}, input, h("label", { for: id }, label)) };
  });
  const why = canChoose()
    ? "Typical: all states but the massive ones, whose norm is many times the median"
    : "Measured by an older version of Layerscope, which has no groups without massive states: measure again to choose";
  const element = h("div", { class: canChoose() ? "states" : "states off", role: "radiogroup", "aria-label": `States: ${why}`, title: why }, h("span", { "aria-hidden": "true" }, "States"), h("div", { class: "segments" }, ...inputs.map(({ part }) => part)));
  return { element, sync: () => inputs.forEach(({ value, input }) => { input.checked = value === states(); }) };
}

/** What is massive, in one line; null where nothing is. */
export function massiveLine(several: boolean): { element: HTMLElement; sync: () => void } | null {
  const runs = massiveRuns();
  if (runs.length === 0) return null;
  const said = runs.slice(0, 3).map((run) => `${several ? `${visible(run.label)}: ` : ""}${run.massive}`).join(" · ");
  const more = runs.length > 3 ? ` · and ${runs.length - 3} more runs` : "";
  const older = canChoose() && olderRuns().length > 0 ? ` ${olderRuns().map((run) => visible(run.label)).join(", ")}: measured by an older version, always with massive states.` : "";
  const shown = h("b", {});
  const who = h("a", {}, "Who are they?");
  const element = h("p", { class: "massive-line" }, `${said}${more}. `, shown, older, " ", who);
  return {
    element,
    sync: () => {
      const elsewhere = route().view === "massive";
      if (states() === "typical") shown.textContent = elsewhere ? "The other views leave them out." : "They are left out here.";
      else shown.textContent = elsewhere ? "The other views include them." : "They are included here.";
      const href = link("massive");
      who.hidden = href === null;
      if (href) who.setAttribute("href", href);
    },
  };
}
