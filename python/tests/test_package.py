"""Documentation that runs: examples in docstrings, and notebooks."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import layerscope as ls
import pytest
from conftest import ROOT

MODULES = ["layerscope", "layerscope._collector", "layerscope._compare", "layerscope._import", "layerscope._measure", "layerscope._run", "layerscope._table"]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
NEEDS_TORCH = ("import torch", "transformers")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testmod(importlib.import_module(name), optionflags=options, raise_on_error=False)
    assert found.attempted > 0 and found.failed == 0


def test_everything_public_is_documented():
    """Every public name says what it is in a sentence, and every argument of a function is spoken of."""
    for name in ls.__all__:
        thing = getattr(ls, name)
        if name == "__version__":
            continue
        text = inspect.getdoc(thing)
        assert text and re.search(r"\w{3,} \w+.*[.:]", text.splitlines()[0]), (name, "its first line says nothing")
        members = [] if not inspect.isclass(thing) else [value for key, value in vars(thing).items() if not key.startswith("_")]
        for member in members:
            described = member.fget if isinstance(member, property) else member
            assert not callable(described) or inspect.getdoc(described), (name, member)
        if inspect.isfunction(thing):
            arguments = set(inspect.signature(thing).parameters) - {"settings"}
            unspoken = {argument for argument in arguments if not re.search(rf"\b{argument}\b", text)}
            assert not unspoken, (name, unspoken)
    assert Path(ls.__file__).with_name("py.typed").exists()


def test_the_reference_is_that_of_this_package():
    """docs/python.md is what `tools/make_api_reference.py` writes."""
    tool = str(ROOT / "tools/make_api_reference.py")
    made = subprocess.run([sys.executable, tool], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    assert (ROOT / "docs/python.md").read_text() == made.stdout, "make reference"
    for name in ls.__all__:
        assert name == "__version__" or f"`{name}" in made.stdout, name


def test_stubs_name_what_the_module_has():
    from layerscope import _layerscope

    tree = ast.parse(Path(ls.__file__).with_name("_layerscope.pyi").read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    present = {name for name in dir(_layerscope) if not name.startswith("_") and name != "VERSION"}
    assert present == set(stubs)
    for name, node in stubs.items():
        if isinstance(node, ast.FunctionDef):
            arguments = list(inspect.signature(getattr(_layerscope, name)).parameters)
            assert arguments == [argument.arg for argument in node.args.args], name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    if any(word in cell.source for cell in notebook.cells for word in NEEDS_TORCH):
        pytest.importorskip("torch")
    monkeypatch.setenv("LAYERSCOPE_REPOSITORY", str(ROOT))
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()


def _blocks(page, language):
    text = (ROOT / page).read_text()
    return [rest.split("\n```")[0] for rest in text.split(f"```{language}\n")[1:]]


def _commands(page):
    return [line.removeprefix("$ ") for block in _blocks(page, "console") for line in block.splitlines()]


def test_the_readme_runs_as_written(capsys):
    scope: dict[str, object] = {}
    for block in _blocks("README.md", "python"):
        exec(compile(block, "README.md", "exec"), scope)
    assert "noise (states from elsewhere), 2 layers of width 64" in capsys.readouterr().out
    assert _commands("README.md") == ["pip install ."]  # how this package came here


def test_the_page_on_clusters_runs_as_written():
    """Its Slurm and Kubernetes commands need a cluster."""
    commands = [command for command in _commands("docs/clusters.md") if command.startswith("python ")]
    assert commands
    for command in commands:
        done = subprocess.run([sys.executable, *command.split()[1:]], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0 and done.stdout, done.stderr
