"""Predictions of ordered classes, or of a fixed set of numbers."""

from __future__ import annotations

import copy
import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import AnyArray, Array, HostArray, Nodes, RandomState
from fastmcmd._base.blocks import over_rows
from fastmcmd._base.checks import check_count, quote
from fastmcmd._base.names import as_names, is_number, name_list, places_of_names
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.errors import RowError
from fastmcmd.frames import column_names
from fastmcmd.predictive.base import Predictive, parameter
from fastmcmd.predictive.numerics.spread import root, root_of_squares

__all__ = ["SUM_TOLERANCE", "Categorical", "classes_of", "numbered"]

_BLOCK = 1 << 18  # numbers held in memory at once
SUM_TOLERANCE = (
    1e-5  # largest distance of a sum from 1; 1,000 float32 probabilities are off by up to 1e-5
)


class Categorical(Predictive):
    """Distributions over the same K outputs, with probabilities for each input.

    Parameters
    ----------
    probs : array_like (n, K) or (n,)
        Probabilities. Each row must sum to 1 within 1e-5 and is divided by its sum. With two ``classes``,
        (n,) holds the probability of the second.
    values : array_like (K,), optional
        The outputs, in increasing order. Default: 0 to K - 1.
    classes : sequence of K str, optional
        Names of classes that have no order. Outcomes are then these names, or their numbers from 0 to
        K - 1, and `fastmcmd.evaluate` computes the measures of a classification. Numbers are no names,
        but for 0 to K - 1 in this order.

    Attributes
    ----------
    probs : ndarray (n, K)
        Probabilities that sum to 1.
    values : ndarray (K,)
        The outputs.
    classes : tuple of str or None
        Names of the classes.

    Raises
    ------
    ValueError
        Probabilities that are negative or do not sum to 1 (the message names the first such row), values
        that do not increase, or shapes that do not fit.

    Examples
    --------
    >>> from fastmcmd.predictive.categorical import Categorical
    >>> ranks = Categorical([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    >>> ranks.mean.tolist()
    [0.75, 2.0]
    >>> ranks.crps([0, 1]).tolist()
    [0.3125, 1.0]
    """

    discrete = True
    _numbered = False  # whether outcomes have been read, and numbers are places of classes

    def __init__(
        self,
        probs: ArrayLike,
        values: ArrayLike | None = None,
        *,
        classes: Sequence[str] | None = None,
    ) -> None:
        columns = column_names(probs)
        probs = parameter(probs, "probs")
        if probs.ndim == 1 and classes is not None and len(np.atleast_1d(classes)) == 2:
            probs = _of_two(probs)
        if probs.ndim != 2 or probs.shape[1] == 0:
            raise ValueError(
                f"probs has shape {probs.shape}; (n, K) is needed: one row per input, or (n,) and two "
                "classes, of which these are the probabilities of the second"
            )
        count = probs.shape[1]
        self.classes = None if classes is None else _class_names(classes, count, values)
        if (
            self.classes is not None
            and self.classes != columns
            and set(self.classes) == set(columns)
        ):
            raise ValueError(
                f"classes is {name_list(self.classes)} and the columns of probs are {name_list(columns)}; "
                "the same names in the same order are needed"
            )
        if values is None:
            values = np.arange(count, dtype=np.float64)
            if self.classes is None:
                _check_numbers_of_columns(columns, values)
        else:
            values = parameter(values, "values")
        if values.shape != (count,):
            raise ValueError(f"values has shape {values.shape}; ({count},) is needed: as probs has")
        if (values[1:] <= values[:-1]).any():
            raise ValueError("values must increase; sort them, and the columns of probs with them")
        total = probs.sum(axis=1)
        bad = (probs.min(axis=1) < 0) | (np.abs(total - 1) > SUM_TOLERANCE)
        if bad.any():
            row = int(bad.argmax())
            negative = (probs[row] < 0).any()
            fault = f"has {probs[row].min():g}" if negative else f"sums to {total[row]:.8g}"
            hint = "" if negative else " (if they are rounded, divide each row by its sum)"
            raise RowError(
                f"row {row} of probs {fault} ({int(bad.sum())} such rows); probabilities must be >= 0 and "
                f"sum to 1 within {SUM_TOLERANCE:g}{hint}",
                row,
            )
        self.probs = probs / total[:, None]
        self.values = values

    def __repr__(self) -> str:
        class_text = "" if self.classes is None else f" of {name_list(self.classes)}"
        return f"Categorical{self.probs.shape}{class_text}"

    @property
    def shape(self) -> tuple[int, ...]:
        """``(n,)``."""
        return (len(self.probs),)

    @property
    def mean(self) -> Array:
        """Means (n,)."""
        return np.asarray(self.probs @ self.values)

    @property
    def variance(self) -> Array:
        """Variances (n,)."""
        mean = self.mean

        def one_block(rows: slice) -> Array:
            gap = np.where(self.probs[rows] > 0, self.values - mean[rows, None], 0.0)
            with np.errstate(over="ignore"):
                return np.asarray(np.einsum("nk,nk->n", self.probs[rows], gap * gap))

        return self._by_rows(one_block)

    @property
    def std(self) -> Array:
        """Standard deviations (n,)."""

        def exact(rows: NDArray[np.intp]) -> Array:
            probs = self.probs[rows]
            gaps = self.values - (probs @ self.values)[:, None]
            return root_of_squares(probs, np.where(probs > 0, gaps, 0.0))

        return root(self.variance, exact)

    def cdf(self, y: ArrayLike) -> Array:
        """Return P(Y <= y) (n,)."""
        return self._below(y, "right")

    def cdf_below(self, y: ArrayLike) -> Array:
        """Return P(Y < y) (n,)."""
        return self._below(y, "left")

    def _below(self, y: ArrayLike, side: Any) -> Array:
        y = np.broadcast_to(self.outcomes(y), self.shape)
        count = np.searchsorted(self.values, y, side=side)  # NaN comes last

        def one_block(rows: slice) -> Array:
            cumulative = self._cumulative(rows)
            place = np.maximum(count[rows] - 1, 0)[:, None]
            below = np.take_along_axis(cumulative, place, axis=1)[:, 0]
            return np.where(count[rows] == 0, 0.0, below)

        return np.where(np.isnan(y), np.nan, self._by_rows(one_block))

    def sf(self, y: ArrayLike) -> Array:
        """Return P(Y > y) (n,); small probabilities keep all their digits."""
        y = np.broadcast_to(self.outcomes(y), self.shape)

        def one_block(rows: slice) -> Array:
            above = self.values > y[rows, None]
            return np.asarray(np.einsum("nk,nk->n", self.probs[rows], above))

        return np.where(np.isnan(y), np.nan, self._by_rows(one_block))

    def log_prob(self, y: ArrayLike) -> Array:
        """Return the log probability (n,); -inf where y is none of the values."""
        y = np.broadcast_to(self.outcomes(y), self.shape)
        index = np.minimum(np.searchsorted(self.values, y), len(self.values) - 1)
        probability = np.where(
            self.values[index] == y, self.probs[np.arange(len(self)), index], 0.0
        )
        with np.errstate(divide="ignore"):
            return np.where(np.isnan(y), np.nan, np.log(probability))

    def crps(self, y: ArrayLike) -> Array:
        """Return the ranked probability score (n,): the integral of ``(F(x) - 1{x >= y})^2``.

        Notes
        -----
        The score is ``sum_k (F(v_k) - 1{v_k >= y})^2 (v_(k+1) - v_k)``. For classes 0 to K - 1 this is the
        ranked probability score of Epstein (1969) and Murphy (1971); some authors divide it by K - 1.
        Outcomes between or outside the values have a score, too.
        """
        y = np.broadcast_to(self.outcomes(y), self.shape)
        left, right = self.values[:-1], self.values[1:]

        def one_block(rows: slice) -> Array:
            below = self._cumulative(rows)[:, :-1]
            above = np.cumsum(self.probs[rows, :0:-1], axis=1)[:, ::-1]
            at = y[rows, None]
            clipped = np.clip(at, left, right)
            inside = below**2 * (clipped - left) + above**2 * (right - clipped)
            outside = np.maximum(self.values[0] - at, 0) + np.maximum(at - self.values[-1], 0)
            return np.asarray(inside.sum(axis=1) + outside[:, 0])

        return self._by_rows(one_block)

    @property
    def has_quick_quantiles(self) -> bool:
        """True: sums of the probabilities give quantiles."""
        return True

    def quantiles_at(self, levels: Array) -> Array:
        """Return quantiles (n, j) at levels (n, j), which may differ from row to row."""
        levels = np.maximum(levels, np.finfo(np.float64).tiny)
        if not levels.size:
            return np.empty(levels.shape)

        def one_block(rows: slice) -> Array:
            cumulative = self._cumulative(rows)[:, None, :]
            return self.values[(cumulative < levels[rows, :, None]).sum(axis=2)]

        return self._by_rows(one_block, levels.shape[1])

    def sample(self, size: int, random_state: RandomState = None) -> Array:
        """Return draws (n, size)."""
        rng = generator(random_state, Purpose.SAMPLE)
        # 1 - U lies in (0, 1], so no value of probability 0 is drawn.
        return self.quantiles_at(1 - rng.random((len(self), check_count(size, "size"))))

    def take(self, rows: NDArray[np.intp]) -> Categorical:
        """Return the distributions of some rows."""
        if self.classes is not None:
            part = Categorical(self.probs[rows], classes=self.classes)
            part._numbered = self._numbered
            return part
        return Categorical(self.probs[rows], self.values)

    def numbers_of(self, y: AnyArray) -> AnyArray:
        """Return outcomes with names of classes replaced by their numbers; other outcomes unchanged.

        Raises
        ------
        ValueError
            A name that is no class, or names without ``classes``.
        """
        names = as_names(y)
        if names is None:
            if not self._numbered:
                self._check_places()
            return y
        if self.classes is None:
            raise ValueError(
                f"y holds text, such as {next(filter(None, names))!r}, and the outcomes of the prediction "
                "are numbers; name its classes: Categorical(probs, classes=...)"
            )
        order = {one: place for place, one in enumerate(self.classes)}
        unknown = [row for row, one in enumerate(names) if one is not None and one not in order]
        if unknown:
            raise RowError(
                f"y[{unknown[0]}] is {names[unknown[0]]!r}, which is no class of the prediction; its "
                f"classes are {name_list(self.classes)}",
                int(unknown[0]),
            )
        return places_of_names(names, order)

    def checked_for(self, y: HostArray) -> Categorical:
        """Return these predictions for outcomes that are NaN or the numbers of named classes.

        Raises
        ------
        ValueError
            Any other number, such as a label that counts from 1.
        """
        if self.classes is None:
            return self
        labels, count = np.ravel(y), len(self.classes)
        bad = (labels < 0) | (labels >= count) | (labels != np.floor(labels))
        bad &= ~np.isnan(labels)
        if bad.any():
            row = int(bad.argmax())
            raise RowError(
                f"y[{row}] is {labels[row]:g}; names of classes ({name_list(self.classes)}) or integers "
                f"from 0 to {count - 1} are needed",
                row,
            )
        twin = copy.copy(self)
        twin._numbered = True
        return twin

    def _check_places(self) -> None:
        """Raise an error if the name of a class is the text of another number than its place."""
        for place, name in enumerate(self.classes or ()):
            if is_number(name) and math.isfinite(float(name)) and float(name) != place:
                raise ValueError(
                    f"y holds numbers, and classes has the name {name!r} of column {place}: a number may "
                    "mean a name or a place; give outcomes as text, y.astype(str), or name no classes"
                )

    @property
    def node_count(self) -> int:
        """K."""
        return len(self.values)

    def nodes(self, splits: int = 1) -> Nodes:
        """Return the values, the same (K,) in each row, and their probabilities (n, K)."""
        del splits
        return np.broadcast_to(self.values, self.probs.shape), self.probs

    def support(self) -> Nodes:
        """Return the values (K,) and their probabilities (n, K)."""
        return self.values, self.probs

    def _cumulative(self, rows: slice) -> Array:
        """Return cumulative probabilities, exactly 1 from the last positive probability on."""
        cumulative = np.cumsum(self.probs[rows], axis=1)
        cumulative /= cumulative[:, -1:]
        return cumulative

    def _by_rows(self, one_block: Callable[[slice], Array], width: int = 1) -> Array:
        """Return the concatenated results of ``one_block`` for blocks of rows."""
        step = max(1, _BLOCK // (len(self.values) * width))
        parts = over_rows(one_block, len(self), step)
        return np.concatenate(parts) if parts else np.empty(0)


def _check_numbers_of_columns(columns: tuple[str, ...], values: Array) -> None:
    """Refuse a data frame whose columns are other numbers than the outputs that they would stand for."""
    if columns and all(map(is_number, columns)) and [float(one) for one in columns] != list(values):
        raise ValueError(
            f"the columns of probs are {name_list(columns)}, and would be read as the outputs 0 to "
            f"{len(values) - 1}; pass values= if they are the outputs, else probs as an array"
        )


def _of_two(probs: Array) -> Array:
    """Return the probabilities (n, 2) of two classes from those of the second (n,)."""
    bad = (probs < 0) | (probs > 1)
    if bad.any():
        row = int(bad.argmax())
        raise RowError(
            f"probs[{row}] is {probs[row]:g} ({int(bad.sum())} such rows); probabilities of the second "
            "class must lie in [0, 1]",
            row,
        )
    return np.column_stack([1 - probs, probs])


def _class_names(classes: Sequence[str], count: int, values: ArrayLike | None) -> tuple[str, ...]:
    if values is not None:
        raise ValueError(
            "Categorical was given values and classes; classes have no order: one of them"
        )
    argument: object = classes
    scalar = isinstance(argument, np.ndarray) and argument.ndim == 0
    if isinstance(argument, str) or scalar or not isinstance(argument, Iterable):
        raise TypeError(f"classes is {quote(classes)}; a sequence of {count} names is needed")
    names = tuple(str(one) for one in classes)
    numeric: list[object] = [one for one in classes if isinstance(one, (numbers.Number, np.bool_))]
    if numeric and numeric != list(range(count)):
        raise ValueError(
            f"classes holds numbers, such as {numeric[0]}, and outcomes that are numbers stand for the "
            f"columns 0 to {count - 1}; name classes by text, and outcomes likewise: y.astype(str)"
        )
    if len(names) != count:
        raise ValueError(
            f"classes has {len(names)} names, and probs has {count} columns; one a column"
        )
    if len(set(names)) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        raise ValueError(f"classes holds {twice!r} twice; different names are needed")
    return names


def classes_of(prediction: object) -> tuple[str, ...] | None:
    """Return the names of the classes without an order that are predicted; None of other predictions."""
    return prediction.classes if isinstance(prediction, Categorical) else None


def numbered(y: AnyArray, prediction: object) -> AnyArray:
    """Return outcomes, with the names of a prediction's classes replaced by their numbers.

    Raises
    ------
    ValueError
        A name that is no class.
    TypeError
        Names, and a prediction that is not `Categorical`.
    """
    if isinstance(prediction, Categorical):
        return prediction.numbers_of(y)
    names = as_names(y)
    if names is not None:
        raise TypeError(
            f"y holds text, such as {next(filter(None, names))!r}; numbers are needed, or, where these are "
            "names of classes, fastmcmd.Categorical(p, classes=...) as the prediction"
        )
    return y
