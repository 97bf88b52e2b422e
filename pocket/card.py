"""What is known about a training, as numbers and as a model card."""

from __future__ import annotations

import dataclasses
import platform

import tokenizers
import torch
import transformers

from recipes import HEADS, LAYERS, WIDTH, Recipe

#: What the loss alone would not have shown.
LEARNING_RATE = """\
The learning rate was chosen by hand, is the same for all five models, and was chosen by looking at the geometry of the states as well as at the loss. There was no
systematic search. An earlier recipe used 6e-3 for the decoders. So the effects in these models were seen before the models were chosen: they illustrate what papers found
and are not an independent test of it. Another rate may give a lower loss and a different geometry.
[What training does](../../examples/training.md) shows the mean cosine of the states at the checkpoints of three of the models."""

MASKED_RATE = """

The loss alone does not reveal a model whose states have all become alike, and with LayerNorm after the residual sum this happens easily. In trials with an encoder of
width 128 and 4,096 tokens, a rate of 2e-3 ended in collapse: mean cosine 1.0 at the loss of a unigram model. At 6e-4 the model stayed on that plateau for 1,500 steps and then
learned. Hence the long warm-up. This model is at the loss of a unigram model at step 512, when the rate is a quarter of its maximum, and below it at every later checkpoint."""


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
    tokens = {"bpe": "byte-level BPE", "bytes": "single bytes", "wordpiece": "lowercased WordPiece"}[recipe["tokenizer"]]
    return f"""---
license: cc0-1.0
language: en
---
# {recipe["name"]}

{recipe["what"]}.
A small trained model for trying Layerscope. It ships with the program. The text it generates is of no use.

| | |
|---|---|
| architecture | `{recipe["family"]}`: {LAYERS} layers, {WIDTH} wide, {HEADS} heads, {recipe["positions"]} positions, tied embeddings, {facts["parameters"]:,} parameters |
| tokens | {tokens}, vocabulary of {facts["vocabulary"]:,} |
| data | {corpus["sentences"]:,} sentences of British novels of 1840-1920 ([corpus](../corpus/README.md)), {corpus["tokens"] / 1e6:.1f} M tokens, {corpus["epochs"]:.1f} epochs; sentences are independent, packed into windows of {recipe["positions"]} tokens |
| training | {recipe["steps"]:,} steps of {recipe["positions"] * recipe["windows"]:,} tokens, AdamW {tuple(recipe["betas"])}, weight decay {recipe["weight_decay"]}, learning rate {recipe["learning_rate"]:g} after {recipe["warm_up"]:,} steps of warm-up, cosine to zero, no dropout, bf16 products, seed {recipe["seed"]} |
| trained on | {facts["device"]}, torch {facts["versions"]["torch"]}, transformers {facts["versions"]["transformers"]} |
| stored | f16 |
| licence | CC0 1.0 for the weights; the text is in the public domain |

## How the learning rate was chosen

{LEARNING_RATE}{MASKED_RATE if masked else ""}

## Loss on the held-out sentences

{masked_losses(facts["checkpoints"]) if masked else decoder_losses(facts["checkpoints"])}
{baselines(facts)}`evaluate.py` computed these losses with the reference library on the stored weights. A test recomputes them with Layerscope's engine.
`training.csv` has the loss during training.
"""


def baselines(facts: dict) -> str:
    """What models that only count reach on the same sentences; nothing where they were not asked."""
    found, last = facts.get("baselines", {}), facts["checkpoints"][-1]
    if "neighbours" in found:
        verdict = "which this model beats" if last["nats_per_masked_token"] < found["neighbours"] else "which this model does not reach"
        return (
            "A model that counts the same training sentences and predicts a token from both its neighbours (`baselines.py`) has "
            f"{found['neighbours']:.4f} nats\nper masked token, {verdict}. It sees the neighbours even where this model sees [MASK].\n\n"
        )
    if "bigram" in found:
        verdict = "beats both" if last["nats_per_byte"] < found["5-gram"] else "does not beat the 5-gram model"
        return (
            "Models that count the same tokens of the same training sentences (modified Kneser-Ney, `baselines.py`) have "
            f"{found['bigram']:.4f} (bigram)\nand {found['5-gram']:.4f} (5-gram) nats per byte on the same sentences. This model {verdict}.\n\n"
        )
    return ""


def decoder_losses(checkpoints: list[dict]) -> str:
    rows = "".join(f"| {row['step']} | {row['nats_per_byte']:.4f} |\n" for row in checkpoints)
    return f"| step | nats per UTF-8 byte |\n|---:|---:|\n{rows}"


def masked_losses(checkpoints: list[dict]) -> str:
    rows = "".join(f"| {row['step']} | {row['nats_per_masked_token']:.4f} | {row['of_unigram']:.4f} |\n" for row in checkpoints)
    entropy = checkpoints[-1]["unigram_entropy"]
    head = "| step | nats per masked token | of the unigram entropy |\n|---:|---:|---:|\n"
    return f"{head}{rows}\nThe unigram entropy of the held-out tokens is {entropy:.4f} nats.\n"
