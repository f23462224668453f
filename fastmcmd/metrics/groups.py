"""Calibration in the worst of several random groups of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import _core
from fastmcmd._base.annotations import NanPolicy, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import as_array, check_choice, check_count, check_flag, quote
from fastmcmd._base.plotted import Plotted
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import ColumnTable, aligned
from fastmcmd.metrics.inputs import read
from fastmcmd.metrics.metric import metric
from fastmcmd.metrics.pit import PITS, pit_of_rows
from fastmcmd.metrics.quantile_calibration import smallest_level
from fastmcmd.metrics.reliability_sums import KINDS, TOOLBOX_LEVELS, read_levels
from fastmcmd.predictive.base import Array, PredictionLike

__all__ = ["GroupCalibration", "adversarial_group_calibration"]

NORMS = ("mean_absolute", "rms")
_LEAST = 2  # rows per group at least, as in Uncertainty Toolbox
_MOST_DRAWN = 10**9  # rows up to which NumPy can draw hypergeometric counts


@dataclass(frozen=True, eq=False, repr=False)
class GroupCalibration(Plotted, ColumnTable):
    """Calibration errors of the worst of several random groups, by group size.

    Attributes
    ----------
    fractions : ndarray (s,)
        Sizes of the groups, as shares of the rows.
    sizes : ndarray (s,)
        Rows per group.
    mean : ndarray (s,)
        Mean over trials of the error of the worst group.
    std : ndarray (s,)
        Standard deviation of that error over trials (ddof=1), which Uncertainty Toolbox calls
        ``score_stderr``; NaN for a single trial.
    worst : ndarray (s, trials)
        Error of the worst group of each trial.
    norm : str
        "mean_absolute" or "rms".
    null : ndarray (s, m) or None
        ``mean`` of m simulated data sets of a calibrated model; None if none were simulated.
    """

    picture: ClassVar[str] = "group_calibration"
    fractions: Array
    sizes: NDArray[np.intp]
    mean: Array
    std: Array
    worst: Array
    norm: str
    null: Array | None = None

    @property
    def stderr(self) -> Array:
        """Standard errors (s,) of the means."""
        return np.asarray(self.std / np.sqrt(self.worst.shape[1]))

    def to_dict(self) -> dict[str, list[float]]:
        """Return the columns of the curve as lists, by name."""
        return {
            "fraction": self.fractions.tolist(),
            "rows": self.sizes.tolist(),
            "mean": self.mean.tolist(),
            "std": self.std.tolist(),
        }

    def table(self) -> str:
        """Return errors by group size as text."""
        rows = [["share", "rows", "worst error", "std", *["if right"] * (self.null is not None)]]
        for i, fraction in enumerate(self.fractions):
            numbers = [self.mean[i], self.std[i]]
            if self.null is not None:
                numbers.append(self.null[i].mean())
            rows.append([f"{fraction:.4g}", str(self.sizes[i]), *(f"{one:.4f}" for one in numbers)])
        return aligned(rows)

    def __repr__(self) -> str:
        norm_name = "mean absolute" if self.norm == "mean_absolute" else "root mean square"
        return f"GroupCalibration, {norm_name} calibration error of the worst group\n{self.table()}"


@dataclass(frozen=True)
class _Places:
    """The smallest level that holds each row, from which calibration errors of groups are computed."""

    place: NDArray[np.integer]
    weights: Array
    levels: Array
    norm: str

    def errors(self, counts: Array) -> Array:
        """Return the calibration errors (d,) of groups from their weights by place (d, j + 1)."""
        total = counts.sum(axis=1, keepdims=True)
        if not (total > 0).all():
            raise ValueError(
                "sample_weight are all zero in a group; larger group fractions are needed"
            )
        gaps = np.cumsum(counts[:, :-1], axis=1) / total - self.levels
        if self.norm == "rms":
            return np.asarray(np.sqrt(np.mean(gaps**2, axis=1)))
        return np.asarray(np.mean(np.abs(gaps), axis=1))

    def counts(self) -> Array:
        """Return zero counts."""
        return np.zeros(len(self.levels) + 1)

    def all(self) -> Array:
        """Return the weight of all rows by place."""
        weights = self.weights if len(self.weights) else None
        return np.bincount(self.place, weights, len(self.levels) + 1).astype(np.float64)


@metric
def adversarial_group_calibration(
    y: ArrayLike,
    prediction: PredictionLike,
    levels: ArrayLike | None = None,
    *,
    norm: str = "mean_absolute",
    kind: str = "interval",
    fractions: ArrayLike | None = None,
    trials: int = 10,
    draws: int = 10,
    replace: bool = False,
    groups: Iterable[ArrayLike] | None = None,
    null: int = 0,
    pit: str = "randomized",
    random_state: RandomState = 0,
    sample_weight: ArrayLike | None = None,
    nan_policy: NanPolicy = "raise",
) -> GroupCalibration:
    """Return the calibration error of the worst of several random groups, by group size.

    Parameters
    ----------
    norm : {"mean_absolute", "rms"}
        Mean absolute or root mean square calibration error.
    fractions : array_like (s,), optional
        Sizes of groups as shares of the rows, in [0, 1]. Default: 10 evenly spaced sizes from 0 to 1. A
        group has at least 2 rows.
    trials, draws : int
        Number of trials; each trial takes the worst of ``draws`` groups.
    replace : bool
        Whether a group may contain a row more than once.
    groups : sequence of integer arrays (trials, draws, rows), optional
        Rows of the groups, one array per size, in place of random groups. ``fractions``, ``trials``,
        ``draws``, ``replace``, and ``random_state`` as the source of groups are then ignored.
    null : int
        Number of simulated data sets of a calibrated model, which show how large the error of the worst
        group is by chance. Their PIT is uniform, as the randomised PIT of a calibrated model is.
    pit : {"randomized", "mid", "plain"}
        How to treat atoms; see `pit_values`.
    random_state : int, numpy.random.Generator or None
        Source of the groups and of randomised PIT values.
    sample_weight : array_like (n,), optional
        Nonnegative weights of rows in the shares. They do not affect which groups are drawn.
    nan_policy : {"raise", "omit"}
        What to do with rows that hold NaN. Group sizes count the remaining rows.

    Returns
    -------
    GroupCalibration

    Notes
    -----
    The measure is that of Zhao, Ma & Ermon, *Individual Calibration with Randomized Forecasting* (ICML
    2020). The defaults are those of Chung et al., *Uncertainty Toolbox* (2021),
    ``adversarial_group_calibration``. The levels of all rows are counted once; counts of a random group are
    then drawn from their distribution, at a cost that does not depend on the number of rows. Weighted
    groups are drawn row by row.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> curve = fm.metrics.adversarial_group_calibration(y, (np.zeros(1000), 1.0))
    >>> bool(curve.mean[0] > 0.3), bool(curve.mean[-1] < 0.03)
    (True, True)
    """
    check_choice(norm, "norm", NORMS)
    check_choice(kind, "kind", KINDS)
    check_choice(pit, "pit", PITS)
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    sorted_levels = np.sort(read_levels(levels, TOOLBOX_LEVELS))
    trials, draws = check_count(trials, "trials"), check_count(draws, "draws")
    shares = _fractions(fractions)
    rng = generator(random_state, Purpose.GROUPS)
    rows = read(y, prediction, sample_weight, nan_policy)
    place = smallest_level(
        pit_of_rows(rows.y, rows.prediction, pit, random_state), sorted_levels, kind
    )
    weights = np.empty(0) if rows.weights is None else rows.weights
    small = np.uint8 if len(sorted_levels) < 256 else np.int32  # places that stay in the cache
    places = _Places(place.astype(small), weights, sorted_levels, norm)
    n = len(rows.y)
    null = check_count(null, "null", least=0)
    if groups is not None:
        if null:
            raise ValueError(f"null is {null} and groups are given; null needs random groups")
        return _of_groups(places, groups, n)
    sizes = np.maximum(np.round(n * shares).astype(np.intp), _LEAST)
    if not check_flag(replace, "replace"):
        sizes = np.minimum(sizes, n)
    worst = _of_random(places, sizes, trials, draws, bool(replace), rng)
    result = _result(shares, sizes, worst, norm)
    if not null:
        return result
    simulated = []
    for _ in range(null):
        levels_of_rows = smallest_level(rng.uniform(size=n), sorted_levels, kind).astype(small)
        alike = dataclasses.replace(places, place=levels_of_rows)
        simulated.append(_of_random(alike, sizes, trials, draws, bool(replace), rng).mean(axis=1))
    return dataclasses.replace(result, null=np.stack(simulated, axis=1))


def _fractions(fractions: ArrayLike | None) -> Array:
    if fractions is None:
        return np.linspace(0.0, 1.0, 10)
    values = as_array(fractions, "fractions").astype(np.float64)
    if values.ndim != 1 or not len(values) or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"fractions is {fractions!r}; numbers (s,) in [0, 1] are needed")
    return values


def _result(fractions: Array, sizes: NDArray[np.intp], worst: Array, norm: str) -> GroupCalibration:
    std = worst.std(axis=1, ddof=1) if worst.shape[1] > 1 else np.full(len(worst), np.nan)
    return GroupCalibration(fractions, sizes, worst.mean(axis=1), std, worst, norm)


def _of_random(
    places: _Places,
    sizes: NDArray[np.intp],
    trials: int,
    draws: int,
    replace: bool,
    rng: np.random.Generator,
) -> Array:
    """Return the error of the worst group (s, trials). Each trial uses a separate random stream."""
    seeds = rng.integers(2**63, size=trials)
    all_counts = places.all()
    worst = np.empty((len(sizes), trials))
    if not len(places.weights) and len(places.place) < _MOST_DRAWN:
        for trial, seed in enumerate(seeds):
            stream = np.random.default_rng(seed)
            for i, size in enumerate(sizes):
                counts = _drawn_counts(all_counts, int(size), draws, replace, stream)
                worst[i, trial] = places.errors(counts).max()
        return worst

    def work(block: slice) -> None:
        for trial in range(block.start, block.stop):
            stream = np.random.default_rng(seeds[trial])
            order = np.arange(len(places.place), dtype=np.int32)
            for i, size in enumerate(sizes):
                errors = [
                    _counts(places, int(size), order, stream, replace, all_counts)
                    for _ in range(draws)
                ]
                worst[i, trial] = places.errors(np.stack(errors)).max()

    over_rows(work, trials, 1)
    return worst


def _drawn_counts(
    all_counts: Array, size: int, draws: int, replace: bool, rng: np.random.Generator
) -> Array:
    """Return the counts by place (draws, j + 1) of random groups, without drawing their rows.

    Only the counts of a group matter. They are multivariate hypergeometric without replacement and
    multinomial with replacement.
    """
    if replace:
        sampled = rng.multinomial(size, all_counts / all_counts.sum(), size=draws)
    else:
        counts = all_counts.astype(np.int64)
        sampled = rng.multivariate_hypergeometric(counts, size, size=draws, method="marginals")
    return sampled.astype(np.float64)


def _counts(
    places: _Places,
    size: int,
    order: NDArray[np.int32],
    rng: np.random.Generator,
    replace: bool,
    all_counts: Array,
) -> Array:
    """Return the weight of one random group by place.

    If a group without replacement has more than half of the rows, the rows left out are drawn instead.
    """
    counts = places.counts()
    if replace:
        _core.count_drawn(rng.random(size), places.place, places.weights, counts)
        return counts
    outside = 2 * size > len(order)
    draws = len(order) - size if outside else size
    _core.count_undrawn(rng.random(draws), order, places.place, places.weights, counts)
    return all_counts - counts if outside else counts


def _of_groups(places: _Places, groups: Iterable[ArrayLike], n: int) -> GroupCalibration:
    if not isinstance(groups, Iterable) or (isinstance(groups, np.ndarray) and not groups.ndim):
        raise TypeError(
            f"groups is {quote(groups)}; an iterable of arrays (trials, draws, rows) is needed"
        )
    worst, sizes = [], []
    for part in groups:
        try:
            rows = np.asarray(part)
        except Exception as error:  # __array__ of other libraries can raise anything
            raise TypeError(
                f"groups holds an object that cannot become an array: {error}"
            ) from None
        if rows.ndim != 3 or rows.dtype.kind not in "iu" or rows.size == 0:
            raise ValueError(
                f"groups has an array of shape {rows.shape} and dtype {rows.dtype}; integers of shape "
                "(trials, draws, rows) are needed for each size"
            )
        if rows.min() < 0 or rows.max() >= n:
            raise ValueError(
                f"groups has rows from {rows.min()} to {rows.max()}; rows of y from 0 to {n - 1} are "
                "needed"
            )
        errors = np.empty(rows.shape[:2])
        for trial, draw in np.ndindex(*errors.shape):
            counts = places.counts()
            _core.count_rows(
                rows[trial, draw].astype(np.int64), places.place, places.weights, counts
            )
            errors[trial, draw] = places.errors(counts[None])[0]
        worst.append(errors.max(axis=1))
        sizes.append(rows.shape[2])
    if not worst or len({len(one) for one in worst}) > 1:
        raise ValueError("groups must hold arrays (trials, draws, rows) with the same trials")
    total = np.asarray(sizes, dtype=np.intp)
    return _result(total / n, total, np.stack(worst), places.norm)
