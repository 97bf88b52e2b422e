#!/usr/bin/env python3
"""Compares Layerscope's hidden states with the installed reference library's, point by point.

    python tools/parity.py MODEL_FOLDER
    python tools/parity.py MODEL_FOLDER --text sentences.txt --tolerance 1e-5
    python tools/parity.py model.gguf --floor --times-floor 2

Both sides compute the same sequences, of unequal lengths: the lines of a text (``tools/sample.txt`` unless told) through the
model's tokenizer, or, where the folder has none, random ids with a fixed seed. The deviation of a point is the largest
absolute difference of any state, as a fraction of the root mean square of the reference's states at that point. Exit
status 1 if any is above the tolerance.

Both sides round: ``--floor`` adds how far the reference library in f32 is from itself in f64. In all-MiniLM-L6-v2 that is
up to 1e-5 on sentences and 3e-5 on 512 random ids, where no f32 program can promise 2e-5. ``--times-floor 2`` therefore allows, at every
point, twice the reference's own distance, and half of all numbers must be nearer than ``--typical``.

A decoder's massive states (attention sinks) are a few states some hundred times as large as all others: they make a point's root mean
square, and they carry its largest difference. So every state is also compared with its own root mean square: ``typical`` is the
median over all numbers of all states of that.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

import reference

STATES = "cargo run --release --quiet -p layerscope-model --example states --"
LENGTHS = (1, 2, 3, 7, 13, 32, 61, 128)
SAMPLE = Path(__file__).resolve().parent / "sample.txt"
TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, metavar="MODEL", help="a folder or a GGUF file")
    parser.add_argument("--states", default=STATES, metavar="PROGRAM", help="called as PROGRAM MODEL_FOLDER IDS.json OUT.safetensors (default: %(default)s)")
    parser.add_argument("--text", type=Path, metavar="FILE", help="take the lines of this text")
    parser.add_argument("--random", action="store_true", help="take random ids though the folder has a tokenizer")
    parser.add_argument("--floor", action="store_true", help="also measure the reference's own rounding")
    parser.add_argument("--limit", type=int, default=64, help="at most so many lines of the text (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the random ids (default: %(default)s)")
    parser.add_argument("--tolerance", type=float, default=2e-5, help="largest deviation allowed (default: %(default)s)")
    parser.add_argument("--times-floor", type=float, metavar="N", help="with --floor: allow N times the reference's own rounding instead")
    parser.add_argument("--typical", type=float, default=2e-6, help="with --times-floor: largest typical deviation allowed (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=None, help="threads of the reference library (default: its own choice)")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)

    config = reference.load_config(arguments.model)
    has_tokenizer = reference.is_gguf(arguments.model) or any(Path(arguments.model, file).exists() for file in TOKENIZERS)
    if arguments.text or (has_tokenizer and not arguments.random):
        kind, sequences = "text", read_text(arguments, config)
    else:
        kind, sequences = "random ids", random_ids(config, arguments.seed)
    ours = run_program(arguments.states, arguments.model, sequences)
    theirs = run_reference(arguments.model, config, sequences, torch.float32)
    exact = run_reference(arguments.model, config, sequences, torch.float64) if arguments.floor else None
    print(f"{arguments.model}: {len(sequences)} sequences of {kind}, {sum(map(len, sequences))} tokens")
    return report(ours, theirs, exact, arguments)


def random_ids(config, seed: int) -> list[list[int]]:
    """Ids from the whole vocabulary except the padding id, also close to the longest sequence allowed (up to 512)."""
    text = config.get_text_config()
    longest = reference.longest_sequence(config) or 512
    lengths = sorted({min(length, longest) for length in LENGTHS} | {min(longest, 512)})
    generator = torch.Generator().manual_seed(seed)
    sequences = []
    for length in lengths:
        ids = torch.randint(text.vocab_size - 1, (length,), generator=generator)
        padding = text.pad_token_id if text.pad_token_id is not None and text.pad_token_id >= 0 else text.vocab_size
        sequences.append(torch.where(ids >= padding, ids + 1, ids).tolist())
    return sequences


def read_text(arguments, config) -> list[list[int]]:
    """The lines of a file as the model's tokenizer sees them, cut at the longest sequence allowed."""
    model = arguments.model
    where = {"gguf_file": model.name} if reference.is_gguf(model) else {}
    tokenizer = AutoTokenizer.from_pretrained(model.parent if where else model, **where)
    longest = reference.longest_sequence(config)
    lines = [line for line in (arguments.text or SAMPLE).read_text().splitlines() if line.strip()][: arguments.limit]
    return [tokenizer(line, truncation=False, padding=False)["input_ids"][:longest] for line in lines]


def run_program(program: str, model: Path, sequences: list[list[int]]) -> dict[str, torch.Tensor]:
    """What our program writes for these sequences."""
    with tempfile.TemporaryDirectory() as folder:
        ids, out = Path(folder, "ids.json"), Path(folder, "states.safetensors")
        ids.write_text(json.dumps(sequences))
        command = [*shlex.split(program), str(model), str(ids), str(out)]
        try:
            finished = subprocess.run(command)
        except OSError as error:
            sys.exit(f"parity: cannot run {command[0]}: {error.strerror}")
        if finished.returncode != 0:
            sys.exit(f"parity: `{program}` ended with status {finished.returncode}")
        return load_file(out)


def run_reference(model: Path, config, sequences: list[list[int]], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The same from the reference library, one sequence at a time; a fresh model each where it remembers lengths."""
    remembers = "dynamic" in json.dumps(config.to_dict(), default=str)
    loaded = reference.load(model, dtype)
    tensors = {}
    for number, ids in enumerate(sequences):
        if remembers and number:
            loaded = reference.load(model, dtype)
        points = reference.capture(loaded, ids)
        points.mapping()
        tensors |= {f"{point}.{number}": states for point, states in points.named().items()}
    return tensors


def report(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor], exact: dict[str, torch.Tensor] | None, arguments) -> int:
    """Prints the table; 1 if something is missing, misshapen or too far off."""
    wrong = [f"missing: {name}" for name in sorted(theirs.keys() - ours.keys())]
    wrong += [f"unexpected: {name}" for name in sorted(ours.keys() - theirs.keys())]
    for name in sorted(theirs.keys() & ours.keys()):
        if ours[name].shape != theirs[name].shape:
            wrong.append(f"{name}: shape {tuple(ours[name].shape)} instead of {tuple(theirs[name].shape)}")
    if wrong:
        print("\n".join(wrong[:20] + ([f"... and {len(wrong) - 20} more"] if len(wrong) > 20 else [])))
        return 1

    points: dict[str, list[str]] = {}
    for name in theirs:
        points.setdefault(name.rpartition(".")[0], []).append(name)
    by_floor = exact is not None and arguments.times_floor is not None
    floor_head = f" {'floor':>10} {'typical':>10}" if exact else ""
    print(f"{'point':12} {'rms':>10} {'deviation':>10} {'typical':>10}{floor_head}  worst at")
    worst, failed = 0.0, False
    for point, names in points.items():
        expected = torch.cat([theirs[name] for name in names]).double()
        difference = torch.cat([ours[name] for name in names]).double() - expected
        rms = expected.pow(2).mean().sqrt().item()
        deviation, typical = difference.abs().max().item() / rms, typical_of(difference, expected)
        limit, floor = arguments.tolerance, ""
        if exact:
            distance = torch.cat([exact[name] for name in names]).double() - expected
            lowest = distance.abs().max().item() / rms
            floor = f" {lowest:10.1e} {typical_of(distance, expected):10.1e}"
            limit = arguments.times_floor * lowest if by_floor else limit
        row = int(difference.abs().max(dim=1).values.argmax())
        place = locate(row, [len(theirs[name]) for name in names])
        sound = deviation <= limit and (typical <= arguments.typical or not by_floor)
        print(f"{point:12} {rms:10.4g} {deviation:10.1e} {typical:10.1e}{floor}  {place}{'' if sound else '  <-- above tolerance'}")
        worst, failed = max(worst, deviation) if not math.isnan(deviation) else math.inf, failed or not sound
    allowed = f"{arguments.times_floor:g} times the reference's own rounding" if by_floor else f"{arguments.tolerance:.1e}"
    print(f"largest deviation {worst:.1e}, tolerance {allowed}: {'DIFFERENT' if failed else 'equal'}")
    return 1 if failed else 0


def typical_of(difference: torch.Tensor, expected: torch.Tensor) -> float:
    """The median over all numbers of ``|difference|``, as a fraction of the root mean square of the state that a number belongs to."""
    scale = expected.pow(2).mean(dim=1, keepdim=True).sqrt()
    return (difference.abs() / scale).flatten().median().item()


def locate(row: int, lengths: list[int]) -> str:
    """Which token of which sequence a row of the concatenated states is."""
    for number, length in enumerate(lengths):
        if row < length:
            return f"token {row} of sequence {number} ({length} tokens)"
        row -= length
    raise IndexError(row)


if __name__ == "__main__":
    sys.exit(main())
