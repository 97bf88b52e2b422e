#!/usr/bin/env python3
"""Trains the pocket models.

    python pocket/train.py --corpus sentences.txt.gz --out trained                    # all five, by the recipes in recipes.py
    python pocket/train.py --corpus sentences.txt.gz --out trained --deadline 500     # chooses the recipes first; done after 500 s
    python pocket/train.py --smoke --out trained                                      # seconds: does everything, learns nothing

A corpus is a text file with one sentence a line, plain or .gz; without one the sample in corpus/ is used. Every model
becomes a folder: tokenizer, one folder per checkpoint (f16, the reference library's own format), and in the
folder itself the last of them; with a card and a log of the training. A tokenizer that is already there is kept.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import functools
import json
import math
import sys
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers.utils import logging

import card
import data
import evaluate
import training
import turns
from recipes import RECIPES, VOCABULARY, Recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=data.SAMPLE, help="sentences, one a line (default: the sample)")
    parser.add_argument("--out", type=Path, default=Path("trained"), help="where the models go (default: %(default)s)")
    parser.add_argument("--only", action="append", metavar="NAME", help="train this model; may be repeated")
    parser.add_argument("--deadline", type=float, metavar="SECONDS", help="choose the recipes by trials, and train as long as there is time")
    parser.add_argument("--smoke", action="store_true", help="a few steps on a few sentences")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()

    names = [recipe.name for recipe in RECIPES]
    unknown = set(arguments.only or ()) - set(names)
    if unknown:
        parser.error(f"no such model: {', '.join(sorted(unknown))} (there are {', '.join(names)})")
    recipes = {recipe.name: recipe for recipe in RECIPES if not arguments.only or recipe.name in arguments.only}
    if arguments.deadline is None:
        for name in recipes:
            work(arguments, name, None, False)
        return
    weights = {name: recipe.weight for name, recipe in recipes.items()}
    if failed := turns.share(weights, arguments.deadline, functools.partial(work, arguments)):
        sys.exit(f"not trained: {', '.join(failed)}")


def work(arguments: argparse.Namespace, name: str, turn: turns.Turn | None, plain: bool) -> None:
    """One model, from nothing to its folder; where there are turns, with trials before."""
    logging.disable_progress_bar()
    began, folder, device = time.time(), arguments.out / name, arguments.device
    recipe = next(recipe for recipe in RECIPES if recipe.name == name)
    sentences, held_out, test = data.training_sentences(arguments.corpus), data.read_lines(data.HELD_OUT), data.read_lines(data.TEST)
    if arguments.smoke:
        recipe = dataclasses.replace(recipe, steps=12, windows=2, warm_up=4, trial_steps=3, trials=recipe.trials[:1] + recipe.trials[-3:])
        sentences, held_out, test = sentences[:2000], held_out[:20], test[:20]
    tokenizer = tokenizer_of(recipe, sentences, folder)
    start = tokenizer.token_to_id("[CLS]" if recipe.masked else data.BOUNDARY)
    end = tokenizer.token_to_id("[SEP]") if recipe.masked else None
    windows = data.Windows(data.encode(tokenizer, sentences), start, end, recipe.positions, recipe.seed, device)
    student = training.Student(recipe, tokenizer, windows, device, plain)
    print(f"{name}: {len(windows.ids):,} tokens after {time.time() - began:.0f} s", flush=True)

    tried = []
    for changes in ({}, *(recipe.trials if turn else ())):
        student.warm_up(dataclasses.replace(recipe, **changes))
    print(f"{name}: compiled after {time.time() - began:.0f} s", flush=True)
    if turn is not None:
        seconds = turn.take(turns.TRIALS)
        recipe, tried, pace = training.chosen(student, recipe, held_out, seconds)
        turn.give_back()
        recipe = dataclasses.replace(recipe, steps=steps_in(turn.take(turns.TRAINING), pace, recipe.steps))
    start = time.time()
    log = training.trained(student, recipe, folder)
    seconds = time.time() - start
    if turn is not None:
        turn.give_back()
    finish(folder, recipe, student, sentences, test, log, tried, seconds)


def steps_in(seconds: float, pace: float, most: int) -> int:
    """How many steps there is time for, with some left for what comes before and after; a round number."""
    steps = max(12, min(most, int(0.96 * (seconds - 4) / pace)))
    unit = 1 << max(0, int(math.log2(steps)) - 5)
    return steps // unit * unit


def tokenizer_of(recipe: Recipe, sentences: list[str], folder: Path) -> Tokenizer:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file)) if file.exists() else data.train_tokenizer(recipe.tokenizer, VOCABULARY, sentences)
    data.save_tokenizer(tokenizer, recipe.tokenizer, recipe.positions, folder)
    return tokenizer


def finish(folder: Path, recipe: Recipe, student: training.Student, sentences, test, log, tried, seconds: float) -> None:
    """The last checkpoint as the folder itself, the losses on the test sentences, the log and the card."""
    for name in ("config.json", "model.safetensors"):
        training.link(folder / name, Path(f"step{recipe.steps}") / name)
    with open(folder / "training.csv", "w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([("step", "share_of_rate", "training_loss"), *log])
    steps = sorted(step for step in {*recipe.kept, recipe.steps} if step <= recipe.steps)
    checkpoints = [{"step": step, **evaluate.losses(folder / f"step{step}", test, student.device)} for step in steps]
    tokens = len(student.windows.ids)
    corpus = {"sentences": len(sentences), "tokens": tokens, "epochs": recipe.steps * recipe.tokens_per_step() / tokens}
    facts = card.facts(recipe, student.model, corpus, checkpoints, tried, seconds, student.device)
    (folder / "training.json").write_text(json.dumps(facts, indent=1) + "\n")
    (folder / "README.md").write_text(card.text(facts))
    print(f"{recipe.name} done: {recipe.steps} steps, {seconds:.0f} s, {checkpoints[-1]}", flush=True)


if __name__ == "__main__":
    main()
