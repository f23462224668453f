"""The drop-in for the published code beside the published formula, in one run.

``python -m benchmarks.peers.probcal [file.json]``: CLIP-like inputs, n = 3,000, d = 512, the paper's
kernels, the same call with another import. The formula is written plainly in `benchmarks.published`.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import stats

from benchmarks.benchmarks import published
from benchmarks.peers.timing import best, report
from fastmcmd.compat import probcal

N, D, LAM = 3000, 512, 0.1


def problem(dtype):
    """Return unit rows around a common direction, as of CLIP, with outputs that depend on them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)) + 3.0
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = 10 * x[:, 0] + rng.normal(size=N)
    return x.astype(dtype), y.astype(dtype), (y + rng.normal(size=N)).astype(dtype)


def _runs(name):
    """Run the published way once: it takes long, and has nothing to compile."""
    return {"repeats": 1, "warm": 0} if name.startswith("published") else {"repeats": 3}


def mcmd_rows(dtype):
    import torch

    x, y, y_prime = problem(dtype)
    gamma = 1 / (2 * y.astype(np.float64).var(ddof=1))
    exact = published.mcmd_numpy(
        *(a.astype(np.float64) for a in (x, y, y_prime)),
        lambda a, b: (a @ b.T + 1) ** 3,
        published.rbf(gamma),
        LAM,
        np.float64,
    )
    y_kernel = partial(probcal.rbf_kernel, gamma=gamma)
    tensors = [torch.tensor(a) for a in (x, x, y, x, y_prime)]

    def plain(a, b):
        return (a @ b.T + 1) ** 3

    ways = {
        "published formula, NumPy": lambda: published.mcmd_numpy(
            x, y, y_prime, plain, published.rbf(gamma), LAM, dtype
        ),
        "published formula, torch": lambda: published.mcmd_torch(
            x, y, y_prime, plain, gamma, LAM, dtype
        ),
        "drop-in, NumPy": lambda: probcal.compute_mcmd_numpy(
            x, x, y, x, y_prime, probcal.polynomial_kernel, y_kernel, LAM
        ),
        "drop-in, torch": lambda: probcal.compute_mcmd_torch(
            *tensors, probcal.polynomial_kernel, y_kernel, LAM
        ).numpy(),
        "drop-in, unknown Python kernel": lambda: probcal.compute_mcmd_numpy(
            x, x, y, x, y_prime, plain, y_kernel, LAM
        ),
    }
    for name, function in ways.items():
        seconds, values = best(function, **_runs(name))
        yield {
            "task": "MCMD",
            "way": name,
            "dtype": np.dtype(dtype).name,
            "n": N,
            "seconds": seconds,
            "largest error": float(np.nanmax(np.abs(values - exact))),
            "NaN": int(np.isnan(values).sum()),
        }


def ece_rows(n):
    """Poisson predictions: the published way sums 2,000 masses a row."""
    import torch

    rng = np.random.default_rng(0)
    rate = rng.uniform(1, 50, n)
    y = rng.poisson(rate)
    prediction = torch.distributions.Poisson(torch.tensor(rate))

    def plain():
        values = torch.arange(2000).unsqueeze(0).repeat(n, 1)
        masses = torch.distributions.Poisson(torch.tensor(rate)[:, None]).log_prob(values).exp()
        cdf = (masses * (values <= torch.tensor(y)[:, None])).sum(dim=1).numpy()
        levels = np.linspace(1e-5, 1 - 1e-5, 100)
        return float(np.abs(levels - (cdf <= levels[:, None]).mean(axis=1)).mean())

    exact = stats.poisson(rate).cdf(y)
    levels = np.linspace(1e-5, 1 - 1e-5, 100)
    expected = np.abs(levels - (exact <= levels[:, None]).mean(axis=1)).mean()
    ways = {
        "published formula": plain,
        "drop-in": lambda: probcal.compute_regression_ece(y, prediction),
    }
    for name, function in ways.items():
        seconds, value = best(function, **_runs(name))
        yield {
            "task": "ECE of counts",
            "way": name,
            "dtype": "float64",
            "n": n,
            "seconds": seconds,
            "largest error": abs(value - expected),
            "NaN": int(np.isnan(value)),
        }


if __name__ == "__main__":
    rows = [*mcmd_rows(np.float32), *mcmd_rows(np.float64), *ece_rows(20_000)]
    report(rows, packages=("torch",))
