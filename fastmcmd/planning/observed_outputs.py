"""Observed outputs and predictions of a plan, and the time that they take in a fit.

A fit chooses features of outputs and computes the mean features of each row. Predicted distributions may
take far longer than drawn outputs: their candidates for pivots are nodes, and their means are integrals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.embedding.candidates import candidates
from fastmcmd.embedding.expected import Expectation, Expected
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.interpolation import integration_sites
from fastmcmd.embedding.line import line_features, serves_on_line
from fastmcmd.embedding.pivots import uncovered
from fastmcmd.estimate.leading_columns import leading_columns, omissible
from fastmcmd.estimate.outputs import MOST_PIVOTS
from fastmcmd.estimate.task import Task
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.planning.timing import seconds_a_row, seconds_of
from fastmcmd.predictive import Draws, Predictive

__all__ = ["MOST_FEATURES", "ObservedOutputs", "error_of"]

MOST_FEATURES = 1000  # of outputs
# Residual of features of observed outputs alone: less than a call needs of these, because it needs as much
# of a model's, too.
_EPS = 1e-15
_DRAWS = 4  # draws of a row that decisions need
_OUTPUTS = 4000  # observed outputs from which features are chosen
# A fit takes candidates for pivots from the nodes of so many predictions, a plan from so many.
_MOST_CHOSEN_FROM, _CHOSEN_FROM = 2000, 500
# Integrals of one in so many rows are timed, less than 2 % of their time, and closed forms of many rows.
# Fewer rows would not show the time of many, which share their panels.
_SHARE, _LEAST_ROWS, _MOST_ROWS = 64, 80, 1000
_PART = (
    5000  # rows among which a search for landmarks refines integrals, as long as its limit allows
)
_ON_LINE = 64  # predictions that choose panels of the line
_INTERPOLATED = (
    0.5  # time of a row on panels, relative to the features of an output that are integrated
)
_POINTS = 1000  # outputs at which interpolation coefficients are measured


@dataclass(frozen=True, eq=False)
class Expectations:
    """Expected features of predictions, from some of them.

    Attributes
    ----------
    a_row : float
        Seconds of a row.
    errors, residuals : ndarray (m,)
        Errors of the features of some rows, and the norms of what these do not represent beyond rounding.
    means : ndarray (m, r)
        Expected features of these rows.
    """

    a_row: float
    errors: Array
    residuals: Array
    means: Array


@dataclass(frozen=True, eq=False)
class ObservedOutputs:
    """Observed outputs, and perhaps predictions of them.

    Attributes
    ----------
    y : ndarray (n, k)
        Observed outputs.
    kernel : Kernel
        Their kernel, which has low rank on them.
    prediction : Predictive or None
        Predicted distributions.
    features : KernelFeatures or None
        Features of the kernel.
    choosing : float
        Seconds in which a fit chooses features, as far as predictions take them.
    sites : int or None
        Number of predictions that are integrated, if others are interpolated between them.
    """

    y: HostArray
    kernel: Kernel
    prediction: Predictive | None = None
    features: KernelFeatures | None = None
    choosing: float = 0.0
    sites: int | None = None

    def take(self, rows: NDArray[np.intp] | slice) -> ObservedOutputs:
        """Return the outputs of some rows."""
        prediction = self.prediction
        if prediction is not None:
            index = np.arange(*rows.indices(len(self.y))) if isinstance(rows, slice) else rows
            prediction = prediction.take(index)
        return replace(self, y=self.y[rows], prediction=prediction)

    def like(self, model: ObservedOutputs) -> ObservedOutputs:
        """Return the outputs with the features of others."""
        return replace(self, features=model.features, choosing=model.choosing, sites=model.sites)

    @property
    def is_drawn(self) -> bool:
        """Whether there are no predictions but draws."""
        return self.prediction is None or isinstance(self.prediction, Draws)

    @property
    def draws_of_row(self) -> int:
        """Draws of each prediction, 1 without predictions."""
        if not isinstance(self.prediction, Draws):
            return 1
        return self.prediction.array.size // self.y.size

    def draws(self) -> Array | None:
        """Return a few draws (n, l, k) of each prediction, or None without predictions."""
        if self.prediction is None:
            return None
        shape = len(self.y), -1, self.y.shape[1]
        if isinstance(self.prediction, Draws):
            return np.asarray(self.prediction.array, dtype=np.float64).reshape(shape)[:, :_DRAWS]
        rng = generator(len(self.y), Purpose.PLAN)
        return np.asarray(self.prediction.sample(2, rng), dtype=np.float64).reshape(shape)

    def with_features(self, task: Task, lam: float) -> ObservedOutputs | None:
        """Return the outputs with the features that a fit would choose, or None if these are too many."""
        n = len(self.y)
        index = np.linspace(0, n - 1, _OUTPUTS).astype(np.intp)
        ends = [self.y.argmin(axis=0), self.y.argmax(axis=0)]
        index = np.unique(np.concatenate([index, *ends]))
        outputs, importance = np.asarray(self.y[index], dtype=np.float64), None
        eps, choosing = _EPS, 0.0
        if isinstance(self.prediction, Draws):
            draws = self.take(index).draws()
            assert draws is not None
            outputs = np.concatenate([outputs, draws.reshape(-1, outputs.shape[1])])
            eps = task.feature_residual(lam, lam)
        elif self.prediction is not None:
            values, worth, choosing = self._candidates()
            importance = np.concatenate([np.ones(len(outputs)), worth])
            outputs = np.concatenate([outputs, values])
            eps = task.feature_residual(lam, lam)
        else:
            outputs = np.unique(outputs, axis=0)
        backend = get_backend("auto", self.kernel)
        factored = output_features(self.kernel, backend, outputs, eps, MOST_FEATURES, importance)
        if factored is None:
            return None
        sites = None
        if self.prediction is not None:
            goal = task.expectation_error(lam)
            some = integration_sites(self.prediction, self.kernel, goal)
            sites = None if some is None else sum(map(len, some))
        return replace(self, features=factored[0], choosing=choosing, sites=sites)

    def _candidates(self) -> tuple[Array, Array, float]:
        """Return candidates for pivots, their importance, and the seconds of the choice from all rows."""
        n, prediction = len(self.y), self.prediction
        assert prediction is not None
        some = np.linspace(0, n - 1, min(n, _CHOSEN_FROM)).astype(np.intp)
        part, results = prediction.take(some), list[tuple[Array, Array]]()
        took = seconds_of(lambda: results.append(candidates(part)))
        return *results[-1], took * min(n, _MOST_CHOSEN_FROM) / len(some)

    def seconds_of_draws(self, without: int = 0) -> float:
        """Return the seconds of the mean features of a row's draws, ``without`` so many of them."""
        more, features, some = self.draws_of_row - without, self.features, self._some(_MOST_ROWS)
        if features is None or not self.is_drawn or more <= 0:
            return 0.0
        return more * seconds_of(lambda: features.transform(some)) / len(some)

    def expectations(self, n: int, at_once: int, goal: float | None = None) -> Expectations:
        """Return the time of expected features, and what they leave, from some predictions.

        Parameters
        ----------
        n : int
            Number of rows.
        at_once : int
            Rows that are computed together, which limits how far the integral of each is refined.
        goal : float, optional
            Error that integrals may have; default as in `Expectation`.
        """
        features, prediction, points = self.features, self.prediction, self._some(_POINTS)
        assert features is not None
        assert prediction is not None
        results, runs = list[Expected](), 1 if self.integrates else 2  # integrals take long
        if self.sites is not None:
            n = at_once = self.sites

        def seconds(count: int) -> float:
            part, share = prediction.take(np.arange(count)), min(1.0, count / at_once)
            expectation = Expectation(features, part, points, goal, share)
            return seconds_of(lambda: results.append(expectation.of(part)), runs)

        a_row = self._a_row(seconds, n)
        expected = results[-1]
        residuals = np.sqrt(uncovered(expected.residual, expected.floor))
        return Expectations(a_row, expected.error, residuals, expected.mean)

    def seconds_at_once(
        self, n: int, task: Task, lam: float, searched: int = 0
    ) -> tuple[int, float]:
        """Return the columns of the mean features of ``n`` rows at once, and their seconds.

        ``task`` and ``lam`` are kernels, options and regulariser of the fit. It has computed features of
        ``searched`` rows before, for landmarks that it does not use.
        """
        features, prediction = self.features, self.prediction
        assert features is not None
        if prediction is None or isinstance(prediction, Draws):
            columns = self._columns(features.transform(self._some(_POINTS)), task, lam)
            return columns, n * self.seconds_of_draws()
        has_panels = serves_on_line(self.kernel, prediction)
        if has_panels and features.rank > MOST_PIVOTS:
            on_panels = self._on_panels(n, task, lam)
            if on_panels is not None:
                return on_panels
        goal = task.expectation_error(lam)
        expected = self.expectations(n, min(n, _PART) if searched else n, goal)
        times, count = 1 + (searched > 0), n + searched
        if self.sites is not None:
            count = times * self.sites
        took = times * self.choosing + count * expected.a_row
        if has_panels and error_of(expected.errors, task, lam) > task.options.tol:
            on_panels = self._on_panels(n, task, lam)
            if on_panels is not None:
                return on_panels[0], took + on_panels[1]
        of_outputs = features.transform(self._some(len(expected.means)))
        return self._columns(of_outputs - expected.means, task, lam), took

    def _on_panels(self, n: int, task: Task, lam: float) -> tuple[int, float] | None:
        """Return the columns and seconds of features on panels of the line; None if these are too many."""
        prediction, goal = self.prediction, task.expectation_error(lam)
        assert prediction is not None
        count, start = min(len(self.y), _ON_LINE), time.perf_counter()
        part, outputs = prediction.take(np.arange(count)), self._some(count)
        on_line = line_features(self.kernel, np.unique(outputs), part, goal)
        if on_line is None:
            return None
        line, mean, _ = on_line
        took = self.choosing + time.perf_counter() - start
        # Sites choose panels and are integrated again. A row is interpolated, as its output is.
        integrated, share = (n, 1.0) if self.sites is None else (2 * self.sites, _INTERPOLATED)
        took += integrated * seconds_of(lambda: line.expected(part, goal), 1) / count
        some = self._some(_LEAST_ROWS)
        took += share * n * seconds_of(lambda: line.transform(some)) / len(some)
        return self._columns(line.transform(outputs) - mean, task, lam), took

    def _columns(self, rows: Array, task: Task, lam: float) -> int:
        """Return the columns that a fit solves for, from the features of some rows."""
        weight = np.full(len(rows), 1.0 / (len(rows) * lam))
        few = leading_columns([rows], [weight], omissible(task.options.tol, task.scale))
        return rows.shape[1] if few is None else few.basis.shape[1]

    def _some(self, count: int) -> Array:
        """Return the first observed outputs."""
        return np.asarray(self.y[:count], dtype=np.float64)

    def _a_row(self, seconds: Callable[[int], float], n: int) -> float:
        """Return the seconds of a row among ``n``, from those of a few rows."""
        most = int(np.clip(n // _SHARE, _LEAST_ROWS, _MOST_ROWS)) if self.integrates else _MOST_ROWS
        return seconds_a_row(seconds, min(most, len(self.y)))

    @property
    def integrates(self) -> bool:
        """Whether densities are integrated numerically: a fit may need another pass for their errors."""
        if self.is_drawn or self.features is None:
            return False
        assert self.prediction is not None
        some = self.prediction.take(np.zeros(1, dtype=np.intp))
        return Expectation(self.features, some, self._some(1)).integrates


def error_of(rows: Array, task: Task, lam: float) -> float:
    """Return the largest change of a value if the embedding of each row has the error in ``rows``."""
    return task.scale / 2 * float(np.sqrt(np.mean(rows**2) / lam))
