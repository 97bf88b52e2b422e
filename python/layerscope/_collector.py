"""States from anywhere."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._errors import UsageError
from ._run import Run, _place


class Collector:
    """Gathers hidden states of anything that yields vectors, and measures them as `measure` would.

    Parameters
    ----------
    dim
        Components of a state.
    measures
        "all" or families: norm, cosine, spectrum, partition, dimension, sequence, layers.
    name
        What the states are called in tables and figures; `model` may say more: family, revision, heads, parameters, vocabulary, causal.
    frequency
        MIN:MAX of n_t for the selected groups.
    sample_states, seed
        How many states per layer the hash sample keeps (dimension, clusters, batches), and its seed.
    tokens, token_states
        Groups whose states are kept for the plane of figure 1, and how many of each.
    clusters
        Numbers of k-means clusters of the sample.
    massive_norm
        The norm beyond which a state counts as massive.
    confidence
        Standard errors of q, m and mean_cosine over blocks of documents.
    on_error
        "fail" or "skip" rows with components that are not finite.
    group
        What groups are: "token", "word", ...

    Memory depends on the number of groups and layers, never on the number of states:

    >>> import array, layerscope as ls
    >>> collector = ls.Collector(dim=2, measures="norm", name="toy")
    >>> states = memoryview(array.array("f", [1, 2, 3, 4, 1, 0, 9, 8])).cast("B").cast("f", (4, 2))
    >>> collector.update(0, states, groups=["a", "b", "a", "b"])
    >>> run = collector.finish()
    >>> run.groups["q"], run.groups["m"], run.groups["v"]
    ([3.0, 85.0], [2.0, 72.0], [1.0, 13.0])

    Collectors can be pickled, saved and merged, so that processes, Dask, Spark or Ray need no help; and updated from several threads, the
    interpreter's lock released meanwhile.
    """

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
        massive_norm: float | None = None,
        confidence: bool = False,
        on_error: str = "fail",
        group: str = "token",
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "dim")}
        self._native = _layerscope.NativeCollector(dim, json.dumps(_settings(given)))

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
        """Adds the rows of `states` at a layer. A refused update changes nothing.

        `states` is any array whose last axis has `dim` components: numpy, torch (any device), jax, a buffer, anything with ``__dlpack__`` or
        ``__array__``; float16, bfloat16, float32 or float64 (rounded to float32, the precision of all states here); strided and read-only
        arrays too. A contiguous float32 array on the host is read where it lies.

        `groups` has the id or the text of every row's group, such as the token. `documents` (ids or texts) and `positions` (places in
        the document) say who each row is: they make the hash sample and the measures of sequences well defined across processes;
        without them dimension, partition, sequence and pair measures are null. Give a document's rows in one update. The same rows at the next
        layer, right after each other, also give the measures between layers.

        `mask` is false for rows that do not count, such as padding. `point` is "embedding" (what layer 0 is), "block" or "final_norm".
        """
        self._native.update(layer, point, states, groups, documents, positions, mask)

    def merge(self, other: Collector) -> Collector:
        """Adds what another collector with the same settings has gathered; returns this one."""
        self._native.merge(other._native)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything to a file, atomically."""
        self._native.save(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Collector:
        """Reads what `save` wrote; a damaged file is refused."""
        return cls._of(_layerscope.NativeCollector.load(Path(path)))

    def finish(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        names: Mapping[Any, str] | Sequence[str] | None = None,
        overwrite: bool = False,
    ) -> Run:
        """Makes the tables of everything so far. More can be gathered afterwards.

        `names` says what people call groups: a mapping from ids or texts, or a list by id. Without `out` the run lives in a temporary
        folder for as long as the returned object does.
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
        """Components of a state."""
        return self.settings["dim"]

    @property
    def settings(self) -> dict[str, Any]:
        """What is gathered, and how."""
        return json.loads(self._native.settings())

    @property
    def states(self) -> dict[int, int]:
        """States counted so far, by layer; the largest count where a layer has several points."""
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
    """Settings of a collector, by the names of its parameters, in the core's words."""
    defaults = Collector.__init__.__kwdefaults__
    for name in given:
        if name not in defaults:
            raise TypeError(f"{name!r} is no setting of Collector")
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
    return {
        **chosen,
        "measures": [word.strip() for word in measures.split(",")] if isinstance(measures, str) else list(measures),
        "model": {"name": name, **(chosen["model"] or {})},
        "frequency": [low, high],
        "tokens": [str(token) for token in chosen["tokens"]],
        "clusters": list(chosen["clusters"]),
        "skip_bad": on_error == "skip",
    }
