"""The collector against the definitions, and against itself in pieces."""

from __future__ import annotations

import array
import multiprocessing
import pickle
import threading

import layerscope as ls
import numpy as np
import oracle
import pytest

TOLERANCE = 1e-9


def fed(states, rows=slice(None), **settings):
    layers, groups, documents, positions = states
    collector = ls.Collector(dim=12, **{"measures": "all", "frequency": "5:1000", **settings})
    for layer, x in enumerate(layers):
        collector.update(layer, x[rows], groups[rows], documents[rows], positions[rows])
    return collector


def tables(run):
    return {name: getattr(run, name).to_dict() for name in ("layers", "groups", "components", "spectra")}


def assert_equal_tables(one, other, tolerance=0.0):
    one, other = tables(one), tables(other)
    for name, columns in one.items():
        for column, values in columns.items():
            theirs = other[name][column]
            assert len(values) == len(theirs), (name, column)
            for row, (a, b) in enumerate(zip(values, theirs)):
                if isinstance(a, float) and isinstance(b, float):
                    scale = max(1.0, abs(a))
                    assert abs(a - b) <= tolerance * scale, (name, column, row, a, b, one[name].get("measure", [""] * len(values))[row])
                else:
                    assert a == b, (name, column, row)


def test_every_measure_equals_its_definition(states):
    layers, groups, documents, positions = states
    run = fed(states).finish()
    for layer, x in enumerate(layers):
        expected = oracle.moments(x) | oracle.partition_of_variance(x, groups)
        for name, value in expected.items():
            assert abs(run.value(name, layer=layer, selection="all") - value) <= TOLERANCE * expected["q"], (name, layer)
        assert abs(run.value("mean_cosine", layer=layer, selection="all") - oracle.mean_cosine(x)) <= TOLERANCE
        similarity = oracle.intra_sentence_similarity(x, documents)
        assert abs(run.value("intra_sentence_similarity", layer=layer) - similarity) <= TOLERANCE
        spectrum = oracle.spectrum(x)
        assert abs(run.value("anisotropy_svd", layer=layer, variant="corpus") - spectrum.pop("anisotropy_svd")) <= TOLERANCE
        for name, value in spectrum.items():
            assert abs(run.value(name, layer=layer) - value) <= TOLERANCE * abs(value), (name, layer)
        dimension = run.value("intrinsic_dimension", layer=layer, selection="sample", variant="twonn")
        assert abs(dimension - oracle.twonn(x)) <= 1e-7 * dimension
        assert abs(run.value("curvature", layer=layer) - oracle.curvature(x, documents)) <= 1e-7
    for layer in range(2):
        expected = oracle.linear_cka(layers[layer], layers[layer + 1])
        assert abs(run.value("linear_cka_next", layer=layer) - expected) <= TOLERANCE
    assert run.value("linear_cka_next", layer=2) is None
    assert max(row["residual"] for row in run.manifest["identities"]) < 1e-12


def test_groups_equal_their_definitions(states):
    layers, groups, *_ = states
    run = fed(states).finish(names={0: "zero"})
    for row in run.groups:
        x = layers[row["layer"]][groups == row["group_id"]]
        expected = oracle.moments(x)
        assert row["n"] == len(x)
        for name in ("q", "m", "v", "mean_norm"):
            assert abs(row[name] - expected[name]) <= TOLERANCE * expected["q"]
        cosine = oracle.mean_cosine(x)
        assert (row["self_similarity"] is None) == (cosine is None)
        assert cosine is None or abs(row["self_similarity"] - cosine) <= TOLERANCE
        assert row["group"] == ("zero" if row["group_id"] == 0 else str(row["group_id"]))


def test_pieces_merge_to_the_whole(states):
    documents = states[2]
    whole = fed(states).finish()
    parts = [fed(states, documents % 3 == part) for part in range(3)]
    assert_equal_tables(parts[0].merge(parts[1]).merge(parts[2]).finish(), whole, TOLERANCE)


def _feed_a_part(arguments):
    states, part = arguments
    return fed(states, states[2] % 4 == part)


def test_four_processes_equal_one(states):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        parts = pool.map(_feed_a_part, [(states, part) for part in range(4)])
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part)
    assert_equal_tables(merged.finish(), fed(states).finish(), TOLERANCE)


def test_saved_and_pickled_collectors_are_the_same(states, tmp_path):
    collector = fed(states, tokens=[1, 2])
    collector.save(tmp_path / "collector.safetensors")
    expected = collector.finish()
    assert expected.tokens is not None and set(expected.tokens["group"]) == {"1", "2"}
    assert_equal_tables(ls.Collector.load(tmp_path / "collector.safetensors").finish(), expected)
    again = pickle.loads(pickle.dumps(collector))
    assert_equal_tables(again.finish(), expected)
    bytes_ = bytearray((tmp_path / "collector.safetensors").read_bytes())
    bytes_[-5] ^= 1
    (tmp_path / "damaged").write_bytes(bytes_)
    with pytest.raises(ls.FileError, match="checksum"):
        ls.Collector.load(tmp_path / "damaged")


def test_threads_may_share_a_collector(states):
    layers, groups, documents, positions = states
    collector = ls.Collector(dim=12, measures="all", frequency="5:1000")

    def feed(part):
        for document in range(part, 60, 4):
            rows = documents == document
            for layer, x in enumerate(layers):
                collector.update(layer, x[rows], groups[rows], documents[rows], positions[rows])

    threads = [threading.Thread(target=feed, args=(part,)) for part in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert_equal_tables(collector.finish(), fed(states).finish(), TOLERANCE)


def test_every_kind_of_array_is_the_same_array(states):
    x = states[0][1]

    def of(given, **more):
        collector = ls.Collector(dim=12, measures="norm")
        collector.update(1, given, **more)
        return collector.finish().layers.to_dict()

    expected = of(x)
    read_only = x.copy()
    read_only.flags.writeable = False
    wide = np.zeros((len(x), 30), np.float32)
    wide[:, 5:29:2] = x

    class WithArray:
        def __array__(self, dtype=None, copy=None):
            return x

    class WithDlpack:
        def __dlpack__(self, **options):
            return np.array(x).__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    strided = [x[::-1][::-1], np.asfortranarray(x), wide[:, 5:29:2], x.reshape(1, -1, 12), np.lib.stride_tricks.as_strided(x, x.shape, x.strides)]
    same = [read_only, x.astype(np.float64), memoryview(x), WithArray(), WithDlpack(), np.ma.masked_array(x)]
    for given in strided + same:
        assert of(given) == expected, type(given)
    assert of(x[::2]) == of(x[::2].copy())
    half = x.astype(np.float16)
    assert of(half) == of(half.astype(np.float32))
    flat = array.array("f", x[0].tolist())
    assert of(memoryview(flat).cast("B").cast("f", (1, 12)))["value"][0] == pytest.approx((x[0].astype(float) ** 2).sum(), rel=1e-12)
    for kind in (np.int8, np.uint16, np.int32, np.uint64):
        assert of(x, groups=states[1].astype(kind)) == of(x, groups=states[1])
    assert of(x, groups=states[1].tolist()) == of(x, groups=states[1])
    texts = [f"t{group:02}" for group in states[1]]
    assert of(x, groups=texts) == of(x, groups=np.array(texts))


def test_masked_rows_do_not_count(states):
    layers, groups, documents, positions = states
    kept = groups != 3
    collector = ls.Collector(dim=12, measures="all", frequency="5:1000")
    for layer, x in enumerate(layers):
        x = x.copy()
        x[~kept] = np.nan
        collector.update(layer, x, groups, documents, positions, mask=kept)
    assert_equal_tables(collector.finish(), fed(states, kept).finish(), TOLERANCE)


def test_without_documents_the_sample_is_missing(states):
    collector = ls.Collector(dim=12, measures="all")
    collector.update(0, states[0][0], states[1])
    run = collector.finish()
    assert run.value("intra_sentence_similarity", layer=0) is None
    assert run.value("curvature", layer=0) is None
    with pytest.raises(ls.UsageError, match="no measure `intrinsic_dimension`"):
        run.value("intrinsic_dimension", layer=0, selection="sample", variant="twonn")
    assert run.value("anisotropy_svd", layer=0, variant="corpus") == pytest.approx(oracle.spectrum(states[0][0])["anisotropy_svd"], rel=1e-9)


def test_the_large_mean_of_one_component_costs_no_digits():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(500, 16)).astype(np.float32)
    x[:, 0] += 3000
    collector = ls.Collector(dim=16, measures="norm")
    for part in np.array_split(x, 7):
        collector.update(0, part)
    expected = oracle.moments(x)
    assert collector.finish().value("v", layer=0) == pytest.approx(expected["v"], rel=1e-10)


@pytest.mark.parametrize(
    ("update", "line"),
    [
        ({"states": np.zeros((3, 5), np.float32)}, r"states are float32 \[3, 5\]; the last axis must have 4 components"),
        ({"states": np.zeros((3, 4), np.int64)}, r"states are int64 \[3, 4\]; give float16, bfloat16, float32 or float64"),
        ({"states": "text"}, "states are of type str"),
        ({"states": None}, "states are of type NoneType"),
        ({"groups": [1, 2]}, "groups has 2 values for 3 rows"),
        ({"groups": [1, -100, 2]}, "groups, row 1: -100 is no id"),
        ({"groups": [1.5, 2, 3]}, "groups are neither whole numbers nor texts"),
        ({"groups": np.zeros(3)}, r"groups are float64 \[3\]"),
        ({"positions": [0, 1, 2]}, "give documents too"),
        ({"documents": [0, 0]}, "documents has 2 values"),
        ({"mask": [True]}, "mask has 1 values"),
        ({"point": "middle"}, "point `middle` is not understood"),
        ({"states": np.array([[0, 0, 0, 0], [0, np.nan, 0, 0]], np.float32)}, "layer 2, row 1: the states are not finite"),
        ({"states": np.full((1, 4), np.inf, np.float16)}, "layer 2, row 0: the states are not finite"),
    ],
)
def test_bad_updates_are_refused_and_change_nothing(update, line):
    collector = ls.Collector(dim=4)
    collector.update(1, np.ones((2, 4), np.float32), groups=[5, 6])
    before = pickle.dumps(collector)
    arguments = {"states": np.ones((3, 4), np.float32), "groups": [1, 1, 2][: 3 if "states" not in update else None]} | update
    if isinstance(arguments["states"], np.ndarray) and "groups" not in update:
        arguments["groups"] = [5] * len(arguments["states"])
    with pytest.raises(ls.UsageError, match=line) as caught:
        collector.update(2, **arguments)
    assert isinstance(caught.value, ls.Error) and "\n" not in str(caught.value)
    assert pickle.dumps(collector) == before


def test_rows_that_are_not_finite_can_be_left_out():
    collector = ls.Collector(dim=2, measures="norm", on_error="skip")
    collector.update(0, np.array([[1, 2], [np.nan, 0], [3, 4]], np.float32))
    run = collector.finish()
    assert run.value("states", layer=0) == 2
    assert "1 state was not finite and left out" in run.warnings


def test_the_massive_norm_of_a_point_is_its_own():
    collector = ls.Collector(dim=1, measures="norm", massive_norm={(0, "embedding"): 5, (1, "block"): 50})
    for layer in range(3):
        collector.update(layer, np.array([[1], [10], [100]], np.float32), documents=[0, 1, 2], positions=[0, 0, 0])
    run = pickle.loads(pickle.dumps(collector)).finish()
    assert [run.value("states", layer=layer, selection="typical") for layer in range(3)] == [1, 2, 3]
    with pytest.raises(ls.UsageError, match="massive_norm is a norm above 0"):
        ls.Collector(dim=1, massive_norm={(0, "embedding"): 0})


def test_strangers_are_not_merged():
    one, other = ls.Collector(dim=4, seed=1), ls.Collector(dim=4, seed=2)
    with pytest.raises(ls.RefusedError, match="seed is 2 there and 1 here"):
        one.merge(other)
    with pytest.raises(ls.UsageError, match="itself"):
        one.merge(one)
    with pytest.raises(ls.UsageError, match="no states yet"):
        one.finish()
    with pytest.raises(ls.UsageError, match="measures `norms` is neither a measure nor a family .did you mean `norm`"):
        ls.Collector(dim=4, measures="norms")
    with pytest.raises(ls.UsageError, match="at least 1"):
        ls.Collector(dim=0)
    with pytest.raises(ls.FileError):
        ls.Collector.load("nowhere")


def test_a_finished_run_is_kept_unless_it_may_be_replaced(states, tmp_path):
    collector = fed(states, measures="norm")
    collector.finish(tmp_path / "run")
    with pytest.raises(ls.RefusedError, match="holds a run already"):
        collector.finish(tmp_path / "run")
    assert collector.finish(tmp_path / "run", overwrite=True).layers["value"] == ls.load(tmp_path / "run").layers["value"]
