#!/usr/bin/env python3
"""Losses of checkpoints on the test sentences, in the reference library and in f32.

    python pocket/evaluate.py pocket/pocket-gpt pocket/pocket-pythia/step512

A decoder's is nats per UTF-8 byte: every token of a sentence is predicted from what stands before it, the boundary token first.
A masked model's is nats per token, and that over the tokens' unigram entropy: every token of a sentence is masked in turn, alone, by
[MASK], and predicted from all the others.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM
from transformers.utils import logging

import data

#: Rows that run together.
ROWS = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoints", nargs="+", type=Path)
    logging.disable_progress_bar()
    for folder in parser.parse_args().checkpoints:
        print(folder, json.dumps(losses(folder, data.read_lines(data.TEST))))


def losses(folder: Path, sentences: list[str], device: str = "cpu") -> dict[str, float]:
    """The loss of a checkpoint whose tokenizer lies beside it or in its parent."""
    home = next(place for place in (folder, folder.parent) if (place / "tokenizer.json").exists())
    tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
    masked = json.loads((folder / "config.json").read_text())["model_type"] == "bert"
    kind = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    model = kind.from_pretrained(folder, dtype=torch.float32).eval().to(device)
    return losses_of(model, tokenizer, sentences)


@torch.no_grad()
def losses_of(model, tokenizer: Tokenizer, sentences: list[str]) -> dict[str, float]:
    masked = tokenizer.token_to_id("[MASK]") is not None
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(sentences, add_special_tokens=masked)]
    if masked:
        words = [token for ids in encoded for token in ids[1:-1]]
        nats = sum(masked_nats(model, rows, tokenizer.token_to_id("[MASK]")) for rows in of_like_length(encoded, model.device))
        entropy = unigram_entropy(words)
        return {"nats_per_masked_token": nats / len(words), "unigram_entropy": entropy, "of_unigram": nats / len(words) / entropy}
    boundary = tokenizer.token_to_id(data.BOUNDARY)
    rows = of_like_length([[boundary, *ids] for ids in encoded], model.device)
    return {"nats_per_byte": sum(decoder_nats(model, some) for some in rows) / sum(len(sentence.encode()) for sentence in sentences)}


def of_like_length(encoded: list[list[int]], device) -> list[torch.Tensor]:
    groups = defaultdict(list)
    for ids in encoded:
        groups[len(ids)].append(ids)
    return [torch.tensor(group, device=device) for group in groups.values()]


def decoder_nats(model, rows: torch.Tensor) -> float:
    """Of all tokens but the first."""
    logits = model(input_ids=rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).double(), rows[:, 1:].flatten(), reduction="sum").item()


def masked_nats(model, sentences: torch.Tensor, mask: int) -> float:
    """Of every token between [CLS] and [SEP], each masked alone."""
    total, length = 0.0, sentences.shape[1]
    wanted = sentences[:, 1:-1].flatten()
    place = torch.arange(1, length - 1, device=sentences.device).repeat(len(sentences))
    rows = sentences.repeat_interleave(length - 2, dim=0).scatter(1, place[:, None], mask)
    for some, at, token in zip(rows.split(ROWS), place.split(ROWS), wanted.split(ROWS)):
        states = model.bert(input_ids=some).last_hidden_state
        logits = model.cls(states[torch.arange(len(some), device=some.device), at])
        total += torch.nn.functional.cross_entropy(logits.double(), token, reduction="sum").item()
    return total


def unigram_entropy(tokens: list[int]) -> float:
    counts = Counter(tokens)
    return -sum(count / len(tokens) * math.log(count / len(tokens)) for count in counts.values())


if __name__ == "__main__":
    main()
