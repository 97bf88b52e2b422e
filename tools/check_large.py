#!/usr/bin/env python3
"""Measures a random model of 7 or 13 billion parameters in bfloat16 within a limit of memory, in one pass of the model.

    python tools/check_large.py --shape 7b --max-memory 12 --tokenizer FOLDER

Writes the model (14 or 26 GB), measures about 4,000 tokens of the pocket corpus, and deletes it. Fails if the peak of memory exceeds
the limit or if the run did not go block by block.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent
SHAPES = {
    "tiny": dict(hidden_size=256, intermediate_size=688, num_hidden_layers=4, num_attention_heads=4),
    "7b": dict(hidden_size=4096, intermediate_size=11008, num_hidden_layers=32, num_attention_heads=32),
    "13b": dict(hidden_size=5120, intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40),
}
VOCABULARY = 32_000
#: Random numbers that every tensor takes its own from, cyclically.
POOL = 1 << 24


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--max-memory", type=float, default=12.0, metavar="GIB", help="default: %(default)s")
    parser.add_argument("--tokenizer", type=Path, required=True, help="a folder with a tokenizer of at most 32,000 tokens")
    parser.add_argument("--scratch", type=Path, help="where the model goes (default: the system's folder for temporary files)")
    parser.add_argument("--program", type=Path, default=ROOT / "target" / "release" / "layerscope", help="default: target/release/layerscope")
    parser.add_argument("--sentences", type=int, default=100, help="default: %(default)s")
    parser.add_argument("flags", nargs="*", help="further flags of measure, after --")
    arguments = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="layerscope-large-", dir=arguments.scratch))
    try:
        start = time.monotonic()
        model = write_model(scratch / "model", SHAPES[arguments.shape], arguments.tokenizer)
        print(f"{arguments.shape}: written in {time.monotonic() - start:.0f} s", flush=True)
        return measure(model, scratch / "run", arguments)
    finally:
        shutil.rmtree(scratch)


def measure(model: Path, out: Path, arguments: argparse.Namespace) -> int:
    start = time.monotonic()
    subprocess.run([arguments.program, "inspect", "--model", model], check=True)
    command = [arguments.program, "measure", "--model", model, "--corpus", ROOT / "pocket" / "corpus" / "sample.txt.gz", "--out", out]
    command += ["--limit", str(arguments.sentences), "--max-memory", f"{arguments.max_memory}G", *arguments.flags]
    subprocess.run([str(part) for part in command], check=True)
    manifest = json.loads((out / "manifest.json").read_text())
    peak = manifest["peak_memory_bytes"] / 2**30
    tokens = manifest["corpus"]["tokens"]
    print(f"{arguments.shape}: {tokens} tokens, peak {peak:.2f} GiB of {arguments.max_memory} GiB, {time.monotonic() - start:.0f} s")
    if peak > arguments.max_memory:
        print("check_large: the peak exceeds the limit", file=sys.stderr)
        return 1
    return 0


def write_model(folder: Path, shape: dict[str, int], tokenizer: Path) -> Path:
    """Weights of the spread that the library begins with; norms are one."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, folder / name)
    config = dict(model_type="llama", architectures=["LlamaModel"], hidden_act="silu", rms_norm_eps=1e-5, rope_theta=10000.0, vocab_size=VOCABULARY)
    config |= dict(max_position_embeddings=2048, tie_word_embeddings=False, attention_bias=False, num_key_value_heads=shape["num_attention_heads"])
    (folder / "config.json").write_text(json.dumps(config | shape, indent=1))
    normal = numpy.random.default_rng(0).standard_normal(POOL, dtype=numpy.float32) * 0.02
    pool = (normal.view(numpy.uint32) >> 16).astype(numpy.uint16)
    width, hidden = shape["hidden_size"], shape["intermediate_size"]
    files = [{"embed_tokens.weight": (VOCABULARY, width), "norm.weight": (width,)}]
    for layer in range(shape["num_hidden_layers"]):
        block = {f"self_attn.{name}_proj.weight": (width, width) for name in "qkvo"}
        block |= {f"mlp.{name}_proj.weight": (hidden, width) for name in ("gate", "up")} | {"mlp.down_proj.weight": (width, hidden)}
        block |= {f"{name}_layernorm.weight": (width,) for name in ("input", "post_attention")}
        files.append({f"layers.{layer}.{name}": size for name, size in block.items()})
    index = {}
    for number, tensors in enumerate(files):
        name = f"model-{number:05}-of-{len(files):05}.safetensors"
        write_safetensors(folder / name, tensors, pool, number)
        index |= {tensor: name for tensor in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return folder


def write_safetensors(path: Path, tensors: dict[str, tuple[int, ...]], pool: numpy.ndarray, seed: int) -> None:
    header, end = {}, 0
    for name, size in tensors.items():
        start, end = end, end + 2 * int(numpy.prod(size))
        header[name] = {"dtype": "BF16", "shape": list(size), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for number, size in enumerate(tensors.values()):
            write_numbers(out, int(numpy.prod(size)), len(size) == 1, pool, seed * 31 + number)


def write_numbers(out, count: int, norm: bool, pool: numpy.ndarray, seed: int) -> None:
    if norm:
        out.write(numpy.full(count, 0x3F80, dtype=numpy.uint16).tobytes())
        return
    at = seed * 7919 % POOL
    while count:
        piece = pool[at : at + count]
        out.write(piece.tobytes())
        count -= len(piece)
        at = 0


if __name__ == "__main__":
    sys.exit(main())
