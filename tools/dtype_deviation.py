#!/usr/bin/env python3
"""Prints how far states and measures of ``--dtype bf16`` are from those of f32, layer by layer, as the tables of docs/accuracy.md.

    cargo build --release
    python tools/dtype_deviation.py MODEL... --corpus pocket/corpus/held-out.txt

Both runs keep the same sample of states. A deviation of states is relative to the root mean square of the layer's components: of all
components, and the largest. A change of a measure is relative to its f32 value; the cosine's is the difference.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import struct
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
RELATIVE = {"q": "Q", "m": "M", "v": "V", "twonn": "TwoNN"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL", help="folders or GGUF files")
    parser.add_argument("--corpus", default=ROOT / "pocket" / "corpus" / "held-out.txt", help="text (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=600, help="documents (default: %(default)s)")
    parser.add_argument("--dtype", default="bf16", help="what is compared with f32 (default: %(default)s)")
    parser.add_argument("--program", default=ROOT / "target" / "release" / "layerscope", help="default: target/release/layerscope")
    arguments = parser.parse_args()
    for model in arguments.models:
        with tempfile.TemporaryDirectory(prefix="layerscope-dtype-") as scratch:
            runs = [measure(arguments, model, dtype, Path(scratch) / dtype) for dtype in ("f32", arguments.dtype)]
            compare(arguments, model, *runs)


def measure(arguments, model: str, dtype: str, out: Path) -> Path:
    options = ["--model", model, "--corpus", arguments.corpus, "--limit", arguments.limit, "--dtype", dtype, "--out", out]
    subprocess.run([str(part) for part in (arguments.program, "measure", *options)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out


def compare(arguments, model: str, wide: Path, narrow: Path) -> None:
    manifest = json.loads((narrow / "manifest.json").read_text())
    print(f"\n{manifest['model']['name']}, {manifest['corpus']['states']:,} states, computed with {manifest['host']['isa']}\n")
    print(f"| layer | states, rms | largest | {' | '.join(RELATIVE.values())} | mean cosine |")
    print("|---" * (4 + len(RELATIVE)) + "|")
    states, others = kept(wide), kept(narrow)
    values, other_values = (table(arguments.program, run) for run in (wide, narrow))
    for name, reference in states.items():
        rms = np.sqrt(np.mean(np.square(reference, dtype=np.float64)))
        off = np.abs(others[name].astype(np.float64) - reference) / rms
        layer, point = name.removeprefix("layer").split(".")[:2]

        def change(measure: str, relative: bool) -> str:
            a, b = (of.get((layer, point, measure)) for of in (values, other_values))
            return "" if a is None or b is None else f"{(b - a) / a:+.2%}" if relative else f"{b - a:+.4f}"

        label = layer if point == "block" else f"{layer} {point}"
        changes = [change(measure, True) for measure in RELATIVE] + [change("mean_cosine", False)]
        print(f"| {label} | {np.sqrt(np.mean(off**2)):.2%} | {off.max():.0%} | {' | '.join(changes)} |", flush=True)


def kept(run: Path) -> dict[str, np.ndarray]:
    """The sampled states of every point."""
    content = (run / "sample.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    tensors = {name: about for name, about in header.items() if name.endswith(".kept")}
    of = lambda about: np.frombuffer(data[slice(*about["data_offsets"])], np.float32).reshape(about["shape"])  # noqa: E731
    return {name: of(tensors[name]) for name in sorted(tensors, key=lambda name: int(name.removeprefix("layer").split(".")[0]))}


def table(program: Path, run: Path) -> dict[tuple[str, str, str], float]:
    """Values over all groups, by layer, point and name; TwoNN of the sampled states."""
    text = subprocess.run([program, "show", run, "--table", "layers", "--format", "csv"], check=True, stdout=subprocess.PIPE, text=True).stdout
    values = {}
    for row in csv.DictReader(io.StringIO(text)):
        name = {("all", ""): row["measure"], ("sample", "twonn"): "twonn"}.get((row["selection"], row["variant"]))
        if name and row["value"]:
            values[row["layer"], row["point"], name] = float(row["value"])
    return values


if __name__ == "__main__":
    main()
