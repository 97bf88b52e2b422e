"""One process a model and one GPU: they prepare and compile side by side, but run in turn, so that speeds are true and time is planned."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Callable

TRIALS, TRAINING = "trials", "training"
#: The share of the time that trials may take.
TRIED = 1 / 3


class Turn:
    """A worker's side: waits until the GPU is its own."""

    def __init__(self, connection):
        self.connection = connection

    def take(self, what: str) -> float:
        """How many seconds it has."""
        self.connection.send(what)
        return self.connection.recv()

    def give_back(self) -> None:
        self.connection.send(None)


def share(weights: dict[str, float], deadline: float, work: Callable[[str, Turn, bool], None]) -> list[str]:
    """Runs `work(name, turn, plain)` for every name; after the trials of all, each trains for its share of the time that is left.

    A worker that fails is started once more, `plain`. Returns the names of those that failed twice.
    """
    began, context = time.time(), multiprocessing.get_context("spawn")
    workers, asked, tried, failed, waiting = {}, {}, set(), [], set(weights)

    def start(name: str, plain: bool) -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=run, args=(work, name, theirs, plain))
        process.start()
        theirs.close()
        workers[ours] = (name, process, plain)

    for name in weights:
        start(name, False)
    running = None
    while workers:
        for connection in multiprocessing.connection.wait([*workers]):
            name, process, plain = workers[connection]
            try:
                said = connection.recv()
            except EOFError:
                process.join()
                del workers[connection]
                asked.pop(connection, None)
                running = None if running is connection else running
                waiting.discard(name)
                if process.exitcode:
                    print(f"{name} failed{'' if plain else '; once more, plain'}", flush=True)
                if process.exitcode and plain:
                    failed.append(name)
                elif process.exitcode:
                    waiting.add(name)
                    tried.discard(name)
                    start(name, True)
                continue
            if said is None:
                running = None
            else:
                asked[connection] = said
                tried |= {name} if said == TRAINING else set()
        if running is None and (running := next_of(asked, waiting <= tried)):
            name, what = workers[running][0], asked.pop(running)
            left = deadline - (time.time() - began)
            if what == TRIALS:
                seconds = left * TRIED * weights[name] / sum(weights.values())
            else:
                seconds = left * weights[name] / sum(weights[other] for other in waiting)
                waiting.discard(name)
            print(f"{name}: {what}, {seconds:.0f} of {left:.0f} s", flush=True)
            running.send(seconds)
    return failed


def next_of(asked: dict, all_tried: bool):
    """Who comes next: trials as they come; trainings once all have tried."""
    return next((connection for connection, what in asked.items() if what == TRIALS or all_tried), None)


def run(work, name: str, connection, plain: bool) -> None:
    work(name, Turn(connection), plain)
