#!/usr/bin/env python3
"""Q, M and V of every token at every layer, from the reference library's hidden states of all-MiniLM-L6-v2.

    python tools/make_measure_golden.py target/bench/minilm [--check]

Reads the sentences beside the golden file, runs the library on one sentence at a time, and computes the definitions in f64
with numpy: special tokens are read but not counted, groups are token ids. The library's own f32 rounding differs between processors and
numbers of threads (3e-6 was seen), so `--check` compares with the committed file by the tolerance of the test, 1e-5 of q.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from transformers import AutoModel, AutoTokenizer

DATA = Path(__file__).resolve().parent.parent / "crates" / "layerscope" / "tests" / "data" / "minilm"
TOLERANCE = 1e-5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, default=DATA / "golden.parquet", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    model = AutoModel.from_pretrained(arguments.model, dtype=torch.float32, attn_implementation="eager").eval()
    special = set(tokenizer.all_special_ids)

    tokens: list[int] = []
    states: list[np.ndarray] = []
    for sentence in (DATA / "sentences.txt").read_text().splitlines():
        ids = tokenizer(sentence, truncation=False, padding=False)["input_ids"]
        with torch.inference_mode():
            hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        # The tokens that were put around the sentence; a special token within it would count.
        inside = range(1, len(ids) - 1)
        assert ids[0] in special and ids[-1] in special
        tokens += [ids[i] for i in inside]
        states.append(np.stack([layer[0, 1:-1].numpy() for layer in hidden]))
    everything = np.concatenate(states, axis=1).astype(np.float64)

    groups, counts = np.unique(np.array(tokens), return_counts=True)
    order, starts = np.argsort(np.array(tokens), kind="stable"), np.concatenate([[0], np.cumsum(counts)])
    q, m, v = (np.zeros((everything.shape[0], len(groups))) for _ in range(3))
    for g in range(len(groups)):
        rows = everything[:, order[starts[g] : starts[g + 1]]]
        mean = rows.mean(axis=1, keepdims=True)
        q[:, g] = (rows**2).sum(axis=2).mean(axis=1)
        m[:, g] = (mean[:, 0] ** 2).sum(axis=1)
        v[:, g] = ((rows - mean) ** 2).sum(axis=2).mean(axis=1)
    # Rounded to f32, a hundredth of the tolerance: half the size.
    points = everything.shape[0]
    columns = {"layer": np.repeat(np.arange(points), len(groups)), "group_id": np.tile(groups, points), "n": np.tile(counts, points)}
    columns |= {name: values.astype(np.float32).astype(np.float64).ravel() for name, values in (("q", q), ("m", m), ("v", v))}
    if arguments.check:
        return check(columns, pq.read_table(arguments.out))
    pq.write_table(pa.table(columns), arguments.out, compression="zstd", use_byte_stream_split=["q", "m", "v"], use_dictionary=["layer", "group_id", "n"])
    print(f"{len(tokens)} states of {len(groups)} tokens at {everything.shape[0]} points, written to {arguments.out}")
    return 0


def check(columns: dict[str, np.ndarray], committed: pa.Table) -> int:
    stored = {name: committed[name].to_numpy() for name in columns}
    assert all(np.array_equal(columns[name], stored[name]) for name in ("layer", "group_id", "n")), "other tokens"
    worst = max(np.max(np.abs(columns[name] - stored[name]) / stored["q"]) for name in ("q", "m", "v"))
    print(f"{committed.num_rows} groups, largest deviation {worst:.1e} of q, tolerance {TOLERANCE:.0e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
