"""Read finished runs, draw their figures and write their reports."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._keywords import hinting
from ._table import Table

#: A notebook shows the first of these that the run supports.
_KEY_FIGURES = ["fig2", "fig5", "fig4"]


class Curve:
    """A measure along the layers: ``layers, values = run.curve("mean_cosine")``. `Run.curve` returns it.

    `layers` and `values` are lists of the same length; `se` has the standard errors and `points` the places. `selection` and `variant` say what
    the values are over. Undefined values are None.
    """

    measure: str
    layers: list[int]
    values: list[float | None]
    se: list[float | None]
    points: list[str]
    selection: str
    variant: str | None

    def __init__(
        self, measure: str, layers: list[int], values: list[float | None], se: list[float | None], points: list[str], selection: str,
        variant: str | None,
    ) -> None:
        self.measure, self.layers, self.values, self.se, self.points = measure, layers, values, se, points
        self.selection, self.variant = selection, variant

    def __iter__(self) -> Iterator[list[Any]]:
        return iter((self.layers, self.values))

    def __len__(self) -> int:
        return 2

    def __repr__(self) -> str:
        variant = f", {self.variant}" if self.variant else ""
        pairs = ", ".join(f"{layer}: {'-' if value is None else format(value, '.4g')}" for layer, value in zip(self.layers, self.values))
        return f"{self.measure}{variant}, {self.selection}: {pairs}"


class Run:
    """A finished run: its tables, figures and report.

    `layers` has a row per layer, selection and measure; `groups` one per layer and token; `components` one per layer and component.
    `spectra` has the eigenvalues of the covariance, `tokens` the kept states of chosen tokens, projected to two dimensions,
    `token_components` the components of these tokens, `massive` the states whose norm is far above the median, and `norms` statistics of
    every gamma and beta. A table is None if its measures were not computed. Each table is a `Table`: Arrow-compatible, without pyarrow.

    >>> import layerscope as ls
    >>> run = ls.measure("pocket-gpt", corpus="pocket/corpus/held-out.txt", limit=50, frequency="2:1000")
    >>> run
    pocket-gpt (...), 6 layers of width 128
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
        manifest, tables, self._lead = _layerscope.read_run(str(self.folder))
        self.manifest = json.loads(manifest)
        for name in ("layers", "groups", "components", "spectra", "tokens", "token_components", "massive", "norms"):
            setattr(self, name, Table(tables[name]) if name in tables else None)

    @property
    def model(self) -> str:
        """The model's short name."""
        return self.manifest["model"]["name"]

    @property
    def parts(self) -> dict[str, Run]:
        """The runs of a run that was measured with ``split="column:NAME"``, by the values of the column; otherwise empty."""
        return {part["value"]: Run(self.folder / part["folder"]) for part in self.manifest.get("split") or []}

    @property
    def warnings(self) -> list[str]:
        """Warnings to read before you trust the numbers."""
        return [_layerscope.with_keywords(warning) for warning in self.manifest.get("warnings") or []]

    @hinting()
    def value(
        self,
        measure: str,
        *,
        layer: int | None = None,
        point: str | None = None,
        selection: str | None = None,
        variant: str | None = None,
        states: str | None = None,
        step: int | None = None,
    ) -> float | None:
        """Return one value of the table `layers`, or None if it is undefined.

        What you leave out is what the printed run shows: its states ("typical" where massive ones carry more than a tenth of Q, otherwise
        "all"), the selected groups where the measure has them, then all states, then the kept sample; and the plain variant, or the first.
        Without `point` you get the layer as the reference library's ``hidden_states`` has it: the last one after the final norm, where there is
        one; ``point="block"`` gives the block's own output. You can leave out `step` if the run is not of a training. A `selection` without `states` is
        one of the table: "all", "selected", "sample", "typical", "typical_selected" or "typical_sample". If nothing fits, the error lists what
        there is. `layerscope.measures()` lists the names of measures and variants.

        >>> import layerscope as ls
        >>> run = ls.measure("pocket-bert", texts=["The cat sat on the mat."] * 9, measures="norm,spectrum", frequency="2:100")
        >>> run.value("q", layer=3) == run.value("q", layer=3, selection="selected")
        True
        >>> run.value("anisotropy_svd", layer=3) == run.value("anisotropy_svd", layer=3, selection="all", variant="corpus")
        True
        >>> run.value("anisotropy_svd", layer=7)
        Traceback (most recent call last):
        ...
        layerscope._errors.UsageError: anisotropy_svd has no layer 7; it has 0, 1, 2, 3, 4, 5, 6
        """
        return self.layers._native.ask(
            self._lead, measure=measure, layer=layer, point=point, selection=selection, variant=variant, states=states, step=step
        )

    @hinting()
    def curve(
        self,
        measure: str,
        *,
        point: str | None = None,
        selection: str | None = None,
        variant: str | None = None,
        states: str | None = None,
        step: int | None = None,
    ) -> Curve:
        """Return a measure along the layers: `layers`, `values` and what they are over.

        What you leave out is chosen as by `value`. The last value is after the final norm, where there is one, as in the reference library's
        ``hidden_states``; ``point="block"`` gives the blocks' own outputs. A run of a training gives its last step.

        >>> import layerscope as ls
        >>> run = ls.measure("pocket-gpt", texts=["The cat sat on the mat."] * 9, measures="mean_cosine", frequency="2:100")
        >>> layers, values = run.curve("mean_cosine")
        >>> layers
        [0, 1, 2, 3, 4, 5, 6]
        >>> values[3] == run.value("mean_cosine", layer=3)
        True
        >>> run.curve("mean_cosine").selection
        'selected'
        """
        rows, found, kind = self.layers._native.ask_curve(
            self._lead, measure=measure, point=point, selection=selection, variant=variant, states=states, step=step
        )
        table = Table(rows)
        return Curve(measure, table["layer"], table["value"], table["se"], table["point"], found, kind)

    @hinting()
    def summary(self, *, states: str | None = None) -> str:
        """Return a short text: a few lines on what was measured, then a line per layer.

        `states` is "typical" (without the few massive states that may hide the others) or "all". By default the text is about typical states
        where massive ones carry more than a tenth of Q.
        """
        return _layerscope.overview(str(self.folder), states)

    @hinting()
    def figures(
        self,
        out: str | os.PathLike[str],
        *,
        only: str | Sequence[str] = (),
        layers: Sequence[int] = (),
        tokens: Sequence[str] = (),
        frequency: str | None = None,
        states: str | None = None,
        depth: str | None = None,
        theme: str = "light",
        width_mm: str | float | None = None,
        title: str | None = None,
    ) -> list[Path]:
        """Draw every figure that the run supports, as SVG, PDF, PNG and CSV. Return the files. See `layerscope.figures`."""
        return figures(
            [self], out, only=only, layers=layers, tokens=tokens, frequency=frequency, states=states, depth=depth, theme=theme,
            width_mm=width_mm, title=title,
        )

    @hinting()
    def report(
        self,
        out: str | os.PathLike[str] = "report.html",
        *,
        only: str | Sequence[str] = (),
        frequency: str | None = None,
        title: str | None = None,
    ) -> Path:
        """Write a self-contained page in which you can explore the run. Return its path. See `layerscope.report`."""
        return report([self], out, only=only, frequency=frequency, title=title)

    @hinting()
    def prune(self, keep: str = "all", *, states: str | None = None) -> str:
        """Free disk space, and return what was freed in a line.

        `keep` is "tables" (the states go: tables, figures and reports stay; merging and other frequencies need a new measurement), "merge" (the
        states stay too) or "all" (only unfinished files go). `states` says how kept states are stored: "plain" (any safetensors reader opens
        them), "packed" (a sixth smaller, without loss) or "f16" (half, rounded; refused where a state is too large for it).
        """
        line = _layerscope.prune(self._place, keep, states)
        self.manifest = json.loads(_layerscope.read_run(str(self.folder))[0]) if self._copy is None else self.manifest
        return line

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
    layerscope._errors.FileError: nowhere: there is no such folder
    """
    return Run(folder)


@hinting()
def figures(
    runs: Sequence[Run | str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    only: str | Sequence[str] = (),
    layers: Sequence[int] = (),
    tokens: Sequence[str] = (),
    frequency: str | None = None,
    states: str | None = None,
    depth: str | None = None,
    theme: str = "light",
    width_mm: str | float | None = None,
    title: str | None = None,
) -> list[Path]:
    """Draw every figure that the runs support into the folder `out`. Return the files.

    Each figure is written as SVG, PDF and PNG, with the plotted numbers as CSV. Figures a run does not support are skipped.

    `only` selects figures ("fig2,fig5" or a list). `layers` and `tokens` select what figures of single layers or tokens show. `frequency` is
    MIN:MAX, the range of n_t of the selected groups. `states` is "typical" (without the few massive states that may hide the others) or "all";
    by default typical states are shown where massive ones carry more than a tenth of Q. `depth` is "layer" (the default) or
    "relative": where figures along the layers put a layer. `theme` is light, dark or print. `width_mm` is a number, or a name such as
    "acl-column". `title` is a line above every figure.
    """
    written, _ = _layerscope.figures(
        _folders(runs), Path(out), _names(only), list(layers), list(tokens), frequency, states, depth, theme,
        None if width_mm is None else str(width_mm), title,
    )
    return [Path(file) for file in written]


@hinting()
def report(
    runs: Sequence[Run | str | os.PathLike[str]],
    out: str | os.PathLike[str] = "report.html",
    *,
    only: str | Sequence[str] = (),
    frequency: str | None = None,
    title: str | None = None,
) -> Path:
    """Write a page in which you can explore the runs. Return its path.

    The page is a single file, `out`, that opens from disk and needs no network. `only` selects views by their tabs ("tokens,layers" or a
    list): the file then holds only what they need. `frequency` is MIN:MAX, the range of n_t of the groups that
    regressions use at first; you can change it on the page. `title` is the title of the page.
    """
    _layerscope.report(_folders(runs), Path(out), _names(only), frequency, title)
    return Path(out)


def _names(only: str | Sequence[str]) -> list[str]:
    names = only.split(",") if isinstance(only, str) else list(only)
    return [name for name in names if name]


def _folders(runs: Run | str | os.PathLike[str] | Sequence[Run | str | os.PathLike[str]]) -> list[str]:
    if isinstance(runs, (Run, str, os.PathLike)):
        runs = [runs]
    return [str(run.folder) if isinstance(run, Run) else _place(run) for run in runs]


def _place(folder: str | os.PathLike[str]) -> str:
    """Return a folder or an address as text. A Path would drop a slash of an address."""
    return os.fspath(folder)
