"""What is known about a training, as numbers and as a model card."""

from __future__ import annotations

import dataclasses
import platform

import tokenizers
import torch
import transformers

from recipes import HEADS, LAYERS, Recipe

CHOSEN = """\
By the loss on other sentences, [held-out.txt](../corpus/README.md), and by nothing else; no state was looked at. `train.py --deadline` tried these one after another,
each changed one thing in the best before it; the number of steps was not tried. The seed was the same for all. Losses are in nats per {unit}."""

#: Of columns whose names say too little.
TITLES = {"learning_rate": "AdamW's rate", "muon": "Muon's rate", "guessed": "share guessed", "shown": "of these, as [MASK]", "validation": "loss"}


def facts(recipe: Recipe, model, corpus: dict, checkpoints: list[dict], tried: list[dict], seconds: float, device: str) -> dict:
    known = {name: value for name, value in dataclasses.asdict(recipe).items() if name not in ("trials", "trial_steps", "weight")}
    return {
        "recipe": known,
        "tried": tried,
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
| architecture | `{recipe["family"]}`: {LAYERS} layers, {recipe["width"]} wide, {HEADS} heads, {recipe["positions"]} positions, tied embeddings, {facts["parameters"]:,} parameters |
| tokens | {tokens}, vocabulary of {facts["vocabulary"]:,} |
| data | {corpus["sentences"]:,} sentences of British novels of 1840-1920 ([corpus](../corpus/README.md)), {corpus["tokens"] / 1e6:.1f} M tokens, {corpus["epochs"]:.1f} epochs; sentences are independent, packed into windows of {recipe["positions"]} tokens |
| training | {recipe["steps"]:,} steps of {recipe["positions"] * recipe["windows"]:,} tokens, {optimizer(recipe)}, weight decay {recipe["weight_decay"]:g}, {recipe["warm_up"]:,} steps of warm-up, cosine to zero, no dropout, bf16 products, seed {recipe["seed"]} |
| trained on | {facts["device"]}, torch {facts["versions"]["torch"]}, transformers {facts["versions"]["transformers"]} |
| stored | f16 |
| licence | CC0 1.0 for the weights; the text is in the public domain |

{trials(facts)}## Loss on the test sentences

{masked_losses(facts["checkpoints"]) if masked else decoder_losses(facts["checkpoints"])}
{baselines(facts)}`evaluate.py` computed these losses with the reference library on the stored weights, on [test.txt](../corpus/README.md). A test recomputes
them with Layerscope's engine. `training.csv` has the loss during training.
"""


def optimizer(recipe: dict) -> str:
    adam = f"AdamW {tuple(recipe['betas'])} at {recipe['learning_rate']:g}"
    text = f"Muon at {recipe['muon']:g} for the matrices of the blocks and {adam} for the rest" if recipe["muon"] else adam
    if recipe["tokenizer"] != "wordpiece":
        return text
    shown = "each shown as [MASK]" if recipe["shown"] == 1 else f"{recipe['shown']:.0%} of them shown as [MASK]"
    return f"{recipe['guessed']:.0%} of the tokens to guess, {shown}, {text}"


def trials(facts: dict) -> str:
    """What was tried, with the losses; nothing where nothing was."""
    tried = facts["tried"]
    if not tried:
        return ""
    names = [*tried[0]]
    rows = "".join(f"| {' | '.join(f'{row[name]:g}' for name in names)} |\n" for row in tried)
    head = f"| {' | '.join(TITLES.get(name, name.replace('_', ' ')) for name in names)} |\n|{'---:|' * len(names)}\n"
    unit = "masked token" if "of_unigram" in facts["checkpoints"][-1] else "UTF-8 byte"
    return f"## How the recipe was chosen\n\n{CHOSEN.format(unit=unit)}\n\n{head}{rows}\n"


def baselines(facts: dict) -> str:
    """What models that only count reach on the same sentences; nothing where they were not asked."""
    found, last = facts.get("baselines", {}), facts["checkpoints"][-1]
    if "neighbours" in found:
        verdict = "which this model beats" if last["nats_per_masked_token"] < found["neighbours"] else "which this model does not reach"
        return (
            "A model that counts the same training sentences and predicts a token from both its neighbours (`baselines.py`) has "
            f"{found['neighbours']:.4f} nats\nper token, {verdict}. Both predict every token of a sentence in turn and see all others.\n\n"
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
    head = "Every token is masked in turn, alone.\n\n| step | nats per masked token | of the unigram entropy |\n|---:|---:|---:|\n"
    return f"{head}{rows}\nThe unigram entropy of the test tokens is {entropy:.4f} nats.\n"
