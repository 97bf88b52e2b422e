#!/usr/bin/env python3
"""Trains the pocket models.

    python pocket/train.py --corpus sentences.txt.gz --out trained           # all five; minutes on a GPU, many hours on a CPU
    python pocket/train.py --only pocket-gpt --full                          # one, with every checkpoint of the schedule
    python pocket/train.py --smoke --out trained                             # seconds: does everything, learns nothing

A corpus is a text file with one sentence a line, plain or .gz; without one the sample in corpus/ is used. Every model
becomes a folder: tokenizer, one folder per checkpoint (f16, the reference library's own format), and in the
folder itself the last of them; with a card and a log of the training.
"""

from __future__ import annotations

import argparse
import copy
import csv
import dataclasses
import json
import math
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers.utils import logging

import baselines
import card
import data
import evaluate
from recipes import RECIPES, VOCABULARY, Recipe

#: Of the tokens that a masked model must guess, this share shows [MASK], half the rest a wrong token, the others themselves.
SHOWS_MASK, SHOWS_OTHER = 0.8, 0.9
GUESSED = 0.15
LOG_EVERY = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=data.SAMPLE, help="sentences, one a line (default: the sample)")
    parser.add_argument("--out", type=Path, default=Path("trained"), help="where the models go (default: %(default)s)")
    parser.add_argument("--only", action="append", metavar="NAME", help="train this model; may be repeated")
    parser.add_argument("--full", action="store_true", help="keep every checkpoint of the schedule")
    parser.add_argument("--smoke", action="store_true", help="a few steps on a few sentences")
    parser.add_argument("--steps", type=int, help="another number of steps")
    parser.add_argument("--learning-rate", type=float, help="another learning rate")
    parser.add_argument("--weight-decay", type=float, help="another weight decay")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    logging.disable_progress_bar()
    names = [recipe.name for recipe in RECIPES]
    unknown = set(arguments.only or ()) - set(names)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))} (there are {', '.join(names)})")
    sentences = data.training_sentences(arguments.corpus)
    if arguments.smoke:
        sentences = sentences[:2000]
    for recipe in RECIPES:
        if not arguments.only or recipe.name in arguments.only:
            train(changed(recipe, arguments), sentences, arguments.out / recipe.name, arguments.full, arguments.device)


def changed(recipe: Recipe, arguments: argparse.Namespace) -> Recipe:
    """The recipe as the command line wants it."""
    if arguments.smoke:
        recipe = dataclasses.replace(recipe, steps=12, windows=2, warm_up=4, held_out=20)
    for name in ("steps", "learning_rate", "weight_decay"):
        value = getattr(arguments, name)
        if value is not None:
            recipe = dataclasses.replace(recipe, **{name: value})
    return recipe


def train(recipe: Recipe, sentences: list[str], folder: Path, full: bool, device: str) -> None:
    """One model, from nothing to its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file)) if file.exists() else data.train_tokenizer(recipe.tokenizer, VOCABULARY, sentences)
    data.save_tokenizer(tokenizer, recipe.tokenizer, recipe.positions, folder)
    encoded = [encoding.ids for encoding in tokenizer.encode_batch_fast(sentences, add_special_tokens=False)]
    start = tokenizer.token_to_id("[CLS]" if recipe.masked else data.BOUNDARY)
    end = tokenizer.token_to_id("[SEP]") if recipe.masked else None
    windows = data.Windows(encoded, start, end, recipe.positions, recipe.seed, device)

    torch.manual_seed(recipe.seed)
    torch.set_float32_matmul_precision("high")
    model = recipe.model(tokenizer.get_vocab_size()).to(device)
    if recipe.masked:
        lesson = masked_lesson(tokenizer, device, recipe.seed)
    else:
        lesson = next_token_lesson(start)
    loss_of = loss_function(model, device)
    if device == "cuda":
        # The kernels are so short that starting them one by one would take most of the time.
        loss_of = torch.compile(loss_of, mode="reduce-overhead")
    optimizer = optimizer_of(model, recipe, device)

    checkpoints, log, began, running = [], [], time.time(), torch.zeros((), device=device)
    kept = set(recipe.schedule(full))
    for step in range(recipe.steps + 1):
        if step in kept:
            checkpoints.append({"step": step, **save(model, folder / f"step{step}", device, recipe.held_out)})
            print(f"{recipe.name} step {step} {time.time() - began:.0f} s: {checkpoints[-1]}", flush=True)
        if step == recipe.steps:
            break
        rate = learning_rate(recipe, step)
        for group in optimizer.param_groups:
            group["lr"].fill_(rate)
        loss = loss_of(*lesson(windows.batch(recipe.windows)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        running += loss.detach()
        if (step + 1) % LOG_EVERY == 0:
            log.append((step + 1, f"{rate:.6g}", f"{running.item() / LOG_EVERY:.4f}"))
            running.zero_()
            if (step + 1) % (16 * LOG_EVERY) == 0:
                print(f"{recipe.name} step {step + 1} {time.time() - began:.0f} s: loss {log[-1][2]}", flush=True)

    link_last(folder, recipe.steps)
    with open(folder / "training.csv", "w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([("step", "learning_rate", "training_loss"), *log])
    corpus = {"sentences": len(sentences), "tokens": len(windows.ids), "epochs": recipe.steps * recipe.tokens_per_step() / len(windows.ids)}
    facts = card.facts(recipe, model, corpus, checkpoints, time.time() - began, device)
    facts["baselines"] = baselines.losses(folder, sentences, recipe.held_out)
    (folder / "training.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "README.md").write_text(card.text(facts))


def next_token_lesson(start: int):
    """Windows -> ids, places, what each token may see, and the token after each."""

    def lesson(windows: torch.Tensor):
        ids, wanted = windows[:, :-1], windows[:, 1:]
        position, same = data.places(ids, start)
        return ids, position, same.tril(), wanted

    return lesson


def masked_lesson(tokenizer: Tokenizer, device: str, seed: int):
    """Windows -> ids with some hidden, places, what each token may see, and the hidden tokens."""
    special = torch.tensor([tokenizer.token_to_id(token) for token in data.SPECIALS], device=device)
    mask, start = tokenizer.token_to_id("[MASK]"), tokenizer.token_to_id("[CLS]")
    generator = torch.Generator(device).manual_seed(seed)

    def lesson(windows: torch.Tensor):
        ids = windows[:, :-1]
        position, same = data.places(ids, start)
        draw = torch.rand(ids.shape, generator=generator, device=device)
        guessed = (draw < GUESSED) & ~torch.isin(ids, special)
        other = torch.randint(len(data.SPECIALS), tokenizer.get_vocab_size(), ids.shape, generator=generator, device=device)
        shown = torch.where(draw < SHOWS_MASK * GUESSED, mask, torch.where(draw < SHOWS_OTHER * GUESSED, other, ids))
        return torch.where(guessed, shown, ids), position, same, torch.where(guessed, ids, evaluate.IGNORED)

    return lesson


def loss_function(model, device: str):
    def loss_of(ids, position, visible, wanted):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            bias = torch.zeros_like(visible, dtype=torch.bfloat16 if device == "cuda" else torch.float32)
            bias = bias.masked_fill(~visible, torch.finfo(bias.dtype).min)[:, None]
            logits = model(input_ids=ids, attention_mask=bias, position_ids=position).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten(), ignore_index=evaluate.IGNORED)

    return loss_of


def optimizer_of(model, recipe: Recipe, device: str) -> torch.optim.Optimizer:
    """AdamW; matrices decay, biases and norms do not."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": others, "weight_decay": 0.0}]
    rate = torch.tensor(0.0, device=device)
    return torch.optim.AdamW(groups, lr=rate, betas=recipe.betas, fused=True)


def learning_rate(recipe: Recipe, step: int) -> float:
    if step < recipe.warm_up:
        return recipe.learning_rate * (step + 1) / recipe.warm_up
    done = (step - recipe.warm_up) / max(1, recipe.steps - recipe.warm_up)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def save(model, folder: Path, device: str, limit: int | None) -> dict[str, float]:
    """Writes a checkpoint in f16 and measures what was written."""
    copy.deepcopy(model).half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        link(folder / name, Path("..") / name)
    (folder / "generation_config.json").unlink(missing_ok=True)
    torch.set_float32_matmul_precision("highest")
    losses = evaluate.losses(folder, device, limit)
    torch.set_float32_matmul_precision("high")
    return losses


def link_last(folder: Path, last: int) -> None:
    """Makes the folder itself the last checkpoint, without a second copy of the weights."""
    for name in ("config.json", "model.safetensors"):
        link(folder / name, Path(f"step{last}") / name)


def link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)


if __name__ == "__main__":
    main()
