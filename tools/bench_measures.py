#!/usr/bin/env python3
"""Measures what the measures cost: while states stream, at the end of a run, and beside other programs.

    cargo build --release --workspace --examples
    python tools/bench_measures.py MODEL_FOLDER... --peers .venv-measures/bin/python

Streaming: the bare forward pass, then the same with the sketches of norm and cosine, and of all measures, on the same sentences; the
cost is time with over time without, the median of the rounds. Beside it the reference library with the update that papers'
scripts make: for every token and layer, Python adds the f32 state to running sums of that token in a dictionary.
The end of a run: the tables of one point of width 768 with a sample of 20,000 states.
TwoNN: ours beside DADApy and scikit-dimension on the same points, each on all cores.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers

import bench

COST = bench.EXAMPLES / "statistics_cost"
LENSES = bench.EXAMPLES / "lens_speed"
REFERENCE_BATCH = 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL_FOLDER", help="to stream through; none: only what needs no model")
    parser.add_argument("--text", type=Path, metavar="FILE", help="sentences, one a line (default: Zipf-distributed ids with the lengths of sentences)")
    parser.add_argument("--threads", type=int, default=2, help="of both programs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--tokens", type=int, default=20000, help="of a round (default: %(default)s)")
    parser.add_argument("--points", type=int, default=20000, help="of TwoNN (default: %(default)s)")
    parser.add_argument("--width", type=int, default=768, help="of these points (default: %(default)s)")
    parser.add_argument("--peers", type=Path, default=Path(sys.executable), metavar="PYTHON", help="one with tools/requirements-measures.txt (default: this one)")
    parser.add_argument("--no-finish", action="store_true", help="leave out the end of a run")
    parser.add_argument("--out", type=Path, default=bench.ROOT / "bench-results" / "measures.json", help="default: bench-results/measures.json")
    arguments = parser.parse_args()
    for program in (COST, LENSES):
        if not program.exists():
            sys.exit(f"bench: {program} is missing; build it with `cargo build --release --workspace --examples`")
    torch.set_num_threads(arguments.threads)
    load_before = os.getloadavg()[0]
    if load_before > 0.5:
        print(f"bench: the machine is busy (load {load_before:.1f}); the figures will not mean much", file=sys.stderr)

    report = {
        "machine": {"processor": bench.processor(), "load_before": load_before},
        "settings": {name: getattr(arguments, name) for name in ("threads", "rounds", "tokens", "points", "width")},
        "reference": {"transformers": transformers.__version__, "torch": torch.__version__},
    }
    with tempfile.TemporaryDirectory(prefix="layerscope-bench-") as scratch:
        report["streaming"] = [streaming(bench.load(folder), arguments, Path(scratch)) for folder in arguments.models]
        report["twonn"] = twonn(arguments, Path(scratch))
    report["finish"] = {} if arguments.no_finish else finish()
    print_tables(report)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")
    return 0


def streaming(model: bench.Model, arguments, scratch: Path) -> dict:
    """What sketches add to the forward pass, and what the same statistics cost elsewhere."""
    sentences = sample(model, arguments)
    ids = scratch / "ids.json"
    ids.write_text(json.dumps(sentences))
    command = [COST, model.folder, ids, "--threads", arguments.threads, "--rounds", arguments.rounds]
    result = {"model": model.name, "sentences": len(sentences), "tokens": sum(map(len, sentences))}
    for name, more in (("norm_and_cosine", []), ("all", ["--all"])):
        print(f"{model.name}: {name}", file=sys.stderr, flush=True)
        result[name] = bench.run_json(command + more)
    print(f"{model.name}: the reference", file=sys.stderr, flush=True)
    speeds = [reference_speed(model, sentences) for _ in range(max(1, arguments.rounds // 2))]
    result["reference"] = {"tokens_per_second": statistics.median(speeds), "rounds": speeds, "batch": REFERENCE_BATCH}
    for name in ("norm_and_cosine", "all"):
        result[name]["ratio_to_reference"] = result[name]["with_statistics"] / result["reference"]["tokens_per_second"]
    return result


def sample(model: bench.Model, arguments) -> list[list[int]]:
    """Sentences of about so many tokens; generated ones repeat their words as text does: rank r with a chance of about 1 / r."""
    if arguments.text:
        sentences = bench.read_sentences(model, arguments.text)
    else:
        source, vocabulary = random.Random(1), model.config.get_text_config().vocab_size - 10
        sentences = [[10 + int(vocabulary ** source.random()) - 1 for _ in sentence] for sentence in bench.generate_sentences(model)]
    chosen, tokens = [], 0
    for sentence in sentences:
        if tokens >= arguments.tokens:
            break
        chosen.append(sentence)
        tokens += len(sentence)
    return chosen


def reference_speed(model: bench.Model, sentences: list[list[int]]) -> float:
    """Tokens per second of one pass with count, sum of states and sum of squared norms per token and layer, kept in Python."""
    ordered = sorted(sentences, key=len)
    batches = [ordered[start : start + REFERENCE_BATCH] for start in range(0, len(ordered), REFERENCE_BATCH)]
    sums: list[dict[int, list]] = []
    start = time.perf_counter()
    with torch.inference_mode():
        for batch in batches:
            hidden = model.model(**bench.pad(batch), output_hidden_states=True).hidden_states
            sums = sums or [{} for _ in hidden]
            for states, of_layer in zip(hidden, sums, strict=True):
                for sentence, rows in zip(batch, states.numpy(), strict=True):
                    for token, state in zip(sentence, rows):  # padding rows come last and have no token
                        entry = of_layer.get(token)
                        if entry is None:
                            of_layer[token] = [1, state.copy(), float(state @ state)]
                        else:
                            entry[0] += 1
                            entry[1] += state
                            entry[2] += float(state @ state)
    return sum(map(len, sentences)) / (time.perf_counter() - start)


def twonn(arguments, scratch: Path) -> dict:
    """The dimension of one cloud by three programs. States have a decaying spectrum: standard deviation 1 / sqrt(rank), turned."""
    rows, dim = arguments.points, arguments.width
    source = np.random.RandomState(0)
    cloud = (source.randn(rows, dim) / np.sqrt(np.arange(1, dim + 1))) @ np.linalg.qr(source.randn(dim, dim))[0]
    file = scratch / "points.f32"
    cloud.astype(np.float32).tofile(file)
    print("TwoNN: ours", file=sys.stderr, flush=True)
    printed = subprocess.run([LENSES, "twonn", file, str(rows), str(dim)], check=True, capture_output=True, text=True).stdout
    seconds, likelihood, line = map(float, printed.split())
    print("TwoNN: the others", file=sys.stderr, flush=True)
    peers = bench.run_json([arguments.peers, Path(__file__).with_name("cross_check.py"), "speed", file, rows, dim])
    result = {"layerscope": {"seconds": seconds, "dimension": line, "maximum_likelihood": likelihood}} | peers
    if peers:
        result["times_faster_than_the_fastest_other"] = min(peer["seconds"] for peer in peers.values()) / seconds
    return result


def finish() -> dict[str, float]:
    """Seconds of every part of a point's tables, as the example prints them after the line `finish`."""
    print("the end of a run", file=sys.stderr, flush=True)
    printed = subprocess.run([LENSES], check=True, capture_output=True, text=True).stdout.splitlines()
    start = next(number for number, line in enumerate(printed) if line.startswith("finish"))
    parts = (line.strip().rsplit(maxsplit=2) for line in printed[start + 1 :])
    return {name.strip(): float(seconds) for name, seconds, _unit in parts}


def print_tables(report: dict) -> None:
    settings = report["settings"]
    print(f"\n{report['machine']['processor']}, {settings['threads']} threads\n")
    if report["streaming"]:
        print(f"{'model':20} {'what':28} {'tokens/s':>9} {'cost':>6} {'of the reference':>17}")
    for result in report["streaming"]:
        print(f"{result['model']:20} {'bare forward pass':28} {result['all']['bare']:9.0f}")
        for name in ("norm_and_cosine", "all"):
            row = result[name]
            print(f"{'':20} {name.replace('_', ' '):28} {row['with_statistics']:9.0f} {row['cost']:6.3f} {row['ratio_to_reference']:15.1f} x")
        print(f"{'':20} {'reference, sums in Python':28} {result['reference']['tokens_per_second']:9.0f}")
    print(f"\nTwoNN on {settings['points']} x {settings['width']} points")
    for name, row in report["twonn"].items():
        if isinstance(row, dict):
            print(f"  {name:28} {row['seconds']:8.2f} s   dimension {row['dimension']:.4f}")
    if "times_faster_than_the_fastest_other" in report["twonn"]:
        print(f"  {report['twonn']['times_faster_than_the_fastest_other']:.1f} times faster than the fastest other")
    if report["finish"]:
        print("\nthe tables of one point, width 768, a sample of 20,000")
    for name, seconds in report["finish"].items():
        print(f"  {name:28} {seconds:8.3f} s")


if __name__ == "__main__":
    sys.exit(main())
