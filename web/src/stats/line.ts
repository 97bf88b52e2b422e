// The least-squares line, in f64 and two passes, with the rules of layerscope-stats: undefined below three points or where x has no spread. Where y has none the
// line is level, and its R² undefined: there is nothing to explain.

export interface Line {
  slope: number;
  intercept: number;
  /** NaN where y has no spread. */
  r2: number;
}

export interface Fit {
  n: number;
  line: Line | null;
}

/** The line of y on x over the given places. */
export function fitLine(x: Float64Array, y: Float64Array, places: Uint32Array): Fit {
  let [n, sumX, sumY, largestX, largestY] = [0, 0, 0, 0, 0];
  for (const i of places) {
    if (Number.isNaN(x[i]!) || Number.isNaN(y[i]!)) continue;
    n++;
    sumX += x[i]!;
    sumY += y[i]!;
    largestX = Math.max(largestX, Math.abs(x[i]!));
    largestY = Math.max(largestY, Math.abs(y[i]!));
  }
  if (n < 3) return { n, line: null };
  const [meanX, meanY] = [sumX / n, sumY / n];
  // What rounding left of the means is taken out again: the corrected two-pass formula.
  let [xx, yy, xy, leftX, leftY] = [0, 0, 0, 0, 0];
  for (const i of places) {
    if (Number.isNaN(x[i]!) || Number.isNaN(y[i]!)) continue;
    const [dx, dy] = [x[i]! - meanX, y[i]! - meanY];
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
    leftX += dx;
    leftY += dy;
  }
  xx -= (leftX * leftX) / n;
  yy -= (leftY * leftY) / n;
  xy -= (leftX * leftY) / n;
  // Rounding leaves some spread in equal numbers; this much counts as none.
  const none = (largest: number) => n * (4 * Number.EPSILON * largest) ** 2;
  const centreX = meanX + leftX / n;
  const centreY = meanY + leftY / n;
  if (!(xx > none(largestX)) || !Number.isFinite(centreY)) return { n, line: null };
  if (yy <= none(largestY)) return { n, line: { slope: 0, intercept: centreY, r2: NaN } };
  const slope = xy / xx;
  return { n, line: { slope, intercept: centreY - slope * centreX, r2: Math.min(1, Math.max(0, slope * (xy / yy))) } };
}

/** Population standard deviation over mean. */
export function variation(values: Float64Array, places: Uint32Array): number {
  let [n, sum] = [0, 0];
  for (const i of places) if (!Number.isNaN(values[i]!)) { n++; sum += values[i]!; }
  const mean = sum / n;
  let squares = 0;
  for (const i of places) if (!Number.isNaN(values[i]!)) squares += (values[i]! - mean) ** 2;
  return n > 0 && mean !== 0 ? Math.sqrt(squares / n) / mean : NaN;
}
