"""The same measurement by call and by command, and what can be done with it."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import layerscope as ls
import pytest
from conftest import HELD_OUT, untimed

SETTINGS = {"limit": 80, "frequency": "3:1000", "measures": "all", "sample_states": 300}


def command(*words, **options):
    return subprocess.run([sys.executable, "-m", "layerscope", *words], capture_output=True, text=True, timeout=600, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return ls.measure("pocket-bert", HELD_OUT, tmp_path_factory.mktemp("runs") / "bert", progress=False, **SETTINGS)


def test_a_damaged_table_is_an_error_that_names_it(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "run")
    for name in ("layers", "massive", "token_components"):
        table = tmp_path / "run" / f"{name}.parquet"
        if not table.exists():
            continue
        whole = table.read_bytes()
        damaged = bytearray(whole)
        damaged[len(whole) // 2] ^= 1
        table.write_bytes(damaged)
        with pytest.raises(ls.FileError, match=rf"{name}\.parquet: damaged, or of another run"):
            ls.load(tmp_path / "run")
        table.write_bytes(whole)
    assert ls.load(tmp_path / "run").layers.to_dict() == run.layers.to_dict()


def test_a_pruned_run_has_its_tables(run, tmp_path):
    shutil.copytree(run.folder, tmp_path / "pruned")
    pruned = ls.load(tmp_path / "pruned")
    assert pruned.prune("merge") == "nothing to free"
    assert pruned.prune("tables").startswith("freed ") and pruned.manifest["pruned"] == "tables"
    assert ls.load(tmp_path / "pruned").layers.to_dict() == run.layers.to_dict()
    assert not (tmp_path / "pruned/sample.safetensors").exists()
    with pytest.raises(ls.RefusedError, match="its states were pruned"):
        ls.compare([pruned, run], frequency="3:9")
    with pytest.raises(ls.UsageError, match="keep `some` is not understood; give tables, merge or all"):
        pruned.prune("some")


def test_call_and_command_give_identical_tables(run, tmp_path):
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    done = command("measure", "--model", "pocket-bert", "--corpus", HELD_OUT, "--out", str(tmp_path / "run"), "--quiet", *flags)
    assert done.returncode == 0, done.stderr
    for name in ("layers", "groups", "components", "spectra", "tokens", "norms"):
        ours, theirs = (run.folder / f"{name}.parquet", tmp_path / "run" / f"{name}.parquet")
        assert ours.read_bytes() == theirs.read_bytes(), name
    assert untimed(done.stdout) == untimed(run.summary())
    assert set(run.manifest["timings"]) == {"read", "tokenize", "load", "pilot", "forward", "sketches", "tables", "write"}
    manifest = ls.load(tmp_path / "run").manifest
    assert manifest["command"][:3] == ["layerscope", "measure", "--model"]
    assert run.manifest["command"][0] == "layerscope.measure" and "limit=80" in run.manifest["command"]


def test_the_script_is_the_program(tmp_path):
    script = Path(sys.executable).with_name("layerscope")
    help_ = subprocess.run([script, "--help"], capture_output=True, text=True)
    assert help_.returncode == 0 and "measure" in help_.stdout
    assert subprocess.run([script, "measure", "--model", "x"], capture_output=True).returncode == 2
    wrong = subprocess.run([script, "weights", "--model", str(tmp_path)], capture_output=True, text=True)
    assert wrong.returncode == 3 and wrong.stderr.startswith("layerscope: ")


def test_tables_are_arrow_to_everybody(run):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    import pyarrow.parquet

    for name in ("layers", "groups", "components", "spectra", "tokens", "norms"):
        table = getattr(run, name)
        stored = pyarrow.parquet.read_table(run.folder / f"{name}.parquet")
        arrow = table.to_pyarrow()
        assert arrow.to_pydict() == stored.to_pydict(), name
        assert arrow.schema.names == table.column_names
        frame, pandas_frame = table.to_polars(), table.to_pandas()
        assert frame.equals(polars.from_arrow(stored)) and len(table) == len(pandas_frame) == stored.num_rows
        assert pandas_frame.columns.tolist() == table.column_names
        for column, values in stored.to_pydict().items():
            shown = [None if pandas.isna(value) else value for value in pandas_frame[column].tolist()]
            assert shown == values, (name, column)
    assert pyarrow.table(run.layers).slice(0, 0).num_rows == 0
    assert run.layers.to_text("csv").splitlines()[0] == ",".join(run.layers.column_names)
    assert next(iter(run.layers))["measure"] == "q"


@pytest.mark.parametrize(
    ("call", "given", "near"),
    [
        (ls.figures, "thme", "theme"),
        (ls.report, "titel", "title"),
        (ls.compare, "measure", "measures"),
        (ls.merge, "overwrites", "overwrite"),
        (ls.weights, "revison", "revision"),
        (ls.import_states, "masive_norm", "massive_norm"),
        (ls.import_states, "layer_from", "layers_from"),
        (ls.trace, "batchsize", "batch_size"),
        (ls.trace, "frequncy", "frequency"),
        (ls.hook, "takeinput", "take_input"),
        (ls.callback, "evry", "every"),
        (ls.Probe, "specal", "specials"),
        (ls.Collector, "measurs", "measures"),
        (ls.Collector.update, "group", "groups"),
        (ls.Collector.finish, "nmes", "names"),
        (ls.Run.value, "layr", "layer"),
        (ls.Run.curve, "varaint", "variant"),
        (ls.Run.figures, "onyl", "only"),
        (ls.Run.report, "frequncy", "frequency"),
        (ls.Run.summary, "state", "states"),
        (ls.Run.prune, "kep", "keep"),
    ],
)
def test_an_unknown_keyword_names_the_nearest_one(call, given, near):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{given}' \(did you mean `{near}`\?\)"):
        call(**{given: 1})


def test_a_run_draws_itself(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = run.figures("figures", only="fig2,fig5", theme="print")
    assert {file.suffix for file in files} >= {".svg", ".pdf", ".png", ".csv"} and all(file.exists() for file in files)
    page = run.report(tmp_path / "report.html", title="A title")
    assert "A title" in page.read_text()
    assert ls.report([run, run.folder], tmp_path / "two.html").stat().st_size > page.stat().st_size
    assert run.report(tmp_path / "some.html", only=["tokens", "layers"]).stat().st_size < page.stat().st_size
    with pytest.raises(ls.UsageError, match="only `token` is not understood .did you mean `tokens`"):
        run.report(tmp_path / "some.html", only="token")
    shown = run._repr_html_()
    assert shown.startswith("<pre>pocket-bert (bert), 6 layers of width 128") and "<svg" in shown
    assert run.layers._repr_html_().count("<tr>") == 11
    assert repr(run) == run.summary()
    assert pickle.loads(pickle.dumps(run)).layers["value"] == run.layers["value"]
    with pytest.raises(ls.UsageError, match="only `fig999`"):
        run.figures(tmp_path, only=["fig999"])
    with pytest.raises(ls.UsageError):
        run.figures(tmp_path, width_mm="acl")
    assert run.figures(tmp_path / "all", only="fig4", states="all")
    with pytest.raises(ls.UsageError, match="states `none`"):
        run.figures(tmp_path, states="none")


def test_values_are_found(run):
    assert run.value("q", layer=0, selection="all") == run.layers["value"][0]
    assert run.value("anisotropy_svd", layer=2) == run.value("anisotropy_svd", layer=2, variant="corpus", selection="all") <= 1
    assert run.value("intrinsic_dimension", layer=2) == run.value("intrinsic_dimension", layer=2, variant="twonn", selection="sample")
    assert run.value("q", layer=2, states="typical") == run.value("q", layer=2, selection="typical_selected")
    for wrong, said in [
        ({"measure": "mean_cosin"}, r"this run has no measure `mean_cosin` \(did you mean `mean_cosine`\?\); it has q, m, v,"),
        ({"layer": 9}, "q has no layer 9; it has 0, 1, 2, 3, 4, 5, 6"),
        ({"layer": None}, "q needs a layer; it has 0, 1,"),
        ({"variant": "corpus"}, "q has no variant corpus; it has none"),
        ({"selection": "selectd"}, r"q has no selection selectd \(did you mean `selected`\?\); it has all, selected, typical"),
        ({"states": "some"}, "states `some` is not understood; give typical or all"),
    ]:
        with pytest.raises(ls.UsageError, match=said):
            run.value(**{"measure": "q", "layer": 2, **wrong})
    curve = run.curve("mean_cosine")
    layers, values = curve
    assert (layers, curve.selection, curve.variant, curve.points[0]) == (list(range(7)), "selected", None, "embedding")
    assert values == [run.value("mean_cosine", layer=layer) for layer in layers] and "mean_cosine, selected: 0: 0." in repr(curve)


def test_the_same_question_has_the_same_answer_everywhere(run, tmp_path):
    """By call, printed, in a comparison and in the numbers of a figure."""
    other = ls.measure("pocket-gpt", HELD_OUT, tmp_path / "gpt", quiet=True, **SETTINGS)
    lines = {int(found[1]): found[2].split() for found in re.finditer(r"^(\d)(?: emb)? +(.+)$", str(run), re.MULTILINE)}
    rows = [row for row in ls.compare([other, run]).table if row["run"] == "pocket-bert"]
    for place, name in enumerate(["q", "m_over_q", "v_within_over_q", "v_between_over_q", "cv_q", "slope_v_on_m", "r2_v_on_m"]):
        curve = run.curve(name)
        for layer, value in zip(*curve):
            assert value == run.value(name, layer=layer) and float(lines[layer][place]) == pytest.approx(value, rel=1e-3, abs=1e-4), name
        found = {row["layer"]: row["value"] for row in rows if (row["measure"], row["selection"], row["variant"]) == (name, curve.selection, None)}
        assert list(found.values()) == curve.values, name
    for figure, names in {"fig5": ["m_over_q", "v_between_over_q"], "fig4": ["slope_v_on_m", "cv_q"], "ethayarajh1": ["mean_cosine"]}.items():
        (file,) = [file for file in run.figures(tmp_path / "figures", only=figure) if file.suffix == ".csv"]
        header, *cells = [line.split(",") for line in file.read_text().splitlines()]
        drawn = [dict(zip(header, row)) for row in cells]
        for name in names:
            values = [float(row["value"]) for row in drawn if row["measure"] == name]
            assert values == run.curve(name).values, (figure, name)


def test_texts_are_a_corpus(tmp_path):
    pandas = pytest.importorskip("pandas")
    texts = ["The cat sat on the mat.", "Two lines\nare one document.", "The dog ran."]
    out = tmp_path / "run"
    one = ls.measure("pocket-bert", texts=texts, out=out, measures="norm", quiet=True)
    assert one.manifest["corpus"]["documents"] == 3 and "texts='3 texts'" in one.manifest["command"]
    column = pandas.DataFrame({"text": texts})["text"]
    for other in (ls.measure("pocket-bert", column, measures="norm"), ls.measure("pocket-bert", texts=iter(texts), measures="norm")):
        assert other.layers.to_dict() == one.layers.to_dict()
    left = [file for file in Path(tempfile.gettempdir()).glob("layerscope-texts-*") if "Two lines" in file.read_text()]
    assert left == []
    for wrong, said in [
        ({}, "give either corpus"),
        ({"corpus": "a.txt", "texts": texts}, "give either corpus"),
        ({"texts": "one"}, "texts is one string"),
        ({"texts": ["a", None]}, "texts contain NoneType at place 1; give strings"),
        ({"texts": pandas.DataFrame({"text": texts})}, r"a DataFrame is no list of texts; give one of its columns, such as frame\['text'\]"),
        ({"corpus": pandas.DataFrame({"text": texts})}, "a DataFrame is no list of texts"),
        ({"texts": {"text": texts}}, "a dict is no list of texts"),
        ({"text": texts}, r"there is no setting `text` \(did you mean `texts`\?\)"),
        ({"texts": texts, "qiet": True}, r"there is no setting `qiet` \(did you mean `quiet`\?\)"),
        ({"modle": "pocket-bert", "texts": texts}, r"there is no setting `modle` \(did you mean `model`\?\)"),
        ({"texts": texts, "limits": 3}, r"there is no setting `limits` \(did you mean `limit`\?\)"),
        ({"texts": texts, "measures": "mean_cosin"}, r"measures `mean_cosin` is neither a measure nor a family \(did you mean `mean_cosine`\?\)"),
    ]:
        with pytest.raises(ls.UsageError, match=said):
            ls.measure("pocket-bert", **wrong)


def test_states_are_chosen_by_name(run):
    done = command("show", str(run.folder), "--states", "all")
    assert done.returncode == 0 and done.stdout.strip() == run.summary(states="all").strip()
    with pytest.raises(ls.UsageError, match="states `some` is not understood; give typical or all"):
        run.summary(states="some")


@pytest.mark.parametrize(
    ("arguments", "error", "line"),
    [
        ({"model": "no/such/folder"}, ls.Error, "no/such/folder"),
        ({"corpus": "no-such-file.txt"}, ls.CorpusError, "no-such-file.txt"),
        ({"max_word": 3}, ls.UsageError, r"there is no setting `max_word` \(did you mean `max_words`\?\); there are model, corpus, out, texts"),
        ({"max_words": "many"}, ls.UsageError, "max_words `many` is not understood"),
        ({"preset": "papers"}, ls.UsageError, r"preset `papers` is not understood \(did you mean `paper`\?\); give paper"),
        ({"layers": [99]}, ls.UsageError, "layers=99 does not exist"),
        ({"max_memory": "1M"}, ls.RefusedError, "max_memory"),
        ({"frequency": object()}, ls.UsageError, "frequency `<object object"),
    ],
)
def test_bad_requests_are_one_line(arguments, error, line, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(error, match=line) as caught:
        ls.measure(**({"model": "pocket-gpt", "corpus": HELD_OUT, "limit": 5, "progress": False} | arguments))
    assert isinstance(caught.value, ls.Error) and "\n" not in str(caught.value)


def test_every_setting_is_explained():
    """The names that the program knows, from the line that lists them, each with a line in the help."""
    with pytest.raises(ls.UsageError) as caught:
        ls.measure("pocket-gpt", HELD_OUT, no_such_setting=1)
    names = str(caught.value).split("there are ")[1].split(", ")
    assert len(names) > 35
    help_ = inspect.getdoc(ls.measure).splitlines()
    for name in names:
        own = [line for line in help_ if re.match(rf"\s*(\w+, )*{name}(, \w+)*( |$)", line)]
        assert own, f"{name} is not in help(layerscope.measure)"
    assert all(len(line) < 145 for line in help_), "lines that a terminal can show"


def test_progress_can_be_heard():
    events = []
    ls.measure("pocket-gpt", HELD_OUT, limit=30, measures="norm", preset="ethayarajh", progress=events.append)
    assert any(event["event"] == "note" and "preset ethayarajh" in event["text"] for event in events)

    def fail(event):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        ls.measure("pocket-gpt", HELD_OUT, limit=30, progress=fail)


def test_shards_merge_and_strangers_do_not(tmp_path):
    settings = {"limit": 60, "measures": "norm", "progress": False}
    shards = [ls.measure("pocket-gpt", HELD_OUT, tmp_path / str(i), shard=f"{i}/2", **settings) for i in range(2)]
    whole = ls.measure("pocket-gpt", HELD_OUT, **settings)
    merged = ls.merge(shards, tmp_path / "whole")
    for ours, theirs in zip(merged.layers, whole.layers):
        assert {**ours, "value": 0, "se": 0} == {**theirs, "value": 0, "se": 0}
        assert (ours["value"] is None) == (theirs["value"] is None)
        assert ours["value"] is None or ours["value"] == pytest.approx(theirs["value"], rel=1e-9, abs=1e-9)
    with pytest.raises(ls.RefusedError, match="shard 1 of 2 is missing"):
        ls.merge(shards[:1])
    with pytest.raises(ls.RefusedError, match="holds a run already"):
        ls.merge(shards, tmp_path / "whole")


def test_weights_need_no_corpus(tmp_path):
    run = ls.weights("pocket-gpt", out=tmp_path / "weights")
    assert set(run.layers["point"]) == {"input_embedding", "output_embedding"}
    assert run.groups is None and len(run.norms) > 0
    assert run.manifest["command"][0] == "layerscope.weights"


INTERRUPTED = """
import sys, layerscope as ls
try:
    ls.measure({model!r}, {corpus!r}, {out!r}, progress=True, threads=1, measures="all", batch_tokens=128)
except ls.Interrupted as stopped:
    assert isinstance(stopped, KeyboardInterrupt) and stopped.out == {out!r}
    print("interrupted:", stopped)
"""


@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_saves_and_the_same_call_goes_on(tmp_path, twice):
    out = str(tmp_path / "run")
    script = INTERRUPTED.format(model="pocket-bert", corpus=str(Path("pocket/corpus/sample.txt.gz").absolute()), out=out)
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seen = ""

    def read_until(word):
        nonlocal seen
        while word not in seen:
            text = os.read(process.stderr.fileno(), 1000).decode(errors="replace")
            assert text, f"it ended too early: {seen[-500:]} {process.stdout.read()}"
            seen += text

    read_until("measuring")  # a bar, as on a terminal, because progress=True
    process.send_signal(signal.SIGINT)
    read_until("stopping")
    if twice:
        process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    if not twice or process.returncode == 0:
        assert process.returncode == 0, stderr
        assert stdout.startswith("interrupted: interrupted after batch")
    else:
        assert "KeyboardInterrupt" in stderr
    assert not (tmp_path / "run" / "manifest.json").exists()
    if not twice:
        settings = {"limit": 60, "measures": "norm", "progress": False, "batch_tokens": 128}
        with pytest.raises(ls.RefusedError, match="limit"):
            ls.measure("pocket-bert", "pocket/corpus/sample.txt.gz", out, **settings)


def test_an_interrupted_run_ends_as_if_it_had_not_been(tmp_path):
    """A run stopped by an event at a known place, resumed, against one in one go."""
    sample, settings = "pocket/corpus/sample.txt.gz", {"limit": 2000, "measures": "norm,cosine", "batch_tokens": 64, "threads": 1}

    def stop(event):
        if event["event"] == "measuring":
            signal.raise_signal(signal.SIGINT)

    # Whoever runs the tests in the background of a shell has the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(ls.Interrupted):
            ls.measure("pocket-bert", sample, tmp_path / "run", progress=stop, **settings)
    finally:
        signal.signal(signal.SIGINT, before)
    resumed = ls.measure("pocket-bert", sample, tmp_path / "run", progress=False, **settings)
    whole = ls.measure("pocket-bert", sample, progress=False, **settings)
    assert resumed.layers.to_dict() == whole.layers.to_dict() and resumed.groups.to_dict() == whole.groups.to_dict()


@pytest.mark.parametrize("long", [False, True])
def test_a_panic_is_an_error_of_ours(long, capfd):
    from layerscope import _layerscope

    with pytest.raises(ls.DefectError, match="internal error: .*on purpose.*; please report it") as caught:
        _layerscope.defect(long)
    assert isinstance(caught.value, ls.Error) and "\n" not in str(caught.value)
    assert "panicked" not in capfd.readouterr().err


def test_runs_are_compared(run, tmp_path):
    other = ls.measure("pocket-gpt", HELD_OUT, tmp_path / "gpt", progress=False, **SETTINGS)
    comparison = ls.compare([run, other.folder])
    done = command("compare", str(run.folder), str(other.folder))
    assert done.returncode == 0
    assert done.stdout.strip().replace("--confidence", "confidence=True") == comparison.summary().strip() == repr(comparison).strip()
    assert comparison.labels == ["pocket-bert", "pocket-gpt"] and comparison.notes == []
    rows = {(row["layer"], row["point"], row["measure"], row["selection"], row["variant"]): row for row in comparison.table}
    for name in ("q", "m", "v", "mean_cosine"):
        for layer in range(6):
            row = rows[layer, "embedding" if layer == 0 else "block", name, "selected", None]
            assert row["value"] == other.value(name, layer=layer) and row["first_value"] == run.value(name, layer=layer)
            assert row["difference"] == row["value"] - row["first_value"]
    last = rows[6, "final_norm", "q", "selected", None]  # the last states of a model that ends with a norm are those after it
    assert last["first_layer"] == 6 and last["difference"] == other.value("q", layer=6, point="final_norm") - run.value("q", layer=6)
    some = ls.compare([run, other], measures=["q", "m"])
    assert set(some.table["measure"]) == {"q", "m"}
    assert {"mean_cosine", "self_similarity"} <= set(ls.compare([run, other], measures="cosine").table["measure"])
    assert "confidence=True" in comparison.summary() and "--confidence" not in comparison.summary()
    of_all = ls.compare([run, other], measures="q", states="all")
    assert set(of_all.table["selection"]) == {"all", "selected"}
    assert {file.suffix for file in some.figures(tmp_path / "figures", only="fig5")} >= {".svg", ".csv"}
    assert "<pre>" in some._repr_html_()
    with pytest.raises(ls.UsageError, match="measures `nonsense` is neither a measure nor a family"):
        ls.compare([run, other], measures="nonsense")
    with pytest.raises(ls.FileError, match="there is no such folder"):
        ls.compare([run, tmp_path / "nowhere"])


def test_a_run_is_split_by_a_column(tmp_path):
    lines = Path(HELD_OUT).read_text(encoding="utf-8").splitlines()[:40]
    genres = ["news", "poems"]
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"text": line, "genre": genres[i % 2]}) for i, line in enumerate(lines)), encoding="utf-8")
    run = ls.measure("pocket-bert", corpus, tmp_path / "run", split="column:genre", measures="norm", frequency="2:1000", quiet=True)
    assert list(run.parts) == genres and run.parts["news"].model == "pocket-bert (news)" and run.parts["news"].parts == {}
    assert sum(part.manifest["corpus"]["documents"] for part in run.parts.values()) == run.manifest["corpus"]["documents"] == 40
    comparison = ls.compare([run], measures="q")
    assert comparison.labels == ["pocket-bert (news)", "pocket-bert (poems)"]
    row = next(row for row in comparison.table if row["layer"] == 3 and row["selection"] == "selected" and row["run"] == comparison.labels[1])
    assert row["value"] == run.parts["poems"].value("q", layer=3)
    with pytest.raises(ls.CorpusError, match="no document has a value in column `author`; name another with split"):
        ls.measure("pocket-bert", corpus, tmp_path / "other", split="column:author", quiet=True)


def test_importing_needs_nothing_else():
    code = "import sys, layerscope; heavy = {'numpy', 'pandas', 'pyarrow', 'torch', 'ray', 'transformers'} & set(sys.modules); assert not heavy, heavy"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_slurm_array_is_one_run(tmp_path):
    script, scripts = str(Path("examples/slurm.sh").absolute()), str(Path(sys.executable).parent)
    base = {"PATH": f"{scripts}:{os.environ['PATH']}", "OUT": str(tmp_path), "MODEL": "pocket-gpt", "CORPUS": HELD_OUT}
    base["OPTIONS"] = "--limit 60 --measures norm --quiet"
    for task in range(3):
        variables = {"SLURM_ARRAY_TASK_ID": str(task + 1), "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "3"}
        done = subprocess.run(["bash", script], env={**base, **variables}, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    done = subprocess.run(["bash", script, "merge"], env=base, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    whole = ls.measure("pocket-gpt", HELD_OUT, limit=60, measures="norm", progress=False)
    merged = ls.load(tmp_path / "whole")
    assert merged.manifest["corpus"]["states"] == whole.manifest["corpus"]["states"]
    assert merged.value("q", layer=3) == pytest.approx(whole.value("q", layer=3), rel=1e-12)
