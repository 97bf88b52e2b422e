// What stands out in a curve.

import type { Value } from "../data/layers";

/** The value with the largest score; null where none has one. */
export function best(values: Value[], score: (value: Value) => number): Value | null {
  let found: Value | null = null;
  for (const value of values) {
    const own = score(value);
    if (Number.isFinite(own) && (!found || own > score(found))) found = value;
  }
  return found;
}
