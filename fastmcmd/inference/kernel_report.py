"""A report on what kernels can detect: the power of plain CCE against models that are wrong in known ways.

The prediction counts as the truth and draws outcomes. Models that differ from it in a known way are tested
on these outcomes: is their mean squared CCE beyond chance? This says nothing about whether the prediction
itself is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import Json, RandomState
from fastmcmd._base.checks import as_rows, check_same_length
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import Notebook, aligned, data_frame
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.errors import NumericalError
from fastmcmd.frames import check_row_order
from fastmcmd.inference.exchangeable import GivenOutcomes
from fastmcmd.inference.inputs import check_simulations
from fastmcmd.inference.outcome_features import (
    OutcomeFeatures,
    landmark_features,
    standard_bumps,
)
from fastmcmd.inference.select_kernel import described, left_out
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.inference.statistics import project
from fastmcmd.kernels import RBF, Kernel
from fastmcmd.predictive import Categorical, Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.rows import open_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["KernelPower", "KernelReport", "kernel_report"]

_ROWS = 1_000  # rows of the report
_LANDMARKS = 200  # landmarks of inputs, for the effective dimension and the share explained
_POWER_LANDMARKS, _OUTCOME_LANDMARKS = 100, 128  # for powers, which more hardly change
_REACH = 12.0  # standardised outcomes beyond count as this far
_LAMS = tuple(
    float(lam) for lam in np.geomspace(1e-6, 1.0, 13)
)  # regularisers of the regression that replaces a prediction
_BLIND = 0.3  # power below which a kernel is called nearly blind
_SEES = 0.6  # power from which the report recommends an alternative
_FLAT = 0.01  # share of outcome variance that depends on x; below it nothing does
_COARSE = 3.0  # directions of x; with fewer, little but averages shows
_LARGEST = 1e150  # value from which sums of squares may overflow
_LEVEL = 0.05

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelPower:
    """Power against one wrong model: shares of samples that reject it at the 5 % level.

    Attributes
    ----------
    model : str
        "std x 0.5", "std x 2" or "ignores x".
    power : float
        Power of mean squared CCE with these kernels. NaN if the prediction has no such wrong neighbour.
    standardised : float
        Power with an RBF kernel on standardised outcomes, (y - predicted mean) / predicted std.
    """

    model: str
    power: float
    standardised: float


@dataclass(frozen=True)
class KernelReport(Notebook):
    """What these kernels can detect at these inputs.

    Attributes
    ----------
    x_kernel, y_kernel : Kernel
        The kernels.
    lam : float
        The regulariser.
    effective_dimension : float
        Number of directions of x that the smoother follows.
    explained : float
        Share of the embedding of y that is predicted from x, leaving rows out; negative if the prediction
        is worse than a constant.
    powers : tuple of KernelPower
        Power against wrong models.
    warnings : tuple of str
        What these kernels can hardly detect, and what can.
    rows : int
        Number of rows of the report: more rows detect more.
    assumed : bool
        Whether a regression replaced a missing prediction.
    """

    x_kernel: Kernel
    y_kernel: Kernel
    lam: float
    effective_dimension: float
    explained: float
    powers: tuple[KernelPower, ...]
    warnings: tuple[str, ...]
    rows: int
    assumed: bool

    @property
    def power(self) -> dict[str, float]:
        """Power of plain CCE by the name of the wrong model."""
        return {one.model: one.power for one in self.powers}

    @property
    def sentence(self) -> str:
        """What the kernels can detect, in one sentence."""
        words = {
            "std x 0.5": "a spread predicted half as large",
            "std x 2": "one twice as large",
            "ignores x": "a model that ignores x",
        }
        models = [
            f"{words[one.model]} in {100 * one.power:.0f} %"
            for one in self.powers
            if np.isfinite(one.power)
        ]
        if not models:
            return "Nothing is known of what these kernels see: no wrong model differs from the prediction."
        names = models[0] if len(models) == 1 else ", ".join(models[:-1]) + f" and {models[-1]}"
        return f"With these kernels, plain CCE sees {names} of samples of {self.rows:,} rows."

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *self.warnings])

    def table(self) -> str:
        """Return the powers as text."""
        rows = [["wrong model", "plain CCE", "standardised y"]]
        for one in self.powers:
            rows.append([one.model, _share(one.power), _share(one.standardised)])
        return aligned(rows)

    def to_dict(self) -> Json:
        """Return everything as a JSON-safe dictionary; unknown powers are None."""
        return {
            "x_kernel": described(self.x_kernel),
            "y_kernel": described(self.y_kernel),
            "lam": self.lam,
            "effective_dimension": self.effective_dimension,
            "explained": self.explained,
            "powers": [
                {
                    "model": one.model,
                    "power": _or_none(one.power),
                    "standardised": _or_none(one.standardised),
                }
                for one in self.powers
            ],
            "warnings": list(self.warnings),
            "rows": self.rows,
            "assumed": self.assumed,
            "sentence": self.sentence,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row for each wrong model.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        return data_frame([vars(one) for one in self.powers])

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Plot the powers; see `fastmcmd.plots.kernel_power`."""
        from fastmcmd.plots import kernel_power

        return kernel_power(self, ax=ax, **options)


def kernel_report(
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike | None = None,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    simulations: int = 99,
    random_state: RandomState = 0,
) -> KernelReport:
    """Return a report on the power of plain CCE against wrong spreads and a model that ignores x.

    Parameters
    ----------
    x : array_like (n, d) or (n,), or rows on disk
        Inputs; if there are more than 1,000 rows, that many are drawn.
    y : array_like (n, k) or (n,)
        Observed outputs: kernels are resolved on them.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object, optional
        The assumed truth. Default: a kernel ridge regression of y on x with its residuals as spread.
    x_kernel, y_kernel : Kernel, "auto" or "paper", optional
        The kernels; default: chosen from the scales of x and y.
    lam : float, optional
        The regulariser; default: that of the kernels.
    simulations : int
        Number of samples from the truth, and from each wrong model; at least 19.
    random_state : int, numpy.random.Generator or None
        Source of rows and samples.

    Returns
    -------
    KernelReport
        ``sentence``, ``warnings``, ``powers``, ``effective_dimension``, ``explained``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    Each prediction is represented by ``simulations`` equally likely values. Each row shuffles them anew,
    and each position is then one sample, for the truth and for wrong models alike. A wrong model g is
    detected if the mean squared CCE of g with a sample of the truth ranks among the largest 5 % of those
    with samples of g. `congruence_test` combines several kernels and the dispersion, and detects more than
    plain CCE.

    Examples
    --------
    Means that vary much faster than the kernel resolves. A spread that is twice too large goes
    unnoticed; on standardised outcomes it would not.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 300)
    >>> y = 100 * x + rng.normal(size=300)
    >>> report = fm.kernel_report(x, y, fm.Gaussian(100 * x, 1.0), y_kernel=fm.RBF("variance"))
    >>> report.power["std x 2"] < 0.2
    True
    >>> report.powers[1].standardised > 0.8
    True
    """
    if prediction is not None:
        check_order(y, "(x, y, prediction)")
    check_row_order(x=x, y=y, prediction=prediction)
    source = open_rows(x, "x")
    y = as_rows(numbered(y, prediction), "y")
    check_same_length(x=source, y=y)
    simulations = check_simulations(simulations)
    rng = generator(random_state, Purpose.KERNEL_REPORT)
    some = np.arange(len(y))
    if len(y) > _ROWS:
        some = np.sort(rng.choice(len(y), _ROWS, replace=False))
    inputs = np.asarray(source[some], dtype=np.float64)
    predictive = None if prediction is None else as_predictive(prediction, len(y), y.shape[1], y=y)
    classes = isinstance(predictive, Categorical)
    x_kernel, y_kernel, lam = chosen_kernels(source, y, x_kernel, y_kernel, lam, classes=classes)
    x_kernel, y_kernel = x_kernel.resolve(source), y_kernel.resolve(y)
    outcomes = np.asarray(y[some], dtype=np.float64)
    basis = Smoother.of(x_kernel, inputs, _LANDMARKS, rng).basis(inputs)
    if predictive is None:
        _check_squares(outcomes, "y")
        truth = _regression(basis, inputs, outcomes, simulations)
    else:
        truth = _atoms(predictive.take(some), simulations, rng)
        _check_squares(truth, "prediction")
    coarse = Smoother.of(x_kernel, inputs, _POWER_LANDMARKS, rng).basis(inputs)
    setting = _Setting(coarse, inputs, lam, rng)
    discrete = predictive is not None and predictive.discrete
    powers, varies = _powers(setting, truth, y_kernel, discrete, classes)
    features = Smoother.of(y_kernel, outcomes, _LANDMARKS, rng, "y_kernel").transform(outcomes)
    explained = _explained(basis, inputs, features, lam)
    dimension = basis.effective_dimension(lam)

    def is_default() -> bool:
        return x_kernel == chosen_kernels(source, y, classes=classes)[0].resolve(source)

    warnings = _warnings(powers, dimension, varies, is_default)
    return KernelReport(
        x_kernel, y_kernel, lam, dimension, explained, tuple(powers), tuple(warnings), len(some),
        predictive is None,
    )  # fmt: skip


def _check_squares(values: Array, name: str) -> None:
    """Raise NumericalError if variances of some values would overflow."""
    largest = float(np.abs(values).max())
    if largest > _LARGEST:
        raise NumericalError(
            f"{name} holds values up to {largest:.3g}, whose squares leave float64; rescale y"
        )


@dataclass(frozen=True, eq=False)
class _Setting:
    """The parts that all comparisons share."""

    basis: Basis
    inputs: Array
    lam: float
    rng: np.random.Generator

    def powers(self, truth: Array, wrong: list[Array], kind: OutcomeFeatures) -> list[float]:
        """Return how often models that predict ``wrong`` are detected, given values ``truth`` (n, L, k).

        The columns L of each are its samples. Residuals ``p(y) - E_g p`` are linear in the projections of
        features. So one pass over all samples serves all models g: the mean over the samples of g is its
        expectation.
        """
        size = truth.shape[1]
        samples = GivenOutcomes.of(np.concatenate([truth, *wrong], axis=1))
        energy = self.basis.energy(self.lam)
        progress = Progress(False, 0.0)
        projected = project(samples, [kind], self.basis, self.inputs, energy, progress).outcomes[0]
        by_model = [
            projected[:, start : start + size] for start in range(0, projected.shape[1], size)
        ]
        powers = []
        for group in by_model[1:]:
            expected = group.mean(axis=1, keepdims=True)
            observed, null = (
                self._statistics(one - expected, energy) for one in (by_model[0], group)
            )
            ranks = (1 + (null[None, :] >= observed[:, None]).sum(axis=1)) / (size + 1)
            powers.append(float(np.mean(ranks <= _LEVEL)))
        return powers

    @staticmethod
    def _statistics(projections: NDArray[np.float32], energy: Array) -> Array:
        """Return the mean squared CCE (L,) of each sample."""
        squares = np.einsum("plr,plr->pl", projections, projections, dtype=np.float64)
        return np.asarray(energy @ squares)


def _powers(
    setting: _Setting, truth: Array, kernel: Kernel, discrete: bool, classes: bool
) -> tuple[list[KernelPower], bool]:
    """Return the powers, and whether the truth depends on x."""
    rng, count = setting.rng, truth.shape[1]
    mean = truth.mean(axis=1, keepdims=True)
    spread = truth.std(axis=1, keepdims=True)
    pooled = truth.reshape(-1, truth.shape[2])
    between = float(mean.var(axis=0).sum())
    varies = between > _FLAT * float(pooled.var(axis=0).sum()) or not np.allclose(
        spread, spread[:1], rtol=0.1
    )
    wrong: dict[str, Array] = {}
    if bool((spread > 0).mean() > 0.5) and not classes:
        for factor in (0.5, 2.0):
            wrong[f"std x {factor:g}"] = mean + factor * (truth - mean)
    if varies:
        if truth.shape[2] == 1:
            level = (np.arange(count) + 0.5) / count
            marginal = np.quantile(pooled[:, 0], level, method="inverted_cdf")[:, None]
        else:
            marginal = pooled[rng.integers(0, len(pooled), count)]
        wrong["ignores x"] = np.tile(marginal, (len(truth), 1, 1))
    results = dict.fromkeys(("std x 0.5", "std x 2", "ignores x"), (float("nan"), float("nan")))
    if wrong:
        models = [
            rng.permuted(np.rint(one) if discrete and name != "ignores x" else one, axis=1)
            for name, one in wrong.items()
        ]
        mixed = rng.permuted(truth, axis=1)
        kind = landmark_features(
            kernel, np.concatenate([mixed, *models], axis=1), rng, "y", _OUTCOME_LANDMARKS
        )
        plain = setting.powers(mixed, models, kind)
        for power, (name, values) in zip(plain, wrong.items(), strict=True):
            standardised = float("nan") if classes else _standardised(setting, truth, values)
            results[name] = power, standardised
    return [KernelPower(name, *powers) for name, powers in results.items()], varies


def _standardised(setting: _Setting, truth: Array, wrong: Array) -> float:
    """Return the power with outcomes in units of the wrong model's prediction."""
    mean, spread = wrong.mean(axis=1, keepdims=True), wrong.std(axis=1, keepdims=True)
    least = float(spread[spread > 0].min(initial=np.inf))
    unit = np.where(spread > 0, spread, least if np.isfinite(least) else 1.0)
    samples = [setting.rng.permuted((one - mean) / unit, axis=1) for one in (truth, wrong)]
    kind: OutcomeFeatures
    if truth.shape[2] == 1:
        kind = standard_bumps("standardised y", _REACH)
    else:
        kind = landmark_features(
            RBF(0.5), np.concatenate(samples, axis=1), setting.rng, "standardised y"
        )
    return setting.powers(samples[0], samples[1:], kind)[0]


def _atoms(prediction: Predictive, count: int, rng: np.random.Generator) -> Array:
    """Return values (n, L, k) that represent predicted distributions."""
    if prediction.columns > 1:
        return np.asarray(prediction.sample(count, rng), dtype=np.float64)
    level = (np.arange(count) + 0.5) / count
    values = np.asarray(prediction.quantile(level), dtype=np.float64)
    return values.reshape(len(prediction), count, 1)


def _regression(basis: Basis, x: Array, y: Array, count: int) -> Array:
    """Return values (n, L, k): a kernel ridge regression of y on x, plus quantiles of its residuals."""
    middle, g = y.mean(axis=0), basis.coordinates(x)
    errors, _ = left_out(basis.spectrum, g, y - middle, np.ones(len(y)), _LAMS)
    lam = _LAMS[int(errors.mean(axis=1).argmin())]
    shrink = basis.shrinkage(lam)
    fitted = g @ (shrink[:, None] * (g.T @ (y - middle)))
    complement = np.maximum(1 - np.square(g) @ shrink, 1e-6)
    residuals = (y - middle - fitted) / complement[:, None]
    level = (np.arange(count) + 0.5) / count
    spread = np.quantile(residuals, level, axis=0)
    return np.asarray((middle + fitted)[:, None, :] + (spread - spread.mean(axis=0))[None])


def _explained(basis: Basis, x: Array, features: Array, lam: float) -> float:
    """Return the share of the features' variance that x predicts, with rows left out."""
    n = len(x)
    if n < 3:
        return float("nan")
    errors = left_out(basis.spectrum, basis.coordinates(x), features, np.ones(n), [lam])[0]
    spread = float(np.square(features - features.mean(axis=0)).sum(axis=1).mean())
    constant = spread * (n / (n - 1)) ** 2
    return 1 - float(errors.mean()) / constant if constant > 0 else 0.0


def _warnings(
    powers: list[KernelPower], dimension: float, varies: bool, is_default: Callable[[], bool]
) -> list[str]:
    """Return warnings about what can hardly be detected, and what can detect it."""
    warnings = []
    by_name = {one.model: one for one in powers}
    ignores = by_name["ignores x"]
    if not varies:
        warnings.append(
            "The prediction hardly changes with x: no model can be distinguished from one that ignores x."
        )
    elif ignores.power < _BLIND or dimension < _COARSE:
        advice = (
            "More rows help, or an x_kernel chosen with"
            if is_default()
            else 'Use x_kernel="auto", or choose one with'
        )
        warnings.append(
            f"Nearly blind to x: these kernels see a model that ignores x in {100 * ignores.power:.0f} % "
            f"of samples, and follow {dimension:.1f} directions of x. {advice} fastmcmd.select_kernel."
        )
    spreads = [by_name["std x 0.5"], by_name["std x 2"]]
    blind = [one for one in spreads if one.power < _BLIND]
    if blind:
        sizes = " or ".join(
            {"std x 0.5": "too small", "std x 2": "too large"}[b.model] for b in blind
        )
        text = f"Plain CCE with these kernels can hardly see a spread that is {sizes} by a factor of 2."
        if all(one.standardised >= _SEES for one in blind):
            text += " Standardised outcomes can: use fastmcmd.congruence_test."
        else:
            text += " More rows or fastmcmd.congruence_test, which tests the spread itself, can."
        warnings.append(text)
    return warnings


def _share(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.0f} %"


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
