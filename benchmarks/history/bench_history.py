"""Wall time of whole calls, for docs/history.md. Calls that a commit does not know have no figure there."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm


def _like_embeddings(n, d=512):
    """Return inputs on a cone, as CLIP embeddings are, with outcomes and one draw for each."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((40, d)) * 0.35
    x = centres[rng.integers(0, 40, n)] + 0.6 * rng.standard_normal((n, d)) + 1.0
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    y = 3 * x[:, 0] + np.sin(5 * x[:, 1]) + 0.3 * rng.standard_normal(n)
    return x, y, y + 0.3 * rng.standard_normal(n)


def _gaussian(n, d):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    mean, std = np.sin(x[:, 0]), 0.3 + 0.1 * np.abs(x[:, 0])
    return x, mean + std * rng.standard_normal(n), mean, std


class History:
    timeout = 120
    number, repeat, rounds, warmup_time = 1, (3, 8, 6.0), 2, 0.0

    def setup(self):
        self.square = _like_embeddings(12_000)
        self.few = tuple(part[:3000] for part in self.square)
        self.flat = _gaussian(12_000, 4)
        self.many = _gaussian(100_000, 2)

    def time_embeddings_12000(self):
        x, y, p = self.square
        fm.cce(x, y, p, x_kernel=fm.Polynomial(3), y_kernel=fm.RBF(0.5), lam=0.1)

    def time_embeddings_12000_200MB(self):
        x, y, p = self.square
        options = {"x_kernel": fm.Polynomial(3), "y_kernel": fm.RBF(0.5), "lam": 0.1}
        fm.cce(x, y, p, memory_limit="200MB", **options)

    def time_embeddings_3000(self):
        x, y, p = self.few
        fm.cce(x, y, p, x_kernel=fm.Polynomial(3), y_kernel=fm.RBF(0.5), lam=0.1)

    def time_small_lam_12000(self):
        x, y, mean, _ = self.flat
        fm.cce(x, y, mean, x_kernel=fm.RBF(0.125), y_kernel=fm.RBF(0.5), lam=1e-3)

    def time_gaussian_100000(self):
        x, y, mean, std = self.many
        prediction = fm.Gaussian(mean, std)
        fm.cce(x, y, prediction, x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(0.5), lam=0.1)

    def time_evaluate_100000(self):
        _, y, mean, std = self.many
        fm.evaluate(y, fm.Gaussian(mean, std))
