"""Measure models. Arguments have the names of the command line's flags."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _layerscope
from ._errors import Interrupted, UsageError
from ._keywords import hinting, meant
from ._run import Run, _folders, _place
from ._table import Table

Progress = bool | Callable[[dict[str, Any]], object] | None
Corpus = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Iterable[str]


def _with_settings(function: Callable[..., Run]) -> Callable[..., Run]:
    """Make a function refuse keywords that neither it nor the program's table of settings has."""
    own = [name for name in inspect.signature(function).parameters if name != "settings"]

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Run:
        known = own + [name for name in re.findall(r"^ {4}(\w+)  ", _layerscope.settings_doc(), re.MULTILINE) if name not in own]
        for name in keywords:
            if name not in known:
                raise UsageError(f"there is no setting `{name}`{meant(name, known)}; there are {', '.join(known)}")
        return function(*arguments, **keywords)

    return checked


@_with_settings
def measure(
    model: str | os.PathLike[str],
    corpus: Corpus | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    texts: Iterable[str] | None = None,
    progress: Progress = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Run a corpus through a model and measure the geometry of every token's hidden states at every layer.

    Parameters
    ----------
    model
        A folder with config.json, weights and tokenizer.json; a GGUF file; a Hugging Face Hub id such as "org/name"; or "pocket-gpt" or
        "pocket-bert", which come with the package.
    corpus
        Files or globs: .txt (one document per line), .jsonl or .parquet, each also as .gz or .zst; or object-store and web addresses. A column of
        a data frame, or any other iterable that is not a list or tuple, is taken as `texts`.
    out
        The folder of the run, or an address such as "s3://bucket/run" (credentials come from the usual environment variables). Checkpoints go
        there too, so another machine can resume. Without it, the run is in a temporary folder that is deleted with the returned object.
    texts
        The documents themselves, instead of `corpus`: a list, a column of a data frame, or any iterable of strings.
    progress
        True shows a bar and False shows nothing. A function is called with a dictionary for each event. None shows a bar on terminals and
        in notebooks.
    quiet
        True shows nothing, like ``progress=False``.
    settings
        The flags of ``layerscope measure``, with ``_`` for ``-``. Give lists for comma-separated values.

    {settings}

    Ctrl-C saves the work and raises `layerscope.Interrupted`. Repeat the call with the same `out` to resume; the tables are the same to the
    last bit as those of an uninterrupted run. A second Ctrl-C returns at once.

    >>> import layerscope as ls
    >>> run = ls.measure("pocket-bert", corpus="pocket/corpus/held-out.txt", limit=100, measures="norm,cosine")
    >>> run.layers.column_names
    ['model', 'revision', 'layer', 'point', 'selection', 'measure', 'variant', 'value', 'se', 'n', 'step']
    >>> q, m, v = (run.value(name, layer=3) for name in ("q", "m", "v"))
    >>> abs(q - (m + v)) < 1e-9 * q
    True
    >>> ls.measure("pocket-bert", texts=["The cat sat.", "The dog ran."], quiet=True).manifest["corpus"]["documents"]
    2
    """
    with _corpus(corpus, texts, settings) as (paths, told):
        given = {"model": os.fspath(model), "corpus": paths, **settings}
        call = _call("measure", {**given, **told})
        return _into(out, lambda folder: _layerscope.measure(_words(given, folder), call, *_display(progress, quiet)))


# The settings come from the program's own table, so help, docstring and documentation cannot differ.
measure.__doc__ = (measure.__doc__ or "").replace("{settings}", _layerscope.settings_doc().replace("\n", "\n    "))


@_with_settings
def track(
    model: str | os.PathLike[str],
    revisions: str | Sequence[str],
    corpus: Corpus,
    out: str | os.PathLike[str],
    *,
    evict: bool = False,
    progress: Progress = None,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Measure the checkpoints of a training run on the same corpus, and collect all steps in one table.

    `model`, `corpus`, `progress`, `quiet` and the settings are those of `measure`. `revisions` are names and globs such as "step*": folders in the
    model's folder, or branches and tags of a Hub model. Missing or broken checkpoints are skipped with a warning. Each checkpoint becomes a
    complete run in ``out/steps``. `evict` deletes each downloaded checkpoint from the Hub's cache once it is measured.
    """
    names = revisions if isinstance(revisions, str) else ",".join(revisions)
    with _corpus(corpus, None, settings) as (paths, told):
        given = {"model": os.fspath(model), "corpus": paths, **settings}
        call = _call("track", {**given, **told, "revisions": names})
        return _into(out, lambda folder: _layerscope.track(_words(given, folder), names, evict, call, *_display(progress, quiet)))


@hinting()
def merge(
    runs: Sequence[Run | str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    overwrite: bool = False,
    allow_devices: bool = False,
) -> Run:
    """Merge the shards of one measurement into the run that a single worker would have made.

    `runs` are folders, addresses or `Run` objects, in any order. All shards must be present and belong together. `overwrite` replaces what
    is at `out`. `allow_devices` also merges shards that were computed on different devices or in different numbers; the run says so.

    >>> import layerscope as ls
    >>> shards = [ls.measure("pocket-gpt", "pocket/corpus/held-out.txt", limit=60, shard=f"{i}/2", measures="norm") for i in range(2)]
    >>> whole = ls.measure("pocket-gpt", "pocket/corpus/held-out.txt", limit=60, measures="norm")
    >>> abs(ls.merge(shards).value("q", layer=2) - whole.value("q", layer=2)) < 1e-9
    True
    """
    folders = _folders(runs)
    call = _call("merge", {"runs": folders})
    return _into(out, lambda folder: _layerscope.merge(folders, folder, overwrite, allow_devices, call))


@hinting()
def weights(
    model: str | os.PathLike[str],
    *,
    revision: str | None = None,
    revisions: str | Sequence[str] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Run:
    """Measure the input and output embedding matrices and the norms of a checkpoint. You need no corpus.

    `model` and `out` are those of `measure`. `revision` is a branch, tag or commit of a Hub model. `revisions` are the checkpoints of a
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
    """Return the table of measures: name, family, formula, variants, what n counts, source."""
    return Table(_layerscope.measures())


def _into(out: str | os.PathLike[str] | None, work: Callable[[str], object]) -> Run:
    """Call `work` with `out`, or with a temporary folder that is deleted with the run."""
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
        # Keep the saved work after this call, or it could not be resumed.
        kept = tempfile.mkdtemp(prefix="layerscope-interrupted-")
        shutil.copytree(temporary.name, kept, dirs_exist_ok=True)
        problem = Interrupted(f"{interrupted}; give out={kept!r} to resume")
        problem.out = kept
        raise problem from None
    return Run(temporary.name, temporary=temporary)


@contextmanager
def _corpus(corpus: Corpus | None, texts: Iterable[str] | None, settings: dict[str, Any]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Give the files to read, and what the manifest records of them. Texts become a file for the time of the call."""
    if (corpus is None) == (texts is None):
        raise UsageError("give either corpus (files) or texts (the documents themselves)")
    if isinstance(corpus, (str, os.PathLike, list, tuple)):
        yield _paths(corpus), {}
        return
    if "text_column" in settings:
        raise UsageError("text_column is a column of files; texts have none")
    file, count = _written(corpus if texts is None else texts)
    try:
        yield [str(file)], {"corpus": None, "texts": f"{count} texts"}
    except Interrupted:
        raise  # A repeated call finds the same text under the same name, and resumes.
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


def _written(texts: Iterable[str]) -> tuple[Path, int]:
    """Write texts to a temporary file with a name that depends on nothing but the texts."""
    if isinstance(texts, str):
        raise UsageError("texts is one string; give a list of strings")
    if isinstance(texts, Mapping) or hasattr(texts, "columns") or hasattr(texts, "column_names"):
        raise UsageError(f"a {type(texts).__name__} is no list of texts; give one of its columns, such as frame['text']")
    digest, lines = hashlib.sha256(), []
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"texts contain {type(text).__name__} at place {place}; give strings")
        lines.append(json.dumps({"text": text}) + "\n")
        digest.update(lines[-1].encode())
    file = Path(tempfile.gettempdir()) / f"layerscope-texts-{digest.hexdigest()[:24]}.jsonl"
    handle, scratch = tempfile.mkstemp(prefix="layerscope-texts-", dir=file.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.writelines(lines)
    os.replace(scratch, file)
    return file, len(lines)


def _paths(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    return [os.fspath(path) for path in ([files] if isinstance(files, (str, os.PathLike)) else files)]


def _words(given: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the settings as text, lists of text and booleans. Leave out those that are None."""
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
    """Return the call as the manifest records it."""
    return [f"layerscope.{name}"] + [f"{key}={value!r}" for key, value in given.items() if value is not None]


def _display(progress: Progress, quiet: bool = False) -> tuple[str, Callable[[str], object]]:
    """Return how to show progress, and the function that shows it."""
    if quiet:
        progress = False
    if callable(progress):
        return "json", lambda line: progress(json.loads(line))
    if progress is None:
        progress = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    return "bar" if progress else "quiet", _say


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()
