"""A simulated cluster of three nodes loses one and finishes."""

from __future__ import annotations

import os
import threading

import layerscope as ls
from conftest import ROOT
from processes import holder

SAMPLE = str(ROOT / "pocket/corpus/sample.txt.gz")
SETTINGS = {"limit": 12000, "measures": "norm", "batch_tokens": 512, "tokens": "none", "checkpoint_seconds": 0.1, "frequency": "3:1000"}


def test_a_cluster_loses_a_node_and_finishes(tmp_path):
    import ray
    from layerscope import ray as lsray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 80 * 2**20})
    others = [cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        shards, lost = tmp_path / "run/shards", []

        def lose():
            # One processor a node and three shards: each node has one of them once all three have begun.
            workers = {}
            while len(workers) < 3:
                workers = {lock.parts[-3]: pid for lock in shards.glob("shard-*/.work/lock") if (pid := holder(str(lock)))}
            cluster.remove_node(others[0], allow_graceful=False)
            while not lost:
                gone = [shard for shard, pid in workers.items() if not os.path.exists(f"/proc/{pid}")]
                lost.extend(shard for shard in gone if not (shards / shard / "manifest.json").exists())

        thread = threading.Thread(target=lose, daemon=True)
        thread.start()
        run = lsray.measure("pocket-bert", SAMPLE, tmp_path / "run", workers=3, retries=5, **SETTINGS)
        thread.join(60)
        assert len(lost) == 1, "the node was to be lost with a shard that was not finished"
    finally:
        ray.shutdown()
        cluster.shutdown()
    whole = ls.measure("pocket-bert", SAMPLE, progress=False, **SETTINGS)
    assert run.manifest["corpus"]["states"] == whole.manifest["corpus"]["states"]
    for name in ("layers", "groups"):
        for ours, theirs in zip(getattr(run, name), getattr(whole, name), strict=True):
            for column, value in ours.items():
                if isinstance(value, float):
                    assert abs(value - theirs[column]) <= 1e-9 * max(1, abs(value)), (name, column, ours)
                else:
                    assert value == theirs[column], (name, column, ours)
