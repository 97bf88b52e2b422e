"""Checks every PDF in the given folders: check_pdfs.py FOLDER..."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree


def main(folders):
    pdfs = [pdf for folder in folders for pdf in sorted(Path(folder).glob("*.pdf"))]
    problems = [f"{pdf}: {problem}" for pdf in pdfs for problem in check(pdf)]
    print(f"{len(pdfs)} PDFs checked" if pdfs else "no PDFs there")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems or not pdfs else 0


def check(pdf):
    sound = subprocess.run(["qpdf", "--check", pdf], capture_output=True, text=True)
    if sound.returncode != 0 or "WARNING" in sound.stdout + sound.stderr:
        yield f"not a sound PDF: {(sound.stderr or sound.stdout).strip().splitlines()[-1]}"
        return
    # Under the heading and a rule: name, type, encoding, then yes or no for embedded, subsetted and with a table to Unicode.
    fonts = said("pdffonts", pdf).splitlines()[2:]
    if not fonts:
        yield "no fonts: its text is not text"
    for font in fonts:
        if re.search(r"\s(yes|no)\s+(yes|no)\s+(yes|no)\s", font).groups() != ("yes", "yes", "yes"):
            yield f"a font is not embedded, subsetted and mapped to Unicode: {font}"
    found = words(said("pdftotext", "-raw", pdf, "-"))
    missing = words(" ".join(picture_texts(pdf.with_suffix(".svg")))) - found
    if missing:
        yield f"text of the picture is not found: {', '.join(sorted(missing)[:10])}"


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def picture_texts(svg):
    """Every text of the same figure as SVG: labels of axes, titles, legends, names of tokens."""
    for element in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text"):
        yield "".join(element.itertext())


def words(text):
    """Words of three letters and more: single letters of formulas are set apart on purpose."""
    return set(re.findall(r"[A-Za-z]{3,}", text))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
