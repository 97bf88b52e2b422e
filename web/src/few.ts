// Regressions over so few groups that a few of them decide: every view that shows one says so.

import type { Curve } from "./data/layers";
import type { Run } from "./data/run";
import { count, visible } from "./text";

/** The number of crates/layerscope-report/src/together.rs. */
export const FEW_GROUPS = 30;

/** The curve that tells how many groups are selected. */
const regression = (run: Run): Curve | null => run.layers.plain("slope_v_on_m");

/** How many groups a curve over groups is over, where they are fewest; Infinity where there is nothing to count. */
export function fewestGroups(run: Run, curve: Curve | null = regression(run)): number {
  if (!curve) return Infinity;
  const { values, before } = run.layers.profile(curve);
  return Math.min(...[...values, ...(before ? [before] : [])].map((value) => value.n).filter(Number.isFinite));
}

/** Whether the groups that are counted are those of the frequency range: where it has none, all groups are shown. */
export const isOfRange = (run: Run): boolean => regression(run)?.selection === "selected" || !run.manifest.frequency;

/** Whether those are so few. */
export const hasFewGroups = (run: Run, curve?: Curve): boolean => fewestGroups(run, curve) < FEW_GROUPS;

/** The runs with so few behind a curve, in a sentence; empty where none has. */
export function fewGroupsNote(runs: Run[], curve: Curve): string {
  const few = runs.filter((run) => hasFewGroups(run, curve));
  return few.length === 0 ? "" : `Dashed: few groups (${few.map((run) => `${visible(run.label)}: ${count(fewestGroups(run, curve))}`).join(", ")}). What is computed over fewer than ${FEW_GROUPS} depends on single ones.`;
}
