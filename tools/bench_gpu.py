#!/usr/bin/env python3
"""Measures whole passes over a text on a GPU, norms and cosines of every state included, against the reference library's bare forward pass.

    python tools/bench_gpu.py MODEL --tokenizer FOLDER --program target/release/layerscope --text pocket/corpus/sample.txt.gz

Both read the same sentences, one after the other, in every kind of numbers. The reference computes nothing but hidden states of all layers
(sdpa, sentences sorted by length and padded, at its fastest batch size). Ours is what the manifest of a run calls forward and sketches:
the text is tokenized and the weights are on the card on both sides. The loop is what a script does that keeps sums of every token's states
in Python.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

BATCHES = (128, 512, 1024, 2048, 4096)
#: Ours, and what the reference library calls it: torch's dtype, and whether its f32 products may be tf32.
KINDS = {"f32": (torch.float32, False), "f32x3": (torch.float32, False), "tf32": (torch.float32, True), "bf16": (torch.bfloat16, True)}
#: How many times the reference's bare pass ours must be with norms and cosines, and with more; f32x3 is compared with f32.
WANTED = {"f32": 1.0, "f32x3": 3.0, "tf32": 1.0, "bf16": 1.0}
WANTED_OF_MORE = dict.fromkeys(KINDS, 0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, metavar="MODEL")
    parser.add_argument("--tokenizer", type=Path, help="folder of a tokenizer (default: the model's)")
    parser.add_argument("--text", type=Path, required=True, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, help="how many of them (default: all)")
    parser.add_argument("--repeat", type=int, default=4, help="how often the text is read (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--program", type=Path, default=Path("target/release/layerscope"), help="default: %(default)s")
    parser.add_argument("--measures", default="norm,cosine", help="default: %(default)s")
    parser.add_argument("--dtypes", default=",".join(KINDS), help="default: %(default)s")
    parser.add_argument("--layers", help="that ours measures (default: all, which takes gigabytes of disk for a wide model)")
    parser.add_argument("--batch-tokens", type=int, help="of ours (default: the program's)")
    parser.add_argument("--more", default="", help="more flags of ours")
    parser.add_argument("--no-loop", action="store_true", help="leave out the loop in Python")
    arguments = parser.parse_args()
    arguments.program = arguments.program.resolve()
    with tempfile.TemporaryDirectory(prefix="layerscope-bench-") as scratch:
        return compare(arguments, Path(scratch))


def compare(arguments, scratch: Path) -> int:
    read = gzip.open if arguments.text.suffix == ".gz" else open
    with read(arguments.text, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file][: arguments.sentences]
    text = scratch / "text.txt"
    text.write_text("\n".join(lines * arguments.repeat) + "\n", encoding="utf-8")
    tokenizer = AutoTokenizer.from_pretrained(arguments.tokenizer or arguments.model)
    model = scratch / "model"
    model.mkdir()
    for file in arguments.model.resolve().iterdir():
        (model / file.name).symlink_to(file)
    if arguments.tokenizer:
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            (model / name).unlink(missing_ok=True)
            shutil.copy(arguments.tokenizer / name, model)
    config = json.loads((model / "config.json").read_text())
    longest = config.get("max_position_embeddings") or config.get("n_positions") or 512
    sentences = tokenizer(lines, truncation=True, max_length=longest)["input_ids"]
    tokens = sum(map(len, sentences))
    print(f"{torch.cuda.get_device_name()}, {len(lines):,} sentences, {tokens:,} tokens; {arguments.measures} against a bare pass of the reference library")
    print(f"{'':8} {'ours':>10} {'reference':>10} {'ratio':>7} {'wanted':>7}   million tokens/s, median of {arguments.rounds}")
    missed, wanted = 0, WANTED if arguments.measures == "norm,cosine" else WANTED_OF_MORE
    ready = {size: list(batches(sentences, size)) for size in BATCHES}
    for kind in arguments.dtypes.split(","):
        dtype, tf32 = KINDS[kind]
        torch.backends.cuda.matmul.allow_tf32 = tf32
        theirs = AutoModel.from_pretrained(model, dtype=dtype, attn_implementation="sdpa").cuda().eval()
        batch = min(BATCHES, key=lambda size: reference_seconds(theirs, ready[size]))
        rounds = [(our_speed(arguments, model, text, kind, scratch), tokens / reference_seconds(theirs, ready[batch])) for _ in range(arguments.rounds)]
        ours, reference = (statistics.median(speed) for speed in zip(*rounds))
        ratio = statistics.median(a / b for a, b in rounds)
        missed += ratio < wanted[kind]
        print(f"{kind:8} {ours / 1e6:10.4f} {reference / 1e6:10.4f} {ratio:7.2f} {wanted[kind]:7.2f}{' !' if ratio < wanted[kind] else ''}   reference: {batch} sentences a batch", flush=True)
        if kind == "bf16" and not arguments.no_loop:
            print(f"{'loop':8} {loop_speed(theirs, sentences[:600], 32) / 1e6:10.4f}", flush=True)
        del theirs
    return 1 if missed else 0


def our_speed(arguments, model: Path, text: Path, kind: str, scratch: Path) -> float:
    """Tokens per second of a run's forward pass and statistics."""
    out = scratch / "run"
    shutil.rmtree(out, ignore_errors=True)
    command = [arguments.program, "measure", "--model", model, "--corpus", text, "--out", out, "--device", "cuda", "--dtype", kind, "--measures", arguments.measures, "--quiet"]
    command += ["--batch-tokens", arguments.batch_tokens] if arguments.batch_tokens else []
    command += ["--layers", arguments.layers] if arguments.layers else []
    command += arguments.more.split()
    finished = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL)
    if finished.returncode != 0:
        sys.exit(f"bench: `{' '.join(map(str, command))}` ended with status {finished.returncode}")
    manifest = json.loads((out / "manifest.json").read_text())
    return manifest["corpus"]["tokens"] / (manifest["timings"]["forward"] + manifest["timings"]["sketches"])


def batches(sentences: list[list[int]], size: int):
    """Padded batches of sentences of similar lengths."""
    ordered = sorted(sentences, key=len)
    for start in range(0, len(ordered), size):
        chunk = ordered[start : start + size]
        longest = max(map(len, chunk))
        ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in chunk]).cuda()
        mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in chunk]).cuda()
        yield {"input_ids": ids, "attention_mask": mask}


def reference_seconds(model, ready: list[dict]) -> float:
    """A whole pass, the batches being on the card already; for ever where they are too large."""
    try:
        return bare_pass(model, ready)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return float("inf")


def bare_pass(model, ready: list[dict]) -> float:
    with torch.inference_mode():
        model(**ready[len(ready) // 2], output_hidden_states=True)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for inputs in ready:
            model(**inputs, output_hidden_states=True)
        torch.cuda.synchronize()
    return time.perf_counter() - start


def loop_speed(model, sentences: list[list[int]], size: int) -> float:
    """The same with sums of the states and of their squares of every token at every layer, token by token."""
    sums, squares = defaultdict(float), defaultdict(float)
    start = time.perf_counter()
    with torch.inference_mode():
        for inputs in batches(sentences, size):
            states = [layer.float().cpu().numpy() for layer in model(**inputs, output_hidden_states=True).hidden_states]
            rows = inputs["input_ids"].cpu().numpy()
            for row, length in enumerate(inputs["attention_mask"].sum(1).tolist()):
                for place in range(length):
                    for layer, state in enumerate(states):
                        key = (layer, rows[row][place])
                        sums[key] = sums[key] + state[row, place]
                        squares[key] = squares[key] + (state[row, place] ** 2).sum()
    return sum(map(len, sentences)) / (time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
