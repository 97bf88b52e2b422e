#!/usr/bin/env python3
"""Writes the generated parts of docs/ anew: tables of measures and settings below what people wrote, and the help of every command."""

import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
# What stands above the table of a family.
MARK = "<!-- table -->\n"


def layerscope(*arguments: str) -> str:
    return subprocess.run([ROOT / "target/release/layerscope", *arguments], check=True, capture_output=True, text=True).stdout


def whole_tables() -> None:
    """The tables that `layerscope measures` and `layerscope settings` print."""
    for page in ("measures", "settings"):
        file = DOCS / f"{page}.md"
        prose = file.read_text(encoding="utf-8").split("\n| ", 1)[0].rstrip()
        file.write_text(f"{prose}\n\n{layerscope(page)}", encoding="utf-8")


def cell(text: str) -> str:
    """Text as a cell of a Markdown table shows it."""
    return re.sub(r"([\\|*_`\[\]<>])", r"\\\1", text)


def tables_of_families() -> None:
    """The measures of each family, narrow enough to read."""
    measures = json.loads(layerscope("measures", "--format", "json"))
    for family in {measure["family"] for measure in measures}:
        file = DOCS / "measures" / f"{family}.md"
        prose = file.read_text(encoding="utf-8").split(MARK)[0]
        rows = ["| measure | formula | variants | n counts | source |", "|---|---|---|---|---|"]
        for measure in measures:
            if measure["family"] == family:
                cells = [cell(measure[column]) for column in ("formula", "variants", "n counts", "source")]
                rows.append(f"| `{measure['measure']}` | {' | '.join(cells)} |")
        file.write_text(f"{prose}{MARK}\n" + "\n".join(rows) + "\n", encoding="utf-8")


def commands() -> None:
    """What `--help` prints."""
    listed = layerscope("--help").split("Commands:\n")[1].split("\n\n")[0]
    names = [line.split()[0] for line in listed.splitlines()]
    pages = [f"## {name}\n\n```text\n{layerscope(name, '--help').rstrip()}\n```\n" for name in names]
    head = "# Commands\n\nWhat `--help` prints. [Settings](settings.md) has every setting of `measure` and `track` with its presets.\n"
    (DOCS / "commands.md").write_text("\n".join([head, *pages]), encoding="utf-8")


if __name__ == "__main__":
    whole_tables()
    tables_of_families()
    commands()
