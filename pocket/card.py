"""What is known about a training, as numbers and as a model card."""

from __future__ import annotations

import dataclasses
import platform

import tokenizers
import torch
import transformers

from recipes import HEADS, LAYERS, WIDTH, Recipe


def facts(recipe: Recipe, model, corpus: dict, checkpoints: list[dict], seconds: float, device: str) -> dict:
    return {
        "recipe": dataclasses.asdict(recipe),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": model.config.vocab_size,
        "corpus": corpus,
        "checkpoints": checkpoints,
        "seconds": round(seconds),
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.machine(),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "tokenizers": tokenizers.__version__},
    }


def text(facts: dict) -> str:
    recipe, corpus, last = facts["recipe"], facts["corpus"], facts["checkpoints"][-1]
    masked = "of_unigram" in last
    tokens = {"bpe": "byte-level BPE", "bytes": "single bytes", "wordpiece": "lower-cased WordPiece"}[recipe["tokenizer"]]
    return f"""---
license: cc0-1.0
language: en
---
# {recipe["name"]}

{recipe["what"]}.
Small enough to travel with the program and really trained, for looking inside; what it writes is of no use.

| | |
|---|---|
| architecture | `{recipe["family"]}`: {LAYERS} layers, {WIDTH} wide, {HEADS} heads, {recipe["positions"]} positions, tied embeddings, {facts["parameters"]:,} parameters |
| tokens | {tokens}, {facts["vocabulary"]:,} of them |
| data | {corpus["sentences"]:,} sentences of British novels of 1840-1920 ([corpus](../corpus/README.md)), {corpus["tokens"] / 1e6:.1f} M tokens, {corpus["epochs"]:.1f} epochs; every sentence alone, packed into windows of {recipe["positions"]} tokens |
| training | {recipe["steps"]:,} steps of {recipe["positions"] * recipe["windows"]:,} tokens, AdamW {tuple(recipe["betas"])}, weight decay {recipe["weight_decay"]}, learning rate {recipe["learning_rate"]:g} after {recipe["warm_up"]:,} steps of warm-up, cosine to zero, no dropout, bf16 products, seed {recipe["seed"]} |
| trained on | {facts["device"]}, torch {facts["versions"]["torch"]}, transformers {facts["versions"]["transformers"]} |
| stored | f16 |
| licence | CC0 1.0 for the weights; the text is in the public domain |

## Loss on the held-out sentences

{masked_losses(facts["checkpoints"]) if masked else decoder_losses(facts["checkpoints"])}
Measured with the reference library on the stored weights by `evaluate.py`; a test computes them again with Layerscope's engine.
`training.csv` has the loss during training.
"""


def decoder_losses(checkpoints: list[dict]) -> str:
    rows = "".join(f"| {row['step']} | {row['nats_per_byte']:.4f} |\n" for row in checkpoints)
    return f"| step | nats per UTF-8 byte |\n|---:|---:|\n{rows}"


def masked_losses(checkpoints: list[dict]) -> str:
    rows = "".join(f"| {row['step']} | {row['nats_per_masked_token']:.4f} | {row['of_unigram']:.4f} |\n" for row in checkpoints)
    entropy = checkpoints[-1]["unigram_entropy"]
    head = "| step | nats per masked token | of the unigram entropy |\n|---:|---:|---:|\n"
    return f"{head}{rows}\nThe unigram entropy of the held-out tokens is {entropy:.4f} nats.\n"
