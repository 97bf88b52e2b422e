#!/usr/bin/env python3
"""Chooses the held-out sentences, the sample and the masked tokens from a file of sentences, one a line.

    python pocket/make_corpus.py sentences.txt.gz

Both are drawn from the different sentences of 3 to 63 words, by the order of their SHA-256: the first 500 are held out of
all training, the next 20,000 are the sample. They are written in the order of the file.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from pathlib import Path

import data

HELD_OUT, SAMPLE = 500, 20_000
#: Of the tokens of a held-out sentence, [CLS] not counted, this share is masked.
SHARE, PLACES = 0.15, 126


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sentences", type=Path)
    different = dict.fromkeys(data.read_lines(parser.parse_args().sentences))
    fit = [sentence for sentence in different if 3 <= len(sentence.split()) <= 63]
    drawn = sorted(fit, key=lambda sentence: hashlib.sha256(sentence.encode()).digest())
    held_out, sample = set(drawn[:HELD_OUT]), set(drawn[HELD_OUT : HELD_OUT + SAMPLE])
    data.HELD_OUT.write_text(lines(sentence for sentence in fit if sentence in held_out), encoding="utf-8")
    text = lines(sentence for sentence in fit if sentence in sample).encode()
    # No name and no time inside: the same sentences make the same file.
    data.SAMPLE.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    data.MASK.write_text(lines(masked_places(sentence) for sentence in range(HELD_OUT)))


def lines(sentences) -> str:
    return "".join(f"{sentence}\n" for sentence in sentences)


def masked_places(sentence: int) -> str:
    """The places, 15 % of all, whose tokens are masked in a held-out sentence, however long it is in tokens."""
    draw = lambda place: int.from_bytes(hashlib.sha256(f"{sentence} {place}".encode()).digest()[:4], "big") / 2**32
    return " ".join(str(place) for place in range(PLACES) if draw(place) < SHARE)


if __name__ == "__main__":
    main()
