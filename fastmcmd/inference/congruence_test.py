"""The exact Monte-Carlo test of whether the observed outcomes could come from the predictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.checks import (
    as_rows,
    check_choice,
    check_count,
    check_flag,
    check_lam,
    check_same_length,
)
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import aligned
from fastmcmd.inference.defaults import default_input_kernel, paper_kernels
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.outcome_features import (
    OutcomeFeatures,
    ladder_of_outcomes,
    landmark_features,
)
from fastmcmd.inference.row_test import TIE, RowTest, row_test
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.inference.statistics import Projections, project
from fastmcmd.kernels import Delta, Kernel
from fastmcmd.predictive import Categorical, Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CongruenceTest", "KernelEvidence", "congruence_test"]

LAMS = (0.1, 0.01, 0.001)
REPORTED_LAM = 0.01
_LEAST_SIMULATIONS = 19  # with fewer no p-value reaches 0.05
_LANDMARKS = 100
_LEAST_LANDMARKS = 40
_WORK = (
    1.2e12  # operations of the products at most, unless the least number of landmarks needs more
)
_ROUNDING = (
    1e-10  # of mean squared residuals in single precision, whose features are of the order of 1
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelEvidence:
    """What one statistic of the test saw.

    Attributes
    ----------
    outcomes : str
        The form of the outcomes: "y", "standardised y" or "rank of y".
    statistic : str
        "smoothed misfit at lam=...", "dispersion" or "most extreme outcome".
    score : float
        Standard deviations above the mean of all data sets.
    p_value : float
        Of this statistic alone, not corrected for the others.
    """

    outcomes: str
    statistic: str
    score: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class CongruenceTest:
    """Result of `congruence_test`.

    Attributes
    ----------
    p_value : float
        Share of all B + 1 data sets at least as extreme as the observed one: at most ``alpha`` with
        probability at most ``alpha`` if the predictions are right.
    statistic : float
        Mean over the rows of the squared CCE under the first kernel on outcomes, by landmarks.
    null_mean, null_sd, critical_value : float
        Mean, standard deviation and 95 % quantile of that under right predictions; the same unit.
    null_quantiles : dict
        Its 5, 25, 50, 75 and 95 % quantiles, by name.
    evidence : list of KernelEvidence
        All statistics, the strongest first.
    dispersion : str
        "too wide" or "too narrow"; "" where the p-value or that of the spread alone is above 0.05. Wrong
        means make outcomes lie further from predictions, too, so that right spreads look "too narrow".
    rows : RowTest or None
        The test at each point of ``at``.
    n, simulations, lam : int, int, float
        Rows, B, and the regulariser of ``statistic``.
    condition_on : str
        "x", "forecast" or "columns".
    """

    p_value: float
    statistic: float
    null_mean: float
    null_sd: float
    critical_value: float
    null_quantiles: dict[str, float]
    evidence: list[KernelEvidence]
    dispersion: str
    rows: RowTest | None
    n: int
    simulations: int
    lam: float
    condition_on: str
    simulated: Array = field(repr=False)  # (B + 1,), the observed one first

    @property
    def cce(self) -> float:
        """Root mean square over the rows of the CCE: the square root of ``statistic``."""
        return float(np.sqrt(self.statistic))

    @property
    def null_cce(self) -> float:
        """What a right model has here, in the unit of ``cce``: the square root of ``null_mean``."""
        return float(np.sqrt(self.null_mean))

    @property
    def detectable(self) -> float:
        """Smallest misfit, in the unit of ``cce``, that ``statistic`` sees in about half of all samples."""
        return float(np.sqrt(max(0.0, self.critical_value - self.null_mean)))

    def table(self) -> str:
        """Return all statistics as text, the strongest first."""
        lines = [["outcomes", "statistic", "score", "p (alone)"]]
        for one in self.evidence:
            lines.append([one.outcomes, one.statistic, f"{one.score:.2f}", f"{one.p_value:.3g}"])
        return aligned(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe summary."""
        return {
            "p_value": self.p_value,
            "cce": self.cce,
            "null_cce": self.null_cce,
            "detectable": self.detectable,
            "statistic": self.statistic,
            "null_mean": self.null_mean,
            "null_sd": self.null_sd,
            "critical_value": self.critical_value,
            "null_quantiles": dict(self.null_quantiles),
            "dispersion": self.dispersion,
            "n": self.n,
            "simulations": self.simulations,
            "lam": self.lam,
            "condition_on": self.condition_on,
            "evidence": [vars(one).copy() for one in self.evidence],
        }

    def to_frame(self) -> pd.DataFrame:
        """Return all statistics as a pandas frame, the strongest first."""
        from fastmcmd.frames import to_frame

        names = ("outcomes", "statistic", "score", "p_value")
        return to_frame(
            {name: np.array([getattr(one, name) for one in self.evidence]) for name in names}, None
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the statistic among those of right models, with matplotlib."""
        from fastmcmd import plots

        return plots.congruence_test(self, ax=ax)

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        given = {"x": "", "forecast": " given the forecast", "columns": " given the columns"}
        where = given[self.condition_on]
        if self.p_value > 0.05:
            return (
                f"No misfit{where} beyond chance (p = {self.p_value:.3g}); a misfit of CCE "
                f"{self.detectable:.2g} would have been seen in half of such samples."
            )
        kind = {
            "too wide": "; they are too wide",
            "too narrow": "; outcomes lie further from them than they allow",
        }.get(self.dispersion, "")
        return f"The predictions are wrong{where} beyond chance (p = {self.p_value:.3g}){kind}."

    def __repr__(self) -> str:
        first = self.evidence[0]
        return "\n".join([
            self.sentence,
            f"  CCE (root mean square) {self.cce:.3g}; a right model here: {self.null_cce:.3g}; "
            f"detectable from {self.detectable:.3g}",
            f"  strongest: {first.statistic} of {first.outcomes}, {first.score:.1f} standard deviations",
            f"  {self.n:,} rows, {self.simulations:,} simulations",
        ])  # fmt: skip


def congruence_test(
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    simulations: int = 199,
    statistic: Literal["mean", "max"] = "mean",
    condition_on: Any = "x",
    random_state: Any = None,
    *,
    at: ArrayLike | None = None,
    progress: bool = False,
) -> CongruenceTest:
    """Test exactly whether outcomes could come from the predicted distributions.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs.
    y : array_like (n,) or (n, k)
        Observed outcomes.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        As in `cce`. Draws are exchanged with y, row by row.
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs; default ("auto") the mean of three RBF kernels on standardised columns.
    y_kernel : Kernel, "auto" or "paper", optional
        Kernel on outcomes; default ("auto") several: on outcomes at their marginal scale, on standardised
        outcomes, and on their ranks among outcomes of the prediction.
    lam : float, "auto" or "paper", optional
        Regulariser; default ("auto") 0.1, 0.01 and 0.001 together.
    simulations : int
        B, at least 19. The least p-value is 1 / (B + 1).
    statistic : {"mean", "max"}
        Mean over the rows, or the largest row (of at most 2,000): for misfit in few places.
    condition_on : {"x", "forecast"} or array_like (n, c)
        "forecast": calibration given the predicted mean and spread, or probabilities, in place of x.
        Columns: calibration given these.
    random_state : int, numpy.random.Generator or None
        Source of the simulated outcomes.
    at : array_like (q, d), optional
        Points at which to test as well: `CongruenceTest.rows`.
    progress : bool
        Show a progress bar.

    Returns
    -------
    CongruenceTest

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    If the prediction is right at each row, y and B outcomes drawn from it are exchangeable given x, and
    whatever is computed from all B + 1 data sets alike, the rank of the observed one is uniform: the
    p-value is valid for every n, kernel, number of landmarks and precision. Statistics are combined by
    ``max_k (T_k - mean_k) / sd_k``, mean and deviation over all B + 1 data sets, ranked again.

    What voids exactness: predictions fitted to the same y, rows that depend on each other, a kernel chosen
    by looking at y.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-2, 2, 400)
    >>> y = np.sin(x) + 0.3 * rng.normal(size=400)
    >>> fm.congruence_test(x, y, fm.Gaussian(np.sin(x), 0.4), random_state=0).dispersion
    'too wide'
    >>> fm.congruence_test(x, y, fm.Gaussian(np.sin(x), 0.3), random_state=0).p_value > 0.05
    True
    """
    check_order(y, "(x, y, prediction)")
    x, y = as_rows(x, "x").astype(np.float64), as_rows(y, "y").astype(np.float64)
    check_same_length(x=x, y=y)
    predictive = as_predictive(prediction, len(y), y.shape[1], y=y)
    simulations = int(check_count(simulations, "simulations", least=_LEAST_SIMULATIONS))
    check_choice(statistic, "statistic", ("mean", "max"))
    x_kernel, y_kernel, lam = _named(x_kernel, y_kernel, lam)
    lams = LAMS if lam is None else (check_lam(lam),)
    reported = REPORTED_LAM if lam is None else lams[0]
    inputs, condition = _inputs_of(condition_on, x, predictive)
    points = None if at is None else _points(at, inputs, condition)
    rng = generator(random_state, Purpose.TEST)
    if x_kernel is None or condition != "x":
        x_kernel = default_input_kernel(inputs, "x" if condition == "x" else "condition_on")
    outcomes = exchangeable_outcomes(y, predictive, simulations, rng)
    kinds = _kinds_of(y_kernel, predictive, outcomes.of_some_rows(), rng)
    work = 2.0 * sum(kind.rank for kind in kinds) * (simulations + 1) * len(y)
    landmarks = int(np.clip(_WORK / work, _LEAST_LANDMARKS, _LANDMARKS))
    with Progress(check_flag(progress, "progress"), 0.0) as line:
        basis = Smoother.of(x_kernel, inputs, landmarks, rng).basis(inputs)
        projections = project(outcomes, kinds, basis, inputs, line)
    misfit = basis.energy(reported) @ _squares(projections, 0)
    names, values, signs = _statistics(projections, kinds, basis, lams)
    rows = None
    if points is not None:
        rows = row_test(basis, projections.outcomes[0], points, reported)
    if statistic == "max":
        some = inputs
        if len(inputs) > 2_000:
            some = inputs[np.sort(rng.choice(len(inputs), 2_000, replace=False))]
        largest = row_test(basis, projections.outcomes[0], some, reported).largest
        names, values = (
            [(kinds[0].name, "largest row"), *names[-1:]],
            np.stack([largest, values[-1]]),
        )
    scores = _scores(values)
    combined = scores.max(axis=0)
    null, p_value = misfit[1:], _p_value(combined)
    levels = (5, 25, 50, 75, 95)
    return CongruenceTest(
        p_value=p_value,
        statistic=float(misfit[0]),
        null_mean=float(null.mean()),
        null_sd=float(null.std(ddof=1)),
        critical_value=float(np.quantile(null, 0.95, method="higher")),
        null_quantiles={f"q{level:02d}": float(np.quantile(null, level / 100)) for level in levels},
        evidence=_evidence(names, scores),
        dispersion=_dispersion(signs) if p_value <= 0.05 else "",
        rows=rows,
        n=len(y),
        simulations=simulations,
        lam=reported,
        condition_on=condition,
        simulated=misfit,
    )


def _named(
    x_kernel: Kernel | str | None, y_kernel: Kernel | str | None, lam: float | str | None
) -> tuple[Kernel | None, Kernel | None, float | None]:
    """Return kernels and regulariser that arguments mean; None for the defaults of the test."""
    paper = paper_kernels()
    kernels: list[Kernel | None] = []
    for kernel, published, name in (
        (x_kernel, paper[0], "x_kernel"),
        (y_kernel, paper[1], "y_kernel"),
    ):
        if kernel is None or isinstance(kernel, Kernel):
            kernels.append(kernel)
        elif isinstance(kernel, str) and kernel in ("auto", "paper"):
            kernels.append(None if kernel == "auto" else published)
        else:
            raise TypeError(
                f'{name} is {kernel!r}; a fastmcmd kernel, "auto", "paper" or None is needed'
            )
    if isinstance(lam, str):
        if lam not in ("auto", "paper"):
            raise ValueError(
                f'lam is {lam!r}; a positive number, "auto", "paper" or None is needed'
            )
        lam = None if lam == "auto" else paper[2]
    return kernels[0], kernels[1], lam


def _inputs_of(condition_on: Any, x: Array, prediction: Predictive) -> tuple[Array, str]:
    """Return what the test conditions on, and its name."""
    if isinstance(condition_on, str):
        check_choice(condition_on, "condition_on", ("x", "forecast"))
        if condition_on == "x":
            return x, "x"
        return _forecast_of(prediction), "forecast"
    columns = as_rows(condition_on, "condition_on")
    check_same_length(x=x, condition_on=columns)
    return columns, "columns"


def _forecast_of(prediction: Predictive) -> Array:
    """Return numbers that tell predictions apart: probabilities, or location and log spread."""
    if isinstance(prediction, Categorical):
        return np.asarray(prediction.probs, dtype=np.float64)
    n = len(prediction)
    location = prediction.mean.reshape(n, -1)
    spread = prediction.std.reshape(n, -1)
    if not (np.isfinite(location).all() and np.isfinite(spread).all()):
        if prediction.columns > 1:
            raise ValueError(
                "condition_on='forecast' needs finite means and standard deviations of vector outputs"
            )
        quartiles = prediction.quantile([0.25, 0.5, 0.75])
        location, spread = quartiles[:, 1:2], quartiles[:, 2:] - quartiles[:, :1]
    positive = spread[spread > 0]
    least = float(positive.min()) if positive.size else 1.0
    return np.concatenate([location, np.log(np.maximum(spread, least))], axis=1)


def _points(at: ArrayLike, inputs: Array, condition: str) -> Array:
    if condition == "forecast":
        raise ValueError("at needs condition_on='x' or columns: a point has no forecast")
    points = as_rows(at, "at").astype(np.float64)
    if points.shape[1] != inputs.shape[1]:
        raise ValueError(
            f"at has {points.shape[1]} columns and the inputs have {inputs.shape[1]}; they must agree"
        )
    return points


def _kinds_of(
    y_kernel: Kernel | None, prediction: Predictive, drawn: Array, rng: np.random.Generator
) -> list[OutcomeFeatures]:
    if y_kernel is None and not isinstance(prediction, Categorical):
        return ladder_of_outcomes(drawn, rng)
    kernel = Delta() if y_kernel is None else y_kernel
    return [landmark_features(kernel, drawn, rng, "y")]


def _squares(projections: Projections, kind: int) -> Array:
    """Return ``|A_b,k|^2`` (p, B + 1); zeros where all outcomes are equal but for rounding."""
    projection = projections.outcomes[kind]
    if projections.spread[kind].max() < _ROUNDING:
        return np.zeros(projection.shape[:2])
    return np.einsum("pbr,pbr->pb", projection, projection, dtype=np.float64)


def _statistics(
    projections: Projections, kinds: list[OutcomeFeatures], basis: Basis, lams: tuple[float, ...]
) -> tuple[list[tuple[str, str]], Array, Array]:
    """Return names (outcomes, statistic), values (K, B + 1), and centred dispersions (f, B + 1)."""
    names, values = [], []
    for place, kind in enumerate(kinds):
        squares = _squares(projections, place)
        for lam in lams:
            names.append((kind.name, f"smoothed misfit at lam={lam:g}"))
            values.append(basis.energy(lam) @ squares)
    spread = np.where(projections.spread < _ROUNDING, 0.0, projections.spread)
    signs = spread - spread.mean(axis=1, keepdims=True)
    for kind, sign in zip(kinds, signs, strict=True):
        names.append((kind.name, "dispersion"))
        values.append(np.abs(sign))
    names.append(("standardised y", "most extreme outcome"))
    values.append(projections.extreme)
    return names, np.array(values), signs


def _scores(values: Array) -> Array:
    """Return ``(T - mean) / sd`` (K, B + 1) over all data sets; zeros where they are all equal."""
    gaps = values - values.mean(axis=1, keepdims=True)
    spread = gaps.std(axis=1, keepdims=True)
    usable = (spread > 1e-9 * np.abs(values).max(axis=1, keepdims=True)) & np.isfinite(spread)
    return np.asarray(np.where(usable, gaps / np.where(usable, spread, 1.0), 0.0))


def _p_value(scores: Array) -> float:
    """Return the share of all data sets with scores at least as large as the first.

    Data sets that differ by rounding count as equal: products round those at different places differently.
    """
    return float(np.mean(scores >= scores[0] - TIE))


def _evidence(names: list[tuple[str, str]], scores: Array) -> list[KernelEvidence]:
    lines = [
        KernelEvidence(*name, float(score[0]), _p_value(score))
        for name, score in zip(names, scores, strict=True)
    ]
    return sorted(lines, key=lambda line: -line.score)


def _dispersion(signs: Array) -> str:
    """Say which way the spread of the outcomes differs, if the largest difference is beyond chance."""
    deviations = signs.std(axis=1)
    usable = deviations > 0
    if not usable.any():
        return ""
    scores = signs[usable] / deviations[usable, None]
    if _p_value(np.abs(scores).max(axis=0)) > 0.05:
        return ""
    strongest = scores[np.abs(scores[:, 0]).argmax(), 0]
    return "too narrow" if strongest > 0 else "too wide"
