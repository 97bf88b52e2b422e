"""Read finished runs, draw their figures and write their reports."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._errors import UsageError
from ._table import Table

#: A notebook shows the first of these that the run supports.
_KEY_FIGURES = ["fig2", "fig5", "fig4"]

#: The selections of the tables without massive states.
_TYPICAL = {"all": "typical", "selected": "typical_selected", "sample": "typical_sample"}


class Run:
    """A finished run: its tables, figures and report.

    `layers` has a row per layer, selection and measure; `groups` one per layer and token; `components` one per layer and component.
    `spectra` has the eigenvalues of the covariance, `tokens` the kept states of chosen tokens, projected to two dimensions,
    `token_components` the components of these tokens, `massive` the states whose norm is far above the median, and `norms` statistics of
    every gamma and beta. A table is None if its measures were not computed. Each table is a `Table`: Arrow-compatible, without pyarrow.

    >>> import layerscope as ls
    >>> run = ls.measure("pocket-gpt", corpus="pocket/corpus/held-out.txt", limit=50, frequency="2:1000")
    >>> run
    pocket-gpt (...), 6 layers of width 80
    ...
    >>> run.value("mean_cosine", layer=6, point="final_norm") < 1
    True
    >>> frame = run.layers.to_pandas()  # doctest: +SKIP
    """

    folder: Path
    manifest: dict[str, Any]
    layers: Table
    groups: Table | None
    components: Table | None
    spectra: Table | None
    tokens: Table | None
    token_components: Table | None
    massive: Table | None
    norms: Table | None

    def __init__(self, folder: str | os.PathLike[str], *, temporary: tempfile.TemporaryDirectory[str] | None = None) -> None:
        self._place = _place(folder)
        self._temporary = temporary  # deleted with this object, like the local copy of a run at an address
        self._copy = _layerscope.fetch(self._place) if "://" in self._place else None
        self.folder = Path(self._copy.path() if self._copy else self._place)
        manifest, tables = _layerscope.read_run(str(self.folder))
        self.manifest = json.loads(manifest)
        for name in ("layers", "groups", "components", "spectra", "tokens", "token_components", "massive", "norms"):
            setattr(self, name, Table(tables[name]) if name in tables else None)

    @property
    def model(self) -> str:
        """The model's short name."""
        return self.manifest["model"]["name"]

    @property
    def warnings(self) -> list[str]:
        """Warnings to read before you trust the numbers."""
        return list(self.manifest.get("warnings") or [])

    def value(
        self,
        measure: str,
        *,
        layer: int | None = None,
        point: str | None = None,
        selection: str = "all",
        variant: str | None = None,
        states: str = "all",
    ) -> float | None:
        """Return one value of the table `layers`, or None if it is undefined.

        You can leave out `point` if the layer has only one. `layerscope.measures()` lists the names of measures and variants. `states` is
        "all" or "typical": with "typical", the selections "all", "selected" and "sample" are read without massive states.
        """
        if states not in ("all", "typical"):
            raise UsageError(f"states {states!r} is not understood; give 'typical' or 'all'")
        if states == "typical":
            selection = _TYPICAL.get(selection, selection)
        wanted = {"measure": measure, "layer": layer, "selection": selection, "variant": variant}
        if point is not None:
            wanted["point"] = point
        found = [row for row in self.layers if all(row[name] == value for name, value in wanted.items())]
        if len(found) == 1:
            return found[0]["value"]
        if found:
            points = ", ".join(sorted({str(row["point"]) for row in found}))
            raise UsageError(f"layer {layer} has {measure} at several points or steps ({points}); give a point")
        raise UsageError(f"there is no {measure} with {wanted}; see run.layers")

    def summary(self, *, states: str | None = None) -> str:
        """Return a short text: a few lines on what was measured, then a line per layer.

        `states` is "typical" (without the few massive states that may hide the others) or "all". By default the text is about typical states
        where massive ones carry more than a tenth of Q.
        """
        return _layerscope.overview(str(self.folder), states)

    def figures(
        self,
        out: str | os.PathLike[str],
        *,
        only: str | Sequence[str] = (),
        layers: Sequence[int] = (),
        tokens: Sequence[str] = (),
        frequency: str | None = None,
        states: str | None = None,
        theme: str = "light",
        width_mm: str | float | None = None,
        title: str | None = None,
    ) -> list[Path]:
        """Draw every figure that the run supports, as SVG, PDF, PNG and CSV. Return the files. See `layerscope.figures`."""
        return figures(
            [self], out, only=only, layers=layers, tokens=tokens, frequency=frequency, states=states, theme=theme, width_mm=width_mm,
            title=title,
        )

    def report(self, out: str | os.PathLike[str] = "report.html", *, frequency: str | None = None, title: str | None = None) -> Path:
        """Write a self-contained page in which you can explore the run. Return its path. See `layerscope.report`."""
        return report([self], out, frequency=frequency, title=title)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        with tempfile.TemporaryDirectory(prefix="layerscope-") as scratch:
            figure = _layerscope.svg(str(self.folder), _KEY_FIGURES, Path(scratch))
        drawn = f"<div style='max-width:40em'>{figure[figure.index('<svg'):]}</div>" if figure else ""
        return f"<pre>{html.escape(self.summary())}</pre>{drawn}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (load, (self._place,))


def load(folder: str | os.PathLike[str]) -> Run:
    """Read a finished run from a folder or an object store ("s3://bucket/run").

    The run can come from `measure`, `track`, `merge`, `weights` or a `Collector`, or from the command line.

    >>> import layerscope as ls
    >>> ls.load("nowhere")
    Traceback (most recent call last):
    ...
    layerscope._errors.FileError: nowhere: no finished run here (manifest.json is written last); resume it first
    """
    return Run(folder)


def figures(
    runs: Sequence[Run | str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    only: str | Sequence[str] = (),
    layers: Sequence[int] = (),
    tokens: Sequence[str] = (),
    frequency: str | None = None,
    states: str | None = None,
    theme: str = "light",
    width_mm: str | float | None = None,
    title: str | None = None,
) -> list[Path]:
    """Draw every figure that the runs support into the folder `out`. Return the files.

    Each figure is written as SVG, PDF and PNG, with the plotted numbers as CSV. Figures a run does not support are skipped.

    `only` selects figures ("fig2,fig5" or a list). `layers` and `tokens` select what figures of single layers or tokens show. `frequency` is
    MIN:MAX, the range of n_t of the selected groups. `states` is "typical" (without the few massive states that may hide the others) or "all";
    by default typical states are shown where massive ones carry more than a tenth of Q. `theme` is light, dark or print. `width_mm` is a
    number, or a name such as "acl-column". `title` is a line above every figure.
    """
    names = only.split(",") if isinstance(only, str) else list(only)
    written, _ = _layerscope.figures(
        _folders(runs), Path(out), [name for name in names if name], list(layers), list(tokens), frequency, states, theme,
        None if width_mm is None else str(width_mm), title,
    )
    return [Path(file) for file in written]


def report(
    runs: Sequence[Run | str | os.PathLike[str]],
    out: str | os.PathLike[str] = "report.html",
    *,
    frequency: str | None = None,
    title: str | None = None,
) -> Path:
    """Write a page in which you can explore the runs. Return its path.

    The page is a single file, `out`, that opens from disk and needs no network. `frequency` is MIN:MAX, the range of n_t of the groups that
    regressions use at first; you can change it on the page. `title` is the title of the page.
    """
    _layerscope.report(_folders(runs), Path(out), frequency, title)
    return Path(out)


def _folders(runs: Run | str | os.PathLike[str] | Sequence[Run | str | os.PathLike[str]]) -> list[str]:
    if isinstance(runs, (Run, str, os.PathLike)):
        runs = [runs]
    return [str(run.folder) if isinstance(run, Run) else _place(run) for run in runs]


def _place(folder: str | os.PathLike[str]) -> str:
    """Return a folder or an address as text. A Path would drop a slash of an address."""
    return os.fspath(folder)
