"""Measure states that are in files."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._collector import Collector, _settings
from ._errors import UsageError
from ._keywords import hinting
from ._measure import _call, _into, _paths
from ._run import Run


@hinting(Collector.__init__)
def import_states(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str] | None = None,
    *,
    states: str | None = None,
    groups: str | None = None,
    documents: str | None = None,
    positions: str | None = None,
    layer: int | None = None,
    layers_from: str | None = None,
    axes: str | None = None,
    max_memory: str | None = None,
    names: Mapping[Any, str] | None = None,
    overwrite: bool = False,
    **settings: Any,
) -> Run:
    """Measure states that are in files: .npy, .npz, .safetensors and .parquet. The same as ``layerscope import``.

    `files` are paths or globs. States have the axes (token, component), (token, layer, component), (layer, token, component), (batch, token,
    component) or (layer, batch, token, component). The number of tokens tells which of three axes is which; otherwise give `axes`. A batch is
    its sequences, and an array named attention_mask says which of their tokens count.

    If a file has several arrays whose names end in a number, each is a layer. So are files named layer_0.npy or hidden_states_0.npy. Other
    files that differ by a number are refused until `layers_from` says whether they are layers ("names") or parts of one ("none"). `layer` is
    the layer number of states that have no axis for it. States that need more than `max_memory` ("8G"; by default what is free) are refused
    before they are read.

    Arrays named token_ids (or input_ids, groups), documents and positions identify the rows. If yours have other names, give those as `states`, `groups`,
    `documents` and `positions`, or give the path of an .npy file. A file with token_ids and no documents or positions is one document; vLLM
    writes extracted hidden states this way. `names` maps ids or texts of groups to readable names.

    The run is written to `out`, and `overwrite` replaces what is there. Without `out`, the run is deleted with the returned object. Other
    settings are those of `Collector`.

    >>> import layerscope as ls
    >>> ls.import_states("no-*.npy")
    Traceback (most recent call last):
    ...
    layerscope._errors.UsageError: no-*.npy matches no file
    """
    found: list[Path] = []
    for path in _paths(files):
        matched = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not matched:
            raise UsageError(f"{path} matches no file")
        found.extend(Path(match) for match in matched)
    words = json.dumps(_settings(settings))
    called = {str(group): str(name) for group, name in (names or {}).items()}
    call = _call("import_states", {"files": [str(path) for path in found]})
    columns = [states, groups, documents, positions, axes, max_memory, layers_from]
    return _into(
        out, lambda folder: _layerscope.import_states(found, columns, layer, words, called, folder, overwrite or out is None, call)
    )
