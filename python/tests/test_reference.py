"""Our engine on the reference library's checkpoints against its own states, fed to a Collector."""

from __future__ import annotations

import layerscope as ls
import numpy as np
import pytest
from reference import assert_agree, prepared

SETTINGS = {"measures": "norm,cosine,spectrum", "frequency": "2:1000"}


@pytest.mark.parametrize("name", ["bert/base", "bert/decoder", "gpt2/causal-lm", "gpt2/published"])
def test_the_engine_agrees_with_the_reference_librarys_states(name, tmp_path):
    texts, golden = prepared(name, tmp_path / "model")
    run = ls.measure(tmp_path / "model", tmp_path / "model/texts.txt", progress=False, tokens="none", **SETTINGS)
    blocks = max(int(name.split(".")[1]) for name in golden if name.startswith("block."))
    points = [(0, "embedding", "embedding")] + [(layer, "block", f"block.{layer}") for layer in range(1, blocks + 1)]
    if "final_norm.0" in golden:
        points.append((blocks, "final_norm", "final_norm"))
    collector = ls.Collector(dim=golden["embedding.0"].shape[1], **SETTINGS)
    for layer, point, stored in points:
        for document in range(len(texts)):
            ids = golden[f"ids.{document}"]
            rows = golden[f"{stored}.{document}"]
            collector.update(layer, rows, ids, np.full(len(ids), document), np.arange(len(ids)), point=point)
    assert_agree(run, collector.finish())
