"""Compares our measures with other people's programs: IsoScore, scikit-dimension, DADApy and scikit-learn.

    cross_check.py write   makes the clouds and what those packages say of them (crates/layerscope-stats/tests/data)
    cross_check.py check   makes them again and compares with what is committed
    cross_check.py speed MODEL=LAYER...   the intrinsic dimension of 20,000 states of a layer: all of ours beside TwoNN of DADApy and of scikit-dimension,
                           each on all cores

The crate's test `cross_check` holds our values against the committed ones, so that it needs none of these packages.

Known deviations, documented and not imitated:

- Duplicates. We keep one of several equal points. scikit-dimension drops every point at distance zero from another, the
  first of them too; DADApy keeps all, and its ratios become infinite or not a number. No cloud here has duplicates.
- DADApy's `ml` is (N - 1) / sum ln mu over all points, without censoring: far points weigh in. Our `twonn` censors the largest
  tenth, as scikit-dimension's method `mle` does.
- scikit-dimension's MLE has the divisor k - 1, as ours, unless `unbiased`: k - 2 belongs to a mean of estimates, not of their inverses.
- DADApy fits its line by an iteration that stops at about eight digits, and IsoScore takes the square root of the dimension in f32: both
  are compared to 1e-6, everything else to 1e-9.
- IsoScore* takes one batch; ours is the mean over batches of the sample.
- A cloud of one dimension has no IsoScore with us; the package divides by zero.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "crates" / "layerscope-stats" / "tests" / "data"

ROUNDS = 3


def clouds() -> dict[str, np.ndarray]:
    """Small clouds of different shape, in f32 as states are."""
    random = np.random.RandomState(20)
    gaussian = random.randn(400, 10)
    spread = random.randn(500, 30) * np.linspace(0.05, 3, 30) ** 2 + 7
    t, height = random.rand(600) * 9 + 3, random.rand(600) * 15
    roll = np.stack([t * np.cos(t), height, t * np.sin(t), 0.1 * t, 0.2 * height], axis=1)
    ball = random.randn(450, 6)
    ball *= (random.rand(450, 1) ** (1 / 6)) / np.linalg.norm(ball, axis=1, keepdims=True)
    wide = ball @ random.randn(6, 40)
    return {name: cloud.astype(np.float32) for name, cloud in dict(gaussian=gaussian, spread=spread, roll=roll, wide=wide).items()}


def values(cloud: np.ndarray) -> dict[str, float]:
    """What the packages say of a cloud."""
    import dadapy
    import skdim
    import torch
    from IsoScore import IsoScore

    points = cloud.astype(np.float64)
    data = dadapy.Data(coordinates=points, maxk=30, verbose=False)
    half = points[: len(points) // 2]
    corpus = torch.cov(torch.tensor(points).T)
    return {
        "isoscore": float(IsoScore.IsoScore(points)),
        "isoscore_star": float(IsoScore.IsoScore_star(half, corpus, 0.75)),
        "skdim_twonn_mle": float(skdim.id.TwoNN(discard_fraction=0.1, method="mle").fit(points).dimension_),
        "skdim_twonn_line": float(skdim.id.TwoNN(discard_fraction=0.1).fit(points).dimension_),
        "skdim_mle": float(skdim.id.MLE(unbiased=False).fit(points, n_neighbors=20, comb="mle").dimension_),
        "dadapy_twonn_line": float(data.compute_id_2NN(algorithm="base", mu_fraction=0.9)[0]),
    }


def information() -> dict[str, float]:
    """Adjusted mutual information of partitions that are easy to write down."""
    from sklearn.metrics import adjusted_mutual_info_score as score

    i = np.arange(500)
    return {
        "squares": float(score(i * i % 7, i % 11)),
        "related": float(score(i % 6, i % 12 // 2)),
        "many": float(score(i % 3, i % 170)),
    }


def lines() -> list[str]:
    found = [f"{name} {key} {value!r}" for name, cloud in clouds().items() for key, value in values(cloud).items()]
    return found + [f"information {key} {value!r}" for key, value in information().items()]


def write() -> None:
    DATA.mkdir(exist_ok=True)
    for name, cloud in clouds().items():
        np.save(DATA / f"{name}.npy", cloud)
    (DATA / "cross_check.txt").write_text("\n".join(lines()) + "\n")


def check() -> None:
    for name, cloud in clouds().items():
        assert np.array_equal(np.load(DATA / f"{name}.npy"), cloud), f"{name} differs"
    committed = (DATA / "cross_check.txt").read_text().splitlines()
    for ours, theirs in zip(lines(), committed, strict=True):
        (key, value), (other_key, other) = ours.rsplit(" ", 1), theirs.rsplit(" ", 1)
        assert key == other_key and abs(float(value) - float(other)) <= 1e-7 * abs(float(other)), f"{ours} instead of {theirs}"
    print(f"{len(committed)} values as committed")


def kept_states(model: str, layer: str, folder: pathlib.Path) -> np.ndarray:
    """Different states of a layer on the sentences of novels that the repository has."""
    command = [ROOT / "target/release/layerscope", "measure", "--model", model, "--corpus", ROOT / "pocket/corpus/sample.txt.gz", "--layers", layer]
    command += ["--measures", "dimension", "--tokens", "none", "--limit", "1000", "--sample-states", "20000", "--out", folder, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(folder / "sample.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        [(_, tensor)] = [(name, tensor) for name, tensor in header.items() if name.endswith(".kept")]
        first, last = tensor["data_offsets"]
        file.seek(start + first)
        states = np.frombuffer(file.read(last - first), dtype=np.float32).reshape(tensor["shape"])
    _, different = np.unique(states, axis=0, return_index=True)
    return states[np.sort(different)]


def timed(work):
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def of_dadapy(points: np.ndarray) -> float:
    import dadapy

    data = dadapy.Data(coordinates=points, maxk=2, verbose=False)
    data.compute_distances(maxk=2)
    return float(data.compute_id_2NN()[0])


def of_skdim(points: np.ndarray) -> float:
    import skdim

    return float(skdim.id.TwoNN(discard_fraction=0.1).fit(points).dimension_)


def of_layerscope(file: str, shape: tuple[int, int]) -> tuple[float, float]:
    command = [ROOT / "target/release/examples/lens_speed", "dimension", file, *map(str, shape)]
    seconds, _, line = map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    return seconds, line


def speed(models: list[str]) -> None:
    for package in (["layerscope"], ["layerscope-stats", "--example", "lens_speed"]):
        subprocess.run(["cargo", "build", "--release", "--quiet", "-p", *package], cwd=ROOT, check=True)
    for model, layer in (model.rsplit("=", 1) for model in models):
        with tempfile.TemporaryDirectory() as folder:
            states = kept_states(model, layer, pathlib.Path(folder) / "run")
            file, points = str(pathlib.Path(folder) / "states"), states.astype(np.float64)
            states.tofile(file)
            print(f"{model}, layer {layer}: {states.shape[0]} different states of width {states.shape[1]}")
            rounds: dict[str, list[tuple[float, float]]] = {"layerscope": [], "dadapy": [], "scikit-dimension": []}
            for _ in range(ROUNDS):
                rounds["layerscope"].append(of_layerscope(file, states.shape))
                rounds["dadapy"].append(timed(lambda: of_dadapy(points)))
                rounds["scikit-dimension"].append(timed(lambda: of_skdim(points)))
        seconds = {name: statistics.median(seconds for seconds, _ in results) for name, results in rounds.items()}
        for name, results in rounds.items():
            print(f"{name:18} {seconds[name]:8.2f} s (median of {ROUNDS})   dimension {results[0][1]:.6f}")
        print(json.dumps({name: round(seconds[name] / seconds["layerscope"], 2) for name in ("dadapy", "scikit-dimension")}))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["check"]:
            check()
        case ["speed", *models] if models and all("=" in model for model in models):
            speed(models)
        case _:
            sys.exit("usage: cross_check.py write|check|speed MODEL=LAYER...")
