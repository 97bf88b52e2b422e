// The range of frequencies, as two numbers and two sliders on a logarithmic scale.

import { h, uniqueId } from "../../dom";
import type { Session } from "./session";

export function frequencyFilter(session: Session): HTMLElement {
  let largest = 1;
  for (const value of session.n) largest = Math.max(largest, value);
  const own = session.run.frequency;
  const top = Math.max(1, Math.ceil(10 * Math.log10(Math.max(largest, session.range.maximum))) / 10);
  const number = (label: string, value: number) => {
    const id = uniqueId("frequency");
    const input = h("input", { type: "number", id, min: 1, step: 1, value, inputmode: "numeric" });
    return { input, field: h("div", { class: "field" }, h("label", { for: id }, label), input) };
  };
  const slider = (label: string, value: number) => h("input", { type: "range", min: 0, max: top, step: 0.05, value: Math.log10(Math.max(1, value)), "aria-label": label });
  const [low, high] = [number("Fewest", session.range.minimum), number("Most", session.range.maximum)];
  const [lowSlider, highSlider] = [slider("Fewest occurrences, logarithmic", session.range.minimum), slider("Most occurrences, logarithmic", session.range.maximum)];
  const apply = () => {
    const minimum = Math.max(1, Number(low.input.value) || 1);
    const maximum = Math.max(minimum, Number(high.input.value) || minimum);
    lowSlider.value = String(Math.log10(minimum));
    highSlider.value = String(Math.log10(maximum));
    session.filter({ minimum, maximum });
  };
  low.input.addEventListener("input", apply);
  high.input.addEventListener("input", apply);
  lowSlider.addEventListener("input", () => { low.input.value = String(Math.round(10 ** Number(lowSlider.value))); apply(); });
  highSlider.addEventListener("input", () => { high.input.value = String(Math.round(10 ** Number(highSlider.value))); apply(); });
  const reset = h("button", { type: "button", onclick: () => { low.input.value = String(own?.minimum ?? 1); high.input.value = String(own?.maximum ?? largest); apply(); } }, own ? `Back to the run's ${own.minimum.toLocaleString("en-US")} to ${own.maximum.toLocaleString("en-US")}` : "All groups");
  return h("fieldset", { class: "frequency" }, h("legend", {}, "Groups that occur"), h("div", { class: "pair" }, low.field, high.field), lowSlider, highSlider, reset);
}
