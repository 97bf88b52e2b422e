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

/** How many of the values at the given places fall into each of `bins` equal parts of low..high; those outside are not counted. */
export function histogram(values: Float64Array, places: Uint32Array, low: number, high: number, bins: number): Uint32Array {
  const counts = new Uint32Array(bins);
  const scale = bins / (high - low || 1);
  for (const i of places) {
    const value = values[i]!;
    if (value >= low && value <= high) counts[Math.min(bins - 1, Math.floor((value - low) * scale))]!++;
  }
  return counts;
}
