// Names beside points, where none covers another.

import { textWidth } from "./frame";

export interface Placed {
  x: number;
  y: number;
}

/** For each point a place for its name (its left end on the base line), or null where there is no room. */
export function placeLabels(points: { x: number; y: number; text: string; bold?: boolean }[], width: number, height: number, size: number, gap = 7): (Placed | null)[] {
  const taken: [number, number, number, number][] = points.map(({ x, y }) => [x - 4, y - 4, x + 4, y + 4]);
  return points.map(({ x, y, text, bold }, own) => {
    const wide = textWidth(text, size, bold);
    const spots: [number, number][] = [[gap, size * 0.35], [-wide - gap, size * 0.35], [-wide / 2, -gap], [-wide / 2, gap + size * 0.8], [gap * 0.7, -gap * 0.7], [gap * 0.7, gap + size * 0.6], [-wide - gap * 0.7, -gap * 0.7], [-wide - gap * 0.7, gap + size * 0.6]];
    for (const [dx, dy] of spots) {
      const box: [number, number, number, number] = [x + dx - 1, y + dy - size * 0.85, x + dx + wide + 1, y + dy + size * 0.2];
      const inside = box[0] >= 0 && box[2] <= width && box[1] >= 0 && box[3] <= height;
      const free = taken.every(([left, top, right, bottom], i) => i === own || box[0] > right || box[2] < left || box[1] > bottom || box[3] < top);
      if (!inside || !free) continue;
      taken.push(box);
      return { x: x + dx, y: y + dy };
    }
    return null;
  });
}
