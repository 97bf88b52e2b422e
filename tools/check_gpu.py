#!/usr/bin/env python3
"""Checks whole runs on a GPU: against the same runs on processors, and against themselves after all that may happen to a run.

    python tools/check_gpu.py --program target/gpu/layerscope --text pocket/corpus/sample.txt.gz pocket-bert pocket-gpt MODEL...

For every model: what a run says in f32 and in f32x3 against f32 on processors; the same run twice, block after block, killed and resumed, in two
shards. For the first model also with little memory: another program holds the rest. Prints the largest differences of what is compared.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

#: What may differ from a run on processors in f32, by the numbers of the products: of the value, or of 1 where that is the measure's scale.
TOLERANCES = {"f32": 1e-4, "f32x3": 1e-4}
MEASURES = {"q": 0.0, "m": 0.0, "v": 0.0, "v_within": 0.0, "slope_v_on_m": 1.0, "r2_v_on_m": 1.0, "mean_cosine": 1.0, "intrinsic_dimension": 0.0}
#: Of the dimensions only this one: the others have their own tests, and deviations of fits follow it.
DIMENSION = "twonn"
#: Sums of shards are taken in another order.
MERGED = 1e-9


class Checks:
    """Runs of one model in a folder, and what was wrong with them."""

    def __init__(self, program: Path, model: str, text: Path, folder: Path, more: list[str]):
        self.program, self.model, self.text, self.folder, self.more = program, model, text, folder, more
        self.wrong = 0

    def words(self, name: str, *more: str) -> list[str]:
        out = self.folder / name
        return [str(self.program), "measure", "--model", self.model, "--corpus", str(self.text), "--out", str(out), "--quiet", *self.more, *more]

    def measure(self, name: str, *more: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        self.succeed(self.words(name, *more))
        return self.folder / name

    def succeed(self, words: list[str]) -> str:
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"check: `{' '.join(words)}` ended with status {done.returncode}: {done.stderr.strip()}")
        return done.stderr

    def table(self, run: Path, name: str) -> list[dict[str, str]]:
        done = subprocess.run([self.program, "show", run, "--table", name, "--format", "csv"], capture_output=True, text=True, check=True)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def layers(self, run: Path) -> dict[tuple[str, ...], str]:
        return {tuple(row[c] for c in ("layer", "point", "selection", "measure", "variant")): row["value"] for row in self.table(run, "layers")}

    def say(self, what: str, good: bool, figure: str = "") -> None:
        self.wrong += not good
        print(f"  {'ok   ' if good else 'WRONG'} {what}{': ' + figure if figure else ''}", flush=True)

    def near(self, what: str, ours: Path, theirs: Path, tolerance: float, samples: bool = True) -> None:
        """What `ours` says against what `theirs` says; without what a sample of states says, where they have different ones."""
        a, b = self.layers(ours), self.layers(theirs)
        worst = {}
        for key in a.keys() | b.keys():
            _, _, _, measure, variant = key
            if measure not in MEASURES or (measure == "intrinsic_dimension" and not (samples and variant == DIMENSION)):
                continue
            x, y = a.get(key) or None, b.get(key) or None
            if x is None or y is None:
                distance = 0.0 if x == y else float("inf")
            else:
                scale = max(abs(float(x)), abs(float(y)), MEASURES.get(measure, 1.0), 1e-30)
                distance = abs(float(x) - float(y)) / scale
            if distance >= worst.get(measure, (-1.0,))[0]:
                worst[measure] = (distance, key, x, y)
        figure = ", ".join(f"{measure} {found[0]:.1e}" for measure, found in sorted(worst.items()))
        self.say(what, max(found[0] for found in worst.values()) <= tolerance, figure)

    def same(self, what: str, ours: Path, theirs: Path) -> None:
        """Two runs that must say the same to the last digit."""
        names = ("layers", "groups", "components", "spectra", "norms")
        present = [name for name in names if (theirs / f"{name}.parquet").exists()]
        self.say(what, all(self.table(ours, name) == self.table(theirs, name) for name in present), "same bits")


def check_model(checks: Checks) -> None:
    here = checks.measure("cpu", "--device", "cpu", "--dtype", "f32")
    for dtype, tolerance in TOLERANCES.items():
        checks.near(f"{dtype} against processors", checks.measure(dtype, "--device", "cuda", "--dtype", dtype), here, tolerance)
    gpu = checks.folder / "f32x3"
    counts = lambda run: [(row["layer"], row["selection"], row["n"]) for row in checks.table(run, "layers") if row["variant"] == DIMENSION]
    checks.say("as many states that differ as on processors", counts(gpu) == counts(here), f"{len(counts(here))} points and selections")
    on_gpu = ("--device", "cuda", "--dtype", "f32x3")
    checks.same("a second run", checks.measure("again", *on_gpu), gpu)
    checks.same("block after block", checks.measure("blocks", *on_gpu, "--order", "block"), gpu)
    checks.same("killed and resumed", killed_and_resumed(checks, on_gpu), gpu)
    parts = [checks.measure(f"part-{part}", *on_gpu, "--shard", f"{part}/2") for part in range(2)]
    checks.succeed([str(checks.program), "merge", *map(str, parts), "--out", str(checks.folder / "merged"), "--quiet"])
    checks.near("two shards on one GPU", checks.folder / "merged", gpu, MERGED)
    checks.near("two workers on one GPU", checks.measure("several", "--device", "cuda:0,0", "--dtype", "f32x3"), gpu, MERGED)
    mixed = [checks.measure("part-0-cpu", "--device", "cpu", "--dtype", "f32", "--shard", "0/2"), parts[1]]
    merge = [str(checks.program), "merge", *map(str, mixed), "--out", str(checks.folder / "mixed"), "--quiet"]
    refused = subprocess.run(merge, capture_output=True, text=True)
    checks.say("shards of a processor and a GPU are refused", refused.returncode == 5 and "--allow-devices" in refused.stderr)
    checks.succeed([*merge, "--allow-devices"])
    checks.near("and merged where that is allowed", checks.folder / "mixed", here, TOLERANCES["f32x3"], samples=False)


def killed_and_resumed(checks: Checks, on_gpu: tuple[str, ...], kills: int = 4) -> Path:
    out = checks.folder / "killed"
    words = checks.words("killed", *on_gpu, "--checkpoint-seconds", "0")
    taken, random_number = time.monotonic(), random.Random(7)
    checks.measure("timed", *on_gpu)
    taken = time.monotonic() - taken
    for _ in range(kills):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=taken * random_number.uniform(0.2, 0.9))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    checks.succeed(words)
    return out


def check_little_memory(checks: Checks) -> None:
    """A run with large batches while another program holds most of the card."""
    hold = "import sys, torch; free, _ = torch.cuda.mem_get_info(); x = torch.empty(free - int(sys.argv[1]), dtype=torch.uint8, device='cuda'); print('held', flush=True); sys.stdin.read()"
    for gibibytes in (0.8, 0.9, 1.0, 1.2, 1.5):
        with subprocess.Popen([sys.executable, "-c", hold, str(int(gibibytes * 2**30))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            holder.stdout.readline()
            shutil.rmtree(checks.folder / "little", ignore_errors=True)
            words = checks.words("little", "--device", "cuda", "--dtype", "f32x3", "--batch-tokens", "400000", "--order", "batch")
            done = subprocess.run([word for word in words if word != "--quiet"], capture_output=True, text=True)
            holder.stdin.close()
        said = [line for line in done.stderr.splitlines() if "going on with batches of" in line]
        if done.returncode == 0:
            break
    checks.say(f"with {gibibytes} GiB left, batches shrink", done.returncode == 0 and bool(said), said[-1] if said else done.stderr.strip().splitlines()[-1])
    if done.returncode == 0:
        checks.near("and the numbers are the same", checks.folder / "little", checks.folder / "f32x3", MERGED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=1500, help="default: %(default)s")
    parser.add_argument("--more", default="", help="more flags of all runs")
    arguments = parser.parse_args()
    read = gzip.open if arguments.text.suffix == ".gz" else open
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="layerscope-gpu-") as scratch:
        text = Path(scratch) / "text.txt"
        with read(arguments.text, "rt", encoding="utf-8") as file:
            text.write_text("".join(line for _, line in zip(range(arguments.sentences), file)), encoding="utf-8")
        for number, model in enumerate(arguments.models):
            print(model, flush=True)
            folder = Path(scratch) / str(number)
            folder.mkdir()
            checks = Checks(arguments.program.resolve(), model, text, folder, arguments.more.split())
            check_model(checks)
            if number == 0:
                check_little_memory(checks)
            wrong += checks.wrong
            shutil.rmtree(folder)
    print(json.dumps({"wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
