// On paper: light colours, and every figure as wide as the sheet.

import { redrawFigures } from "./figure";
import { lightFor, recolour } from "./theme";

/** Draws for the sheet before a page is printed, and for the screen again afterwards. */
export function startPrint(): void {
  const printing = (on: boolean) => () => {
    document.documentElement.classList.toggle("printing", on); // the width of the sheet, see style.css
    const worn = lightFor(on);
    redrawFigures();
    recolour(worn);
  };
  addEventListener("beforeprint", printing(true));
  addEventListener("afterprint", printing(false));
}
