// Blocks of the typical states that hold only what differs from all states: those of groups, and of the components of tokens.
// The layout is that of crates/layerscope-report/src/page/groups.rs and token_components.rs.

import { Columns } from "./blocks";

/** The groups at a point with the measures of their typical states. */
export function typicalGroups(all: Columns, changes: Columns, names: Columns): Columns {
  const places = changes.reals("place");
  const changed = <T extends Float64Array | Uint32Array>(name: string, made: T): T => {
    const own = changes.reals(name);
    places.forEach((place, i) => { made[place] = own[i]!; });
    return made;
  };
  const n = all.has("n") ? all.reals("n") : names.reals("n");
  const measures = all.names.filter((name) => name !== "n");
  return new Columns(all.rows, [...measures.map((name): [string, Float64Array] => [name, changed(name, all.reals(name).slice())]), ["n", changed("n", Uint32Array.from(n))]]);
}

/** The components of the chosen tokens, with q = mean² + variance; of their typical states where there are changes. */
export function tokenComponents(all: Columns, changes: Columns | null): Columns {
  const other = new Set(changes ? changes.reals("group_id") : []);
  const from = (table: Columns, rows: number[]) => rows.map((row) => ({ table, row }));
  const rows = (table: Columns, keep: (row: number) => boolean) => Array.from({ length: table.rows }, (_, row) => row).filter(keep);
  const [allIds, parts] = [all.reals("group_id"), changes?.reals("component")];
  const joined = [...from(all, rows(all, (row) => !other.has(allIds[row]!))), ...(changes ? from(changes, rows(changes, (row) => !Number.isNaN(parts![row]!))) : [])];
  const strings = [...new Set(joined.map(({ table, row }) => table.text("token", row) ?? ""))];
  const codes = new Map(strings.map((text, code) => [text, code]));
  const real = (name: string) => Float64Array.from(joined, ({ table, row }) => table.number(name, row));
  const whole = (name: string) => Uint32Array.from(joined, ({ table, row }) => table.number(name, row));
  const [mean, variance] = [real("mean"), real("variance")];
  return new Columns(joined.length, [
    ["group_id", real("group_id")], ["token", Uint32Array.from(joined, ({ table, row }) => codes.get(table.text("token", row) ?? "")!), strings], ["component", whole("component")],
    ["q", mean.map((own, i) => own * own + variance[i]!)], ["mean", mean], ["variance", variance],
  ]);
}
