"""The same measurement on a Ray cluster: one task a shard, merged in a tree as shards finish.

>>> from layerscope import ray as lsray
>>> run = lsray.measure("pocket-gpt", "pocket/corpus/held-out.txt", "runs/gpt", workers=64, gpus_per_worker=1)  # doctest: +SKIP

or ``python -m layerscope.ray --workers 64 --model M --corpus C --out DIR``. `out` is a folder that all nodes see, or an address such as
"s3://bucket/run" that all nodes can reach. Documents are split by the same keyed hash as with ``--shard``, so the tables are those of a single machine. A
task that is lost with its worker is tried again and goes on from its own checkpoint; the same call after a failure or Ctrl-C repeats
nothing that was finished.
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

#: Seconds between two looks at the progress of all shards.
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
    """Measures a corpus through a model on a Ray cluster; returns the run of the whole.

    `out` is a folder that all nodes see, or an address in an object store. `workers` is the number of shards, each a task with `cpus_per_worker` and
    `gpus_per_worker`. `address` is a running cluster ("auto" for the one this machine belongs to); without it the cluster of this process is used, or a
    local one started. A task whose worker dies is tried `retries` times more. `progress` shows a line for the whole cluster; `keep_shards`
    leaves the runs of the shards in ``out/shards``. Settings are those of `layerscope.measure`.
    """
    import ray

    if workers < 1:
        raise UsageError(f"workers is {workers}; give at least 1")
    for name in ("shard", "out"):
        if name in settings:
            raise UsageError(f"{name} is decided here; leave it out")
    started = _connect(ray, address)
    try:
        overwrite = bool(settings.pop("overwrite", False))
        out = _everywhere(out)
        task = _task(model, corpus, cpus_per_worker, settings)
        if overwrite:
            # Here and not in the tasks: one that is tried again goes on from its checkpoint. The merge replaces the rest.
            _layerscope.remove(_shards(out))
        elif _is_complete(out):
            return _measure_here(out=out, progress=False, **task)  # refuses a run of other settings, and has nothing else to do
        resources = {"num_cpus": cpus_per_worker, "num_gpus": gpus_per_worker, "max_retries": retries}
        return _on_cluster(ray, out, task, workers, resources, progress, keep_shards)
    finally:
        if started:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> bool:
    """Joins the cluster; whether a local one was started."""
    if ray.is_initialized():
        return False
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "warning"}
    if address is not None or os.environ.get("RAY_ADDRESS"):
        ray.init(address=address or "auto", log_to_driver=False, logging_level="warning")
    else:
        ray.init(address="local", object_store_memory=128 * 2**20, **quiet)
    return True


def _task(model: Any, corpus: Any, cpus: float, settings: dict[str, Any]) -> dict[str, Any]:
    """What every shard is measured with, in words that mean the same on every node."""
    model = os.fspath(model)
    texts = [path if "://" in path or path == "-" else os.path.abspath(path) for path in _paths(corpus)]
    if "-" in texts:
        raise UsageError("a cluster cannot read standard input; give files or addresses")
    threads = {"threads": max(1, int(cpus))}
    return {"model": os.path.abspath(model) if os.path.isdir(model) else model, "corpus": texts, **threads, **settings}


def _everywhere(place: str | os.PathLike[str]) -> str:
    """A folder or an address by a name that means the same on every node."""
    place = os.fspath(place)
    return place.rstrip("/") if "://" in place else os.path.abspath(place)


def _shards(out: str) -> str:
    """Where the runs of the shards are: in the folder, or beside the address, so that the run there is whole without them."""
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
    # The tree depends on the number of shards alone, so that the order in which they finish changes nothing.
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
        stopped = Interrupted(f"interrupted: finished shards and checkpoints are in {work}; the same call goes on")
        stopped.out = out
        raise stopped from None
    except ray.exceptions.RayTaskError as failure:
        cause = failure.cause
        if isinstance(cause, Error):
            raise cause from None
        raise Error(f"a task failed: {str(cause).strip().splitlines()[-1] if str(cause).strip() else type(cause).__name__}") from failure
    except ray.exceptions.RayError as failure:
        line = str(failure).strip().splitlines()[0]
        raise Error(f"the cluster lost a task more often than it was tried again ({line}); the same call goes on") from failure
    if not keep_shards:
        _layerscope.remove(work)
    return Run(out)


def _shard(task: dict[str, Any], place: int, workers: int, work: str) -> str:
    """One shard, from its own checkpoint if there is one; the folder of its run."""
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
    """Some shards, or parts merged before, into one."""
    if partial and os.path.exists(f"{out}/state.safetensors"):
        return out
    if partial:
        _layerscope.merge_part(folders, out, call)
    else:
        _layerscope.merge(folders, out, True, call)
    return out


def _wait(ray: Any, whole: Any, parts: list[Any], work: str, progress: bool | None) -> None:
    """Until everything is merged; shows how far the cluster is."""
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
    """Tokens done and known of, over all shards; nothing where they do not share a folder."""
    done = total = 0
    for path in glob.glob(f"{glob.escape(work)}/progress-*.json"):
        try:
            with open(path) as file:
                progress = json.load(file)
        except (OSError, ValueError):
            continue  # it is being replaced
        done += int(progress.get("tokens") or 0)
        total += int(progress.get("total_tokens") or 0)
    return done, total


def main(words: Sequence[str] | None = None) -> int:
    """``python -m layerscope.ray``: the flags of ``layerscope measure``, and those of the cluster."""
    parser = argparse.ArgumentParser(prog="python -m layerscope.ray", description=__doc__.split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--workers", type=int, default=2, help="number of shards, a task each [2]")
    parser.add_argument("--cpus-per-worker", type=float, default=1, help="[1]")
    parser.add_argument("--gpus-per-worker", type=float, default=0, help="[0]")
    parser.add_argument("--address", help="a running cluster, or auto; a local one is started without it")
    parser.add_argument("--retries", type=int, default=3, help="how often a lost task is tried again [3]")
    parser.add_argument("--keep-shards", action="store_true", help="leave the runs of the shards in OUT/shards")
    parser.epilog = "All other flags are those of `layerscope measure`: --model, --corpus, --out and so on."
    cluster, rest = parser.parse_known_args(words)
    # Workers look for modules beside the program they work for, and would find this file in place of Ray.
    sys.argv[0] = "layerscope.ray"
    settings = _flags(parser, rest)
    for needed in ("model", "corpus", "out"):
        if needed not in settings:
            parser.error(f"--{needed} is needed")
    try:
        print(measure(**vars(cluster), **settings).summary())
    except Error as error:
        print(f"layerscope: {error}", file=sys.stderr)
        kinds = {"UsageError": 2, "ModelError": 3, "CorpusError": 4, "RefusedError": 5, "Interrupted": 6}
        return kinds.get(type(error).__name__, 1)
    return 0


def _flags(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, Any]:
    """``--name value ...`` as settings."""
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
