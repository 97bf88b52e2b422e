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
        A folder with config.json, weights and tokenizer.json; a hub id such as "org/name"; or "pocket-gpt" and "pocket-bert", which the
        package carries.
    corpus
        Files or globs: .txt (a line is a document), .jsonl, .parquet, each also .gz or .zst; or object-store and web addresses.
    out
        The folder of the run, or an address such as "s3://bucket/run" (credentials by the usual environment variables): checkpoints go there
        too, so that another machine can go on. Without it the run lives in a temporary folder for as long as the returned object does.
    progress
        True for a bar, False for silence, or a function that takes a dictionary per event; None shows a bar on terminals and in notebooks.
    settings
        The flags of ``layerscope measure`` by their names, with ``_`` for ``-``. Lists stand for comma-separated values.

    Which text
        revision            branch, tag or commit of a hub model
        text_column         the column of the text in .jsonl and .parquet ["text"]
        clean, chunk_chars  "wiki" strips Wikipedia mark-up; cut running text into documents of so many characters
        sample, seed        fraction of the documents kept, by a keyed hash of their ids [1.0]; seed of every random choice [0]
        max_words           only documents of at most so many space-separated words
        lowercase, dedup    lower-case the text; drop exact repeats
        limit               only the first so many documents that remain
        window, stride      long documents become windows of so many tokens [the model's maximum], every token counted once
        wrap, specials      tokens around each text: "model", "bos-eos" or "none"; whether statistics "exclude" or "include" them
        on_error            "fail" or "skip" bad documents and states that are not finite ["fail"]

    Which numbers
        preset              the conventions of a paper: "paper", "shape-of-learning", "machina", "ethayarajh"; settings go over it
        measures            "all" or families: norm, cosine, spectrum, partition, dimension, sequence, layers [the first three, dimension]
        layers              "all", or a list such as [0, 6, 12]
        group               what a group is: "token", "surface", "word", "position", "sequence", "cluster:K", "column:NAME", "none"
        frequency           "MIN:MAX" of n_t for the selected groups ["10:100000"]
        tokens              tokens whose states are kept for the plane of figure 1: "auto", "none" or a list
        token_states        how many states of each [500]
        sample_states       how many states per layer the hash sample keeps for dimension, clusters and batches [20000]
        massive             multiple of the median norm beyond which a state counts as massive [10]
        confidence          standard errors, which cost memory
        ablate              alter the norms: "final-norm", "norm:identity", "norm:gamma=1", "norm:beta=0", "norm:gamma*=S", with "@0,2-4"

    How it runs
        device, dtype       "auto" or "cpu"; "f32"
        batch_tokens        tokens of one batch [1024]
        threads             worker threads [all processors]
        max_memory          a limit such as "8G": several passes over the layers are made, or the run is refused
        shard               "I/N": only this worker's documents; "auto" reads the variables of Slurm and Kubernetes. See `merge`
        checkpoint_seconds  how often the state is saved [60]
        resume, overwrite   go on from the last checkpoint (what happens anyway when it matches); start again
        keep_work           leave checkpoints where they are at the end

    Ctrl-C saves what was done and raises `layerscope.Interrupted`; the same call with the same `out` goes on from there, and its
    tables are those of an uninterrupted run to the last bit. A second Ctrl-C returns at once.

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
    """Measures a corpus through the checkpoints of a training, into one table over all steps.

    `revisions` are names and globs such as "step*": folders in the model's folder, or branches and tags of a hub model. Each checkpoint is
    a complete run in ``out/steps``; `evict` removes fetched ones from the hub's cache again. Settings and `progress` are those of `measure`.
    """
    names = revisions if isinstance(revisions, str) else ",".join(revisions)
    given = {"model": os.fspath(model), "corpus": _paths(corpus), **settings}
    call = _call("track", {**given, "revisions": names})
    return _into(out, lambda folder: _layerscope.track(_words(given, folder), names, evict, call, *_display(progress)))


def merge(
    runs: Sequence[Run | str | os.PathLike[str]], out: str | os.PathLike[str] | None = None, *, overwrite: bool = False
) -> Run:
    """Joins the shards of one measurement into the run that a single worker would have made.

    `runs` are all of its shards, in any order, as folders, addresses or `Run`; what is missing or does not belong to the others is refused. `overwrite`
    replaces what lies at `out`.

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
    """Measures the input and output embedding matrices and the norms of a checkpoint: no corpus needed.

    `model` and `out` are those of `measure`; `revision` is a branch, tag or commit of a hub model, `revisions` the checkpoints of a training.

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
        problem = Interrupted(f"{interrupted}; give out={kept!r} to go on")
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
