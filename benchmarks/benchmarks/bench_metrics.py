"""Everything but the CCE: evaluation, scores of families, classification, recalibration, import."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import partial

import numpy as np

import fastmcmd as fm


def _means(n):
    return np.random.default_rng(0).gamma(4.0, 3.0, n)


_FAMILIES = {
    "gaussian": lambda n: fm.Gaussian(np.zeros(n), np.linspace(0.5, 2, n)),
    "student t": lambda n: fm.StudentT(np.full(n, 4.0), 0.0, 1.0),
    "poisson": lambda n: fm.Poisson(_means(n)),
    "negative binomial": lambda n: fm.NegativeBinomial(_means(n), 0.3),
    "double poisson": lambda n: fm.DoublePoisson(_means(n), 2.0),
    "draws": lambda n: fm.Draws(np.random.default_rng(1).normal(size=(n, 100))),
}


class Evaluate:
    """All measures of Gaussian predictions in shared passes."""

    params = [1_000, 100_000, 1_000_000]
    param_names = ["n"]
    timeout = 120

    def setup(self, n):
        rng = np.random.default_rng(0)
        self.y = rng.normal(size=n)
        self.prediction = fm.Gaussian(np.zeros(n), rng.lognormal(0, 0.3, n))
        fm.evaluate(self.y[:100], (np.zeros(100), 1.0))  # loads what is loaded at first use

    def time_evaluate(self, n):
        fm.evaluate(self.y, self.prediction)

    def time_evaluate_weighted(self, n):
        fm.evaluate(self.y, self.prediction, sample_weight=np.linspace(0.5, 1, n))

    def peakmem_evaluate(self, n):
        fm.evaluate(self.y, self.prediction)


def _pair(family, n):
    """Return the families of a mixture's two components, with a location or mean in each row."""
    m, g = np.random.default_rng(2).normal(size=n), _means(n)
    return {
        "student t": lambda: [fm.StudentT(5.0, m, 1.0), fm.StudentT(4.0, m + 2, 0.5)],
        "gamma": lambda: [fm.Gamma(g, 1.0), fm.Gamma(g / 4 + 1, 0.5)],
        "log-normal": lambda: [fm.LogNormal(m, 1.0), fm.LogNormal(m + 1, 0.5)],
        "laplace": lambda: [fm.Laplace(m, 1.0), fm.Laplace(m + 2, 0.5)],
        "poisson": lambda: [fm.Poisson(g), fm.Poisson(2 * g + 1)],
        "negative binomial": lambda: [
            fm.NegativeBinomial(g, 0.3), fm.NegativeBinomial(2 * g + 1, 0.1),
        ],
    }[family]()  # fmt: skip


_PAIRS = ["student t", "gamma", "log-normal", "laplace", "poisson", "negative binomial"]
_INTERVALS = {
    "student t": (-1.0, 3.0),
    "gamma": (0.5, 40.0),
    "log-normal": (0.1, 15.0),
    "laplace": (0.0, np.inf),
    "poisson": (1.0, np.inf),
    "negative binomial": (1.0, np.inf),
}


class EvaluateWrapped:
    """`evaluate` of distributions whose CRPS is an integral or a sum, without a formula of quantiles."""

    params = [["mixture", "truncated"], _PAIRS]
    param_names = ["kind", "family"]
    timeout = 300
    number = 1
    repeat = 1
    n = 100_000

    def setup(self, kind, family):
        parts = _pair(family, self.n)
        self.prediction = (
            fm.Mixture(parts, [0.5, 0.5])
            if kind == "mixture"
            else fm.Truncated(parts[0], *_INTERVALS[family])
        )
        self.y = self.prediction.sample(1, 0)[:, 0]
        fm.evaluate(self.y[:100], self.prediction.take(np.arange(100)))

    def time_evaluate(self, kind, family):
        fm.evaluate(self.y, self.prediction)


def _many(kind, n):
    """Return mixtures of more components, of other families, and of wrapped ones."""
    rng = np.random.default_rng(3)
    m, s, t = rng.normal(size=(5, n)), rng.uniform(1, 5, (4, n)), rng.uniform(0.5, 2, (5, n))
    df = {"five student t": [3.0, 4.0, 5.0, 7.0, 9.0], "five student t, df 3.7": [3.7] * 5}
    if kind in df:
        return fm.Mixture(list(map(fm.StudentT, df[kind], m, t)))
    pairs = {
        "beta": lambda: [fm.Beta(s[0], s[1]), fm.Beta(s[2], s[3])],
        "beta with poles": lambda: [fm.Beta(s[0] / 5, s[1] / 5), fm.Beta(s[2] / 5, s[3])],
        "zero-inflated gamma": lambda: [fm.Gamma(s[0], 1.0), fm.Gamma(s[1] + 1, 2.0)],
        "truncated gaussian": lambda: [fm.Gaussian(m[0], 1.0), fm.Gaussian(m[1] + 2, 0.5)],
    }
    mixture = fm.Mixture(pairs[kind](), [0.4, 0.6])
    if kind == "zero-inflated gamma":
        return fm.ZeroInflated(mixture, np.full(n, 0.2))
    return fm.Truncated(mixture, -1.0, 3.0) if kind == "truncated gaussian" else mixture


class EvaluateMixtures:
    """`evaluate` of mixtures that a million rows of take at most 20 seconds."""

    params = [
        [
            "five student t",
            "five student t, df 3.7",
            "beta",
            "beta with poles",
            "zero-inflated gamma",
            "truncated gaussian",
        ],
        [100_000, 1_000_000],
    ]
    param_names = ["kind", "n"]
    timeout = 300
    number = 1
    repeat = 2

    def setup(self, kind, n):
        self.prediction = _many(kind, n)
        self.y = self.prediction.sample(1, 0)[:, 0]
        fm.evaluate(self.y[:100], self.prediction.take(np.arange(100)))

    def time_evaluate(self, kind, n):
        fm.evaluate(self.y, self.prediction)


class Bootstrap:
    """Intervals of all measures from samples of rows that share passes."""

    timeout = 300
    n = 100_000
    params = [100, 1000]
    param_names = ["n_boot"]

    def setup(self, n_boot):
        rng = np.random.default_rng(0)
        self.y = rng.normal(size=self.n)
        self.prediction = fm.Gaussian(np.zeros(self.n), rng.lognormal(0, 0.3, self.n))
        fm.evaluate(self.y[:100], (np.zeros(100), 1.0), n_boot=2)

    def time_evaluate(self, n_boot):
        fm.evaluate(self.y, self.prediction, n_boot=n_boot)


class BesideABusyProcess(Bootstrap):
    """The same while another process keeps a core busy."""

    params = [1000]

    def setup(self, n_boot):
        super().setup(n_boot)
        self.neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def teardown(self, n_boot):
        self.neighbour.kill()
        self.neighbour.wait()


class Families:
    """Log score, PIT and CRPS by family."""

    params = [list(_FAMILIES)]
    param_names = ["family"]
    timeout = 120
    n = 100_000

    def setup(self, family):
        self.prediction = _FAMILIES[family](self.n)
        self.y = self.prediction.sample(1, 0)[:, 0]
        self.time_crps(family)
        self.time_pit(family)

    def time_crps(self, family):
        fm.metrics.crps(self.y, self.prediction)

    def time_pit(self, family):
        fm.metrics.pit_values(self.y, self.prediction)

    def time_log_score(self, family):
        if self.prediction.has_density:
            fm.metrics.log_score(self.y, self.prediction)


_METRICS = fm.metrics
_OF_NUMBERS = {
    "log score": _METRICS.ensemble_log_score,
    "Gaussian kernel score": _METRICS.gaussian_kernel_score,
    "error-spread score": _METRICS.error_spread_score,
    "weighted CRPS": partial(_METRICS.weighted_crps, lower=-1.0, upper=1.0),
    "outcome-weighted CRPS": partial(
        _METRICS.weighted_crps, lower=-1.0, upper=1.0, weighting="outcome"
    ),
    "Dawid-Sebastiani score": _METRICS.dawid_sebastiani,
}
_OF_VECTORS = {
    "energy score of vectors": _METRICS.energy_score,
    "variogram score of vectors": _METRICS.variogram_score,
    "Gaussian kernel score of vectors": _METRICS.gaussian_kernel_score,
    "Dawid-Sebastiani score of vectors": _METRICS.dawid_sebastiani,
}


class Ensembles:
    """Scores of 50 draws of numbers for 20,000 rows, and of three components for 4,000."""

    params = [[*_OF_NUMBERS, *_OF_VECTORS]]
    param_names = ["score"]

    def setup(self, score):
        rng = np.random.default_rng(0)
        if score in _OF_NUMBERS:
            self.score, shape, count = _OF_NUMBERS[score], (20_000,), (20_000, 50)
        else:
            self.score, shape, count = _OF_VECTORS[score], (4_000, 3), (4_000, 50, 3)
        self.y, self.draws = rng.normal(size=shape), rng.normal(size=count)
        self.time_score(score)

    def time_score(self, score):
        self.score(self.y, self.draws)


class Classification:
    """One pass over a million rows of 100 classes, and ECE from confidences."""

    timeout = 300
    n, classes = 1_000_000, 100

    def setup(self):
        rng = np.random.default_rng(0)
        logits = rng.normal(size=(self.n, self.classes)).astype(np.float32) * 2
        p = np.exp(logits, out=logits)
        p /= p.sum(axis=1, keepdims=True)
        self.p, self.y = p, rng.integers(0, self.classes, self.n)
        self.confidence, self.correct = p.max(axis=1), p.argmax(axis=1) == self.y
        fm.classification.evaluate(self.y[:1000], p[:1000])

    def time_evaluate(self):
        fm.classification.evaluate(self.y, self.p)

    def time_ece_of_confidences(self):
        fm.classification.ece(self.correct, self.confidence)

    def track_ece_to_bincount(self):
        index = (self.confidence * 15).astype(np.int64)

        def best(call):
            seconds = []
            for _ in range(20):
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
            return min(seconds)

        ours = best(self.time_ece_of_confidences)
        return ours / best(lambda: np.bincount(index, self.confidence, minlength=15))


class Recalibration:
    """Fits on a million rows."""

    timeout = 120

    def setup(self):
        rng = np.random.default_rng(0)
        self.y = rng.normal(size=1_000_000)
        self.prediction = fm.Gaussian(np.zeros(1_000_000), 2.0)

    def time_isotonic_cdf(self):
        fm.recalibration.IsotonicCDF().fit(self.prediction, self.y)

    def time_std_scaling(self):
        fm.recalibration.StdScaling().fit(self.prediction, self.y)


class FirstCall:
    """Seconds of a first call in a new process with an empty cache of compiled functions.

    ``python -m benchmarks.first_calls`` measures every public function.
    """

    unit = "s"
    timeout = 120
    calls = {
        "gaussian": "fm.evaluate(y, fm.Gaussian(np.zeros(200), 1.0))",
        "classification": "fm.classification.evaluate(k % 4, rng.dirichlet(np.ones(4), 200))",
        "poisson": "fm.evaluate(k, fm.Poisson(np.full(200, 4.0)))",
        "double poisson": "fm.evaluate(k, fm.DoublePoisson(np.full(200, 4.0), 2.0))",
        "student t": "fm.evaluate(y, fm.StudentT(np.linspace(3, 9, 200), np.zeros(200), 1.0))",
        "draws": "fm.evaluate(y, fm.Draws(rng.normal(size=(200, 30))))",
        "cce student t": "fm.cce(rng.normal(size=(200, 2)), y, fm.StudentT(4.0, np.zeros(200), 1.0))",
        "log-normal": "fm.evaluate(np.exp(y), fm.LogNormal(np.zeros(200), 1.0))",
        "verdict": "fm.verdict(x, y, fm.Gaussian(x[:, 0], 1.0))",
        "compare": "fm.compare({'a': fm.Gaussian(x[:, 0], 1.0), 'b': fm.Gaussian(y, 2.0)}, y, x)",
        "recalibrate": "fm.recalibration.IsotonicCDF().fit(fm.Gaussian(np.zeros(200), 2.0), y)",
    }
    params = [list(calls)]
    param_names = ["case"]

    def track_first_call(self, case):
        """CPU seconds."""
        return self._first(case, "process_time")

    def track_wall(self, case):
        """Wall seconds."""
        return self._first(case, "perf_counter")

    def _first(self, case, clock):
        code = (
            f"import numpy as np, fastmcmd as fm; from time import {clock} as clock; "
            "rng = np.random.default_rng(0); x = rng.normal(size=(200, 2)); "
            f"y, k = rng.normal(size=200), rng.poisson(4, 200); t = clock(); {self.calls[case]}; "
            "print(clock() - t)"
        )
        seconds = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                process = subprocess.run(
                    [sys.executable, "-c", code], capture_output=True, text=True, check=True,
                    env={**os.environ, "NUMBA_CACHE_DIR": folder},
                )  # fmt: skip
            seconds.append(float(process.stdout))
        return min(seconds)


class Import:
    """Seconds of ``import fastmcmd`` in a new process."""

    unit = "s"

    def track_import(self):
        code = (
            "import time; t = time.perf_counter(); import fastmcmd; print(time.perf_counter() - t)"
        )
        import_times = [
            float(
                subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
            )
            for _ in range(5)
        ]
        return min(import_times)
