"""The exact test: its three sizes, from a thousand rows to a million."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm


class CongruenceTest:
    """199 simulated data sets, default kernels."""

    timeout = 600
    warmup_time = 0.1
    number = 1
    repeat = (1, 3, 60.0)
    params = ["n=2,000 d=1", "n=100,000 d=8", "n=1,000,000 d=2"]
    param_names = ("problem",)

    def setup(self, problem):
        n, d = (int(part.split("=")[1].replace(",", "")) for part in problem.split())
        rng = np.random.default_rng(0)
        x = rng.standard_normal((n, d))
        mean = np.sin(x[:, 0])
        self.data = x, mean + 0.3 * rng.standard_normal(n), fm.Gaussian(mean, 0.3)
        fm.congruence_test(x[:50], self.data[1][:50], (mean[:50], 0.3))  # compiles its loops

    def run(self, **options):
        return fm.congruence_test(*self.data, random_state=0, **options)

    def time_right(self, problem):
        self.run()

    def time_relevant(self, problem):
        self.run(null="relevant", delta=0.05)

    def peakmem_right(self, problem):
        self.run()


class StreamingCCE:
    """Updates of the accumulator of the CCE with batches of 10,000 rows, and a window's step."""

    params = [100, 400]
    param_names = ["landmarks"]
    timeout = 120
    n = 10_000

    def setup(self, landmarks):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(self.n, 3))
        self.batch = x, x[:, 0] + rng.normal(size=self.n), fm.Gaussian(x[:, 0], 1.0)
        blank = fm.streaming.CCE(fm.RBF(0.2), fm.RBF(0.5), landmarks, random_state=0)
        self.part = blank.fresh().update(*self.batch)
        self.seen = self.part.fresh().merge(self.part)

    def time_update(self, landmarks):
        self.part.fresh().update(*self.batch)

    def time_merge_and_subtract(self, landmarks):
        self.seen.merge(self.part).subtract(self.part)

    def time_compute(self, landmarks):
        self.seen.compute()

    def track_numbers(self, landmarks):
        return self.seen._seen.numbers
