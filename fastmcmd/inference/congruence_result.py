"""The result of `congruence_test`: numbers, a table, and a conclusion in one sentence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Json
from fastmcmd._base.tables import Notebook, aligned
from fastmcmd.inference import dispersion
from fastmcmd.inference.row_test import RowTest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ONE_DRAW", "CongruenceTest", "KernelEvidence"]

Array = NDArray[np.float64]

_CONDITIONS = {"x": "", "forecast": " given the forecast", "columns": " given the columns"}
ONE_DRAW = (
    "read as a point prediction, which claims no spread; to judge a distribution, pass (mean, std) or "
    "several draws"
)
_QUANTILES = (5, 25, 50, 75, 95)  # of the null distribution that are reported, in percent


@dataclass(frozen=True)
class KernelEvidence:
    """The evidence of one statistic of the test.

    Attributes
    ----------
    outcomes : str
        The form of the outcomes: "y", "standardised y" or "rank of y".
    statistic : str
        "smoothed misfit at lam=...", "dispersion" or "most extreme outcome".
    score : float
        Number of standard deviations above the mean of all data sets.
    p_value : float
        P-value of this statistic alone, not corrected for the others.
    """

    outcomes: str
    statistic: str
    score: float
    p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class CongruenceTest(Notebook):
    """Result of `congruence_test`.

    Attributes
    ----------
    p_value : float
        Share of all B + 1 data sets at least as extreme as the observed one: at most ``alpha`` with
        probability at most ``alpha`` if the predictions are right. With ``null="relevant"``, the
        approximate p-value of "CCE is at most delta".
    statistic : float
        Mean over the rows, weighted if these have weights, of the squared CCE with the first kernel on
        outcomes, estimated: by landmarks,
        and with the B + 1 data sets in place of exact expectations. It was within 10 % of the mean of
        `cce` in 40 samples of 60 to 600 rows with B = 199, and within 18 % with B = 19. The p-value is
        exact all the same.
    null_mean, null_std, critical_value : float
        Mean, standard deviation and 95 % quantile of ``statistic`` under right predictions; the same unit.
    null_quantiles : dict
        Its 5, 25, 50, 75 and 95 % quantiles under right predictions, by name.
    excess : float
        ``statistic`` without its noise, in the same unit: an unbiased estimate of the smoothed misfit. It
        is negative in about half of all samples of a right model.
    evidence : list of KernelEvidence
        All statistics, the strongest first.
    dispersion : str
        "too wide" or "too narrow"; "" if the p-value or that of the spread alone is above 0.05. Wrong means
        also increase the distance of outcomes from predictions, so that right spreads look "too narrow".
    rows : RowTest or None
        The test at each point of ``at``.
    n, simulations, lam : int, int, float
        Number of rows, B, and the regulariser of ``statistic``.
    condition_on : str
        "x", "forecast" or "columns".
    null, delta : str, float or None
        The hypothesis: "right", or "relevant" with the largest negligible CCE.
    lower_bound : float or None
        With ``null="relevant"``: a lower bound on CCE without noise, at approximately 95 % confidence.
    clusters : int
        Number of clusters of ``groups``; 0 if rows are independent and the test is exact.
    skce, ckce, null_ckce : float or None
        With ``condition_on="forecast"`` and independent rows, by the kernels of ``statistic``: the unbiased
        squared kernel calibration error (Widmann et al. 2021), the conditional kernel calibration error
        (Moskvichev & Sejdinovic 2025), and the root mean square of the latter for a calibrated model.
    of_classes : bool
        Whether the predictions are probabilities of classes.
    outliers : bool
        Whether ``dispersion`` is "too wide" although the mean squared standardised error is above 1.2: most
        outcomes lie near their predictions and a few lie much further away.
    one_draw : bool
        Whether there is one draw per row. A right one is a random draw of the distribution; a point
        prediction, such as its mean, is rejected.
    """

    p_value: float
    excess: float
    evidence: list[KernelEvidence]
    dispersion: str
    rows: RowTest | None
    n: int
    simulations: int
    lam: float
    condition_on: str
    simulated: Array = field(repr=False)  # (B + 1,), the observed one first
    null: str = "right"
    delta: float | None = None
    lower_bound: float | None = None
    clusters: int = 0
    skce: float | None = None
    ckce: float | None = None
    null_ckce: float | None = None
    of_classes: bool = False
    outliers: bool = False
    one_draw: bool = False

    @property
    def statistic(self) -> float:
        """Mean over the rows of the squared CCE of the observed outcomes."""
        return float(self.simulated[0])

    @property
    def null_mean(self) -> float:
        """Mean of ``statistic`` under right predictions."""
        return float(self.simulated[1:].mean())

    @property
    def null_std(self) -> float:
        """Standard deviation of ``statistic`` under right predictions."""
        return float(self.simulated[1:].std(ddof=1))

    @property
    def critical_value(self) -> float:
        """95 % quantile of ``statistic`` under right predictions."""
        return float(np.quantile(self.simulated[1:], 0.95, method="higher"))

    @property
    def null_quantiles(self) -> dict[str, float]:
        """The quantiles q05, q25, q50, q75 and q95 of ``statistic`` under right predictions."""
        null = self.simulated[1:]
        return {f"q{one:02d}": float(np.quantile(null, one / 100)) for one in _QUANTILES}

    @property
    def cce(self) -> float:
        """Root mean square of the CCE over the rows: the square root of ``statistic``."""
        return float(np.sqrt(self.statistic))

    @property
    def null_cce(self) -> float:
        """CCE of a right model here, in the unit of ``cce``: the square root of ``null_mean``."""
        return float(np.sqrt(self.null_mean))

    @property
    def detectable(self) -> float:
        """Smallest misfit, in the unit of ``cce``, that ``statistic`` detects in half of all samples."""
        return float(np.sqrt(max(0.0, self.critical_value - self.null_mean)))

    @property
    def figures(self) -> str:
        """Text: the CCE, that of a right model, and what it detects, all by one pair of kernels."""
        return (
            f"CCE {self.cce:.3g} (a right model here: {self.null_cce:.3g}; "
            f"detectable from {self.detectable:.3g})"
        )

    @property
    def hidden(self) -> str:
        """A sentence if the test rejects and the CCE is that of a right model; else ""."""
        if self.p_value > 0.05 or self.null == "relevant" or self.statistic > self.critical_value:
            return ""
        first = self.evidence[0]
        return f"The CCE alone does not show the misfit: the {first.statistic} of {first.outcomes} does."

    def with_figures_of(self, other: CongruenceTest) -> CongruenceTest:
        """Return this test with the CCE and its null distribution by the kernels of another."""
        return replace(self, excess=other.excess, lam=other.lam, simulated=other.simulated)

    @property
    def exact(self) -> bool:
        """Whether the p-value is exact; false with ``groups`` and with ``null="relevant"``."""
        return self.null == "right" and not self.clusters

    def table(self) -> str:
        """Return all statistics as text, the strongest first."""
        lines = [["outcomes", "statistic", "score", "p (alone)"]]
        for one in self.evidence:
            lines.append([one.outcomes, one.statistic, f"{one.score:.2f}", f"{one.p_value:.3g}"])
        return aligned(lines)

    def to_dict(self) -> Json:
        """Return a JSON-safe summary."""
        return {
            "p_value": self.p_value,
            "exact": self.exact,
            "null": self.null,
            "delta": self.delta,
            "lower_bound": self.lower_bound,
            "cce": self.cce,
            "null_cce": self.null_cce,
            "detectable": self.detectable,
            "statistic": self.statistic,
            "null_mean": self.null_mean,
            "null_std": self.null_std,
            "critical_value": self.critical_value,
            "null_quantiles": dict(self.null_quantiles),
            "excess": self.excess,
            "skce": self.skce,
            "ckce": self.ckce,
            "null_ckce": self.null_ckce,
            "dispersion": self.dispersion,
            "outliers": self.outliers,
            "n": self.n,
            "clusters": self.clusters,
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

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the statistic among those of right models, with matplotlib."""
        from fastmcmd import plots

        return plots.congruence_test(self, ax=ax)

    @property
    def sentence(self) -> str:
        """The conclusion in one sentence."""
        where = _CONDITIONS[self.condition_on]
        p = f"p = {self.p_value:.3g}" if self.p_value >= 1e-4 else "p < 0.0001"
        if not self.exact:
            p += ", approximate"
        if self.null == "relevant":
            limit = f"{self.delta:.3g}"
            if self.p_value > 0.05:
                return f"CCE{where} is not shown to be above {limit} ({p}): the misfit may be negligible."
            return f"CCE{where} is above {limit} beyond chance ({p}): the misfit is not negligible."
        if self.p_value > 0.05:
            return (
                f"No misfit{where} beyond chance ({p}); a misfit of CCE "
                f"{self.detectable:.2g} would have been seen in half of such samples."
            )
        scatter = dispersion.in_words(
            self.dispersion, "them", of_classes=self.of_classes, outliers=self.outliers
        )
        return f"The predictions are wrong{where} beyond chance ({p}){scatter and '; '}{scatter}."

    def __repr__(self) -> str:
        first = self.evidence[0]
        lines = [
            self.sentence,
            f"  {self.figures}, root mean square over the rows",
        ]
        if self.lower_bound is not None:
            estimate = np.sqrt(max(self.excess, 0.0))
            lines.append(
                f"  CCE without noise {estimate:.3g}; at least {self.lower_bound:.3g} with 95 % confidence"
            )
        else:
            lines.append(
                f"  strongest: {first.statistic} of {first.outcomes}, {first.score:.1f} standard deviations"
            )
        if self.ckce is not None:
            lines.append(
                f"  SKCE {self.skce:.3g} (unbiased); CKCE {self.ckce:.3g} "
                f"(a calibrated model here: {self.null_ckce:.3g})"
            )
        if self.one_draw:
            lines.append(f"  one draw per row: {ONE_DRAW}")
        rows = f"  {self.n:,} rows, {self.simulations:,} simulations"
        if self.clusters:
            rows = (
                f"  {self.n:,} rows in {self.clusters:,} clusters, {self.simulations:,} random signs of "
                "clusters (wild bootstrap)"
            )
        return "\n".join([*lines, rows])
