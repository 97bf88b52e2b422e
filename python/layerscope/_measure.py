"""Measuring: the same words as the flags of the command line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from . import _layerscope
from ._errors import Interrupted
from ._run import Run, _folders, _place
from ._table import Table

Progress = bool | Callable[[dict[str, Any]], object] | None


def measure(
    model: str | os.PathLike[str],
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Progress = None,
    **settings: Any,
) -> Run:
    """Measures a corpus through a model: the geometry of every token's hidden states at every layer.

    Parameters
    ----------
    model
        A folder with config.json, weights and tokenizer.json; a Hugging Face Hub id such as "org/name"; or "pocket-gpt" or "pocket-bert",
        which the package carries.
    corpus
        Files or globs: .txt (a line is a document), .jsonl, .parquet, each also .gz or .zst; or object-store and web addresses.
    out
        The folder of the run, or an address such as "s3://bucket/run" (credentials come from the usual environment variables). Checkpoints go
        there too, so another machine can resume. Without it, the run lives in a temporary folder as long as the returned object does.
    progress
        True for a bar, False for silence, or a function that takes a dictionary per event. None shows a bar on terminals and in notebooks.
    settings
        The flags of ``layerscope measure`` by name, with ``_`` for ``-``. Lists stand for comma-separated values.

    {settings}

    Ctrl-C saves the work and raises `layerscope.Interrupted`. The same call with the same `out` resumes, and its tables equal those of an
    uninterrupted run to the last bit. A second Ctrl-C returns at once.

    >>> import layerscope as ls
    >>> run = ls.measure("pocket-bert", corpus="pocket/corpus/held-out.txt", limit=100, measures="norm,cosine")
    >>> run.layers.column_names
    ['model', 'revision', 'layer', 'point', 'selection', 'measure', 'variant', 'value', 'se', 'n', 'step']
    >>> q, m, v = (run.value(name, layer=3) for name in ("q", "m", "v"))
    >>> abs(q - (m + v)) < 1e-9 * q
    True
    """
    given = {"model": os.fspath(model), "corpus": _paths(corpus), **settings}
    return _into(out, lambda folder: _layerscope.measure(_words(given, folder), _call("measure", given), *_display(progress)))


# The table of settings is the program's: help, docstring and documentation cannot differ.
measure.__doc__ = (measure.__doc__ or "").replace("{settings}", _layerscope.settings_doc().replace("\n", "\n    "))


def track(
    model: str | os.PathLike[str],
    revisions: str | Sequence[str],
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    evict: bool = False,
    progress: Progress = None,
    **settings: Any,
) -> Run:
    """Measures a corpus through the checkpoints of a training run and collects one table over all steps.

    `revisions` are names and globs such as "step*": folders in the model's folder, or branches and tags of a Hub model. Missing or broken
    checkpoints are skipped with a warning. Each checkpoint is a complete run in ``out/steps``. `evict` deletes each downloaded checkpoint
    from the Hub's cache once it is measured. Settings and `progress` are those of `measure`.
    """
    names = revisions if isinstance(revisions, str) else ",".join(revisions)
    given = {"model": os.fspath(model), "corpus": _paths(corpus), **settings}
    call = _call("track", {**given, "revisions": names})
    return _into(out, lambda folder: _layerscope.track(_words(given, folder), names, evict, call, *_display(progress)))


def merge(
    runs: Sequence[Run | str | os.PathLike[str]], out: str | os.PathLike[str] | None = None, *, overwrite: bool = False
) -> Run:
    """Merges the shards of one measurement into the run that a single worker would have made.

    `runs` are all of its shards, in any order, as folders, addresses or `Run`. A missing shard, or one of another run, is refused.
    `overwrite` replaces whatever is at `out`.

    >>> import layerscope as ls
    >>> shards = [ls.measure("pocket-gpt", "pocket/corpus/held-out.txt", limit=60, shard=f"{i}/2", measures="norm") for i in range(2)]
    >>> whole = ls.measure("pocket-gpt", "pocket/corpus/held-out.txt", limit=60, measures="norm")
    >>> abs(ls.merge(shards).value("q", layer=2) - whole.value("q", layer=2)) < 1e-9
    True
    """
    folders = _folders(runs)
    call = _call("merge", {"runs": folders})
    return _into(out, lambda folder: _layerscope.merge(folders, folder, overwrite, call))


def weights(
    model: str | os.PathLike[str],
    *,
    revision: str | None = None,
    revisions: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Run:
    """Measures the input and output embedding matrices and the norms of a checkpoint. No corpus is needed.

    `model` and `out` are those of `measure`; `revision` is a branch, tag or commit of a Hub model, `revisions` the checkpoints of a
    training run.

    >>> import layerscope as ls
    >>> run = ls.weights("pocket-gpt")
    >>> 0 < run.value("partition", point="input_embedding", variant="default") <= 1
    True
    """
    names = revisions if revisions is None or isinstance(revisions, str) else ",".join(revisions)
    call = _call("weights", {"model": os.fspath(model), "revision": revision, "revisions": names})
    return _into(out, lambda folder: _layerscope.weights(os.fspath(model), revision, names, folder, call))


def measures() -> Table:
    """The table of measures: name, family, formula, variants, what n counts, source."""
    return Table(_layerscope.measures())


def _into(out: str | os.PathLike[str] | None, work: Callable[[str], object]) -> Run:
    """Runs `work` on a folder or an address: the given one, or a temporary folder that the run takes with it."""
    if out is not None:
        try:
            work(_place(out))
        except Interrupted as interrupted:
            interrupted.out = os.fspath(out)
            raise
        return Run(out)
    temporary = tempfile.TemporaryDirectory(prefix="layerscope-run-")
    try:
        work(temporary.name)
    except Interrupted as interrupted:
        # What was saved must outlive this call, or it could not be resumed.
        kept = tempfile.mkdtemp(prefix="layerscope-interrupted-")
        shutil.copytree(temporary.name, kept, dirs_exist_ok=True)
        problem = Interrupted(f"{interrupted}; give out={kept!r} to resume")
        problem.out = kept
        raise problem from None
    return Run(temporary.name, temporary=temporary)


def _paths(corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if isinstance(corpus, (str, os.PathLike)):
        corpus = [corpus]
    return [os.fspath(path) for path in corpus]


def _words(given: dict[str, Any], folder: str) -> dict[str, Any]:
    """Settings as text, lists of text and truths; those that are None are not given."""
    words: dict[str, Any] = {}
    for name, value in {**given, "out": folder}.items():
        if value is None:
            continue
        if isinstance(value, bool):
            words[name] = value
        elif isinstance(value, (list, tuple, set, frozenset, range)):
            words[name] = [str(item) for item in value]
        else:
            words[name] = str(value)
    return words


def _call(name: str, given: dict[str, Any]) -> list[str]:
    """The call as the manifest remembers it."""
    return [f"layerscope.{name}"] + [f"{key}={value!r}" for key, value in given.items() if value is not None]


def _display(progress: Progress) -> tuple[str, Callable[[str], object]]:
    """How progress is shown, and by whom."""
    if callable(progress):
        return "json", lambda line: progress(json.loads(line))
    if progress is None:
        progress = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    return "bar" if progress else "quiet", _say


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()
