"""How fast the Collector takes states, beside what the machine can read and what numpy needs for the same sums.

Prints a table; `make bench` runs it with the built wheel. Every thread reads, or feeds to the Collector, an array of its own that no cache holds;
reading is numpy's maximum. numpy's equivalent adds rows, squared norms and unit vectors to their groups with `np.add.at`.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the threads here are our own

import argparse
import itertools
import threading
import time

import layerscope as ls
import numpy as np

GROUPS = (1, 8, 64)


def best(work, times: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def at_once(work, arrays: list[np.ndarray]) -> None:
    """One thread an array."""
    threads = [threading.Thread(target=work, args=(place, array)) for place, array in enumerate(arrays)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]


def read(arrays: list[np.ndarray]) -> None:
    """Reads every array once."""
    at_once(lambda _, x: np.max(x), arrays)


def update(arrays: list[np.ndarray], groups: np.ndarray, batch: int) -> None:
    """Every array through `update`, one layer of one collector for each thread."""
    collector = ls.Collector(dim=arrays[0].shape[1], measures="norm")

    def feed(layer: int, x: np.ndarray) -> None:
        for start in range(0, len(x), batch):
            collector.update(layer, x[start : start + batch], groups[start : start + batch])

    at_once(feed, arrays)


def numpy_bandwidth(x: np.ndarray, groups: np.ndarray) -> float:
    """Bytes per second of the vectorised sums that the norm family needs: sums, squares and unit vectors of every group."""
    count = groups.max() + 1

    def run() -> None:
        wide = x.astype(np.float64)
        norms = np.sqrt((wide**2).sum(axis=1))
        sums, units = np.zeros((count, x.shape[1])), np.zeros((count, x.shape[1]))
        np.add.at(sums, groups, wide)
        np.add.at(units, groups, wide / norms[:, None])
        squares, lengths = np.zeros(count), np.zeros(count)
        np.add.at(squares, groups, norms**2)
        np.add.at(lengths, groups, norms)
        means = sums / np.maximum(np.bincount(groups, minlength=count), 1)[:, None]
        deviations = np.zeros(count)
        np.add.at(deviations, groups, ((wide - means[groups]) ** 2).sum(axis=1))

    return x.nbytes / best(run, 2)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000, help="of each array; more than the last cache holds")
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--batches", type=int, nargs="+", default=[4096, 16384], help="rows of an update")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((arguments.rows, arguments.dim), np.float32) for _ in range(cores)]
    x = arrays[0]
    groups = {count: rng.integers(0, count, len(x)) for count in GROUPS}
    print(f"arrays of {x.nbytes / 1e6:.0f} MB, {arguments.dim} components")
    for threads, batch in itertools.product(sorted({1, cores}), arguments.batches):
        some = arrays[:threads]
        works = {"read": lambda: read(some)}
        works |= {count: lambda ids=ids: update(some, ids, batch) for count, ids in groups.items()}
        # In turns, so that a noisy machine is the same for all; what it does only ever makes a round longer.
        taken = {name: [] for name in works}
        for _ in range(arguments.rounds):
            for name, work in works.items():
                taken[name].append(best(work, 1))
        speeds = {name: sum(y.nbytes for y in some) / min(times) for name, times in taken.items()}
        print(f"{threads} threads: read {speeds['read'] / 1e9:37.2f} GB/s")
        for count in GROUPS:
            speed = speeds[count]
            line = f"{threads} threads: updates of {batch:5} rows, {count:2} groups {speed / 1e9:7.2f} GB/s"
            print(f"{line}   {speed / speeds['read']:6.1%} of reading")
    zipf = rng.zipf(1.2, len(x)) % 30_000
    ours = x.nbytes / best(lambda: update(arrays[:1], zipf, arguments.batches[0]), 3)
    theirs = numpy_bandwidth(x[:8192], zipf[:8192])
    print(f"1 thread: update, Zipf groups {ours / 1e9:5.2f} GB/s; numpy's add.at {theirs / 1e9:.3f} GB/s: {ours / theirs:.1f} x as fast")


if __name__ == "__main__":
    main()
