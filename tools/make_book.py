#!/usr/bin/env python3
"""Lays the pages of docs/ and examples/ out as an mdBook in a folder: formulas become MathML, and links lead to pages of the book.

The pages themselves stay plain Markdown. `make book` calls this and then mdBook.
"""

import argparse
import html
import os
import re
import shutil
from pathlib import Path

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent

# Pages outside of docs/, and their places in the book.
ELSEWHERE = {
    "README.md": "in-short.md",
    "ARCHITECTURE.md": "inside/architecture.md",
    "CONTRIBUTING.md": "inside/contributing.md",
    "CHANGELOG.md": "inside/changes.md",
    "SECURITY.md": "inside/security.md",
    "pocket/README.md": "pocket/index.md",
    "pocket/corpus/README.md": "pocket/corpus.md",
    "fixtures/README.md": "inside/fixtures.md",
    "examples/data/README.md": "studies/data.md",
}


def places() -> dict[Path, Path]:
    """Every page of the repository that is in the book, with its place there."""
    found = {ROOT / page: Path(place) for page, place in ELSEWHERE.items()}
    found |= {page: page.relative_to(ROOT / "docs") for page in (ROOT / "docs").rglob("*.md")}
    found |= {page: Path("studies") / page.name for page in (ROOT / "examples").glob("*.md")}
    found |= {page: Path("pocket") / f"{page.parent.name}.md" for page in (ROOT / "pocket").glob("pocket-*/README.md")}
    return found


def outside_of_code(text: str, change) -> str:
    """Applies `change` to what is neither a fenced block nor a code span."""
    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if place % 2 else change(part) for place, part in enumerate(parts))


def mathml(formula: str, display: str) -> str:
    """MathML on one line, in which Markdown sees no emphasis and no table."""
    code = convert(formula.strip(), display=display)
    return re.sub(r">([^<>]+)<", lambda text: ">" + re.sub(r"[*_|\\`\[\]]", lambda sign: f"&#{ord(sign[0])};", text[1]) + "<", code)


def formulas(text: str) -> str:
    """`$$...$$` and `$...$` as MathML."""
    text = re.sub(r"\$\$(.+?)\$\$", lambda found: mathml(found[1], "block"), text, flags=re.DOTALL)
    return re.sub(r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])", lambda found: mathml(found[1], "inline"), text)


def links(text: str, page: Path, book: dict[Path, Path]) -> str:
    """Links to pages and pictures, as seen from the page's place in the book. Other files of the repository are named, not linked."""

    def lead(found: re.Match) -> str:
        mark, words, target = found.groups()
        address, _, anchor = target.partition("#")
        if "://" in target or not address:
            return found[0]
        file = Path(os.path.normpath(page.parent / address))
        file = file / "README.md" if file.is_dir() else file
        here = book[page].parent
        if file in book:
            return f"[{words}]({os.path.relpath(book[file], here)}{'#' + anchor if anchor else ''})"
        if mark:
            return f"![{words}]({os.path.relpath(file.relative_to(ROOT / 'docs'), here)})"
        return f"{words} (<code>{html.escape(str(file.relative_to(ROOT)))}</code>)"

    return re.sub(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)", lead, text)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path, help="the folder of the book")
    out = arguments.parse_args().out
    shutil.rmtree(out, ignore_errors=True)
    source = out / "src"
    shutil.copytree(ROOT / "docs/images", source / "images")
    shutil.copy(ROOT / "docs/book.toml", out / "book.toml")
    book = places()
    for page, place in book.items():
        text = page.read_text(encoding="utf-8")
        text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
        if page.name == "SUMMARY.md":
            text = links(text, page, book)
        else:
            text = outside_of_code(text, lambda part, page=page: links(formulas(part), page, book))
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text(text, encoding="utf-8")
    print(f"{len(book) - 1} pages in {source}")


if __name__ == "__main__":
    main()
