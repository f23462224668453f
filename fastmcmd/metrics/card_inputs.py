"""Outcomes, predictions and weights whose arrays lie on a card, checked there.

What the host refuses is refused here with the same words: the card only tells that something is wrong, and
the rows concerned are brought to the host, whose own checks say what.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from fastmcmd.arrays import Namespace, card_of
from fastmcmd.blocks import row_blocks
from fastmcmd.checks import as_rows, as_weights, check_choice, check_same_length
from fastmcmd.metrics.card_predictions import CardDraws, CardGaussian, CardPrediction
from fastmcmd.metrics.inputs import NAN_POLICIES, Outcomes
from fastmcmd.predictive import Gaussian, as_predictive
from fastmcmd.predictive.base import Array

__all__ = ["CardOutcomes", "bring_weights", "read_on_card", "scattered", "without_nan"]

_BLOCK = 1 << 24  # draws whose NaN are looked for together: a mask of 16 MB


@dataclass(frozen=True)
class CardOutcomes(Outcomes):
    """Checked rows whose arrays lie on a card; ``kept`` is a mask (n,) there.

    Attributes
    ----------
    card : Namespace
        Whose arrays they are.
    """

    card: Namespace

    @property
    def namespace(self) -> Namespace:
        """Whose arrays these are."""
        return self.card

    def on_host(self) -> Outcomes:
        """Return these rows as arrays of the host."""
        to_host = self.card.to_host
        weights = None if self.weights is None else to_host(self.weights)
        kept = None if self.kept is None else np.flatnonzero(to_host(self.kept))
        prediction = cast(CardPrediction, self.prediction).on_host()
        return Outcomes(to_host(self.y), prediction, weights, kept, self.n, self.propagate)

    def scatter(self, values: Any) -> Any:
        """Return values (m,) of the rows kept as (n,), NaN in the rows left out."""
        return values if self.kept is None else scattered(self.card, values, self.kept)

    def mean(self, values: Any) -> Any:
        """Return the weighted mean of values (m,)."""
        if self.spoiled:
            return float("nan")
        if card_of(values) is None:
            return self.on_host().mean(values)
        xp, weights = self.card.xp, self.weights
        if weights is None:
            return float(self.card.to_host(xp.sum(values))) / int(values.shape[0])
        # Rows of weight 0 do not count, though infinite.
        total = xp.sum(weights * xp.where(weights > 0, values, 0.0))
        total, weight = self.card.numbers([total, xp.sum(weights)])
        return float(total / weight)


def scattered(card: Namespace, values: Any, kept: Any) -> Any:
    """Return values (m,) of the rows kept, a mask (n,), as (n,), NaN in the rows left out."""
    place = card.running(card.cast(kept, "float64"))[1:] - 1.0
    place = card.cast(card.clip(place, 0.0, math.inf), "int64")
    return card.xp.where(kept, card.xp.take(values, place), math.nan)


def read_on_card(
    card: Namespace,
    y: Any,
    prediction: Any,
    sample_weight: Any,
    nan_policy: str,
    columns: int | None,
) -> CardOutcomes:
    """Return checked rows of a prediction that lies on a card; see `fastmcmd.metrics.inputs.read`."""
    check_choice(nan_policy, "nan_policy", NAN_POLICIES)
    y = card.bring(y, "y")
    weights = None if sample_weight is None else card.bring(sample_weight, "sample_weight")
    is_pair = isinstance(prediction, tuple)
    if is_pair and len(prediction) != 2:
        as_predictive(prediction, 1)  # says what is needed
    if is_pair:
        parts = [card.bring(*part) for part in zip(prediction, ("mean", "std"), strict=True)]
    else:
        parts = [card.bring(prediction, "prediction")]
    n, kept = (y.shape[0] if y.ndim else 0), None
    if nan_policy != "raise":
        kept = without_nan(card, n, [part for part in (y, weights, *parts) if part is not None])
        if kept is not None:
            y, *parts = (_rows(part, kept, n) for part in (y, *parts))
            weights = None if weights is None else _rows(weights, kept, n)
    rows = _as_rows(card, y, columns)
    if weights is not None:
        if nan_policy == "raise" and weights.ndim:
            check_same_length(y=range(rows.shape[0]), sample_weight=range(weights.shape[0]))
        weights = bring_weights(card, weights, rows.shape[0])
    first, *rest = parts
    found = _gaussian(card, first, rest[0], rows) if is_pair else _draws(card, first, rows)
    as_predictive(found, rows.shape[0], rows.shape[1])  # as many rows and components as y
    values = card.cast(rows[:, 0] if rows.shape[1] == 1 else rows, "float64")
    return CardOutcomes(values, found, weights, kept, n, nan_policy == "propagate", card)


def _shape_of(value: Any) -> Array:
    """Return an array of the host of the same shape, in no memory: for checks of shapes."""
    return np.broadcast_to(0.0, tuple(value.shape))


def _as_rows(card: Namespace, y: Any, columns: int | None) -> Any:
    """Return y (n,) or (n, k) as (n, k), finite."""
    rows = y[:, None] if y.ndim == 1 else y
    if rows.ndim != 2 or 0 in rows.shape or columns not in (None, rows.shape[1]):
        as_rows(_shape_of(y), "y", columns=columns)
    if not bool(card.xp.all(card.xp.isfinite(rows))):
        as_rows(card.to_host(rows), "y", columns=columns)
    return rows


def bring_weights(card: Namespace, weights: Any, n: int) -> Any:
    """Return nonnegative weights (n,) in float64, checked as `fastmcmd.checks.as_weights`."""
    xp = card.xp
    if tuple(weights.shape) != (n,):
        as_weights(_shape_of(weights), "sample_weight", n)
    fits = xp.all(xp.isfinite(weights) & (weights >= 0)) & xp.any(weights > 0)
    if not bool(fits):
        as_weights(card.to_host(weights), "sample_weight", n)
    return card.cast(weights, "float64")


def _gaussian(card: Namespace, mean: Any, std: Any, rows: Any) -> CardPrediction:
    """Return normal distributions, checked as `Gaussian`."""
    xp = card.xp
    mean, std = card.cast(mean, "float64"), card.cast(std, "float64")
    if mean.ndim == 0:
        mean = card.full(rows.shape[0], 0.0) + mean
    if not bool(xp.all(xp.isfinite(mean)) & xp.all(xp.isfinite(std) & (std > 0))):
        Gaussian(card.to_host(mean), card.to_host(std))
    try:
        fits = np.broadcast_shapes(tuple(std.shape), tuple(mean.shape)) == tuple(mean.shape)
    except ValueError:
        fits = False
    if mean.ndim not in (1, 2) or not fits:
        Gaussian(_shape_of(mean), _shape_of(std) + 1.0)
    std = xp.broadcast_to(std, mean.shape)
    if mean.ndim == 2 and mean.shape[1] == 1:
        mean, std = mean[:, 0], std[:, 0]
    return CardGaussian(card, mean, std)


def _draws(card: Namespace, draws: Any, rows: Any) -> CardPrediction:
    """Return draws, checked as `Draws`."""
    if rows.shape[1] > 1 and draws.ndim == 2:  # one vector an input
        draws = draws[:, None, :]
    if draws.ndim not in (1, 2, 3) or 0 in draws.shape:
        as_predictive(_shape_of(draws), 1)  # says what is needed
    if draws.ndim == 1:
        draws = draws[:, None]
    elif draws.ndim == 3 and draws.shape[2] == 1:
        draws = draws[:, :, 0]
    found, xp = CardDraws(card, draws), card.xp
    if not bool(xp.all(xp.stack([xp.all(xp.isfinite(block)) for _, block in found.blocks()]))):
        nan = xp.any(xp.stack([xp.any(xp.isnan(block)) for _, block in found.blocks()]))
        as_predictive(np.array([math.nan if bool(nan) else math.inf]), 1)  # says so
    return found


def _rows(value: Any, kept: Any, n: int) -> Any:
    """Return the rows kept of an array of n rows; anything else as it is."""
    return value[kept] if value.ndim and value.shape[0] == n else value


def without_nan(card: Namespace, n: int, parts: list[Any]) -> Any:
    """Return which of n rows hold no NaN in any array of n rows, or None if none does."""
    xp, bad = card.xp, card.full(n, 0.0) > 0
    for part in parts:
        if part.ndim and part.shape[0] == n:
            bad = bad | _nan_rows(card, part)
    if not bool(xp.any(bad)):
        return None
    if bool(xp.all(bad)):
        raise ValueError(f"all {n} rows hold NaN; at least one without is needed")
    return ~bad


def _nan_rows(card: Namespace, part: Any) -> Any:
    """Return which rows hold NaN, looked at in blocks."""
    xp = card.xp
    if part.ndim == 1:
        return xp.isnan(part)
    n, size = part.shape[0], math.prod(part.shape[1:])
    flat = xp.reshape(part, (n, size))
    blocks = row_blocks(n, _BLOCK // max(1, size))
    return card.concat([xp.any(xp.isnan(flat[rows, ...]), axis=1) for rows in blocks])
