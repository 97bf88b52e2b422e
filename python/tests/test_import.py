"""Files of states: every format and layout gives the tables of the collector that was fed by hand."""

from __future__ import annotations

import json
import struct
import subprocess
import sys

import layerscope as ls
import numpy as np
import pytest
from conftest import untimed
from test_collector import assert_equal_tables, fed

SETTINGS = {"measures": "all", "frequency": "5:1000"}


def safetensors(path, **arrays):
    """A writer of our own, so that no library is needed."""
    kinds = {"float32": "F32", "float16": "F16", "float64": "F64", "int64": "I64", "int32": "I32", "bf16": "BF16"}
    header, data = {}, b""
    for name, array in arrays.items():
        array, kind = array if isinstance(array, tuple) else (array, kinds[str(array.dtype)])
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += np.ascontiguousarray(array).tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@pytest.mark.parametrize("kind", ["npz", "compressed", "layers", "files", "safetensors", "token-first", "layer-first", "parquet"])
def test_every_layout_is_the_same_run(states, tmp_path, kind):
    layers, groups, documents, positions = states
    who = {"groups": groups, "documents": documents, "positions": positions}
    stacked = np.stack(layers)
    if kind == "npz":
        np.savez(tmp_path / "states.npz", states=stacked, **who)
    elif kind == "compressed":
        np.savez_compressed(tmp_path / "states.npz", states=stacked, **who)
    elif kind == "layers":
        np.savez(tmp_path / "states.npz", **{f"layer_{layer}": x for layer, x in enumerate(layers)}, **who)
    elif kind == "files":
        for layer, x in enumerate(layers):
            np.savez(tmp_path / f"states.layer_{layer}.npz", states=x, **who)
    elif kind == "safetensors":
        safetensors(tmp_path / "states.safetensors", hidden_states=stacked, **who)
    elif kind == "token-first":
        safetensors(tmp_path / "states.safetensors", hidden_states=np.ascontiguousarray(stacked.transpose(1, 0, 2)), **who)
    elif kind == "layer-first":
        np.save(tmp_path / "states.npy", stacked)
        for name, values in who.items():
            np.save(tmp_path / f"who-{name}.npy", values)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        layer = np.repeat(np.arange(3), len(groups))
        table = pyarrow.table(
            {"states": [row.tolist() for x in layers for row in x], "layer": layer, **{name: np.tile(values, 3) for name, values in who.items()}},
            schema=pyarrow.schema(
                [("states", pyarrow.list_(pyarrow.float32())), ("layer", pyarrow.int64())] + [(name, pyarrow.int64()) for name in who]
            ),
        )
        pyarrow.parquet.write_table(table, tmp_path / "states.parquet")
    if kind == "layer-first":
        named = {name: str(tmp_path / f"who-{name}.npy") for name in who}
        run = ls.import_states(tmp_path / "states.npy", **named, **SETTINGS)
    else:
        run = ls.import_states(str(tmp_path / "states.*"), **SETTINGS)
    tolerance = 1e-9
    expected = fed(states).finish()
    if kind == "parquet":  # layers come after each other in one row group, so that pairs are found too
        assert run.value("linear_cka_next", layer=0) == pytest.approx(expected.value("linear_cka_next", layer=0), rel=1e-9)
    assert_equal_tables(run, expected, tolerance)


def test_the_command_is_the_call(states, tmp_path):
    np.savez(tmp_path / "states.npz", states=np.stack(states[0]), groups=states[1], documents=states[2], positions=states[3])
    run = ls.import_states(tmp_path / "states.npz", tmp_path / "call", name="cloud", **SETTINGS)
    words = ["import", str(tmp_path / "states.npz"), "--out", str(tmp_path / "command"), "--quiet", "--measures", "all", "--frequency", "5:1000"]
    done = subprocess.run([sys.executable, "-m", "layerscope", *words, "--name", "cloud"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "call/layers.parquet").read_bytes() == (tmp_path / "command/layers.parquet").read_bytes()
    assert untimed(done.stdout.replace("--frequency 5:1000", 'frequency="5:1000"').replace("--frequency", "frequency")) == untimed(run.summary())


def test_extracted_hidden_states_are_a_document_a_file(tmp_path):
    rng = np.random.default_rng(5)
    collector = ls.Collector(dim=8, measures="all", frequency="1:100", name="states")
    for number, tokens in enumerate([5, 9, 4]):
        ids, x = rng.integers(0, 6, tokens), rng.normal(size=(tokens, 3, 8)).astype(np.float16)
        safetensors(tmp_path / f"{number}.safetensors", token_ids=ids, hidden_states=x if number % 2 else np.ascontiguousarray(x))
        for layer in range(3):
            collector.update(layer, x[:, layer], ids, np.full(tokens, number), np.arange(tokens))
    assert_equal_tables(ls.import_states(tmp_path / "*.safetensors", measures="all", frequency="1:100"), collector.finish(), 1e-12)


def test_batches_are_documents_and_padding_does_not_count(tmp_path):
    rng = np.random.default_rng(7)
    x, ids = rng.normal(size=(3, 4, 6, 8)).astype(np.float32), rng.integers(0, 5, (4, 6))
    mask = np.array([[1] * 6, [1] * 4 + [0] * 2, [1] * 5 + [0], [1] * 6])
    np.savez(tmp_path / "batch.npz", hidden_states=x, input_ids=ids, attention_mask=mask)
    for layer in range(3):
        np.savez(tmp_path / f"layer{layer}.npz", hidden_states=x[layer], input_ids=ids, attention_mask=mask)
    collector = ls.Collector(dim=8, measures="all", frequency="1:100", name="states")
    documents, positions = np.repeat(np.arange(4), 6), np.tile(np.arange(6), 4)
    for layer in range(3):
        collector.update(layer, x[layer].reshape(-1, 8), ids.ravel(), documents, positions, mask=mask.ravel().astype(bool))
    expected = collector.finish()
    for files in ["batch.npz", "layer*.npz"]:
        assert_equal_tables(ls.import_states(str(tmp_path / files), measures="all", frequency="1:100"), expected, 1e-12)


def test_brain_floats(tmp_path):
    x = np.random.default_rng(2).normal(size=(20, 4)).astype(np.float32)
    brain = (x.view(np.uint32) >> 16).astype(np.uint16)
    safetensors(tmp_path / "x.safetensors", states=(brain, "BF16"))
    exact = (brain.astype(np.uint32) << 16).view(np.float32)
    run = ls.import_states(tmp_path / "x.safetensors", measures="norm", layer=3)
    assert run.value("q", layer=3) == pytest.approx((exact.astype(float) ** 2).sum(axis=1).mean(), rel=1e-12)


@pytest.mark.parametrize(
    ("arrays", "options", "line"),
    [
        ({"token_ids": np.arange(5), "hidden_states": np.zeros((5, 5, 4), np.float32)}, {}, "which axis is the token's\\? Say it with axes"),
        ({"token_ids": np.arange(5), "hidden_states": np.zeros((3, 6, 4), np.float32)}, {}, "no axis but the last has 5 tokens"),
        ({"token_ids": np.arange(5), "hidden_states": np.zeros((5, 4), np.int64)}, {}, "whole numbers are no states"),
        ({"token_ids": np.arange(4), "hidden_states": np.zeros((5, 4), np.float32)}, {}, "groups has 4 values for 5 rows"),
        ({"token_ids": np.array([0, -1]), "hidden_states": np.zeros((2, 4), np.float32)}, {}, "row 1 is -1"),
        ({"a": np.zeros((5, 4), np.float32), "b": np.zeros((6, 4), np.float32)}, {}, "which array holds the states\\?"),
        ({"a": np.zeros((5, 4), np.float32)}, {"groups": "b"}, "there is no array `b`; there are a"),
        ({"a": np.full((5, 4), np.nan, np.float32)}, {}, "row 0: the states are not finite"),
        ({"hidden_states": np.zeros((1, 2, 2, 2, 4), np.float32)}, {}, "two, three or four axes"),
        ({"hidden_states": np.zeros((2, 2, 4), np.float32)}, {"axes": "tld"}, "axes `tld` is not understood"),
    ],
)
def test_what_is_not_plain_is_refused(tmp_path, arrays, options, line):
    safetensors(tmp_path / "x.safetensors", **arrays)
    with pytest.raises(ls.UsageError, match=line):
        ls.import_states(tmp_path / "x.safetensors", **options)


def test_damaged_files_are_errors(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((50, 4), np.float32))
    np.savez_compressed(tmp_path / "x.npz", states=np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32))
    safetensors(tmp_path / "x.safetensors", states=np.zeros((50, 4), np.float32))
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"states": [[1.0, 2.0]] * 9}), tmp_path / "x.parquet")
    for path in list(tmp_path.iterdir()):
        whole = path.read_bytes()
        for end in (0, 7, len(whole) // 2, len(whole) - 3):
            path.write_bytes(whole[:end])
            with pytest.raises(ls.Error) as caught:
                ls.import_states(path)
            assert "\n" not in str(caught.value) and not isinstance(caught.value, ls.DefectError), (path, end)
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ls.UsageError, match="give .npy, .npz, .safetensors or .parquet"):
        ls.import_states(tmp_path / "x.txt")


def test_files_of_different_width_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 4), np.float32))
    np.save(tmp_path / "b.npy", np.ones((3, 5), np.float32))
    with pytest.raises(ls.UsageError, match="states of 5 components after states of 4"):
        ls.import_states([tmp_path / "a.npy", tmp_path / "b.npy"])
