"""Whole estimates: time, memory, error, fraction of the floor."""

from __future__ import annotations

import time
import warnings
from unittest import mock

import numpy as np

import fastmcmd as fm
from fastmcmd.solvers.switch_policy import SwitchPolicy

from .problems import clip_like, smooth
from .published import mcmd_numpy, polynomial, rbf


def floor_seconds(n, d, size=1536):
    """Return n^2 d operations (the symmetric Gram matrix) at the sgemm rate of this process."""
    a = np.random.default_rng(0).standard_normal((size, size)).astype(np.float32)
    best = np.inf
    for _ in range(6):
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return float(n) * n * d / (2 * size**3 / best)


class Base:
    timeout = 600
    warmup_time = 0.1
    number = 1
    repeat = (3, 5, 20.0)
    params: tuple = ([3000, 12000], ["clip d=512", "rbf d=8"])
    param_names = ("n", "problem")

    def setup(self, n, problem):
        if problem.startswith("clip"):
            self.data = clip_like(n)
            self.x_kernel, self.plain = fm.Polynomial(3), polynomial
        else:
            self.data = smooth(n, 8)
            self.x_kernel, self.plain = fm.RBF(1 / 16), rbf(1 / 16)
        self.gamma = 1 / (2 * np.var(self.data[1], ddof=1))

    def run(self, **options):
        x, y, p = self.data
        return fm.cce(
            x, y, p, x_kernel=self.x_kernel, y_kernel=fm.RBF(self.gamma), **options, lam=0.1
        )


class Estimate(Base):
    """The paper's case: one draw, evaluated at S."""

    def time_default(self, n, problem):
        self.run()

    def time_float64(self, n, problem):
        self.run(dtype=np.float64)

    def time_rigorous(self, n, problem):
        self.run(certificate="rigorous")

    def time_200_megabytes(self, n, problem):
        self.run(memory_limit="200MB")

    def peakmem_default(self, n, problem):
        self.run(memory_limit="1GB")

    def peakmem_200_megabytes(self, n, problem):
        self.run(memory_limit="200MB")

    def peakmem_inputs_only(self, n, problem):
        pass

    def track_error_against_float64(self, n, problem):
        exact = self.run(dtype=np.float64, tol=1e-9)
        return float(np.abs(self.run().values - exact.values).max())

    def track_bound_over_error(self, n, problem):
        """Median of bound / error: how sharp the certificate is."""
        exact, ours = self.run(dtype=np.float64, tol=1e-10), self.run()
        return float(np.median(ours.error_bounds / np.abs(ours.values - exact.values)))

    def track_times_floor(self, n, problem):
        return self._times_floor(n)

    def track_times_floor_200_megabytes(self, n, problem):
        return self._times_floor(n, memory_limit="200MB")

    def _times_floor(self, n, **options):
        self.run(**options)
        seconds = []
        for _ in range(3):
            time.sleep(0.05)  # BLAS threads stop to spin
            start = time.perf_counter()
            self.run(**options)
            seconds.append(time.perf_counter() - start)
        return min(seconds) / floor_seconds(n, self.data[0].shape[1])


class Published(Base):
    """The peer, for the ratio: it takes minutes at n = 12,000."""

    params = ([3000], ["clip d=512", "rbf d=8"])
    repeat = 1

    def time_numpy_float32(self, n, problem):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mcmd_numpy(*self.data, self.plain, rbf(self.gamma), 0.1, np.float32)

    def track_speedup_over_published(self, n, problem):
        start = time.perf_counter()
        self.time_numpy_float32(n, problem)
        theirs = time.perf_counter() - start
        self.run()
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            self.run()
            best = min(best, time.perf_counter() - start)
        return theirs / best


class SmallUser:
    """Problems with d = 2, where overheads count: one draw, and a distribution."""

    params = [50, 300]
    param_names = ("n",)

    def setup(self, n):
        self.data = smooth(n, 2, dtype=np.float64)

    def time_cce(self, n):
        x, y, p = self.data
        fm.cce(x, y, p, x_kernel=fm.RBF(0.25), y_kernel=fm.RBF(0.5), tol=1e-9, lam=0.1)

    def time_usual_tol(self, n):
        x, y, p = self.data
        fm.cce(x, y, p, x_kernel=fm.RBF(0.25), y_kernel=fm.RBF(0.5), lam=0.1)

    def time_gaussian(self, n):
        x, y, p = self.data
        prediction = fm.Gaussian(p, 0.35)
        fm.cce(x, y, prediction, x_kernel=fm.RBF(0.25), y_kernel=fm.RBF(0.5), lam=0.1)

    def time_default_kernels(self, n):
        fm.cce(*self.data)

    def time_gaussian_default_kernels(self, n):
        x, y, p = self.data
        fm.cce(x, y, fm.Gaussian(p, 0.35))

    def time_published_float64(self, n):
        mcmd_numpy(*self.data, rbf(0.25), rbf(0.5), 0.1, np.float64)


class Draws:
    """n = 2,000 with l draws each: one solve of size n whatever l."""

    params = [1, 100]
    param_names = ("draws",)

    def setup(self, draws):
        self.x, self.y, p = smooth(2000, 8)
        self.draws = p[:, None] + 0.35 * np.random.default_rng(1).standard_normal((2000, draws))

    def time_cce(self, draws):
        fm.cce(
            self.x,
            self.y,
            self.draws,
            x_kernel=fm.RBF(1 / 16),
            y_kernel=fm.RBF(0.5),
            tol=1e-9,
            lam=0.1,
        )

    def peakmem_cce(self, draws):
        fm.cce(
            self.x,
            self.y,
            self.draws,
            x_kernel=fm.RBF(1 / 16),
            y_kernel=fm.RBF(0.5),
            tol=1e-9,
            lam=0.1,
        )


class ManyDraws:
    """n = 4,000 with 1,000 draws each: their features are summed, not stored."""

    def setup(self):
        self.x, self.y, p = smooth(4000, 8)
        self.draws = p[:, None] + 0.35 * np.random.default_rng(1).standard_normal((4000, 1000))

    def time_cce(self):
        fm.cce(self.x, self.y, self.draws, x_kernel=fm.RBF(1 / 16), y_kernel=fm.RBF(0.5), lam=0.1)

    def peakmem_cce(self):
        self.time_cce()


class ManyVectorDraws:
    """n = 3,000 with 20 draws of three numbers: an output kernel without low rank."""

    def setup(self):
        rng = np.random.default_rng(2)
        self.x, y, _ = smooth(3000, 8)
        self.y = y[:, None] + rng.standard_normal((3000, 3))
        self.draws = y[:, None, None] + rng.standard_normal((3000, 20, 3))

    def time_cce(self):
        fm.cce(self.x, self.y, fm.Draws(self.draws))


class LooseTolerance:
    """Tolerances that equal the errors of scikit-learn's Nystroem; see benchmarks/peers/cce.py.

    Seconds of Nystroem with these landmarks, from features of the outputs, without a certificate (two cores
    of a Zen 5): 0.005 and 0.036 for n = 5,000; 0.012 and 0.09 for 20,000; 0.06 and 0.4 for 100,000.
    """

    params = [[5_000, 20_000, 100_000], [100, 400]]
    param_names = ["n", "landmarks"]
    tolerances = {
        5_000: {100: 1.4e-3, 400: 4.7e-4},
        20_000: {100: 1.3e-3, 400: 1.7e-4},
        100_000: {100: 1.1e-3, 400: 1.7e-4},
    }

    def setup(self, n, landmarks):
        self.data = smooth(n, 8)
        self.y_kernel = fm.RBF(1 / (2 * np.var(self.data[1], ddof=1)))
        self.time_cce(n, landmarks)

    def cce(self, n, landmarks):
        options = {"x_kernel": fm.RBF(1 / 16), "y_kernel": self.y_kernel, "lam": 0.1}
        return fm.cce(*self.data, tol=self.tolerances[n][landmarks], **options)

    def time_cce(self, n, landmarks):
        self.cce(n, landmarks)

    def track_error_bound(self, n, landmarks):
        return self.cce(n, landmarks).error_bound


class ManyPoints:
    """A million evaluation points for n = 4,000."""

    timeout = 600

    def setup(self):
        self.data = smooth(4000, 8)
        rng = np.random.default_rng(1)
        self.at = rng.standard_normal((1_000_000, 8), dtype=np.float32)

    def time_cce(self):
        x, y, p = self.data
        fm.cce(x, y, p, at=self.at, x_kernel=fm.RBF(1 / 16), y_kernel=fm.RBF(0.5), lam=0.1)

    def time_default_kernels(self):
        fm.cce(*self.data, at=self.at)


class EvaluateGaussian:
    """`evaluate` of Gaussian predictions in four columns: no low rank, about 90 output features."""

    params = ([30_000, 100_000], ["RBF(1/8)", "default"])
    param_names = ("n", "x_kernel")
    timeout = 1200
    number = 1
    repeat = 1
    warmup_time = 0.1

    def setup(self, n, x_kernel):
        rng = np.random.default_rng(1)
        self.x = rng.standard_normal((n, 4))
        mean = np.sin(self.x[:, 0]) + 0.5 * self.x[:, 1] * self.x[:, 2]
        self.y = mean + 0.3 * rng.standard_normal(n)
        self.prediction = fm.Gaussian(mean, np.full(n, 0.3))
        self.x_kernel = fm.RBF(1 / 8) if x_kernel == "RBF(1/8)" else None

    def time_evaluate(self, n, x_kernel):
        fm.evaluate(self.y, self.prediction, self.x, x_kernel=self.x_kernel)

    def track_products(self, n, x_kernel):
        return fm.cce(self.x, self.y, self.prediction, x_kernel=self.x_kernel).info.iterations

    def track_share_of_plain_cg(self, n, x_kernel):
        """Processor time relative to CG that starts without a preconditioner."""
        with mock.patch.object(SwitchPolicy, "part_rows", return_value=0):
            plain = self._processor_time()
        return self._processor_time() / plain

    def _processor_time(self):
        start = time.process_time()
        fm.cce(self.x, self.y, self.prediction, x_kernel=self.x_kernel, solver="cg")
        return time.process_time() - start


class Choice:
    """``solver="auto"`` against the best explicit solver."""

    params = ([2000, 6000, 16_000], [1, 2, 4, 8, 32], [0.1, 0.01, 1e-4])
    param_names = ("n", "d", "lam")
    timeout = 600

    def track_times_the_best(self, n, d, lam):
        data, kernel, best = smooth(n, d), fm.RBF(1 / (2 * d)), {}
        solvers = [
            "auto",
            "cg",
            *(["lowrank"] if d <= 2 else []),
            *(["cholesky"] if n <= 6000 else []),
        ]
        for _ in range(3):
            for solver in solvers:
                time.sleep(0.05)  # BLAS threads stop to spin
                start = time.perf_counter()
                fm.cce(*data, x_kernel=kernel, lam=lam, solver=solver)
                seconds = time.perf_counter() - start
                best[solver] = min(seconds, best.get(solver, np.inf))
        return best.pop("auto") / min(best.values())


class Families:
    """Predictions without a closed form: embeddings by quadrature, default kernels."""

    params = ["student t", "uniform", "truncated", "log-normal", "beta", "gamma", "Cauchy, n=600"]
    param_names = ("family",)
    timeout = 600
    number = 1
    repeat = 2

    def setup(self, family):
        rng = np.random.default_rng(0)
        n = 600 if "600" in family else 10_050
        self.x = rng.normal(size=(n, 2))
        m = np.sin(self.x[:, 0])
        self.prediction = {
            "student t": lambda: fm.StudentT(5.0, m, 0.3),
            "uniform": lambda: fm.Uniform(m - 0.5, m + 0.5),
            "truncated": lambda: fm.Truncated(fm.Gaussian(m, 0.3), -1.0, 1.5),
            "log-normal": lambda: fm.LogNormal(m, 0.3),
            "beta": lambda: fm.Beta(2 + m, 2.0),
            "gamma": lambda: fm.Gamma(2 + m, 1.0),
            "Cauchy, n=600": lambda: fm.StudentT(1.0, m, 0.3),
        }[family]()
        self.y = self.prediction.sample(1, 0)[:, 0]

    def time_cce(self, family):
        fm.cce(self.x, self.y, self.prediction)


class Growth:
    """RBF, d = 64, within 8 GB: the exponent of n."""

    timeout = 900
    number = 1
    repeat = 1
    warmup_time = 0.1
    params = [12000, 25000, 50000]
    param_names = ("n",)

    def setup(self, n):
        self.data = smooth(n, 64)

    def time_cce(self, n):
        x, y, p = self.data
        fm.cce(x, y, p, x_kernel=fm.RBF(1 / 128), y_kernel=fm.RBF(0.5), memory_limit="8GB", lam=0.1)

    def track_error_bound(self, n):
        x, y, p = self.data
        return fm.cce(
            x, y, p, x_kernel=fm.RBF(1 / 128), y_kernel=fm.RBF(0.5), memory_limit="8GB", lam=0.1
        ).error_bound


class Several(Base):
    """Three models at the same inputs: one call for all, or one call each."""

    params: tuple = ([6000], ["clip d=512", "rbf d=8"])

    def setup(self, n, problem):
        super().setup(n, problem)
        x, y, p = self.data
        rng = np.random.default_rng(1)
        self.models = {"given": p, "wide": p + 0.5 * rng.standard_normal(n), "close": y + 0.1}
        self.inputs = x, y

    def congruence(self):
        return fm.ConditionalCongruence(
            x_kernel=self.x_kernel, y_kernel=fm.RBF(self.gamma), lam=0.1
        )

    def evaluate_many(self):
        self.congruence().fit_each(*self.inputs, self.models)

    def apart(self):
        for model in self.models.values():
            self.congruence().fit(*self.inputs, model)

    def time_evaluate_many(self, n, problem):
        self.evaluate_many()

    def track_share_of_apart(self, n, problem):
        seconds = {}
        for way in (self.evaluate_many, self.apart) * 3:
            start = time.perf_counter()
            way()
            joint_seconds = time.perf_counter() - start
            seconds[way.__name__] = min(joint_seconds, seconds.get(way.__name__, np.inf))
        return seconds["evaluate_many"] / seconds["apart"]


class Planned(Base):
    """The time that a plan itself takes, and its prediction of the job's."""

    params: tuple = ([12000, 30000], ["clip d=512", "rbf d=8"])

    def track_prediction(self, n, problem):
        """Return predicted seconds relative to those of the job."""
        predicted = fm.plan(self.data[0], self.x_kernel, y=self.data[1], lam=0.1).seconds
        start = time.perf_counter()
        self.run()
        return predicted / (time.perf_counter() - start)

    def track_share_of_the_job(self, n, problem):
        start = time.process_time()
        self.time_plan(n, problem)
        planned = time.process_time()
        self.run()
        return (planned - start) / (time.process_time() - planned)

    def time_plan(self, n, problem):
        fm.plan(self.data[0], self.x_kernel, lam=0.1)


class Hard:
    """Small regularisers and tight tolerances, n = 5,000: rounds of CG in float32, or a factorisation."""

    timeout = 600
    warmup_time = 0.1
    number = 1
    repeat = (3, 5, 20.0)
    params = (["clip d=512", "rbf d=8"], [0.1, 1e-3, 1e-5], [1e-6, 1e-9])
    param_names = ("problem", "lam", "tol")

    def setup(self, problem, lam, tol):
        clip = problem.startswith("clip")
        self.data = clip_like(5000) if clip else smooth(5000, 8)
        self.kernel = fm.Polynomial(3) if clip else fm.RBF(1 / 8)
        warnings.simplefilter("ignore", fm.ToleranceWarning)  # rounding alone may leave more

    def run(self, lam, tol, **options):
        return fm.cce(
            *self.data, x_kernel=self.kernel, lam=lam, tol=tol, **options, y_kernel="paper"
        )

    def time_auto(self, problem, lam, tol):
        self.run(lam, tol)

    def time_cholesky(self, problem, lam, tol):
        self.run(lam, tol, solver="cholesky")

    def track_certified(self, problem, lam, tol):
        return float(self.run(lam, tol).error_bound)
