"""One model: the steps of a training, the trials before it, and what it leaves."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

import evaluate
from data import Windows
from lessons import lesson_of
from optimizers import Optimizers
from recipes import Changes, Recipe

LOG_EVERY = 64
#: Seconds that a trial takes besides its steps.
BEFORE = 2.5


class Student:
    """A model that can be trained again and again, on the same windows."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, windows: Windows, device: str, plain: bool):
        self.tokenizer, self.windows, self.device = tokenizer, windows, device
        self.compiled = device == "cuda" and not plain
        self.model = recipe.model(tokenizer.get_vocab_size()).to(device)
        self.lessons = {}

    def lesson(self, recipe: Recipe):
        """Of the recipe; it is compiled only where another number of tokens is hidden."""
        key = (recipe.guessed, recipe.shown)
        if key not in self.lessons:
            self.lessons[key] = lesson_of(self.model, recipe, self.tokenizer, self.device, self.compiled)
        return self.lessons[key]

    def warm_up(self, recipe: Recipe) -> None:
        """Compiles what the recipe needs."""
        self.lesson(recipe)(self.windows.batch(recipe.windows)).backward()

    def begin(self, recipe: Recipe) -> Step:
        """From new weights, the first windows and the first draws on."""
        torch.manual_seed(recipe.seed)
        fresh = recipe.model(self.tokenizer.get_vocab_size())
        with torch.no_grad():
            for parameter, new in zip(self.model.parameters(), fresh.parameters(), strict=True):
                parameter.copy_(new)
        self.windows.restart()
        step = Step(self.lesson(recipe), Optimizers(self.model, recipe, self.device), recipe, self.device)
        torch.manual_seed(recipe.seed)
        return step

    def validation(self, sentences: list[str]) -> float:
        """The loss by which recipes are chosen."""
        losses = evaluate.losses_of(self.model, self.tokenizer, sentences)
        return losses.get("nats_per_byte") or losses["nats_per_masked_token"]


class Step:
    """Forward, backward and the optimizers. On a GPU it is one CUDA graph: the kernels are so short that starting them would take most of the time."""

    def __init__(self, lesson, optimizers: Optimizers, recipe: Recipe, device: str):
        self.lesson, self.optimizers, self.graph = lesson, optimizers, None
        self.ids = torch.zeros(recipe.windows, recipe.positions + 1, dtype=torch.long, device=device)
        self.loss = torch.zeros((), device=device)
        if device == "cuda":
            try:
                self._capture()
            except RuntimeError as error:
                print(f"{recipe.name}: no CUDA graph: {error}", flush=True)
            self.optimizers.forget()
            self.loss.zero_()

    def __call__(self, windows: torch.Tensor, factor: float) -> None:
        self.optimizers.set(factor)
        self.ids.copy_(windows)
        if self.graph is not None:
            self.graph.replay()
        else:
            self._run()

    def _run(self) -> None:
        self.optimizers.zero_grad()
        loss = self.lesson(self.ids)
        loss.backward()
        self.optimizers.step()
        self.loss += loss.detach()

    def _capture(self) -> None:
        """At a rate of zero no weight changes meanwhile."""
        self.optimizers.set(0.0)
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self._run()
        torch.cuda.current_stream().wait_stream(aside)
        self.optimizers.zero_grad()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._run()
        self.graph = graph


def factor_of(recipe: Recipe, step: int, steps: int) -> float:
    """Of the largest rate: linear warm-up, then a cosine to zero."""
    warm_up = min(recipe.warm_up, steps // 3)
    if step < warm_up:
        return (step + 1) / warm_up
    return 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))


def chosen(student: Student, recipe: Recipe, sentences: list[str], seconds: float) -> tuple[Recipe, list[dict], float]:
    """The recipe with those of its changes that lowered the loss, each tried over the best before; what was tried; seconds per step."""
    began, tried, best, least, pace, steps = time.time(), [], recipe, math.inf, 0.0, recipe.trial_steps
    for number, changes in enumerate(recipe.trials):
        candidate = dataclasses.replace(best, **changes)
        step = student.begin(candidate)
        start = time.time()
        for at in range(steps):
            step(student.windows.batch(candidate.windows), factor_of(candidate, at, steps))
            if number == 0 and at == 49:
                synchronize(student.device)
                first = (time.time() - start) / 50
                steps = min(steps, max(100, int((seconds / len(recipe.trials) - BEFORE) / first)))
                print(f"{recipe.name}: {1000 * first:.2f} ms a step, {steps} steps a trial", flush=True)
            if at + 1 >= steps:
                break
        synchronize(student.device)
        pace = (time.time() - start) / steps
        loss = student.validation(sentences)
        tried.append({**told(candidate, recipe), "steps": steps, "validation": round(loss, 4)})
        print(f"{recipe.name} tried after {time.time() - began:.1f} s, {1000 * pace:.2f} ms a step: {tried[-1]}", flush=True)
        if loss < least:
            best, least = candidate, loss
    return best, tried, pace


def told(candidate: Recipe, recipe: Recipe) -> Changes:
    """All that any trial of the recipe changes, as the candidate has it."""
    names = dict.fromkeys(name for changes in recipe.trials for name in changes)
    return {name: getattr(candidate, name) for name in names}


def trained(student: Student, recipe: Recipe, folder: Path) -> list[tuple]:
    """Trains and writes the checkpoints; returns the log."""
    step, log, began = student.begin(recipe), [], time.time()
    for at in range(recipe.steps + 1):
        if at in {*recipe.kept, recipe.steps}:
            save(student.model, folder / f"step{at}")
        if at == recipe.steps:
            return log
        factor = factor_of(recipe, at, recipe.steps)
        step(student.windows.batch(recipe.windows), factor)
        if (at + 1) % LOG_EVERY == 0:
            log.append((at + 1, f"{factor:.6g}", f"{step.loss.item() / LOG_EVERY:.4f}"))
            step.loss.zero_()
            if (at + 1) % (32 * LOG_EVERY) == 0:
                print(f"{recipe.name} step {at + 1} of {recipe.steps}, {time.time() - began:.0f} s: loss {log[-1][2]}", flush=True)


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def save(model, folder: Path) -> None:
    """Writes a checkpoint in f16; its tokenizer lies above it."""
    copy.deepcopy(model).half().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        link(folder / name, Path("..") / name)
    (folder / "generation_config.json").unlink(missing_ok=True)


def link(place: Path, target: Path) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
