"""A local cluster of two workers gives the run of a single machine, whatever happens to its workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import layerscope as ls
import pytest
from conftest import HELD_OUT, ROOT
from processes import holder

ray = pytest.importorskip("ray")
from layerscope import ray as lsray  # noqa: E402

SAMPLE = str(ROOT / "pocket/corpus/sample.txt.gz")
SETTINGS = {"limit": 150, "measures": "norm,cosine,spectrum", "frequency": "3:1000", "batch_tokens": 128, "tokens": "none"}


@pytest.fixture(scope="module")
def cluster():
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def whole():
    return ls.measure("pocket-bert", HELD_OUT, progress=False, **SETTINGS)


def assert_same(run, whole):
    for name in ("layers", "groups", "components", "spectra"):
        assert (getattr(run, name) is None) == (getattr(whole, name) is None), name
        ours, theirs = list(getattr(run, name) or []), list(getattr(whole, name) or [])
        assert len(ours) == len(theirs), name
        for one, other in zip(ours, theirs):
            for column, value in one.items():
                if isinstance(value, float):
                    assert value == pytest.approx(other[column], rel=1e-9, abs=1e-9), (name, column, one)
                else:
                    assert value == other[column], (name, column)


@pytest.mark.parametrize("workers", [2, 5])
def test_a_cluster_gives_the_run_of_one_machine(cluster, whole, tmp_path, workers, capfd):
    run = lsray.measure("pocket-bert", HELD_OUT, tmp_path / "run", workers=workers, progress=True, **SETTINGS)
    assert_same(run, whole)
    assert run.manifest["corpus"]["documents"] == whole.manifest["corpus"]["documents"]
    assert not (tmp_path / "run/shards").exists()
    assert f"of {workers} shards" in capfd.readouterr().err
    before = (tmp_path / "run/state.safetensors").stat().st_mtime_ns
    again = lsray.measure("pocket-bert", HELD_OUT, tmp_path / "run", workers=workers, **SETTINGS)
    assert again.layers["value"] == run.layers["value"]
    assert (tmp_path / "run/state.safetensors").stat().st_mtime_ns == before, "a finished run is not measured again"
    assert not any((tmp_path / "run").rglob("shard-*"))
    with pytest.raises(ls.RefusedError, match="holds another run: .*seed"):
        lsray.measure("pocket-bert", HELD_OUT, tmp_path / "run", workers=workers, seed=5, **SETTINGS)
    if workers == 2:
        other = lsray.measure("pocket-bert", HELD_OUT, tmp_path / "run", workers=2, overwrite=True, **{**SETTINGS, "limit": 20})
        assert other.manifest["corpus"]["documents"] == 20


def saved(checkpoint):
    """How many batches a checkpoint knows; None while it is not there."""
    try:
        with open(checkpoint, "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    except (OSError, ValueError):
        return None
    return json.loads(header["__metadata__"]["details"])["next"]


def test_a_killed_worker_is_tried_again_from_its_checkpoint(cluster, tmp_path):
    """Ends the process of a worker that holds the lock of a shard, once that shard has a checkpoint; the next one goes on behind it."""
    settings = {**SETTINGS, "limit": 6000, "measures": "norm,cosine", "batch_tokens": 512, "checkpoint_seconds": 0.05}
    shards, killed, then = tmp_path / "run/shards", [], []

    def kill():
        while not killed:
            for checkpoint in shards.glob("shard-*/.work/checkpoint-*.safetensors"):
                worker = holder(str(checkpoint.with_name("lock")))
                if worker is not None and worker != os.getpid():
                    os.kill(worker, signal.SIGKILL)
                    killed.append(checkpoint.parent)
                    break
            time.sleep(0.002)
        known = {saved(checkpoint) for checkpoint in killed[0].glob("checkpoint-*.safetensors")} - {None}
        while not then and not (killed[0].parent / "manifest.json").exists():
            later = {saved(checkpoint) for checkpoint in killed[0].glob("checkpoint-*.safetensors")} - {None} - known
            then.extend((number, max(known)) for number in later)
            time.sleep(0.002)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    run = lsray.measure("pocket-bert", SAMPLE, tmp_path / "run", workers=2, keep_shards=True, **settings)
    thread.join(60)
    assert killed, "no worker was caught in the act"
    number, before = then[0]
    assert number > before > 0, "the next worker was to go on behind the checkpoint"
    whole = ls.measure("pocket-bert", SAMPLE, progress=False, **settings)
    assert_same(run, whole)
    assert run.manifest["corpus"]["documents"] == whole.manifest["corpus"]["documents"] == 6000
    assert {folder.name for folder in shards.glob("shard-*") if (folder / "manifest.json").exists()} == {"shard-0", "shard-1"}


def test_errors_of_tasks_are_ours(cluster, tmp_path):
    with pytest.raises(ls.CorpusError, match="no-such-file"):
        lsray.measure("pocket-bert", "no-such-file.txt", tmp_path / "run", workers=2)
    with pytest.raises(ls.UsageError, match="sets shard itself"):
        lsray.measure("pocket-bert", HELD_OUT, tmp_path / "run", shard="0/2")
    with pytest.raises(ls.UsageError, match="at least 1"):
        lsray.measure("pocket-bert", HELD_OUT, tmp_path / "run", workers=0)
    with pytest.raises(ls.UsageError, match="standard input"):
        lsray.measure("pocket-bert", "-", tmp_path / "run")


@pytest.mark.parametrize("running", [False, True])
def test_the_command_starts_a_cluster_or_joins_one(cluster, whole, tmp_path, running):
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words = ["-m", "layerscope.ray", "--workers", "2", "--model", "pocket-bert", "--corpus", HELD_OUT, "--out", str(tmp_path / "run"), *flags]
    if running:
        words += ["--address", cluster.get_runtime_context().gcs_address]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert_same(ls.load(tmp_path / "run"), whole)
    assert done.stdout.startswith("pocket-bert (bert), 6 layers")
    wrong = subprocess.run([sys.executable, "-m", "layerscope.ray", "--model", "x"], capture_output=True, text=True, timeout=600)
    assert wrong.returncode == 2 and "--corpus is required" in wrong.stderr
