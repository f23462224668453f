"""Attacks the bound of `streaming.CCE` when accumulators with nearly dependent landmarks merge.

Rows lie in clusters, ladders and lattices of any spacing, so that landmarks of each part nearly reproduce
each other; parts are merged in several orders. The reference, in long double, has no landmarks.

    python tests/adversary/merges.py --count 1000 --seed 0 [--only SEED]
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import fastmcmd as fm

LD = np.longdouble
ORDERS = 3
ROUNDING = 1e-15  # of the reference


def matrix(kernel, x, z):
    x, z = x.astype(LD), z.astype(LD)
    squares = ((x[:, None] - z[None]) ** 2).sum(-1)
    match kernel:
        case fm.RBF(gamma=gamma):
            return np.exp(-LD(gamma) * squares)
        case fm.Laplacian(gamma=gamma):
            return np.exp(-LD(gamma) * np.abs(x[:, None] - z[None]).sum(-1))
        case fm.Matern(nu=nu, length_scale=length):
            r = np.sqrt(2 * LD(nu) * squares) / LD(length)
            return {1.5: 1 + r, 2.5: 1 + r + r * r / 3}[nu] * np.exp(-r)
        case fm.Polynomial(degree=degree, gamma=gamma, coef0=coef0):
            return (LD(gamma) * (x @ z.T) + LD(coef0)) ** degree
        case fm.Linear():
            return x @ z.T
    raise AssertionError(kernel)


def solve(a, b):
    """Solve a positive definite system by a Cholesky factor in long double."""
    n, b, factor = len(a), b.copy(), np.zeros_like(a)
    for j in range(n):
        column = a[j:, j] - factor[j:, :j] @ factor[j, :j]
        factor[j:, j] = column / np.sqrt(column[0])
    for i in range(n):
        b[i] = (b[i] - factor[i, :i] @ b[:i]) / factor[i, i]
    for i in range(n - 1, -1, -1):
        b[i] = (b[i] - factor[i + 1 :, i] @ b[i + 1 :]) / factor[i, i]
    return b


def truth(p, at):
    """Return the root mean square over the rows, and the values at points."""
    w, y, mean, squares = (p[name].astype(LD) for name in ("w", "y", "mean", "std"))
    squares, total, root = squares**2, w.sum(), np.sqrt(w)
    gram = matrix(p["kernel"], p["x"], p["x"])
    shifted = root[:, None] * gram * root + total * LD(p["lam"]) * np.eye(len(y), dtype=LD)
    right = np.concatenate([gram, matrix(p["kernel"], p["x"], at)], axis=1)
    c = root[:, None] * solve(shifted, root[:, None] * right)

    def expected(one, other, variance):
        wide = 1 + 2 * LD(p["gamma"]) * variance
        return np.exp(-LD(p["gamma"]) * (one[:, None] - other) ** 2 / wide) / np.sqrt(wide)

    cross = expected(y, mean, squares[None])
    inner = expected(y, y, LD(0)) - cross - cross.T
    inner += expected(mean, mean, squares[:, None] + squares)
    squared_norms = np.maximum(np.einsum("iq,ij,jq->q", c, inner, c), 0)
    return np.sqrt(w @ squared_norms[: len(y)] / total), np.sqrt(squared_norms[len(y) :])


def draw(rng):
    """Return a problem: rows, kernels, regulariser and options of the accumulator."""
    n, d = int(rng.integers(10, 50)), int(rng.integers(1, 3))
    kernel = [
        fm.RBF(10 ** rng.uniform(-4, 1.5)), fm.RBF(10 ** rng.uniform(-6, -1)), fm.Linear(),
        fm.Laplacian(10 ** rng.uniform(-3, 1)), fm.Matern(2.5, 10 ** rng.uniform(-1, 2)),
        fm.Matern(1.5, 10 ** rng.uniform(-1, 2)),
        fm.Polynomial(int(rng.integers(1, 4)), 10 ** rng.uniform(-2, 0), 1.0),
    ][rng.integers(7)]  # fmt: skip
    x = rng.normal(size=(n, d)) * 10 ** rng.uniform(-1, 0.7)
    step, few = 10.0 ** rng.uniform(-13, -1), x[: max(2, n // int(rng.integers(2, 8)))]
    near = few[rng.integers(len(few), size=n)]
    x = [
        x, x + 100 * rng.random(), near + step * rng.normal(size=(n, d)),
        near + step * rng.integers(0, 4, size=(n, d)),
        rng.normal(size=(1, d)) + step * rng.permutation(n)[:, None],
    ][rng.integers(5)]  # fmt: skip
    mean, std = np.sin(x[:, 0]), 0.3 * rng.uniform(0.5, 2, n)
    y = mean + std * rng.normal(size=n)
    y[rng.integers(n)] += rng.choice([0, 5])
    w = 10 ** rng.uniform(-8 * rng.random(), 0, n) if rng.random() < 0.5 else np.ones(n)
    has_weights = rng.random() < 0.3
    options = {"landmarks": x[: n // 3] if has_weights else int(rng.integers(2, 30))}
    if has_weights or rng.random() < 0.5:
        options["most_landmarks"] = 60
    return {
        "x": x, "y": y, "mean": mean, "std": std, "w": w, "kernel": kernel, "options": options,
        "lam": 10 ** rng.uniform(-8, 0), "gamma": 10 ** rng.uniform(-1, 1),
    }  # fmt: skip


def accumulators(p, rng):
    """Return one accumulator for each part of a problem's rows."""
    x, parts = p["x"], []
    for k, rows in enumerate(np.array_split(rng.permutation(len(x)), int(rng.integers(2, 5)))):
        one = fm.streaming.CCE(
            p["kernel"], fm.RBF(p["gamma"]), lam=p["lam"], random_state=k, **p["options"]
        )
        for some in np.array_split(rows, int(rng.integers(1, 3))):
            one.update(
                x[some], p["y"][some], fm.Gaussian(p["mean"][some], p["std"][some]), p["w"][some]
            )
        parts.append(one)
    return parts


def attack(seed):
    """Return the largest ratio of error to bound over orders of merging, and the problem."""
    rng = np.random.default_rng(seed)
    p = draw(rng)
    x, parts = p["x"], accumulators(p, rng)
    at = np.concatenate([x[:5], 2 * rng.normal(size=(5, x.shape[1])), x[:3] + 1e-6])
    right, values = truth(p, at)
    worst = 0.0
    for _ in range(ORDERS):
        left = [copy.deepcopy(parts[k]) for k in rng.permutation(len(parts))]
        while len(left) > 1:
            k = int(rng.integers(len(left) - 1))
            left[k].merge(left.pop(k + 1))
        estimate, bounds = left[0].compute(), left[0].error_bounds(at)
        errors = [abs(estimate.value - right), *np.abs(left[0].score_samples(at) - values)]
        limit = np.maximum([estimate.error_bound, *bounds], ROUNDING)
        worst = max(worst, float((np.array(errors, dtype=np.float64) / limit).max()))
    return worst, p


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.count)
    ratios, violations = [], 0
    for seed in seeds if options.only is None else [options.only]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ratio, p = attack(seed)
        ratios.append(ratio)
        if not ratio <= 1:
            violations += 1
            print(
                f"error {ratio:.3g} times the bound: merges.py --only {seed}",
                p["kernel"],
                flush=True,
            )
    print(f"{len(ratios)} problems, {violations} violations, largest ratio {max(ratios):.3g}")
    return violations > 0


if __name__ == "__main__":
    sys.exit(main())
