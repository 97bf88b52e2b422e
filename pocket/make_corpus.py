#!/usr/bin/env python3
"""Chooses the held-out sentences, the sample and the test sentences from a file of sentences, one a line.

    python pocket/make_corpus.py sentences.txt.gz

All are drawn from the different sentences of 3 to 63 words, by the order of their SHA-256: the first 500 are held out of
all training, the next 20,000 are the sample, and the 1,000 after them are the test. They are written in the order of the file.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from pathlib import Path

import data

HELD_OUT, SAMPLE, TEST = 500, 20_000, 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sentences", type=Path)
    different = dict.fromkeys(data.read_lines(parser.parse_args().sentences))
    fit = [sentence for sentence in different if 3 <= len(sentence.split()) <= 63]
    drawn = sorted(fit, key=lambda sentence: hashlib.sha256(sentence.encode()).digest())
    pick = lambda first, count: lines(filter(set(drawn[first : first + count]).__contains__, fit))
    data.HELD_OUT.write_text(pick(0, HELD_OUT), encoding="utf-8")
    # No name and no time inside: the same sentences make the same file.
    data.SAMPLE.write_bytes(gzip.compress(pick(HELD_OUT, SAMPLE).encode(), compresslevel=9, mtime=0))
    data.TEST.write_text(pick(HELD_OUT + SAMPLE, TEST), encoding="utf-8")


def lines(sentences) -> str:
    return "".join(f"{sentence}\n" for sentence in sentences)


if __name__ == "__main__":
    main()
