"""Writes the reference of the Python package to standard output, from its signatures and docstrings: `make reference` keeps docs/python.md."""

from __future__ import annotations

import inspect
import re

import layerscope as ls
from layerscope import ray

SECTIONS = [
    ("Measuring", ["measure", "track", "merge", "weights", "import_states", "measures"]),
    ("Runs", ["load", "Run", "Curve", "Table", "compare", "Comparison", "figures", "report"]),
    ("States from anywhere", ["Collector", "trace", "hook", "Probe", "callback"]),
    ("Errors", ["Error", "UsageError", "ModelError", "CorpusError", "RefusedError", "Interrupted", "FileError", "DefectError"]),
]


def signature(name: str, thing: object) -> str:
    """As one would call it, without the types of what it returns spelled by module."""
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return name
    # Annotations are strings there; defaults that are strings keep their quotes.
    text = re.sub(r"(= '[^']*')|'([^']*)'", r"\1\2", text) if "__future__" in inspect.getsource(inspect.getmodule(thing)) else text
    text = text.replace("(self, ", "(").replace("(self)", "()").replace("str | os.PathLike[str]", "path")
    return f"{name}{text}"


def body(thing: object) -> list[str]:
    """A docstring as Markdown: its examples and its indented lists, with the words over them, are code."""
    text = [line for line in (inspect.getdoc(thing) or "").splitlines() if not re.fullmatch(r"-{3,}|Parameters", line)]
    lines: list[str] = []
    fence = None
    for line, following in zip(text, [*text[1:], ""]):
        if not line:
            wanted = None
        elif line.startswith(">>>"):
            wanted = "```python"
        elif fence == "```python":
            wanted = fence  # what an example prints, up to the next empty line
        elif line.startswith("    ") or following.startswith("    "):
            wanted = "```text"
        else:
            wanted = None
        if wanted != fence:
            lines += (["```"] if fence else []) + ([wanted] if wanted else [])
            fence = wanted
        lines.append(re.sub(r"\s+# doctest: \+SKIP", "", line))
    return lines + (["```"] if fence else [])


def described(name: str, thing: object, level: int) -> list[str]:
    lines = ["", f"{'#' * level} `{signature(name, thing)}`", "", *body(thing)]
    if inspect.isclass(thing) and not issubclass(thing, Exception):
        for method, value in vars(thing).items():
            if method.startswith("_"):
                continue
            if isinstance(value, property):
                lines += ["", f"{'#' * (level + 1)} `{name}.{method}`", "", *body(value.fget)]
            elif inspect.isfunction(value) or isinstance(value, classmethod):
                lines += described(f"{name}.{method}", getattr(thing, method), level + 1)
    return lines


def main() -> None:
    """Prints the whole page."""
    lines = ["# The Python package", "", "`make reference` writes this page from the docstrings; `help()` shows the same text.", "", *body(ls)]
    named = [name for _, names in SECTIONS for name in names]
    missing = set(ls.__all__) - set(named) - {"__version__"}
    if missing:
        raise SystemExit(f"tools/make_api_reference.py has no section for {', '.join(sorted(missing))}")
    for title, names in SECTIONS:
        lines += ["", f"## {title}"]
        for name in names:
            lines += described(name, getattr(ls, name), 3)
    lines += ["", "## Clusters", "", *body(ray), *described("ray.measure", ray.measure, 3)]
    print("\n".join(lines))


if __name__ == "__main__":
    main()
