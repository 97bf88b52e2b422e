// Rank correlation, with the rules of the figures: ties share their mean rank, undefined below three points or without spread.

/** Spearman's rho: Pearson's correlation of the ranks. */
export function spearman(x: number[], y: number[]): number {
  if (x.length < 3) return NaN;
  const [a, b] = [ranks(x), ranks(y)];
  const mean = (x.length + 1) / 2;
  const product = (one: number[], other: number[]) => one.reduce((sum, value, i) => sum + (value - mean) * (other[i]! - mean), 0);
  const spread = Math.sqrt(product(a, a) * product(b, b));
  return spread > 0 ? product(a, b) / spread : NaN;
}

const ranks = (values: number[]): number[] => values.map((value) => values.filter((other) => other < value).length + (values.filter((other) => other === value).length + 1) / 2);
