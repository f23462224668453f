"""Tabular regressions of two data sets, split into trials, with stored networks of every head."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import NamedTuple

import numpy as np

import fastmcmd as fm
from examples.papers.heads import ensemble, parameters, prediction
from examples.papers.stored import arrays_of, stacks_of

__all__ = ["DATA", "MEMBERS", "TRIALS", "Split", "model", "split"]

TRIALS, MEMBERS = 5, 5


class _Sizes(NamedTuple):
    """Rows for training, for a second sample and for the test, and hidden units of a layer."""

    training: int
    second: int
    test: int
    width: int


DATA = {"randhie": _Sizes(3_000, 600, 600, 32), "diabetes": _Sizes(242, 100, 100, 16)}


class Split(NamedTuple):
    """Standardised inputs and outcomes of the parts of a trial."""

    training: tuple[np.ndarray, np.ndarray]
    second: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


@lru_cache(maxsize=2)
def _rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True)
        return (x - x.mean(axis=0)) / x.std(axis=0), y
    source = resources.files("fastmcmd") / "data" / "randhie.npz"
    with source.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        return archive["x"].astype(np.float64), archive["y"].astype(np.float64)


def split(name: str, trial: int) -> Split:
    """Return the parts of a trial."""
    x, y = _rows(name)
    order = np.random.default_rng(trial).permutation(len(y))
    sizes = DATA[name]
    ends = np.cumsum([0, sizes.training, sizes.second, sizes.test])
    return Split(*((x[order[a:b]], y[order[a:b]]) for a, b in pairwise(ends)))


def model(name: str, head: str, trial: int, x: np.ndarray, members: int = 1) -> fm.Predictive:
    """Return what a network of a trial predicts, or the ensemble of several."""
    stack, (centre, scale) = (
        stacks_of(f"tables_{name}")[head],
        arrays_of(f"tables_{name}")["moments"],
    )
    predictions = []
    for member in range(members):
        out = stack(trial * MEMBERS + member, x)
        predictions.append(prediction(head, *parameters(head, out, float(centre), float(scale))))
    return predictions[0] if members == 1 else ensemble(predictions)
