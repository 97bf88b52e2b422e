// The page's data: typed columns inside elements that no browser runs, decoded when first asked for.
// The layout is that of crates/layerscope-report/src/page/block.rs.

const NULL = 0xffffffff;

type Numbers = Float64Array | Float32Array | Uint32Array;

/** Columns of equal length. */
export class Columns {
  readonly names: string[];
  private readonly columns = new Map<string, { numbers: Numbers; strings?: string[]; whole: boolean }>();

  constructor(readonly rows: number, columns: [string, Numbers, string[]?][]) {
    this.names = columns.map(([name]) => name);
    for (const [name, numbers, strings] of columns) this.columns.set(name, { numbers, strings, whole: numbers instanceof Uint32Array });
  }

  /** Whether there is such a column with anything in it. */
  has(name: string): boolean {
    const numbers = this.columns.get(name)?.numbers;
    return this.columns.has(name) && !(numbers instanceof Float64Array && numbers.every(Number.isNaN));
  }

  /** A column of reals: undefined is NaN. All NaN where there is no such column. */
  reals(name: string): Float64Array {
    const numbers = this.columns.get(name)?.numbers;
    if (numbers instanceof Float64Array) return numbers;
    const made = new Float64Array(this.rows).fill(NaN);
    if (numbers) for (let i = 0; i < this.rows; i++) if (!(numbers instanceof Uint32Array) || numbers[i] !== NULL) made[i] = numbers[i]!;
    this.columns.set(name, { numbers: made, whole: numbers instanceof Uint32Array });
    return made;
  }

  /** The different texts of a column and the rows' places among them. */
  texts(name: string): { strings: string[]; codes: Numbers } {
    const column = this.columns.get(name);
    return { strings: column?.strings ?? [], codes: column?.strings ? column.numbers : new Uint32Array(this.rows).fill(NULL) };
  }

  text(name: string, row: number): string | null {
    const column = this.columns.get(name);
    return column?.strings?.[column.numbers[row]!] ?? null;
  }

  number(name: string, row: number): number {
    const column = this.columns.get(name);
    if (!column || column.strings) return NaN;
    const value = column.numbers[row]!;
    return value === NULL && column.numbers instanceof Uint32Array ? NaN : value;
  }

  isText(name: string): boolean {
    return this.columns.get(name)?.strings !== undefined;
  }

  isWhole(name: string): boolean {
    return this.columns.get(name)?.whole ?? false;
  }

  /** Some of the rows. */
  only(rows: ArrayLike<number>): Columns {
    return new Columns(rows.length, this.names.map((name) => {
      const { numbers, strings } = this.columns.get(name)!;
      const made = numbers.slice(0, rows.length);
      for (let i = 0; i < rows.length; i++) made[i] = numbers[rows[i]!]!;
      return [name, made, strings];
    }));
  }

  cell(name: string, row: number): string | number | null {
    if (this.isText(name)) return this.text(name, row);
    const value = this.number(name, row);
    return Number.isNaN(value) ? null : value;
  }
}

const tables = new Map<string, Promise<Columns>>();

/** The columns of this block; one that did not come may be asked for again. */
export function columns(block: string): Promise<Columns> {
  let table = tables.get(block);
  if (!table) {
    table = bytes(block).then(parse);
    tables.set(block, table);
    table.catch(() => tables.delete(block));
  }
  return table;
}

/** The value of a block in JSON. */
export async function json(block: string): Promise<any> {
  return JSON.parse(new TextDecoder().decode(await bytes(block)));
}

async function bytes(block: string): Promise<ArrayBuffer> {
  const element = await arrived(block);
  if (!element) return fetched(block);
  const raw = decode(element.textContent ?? "");
  if (element.dataset.coding !== "deflate-raw") return raw.buffer as ArrayBuffer;
  const stream = new Blob([raw as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).arrayBuffer();
}

/** The element, once the parser is past its end: what every view needs comes first, and is shown while the rest is still read. */
function arrived(block: string): Promise<HTMLElement | null> {
  return new Promise((resolve) => {
    const look = () => {
      const element = document.getElementById(block);
      if (document.readyState !== "loading" || element?.nextSibling) resolve(element);
      else setTimeout(look, 10);
    };
    look();
  });
}

/** Why a block did not come, for the reader. */
export class Lost extends Error {}

/** Whether blocks are asked of a server; a page from disk has all of its own. */
export const served = (): boolean => document.querySelector('meta[name="layerscope-blocks"]') !== null;

async function fetched(block: string): Promise<ArrayBuffer> {
  if (!served()) throw new Error(`the page has no block ${block}: it is incomplete`);
  const answer = await fetch(`block/${block}`).catch(() => { throw new Lost("The server does not answer: is layerscope serve still running?"); });
  if (answer.status === 410) throw new Lost("The run changed on disk: load the page again.");
  if (!answer.ok) throw new Lost(`The server cannot give ${block}: ${(await answer.text()).trim()}`);
  return answer.arrayBuffer();
}

function decode(text: string): Uint8Array {
  const native = (Uint8Array as any).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const made = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) made[i] = binary.charCodeAt(i);
  return made;
}

function parse(buffer: ArrayBuffer): Columns {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const rows: number = header.rows;
  return new Columns(rows, header.columns.map((column: { name: string; type: string; at: number; strings?: string[] }) => {
    const at = 4 + length + column.at;
    const numbers = column.type === "f64" ? new Float64Array(buffer, at, rows) : column.type === "f32" ? new Float32Array(buffer, at, rows) : new Uint32Array(buffer, at, rows);
    return [column.name, numbers, column.strings];
  }));
}
