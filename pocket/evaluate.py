#!/usr/bin/env python3
"""Losses of checkpoints on the held-out sentences, in the reference library and in f32.

    python pocket/evaluate.py pocket/pocket-gpt pocket/pocket-pythia/step512

A decoder's is nats per UTF-8 byte: every token of a sentence is predicted from what stands before it, the boundary token first.
A masked model's is nats per masked token, over the unigram entropy of the held-out tokens; corpus/held-out.mask says
which tokens are masked, each of them by [MASK].
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.utils import logging

import data

IGNORED = -100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoints", nargs="+", type=Path)
    logging.disable_progress_bar()
    for folder in parser.parse_args().checkpoints:
        print(folder, json.dumps(losses(folder)))


def losses(folder: Path, device: str = "cpu", limit: int | None = None) -> dict[str, float]:
    """The loss of a checkpoint whose tokenizer lies beside it or in its parent, on all held-out sentences or the first few."""
    home = next(place for place in (folder, folder.parent) if (place / "tokenizer.json").exists())
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    sentences = data.read_lines(data.HELD_OUT)[:limit]
    masked = json.loads((folder / "config.json").read_text())["model_type"] == "bert"
    kind = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32).eval().to(device)
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(sentences, add_special_tokens=masked)]
    if masked:
        nats, count = masked_nats(model, tokenizer, encoded)
        entropy = unigram_entropy(token for ids in encoded for token in ids[1:-1])
        return {"nats_per_masked_token": nats / count, "unigram_entropy": entropy, "of_unigram": nats / count / entropy}
    boundary = tokenizer.token_to_id(data.BOUNDARY)
    pairs = [([boundary, *ids[:-1]], ids) for ids in encoded]
    nats, _ = total_nats(model, pairs)
    return {"nats_per_byte": nats / sum(len(sentence.encode()) for sentence in sentences)}


def masked_nats(model, tokenizer: Tokenizer, encoded: list[list[int]]) -> tuple[float, int]:
    mask = tokenizer.token_to_id("[MASK]")
    pairs = []
    for ids, line in zip(encoded, data.read_lines(data.MASK)):
        chosen = {int(at) + 1 for at in line.split() if int(at) < len(ids) - 2}  # counted without [CLS], never [SEP]
        given = [mask if at in chosen else token for at, token in enumerate(ids)]
        wanted = [token if at in chosen else IGNORED for at, token in enumerate(ids)]
        pairs.append((given, wanted))
    return total_nats(model, pairs)


@torch.no_grad()
def total_nats(model, pairs: list[tuple[list[int], list[int]]]) -> tuple[float, int]:
    """Sum over all wanted tokens, and their number; sequences of like length run together."""
    total, count = 0.0, 0
    pairs = sorted(pairs, key=lambda pair: len(pair[0]))
    for first in range(0, len(pairs), 50):
        some = pairs[first : first + 50]
        longest = max(len(given) for given, _ in some)
        pad = lambda rows, filler: torch.tensor([row + [filler] * (longest - len(row)) for row in rows], device=model.device)
        given = pad([given for given, _ in some], 0)
        wanted = pad([wanted for _, wanted in some], IGNORED)
        present = pad([[1] * len(given) for given, _ in some], 0)
        logits = model(input_ids=given, attention_mask=present).logits.double()
        total += torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="sum").item()
        count += int((wanted != IGNORED).sum())
    return total, count


def unigram_entropy(tokens) -> float:
    counts = Counter(tokens)
    total = sum(counts.values())
    return -sum(count / total * math.log(count / total) for count in counts.values())


if __name__ == "__main__":
    main()
