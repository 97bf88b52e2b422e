"""The reference library's tiny checkpoints, with a tokenizer that gives back the ids of their golden states."""

from __future__ import annotations

import json
import struct

import numpy as np
from conftest import ROOT


def tensors(path):
    """All tensors of a safetensors file of F32, I32 and I64."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    kinds = {"F32": np.float32, "I32": np.int32, "I64": np.int64}
    return {
        name: np.frombuffer(data[slice(*about["data_offsets"])], kinds[about["dtype"]]).reshape(about["shape"])
        for name, about in header.items()
        if name != "__metadata__"
    }


def prepared(name, folder):
    """A copy of the fixture with a tokenizer of whole words, one an id; the texts of the golden states, and the golden states."""
    source = ROOT / "fixtures" / name
    folder.mkdir()
    for file in ("config.json", "model.safetensors"):
        (folder / file).write_bytes((source / file).read_bytes())
    words = json.loads((source / "config.json").read_text())["vocab_size"]
    model = {"type": "WordLevel", "vocab": {f"w{word}": word for word in range(words)}, "unk_token": "w0"}
    parts = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor", "decoder"))
    tokenizer = {"version": "1.0", "added_tokens": [], **parts, "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    golden = tensors(source / "golden.safetensors")
    sequences = sorted(int(name.removeprefix("ids.")) for name in golden if name.startswith("ids."))
    texts = [" ".join(f"w{word}" for word in golden[f"ids.{number}"]) for number in sequences]
    (folder / "texts.txt").write_text("\n".join(texts) + "\n")
    return texts, golden


def assert_agree(run, other, tolerance=1e-5):
    """Norms and variances of all states and of every group, to a part of the layer's mean squared norm; ratios and cosines as they are."""
    scale = {(row["layer"], row["point"]): row["value"] for row in run.layers if row["measure"] == "q" and row["selection"] == "all"}
    key = lambda row: tuple(row[column] for column in ("layer", "point", "selection", "measure", "variant"))
    theirs = {key(row): row for row in other.layers}
    sizes, ratios = ("q", "m", "v", "v_within", "v_between"), ("mean_cosine", "self_similarity", "m_over_q", "v_within_over_q", "isoscore")
    compared = set()
    for row in run.layers:
        if row["measure"] not in sizes + ratios or row["selection"] not in ("all", "selected"):
            continue
        match = theirs[key(row)]
        assert match["n"] == row["n"], row
        assert (row["value"] is None) == (match["value"] is None), row
        allowed = tolerance * (scale[row["layer"], row["point"]] if row["measure"] in sizes else 1)
        assert row["value"] is None or abs(row["value"] - match["value"]) <= allowed, (row, match)
        compared.add((row["layer"], row["point"], row["measure"]))
    measures = {measure for _, _, measure in compared}
    assert {"q", "m", "v", "mean_cosine"} <= measures and len(compared) == len(scale) * len(measures)
    group = lambda row: (row["layer"], row["point"], row["group_id"])
    theirs = {group(row): row for row in other.groups}
    assert len(theirs) == len(run.groups)
    for row in run.groups:
        match = theirs[group(row)]
        assert match["n"] == row["n"]
        for name in ("q", "m", "v"):
            assert abs(row[name] - match[name]) <= tolerance * scale[row["layer"], row["point"]], (row, match)
