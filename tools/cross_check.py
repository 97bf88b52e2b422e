"""Compares our measures with other people's programs: IsoScore, scikit-dimension, DADApy and scikit-learn.

    cross_check.py write   makes the clouds and what those packages say of them (crates/layerscope-stats/tests/data)
    cross_check.py check   makes them again and compares with what is committed
    cross_check.py speed FILE ROWS DIM   times TwoNN of DADApy and scikit-dimension on raw f32 points, for bench_measures.py

The crate's test `cross_check` holds our values against the committed ones, so that it needs none of these packages.

Known deviations, documented and not imitated:

- Duplicates. We keep one of several equal points. scikit-dimension drops every point at distance zero from another, the
  first of them too; DADApy keeps all, and its ratios become infinite or not a number. No cloud here has duplicates.
- DADApy's `ml` is (N - 1) / sum ln mu over all points, without censoring: far points weigh in. Our `twonn` censors the largest
  tenth, as scikit-dimension's method `mle` does.
- scikit-dimension's MLE has the divisor k - 1 unless `unbiased`, which gives our k - 2.
- DADApy fits its line by an iteration that stops at about eight digits, and IsoScore takes the square root of the dimension in f32: both
  are compared to 1e-6, everything else to 1e-9.
- IsoScore* takes one batch; ours is the mean over batches of the sample.
- A cloud of one dimension has no IsoScore with us; the package divides by zero.
"""

import importlib.util
import json
import pathlib
import sys
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "crates" / "layerscope-stats" / "tests" / "data"


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
        "skdim_mle": float(skdim.id.MLE(unbiased=True).fit(points, n_neighbors=20, comb="mle").dimension_),
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


def speed(file: str, rows: int, dim: int) -> None:
    """One line of JSON: seconds and dimension of each package that is installed, on all cores."""
    points = np.fromfile(file, dtype=np.float32).reshape(rows, dim).astype(np.float64)

    def of_dadapy() -> float:
        import dadapy

        data = dadapy.Data(coordinates=points, maxk=2, verbose=False)
        data.compute_distances(maxk=2)
        return float(data.compute_id_2NN()[0])

    def of_skdim() -> float:
        import skdim

        return float(skdim.id.TwoNN(discard_fraction=0.1).fit(points).dimension_)

    results = {}
    for name, package, work in (("DADApy", "dadapy", of_dadapy), ("scikit-dimension", "skdim", of_skdim)):
        if importlib.util.find_spec(package) is None:
            print(f"speed: {name} is not installed", file=sys.stderr)
            continue
        importlib.import_module(package)  # importing is not computing
        start = time.perf_counter()
        value = work()
        results[name] = {"seconds": time.perf_counter() - start, "dimension": value}
    print(json.dumps(results))


if __name__ == "__main__":
    modes = {"write": write, "check": check}
    if len(sys.argv) == 5 and sys.argv[1] == "speed":
        speed(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif len(sys.argv) == 2 and sys.argv[1] in modes:
        modes[sys.argv[1]]()
    else:
        sys.exit("usage: cross_check.py write|check|speed FILE ROWS DIM")
