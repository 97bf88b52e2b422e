// Text from anywhere and numbers, as people may safely see them; the same rules as the program's own tables.

const HIDDEN = /[\p{Cc}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const SHOWN = 40;

/** Characters that control, reorder or hide text become visible escapes. */
export const visible = (text: string): string => text.replace(HIDDEN, (found) => `\\u{${found.codePointAt(0)!.toString(16)}}`);

/** Visible, and cut with an ellipsis. */
export function shortened(text: string, length = SHOWN): string {
  const characters = [...visible(text.slice(0, 4 * length))];
  return characters.length > length || text.length > 4 * length ? characters.slice(0, length).join("") + "…" : characters.join("");
}

/** A token's name; one that shows nothing is put in quotes. */
export function tokenName(text: string | null, length = SHOWN): string {
  if (text === null) return "(no name)";
  const name = shortened(text, length);
  return name.trim() === name && name !== "" ? name : `“${name}”`;
}

/** A count of things: `1 document`, `2,000 documents`. */
export const counted = (value: number, unit: string): string => `${count(value)} ${unit}${value === 1 ? "" : "s"}`;

/** A count with thousands apart. */
export const count = (value: number): string => (Number.isFinite(value) ? Math.round(value).toLocaleString("en-US") : "–");

/** A measured value: four significant digits, or a dash where it is undefined. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4 ? value.toExponential(digits - 1).replace("e+", "e") : plain(value, digits);
  return text.replace(/-/g, "−");
}

function plain(value: number, digits: number): string {
  const whole = Math.floor(Math.log10(Math.abs(value))) + 1;
  return value.toFixed(Math.min(8, Math.max(0, digits - whole)));
}

/** Slopes and R^2 as legends print them. */
export const fixed3 = (value: number): string => (Number.isFinite(value) ? value.toFixed(3).replace("-", "−") : "–");

/** A share in percent. */
export const percent = (share: number): string => (Number.isFinite(share) ? `${number(100 * share, 3)}\u00a0%` : "–");

/** Bytes, seconds: for the facts of a run. */
export const bytes = (value: number): string => (value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(1)} GiB` : `${(value / 2 ** 20).toFixed(0)} MiB`);
export function seconds(value: number): string {
  if (value < 120) return `${number(value, 3)} s`;
  return value < 7200 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
}

const SYMBOLS: [RegExp, string][] = [
  [/\|\|/g, "‖"], [/\^2/g, "²"], [/\bsum_t p_t\b/g, "Σₜ pₜ"], [/\bsum lambda\b/g, "Σλ"], [/\blambda_1\b/g, "λ₁"], [/\blambda\b/g, "λ"], [/\bmu\(/g, "μ("], [/\bX_t\b/g, "Xₜ"], [/\bn_t\b/g, "nₜ"],
  [/\blog10\b/g, "log₁₀"], [/>=/g, "≥"], [/<=/g, "≤"], [/ - /g, " − "], [/(^|[ (,])-(?=\d)/g, "$1−"],
];

/** A formula of the table of measures, which is written in ASCII, in the signs of the papers. */
export const symbols = (formula: string): string => SYMBOLS.reduce((text, [from, to]) => text.replace(from, to), formula);

/** The first letter large, for headings; not that of a symbol (α, ln). */
export const capital = (text: string): string => (/^(?!ln )[a-z]/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text);

/** A name of the tables in words: `v_within_over_q` reads "V within / Q". */
export function measureTitle(name: string): string {
  const known: Record<string, string> = {
    q: "Q, mean squared norm", m: "M, squared norm of the mean", v: "V, variance", v_within: "V within groups",
    v_between: "V between groups", mean_norm: "mean norm", cv_q: "C.V. of Q over groups", cv_q_exponent: "exponent of C.V. of Q",
    slope_v_on_m: "slope of V on M", intercept_v_on_m: "intercept of V on M", r2_v_on_m: "R² of V on M", predicted_q: "predicted Q",
    mean_cosine: "mean cosine", anisotropy_svd: "anisotropy (λ₁ / Σλ)", isoscore: "IsoScore", isoscore_star: "IsoScore*", rankme: "RankMe",
    alpha_req: "α-ReQ", linear_cka_next: "linear CKA with the next point", linearity_next: "linearity to the next point",
    partition: "partition isotropy I(W)", log_partition: "ln I(W)", intra_sentence_similarity: "intra-sentence similarity",
    self_similarity: "self-similarity", massive_activations: "massive activations", massive_share_of_q: "massive share of Q", massive_components: "massive components",
  };
  if (known[name]) return known[name]!;
  if (name.endsWith("_adjusted")) return `${measureTitle(name.slice(0, -9))}, adjusted`;
  const part = (text: string) => ({ q: "Q", m: "M", v: "V", v_within: "V within", v_between: "V between", log_q: "log Q", log_m: "log M", log_v: "log V", log_n: "log n" })[text] ?? text.replace(/_/g, " ");
  const over = /^(.+)_over_(.+)$/.exec(name);
  if (over) return `${part(over[1]!)} / ${part(over[2]!)}`;
  const line = /^(slope|intercept|r2)_(.+)_on_(.+)$/.exec(name);
  if (line) return `${line[1] === "r2" ? "R²" : line[1]} of ${part(line[2]!)} on ${part(line[3]!)}`;
  const top = /^top_variance_(\d+)$/.exec(name);
  if (top) return `variance in the top ${top[1]} components`;
  return name.replace(/_/g, " ");
}
