#!/usr/bin/env python3
"""Draws the texts of the studies in examples/.

    python tools/make_study_data.py PUD

PUD is a folder with a file per language (English.tsv, ...) of the parallel treebanks: sentence id, tab, sentence. The novels come
from pocket/corpus/sample.txt.gz. The files are the same whenever this runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "examples" / "data"
LANGUAGES = ["English", "German", "French", "Italian", "Finnish", "Turkish", "Russian", "Arabic", "Hindi", "Chinese"]
#: Every register has as many words, so that counts of tokens are alike.
WORDS = 8000
#: One sentence in so many, the same ones in all languages.
EVERY = 5

SPEECH = re.compile(r'["“]([^"“”]+)["”]')
QUOTED = re.compile(r"""["“”‘]|(^|\s)'""")
PERSONAL = re.compile(r"\b(I|me|my|mine|we|us|our|ours|you|your|yours|thou|thee|thy)\b", re.IGNORECASE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pud", type=Path)
    pud = parser.parse_args().pud
    with gzip.open(ROOT / "pocket/corpus/sample.txt.gz", "rt", encoding="utf-8") as lines:
        novels = [line.rstrip("\n") for line in lines]
    english = sentences(pud, "English")
    registers = {
        "speech": [match[1] for match in map(SPEECH.fullmatch, novels) if match],
        "narration": [line for line in novels if not QUOTED.search(line) and not PERSONAL.search(line)],
        "news": [text for name, text in english if name.startswith("n")],
        "wikipedia": [text for name, text in english if name.startswith("w")],
    }
    for register, texts in registers.items():
        write(f"registers/{register}", [{"register": register, "text": text} for text in drawn(texts)])
    for language in LANGUAGES:
        rows = [{"id": name, "language": language, "text": text} for name, text in sentences(pud, language)]
        write(f"languages/{language.lower()}", rows[::EVERY])


def sentences(pud: Path, language: str) -> list[tuple[str, str]]:
    lines = (pud / f"{language}.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t", 1)) for line in lines]


def drawn(texts: list[str]) -> list[str]:
    """Sentences from all over the text, in its order, until there are words enough."""
    order = list(range(len(texts)))
    random.Random(0).shuffle(order)
    chosen, words = [], 0
    for place in order:
        if words >= WORDS:
            break
        chosen.append(place)
        words += len(texts[place].split())
    return [texts[place] for place in sorted(chosen)]


def write(name: str, rows: list[dict]) -> None:
    path = DATA / f"{name}.jsonl.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    words = sum(len(row["text"].split()) for row in rows)
    print(f"{path.relative_to(ROOT)}: {len(rows)} sentences, {words} words, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
