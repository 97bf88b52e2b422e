// Files the reader takes along: tables as CSV, figures as SVG and PNG. Made here, from what is shown; nothing is sent anywhere.

import { theme } from "./theme";

export interface Sheet {
  names: string[];
  rows: Iterable<(string | number | null)[]>;
}

const HIDDEN = /[\p{Cc}\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** A text no spreadsheet runs and no terminal obeys; the rules of the program's own CSV. */
export function csvField(value: string | number | null): string {
  if (value === null || (typeof value === "number" && Number.isNaN(value))) return "";
  if (typeof value === "number") return String(value);
  const formula = /^[=+\-@\t\r\n＝＋－＠]/.test(value);
  const quoted = value === "" || /^ | $|[,;"\t\r\n]/.test(value);
  const text = value.replace(/"/g, '""').replace(HIDDEN, (found) => (/[\t\r\n]/.test(found) ? found : `\\u{${found.codePointAt(0)!.toString(16)}}`));
  const safe = (formula ? "'" : "") + text;
  return quoted ? `"${safe}"` : safe;
}

/** Saves a table. */
export function saveCsv(name: string, sheet: Sheet): void {
  const lines = [sheet.names.map(csvField).join(",")];
  for (const row of sheet.rows) lines.push(row.map(csvField).join(","));
  save(`${name}.csv`, new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
}

/** Pixels under a drawing. */
export interface Layer {
  canvas: HTMLCanvasElement;
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The drawing as a file of its own, on paper, with its pixels inside. */
function standalone(svg: SVGSVGElement, layer: Layer | null): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  copy.removeAttribute("style");
  copy.querySelector(".paper")?.setAttribute("fill-opacity", "1");
  copy.querySelector(".paper")?.setAttribute("fill", theme().paper);
  copy.querySelectorAll(".hair, .aim").forEach((element) => element.remove());
  if (layer) {
    const image = document.createElementNS("http://www.w3.org/2000/svg", "image");
    for (const [name, value] of Object.entries({ x: layer.left, y: layer.top, width: layer.width, height: layer.height, href: layer.canvas.toDataURL() })) image.setAttribute(name, String(value));
    copy.querySelector(".paper")?.after(image);
  }
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

/** Saves a figure as a drawing. */
export function saveSvg(name: string, svg: SVGSVGElement, layer: Layer | null): void {
  save(`${name}.svg`, new Blob([standalone(svg, layer)], { type: "image/svg+xml" }));
}

/** Saves a figure as a picture, three pixels for one. */
export async function savePng(name: string, svg: SVGSVGElement, layer: Layer | null): Promise<void> {
  const url = URL.createObjectURL(new Blob([standalone(svg, layer)], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 3 * svg.viewBox.baseVal.width;
    canvas.height = 3 * svg.viewBox.baseVal.height;
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve));
    if (blob) save(`${name}.png`, blob);
  } finally {
    URL.revokeObjectURL(url);
  }
}

function save(name: string, blob: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replace(/[^\w.-]+/g, "-").slice(-120);
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
