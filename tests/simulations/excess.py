"""Whether `Result.excess` and `Result.null_mean` are right on average, by simulation.

    python tests/simulations/excess.py --repeats 60

``y = sin(2 x) + 0.3 e``, models with the right mean and a standard deviation that is right, twice too
wide or half of it. The expected excess is ``sum_{i != j} a_i a_j <E e_i, E e_j>``, whose embeddings have
closed forms. The figures in docs/evaluating.md come from the command above.
"""

from __future__ import annotations

import argparse

import numpy as np

import fastmcmd as fm

STD, LAM = 0.3, 0.01
X_KERNEL, Y_KERNEL = fm.RBF(2.0), fm.RBF(4.0)
MODELS = {"right": 1.0, "twice too wide": 2.0, "half as wide": 0.5}


def _inner(mean, std, other):
    """Return ``E k(Y_i, Y'_j)`` (n, n) of Gaussians under the output kernel ``exp(-4 d^2)``."""
    spread = 1 + 8 * (std**2 + other**2)
    return np.exp(-4 * (mean[:, None] - mean) ** 2 / spread) / np.sqrt(spread)


def expected(x, factor):
    """Return the mean over rows of the expected excess, and of CCE^2 if the model is right."""
    mean, wrong = np.sin(2 * x), factor * STD
    n = len(x)
    gram = X_KERNEL(x, x)
    a = np.linalg.solve(gram + n * LAM * np.eye(n), gram)
    misfit = _inner(mean, STD, STD) - 2 * _inner(mean, STD, wrong) + _inner(mean, wrong, wrong)
    both = (a * (misfit @ a)).sum(axis=0) - (a**2).T @ misfit.diagonal()
    variance = 1 - _inner(mean, wrong, wrong).diagonal()
    return float(both.mean()), float(((a**2).T @ variance).mean())


def simulate(factor, n=300, repeats=60, seed=0):
    """Return means over runs: excess, null mean, CCE^2 of right outcomes; and their expectations."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    mean = np.sin(2 * x)
    model = fm.Gaussian(mean, factor * STD)
    excess, null, square = [], [], []
    for _ in range(repeats):
        options = {"x_kernel": X_KERNEL, "y_kernel": Y_KERNEL, "lam": LAM}
        result = fm.cce(x, mean + STD * rng.normal(size=n), model, **options)
        excess.append(result.excess.mean())
        null.append(result.null_mean.mean())
        right = fm.cce(x, mean + factor * STD * rng.normal(size=n), model, **options)
        square.append((right.values**2).mean())
    return (
        np.mean(excess),
        np.std(excess) / repeats**0.5,
        np.mean(null),
        np.mean(square),
        *expected(x, factor),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| model | mean excess | s.e. | formula | null mean | CCE² of right outcomes |")
    print("|---|---|---|---|---|---|")
    for name, factor in MODELS.items():
        excess, error, null, square, formula, _ = simulate(
            factor, arguments.n, arguments.repeats, arguments.seed
        )
        print(
            f"| {name} | {excess:.5f} | {error:.5f} | {formula:.5f} | {null:.5f} | {square:.5f} |"
        )


if __name__ == "__main__":
    main()
