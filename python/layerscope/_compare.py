"""Compare runs side by side."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import _layerscope
from ._keywords import hinting
from ._run import Run, _folders, figures
from ._table import Table


class Comparison:
    """The same measures of several runs, matched by depth. `compare` returns it.

    `table` has a row for each measure at each place of every run but the first. A row has the run's own value (``run, layer, point, depth,
    selection, measure, variant, step, value, se, n``), the first run's value at the same depth (``first_value`` and so on), the
    ``difference``, its standard error (``difference_se``) and where that error comes from (``difference_error``).

    `labels` are the names of the runs. `notes` list other differences between the runs, which may explain differences in the numbers.
    """

    labels: list[str]
    notes: list[str]
    table: Table

    def __init__(self, folders: list[str], labels: list[str], notes: list[str], overview: str, table: Table) -> None:
        self._folders, self._overview = folders, overview
        self.labels, self.notes, self.table = labels, notes, table

    def summary(self) -> str:
        """Return the main measures of all runs, layer by layer, as text."""
        return self._overview

    def figures(self, out: str | os.PathLike[str], **options: Any) -> list[Path]:
        """Draw the figures of all runs. The options are those of `layerscope.figures`."""
        return figures(self._folders, out, **options)

    def __repr__(self) -> str:
        return self._overview

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._overview)}</pre>"


@hinting()
def compare(
    runs: Sequence[Run | str | os.PathLike[str]],
    *,
    measures: str | Sequence[str] = (),
    frequency: str | None = None,
    states: str | None = None,
) -> Comparison:
    """Compare runs with the first one: every measure at every depth, the differences, and their standard errors.

    One run that was measured with ``split`` stands for its parts.

    Layers are matched by relative depth, so you can compare models of different depths. If all runs were measured with ``confidence`` on the
    same text, the standard errors of differences are paired. `measures` selects measures ("q,mean_cosine" or a list). `frequency` is MIN:MAX,
    the range of n_t of the selected groups; it replaces each run's own. `states` is "typical" (without the few massive states that may hide the
    others) or "all", and keeps only their rows. By default the table has both, and the summary shows typical states where massive ones carry
    more than a tenth of Q in one of the runs.

    >>> import layerscope as ls
    >>> one, other = (ls.measure(name, "pocket/corpus/held-out.txt", limit=80, measures="norm") for name in ("pocket-bert", "pocket-gpt"))
    >>> table = ls.compare([one, other], measures="q").table
    >>> row = next(row for row in table if row["run"] == "pocket-gpt" and row["layer"] == 3 and row["selection"] == "all")
    >>> abs(row["difference"] - (other.value("q", layer=3, selection="all") - one.value("q", layer=3, selection="all"))) < 1e-9
    True
    """
    names = measures.split(",") if isinstance(measures, str) else list(measures)
    folders = _folders(runs)
    labels, notes, overview, table = _layerscope.compare(folders, [name for name in names if name], frequency, states)
    return Comparison(folders, labels, notes, overview, Table(table))
