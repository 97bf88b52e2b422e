#!/usr/bin/env python3
"""Losses of models that only count, on the test sentences: what a trained model must beat.

    python pocket/baselines.py --corpus sentences.txt.gz pocket/pocket-gpt pocket/pocket-bert

A decoder is compared with a bigram and a 5-gram model over its own tokens (interpolated modified Kneser-Ney: Chen & Goodman 1999), in
nats per UTF-8 byte. A masked model is compared with one that predicts a token from both its neighbours, in nats per token: both predict
every token of a sentence in turn and see the others. They count the sentences that the models were trained on.
The losses go into training.json, and the card is written anew.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy
from tokenizers import Tokenizer

import card
import data

#: Tokens of the longest n-gram.
ORDER = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--corpus", type=Path, default=data.SAMPLE, help="the sentences of the training (default: the sample)")
    arguments = parser.parse_args()
    sentences = data.training_sentences(arguments.corpus)
    for folder in arguments.models:
        facts = json.loads((folder / "training.json").read_text())
        facts["baselines"] = losses(folder, sentences)
        print(folder, json.dumps(facts["baselines"]), flush=True)
        (folder / "training.json").write_text(json.dumps(facts, indent=1) + "\n")
        (folder / "README.md").write_text(card.text(facts))


def losses(folder: Path, sentences: list[str]) -> dict[str, float]:
    """Of the model in `folder`, whose tokenizer is used, after counting `sentences`."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    encode = lambda lines: data.encode(tokenizer, lines)
    test = data.read_lines(data.TEST)
    vocabulary = tokenizer.get_vocab_size()
    if tokenizer.token_to_id("[MASK]") is not None:
        start, end = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
        model = Neighbours(Text(encode(sentences), start, end), vocabulary)
        text = Text(encode(test), start, end)
        return {"neighbours": float(-numpy.log(model.probabilities(text, masked_places(text, end))).mean())}
    boundary = tokenizer.token_to_id(data.BOUNDARY)
    counted, text = Text(encode(sentences), boundary), Text(encode(test), boundary)
    size = sum(len(sentence.encode()) for sentence in test)
    nats = lambda order: float(-numpy.log(KneserNey(counted, vocabulary, order).probabilities(text)).sum() / size)
    return {"bigram": nats(2), f"{ORDER}-gram": nats(ORDER)}


class Text:
    """Sentences end to end, each behind a `start` and, where there is one, before an `end`."""

    def __init__(self, encoded: list[list[int]], start: int, end: int | None = None):
        tail = [] if end is None else [end]
        self.ids = numpy.concatenate([piece for ids in encoded for piece in ([start], ids, tail)], dtype=numpy.int64, casting="unsafe")
        lengths = [1 + len(ids) + len(tail) for ids in encoded]
        self.places = numpy.concatenate([numpy.arange(length) for length in lengths])
        self.begins = numpy.cumsum([0, *lengths[:-1]])
        self.start = start


def masked_places(text: Text, end: int) -> numpy.ndarray:
    """Where the tokens are that a masked model must predict: all but the marks."""
    return numpy.flatnonzero((text.places > 0) & (text.ids != end))


class KneserNey:
    """Interpolated modified Kneser-Ney. An n-gram is one number, its tokens in the bits; `start` is context and never predicted."""

    def __init__(self, text: Text, vocabulary: int, order: int):
        self.bits, self.vocabulary = (vocabulary - 1).bit_length(), vocabulary
        assert self.bits * order < 63
        grams = {n: numpy.unique(self._keys(text, n)[1], return_counts=True) for n in range(1, order + 1)}
        self.levels = []
        for n in range(1, order + 1):
            keys, counts = grams[n]
            if n < order:
                counts = self._continuations(keys, counts, grams[n + 1][0], n, text.start)
            self.levels.append(self._level(keys, counts))

    def probabilities(self, text: Text) -> numpy.ndarray:
        """Of every token but `start`, given the tokens before it in its sentence."""
        result = numpy.full(len(text.ids), 1 / (self.vocabulary - 1))
        for n, (keys, counts, discounts, contexts, totals, left) in enumerate(self.levels, 1):
            at, wanted = self._keys(text, n)
            gram, is_gram = find(keys, wanted)
            context, is_context = find(contexts, wanted >> self.bits)
            count = numpy.where(is_gram, counts[gram], 0)
            seen = count - discounts[numpy.minimum(count, 3)] + left[context] * result[at]
            result[at] = numpy.where(is_context, seen / totals[context], result[at])
        return result[text.places > 0]

    def _keys(self, text: Text, n: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The ends of all n-grams inside a sentence, and these."""
        at = numpy.flatnonzero(text.places >= n - 1)
        keys = numpy.zeros(len(at), numpy.int64)
        for back in range(n - 1, -1, -1):
            keys = (keys << self.bits) | text.ids[at - back]
        return at, keys

    def _continuations(self, keys, counts, longer, n: int, start: int) -> numpy.ndarray:
        """How many different tokens stand before an n-gram; nothing stands before a sentence: there it is how often."""
        ends, before = numpy.unique(longer & ((1 << self.bits * n) - 1), return_counts=True)
        result = numpy.zeros_like(counts)
        result[numpy.searchsorted(keys, ends)] = before
        begins = keys >> self.bits * (n - 1) == start
        return numpy.where(begins, 0 if n == 1 else counts, result)

    def _level(self, keys, counts):
        """With the discounts, the contexts, their totals, and what the discounts leave of each."""
        discounts = discounts_of(counts)
        contexts, first = numpy.unique(keys >> self.bits, return_index=True)
        totals = numpy.add.reduceat(counts.astype(float), first)
        left = numpy.add.reduceat(discounts[numpy.minimum(counts, 3)], first)
        return keys, counts, discounts, contexts, totals, left


class Neighbours:
    """p(w | l, r): counts of l w r with a discount, and below them p(w | l) p(w | r) / p(w), normalized."""

    def __init__(self, text: Text, vocabulary: int):
        self.vocabulary = vocabulary
        ids, inner = text.ids, numpy.flatnonzero(text.places > 0)
        between = inner[inner + 1 < len(ids)]
        between = between[text.places[between + 1] > 0]
        self.alone = numpy.bincount(ids[between], minlength=vocabulary) + 1.0
        self.alone /= self.alone.sum()
        pairs = lambda first, second: numpy.bincount(first * vocabulary + second, minlength=vocabulary**2).reshape(vocabulary, vocabulary)
        self.after = smoothed(pairs(ids[between - 1], ids[between]), self.alone)
        self.before = smoothed(pairs(ids[between + 1], ids[between]), self.alone)
        keys = (ids[between - 1] * vocabulary + ids[between + 1]) * vocabulary + ids[between]
        self.keys, self.counts = numpy.unique(keys, return_counts=True)
        self.discounts = discounts_of(self.counts)

    def probabilities(self, text: Text, places: numpy.ndarray) -> numpy.ndarray:
        return numpy.array([self.distribution(text.ids[at - 1], text.ids[at + 1])[text.ids[at]] for at in places])

    def distribution(self, left: int, right: int) -> numpy.ndarray:
        """Of the token between two."""
        lower = self.after[left] * self.before[right] / self.alone
        lower /= lower.sum()
        context = (int(left) * self.vocabulary + int(right)) * self.vocabulary
        rows = slice(*numpy.searchsorted(self.keys, (context, context + self.vocabulary)))
        counts = self.counts[rows]
        if not len(counts):
            return lower
        taken = self.discounts[numpy.minimum(counts, 3)]
        result = lower * taken.sum()
        result[self.keys[rows] - context] += counts - taken
        return result / counts.sum()


def discounts_of(counts: numpy.ndarray) -> numpy.ndarray:
    """Of counts of 0, 1, 2, and 3 or more, from how many there are of each; a half where that says nothing, and always a tenth."""
    once, twice, thrice, four = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    if not min(once, twice, thrice):
        return numpy.array([0.0, 0.5, 0.5, 0.5])
    share = once / (once + 2 * twice)
    found = [0.0, 1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice]
    return numpy.clip(found, (0.0, 0.1, 0.1, 0.1), (0.0, 1.0, 2.0, 3.0))


def smoothed(counts: numpy.ndarray, lower: numpy.ndarray) -> numpy.ndarray:
    """Rows of counts as distributions, with what a discount takes given out by `lower`."""
    discounts = discounts_of(counts[counts > 0])
    taken = discounts[numpy.minimum(counts, 3)]
    totals = counts.sum(axis=1, keepdims=True)
    shares = (counts - taken + taken.sum(axis=1, keepdims=True) * lower) / numpy.maximum(totals, 1)
    return numpy.where(totals > 0, shares, lower)


def find(keys: numpy.ndarray, wanted: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Where sorted keys have what is wanted, and whether they do."""
    at = numpy.minimum(numpy.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


if __name__ == "__main__":
    main()
