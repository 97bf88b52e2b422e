"""Measure states from any source."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._errors import UsageError
from ._keywords import hinting
from ._run import Run, _place


class Collector:
    """Collect hidden states from any source of vectors, and measure them as `measure` does.

    Parameters
    ----------
    dim
        The number of components of a state.
    measures
        "all", or some of the families norm, cosine, spectrum, partition, dimension, sequence, layers.
    name
        The name of the states in tables and figures. `model` can add details: family, revision, heads, parameters, vocabulary, causal.
    frequency
        MIN:MAX, the range of n_t (occurrences) of the selected groups.
    sample_states, seed
        How many states the hash sample keeps per layer (for dimension, clusters and batches), and its seed.
    tokens, token_states
        Groups whose states are kept for figure 1, and how many states of each.
    clusters
        Numbers of clusters, such as [10, 100], for k-means on the sample.
    massive_norm
        The norm above which a state counts as massive: a number, or a mapping from ``(layer, point)`` to numbers.
    confidence
        Compute standard errors of q, m and mean_cosine over blocks of documents.
    on_error
        What to do with rows that have non-finite components: "fail" or "skip".
    group
        What a group is: "token", "word", ...

    Memory depends on the number of groups and layers, not on the number of states:

    >>> import array, layerscope as ls
    >>> collector = ls.Collector(dim=2, measures="norm", name="toy")
    >>> states = memoryview(array.array("f", [1, 2, 3, 4, 1, 0, 9, 8])).cast("B").cast("f", (4, 2))
    >>> collector.update(0, states, groups=["a", "b", "a", "b"])
    >>> run = collector.finish()
    >>> run.groups["q"], run.groups["m"], run.groups["v"]
    ([3.0, 85.0], [2.0, 72.0], [1.0, 13.0])

    You can pickle, save and merge collectors, so they work with multiprocessing, Dask, Spark and Ray as they are. You can update a collector
    from several threads: updates release the interpreter's lock.
    """

    @hinting()
    def __init__(
        self,
        dim: int,
        *,
        measures: str | Sequence[str] = "norm,cosine,spectrum,dimension",
        name: str = "states",
        model: Mapping[str, Any] | None = None,
        frequency: str | tuple[int, int] = "10:100000",
        sample_states: int = 20_000,
        seed: int = 0,
        tokens: Sequence[str | int] = (),
        token_states: int = 500,
        clusters: Sequence[int] = (),
        massive_norm: float | Mapping[tuple[int, str], float] | None = None,
        confidence: bool = False,
        on_error: str = "fail",
        group: str = "token",
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "dim")}
        self._native = _layerscope.NativeCollector(dim, json.dumps(_settings(given)))

    @hinting()
    def update(
        self,
        layer: int,
        states: Any,
        groups: Any = None,
        documents: Any = None,
        positions: Any = None,
        *,
        mask: Any = None,
        point: str | None = None,
    ) -> None:
        """Add the rows of `states` at a layer. If the update is refused, nothing changes.

        `states` is any array whose last axis has `dim` components: numpy, torch (any device), jax, a buffer, or anything with ``__dlpack__``
        or ``__array__``. It can be float16, bfloat16, float32 or float64; all states are rounded to float32. Strided and read-only arrays work
        too. A contiguous float32 array on the host is read without a copy.

        `groups` gives the id or the text of each row's group, such as its token. `documents` (ids or texts) and `positions` (places in the
        document) identify the rows. They make the hash sample and the sequence measures the same however the rows are split among processes.
        Without them, dimension, partition, sequence and pair measures are null. Give all rows of a document in one update. To get the measures
        between layers, update the next layer with the same rows right after this one.

        `mask` is false for rows to leave out, such as padding. `point` is "embedding" (the default at layer 0), "block" (the default at other
        layers) or "final_norm".
        """
        self._native.update(layer, point, states, groups, documents, positions, mask)

    def merge(self, other: Collector) -> Collector:
        """Add the states of another collector with the same settings. Return this collector."""
        self._native.merge(other._native)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the collector to a file. The write is atomic."""
        self._native.save(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Collector:
        """Load a collector that `save` wrote. A damaged file is refused."""
        return cls._of(_layerscope.NativeCollector.load(Path(path)))

    @hinting()
    def finish(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        names: Mapping[Any, str] | Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> Run:
        """Compute the tables of all states so far, and return them as a run. You can go on updating the collector.

        `names` gives groups readable names: a mapping from ids or texts, or a list indexed by id. `out` is the folder of the run, and
        `overwrite` replaces what is there. Without `out`, the run is in a temporary folder that is deleted with the returned object.
        """
        if names is None:
            names = {}
        elif not isinstance(names, Mapping):
            names = dict(enumerate(names))
        called = {str(group): str(name) for group, name in names.items()}
        call = ["layerscope.Collector.finish"]
        if out is not None:
            self._native.finish(_place(out), called, overwrite, call)
            return Run(out)
        temporary = tempfile.TemporaryDirectory(prefix="layerscope-run-")
        self._native.finish(temporary.name, called, True, call)
        return Run(temporary.name, temporary=temporary)

    @property
    def dim(self) -> int:
        """The number of components of a state."""
        return self.settings["dim"]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of this collector."""
        return json.loads(self._native.settings())

    @property
    def states(self) -> dict[int, int]:
        """The number of states so far, by layer. If a layer has several points, the largest of their counts."""
        counts: dict[int, int] = {}
        for layer, _, count in self._native.places():
            counts[layer] = max(count, counts.get(layer, 0))
        return counts

    def __repr__(self) -> str:
        counted = ", ".join(f"{layer}: {count}" for layer, count in self.states.items())
        return f"<layerscope.Collector dim={self.dim}, states by layer {{{counted}}}>"

    @classmethod
    def _of(cls, native: _layerscope.NativeCollector) -> Collector:
        collector = cls.__new__(cls)
        collector._native = native
        return collector

    @classmethod
    def _decode(cls, state: bytes) -> Collector:
        return cls._of(_layerscope.NativeCollector.decode(state))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self)._decode, (self._native.encode(),))


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate settings of a collector, by the names of its parameters, for the core."""
    defaults = inspect.unwrap(Collector.__init__).__kwdefaults__
    chosen = {**defaults, **given}
    on_error, frequency, measures = (chosen.pop(name) for name in ("on_error", "frequency", "measures"))
    if on_error not in ("fail", "skip"):
        raise UsageError(f"on_error {on_error!r} is not understood; give 'fail' or 'skip'")
    if isinstance(frequency, str):
        try:
            low, high = (int(bound) for bound in frequency.split(":"))
        except ValueError:
            raise UsageError(f"frequency {frequency!r} is not understood; give MIN:MAX such as 10:100000") from None
    else:
        low, high = frequency
    name = chosen.pop("name")
    if isinstance(chosen["massive_norm"], Mapping):
        norms = chosen.pop("massive_norm")
        chosen["massive_norms"] = {f"layer{layer}.{point}": float(norm) for (layer, point), norm in norms.items()}
    return {
        **chosen,
        "measures": [word.strip() for word in measures.split(",")] if isinstance(measures, str) else list(measures),
        "model": {"name": name, **(chosen["model"] or {})},
        "frequency": [low, high],
        "tokens": [str(token) for token in chosen["tokens"]],
        "clusters": list(chosen["clusters"]),
        "skip_bad": on_error == "skip",
    }
