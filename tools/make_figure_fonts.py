"""Cuts the fonts of the figures out of Inter's variable fonts: `make_figure_fonts.py INTER_ROMAN INTER_ITALIC OUT`.

Needs fonttools and brotli. The program embeds `*.ttf` (measuring, PDF, PNG) and `*.woff2` (smaller sets of characters, for the
`@font-face` of SVG files). Layout features and hints are dropped: a text is as wide as the sum of its advances, everywhere.
"""

import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

LETTERS = [(0x20, 0x7E), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x1E00, 0x1EFF)]
SIGNS = [(0x2BC, 0x2DD), (0x2010, 0x2026), (0x2030, 0x205E), (0x2070, 0x209C), (0x20A0, 0x20BF), (0x2116, 0x2122), (0x2190, 0x2193)]
MATHEMATICS = [(0x2202, 0x2265), (0x25A0, 0x25CF)]
PLAIN = [(0x20, 0x7E), (0xA0, 0xFF), (0x391, 0x3C9), (0x2010, 0x2026), (0x2070, 0x2099), (0x2190, 0x2193), (0x2202, 0x2265)]
STYLES = {  # name: (source, weight, characters)
    "regular": (0, 400, LETTERS + SIGNS + MATHEMATICS),
    "semibold": (0, 600, LETTERS + SIGNS + MATHEMATICS),
    "italic": (1, 400, PLAIN),
}


def cut(source: str, weight: int, ranges: list[tuple[int, int]], flavor: str | None, out: Path) -> None:
    font = instantiateVariableFont(TTFont(source, recalcTimestamp=False), {"wght": weight})
    options = Options(layout_features=[], hinting=False, notdef_outline=True, flavor=flavor, name_IDs=[0, 1, 2, 13, 14])
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=[code for first, last in ranges for code in range(first, last + 1)])
    subsetter.subset(font)
    font.flavor = flavor
    font.save(out)
    print(out, out.stat().st_size, len(font.getBestCmap()))


def main(roman: str, italic: str, out: str) -> None:
    for name, (source, weight, ranges) in STYLES.items():
        path = [roman, italic][source]
        cut(path, weight, ranges, None, Path(out) / f"{name}.ttf")
        cut(path, weight, PLAIN, "woff2", Path(out) / f"{name}.woff2")


if __name__ == "__main__":
    main(*sys.argv[1:])
