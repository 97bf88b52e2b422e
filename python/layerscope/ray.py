"""Measure on a Ray cluster: one task per shard, merged in a tree as shards finish.

>>> from layerscope import ray as lsray
>>> run = lsray.measure("pocket-gpt", "pocket/corpus/held-out.txt", "runs/gpt", workers=64, gpus_per_worker=1)  # doctest: +SKIP

On the command line, use ``python -m layerscope.ray --workers 64 --model M --corpus C --out DIR``. `out` is a folder that all nodes share, or
an address such as "s3://bucket/run" that all nodes can reach.

Documents are split by the same keyed hash as with ``--shard``, so the tables are those of a single machine. If a task is lost with its worker,
it is tried again and resumes from its own checkpoint. After a failure or Ctrl-C, repeat the call; finished work is not repeated.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import _layerscope
from ._errors import Error, Interrupted, RefusedError, UsageError
from ._measure import _call, _paths, _say
from ._measure import measure as _measure_here
from ._run import Run, load

#: Seconds between updates of the progress line.
_TICK = 0.5


def measure(
    model: str | os.PathLike[str],
    corpus: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    workers: int = 2,
    cpus_per_worker: float = 1,
    gpus_per_worker: float = 0,
    address: str | None = None,
    retries: int = 3,
    progress: bool | None = None,
    keep_shards: bool = False,
    **settings: Any,
) -> Run:
    """Run a corpus through a model on a Ray cluster and measure it. Return the merged run.

    `model`, `corpus` and the settings are those of `layerscope.measure`. `out` is a folder that all nodes share, or an address in an object
    store. `workers` is the number of shards. Each is a task with `cpus_per_worker` and `gpus_per_worker`. If a worker dies, its task is
    tried up to `retries` more times.

    `address` is a running cluster, or "auto" for the one this machine belongs to. Without it, the cluster of this process is used; if there
    is none, a local one is started. `progress` shows one line for the whole cluster. `keep_shards` keeps the runs of the shards in
    ``out/shards``.
    """
    import ray

    if workers < 1:
        raise UsageError(f"workers is {workers}; give at least 1")
    for name in ("shard", "out"):
        if name in settings:
            raise UsageError(f"layerscope.ray sets {name} itself; leave it out")
    started = _connect(ray, address)
    try:
        overwrite = bool(settings.pop("overwrite", False))
        out = _everywhere(out)
        task = _task(model, corpus, cpus_per_worker, settings)
        if overwrite:
            # Not in the tasks: a task that is tried again resumes from its checkpoint. The merge replaces the rest.
            _layerscope.remove(_shards(out))
        elif _is_complete(out):
            return _measure_here(out=out, progress=False, **task)  # only refuses a run with other settings
        resources = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker, "max_retries": retries}
        return _on_cluster(ray, out, task, workers, resources, progress, keep_shards)
    finally:
        if started:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> bool:
    """Connect to the cluster. Return whether this call did so, and must disconnect."""
    if ray.is_initialized():
        return False
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}
    if address is not None or os.environ.get("RAY_ADDRESS"):
        ray.init(address=address or "auto", log_to_driver=False, logging_level="warning")
    else:
        ray.init(address="local", object_store_memory=128 * 2**20, **quiet)
    return True


def _task(model: Any, corpus: Any, cpus: float, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of every shard, with paths that are valid on every node."""
    model = os.fspath(model)
    texts = [path if "://" in path or path == "-" else os.path.abspath(path) for path in _paths(corpus)]
    if "-" in texts:
        raise UsageError("a cluster cannot read standard input; give files or addresses")
    threads = {"threads": max(1, int(cpus))}
    return {"model": os.path.abspath(model) if os.path.isdir(model) else model, "corpus": texts, **threads, **settings}


def _everywhere(place: str | os.PathLike[str]) -> str:
    """Return a folder or an address as a path that is valid on every node."""
    place = os.fspath(place)
    return place.rstrip("/") if "://" in place else os.path.abspath(place)


def _shards(out: str) -> str:
    """Return where the runs of the shards are: inside a folder, but next to an address, so that the run there contains nothing else."""
    return f"{out}.shards" if "://" in out else os.path.join(out, "shards")


def _is_complete(out: str) -> bool:
    if "://" not in out:
        return os.path.exists(os.path.join(out, "manifest.json"))
    try:
        load(out)
    except RefusedError:
        return False
    return True


def _on_cluster(
    ray: Any, out: str, task: dict[str, Any], workers: int, resources: dict[str, Any], progress: bool | None, keep_shards: bool
) -> Run:
    work = _shards(out)
    if "://" not in out:
        os.makedirs(work, exist_ok=True)
    call = _call("ray.measure", {**task, "workers": workers})
    shard = ray.remote(_shard).options(**resources)
    merge = ray.remote(_merge).options(num_cpus=1, max_retries=resources["max_retries"])
    parts = [shard.remote(task, place, workers, work) for place in range(workers)]
    level, depth = list(parts), 0
    # The tree depends only on the number of shards, so the order in which they finish changes nothing.
    while len(level) > 2:
        depth += 1
        level = [
            merge.remote(f"{work}/joined-{depth}-{place}", True, call, *level[place : place + 2]) for place in range(0, len(level), 2)
        ]
    whole = merge.remote(out, False, call, *level)
    try:
        _wait(ray, whole, parts, work, progress)
        ray.get(whole)
    except KeyboardInterrupt:
        for part in [*parts, whole]:
            ray.cancel(part)
        stopped = Interrupted(f"interrupted: finished shards and checkpoints are in {work}; repeat the call to resume")
        stopped.out = out
        raise stopped from None
    except ray.exceptions.RayTaskError as failure:
        cause = failure.cause
        if isinstance(cause, Error):
            raise cause from None
        raise Error(f"a task failed: {str(cause).strip().splitlines()[-1] if str(cause).strip() else type(cause).__name__}") from failure
    except ray.exceptions.RayError as failure:
        line = str(failure).strip().splitlines()[0]
        raise Error(f"a task was lost and has no retries left ({line}); repeat the call to resume") from failure
    if not keep_shards:
        _layerscope.remove(work)
    return Run(out)


def _shard(task: dict[str, Any], place: int, workers: int, work: str) -> str:
    """Measure one shard, from its own checkpoint if there is one. Return the folder of its run."""
    heard = f"{work}/progress-{place}.json"

    def say(event: dict[str, Any]) -> None:
        if "progress" in event and "://" not in work:
            with open(heard + ".partial", "w") as file:
                json.dump(event["progress"], file)
            os.replace(heard + ".partial", heard)

    folder = f"{work}/shard-{place}"
    _measure_here(out=folder, shard=f"{place}/{workers}", progress=say, **task)
    return folder


def _merge(out: str, partial: bool, call: list[str], *folders: str) -> str:
    """Merge shards, or parts that were merged before. Return the folder."""
    if partial and os.path.exists(f"{out}/state.safetensors"):
        return out
    if partial:
        _layerscope.merge_part(folders, out, call)
    else:
        _layerscope.merge(folders, out, True, False, call)
    return out


def _wait(ray: Any, whole: Any, parts: list[Any], work: str, progress: bool | None) -> None:
    """Wait until everything is merged, and show the progress of the cluster."""
    if progress is None:
        progress = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    start = time.monotonic()
    while True:
        done, _ = ray.wait([whole], timeout=_TICK)
        if progress:
            finished = len(ray.wait(parts, num_returns=len(parts), timeout=0)[0])
            tokens, total = _tokens(work)
            rate = tokens / max(time.monotonic() - start, 1e-9)
            counted = f", {tokens:,} of {total:,} tokens, {rate:,.0f} tokens/s" if total else ""
            _say(f"\r\x1b[Kmeasuring on the cluster: {finished} of {len(parts)} shards{counted}")
        if done:
            if progress:
                _say("\r\x1b[K")
            return


def _tokens(work: str) -> tuple[int, int]:
    """Return the tokens done and the known total, over all shards. Both are 0 if `work` is at an address."""
    done = total = 0
    for path in glob.glob(f"{glob.escape(work)}/progress-*.json"):
        try:
            with open(path) as file:
                progress = json.load(file)
        except (OSError, ValueError):
            continue  # the file is being replaced
        done += int(progress.get("tokens") or 0)
        total += int(progress.get("total_tokens") or 0)
    return done, total


def main(words: Sequence[str] | None = None) -> int:
    """Run ``python -m layerscope.ray``: the flags of ``layerscope measure``, and those of the cluster."""
    parser = argparse.ArgumentParser(prog="python -m layerscope.ray", description=__doc__.split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=2, help="number of shards, one task each [2]")
    parser.add_argument("--cpus-per-worker", type=float, default=1, help="CPUs per task [1]")
    parser.add_argument("--gpus-per-worker", type=float, default=0, help="GPUs per task [0]")
    parser.add_argument("--address", help="a running cluster, or auto; without it, a local one is started")
    parser.add_argument("--retries", type=int, default=3, help="how many times a lost task is tried again [3]")
    parser.add_argument("--keep-shards", action="store_true", help="keep the runs of the shards in OUT/shards")
    parser.epilog = "All other flags are those of `layerscope measure`: --model, --corpus, --out and so on."
    cluster, rest = parser.parse_known_args(words)
    # Workers look for modules next to the program, and would find this file instead of Ray.
    sys.argv[0] = "layerscope.ray"
    settings = _flags(parser, rest)
    for needed in ("model", "corpus", "out"):
        if needed not in settings:
            parser.error(f"--{needed} is required")
    try:
        print(measure(**vars(cluster), **settings).summary())
    except Error as error:
        print(f"layerscope: {error}", file=sys.stderr)
        kinds = {"UsageError": 2, "ModelError": 3, "CorpusError": 4, "RefusedError": 5, "Interrupted": 6}
        return kinds.get(type(error).__name__, 1)
    return 0


def _flags(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, Any]:
    """Parse ``--name value ...`` into settings."""
    settings: dict[str, Any] = {}
    name = None
    for word in words:
        if word.startswith("--"):
            flag, given, value = word[2:].partition("=")
            name = flag.replace("-", "_")
            settings[name] = [*settings.get(name, []), value] if given else settings.get(name, [])
        elif name is None:
            parser.error(f"{word} is not understood")
        else:
            settings[name].append(word)
    return {name: True if not values else values if name in ("corpus", "ablate") else ",".join(values) for name, values in settings.items()}


if __name__ == "__main__":
    sys.exit(main())
