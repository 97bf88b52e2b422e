"""Tables: Arrow-compatible, without pyarrow."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _layerscope

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """A table with named columns of text, integers and reals. Undefined values are null, never NaN.

    Any library that supports the Arrow PyCapsule interface (``__arrow_c_stream__``) can read a table. The table itself needs no library:

    >>> import layerscope as ls
    >>> table = ls.measures()
    >>> table.column_names[:2]
    ['measure', 'family']
    >>> table["measure"][:3]
    ['q', 'm', 'v']

    ``pyarrow.table(table)``, ``polars.DataFrame(table)`` and DuckDB accept it directly. You can also call `to_pandas`, `to_polars` or
    `to_pyarrow`.
    """

    def __init__(self, native: _layerscope.NativeTable) -> None:
        self._native = native

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__()

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, name: str) -> list[Any]:
        return self._native.column(name)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        columns = self.to_dict()
        names = list(columns)
        return (dict(zip(names, row)) for row in zip(*columns.values()))

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return self._native.names()

    def to_dict(self) -> dict[str, list[Any]]:
        """Return every column as a list. Undefined values are None."""
        return {name: self._native.column(name) for name in self.column_names}

    def to_text(self, format: str = "md", rows: int | None = None) -> str:
        """Return the table as text: ``md``, ``csv``, ``json``, ``jsonl`` or ``latex``. If given, only the first `rows` rows."""
        return self._native.text(format, rows)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame. Integers with missing values become ``Int64``."""
        import pandas

        columns = {}
        for name, kind in zip(self.column_names, self._native.kinds()):
            values = self._native.column(name)
            if kind == "integer":
                columns[name] = pandas.array(values, dtype="Int64" if None in values else "int64")
            elif kind == "real":
                columns[name] = pandas.array([float("nan") if value is None else value for value in values], dtype="float64")
            else:
                columns[name] = pandas.Series(values, dtype="object" if not values else None)
        return pandas.DataFrame(columns)

    def to_polars(self) -> polars.DataFrame:
        """Return the table as a polars data frame."""
        import polars

        return polars.DataFrame(self)

    def to_pyarrow(self) -> pyarrow.Table:
        """Return the table as a pyarrow table."""
        import pyarrow

        return pyarrow.table(self)

    def __repr__(self) -> str:
        shown = self.to_text("md", 10).rstrip()
        more = f"\n... {len(self)} rows" if len(self) > 10 else ""
        return shown + more

    def _repr_html_(self) -> str:
        names, kinds, rows = self.column_names, self._native.kinds(), min(len(self), 10)
        columns = [self._native.column(name)[:rows] for name in names]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(_cell(value, kind) for value, kind in zip(row, kinds)) + "</tr>" for row in zip(*columns)
        )
        note = f"<caption style='caption-side:bottom'>{len(self)} rows</caption>" if len(self) > rows else ""
        return f"<table>{note}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object, kind: str) -> str:
    if value is None:
        return "<td></td>"
    if kind == "real":
        return f"<td style='text-align:right'>{value:.6g}</td>"
    if kind == "integer":
        return f"<td style='text-align:right'>{value}</td>"
    return f"<td style='text-align:left'>{html.escape(str(value))}</td>"
