#!/usr/bin/env python3
"""Measures what statistics cost beside the forward pass, and the reference library with the paper's loop.

    cargo build --release --workspace --examples
    python tools/bench_statistics.py MODEL_FOLDER... [--text novels.txt]

Ours: `statistics_cost` runs a few batches through the bare model and through the model and the sketches, then the next few; the cost is
the median of these rounds' ratios, of wall and of processor time, for norms and cosines and for all measures. The reference: the same forward as in bench.py, followed by
the update of Yamagiwa & Shimodaira's script, running means of x and of its square for every token of every layer, in Python.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import bench

ROOT = Path(__file__).resolve().parent.parent
REFERENCE_BATCH = 32
# As many batches as a few rounds need, however slow the machine was when it was asked.
FEWEST_TOKENS = 12_288


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL_FOLDER")
    parser.add_argument("--text", type=Path, metavar="FILE", help="sentences, one a line (default: random ids with the lengths of sentences)")
    parser.add_argument("--threads", type=int, default=2, help="of both programs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="of ours and the reference in turn (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a bare pass, about (default: %(default)s)")
    parser.add_argument("--program", type=Path, default=bench.EXAMPLES / "statistics_cost", help="default: target/release/examples/statistics_cost")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "statistics.json", help="default: bench-results/statistics.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory(prefix="layerscope-bench-") as scratch:
        results = [measure(bench.load(folder), arguments, Path(scratch)) for folder in arguments.models]
    print(f"\n{'model':20} {'bare':>8} {'norm, cosine':>31} {'all measures':>31} {'paper’s loop':>13}   ours / loop (range)")
    for row in results:
        ratio, some, everything = row["ratio"], row["norm_cosine"], row["all"]
        print(
            f"{row['model']:20} {some['bare']:8.0f} {some['with_statistics']:8.0f} (x {some['cost']:.3f}, cpu {some['cpu_cost']:.3f}) {everything['with_statistics']:8.0f} (x {everything['cost']:.3f}, cpu {everything['cpu_cost']:.3f})"
            f" {row['loop']:13.0f}   {ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f})"
        )
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"threads": arguments.threads, "models": results}, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")
    return 0


def measure(model: bench.Model, arguments, scratch: Path) -> dict:
    """Ours and the reference in turn, so that both meet the same machine."""
    sentences = bench.read_sentences(model, arguments.text) if arguments.text else bench.generate_sentences(model)
    speed = bench.reference_speed(model, sentences[:16], batch=16, seconds=0.0)
    sample, tokens = [], 0
    for sentence in sentences:
        if tokens >= max(speed * arguments.seconds, FEWEST_TOKENS):
            break
        sample.append(sentence)
        tokens += len(sentence)
    ids = scratch / f"{model.folder.name}.json"
    ids.write_text(json.dumps(sample))
    command = [arguments.program, model.folder, ids, "--threads", arguments.threads]

    one, loops, everything = [], [], []
    for number in range(1, arguments.rounds + 1):
        one.append(bench.run_json([*command, "--rounds", 40]))
        loops.append(loop_speed(model, sample))
        everything.append(bench.run_json([*command, "--rounds", 40, "--all"]))
        note = f"{one[-1]['with_statistics']:.0f} tokens/s with norms and cosines (x {one[-1]['cost']:.3f}), all x {everything[-1]['cost']:.3f}, the loop {loops[-1]:.0f}"
        print(f"{model.name}: round {number}: {note}", file=sys.stderr, flush=True)
    ratios = [ours["with_statistics"] / loop for ours, loop in zip(one, loops, strict=True)]
    middle = lambda rounds: {key: statistics.median(entry[key] for entry in rounds) for key in ("bare", "with_statistics", "cost", "cpu_cost")}  # noqa: E731
    return {
        "model": model.name,
        "tokens": tokens,
        "norm_cosine": middle(one),
        "all": middle(everything),
        "loop": statistics.median(loops),
        "ratio": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
    }


def loop_speed(model: bench.Model, sentences: list[list[int]]) -> float:
    """Tokens per second of one pass with the paper's update."""
    ordered = sorted(sentences, key=len)
    means: dict[tuple[int, int], torch.Tensor] = {}
    squares: dict[tuple[int, int], float] = {}
    counts: dict[tuple[int, int], int] = {}
    start = time.perf_counter()
    with torch.inference_mode():
        for first in range(0, len(ordered), REFERENCE_BATCH):
            batch = ordered[first : first + REFERENCE_BATCH]
            hidden = model.model(**bench.pad(batch), output_hidden_states=True).hidden_states
            for layer, states in enumerate(hidden):
                norms = (states * states).sum(-1).tolist()
                for row, sentence in enumerate(batch):
                    for place, token in enumerate(sentence):
                        key = (layer, token)
                        n = counts[key] = counts.get(key, 0) + 1
                        if n == 1:
                            means[key], squares[key] = states[row, place].clone(), norms[row][place]
                        else:
                            means[key] += (states[row, place] - means[key]) / n
                            squares[key] += (norms[row][place] - squares[key]) / n
    return sum(map(len, sentences)) / (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
