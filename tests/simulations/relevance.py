"""Size of ``congruence_test(null="relevant")`` at the boundary, by simulation.

    python tests/simulations/relevance.py --runs 1000
    python tests/simulations/relevance.py --runs 1000 --weighted

Models that are wrong in known ways are tested against the very CCE that they have, ``theta^(1/2)`` with
``theta = sum_{i != j} S_ij <E e_i, E e_j>``: at most 5 % of the p-values are to be at most 0.05. The lower
confidence bound then covers in at least 95 % of the runs.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd.inference.smoother import Smoother

X_KERNEL, LAM = fm.RBF(2.0), 0.01
LEVELS = (np.arange(400) + 0.5) / 400  # of the quantiles that stand for a distribution


def problems(n: int, rng: np.random.Generator) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Return (x, truth, prediction, output kernel) by name."""
    x = rng.uniform(-2, 2, n)
    mean, std = np.sin(1.5 * x), np.full(n, 0.5)
    model, kernel = fm.Gaussian(mean, std), fm.RBF(1.0)
    rate = np.exp(mean)
    skewed = fm.Gamma(np.full(n, 2.0), np.full(n, 2.0))
    return {
        "right": (x, model, model, kernel),
        "mean + .05": (x, fm.Gaussian(mean + 0.05, std), model, kernel),
        "mean + .2": (x, fm.Gaussian(mean + 0.2, std), model, kernel),
        "mean + .5": (x, fm.Gaussian(mean + 0.5, std), model, kernel),
        "mean + .6 for x > 1": (x, fm.Gaussian(mean + 0.6 * (x > 1), std), model, kernel),
        "twice too wide": (x, fm.Gaussian(mean, std / 2), model, kernel),
        "twice too narrow": (x, fm.Gaussian(mean, 2 * std), model, kernel),
        "ignores x": (x, model, fm.Gaussian(np.zeros(n), np.full(n, 0.87)), kernel),
        "counts, 1.3 times too few": (x, fm.Poisson(1.3 * rate), fm.Poisson(rate), fm.RBF(0.1)),
        "counts, overdispersed": (x, fm.NegativeBinomial(rate, 1.0), fm.Poisson(rate), fm.RBF(0.1)),
        "skewed": (x, skewed, fm.Gaussian(skewed.mean, skewed.std), kernel),
    }


def misfit(x: Any, truth: Any, prediction: Any, kernel: Any, weights: Any = None) -> float:
    """Return theta, with the eigenvectors of as many landmarks as the kernel has directions."""
    n = len(x)
    atoms = np.concatenate([side.quantile(LEVELS) for side in (truth, prediction)])
    some = np.unique(atoms.ravel())
    features = Smoother.of(kernel, some[:: 1 + len(some) // 2_000, None], 100)
    both = features.transform(atoms.reshape(-1, 1)).reshape(2, n, len(LEVELS), -1).mean(axis=2)
    mu = both[0] - both[1]
    smoother = Smoother.of(X_KERNEL, x[:, None], 100)
    w = np.ones(n) if weights is None else weights
    basis, g = smoother.basis_and_coordinates(x[:, None], w)
    energy, mu = basis.energy(LAM), mu * w[:, None]
    self_term = np.square(g) @ energy @ np.square(mu).sum(axis=1)
    return float(energy @ np.square(g.T @ mu).sum(axis=1) - self_term)


def shifted(x: Any) -> Any:
    """Return weights as of a covariate shift; a tenth of the rows does not count at all."""
    return np.exp(x) * (np.arange(len(x)) % 10 > 0)


def p_values(kind: str, n: int, runs: int, seed: int = 0, weighted: bool = False) -> Any:
    """Return p-values (runs,) at the boundary, and theta (runs,)."""
    out, thetas = [], []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, n])
        x, truth, prediction, kernel = problems(n, rng)[kind]
        weights = shifted(x) if weighted else None
        theta = misfit(x, truth, prediction, kernel, weights)
        y = truth.sample(1, rng)[:, 0]
        test = fm.congruence_test(
            x, y, prediction, x_kernel=X_KERNEL, y_kernel=kernel, lam=LAM, simulations=99,
            null="relevant", delta=max(np.sqrt(max(theta, 0.0)), 1e-9), random_state=[seed, run],
            weights=weights,
        )  # fmt: skip
        out.append(test.p_value)
        thetas.append(theta)
    return np.array(out), np.array(thetas)


def main(runs: int, sizes: list[int], only: str, weighted: bool, seed: int) -> None:
    """Print the table."""
    print(f"{'model':28}{'n':>6}{'CCE':>8}{'p <= .05':>10}{'p <= .10':>10}   ({runs} runs)")
    for kind in filter(lambda name: only in name, problems(10, np.random.default_rng(0))):
        for n in sizes:
            p, theta = p_values(kind, n, runs, seed, weighted)
            cce = np.sqrt(np.maximum(theta, 0).mean())
            shares = [(p <= level).mean() for level in (0.05, 0.1)]
            print(f"{kind:28}{n:6d}{cce:8.3f}{shares[0]:10.3f}{shares[1]:10.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--n", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--only", default="", help="part of the name of a model")
    parser.add_argument("--weighted", action="store_true", help="rows have weights exp(x), some 0")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    main(arguments.runs, arguments.n, arguments.only, arguments.weighted, arguments.seed)
