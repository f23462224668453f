"""The exact test, from a thousand rows to a million, and the waiting time for printed results."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

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


class Picture:
    """Evaluations and comparisons, printed and as a report: 3,000 rows and 9 columns."""

    timeout = 600
    warmup_time = 0.0
    number = 1
    repeat = (1, 3, 60.0)
    params = ["one model", "three models", "two Cauchy models"]
    param_names = ("models",)

    def setup(self, models):
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((3000, 9))
        self.folder = tempfile.TemporaryDirectory()
        if models == "two Cauchy models":
            centre = np.sin(self.x[:, 0])
            self.y = centre + 0.05 * rng.standard_cauchy(len(centre))
            self.models = {
                "right": fm.StudentT(1.0, centre, 0.05),
                "shifted": fm.StudentT(1.0, centre + 0.05, 0.08),
            }
        else:
            mean = np.exp(1 + 0.5 * np.sin(self.x[:, 0]) + 0.3 * self.x[:, 1])
            self.y = rng.negative_binomial(2.0, 1 / (1 + 0.5 * mean)).astype(np.float64)
            self.models = {"too high": fm.NegativeBinomial(1.2 * mean, 0.3)}
            if models == "three models":
                self.models |= {
                    "right": fm.NegativeBinomial(mean, 0.5),
                    "Poisson": fm.Poisson(mean),
                }
        self.save(self.tested(300))  # loads and compiles

    def teardown(self, models):
        self.folder.cleanup()

    def tested(self, n=3000):
        y, x, rows = self.y[:n], self.x[:n], np.arange(n)
        some = {name: one.take(rows) for name, one in self.models.items()}
        if len(some) > 1:
            return fm.compare(some, y, x)
        return fm.evaluate(y, next(iter(some.values())), x)

    def save(self, result):
        result.report(Path(self.folder.name) / "report.html")

    def time_printed(self, models):
        str(self.tested())

    def time_report(self, models):
        self.save(self.tested())

    def time_printed_and_report(self, models):
        result = self.tested()
        str(result)
        self.save(result)


class FirstReport:
    """Seconds of the first report of an evaluation in a new process."""

    unit = "s"

    def track_first_report(self):
        code = (
            "import sys, time, numpy as np, fastmcmd as fm; rng = np.random.default_rng(0); "
            "x, y = rng.normal(size=(2000, 3)), rng.normal(size=2000); "
            "result = fm.evaluate(y, fm.Gaussian(np.zeros(2000), 1.1), x); t = time.perf_counter(); "
            "result.report(sys.argv[1]); print(time.perf_counter() - t)"
        )
        seconds = []
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", code, str(Path(folder) / "report.html")]
            for _ in range(3):
                process = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds.append(float(process.stdout.split()[-1]))
        return min(seconds)


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
        self.total = self.part.fresh().merge(self.part)

    def time_update(self, landmarks):
        self.part.fresh().update(*self.batch)

    def time_merge_and_subtract(self, landmarks):
        self.total.merge(self.part).subtract(self.part)

    def time_compute(self, landmarks):
        self.total.compute()

    def track_numbers(self, landmarks):
        return self.total._required_sums.numbers
