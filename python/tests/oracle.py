"""The definitions of the measures, computed naively with numpy in f64."""

from __future__ import annotations

import numpy as np


def moments(x: np.ndarray) -> dict[str, float]:
    """Q, M, V and the mean norm of some states."""
    x = x.astype(np.float64)
    mean = x.mean(axis=0)
    return {
        "q": (x**2).sum(axis=1).mean(),
        "m": (mean**2).sum(),
        "v": ((x - mean) ** 2).sum(axis=1).mean(),
        "mean_norm": np.sqrt((x**2).sum(axis=1)).mean(),
    }


def mean_cosine(x: np.ndarray) -> float | None:
    """Mean cosine over all ordered pairs of different non-zero rows."""
    x = x.astype(np.float64)
    norms = np.sqrt((x**2).sum(axis=1))
    u = x[norms > 0] / norms[norms > 0, None]
    n = len(u)
    if n < 2:
        return None
    cosines = u @ u.T
    return (cosines.sum() - np.trace(cosines)) / (n * (n - 1))


def partition_of_variance(x: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    """Variance within and between groups."""
    x = x.astype(np.float64)
    mean, within, between = x.mean(axis=0), 0.0, 0.0
    for group in np.unique(groups):
        rows = x[groups == group]
        share = len(rows) / len(x)
        within += share * ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()
        between += share * ((rows.mean(axis=0) - mean) ** 2).sum()
    return {"v_within": within, "v_between": between}


def spectrum(x: np.ndarray) -> dict[str, float]:
    """What follows from the eigenvalues of the covariance."""
    x = x.astype(np.float64)
    values = np.sort(np.linalg.eigvalsh(np.cov(x.T)))[::-1]
    values = np.where(values <= 1e-12 * values[0], 0, values)[: min(len(x) - 1, x.shape[1])]
    shares = values / values.sum()
    ratio = values.sum() ** 2 / (values**2).sum()
    positive = shares[shares > 0]
    return {
        "anisotropy_svd": values[0] / values.sum(),
        "participation_ratio": ratio,
        "isoscore": (ratio - 1) / (x.shape[1] - 1),
        "effective_rank": np.exp(-(positive * np.log(positive)).sum()),
        "stable_rank": values.sum() / values[0],
    }


def twonn(x: np.ndarray) -> float:
    """Maximum likelihood with the largest tenth of the ratios censored."""
    x = np.unique(x.astype(np.float64), axis=0)
    distances = np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2))
    np.fill_diagonal(distances, np.inf)
    nearest = np.sort(distances, axis=1)[:, :2]
    ratios = np.sort(np.log(nearest[:, 1] / nearest[:, 0]))
    n = len(ratios)
    k = int(0.9 * n)
    return (k - 1) / (ratios[:k].sum() + (n - k) * ratios[k - 1])


def intra_sentence_similarity(x: np.ndarray, documents: np.ndarray) -> float:
    """Mean over sequences of the mean cosine between each state and the mean state."""
    values = []
    for document in np.unique(documents):
        rows = x[documents == document].astype(np.float64)
        if len(rows) >= 2:
            mean = rows.mean(axis=0)
            values.append((rows @ mean / np.linalg.norm(rows, axis=1) / np.linalg.norm(mean)).mean())
    return float(np.mean(values))


def curvature(x: np.ndarray, documents: np.ndarray) -> float:
    """Mean angle between successive steps, in radians."""
    values = []
    for document in np.unique(documents):
        rows = x[documents == document].astype(np.float64)
        if len(rows) >= 3:
            steps = np.diff(rows, axis=0)
            steps /= np.linalg.norm(steps, axis=1, keepdims=True)
            values.append(np.arccos(np.clip((steps[1:] * steps[:-1]).sum(axis=1), -1, 1)).mean())
    return float(np.mean(values))


def linear_cka(x: np.ndarray, y: np.ndarray) -> float:
    """Linear CKA of two centred sets of states."""
    x, y = (z.astype(np.float64) - z.astype(np.float64).mean(axis=0) for z in (x, y))
    return np.linalg.norm(y.T @ x) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y)
