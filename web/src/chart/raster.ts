// Tens of thousands of discs, drawn into pixels directly: fast enough to follow a slider.

import { viridis } from "../theme";

export interface Dots {
  x: ArrayLike<number>;
  y: ArrayLike<number>;
  /** Places to draw, in order; those to leave in the background first. */
  places: Uint32Array;
  /** Share of the colour scale per place, or null for one colour. */
  share: ArrayLike<number> | null;
  colour: [number, number, number];
  radius: number;
  opacity: number;
}

export class Raster {
  readonly canvas = document.createElement("canvas");
  private readonly context = this.canvas.getContext("2d", { willReadFrequently: true })!;
  private image: ImageData | null = null;
  private ratio = 1;

  /** Makes it this large, in CSS pixels, and empty. */
  clear(width: number, height: number): void {
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    const [w, h] = [Math.max(1, Math.round(width * this.ratio)), Math.max(1, Math.round(height * this.ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      this.image = null;
    }
    if (this.image) this.image.data.fill(0);
    else this.image = this.context.createImageData(w, h);
  }

  /** Adds discs; x and y are places in CSS pixels. */
  draw(dots: Dots): void {
    const image = this.image!;
    const { width, height, data } = image;
    const stamp = disc(dots.radius * this.ratio);
    const table = dots.share ? colours() : null;
    for (const i of dots.places) {
      const x = dots.x[i]! * this.ratio;
      const y = dots.y[i]! * this.ratio;
      if (!(x >= -8 && x < width + 8 && y >= -8 && y < height + 8)) continue;
      let [r, g, b] = dots.colour;
      if (table) {
        const k = 3 * Math.round(255 * Math.min(1, Math.max(0, dots.share![i]!)));
        [r, g, b] = [table[k]!, table[k + 1]!, table[k + 2]!];
      }
      const [left, top] = [Math.round(x) - stamp.half, Math.round(y) - stamp.half];
      for (let row = 0, at = 0; row < stamp.size; row++) {
        const py = top + row;
        for (let column = 0; column < stamp.size; column++, at++) {
          const px = left + column;
          const cover = stamp.cover[at]! * dots.opacity;
          if (cover === 0 || px < 0 || px >= width || py < 0 || py >= height) continue;
          const k = 4 * (py * width + px);
          const under = data[k + 3]! / 255;
          const alpha = cover + under * (1 - cover);
          const keep = (under * (1 - cover)) / alpha;
          const add = cover / alpha;
          data[k] = data[k]! * keep + r * add;
          data[k + 1] = data[k + 1]! * keep + g * add;
          data[k + 2] = data[k + 2]! * keep + b * add;
          data[k + 3] = alpha * 255;
        }
      }
    }
  }

  /** Shows what was drawn. */
  show(): void {
    if (this.image) this.context.putImageData(this.image, 0, 0);
  }
}

function colours(): Uint8Array {
  const table = new Uint8Array(3 * 256);
  for (let i = 0; i < 256; i++) table.set(viridis(i / 255), 3 * i);
  return table;
}

/** How much of each pixel a disc covers. */
function disc(radius: number): { size: number; half: number; cover: Float32Array } {
  const half = Math.ceil(radius);
  const size = 2 * half + 1;
  const cover = new Float32Array(size * size);
  for (let row = 0; row < size; row++)
    for (let column = 0; column < size; column++)
      cover[row * size + column] = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(row - half, column - half)));
  return { size, half, cover };
}

/** Red, green and blue of `#rrggbb`. */
export const rgb = (colour: string): [number, number, number] => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as [number, number, number];
