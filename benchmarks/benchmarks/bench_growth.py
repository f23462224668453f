"""The growth of the CPU time of the five main paths with n: exponents, free of machine factors."""

from __future__ import annotations

import time

import numpy as np

import fastmcmd as fm

from .problems import smooth

# By path: the smallest n, and what is computed. Twice and four times as many rows are measured as well.
# Theory: Cholesky 3 (2 where kernel values cost most), CG and dense form 2, low rank and evaluation 1.
_PATHS = {
    "cholesky": (1500, 8, {"solver": "cholesky", "y_kernel": fm.RBF(0.5)}),
    "cg": (3000, 8, {"solver": "cg", "y_kernel": fm.RBF(0.5)}),
    "lowrank": (50_000, 2, {"solver": "lowrank", "y_kernel": fm.RBF(0.5)}),
    "dense": (500, 8, {"y_kernel": fm.Laplacian(20.0)}),
    "evaluate": (100_000, 2, {}),
}


class Exponent:
    """Exponent of n in the CPU time of a path, from a line through three sizes."""

    timeout = 600
    params = tuple(_PATHS)
    param_names = ("path",)
    unit = "exponent"

    def track_exponent(self, path):
        least, d, options = _PATHS[path]
        sizes = np.array([least, 2 * least, 4 * least])
        times = [self.seconds(path, int(n), d, options) for n in sizes]
        return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])

    def seconds(self, path, n, d, options):
        """Return the least CPU time of two calls, after a warm-up call."""
        x, y, p = smooth(n, d, dtype=np.float64)
        prediction = fm.Gaussian(p, 0.35)

        def call():
            if path == "evaluate":
                fm.evaluate(y, prediction)
            else:
                x_kernel = fm.RBF(1 / (2 * d))
                fm.cce(x, y, prediction, x_kernel=x_kernel, tol=1e-4, lam=0.1, **options)

        timings = []
        for _ in range(3):
            start = time.process_time()
            call()
            timings.append(time.process_time() - start)
        return min(timings[1:])
