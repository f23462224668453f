"""Monitoring for changes of P(x), P(y) or P(y | x) from a reference to batches, at any number of looks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from fastmcmd import storage
from fastmcmd._base.annotations import FilePath, Json, RandomState
from fastmcmd._base.checks import (
    as_float,
    as_rows,
    check_count,
    check_same_length,
    quote,
)
from fastmcmd._base.seeds import Purpose, generator, seed_sequence
from fastmcmd._base.tables import ColumnTable
from fastmcmd.errors import NumericalError
from fastmcmd.frames import check_row_order
from fastmcmd.inference.inputs import check_simulations
from fastmcmd.inference.shift_tests import View, batch_p_values, log_odds
from fastmcmd.io.state import decode
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Categorical, Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.streaming.congruence_estimate import CongruenceEstimate
from fastmcmd.streaming.model_error import ModelError, SavedModelError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["QUESTIONS", "Monitor", "MonitorUpdate", "evidence_of"]

Array = NDArray[np.float64]

QUESTIONS = ("P(x)", "P(y)", "P(y | x)")
_ASIDE = 0.25, 1_000  # share and largest number of reference rows for scales and landmarks
_LEAST_ROWS = 40  # smallest number of rows of the reference
_LOGIT_ROWS = 5_000  # largest number of reference rows for learning importance weights
_FARTHEST = 10.0  # standard deviations at which a column is clipped
_DEEPEST = 1e-6  # smallest probability that is not clipped; 1 minus it is the largest
_KIND = "Monitor"


@dataclass(frozen=True, eq=False, repr=False)
class MonitorUpdate:
    """The results for one batch.

    Attributes
    ----------
    batch, rows : int
        Number of the batch, from 1, and its number of rows.
    p_values : dict of float
        Permutation p-value of this batch alone, for "P(x)", "P(y)" and "P(y | x)".
    e_values : dict of float
        The e-value of each p-value.
    evidence : dict of float
        Evidence for a change from all batches so far: a test martingale, 1 at the start.
    alarms : dict of (int or None)
        Batch in which the evidence first reached the threshold; None if it has not.
    threshold : float
        Evidence that raises an alarm, ``3 / alpha``, because there are three questions.
    effective_rows : float
        Effective number of reference rows after they are reweighted to this batch's P(x), times the share
        of the batch that lies near reference rows.
    reference_rows : int
        Number of rows of the reference.
    cce, reference_cce : CongruenceEstimate or None
        Conditional congruence error of the predictions over the last ``cce_batches`` batches, and over the
        reference, from sums at landmarks (`fastmcmd.streaming.SlidingWindow`), by the kernels of
        `fastmcmd.cce` for the reference. None without predictions, with ``window=0``, or for the reason in
        ``no_cce``.
    cce_batches : int
        Number of batches in the window.
    no_cce : str
        Why there is no error although there are predictions.
    """

    batch: int
    rows: int
    p_values: dict[str, float]
    e_values: dict[str, float]
    evidence: dict[str, float]
    alarms: dict[str, int | None]
    threshold: float
    effective_rows: float
    reference_rows: int
    cce: CongruenceEstimate | None = None
    reference_cce: CongruenceEstimate | None = None
    cce_batches: int = 0
    no_cce: str = ""

    @property
    def moved(self) -> tuple[str, ...]:
        """The distributions that have moved beyond chance."""
        return tuple(name for name, batch in self.alarms.items() if batch is not None)

    @property
    def sentence(self) -> str:
        """The conclusion in words."""
        start = f"Batch {self.batch} ({self.rows:,} rows): "
        if not self.moved:
            most = max(self.evidence.values())
            return (
                f"{start}nothing moved beyond chance (evidence {most:.3g} to 1 at most, "
                f"{self.threshold:.3g} raises an alarm)."
            )
        parts = [
            f"{name} moved (alarm in batch {self.alarms[name]}, evidence {self.evidence[name]:.3g} to 1)"
            for name in self.moved
        ]
        still = [name for name in QUESTIONS if name not in self.moved]
        no_alarm = f"; no alarm for {' and '.join(still)}" if still else ""
        reweighted = ""
        if "P(x)" in self.moved:
            reweighted = (
                f" For this batch, the {self.reference_rows:,} reference rows are worth "
                f"{self.effective_rows:,.0f}."
            )
        return f"{start}{', '.join(parts)}{no_alarm}.{reweighted}"

    @property
    def error_sentence(self) -> str:
        """The error of the model in words: in the last batches, and in the reference; "" if unknown."""
        if self.cce is None or self.reference_cce is None:
            return ""
        batches = f"last {self.cce_batches} batches" if self.cce_batches > 1 else "last batch"
        return (
            f"CCE of the model at {self.cce.landmarks} landmarks: {_with_null(self.cce)} in the {batches}, "
            f"{_with_null(self.reference_cce)} in the reference."
        )

    def __repr__(self) -> str:
        return " ".join(part for part in (self.sentence, self.error_sentence) if part)


def _with_null(estimate: CongruenceEstimate) -> str:
    """Return a CCE with that of a right model, which is positive because outcomes scatter."""
    right = _right_value(estimate)
    return f"{estimate.value:.3g}" + ("" if np.isnan(right) else f" ({right:.3g} if right)")


def _right_value(estimate: CongruenceEstimate) -> float:
    """Return the root of the mean of CCE^2 under a right model."""
    return float(np.sqrt(np.maximum(estimate.null_mean, 0.0)))


@dataclass(frozen=True)
class _Evidence:
    """A test martingale that starts a bet at every batch t, with the weight ``1 / (t (t + 1))``."""

    running: float = 0.0
    batches: int = 0

    @property
    def value(self) -> float:
        return self.running + 1 / (self.batches + 1)

    def after(self, e: float) -> _Evidence:
        count = self.batches + 1
        return _Evidence(min((self.running + 1 / (count * (count + 1))) * e, 1e300), count)


@dataclass(frozen=True, eq=False)
class _State:
    """The complete state of a monitor."""

    x_reference: Array
    x_aside: Array
    y_aside: Array
    score_aside: Array | None
    x: Array
    y: Array
    score: Array | None
    entropy: list[int]
    alpha: float
    simulations: int
    most_rows: int
    evidence: list[_Evidence]
    history: list[MonitorUpdate] = field(default_factory=list)
    error: SavedModelError | None = None
    no_error: str = ""


def evidence_of(p: float) -> float:
    """Return the e-value of a p-value: the mean of ``k p^(k - 1)`` over k in (0, 1).

    Its mean is at most 1 for every valid p-value (Vovk & Wang, *E-values: calibration, combination and
    applications*, Annals of Statistics, 2021).

    Examples
    --------
    >>> from fastmcmd.streaming.monitor import evidence_of
    >>> round(evidence_of(0.001), 1), evidence_of(1.0)
    (20.8, 0.5)
    """
    log = float(np.log(p))
    if log > -1e-3:  # a series, because the expression below would cancel
        return 0.5 - log / 6
    return (1 - p + p * log) / (p * log * log)


class Monitor(ColumnTable):
    """Compares batches with a reference, one after the other, with evidence that stays valid.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs of the reference, at least 40 rows.
    y : array_like (n,) or (n, k)
        Outcomes.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object, optional
        Predictions for these rows. With predictions, the search for a change of P(y | x) also uses the
        outcomes relative to their predictions, which show small changes of location and spread.
    x_kernel : Kernel, optional
        Kernel on inputs. Default: three RBF kernels on standardised columns. A monitor with another kernel
        cannot be saved.
    alpha : float
        Probability of any false alarm, over all batches and all three questions.
    simulations : int
        Number of permutations for each batch.
    most_rows : int
        Largest number of earlier rows that a batch is compared with; if there are more, a random subset
        stays.
    window : int
        Number of batches over which ``cce`` of an update is computed, if there are predictions; 0 for no
        CCE. It takes 20 to 70 µs a row for Gaussians and counts, and 0.6 to 3 ms for families whose
        expectations are integrated numerically, such as Student t.
    random_state : int, numpy.random.Generator or None
        Source of permutations; None means 0.

    Notes
    -----
    Each batch is compared with the reference and all earlier batches by a permutation test with kernel
    statistics. The statistics of P(y | x) use residuals of a regression on x, and permutations within cells
    of x. If nothing moved, the p-values are independent of those of earlier batches, for any distribution.
    Each p-value becomes an e-value. The products of e-values from every starting batch on are mixed to a
    test martingale: the probability that it ever reaches 1 / a is at most a, at any number of looks
    (Ville's inequality; Vovk & Wang, *E-values*, Annals of Statistics, 2021; Shekhar & Ramdas,
    *Nonparametric two-sample testing by betting*, IEEE Transactions on Information Theory, 2024; Ramdas,
    Grünwald, Vovk, Shafer, *Game-theoretic statistics and safe anytime-valid inference*, Statistical
    Science, 2023).

    This is exact while nothing moves. For P(y | x) after a move of P(x) it is approximate: inputs differ
    little within a cell, and the regression removes the rest of their effect. Rows must be independent
    given the batch: a batch of few patients with many visits each raises false alarms.

    A quarter of the reference, at most 1,000 rows, determines scales and landmarks and is not compared.

    The permutations need rows. The CCE of the predictions does not: it comes from a
    `fastmcmd.streaming.SlidingWindow` of sums at up to 200 landmarks, which grow if inputs move. It says
    how wrong the model is now, whether or not anything moved; its error bound covers what the landmarks
    miss.

    Examples
    --------
    From the first new batch on, outcomes are 1 larger at every x. So P(y) and P(y | x) change, and P(x)
    does not.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=600)
    >>> monitor = fm.Monitor(x, x + rng.normal(size=600), fm.Gaussian(x, 1.0))
    >>> for _ in range(4):
    ...     new = rng.normal(size=150)
    ...     update = monitor.update(new, new + 1 + rng.normal(size=150), fm.Gaussian(new, 1.0))

    >>> update.moved
    ('P(y)', 'P(y | x)')
    """

    _error: ModelError | None

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        prediction: PredictionLike | None = None,
        *,
        x_kernel: Kernel | None = None,
        alpha: float = 0.05,
        simulations: int = 999,
        most_rows: int = 5_000,
        window: int = 5,
        random_state: RandomState = None,
    ) -> None:
        check_order(y, "(x, y, prediction)")
        rows, outcomes, predictive = _checked_batch(x, y, prediction)
        score = None if predictive is None else _scores(outcomes, predictive)
        if len(rows) < _LEAST_ROWS:
            raise ValueError(
                f"x has {len(rows)} rows; a reference of at least {_LEAST_ROWS} is needed"
            )
        alpha = as_float(alpha, "alpha")
        if not 0 < alpha < 1:
            raise ValueError(f"alpha is {quote(alpha)}; a number between 0 and 1 is needed")
        simulations = check_simulations(simulations)
        most_rows = check_count(most_rows, "most_rows", least=_LEAST_ROWS)
        window = check_count(window, "window", least=0)
        seeds = seed_sequence(
            generator(0 if random_state is None else random_state, Purpose.MONITOR)
        )
        entropy = [int(word) for word in seeds.generate_state(4)]
        order = _stream(entropy, 0).permutation(len(rows))
        aside, places = np.split(order, [min(int(_ASIDE[0] * len(rows)), _ASIDE[1])])
        places = np.sort(places[:most_rows])
        self._x_kernel = x_kernel
        self._begin(
            _State(
                rows, rows[aside], outcomes[aside], None if score is None else score[aside],
                rows[places], outcomes[places], None if score is None else score[places], entropy, alpha,
                simulations, most_rows, [_Evidence() for _ in QUESTIONS],
            )
        )  # fmt: skip
        if predictive is not None and window:
            try:
                self._error = ModelError.of(rows, outcomes, predictive, x_kernel, window)
            except NumericalError as error:  # such as outcomes beyond the reach of the kernel
                self._no_error = str(error)

    def _begin(self, state: _State) -> None:
        self._state = state
        self._x_view = View.of(state.x_aside, "x", self._x_kernel)
        self._y_view = View.of(state.y_aside, "y")
        self._score_view = None
        if state.score_aside is not None:
            self._score_view = View.of(state.score_aside, "prediction")
        self._error = None
        if state.error is not None:
            self._error = ModelError.restored(state.error)
        self._no_error = state.no_error

    def update(
        self, x: ArrayLike, y: ArrayLike, prediction: PredictionLike | None = None
    ) -> MonitorUpdate:
        """Compare a batch with the rows so far, and add it to them.

        Parameters
        ----------
        x : array_like (m, d) or (m,)
            Inputs of the batch.
        y : array_like (m,) or (m, k)
            Outcomes.
        prediction : as in `Monitor`
            Predictions for these rows, if the reference had predictions.

        Returns
        -------
        MonitorUpdate
        """
        state = self._state
        if (prediction is None) != (state.score is None):
            has, expected = ("none", "one") if prediction is None else ("one", "none")
            raise ValueError(
                f"the reference had {expected} as its prediction, and this batch has {has}"
            )
        x, y, predictive = _checked_batch(x, y, prediction, state.x.shape[1], state.y.shape[1])
        score = None if predictive is None else _scores(y, predictive)
        number = len(state.history) + 1
        rng = _stream(state.entropy, number)
        inputs, outcomes = np.concatenate([state.x, x]), np.concatenate([state.y, y])
        scores = None if score is None else np.concatenate([state.score, score])
        batch = np.arange(len(inputs)) >= len(state.x)
        values = batch_p_values(
            (self._x_view, inputs), (self._y_view, outcomes),
            None if scores is None else (self._score_view, scores),  # type: ignore[arg-type]
            batch, state.simulations, rng,
        )  # fmt: skip
        p = [values.x, values.y, values.y_given_x]
        e = [evidence_of(one) for one in p]
        evidence = [old.after(one) for old, one in zip(state.evidence, e, strict=True)]
        threshold = len(QUESTIONS) / state.alpha
        before = state.history[-1].alarms if state.history else dict.fromkeys(QUESTIONS)
        alarms = {
            name: before[name] or (number if one.value >= threshold else None)
            for name, one in zip(QUESTIONS, evidence, strict=True)
        }
        weights, covered = self._weights(x, min(len(state.x_reference), _LOGIT_ROWS))
        share = covered * weights.sum() ** 2 / (weights @ weights) / len(weights)
        cce, no_cce = None, self._no_error
        if predictive is not None and self._error is not None:
            try:
                cce = self._error.update(x, y, predictive)
            except NumericalError as error:  # the batch is left out of the window
                no_cce = str(error)
        update = MonitorUpdate(
            batch=number,
            rows=len(x),
            p_values=dict(zip(QUESTIONS, p, strict=True)),
            e_values=dict(zip(QUESTIONS, e, strict=True)),
            evidence=dict(zip(QUESTIONS, (one.value for one in evidence), strict=True)),
            alarms=alarms,
            threshold=threshold,
            effective_rows=float(share * len(state.x_reference)),
            reference_rows=len(state.x_reference),
            cce=cce,
            reference_cce=None if self._error is None else self._error.reference,
            cce_batches=0 if self._error is None else self._error.batches,
            no_cce=no_cce,
        )
        places = np.arange(len(inputs))
        if len(places) > state.most_rows:  # a random subset of all rows, whatever their batch
            places = np.sort(rng.choice(len(places), state.most_rows, replace=False))
        self._state = _State(
            state.x_reference, state.x_aside, state.y_aside, state.score_aside, inputs[places],
            outcomes[places], None if scores is None else scores[places], state.entropy, state.alpha,
            state.simulations, state.most_rows, evidence, [*state.history, update],
        )  # fmt: skip
        return update

    @property
    def history(self) -> tuple[MonitorUpdate, ...]:
        """The updates so far."""
        return tuple(self._state.history)

    @property
    def alpha(self) -> float:
        """Probability of any false alarm."""
        return self._state.alpha

    @property
    def moved(self) -> tuple[str, ...]:
        """The distributions that have moved beyond chance."""
        return self.history[-1].moved if self.history else ()

    def importance_weights(self, x: ArrayLike) -> Array:
        """Return weights (n,) of the reference rows, with mean 1, under which their inputs resemble ``x``.

        Parameters
        ----------
        x : array_like (m, d) or (m,)
            Inputs of a batch.

        Notes
        -----
        The weights are the odds of a logistic regression of "is in the batch" on the inputs and their
        kernel features. Pass them as ``weights=`` to `fastmcmd.cce` or `fastmcmd.diagnose`, or as
        ``sample_weight=`` to `fastmcmd.evaluate` or a recalibrator. A few weights may dominate, and no
        weights help where the reference has no rows: ``effective_rows`` of the update is the effective
        number of rows ``(sum w)^2 / sum w^2``, times the share of the batch that lies near reference rows.
        """
        inputs = as_rows(x, "x", columns=self._state.x.shape[1]).astype(np.float64)
        return self._weights(inputs, len(self._state.x_reference))[0]

    def _weights(self, x: Array, most: int) -> tuple[Array, float]:
        """Return weights with mean 1, and the share of the batch that lies where the reference has rows.

        The mean of a density ratio over the reference is the probability, in the batch, of the places where
        the reference has rows.
        """
        reference = self._state.x_reference
        rows = np.linspace(0, len(reference) - 1, min(len(reference), _LOGIT_ROWS)).astype(np.intp)
        features = self._odds_features(np.concatenate([reference[rows], x]))
        slopes = log_odds(features, np.arange(len(features)) >= len(rows))
        if most == len(reference):
            rows = np.arange(len(reference))
        logits = self._odds_features(reference[rows]) @ slopes[:-1]
        weights = np.exp(logits - logits.max())
        with np.errstate(over="ignore"):
            odds = float(np.exp(logits.max() + slopes[-1]) * weights.mean())
        return np.asarray(weights / weights.mean()), min(1.0, odds * len(rows) / len(x))

    def _odds_features(self, rows: Array) -> Array:
        """Return kernel features and scaled columns of rows (n, d).

        The kernel's features vanish far from the reference: without the columns, inputs that moved away
        would leave all weights nearly equal. The scale of d columns is a compromise of prior variances 1
        and 1 / d of each.
        """
        reference = self._state.x_reference
        scale = reference.std(axis=0)
        scale[scale == 0] = 1.0
        columns = np.clip((rows - reference.mean(axis=0)) / scale, -_FARTHEST, _FARTHEST)
        columns *= rows.shape[1] ** -0.25
        return np.concatenate([self._x_view.features(rows), columns], axis=1)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one column for each quantity, with one entry for each batch."""
        columns: dict[str, list[object]] = {
            "batch": [one.batch for one in self.history],
            "rows": [one.rows for one in self.history],
        }
        for name in QUESTIONS:
            columns[f"p-value {name}"] = [one.p_values[name] for one in self.history]
        for name in QUESTIONS:
            columns[f"evidence {name}"] = [one.evidence[name] for one in self.history]
        columns["effective reference rows"] = [round(one.effective_rows, 1) for one in self.history]
        estimates = [one.cce for one in self.history]
        if any(one is not None for one in estimates):
            columns["CCE"] = [_rounded(one, lambda cce: cce.value) for one in estimates]
            columns["CCE if right"] = [_rounded(one, _right_value) for one in estimates]
        columns["moved"] = [", ".join(one.moved) or "-" for one in self.history]
        return columns

    def table(self) -> str:
        """Return one line for each batch as text."""
        return super().table() if self.history else "no batches yet"

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the evidence over the batches; see `fastmcmd.plots.evidence`."""
        from fastmcmd import plots

        return plots.evidence(self, ax)

    def save(self, path: FilePath) -> None:
        """Save the monitor to a ``.npz`` file; `fastmcmd.load` reads it, and updates can continue."""
        if self._x_kernel is not None:
            raise ValueError(
                "x_kernel was given: only a monitor with the default kernel can be saved"
            )
        error = None if self._error is None else self._error.saved_state()
        storage.save(path, _KIND, replace(self._state, error=error, no_error=self._no_error))

    def __repr__(self) -> str:
        if self.history:
            return repr(self.history[-1])
        return f"Monitor of {len(self._state.x_reference):,} reference rows, no batches yet"


def _restored(arrays: dict[str, Any], document: Json, version: int) -> Monitor:
    del version
    monitor = Monitor.__new__(Monitor)
    monitor._x_kernel = None
    state = decode(_State, arrays, document)
    _check_state(state)
    monitor._begin(state)
    return monitor


def _check_state(state: _State) -> None:
    """Raise an error unless a state from a file is one that `Monitor` and its updates produce."""
    groups = {
        "x": (state.x_reference, state.x_aside, state.x),
        "y": (state.y_aside, state.y),
        "score": (state.score_aside, state.score),
    }
    for name, group in groups.items():
        arrays = [array for array in group if array is not None]
        if arrays and len(arrays) < len(group):
            raise ValueError(f"{name} is missing in some rows")
        for array in arrays:
            if array.ndim != 2 or not array.size or array.shape[1] != arrays[0].shape[1]:
                raise ValueError(f"{name} has rows of shapes {[one.shape for one in arrays]}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} holds NaN or infinity")
    for row_arrays in (
        (state.x, state.y, state.score),
        (state.x_aside, state.y_aside, state.score_aside),
    ):
        if len({len(array) for array in row_arrays if array is not None}) > 1:
            raise ValueError("x, y and score have different numbers of rows")
    if not 0 < state.alpha < 1:
        raise ValueError(f"alpha is {state.alpha!r}")
    check_simulations(state.simulations)
    check_count(state.most_rows, "most_rows", least=_LEAST_ROWS)
    if len(state.x) > state.most_rows or not all(0 <= word < 1 << 32 for word in state.entropy):
        raise ValueError("there are more rows than most_rows, or entropy is negative or too large")
    batches, names = len(state.history), set(QUESTIONS)
    is_running = [one.batches == batches and 0 <= one.running < np.inf for one in state.evidence]
    if len(is_running) != len(QUESTIONS) or not all(is_running):
        raise ValueError(f"evidence is {quote(state.evidence)} after {batches} batches")
    for number, one in enumerate(state.history, 1):
        keys = [set(part) for part in (one.p_values, one.e_values, one.evidence, one.alarms)]
        if one.batch != number or any(key != names for key in keys):
            raise ValueError(f"batch {number} of the history is incomplete")


storage.register(_KIND, _restored)


def _stream(entropy: list[int], number: int) -> np.random.Generator:
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(entropy, spawn_key=(number,)))
    )


def _rounded(
    estimate: CongruenceEstimate | None, value: Callable[[CongruenceEstimate], float]
) -> float:
    return float("nan") if estimate is None else float(f"{value(estimate):.4g}")


def _checked_batch(
    x: object, y: object, prediction: object, columns: int | None = None, outputs: int | None = None
) -> tuple[Array, Array, Predictive | None]:
    """Return checked inputs, outcomes and predictions."""
    check_row_order(x=x, y=y, prediction=prediction)
    inputs = as_rows(x, "x", columns=columns).astype(np.float64)
    outcomes = as_rows(numbered(y, prediction), "y", columns=outputs).astype(np.float64)
    check_same_length(x=inputs, y=outcomes)
    if prediction is None:
        return inputs, outcomes, None
    predictive = as_predictive(prediction, len(outcomes), outcomes.shape[1], y=outcomes, x=x)
    return inputs, outcomes, predictive


def _scores(y: Array, prediction: Predictive) -> Array:
    """Return ``Phi^-1(F(y))`` (n, k), at the middle of a jump of F; for vectors, standardised outcomes."""
    if len(prediction.shape) > 1:
        spread = np.asarray(prediction.std, dtype=np.float64)
        gap = y - np.asarray(prediction.mean, dtype=np.float64)
        return np.asarray(np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0))
    value = y[:, 0]
    share = (np.asarray(prediction.cdf(value)) + np.asarray(prediction.cdf_below(value))) / 2
    score = special.ndtri(np.clip(share, _DEEPEST, 1 - _DEEPEST))[:, None]
    if isinstance(prediction, Categorical):
        return np.asarray(
            np.concatenate([score, -prediction.log_prob(value)[:, None].clip(-20, 20)], axis=1)
        )
    return np.asarray(score)
