// Every colour of the page, light and dark. The series colours are those of Okabe & Ito, which people with any colour vision tell
// apart, darkened (light) or lightened (dark) until each has a contrast of 3:1 with the paper; text has at least 4.5:1. Series
// also differ by marker, so that no meaning rests on colour alone. Scales of magnitude are viridis.

export interface Theme {
  name: "light" | "dark";
  page: string; // around everything
  paper: string; // behind figures
  raised: string; // controls
  ink: string; // text
  quiet: string; // secondary text
  line: string; // hairlines and grids
  axis: string;
  accent: string; // links, focus, the chosen thing
  accentInk: string; // text on accent
  warning: string;
  ghost: string; // points that are filtered out
  series: string[];
  parts: [string, string, string]; // M, V_B, V_W in stacked bars
  viridis: [number, number]; // the part of the scale that shows on this paper
}

const LIGHT: Theme = {
  name: "light",
  page: "#f6f6f3",
  paper: "#ffffff",
  raised: "#efefeb",
  ink: "#1b1d20",
  quiet: "#565b63",
  line: "#e3e3de",
  axis: "#83878e",
  accent: "#0a5a9c",
  accentInk: "#ffffff",
  warning: "#8f4a00",
  ghost: "#d5d6d8",
  series: ["#0072b2", "#d55e00", "#00825f", "#b0588a", "#a87400", "#4a4d52", "#3a8fc9", "#7a5cc0", "#8a3b12", "#5d7d00", "#c2416b", "#2b6f77"],
  parts: ["#0072b2", "#e6a532", "#b9bcc2"],
  viridis: [0, 0.9],
};

const DARK: Theme = {
  name: "dark",
  page: "#121316",
  paper: "#1a1c20",
  raised: "#25282d",
  ink: "#e9e9e6",
  quiet: "#a5aab2",
  line: "#2d3036",
  axis: "#767b84",
  accent: "#79b8f3",
  accentInk: "#10151b",
  warning: "#f2b56b",
  ghost: "#383c43",
  series: ["#56b4e9", "#f0894a", "#34c79a", "#e29cc2", "#f0c04e", "#c9ccd1", "#8aa2ff", "#b99cf2", "#d98c6a", "#aacb4f", "#ff8fab", "#6cc5cf"],
  parts: ["#56b4e9", "#f0c04e", "#5d636d"],
  viridis: [0.22, 1],
};

const VIRIDIS = [0x440154, 0x482878, 0x3e4a89, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725];

let chosen: Theme = LIGHT;
const listeners = new Set<() => void>();

/** The colours in use. */
export const theme = (): Theme => chosen;

/** Calls back when the colours change. */
export const onTheme = (listener: () => void): void => void listeners.add(listener);

/** Takes the reader's own preference, and follows it until told otherwise. */
export function startTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  apply(dark.matches ? DARK : LIGHT);
  dark.addEventListener("change", () => apply(dark.matches ? DARK : LIGHT));
}

/** The other colours. */
export const toggleTheme = (): void => apply(chosen === LIGHT ? DARK : LIGHT);

let before: Theme | null = null;

/** Wears the light colours on paper, and those from before again. Nobody is told: what is drawn is to be drawn anew at once. Returns what was worn. */
export function lightFor(paper: boolean): Theme {
  const worn = chosen;
  before = paper ? (before ?? chosen) : before;
  apply(paper ? LIGHT : (before ?? chosen), false);
  if (!paper) before = null;
  return worn;
}

/** Gives curves that keep the colours of another theme those of this one. */
export function recolour(from: Theme): void {
  for (const name of ["fill", "stroke"])
    document.querySelectorAll(`svg [${name}]`).forEach((element) => {
      const i = from.series.indexOf(element.getAttribute(name)!);
      if (i >= 0) element.setAttribute(name, chosen.series[i]!);
    });
}

function apply(next: Theme, tell = true): void {
  chosen = next;
  const root = document.documentElement;
  root.dataset.theme = next.name;
  root.style.colorScheme = next.name;
  for (const [name, value] of Object.entries(next)) if (typeof value === "string") root.style.setProperty(`--${name}`, value);
  if (tell) listeners.forEach((listener) => listener());
}

/** The colour of a run or a pinned token. */
export const seriesColour = (i: number): string => chosen.series[i % chosen.series.length]!;

/** Red, green and blue of a share in 0..1. */
export function viridis(share: number): [number, number, number] {
  const [from, to] = chosen.viridis;
  const at = (from + (to - from) * Math.min(1, Math.max(0, share))) * (VIRIDIS.length - 1);
  const low = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const mix = (shift: number) => {
    const [a, b] = [(VIRIDIS[low]! >> shift) & 255, (VIRIDIS[low + 1]! >> shift) & 255];
    return Math.round(a + (b - a) * (at - low));
  };
  return [mix(16), mix(8), mix(0)];
}

/** The same as text. */
export const viridisColour = (share: number): string => "#" + viridis(share).map((part) => part.toString(16).padStart(2, "0")).join("");

/** Ink that can be read on a viridis cell: whichever of the two contrasts more, 4.5:1 at least. */
export function inkOn(share: number): string {
  const linear = (part: number) => (part <= 10.31475 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = viridis(share).map(linear) as [number, number, number];
  // (L + 0.05)² against 1.05 · 0.05, where white and black contrast alike.
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
