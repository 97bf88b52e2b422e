// From values to places on paper, with ticks people read.

export interface Scale {
  log: boolean;
  domain: [number, number];
  range: [number, number];
  (value: number): number;
  invert(place: number): number;
  /** About so many ticks; whole numbers only for counts. */
  ticks(about: number, whole?: boolean): number[];
  /** The places of many values at once. */
  all(values: Float64Array, places: Float32Array): void;
}

/** A scale; a logarithmic one needs a positive domain. */
export function scale(domain: [number, number], range: [number, number], log = false): Scale {
  const forth = log ? Math.log10 : (value: number) => value;
  const back = log ? (value: number) => 10 ** value : (value: number) => value;
  const [low, high] = [forth(domain[0]), forth(domain[1])];
  const slope = (range[1] - range[0]) / (high - low || 1);
  const made = ((value: number) => range[0] + (forth(value) - low) * slope) as Scale;
  made.log = log;
  made.domain = domain;
  made.range = range;
  made.invert = (place) => back(low + (place - range[0]) / slope);
  made.all = (values, places) => {
    const shift = range[0] - low * slope;
    if (log) for (let i = 0; i < values.length; i++) places[i] = shift + Math.log10(values[i]!) * slope;
    else for (let i = 0; i < values.length; i++) places[i] = shift + values[i]! * slope;
  };
  made.ticks = (about, whole = false) => (log ? logTicks(domain, about) : linearTicks(domain, about)).filter((tick) => !whole || Number.isInteger(tick));
  return made;
}

/** The domain a little wider, so that marks do not touch the frame. */
export function padded([low, high]: [number, number], log = false, share = 0.05): [number, number] {
  if (log) {
    const factor = (high / low || 10) ** share;
    return low === high ? [low / 2, high * 2] : [low / factor, high * factor];
  }
  if (low === high) return [low - Math.abs(low || 1) * 0.1, high + Math.abs(high || 1) * 0.1];
  return [low - (high - low) * share, high + (high - low) * share];
}

function linearTicks([low, high]: [number, number], about: number): number[] {
  const step = niceStep((high - low) / Math.max(1, about));
  const ticks: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function niceStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough || 1));
  const share = rough / power;
  return power * (share > 7 ? 10 : share > 3.2 ? 5 : share > 1.5 ? 2 : 1);
}

function logTicks([low, high]: [number, number], about: number): number[] {
  const decades = Math.log10(high / low);
  if (decades < 0.8) return linearTicks([low, high], about).filter((tick) => tick > 0);
  const every = Math.max(1, Math.ceil(decades / about));
  const factors = decades < 1.6 ? [1, 2, 3, 5] : decades < about / 2 ? [1, 3] : [1];
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += every)
    for (const factor of factors) {
      const tick = factor * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  return ticks;
}

/** Labels of ticks with as many digits as tell them apart. */
export function tickLabels(ticks: number[]): string[] {
  const largest = Math.max(...ticks.map(Math.abs), 0);
  if (largest >= 1e6 || (largest > 0 && largest < 1e-3) || ticks.some((tick) => tick !== 0 && Math.abs(tick) < 1e-5))
    return ticks.map((tick) => (tick === 0 ? "0" : tick.toExponential().replace(/(\.\d{3})\d+/, "$1").replace("e+", "e").replace(/-/g, "−")));
  const digits = Math.min(6, Math.max(0, ...ticks.map((tick) => (String(Number(tick.toPrecision(8))).split(".")[1] ?? "").length)));
  const spread = Math.max(...ticks) / Math.min(...ticks);
  const own = spread > 50; // powers of ten: each with its own digits
  return ticks.map((tick) => tick.toLocaleString("en-US", { minimumFractionDigits: own ? 0 : digits, maximumFractionDigits: digits }).replace("-", "−"));
}
