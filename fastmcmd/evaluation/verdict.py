"""The verdict in one sentence: is the model wrong, where, how, and would a simple correction help."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import ColumnsLike, Json, RandomState
from fastmcmd._base.checks import as_rows, as_weights, check_positive
from fastmcmd._base.seeds import Purpose, generator, seed_sequence
from fastmcmd._base.tables import Notebook, aligned
from fastmcmd.errors import NumericalError
from fastmcmd.evaluation.needs import Need, Needs
from fastmcmd.frames import check_row_order, column_names, input_names
from fastmcmd.inference import dispersion
from fastmcmd.inference.columns import numbers_of_columns, rows_of_columns
from fastmcmd.inference.congruence_test import CongruenceTest, congruence_test
from fastmcmd.inference.corrections import CLASSES_HAVE_NONE
from fastmcmd.inference.diagnose import diagnose_on
from fastmcmd.inference.diagnosis import Diagnosis
from fastmcmd.inference.regions import LEAST_ROWS, WeakRegions, weak_regions
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered
from fastmcmd.recalibration import ConditionalRescaling

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["RegionVerdict", "Remedy", "Verdict", "verdict"]

_MOST_COLUMNS = 50  # most input columns for a tree: regions in more columns describe nothing
_STANDS_OUT = (
    2.2  # multiple of the mean excess; a fault common to all rows reaches 1.9 in most samples
)
_NONE_OF_IT, _NEARLY_ALL = 0.05, 0.99  # shares beyond which words replace numbers
_MOST_OF_IT = 0.8  # share from which the rest is small
_LANDMARKS = 150  # of the diagnosis and the remedy: sentences are as true as with 300
_REMEDY_ROWS = 2000  # most rows used: half to fit the rescaling, half to test it
_LEAST_REMEDY_ROWS = 100
_BEFORE, _AFTER = 59, 99  # simulations before rescaling, when misfit is beyond chance, and after it
_REMEDY: dict[str, Any] = {
    "lam": (0.1, 0.01),
    "folds": 2,  # three and five mend as much, on average over 27 samples of 300 to 2,000 rows
    "landmarks": _LANDMARKS,
}


@dataclass(frozen=True)
class RegionVerdict:
    """A region where the model is wrong beyond chance, and how it is wrong there.

    Attributes
    ----------
    description : str
        Conditions on the columns that define the region.
    cce, null_cce, p_adjusted, rows
        As in `WeakRegion`.
    shift, factor : float
        Correction that predictions in the region need, if most bands of the diagnosis exclude "none": the
        mean error and the ratio of standard deviations, or medians of the diagnosis if these are too noisy.
        NaN otherwise.
    shape : bool
        Whether the diagnosis reports a shift or a factor that the mean error and the ratio contradict: mean
        and standard deviation are right, but the shape of the distributions is not.
    too_low, too_high : float
        Shares of the region's inputs at which predictions are too low and too high, if both are common;
        NaN otherwise.
    """

    description: str
    cce: float
    null_cce: float
    p_adjusted: float
    rows: int
    shift: float
    factor: float
    shape: bool = False
    too_low: float = float("nan")
    too_high: float = float("nan")

    @property
    def need(self) -> Need:
        """The correction that predictions in the region need."""
        return Need(self.shift, self.factor, self.shape, self.too_low, self.too_high)


@dataclass(frozen=True)
class Remedy:
    """The effect on one half of the rows of a rescaling by input that was fitted on the other half.

    Attributes
    ----------
    share : float
        Share of the mean squared CCE in excess of a right model's that the rescaling removes, in [0, 1];
        NaN if that CCE is not beyond chance, as for models that are only too wide.
    p_value : float
        P-value of the exact test of the rescaled predictions on the other half.
    rows : int
        Number of rows in both halves.
    """

    share: float
    p_value: float
    rows: int


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Notebook):
    """Result of `verdict`.

    Attributes
    ----------
    test : CongruenceTest
        The exact test of whether the model is wrong beyond chance.
    regions : WeakRegions or None
        Where the model is wrong; None if the test does not reject, or for the reason in ``skipped``.
    diagnosis : Diagnosis or None
        How the model is wrong; None in the same cases.
    remedy : Remedy or None
        How much a shift and a factor of spread by input would correct
        (`recalibration.ConditionalRescaling`).
    where : tuple of RegionVerdict
        The regions that are wrong beyond chance, the worst first.
    overall : Need or None
        The correction that all predictions need; None without a diagnosis.
    dispersion_agrees : bool
        Whether the ratio of standard deviations is on the side of ``test.dispersion``, as far as there is a
        diagnosis. A few outliers may make it too large although most outcomes lie near their predictions.
    skipped : dict of str to str
        Why "regions", "diagnosis" or "remedy" is missing although the test rejects.
    level : float
        Level of the tests.
    """

    test: CongruenceTest
    regions: WeakRegions | None
    diagnosis: Diagnosis | None
    remedy: Remedy | None
    where: tuple[RegionVerdict, ...]
    skipped: dict[str, str]
    level: float
    overall: Need | None = None
    dispersion_agrees: bool = True

    @property
    def wrong(self) -> bool:
        """Whether the model is wrong beyond chance: the p-value is at most ``level``."""
        return self.test.p_value <= self.level

    @property
    def sentence(self) -> str:
        """One sentence: whether the model is wrong, where, how, and how much a simple correction helps."""
        if not self.wrong:
            return self.test.sentence
        approximate = "" if self.test.exact else ", approximate"
        head = f"The model is wrong beyond chance (p = {self.test.p_value:.3g}{approximate})"
        parts = [head + self._place(), self._scattered(), self._mended()]
        return "; ".join(part for part in parts if part) + "."

    def _place(self) -> str:
        log_mean = self._log_mean
        overall = "" if self.overall is None else self.overall.in_words(log_mean)
        if self.where:
            worst = self.where[0]
            how = worst.need.in_words(log_mean)
            if self._stands_out():
                return f", most for {worst.description}" + (f", where {how}" if how else "")
            if not overall and (how or not self._everywhere()):
                return f", for example for {worst.description}" + (f", where {how}" if how else "")
        return f": {overall}" if overall else ""

    def _scattered(self) -> str:
        """Return how far outcomes lie from predictions without a diagnosis."""
        if not self._establishes_nothing:
            return ""
        if not (self.dispersion_agrees or self.test.outliers):
            return ""
        return dispersion.in_words(
            self.test.dispersion, "its predictions", "these", model="it is",
            of_classes=self.skipped.get("diagnosis") == CLASSES_HAVE_NONE,
            outliers=self.test.outliers,
        )  # fmt: skip

    @property
    def _establishes_nothing(self) -> bool:
        """Whether no correction is established, neither for all rows nor for a region."""
        overall = self.overall is None or self.overall.empty
        return overall and all(one.need.empty for one in self.where)

    def _says_not_how(self) -> bool:
        """Return whether a diagnosis over several columns establishes nothing."""
        if self.diagnosis is None or self.diagnosis.x.shape[1] == 1:
            return False
        return self._establishes_nothing

    def _everywhere(self) -> bool:
        """Return whether all regions are wrong beyond chance."""
        return self.regions is not None and len(self.where) == len(list(self.regions))

    def _stands_out(self) -> bool:
        assert self.regions is not None
        rows = np.array([one.rows for one in self.regions], dtype=np.float64)
        excess = np.array([one.cce**2 - one.null_cce**2 for one in self.regions])
        worst = self.where[0]
        overall = float(np.maximum(excess, 0.0) @ rows / rows.sum())
        return len(rows) > 1 and worst.cce**2 - worst.null_cce**2 >= _STANDS_OUT * overall

    def _mended(self) -> str:
        remedy = self.remedy
        if remedy is None:
            return ""
        is_mended = remedy.p_value > self.level
        remaining = f"a misfit beyond chance remains (p = {remedy.p_value:.3g})"
        if not np.isfinite(remedy.share):
            if is_mended:
                remaining = f"the misfit is not beyond chance (in {remedy.rows // 2:,} rows)"
            return f"after rescaling by input {remaining}"
        if remedy.share < _NONE_OF_IT:
            # Fitted on more rows it might: it is only applied if it is better beyond chance.
            return f"rescaling by input, fitted on {remedy.rows // 2:,} rows, does not mend it"
        share = "nearly all" if remedy.share > _NEARLY_ALL else f"{remedy.share:.0%}"
        if (
            is_mended and remedy.share < _MOST_OF_IT
        ):  # of few rows; it may well be beyond chance in more
            remaining = f"the rest is not beyond chance in {remedy.rows // 2:,} rows"
            return f"rescaling by input would mend {share} of it; {remaining}"
        if is_mended:
            return f"rescaling by input would mend {share} of it, and what remains may be chance"
        return f"rescaling by input would mend {share} of it, but {remaining}"

    @property
    def _log_mean(self) -> bool:
        """Whether shifts are those of the logarithm of the mean."""
        return self.diagnosis is not None and self.diagnosis.scale == "log mean"

    def __repr__(self) -> str:
        lines = [self.sentence, f"  {self.test.figures}, root mean square over the rows"]
        lines += [f"  {self.test.hidden}"] if self.test.hidden else []
        if self.where:
            lines += ["", self.table()]
        lines += [f"  no {name}: {reason}" for name, reason in self.skipped.items()]
        if self._says_not_how():
            lines.append(
                "  the diagnosis over all inputs does not show in what way; one over the predicted mean "
                "may: diagnose(prediction.mean, y, prediction)"
            )
        return "\n".join(lines)

    def table(self) -> str:
        """Return text with one line per region that is wrong beyond chance, without empty columns."""
        shift_title = "mean times" if self._log_mean else "shift needed"
        rows = [
            ["region", "CCE", "if right", "p (Holm)", "rows", shift_title, "spread times", "shape"]
        ]
        for one in self.where:
            rows.append(
                [one.description, f"{one.cce:.3g}", f"{one.null_cce:.3g}", f"{one.p_adjusted:.3g}",
                 f"{one.rows:,}",
                 "varies" if one.need.varies
                 else _cell(np.exp(one.shift), ".3g") if self._log_mean else _cell(one.shift, "+.3g"),
                 _cell(one.factor, ".3g"),
                 "wrong" if one.shape else ""]
            )  # fmt: skip
        columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
        return aligned([list(row) for row in zip(*columns, strict=True)], left=(0,))

    def to_dict(self) -> Json:
        """Return a JSON-safe summary with the sentence, the test, the regions and the remedy."""
        return {
            "sentence": self.sentence,
            "wrong": self.wrong,
            "level": self.level,
            "test": self.test.to_dict(),
            "where": [
                {name: _json(value) for name, value in asdict(one).items()} for one in self.where
            ],
            "remedy": None
            if self.remedy is None
            else {name: _json(value) for name, value in asdict(self.remedy).items()},
            "skipped": dict(self.skipped),
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row per region that is wrong beyond chance."""
        from fastmcmd.frames import to_frame

        names = ("description", "cce", "null_cce", "p_adjusted", "rows", "shift", "factor", "shape",
                 "too_low", "too_high")  # fmt: skip
        return to_frame(
            {name: np.array([getattr(one, name) for one in self.where]) for name in names}, None
        )

    def plot(self) -> Figure:
        """Plot the test and, if there is one, the diagnosis, with matplotlib.

        Returns
        -------
        matplotlib figure
        """
        from fastmcmd import plots

        return plots.verdict(self)


def verdict(
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike,
    columns: ColumnsLike | None = None,
    *,
    test: CongruenceTest | None = None,
    level: float = 0.05,
    weights: ArrayLike | None = None,
    random_state: RandomState = 0,
) -> Verdict:
    """Return whether a model is wrong, where, how, and what would correct it, with a one-sentence summary.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs.
    y : array_like (n,) or (n, k)
        Observed outcomes, which the model was not trained on.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        As in `cce`.
    columns : data frame, dict of array_like (n,), or array_like (n, c), optional
        Columns that describe regions, as in `weak_regions`. Default: the inputs, if they have at most 50
        columns.
    test : CongruenceTest, optional
        The exact test of the same data, if it has already been run.
    level : float
        Level of the tests, in (0, 1).
    weights : array_like (n,), optional
        Nonnegative weights of the rows for the test, the diagnosis and the remedy, as in `congruence_test`.
        Regions, and what each of them needs, count all rows of positive weight equally.
    random_state : int, numpy.random.Generator or None
        Source of all simulations.

    Returns
    -------
    Verdict
        The verdict, with ``.sentence``, ``.test``, ``.regions``, ``.diagnosis``, ``.table()`` and
        ``.plot()``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    The exact test (`congruence_test`) decides whether there is a misfit. Only if it rejects,
    `weak_regions`, whose tests are exact and adjusted for their number, and `diagnose`, whose bands are
    pointwise, are run with their default kernels. The remedy is measured:
    `recalibration.ConditionalRescaling` is fitted on one half of at most 2,000 rows, and the exact test is
    run on the other half before and after.

    Examples
    --------
    A model that predicts 0.5 too low for x > 1. The verdict finds the region and the shift.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 1000)
    >>> y = x + np.where(x > 1, 0.5, 0.0) + 0.3 * rng.normal(size=1000)
    >>> verdict = fm.verdict(x, y, fm.Gaussian(x, 0.3))
    >>> verdict.wrong
    True
    >>> print(verdict.sentence.split(";")[0])
    The model is wrong beyond chance (p = 0.005), most for x > 1.5818, where it predicts 0.55 too low
    """
    level = check_positive(level, "level")
    if level >= 1:
        raise ValueError(f"level is {level:g}; a number in (0, 1) is needed")
    check_order(y, "(x, y, prediction)")
    check_row_order(x=x, y=y, prediction=prediction, columns=columns, weights=weights)
    y = numbered(y, prediction)
    outcomes = as_rows(y, "y")
    predictive = as_predictive(prediction, len(outcomes), outcomes.shape[1], y=outcomes, x=x)
    if columns is not None:
        described = len(numbers_of_columns(columns)[0])
        if described != len(outcomes):
            raise ValueError(f"rows must match: y has {len(outcomes)}, columns has {described}")
    row_weights = as_weights(weights, "weights", len(outcomes))
    if test is None:
        test = congruence_test(x, y, predictive, weights=weights, random_state=random_state)
    elif not isinstance(test, CongruenceTest):
        raise TypeError(f"test is {type(test).__name__}; a CongruenceTest or None is needed")
    elif test.n != len(outcomes):
        raise ValueError(f"test is of {test.n} rows, y has {len(outcomes)}")
    if test.p_value > level:
        return Verdict(test, None, None, None, (), {}, level)
    reasons: dict[str, str] = {}
    region_columns: Any = _inputs_by_name(x) if columns is None else columns
    if row_weights is not None and not row_weights.all():
        positive = np.flatnonzero(row_weights)
        if region_columns is not None:
            region_columns = rows_of_columns(region_columns, positive, len(outcomes))
        x, outcomes, predictive = (
            as_rows(x, "x")[positive],
            outcomes[positive],
            predictive.take(positive),
        )
        y, row_weights = outcomes, row_weights[positive]
    regions = _regions(x, y, predictive, region_columns, level, random_state, reasons)
    diagnosis = _diagnosis(x, y, predictive, row_weights, random_state, reasons)
    remedy = None
    if diagnosis is not None:
        try:
            remedy = _remedy(x, outcomes, predictive, row_weights, level, random_state, reasons)
        except NumericalError as error:
            reasons["remedy"] = str(error)
    needs = None if diagnosis is None else Needs(diagnosis, outcomes[:, 0], predictive)
    where: tuple[RegionVerdict, ...] = ()
    if regions is not None:
        inside = regions.contains(region_columns)
        where = _region_verdicts(regions, inside, needs)
    overall = None if needs is None else needs.of()
    agrees = needs is None or needs.agrees(test.dispersion)
    return Verdict(test, regions, diagnosis, remedy, where, reasons, level, overall, agrees)


def _inputs_by_name(x: object) -> Any:
    """Return the inputs as named columns, or None if they are too many to describe regions."""
    rows, labels = as_rows(x, "x"), column_names(x)
    if labels and len(set(labels)) == rows.shape[1]:
        return x
    if rows.shape[1] > _MOST_COLUMNS:
        return None
    names = (
        list(input_names(x) or ["x"])
        if rows.shape[1] == 1
        else [f"x[:, {place}]" for place in range(rows.shape[1])]
    )
    return dict(zip(names, rows.T, strict=True))


def _regions(
    x: ArrayLike,
    y: ArrayLike,
    prediction: Predictive,
    columns: Any,
    level: float,
    random_state: RandomState,
    reasons: dict[str, str],
) -> WeakRegions | None:
    """Return the regions; or None, with the reason in ``skipped``."""
    if columns is None:
        reasons["regions"] = f"x has more than {_MOST_COLUMNS} columns; give columns to say where"
    elif len(prediction) < LEAST_ROWS:
        reasons["regions"] = f"fewer than {LEAST_ROWS} rows"
    else:
        try:
            return weak_regions(columns, x, y, prediction, level=level, random_state=random_state)
        except NumericalError as error:
            reasons["regions"] = str(error)
    return None


def _diagnosis(
    x: ArrayLike,
    y: ArrayLike,
    prediction: Predictive,
    weights: NDArray[np.float64] | None,
    random_state: RandomState,
    reasons: dict[str, str],
) -> Diagnosis | None:
    """Return the diagnosis of the predictions; or None, with the reason in ``skipped``."""
    try:
        diagnosis = diagnose_on(
            _LANDMARKS, x, y, prediction, weights=weights, random_state=random_state
        )
    except NumericalError as error:
        reasons["diagnosis"] = str(error)
        return None
    if diagnosis.reason:
        reasons["diagnosis"] = diagnosis.reason
        return None
    return diagnosis


def _remedy(
    x: ArrayLike,
    y: NDArray[np.float64],
    prediction: Predictive,
    weights: NDArray[np.float64] | None,
    level: float,
    random_state: RandomState,
    reasons: dict[str, str],
) -> Remedy | None:
    """Return the effect of a rescaling fitted on one half; or None, with the reason in ``skipped``."""
    n = min(len(y), _REMEDY_ROWS)
    if n < _LEAST_REMEDY_ROWS:
        reasons["remedy"] = f"fewer than {_LEAST_REMEDY_ROWS} rows"
        return None
    inputs = as_rows(x, "x")
    rng = generator(seed_sequence(random_state), Purpose.HALVES)
    sampled_rows = rng.choice(len(y), n, replace=False)
    fitting, tested = np.sort(sampled_rows[: n // 2]), np.sort(sampled_rows[n // 2 :])
    part = prediction.take(tested)
    of_fitting, of_tested = (None, None) if weights is None else (weights[fitting], weights[tested])
    before = congruence_test(
        inputs[tested], y[tested], part,
        simulations=_BEFORE, weights=of_tested, random_state=random_state,
    )  # fmt: skip
    if before.p_value > level:
        reasons["remedy"] = (
            f"it is fitted on one half of {n:,} rows and tested on the other, where the misfit is not "
            "beyond chance"
        )
        return None
    rescaling = ConditionalRescaling(**_REMEDY)
    rescaling.fit(prediction.take(fitting), y[fitting], inputs[fitting], sample_weight=of_fitting)
    mended = rescaling.transform(part, inputs[tested])
    after = congruence_test(
        inputs[tested], y[tested], mended,
        simulations=_AFTER, weights=of_tested, random_state=random_state,
    )  # fmt: skip
    excess, remaining = (max(one.statistic - one.null_mean, 0.0) for one in (before, after))
    share = 1 - remaining / excess if before.statistic > before.critical_value else float("nan")
    return Remedy(float(np.clip(share, 0.0, 1.0)), after.p_value, n)


def _region_verdicts(
    regions: WeakRegions, inside: NDArray[np.intp], needs: Needs | None
) -> tuple[RegionVerdict, ...]:
    """Return the regions beyond chance and the corrections that they need, the worst first."""
    verdicts = []
    for number, one in enumerate(regions):
        if one.p_adjusted <= regions.level:
            need = Need() if needs is None else needs.of(inside == number)
            verdicts.append(
                RegionVerdict(
                    one.description, one.cce, one.null_cce, one.p_adjusted, one.rows,
                    need.shift, need.factor, need.shape, need.too_low, need.too_high,
                )
            )  # fmt: skip
    return tuple(sorted(verdicts, key=lambda one: one.null_cce**2 - one.cce**2))


def _cell(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else ""


def _json(value: object) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
