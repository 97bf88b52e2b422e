// Ranges, quantiles and histograms.

/** Smallest and largest of the finite values; 0..1 where there are none. */
export function extent(values: Iterable<number>): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

/** The values at some places, sorted, without the undefined. */
export function sorted(values: Float64Array, places: Uint32Array): Float64Array {
  const made = new Float64Array(places.length);
  let n = 0;
  for (const i of places) if (!Number.isNaN(values[i]!)) made[n++] = values[i]!;
  return made.subarray(0, n).sort();
}

/** The quantile of sorted values, linear between neighbours. */
export function quantile(values: Float64Array, share: number): number {
  if (values.length === 0) return NaN;
  const at = share * (values.length - 1);
  const low = Math.floor(at);
  const high = Math.min(values.length - 1, low + 1);
  return values[low]! + (values[high]! - values[low]!) * (at - low);
}

/** The edge of a part of low..high; the last one is `high` itself. */
export const edge = (low: number, high: number, bins: number, i: number): number => (i === bins ? high : low + ((high - low) / bins) * i);

/** The part that a value falls into: the edges as they are written decide, not a quotient that rounding moved across one. */
export function bin(value: number, low: number, high: number, bins: number): number {
  const near = Math.min(bins - 1, Math.floor(((value - low) / (high - low || 1)) * bins));
  const up = near + Number(near + 1 < bins && value >= edge(low, high, bins, near + 1));
  return up - Number(up > 0 && value < edge(low, high, bins, up));
}

/** How many of the values at the given places fall into each of `bins` equal parts of low..high; those outside are not counted. */
export function histogram(values: Float64Array, places: Uint32Array, low: number, high: number, bins: number): Uint32Array {
  const counts = new Uint32Array(bins);
  for (const i of places) {
    const value = values[i]!;
    if (value >= low && value <= high) counts[bin(value, low, high, bins)]!++;
  }
  return counts;
}
