"""What the tests share. They run from the repository's root, where the pocket models and their corpus are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = str(ROOT / "pocket/corpus/held-out.txt")


@pytest.fixture(autouse=True)
def _at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name in [name for name in os.environ if name.startswith(("SLURM_", "JOB_COMPLETION"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def states():
    """Rows of 3 layers with groups, documents and positions: 60 documents of 5 to 14 rows, one component far from the others."""
    rng = np.random.default_rng(7)
    lengths = rng.integers(5, 15, 60)
    documents = np.repeat(np.arange(60), lengths)
    positions = np.concatenate([np.arange(length) for length in lengths])
    groups = rng.zipf(1.5, len(documents)) % 23
    means = rng.normal(size=(23, 12))
    layers = []
    for layer in range(3):
        x = means[groups] * (layer + 1) + rng.normal(size=(len(groups), 12))
        x[:, 3] += 300 * layer
        layers.append(x.astype(np.float32))
    return layers, groups, documents, positions


def untimed(text):
    """What is shown of a run, without the lines that say how long it took."""
    return [line for line in text.strip().splitlines() if not line.startswith(("time: ", "      "))]
