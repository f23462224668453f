"""Many rows: the low-rank form, and the core operations that it consists of."""

from __future__ import annotations

import os
import tempfile
import time

import numpy as np
from scipy import linalg

import fastmcmd as fm
from fastmcmd.backends import get_backend

from .problems import clip_like, clip_like_blocks, smooth


class LowRank:
    """Few dimensions: what solver="auto" takes from thousands of rows."""

    timeout = 600
    warmup_time = 0.1
    number = 1
    repeat = (2, 4, 30.0)
    params = ["n=200,000 d=2", "n=100,000 d=1"]
    param_names = ("problem",)

    def setup(self, problem):
        n, d = (200_000, 2) if "d=2" in problem else (100_000, 1)
        self.data = smooth(n, d, dtype=np.float64)
        self.kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5), "lam": 0.1}

    def run(self, **options):
        return fm.cce(*self.data, **self.kernels, **options)

    def time_default(self, problem):
        self.run()

    def time_100_megabytes(self, problem):
        self.run(memory_limit="100MB")

    def peakmem_100_megabytes(self, problem):
        self.run(memory_limit="100MB")

    def peakmem_inputs_only(self, problem):
        pass

    def track_landmarks(self, problem):
        return self.run().info.landmarks

    def track_error_bound(self, problem):
        return self.run().error_bound

    def track_error_against_smaller_tol(self, problem):
        return float(np.abs(self.run().values - self.run(tol=1e-8).values).max())


class FixedRank:
    """n = 50,000, d = 512, 500 landmarks: passes dominated by features of wide rows."""

    timeout = 900
    warmup_time = 0.1
    number = 1
    repeat = 2

    def setup(self):
        x, y, p = clip_like(50_000)
        gamma = 1 / (2 * np.var(y, ddof=1))
        self.arguments = {
            "x": x, "y": y, "prediction": p, "x_kernel": fm.Polynomial(3), "y_kernel": fm.RBF(gamma),
            "lam": 0.1, "solver": "lowrank", "rank": 500, "tol": 1e-2, "certificate": "sampled",
        }  # fmt: skip

    def time_cce(self):
        fm.cce(**self.arguments)

    def peakmem_cce(self):
        fm.cce(**self.arguments)

    def track_error_bound(self):
        return fm.cce(**self.arguments).error_bound


class FromDisk:
    """A million rows of 512 columns from a file, within 4 GB."""

    timeout = 1800
    warmup_time = 0.0
    number = 1
    repeat = 1

    def setup_cache(self):
        path, n = os.path.join(tempfile.mkdtemp(), "x.npy"), 1_000_000
        x = np.lib.format.open_memmap(path, "w+", np.float32, (n, 512))
        y, p, start = np.empty(n), np.empty(n), 0
        for block, outcome, draw in clip_like_blocks(n):
            rows = slice(start, start := start + len(block))
            x[rows], y[rows], p[rows] = block, outcome, draw
        x.flush()
        return path, y, p

    setup_cache.timeout = 1800

    def time_cce(self, data):
        path, y, p = data
        fm.cce(path, y, p, x_kernel="paper", y_kernel="paper", tol=1e-4, memory_limit="4GB")


class FirstTiles:
    """n = 50,000, d = 512: the first call takes 5 GB of fresh memory, the second has touched it."""

    timeout = 1800

    def track_first_to_second(self):
        x, y, p = clip_like(50_000)
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            fm.cce(x, y, p, x_kernel="paper", y_kernel="paper", solver="cg", memory_limit="12GB")
            seconds.append(time.perf_counter() - start)
        return seconds[0] / seconds[1]


class Operations:
    """Features of a block of rows, and their products with themselves and right-hand sides."""

    timeout = 300
    params = (["float32", "float64"], [200, 1000], [2, 512])
    param_names = ("dtype", "landmarks", "d")
    rows = 12_000

    def setup(self, dtype, landmarks, d):
        x = smooth(self.rows, 2)[0] if d == 2 else clip_like(self.rows)[0]
        self.kernel = fm.RBF(2.0) if d == 2 else fm.Polynomial(3, gamma=1 / d)
        self.backend = get_backend("cpu", self.kernel)
        self.pivots = self.backend.points(x[:landmarks], np.dtype(dtype))
        self.points = self.backend.points(x, np.dtype(dtype))
        exact = self.backend.points(x[:landmarks], np.dtype(np.float64))
        # On a ridge, random rows of a smooth kernel are poor landmarks; only the time matters here.
        k = self.backend.gram(self.kernel, exact) + np.eye(landmarks)
        self.factor = linalg.cholesky(k, lower=True).astype(dtype)
        self.rhs = np.random.default_rng(0).standard_normal((self.rows, 30))
        self.gram, self.cross = np.zeros((landmarks, landmarks)), np.zeros((landmarks, 30))
        self.f = self.features()

    def features(self):
        features = self.backend.features(
            self.kernel, self.pivots, self.points, self.factor, keep=True, sizes=False
        )
        return features.values

    def time_features(self, dtype, landmarks, d):
        self.features()

    def time_self_product(self, dtype, landmarks, d):
        self.backend.add_products(self.f, self.rhs, None, self.gram, self.cross)

    def track_self_product_gflops(self, dtype, landmarks, d):
        """Operations of the symmetric product and the right-hand sides, a nanosecond."""
        best = np.inf
        for _ in range(5):
            start = time.perf_counter()
            self.time_self_product(dtype, landmarks, d)
            best = min(best, time.perf_counter() - start)
        return self.rows * landmarks * (landmarks + 2 * 30) / best / 1e9

    track_self_product_gflops.unit = "GFLOP/s"
