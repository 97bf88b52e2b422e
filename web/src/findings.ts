// What stands out in a run: a few sentences with their numbers, each with the figure that shows it.

import type { Book, Run } from "./data/run";
import { pointKey, pointTitle } from "./data/run";
import type { Curve, Profile, Value } from "./data/layers";
import { FEW_GROUPS } from "./few";
import { best } from "./stats/best";
import { link } from "./state";
import { ofStates } from "./states";
import { count, fixed3, number, percent } from "./text";

export interface Finding {
  run: Run;
  text: string;
  /** Where to see it; null where the page does not have the view. */
  href: string | null;
  /** What its numbers are over, where that is a choice. */
  selection?: string;
  /** The curve behind it, and where it stands out. */
  profile?: Profile;
  at?: Value;
}

export interface Topic {
  title: string;
  about: string;
  /** The words of title and text that are measures. */
  terms: Record<string, string>;
  findings: Finding[];
}

/** All topics that some run has something to say on. */
export async function topics(book: Book): Promise<Topic[]> {
  const made: Topic[] = [
    topic(book, "Strongest trade-off", "where V is closest to a falling line in M", tradeOff, { "Strongest trade-off": "r2_v_on_m" }),
    topic(book, "Anisotropy", "share of variance along one direction, λ₁ / Σλ", peak("anisotropy_svd"), { Anisotropy: "anisotropy_svd" }),
    topic(book, "Mean cosine", "between pairs of states", peak("mean_cosine"), { "Mean cosine": "mean_cosine" }),
    topic(book, "Intrinsic dimension", "by distances of nearest neighbours", peak("intrinsic_dimension"), { "Intrinsic dimension": "intrinsic_dimension" }),
    topic(book, "Mean against spread", "share of Q that is the common mean, M / Q", peak("m_over_q"), { "Mean against spread": "m_over_q" }),
    topic(book, "Massive activations", "states far longer than the median", massive, { "Massive activations": "massive_activations" }),
    { title: "Rogue dimensions", about: "components that carry the mean cosine", terms: { "mean cosine": "mean_cosine" }, findings: (await Promise.all(book.runs.map(rogue))).flat() },
    topic(book, "What the final norm does", "anisotropy just before and just after it", finalNorm, { anisotropy: "anisotropy_svd" }),
    topic(book, "Over training", "first against last step", training),
  ];
  return made.filter((own) => own.findings.length > 0);
}

function topic(book: Book, title: string, about: string, find: (run: Run) => Finding[], terms: Record<string, string> = {}): Topic {
  return { title, about, terms, findings: book.runs.flatMap(find) };
}

const place = (value: Value): string => pointTitle(value.layer, value.point);

const key = (value: Value): string => pointKey(value.layer, value.point);

const all = (profile: Profile): Value[] => (profile.before ? [...profile.values, profile.before] : profile.values);

function tradeOff(run: Run): Finding[] {
  const selection = run.layers.plain("r2_v_on_m")?.selection ?? "all";
  const [r2, slope] = ["r2_v_on_m", "slope_v_on_m"].map((measure) => run.layers.profile({ measure, variant: null, selection })) as [Profile, Profile];
  const slopeAt = (value: Value) => all(slope).find((own) => own.layer === value.layer && own.point === value.point)?.value ?? NaN;
  // Where V rises with M there is no trade-off, and nothing to draw of it.
  const falls = (value: Value): Value => (slopeAt(value) < 0 ? value : { ...value, value: NaN });
  const profile = { values: r2.values.map(falls), before: r2.before && falls(r2.before) };
  const found = best(all(profile), (value) => value.value);
  if (!found) return [];
  const over = found.n < FEW_GROUPS ? `, over only ${count(found.n)} groups` : "";
  return [{ run, at: found, profile, selection: run.layers.selection({ measure: "r2_v_on_m", variant: null, selection }), text: `R² ${fixed3(found.value)}, slope ${fixed3(slopeAt(found))} at ${place(found)}${over}`, href: link("tokens", { run: (run.children.at(-1) ?? run).key, at: key(found) }) }];
}

function peak(measure: string) {
  return (run: Run): Finding[] => {
    const curve = run.layers.plain(measure);
    if (!curve) return [];
    const profile = run.layers.profile(curve);
    const found = best(all(profile), (value) => value.value);
    const last = profile.values.at(-1);
    if (!found || !last) return [];
    const error = found.se > 0 ? ` ± ${number(found.se, 2)}` : "";
    const end = last !== found && Number.isFinite(last.value) ? `, ${number(last.value, 3)} at the end` : "";
    return [{ run, at: found, profile, selection: run.layers.selection(curve), text: `peaks at ${number(found.value, 3)}${error}, ${place(found)}${end}`, href: profileLink(curve) }];
  };
}

const profileLink = (curve: Curve): string | null => link("profiles", { measure: curve.measure, variant: curve.variant, selection: curve.selection });

function massive(run: Run): Finding[] {
  const curve = run.layers.plain("massive_activations");
  if (!curve) return [];
  const profile = run.layers.profile(curve);
  const found = best(all(profile), (value) => value.value);
  if (!found) return [];
  const text = found.value > 0 ? `up to ${count(found.value)} of ${count(found.n)} states, at ${place(found)}` : "none at any layer";
  return [{ run, at: found, profile, text, href: profileLink(curve) }];
}

/** The component with the largest share of the mean cosine, at any point. */
async function rogue(whole: Run): Promise<Finding[]> {
  const run = whole.points.components.length > 0 ? whole : (whole.children.at(-1) ?? whole); // of a training, the last step
  let found: { share: number; component: number; title: string; key: string } | null = null;
  for (const point of run.points.components) {
    const table = await run.at(point);
    const parts = table.reals("cosine_contribution");
    const total = parts.reduce((sum, part) => sum + (Number.isNaN(part) ? 0 : part), 0);
    if (!(total > 0)) continue;
    parts.forEach((part, row) => {
      if (!found || part / total > found.share) found = { share: part / total, component: table.number("component", row), title: point.title, key: point.key };
    });
  }
  if (!found) return [];
  const { share, component, title, key: at } = found;
  return [{ run, selection: ofStates("all"), text: `component ${component} carries ${percent(share)} of the mean cosine at ${title}`, href: link("components", { run: run.key, at, column: "cosine_contribution", component }) }];
}

function finalNorm(run: Run): Finding[] {
  const curve = run.layers.plain("anisotropy_svd") ?? run.layers.plain("mean_cosine");
  if (!curve) return [];
  const profile = run.layers.profile(curve);
  const after = profile.values.at(-1);
  if (!profile.before || !after || after.point !== "final_norm") return [];
  return [{ run, selection: run.layers.selection(curve), text: `${number(profile.before.value, 3)} before, ${number(after.value, 3)} after`, href: run.steps.length > 1 ? link("training", { run: run.place, measure: curve.measure }) : profileLink(curve) }];
}

function training(run: Run): Finding[] {
  const curve = run.layers.plain("anisotropy_svd") ?? run.layers.plain("mean_cosine");
  if (!curve || run.steps.length < 2) return [];
  const [first, last] = [run.steps[0]!, run.steps.at(-1)!];
  const top = (step: number) => best(all(run.layers.profile(curve, step)), (value) => value.value);
  const [a, b] = [top(first), top(last)];
  if (!a || !b) return [];
  return [{ run, text: `largest anisotropy ${number(a.value, 3)} at step ${count(first)}, ${number(b.value, 3)} (${place(b)}) at step ${count(last)}`, href: link("training", { run: run.place, measure: curve.measure }) }];
}
