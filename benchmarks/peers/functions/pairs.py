"""A function of a peer and its counterpart, ready to be called."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Pair", "classes", "events", "regression"]


def _as_is(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Pair:
    """Two calls that return the same quantity.

    Attributes
    ----------
    rtol : float or None
        Relative tolerance of their agreement; None if the quantities are defined differently.
    value : callable
        What is compared of a result.
    note : str
        Why definitions differ.
    largest : int
        Largest number of rows, where the peer's memory or time grows faster than n.
    """

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    rtol: float | None = 1e-9
    atol: float = 1e-12
    value: Callable[[Any], Any] = _as_is
    note: str = ""
    largest: int = sys.maxsize


def regression(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return outcomes, means and standard deviations."""
    mean, std = rng.normal(size=n), rng.lognormal(sigma=0.5, size=n)
    return mean + 1.1 * std * rng.normal(size=n), mean, std


def events(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return labels 0 and 1, and probabilities of class 1 that are too sure of themselves."""
    p = rng.uniform(0.01, 0.99, n)
    return (rng.random(n) < 0.2 + 0.6 * p).astype(np.int64), p


def classes(rng: np.random.Generator, n: int, count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return labels from 0 on, and probabilities of all classes."""
    scores = 2 * rng.normal(size=(n, count))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    p = np.exp(1.2 * scores)
    return labels, p / p.sum(axis=1, keepdims=True)
