#!/usr/bin/env python3
"""Runs a long measurement and compares its memory with the estimate that was printed before it began.

    python tools/check_memory.py MODEL_FOLDER --sentences 50000

The text is the pocket corpus, repeated as often as needed. Fails if the peak exceeds the estimate, if it stays more than 15 % below it,
or if memory is higher in the last quarter of the measurement than in the one before.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="a folder with a checkpoint and its tokenizer")
    parser.add_argument("--sentences", type=int, default=50_000, help="default: %(default)s")
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "layerscope", help="default: target/release/layerscope")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="layerscope-memory-") as scratch:
        corpus = write_corpus(Path(scratch) / "corpus.txt", arguments.sentences)
        out = Path(scratch) / "run"
        command = [arguments.program, "measure", "--model", arguments.model, "--corpus", corpus, "--out", out, "--json"]
        samples, estimate = run([str(part) for part in command])
        manifest = json.loads((out / "manifest.json").read_text())
    peak, documents = manifest["peak_memory_bytes"], manifest["corpus"]["documents"]
    # The first half shows every token once: room for a group is taken when it comes.
    half, quarter = len(samples) // 2, 3 * len(samples) // 4
    growth = max(samples[quarter:]) / max(samples[half:quarter]) - 1
    print(f"{documents} sentences: estimate {estimate / 2**20:.1f} MiB, peak {peak / 2**20:.1f} MiB, {1 - peak / estimate:.1%} below; growth {growth:.1%}")
    problems = [
        (peak > estimate, "the peak exceeds the estimate"),
        (peak < 0.85 * estimate, "the estimate is more than 15 % too high"),
        (growth > 0.02, "memory grows in the last quarter"),
    ]
    for wrong, problem in problems:
        if wrong:
            print(f"check_memory: {problem}", file=sys.stderr)
    return int(any(wrong for wrong, _ in problems))


def write_corpus(path: Path, sentences: int) -> Path:
    with gzip.open(ROOT / "pocket" / "corpus" / "sample.txt.gz", "rt", encoding="utf-8") as text:
        lines = text.readlines()
    path.write_text("".join(lines[i % len(lines)] for i in range(sentences)), encoding="utf-8")
    return path


def run(command: list[str]) -> tuple[list[int], int]:
    """Resident memory at every event of the measurement, and the estimate. Tables come after it, with memory of their own."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    estimate, samples = None, []
    for line in process.stdout:
        found = re.search(r"memory estimate ([\d.]+) (\w+)", line)
        if found:
            estimate = int(float(found[1]) * UNITS[found[2]])
        resident = line.startswith('{"event":"measuring"') and re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
        if resident:
            samples.append(int(resident[1]) * 1024)
    if process.wait() != 0 or estimate is None or len(samples) < 4:
        sys.exit(f"check_memory: `{' '.join(command)}` ended with status {process.returncode}")
    return samples, estimate


if __name__ == "__main__":
    sys.exit(main())
