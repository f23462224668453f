"""Arguments of valid calls, and the conversion of a callable into an entry of the attack."""

from __future__ import annotations

import inspect
import os
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np

_FOLDER = tempfile.TemporaryDirectory()  # removed at the end of the process
N = 24
R = np.random.default_rng(0)
X = R.normal(size=(N, 2))
Y = X[:, 0] + 0.3 * R.normal(size=N)
MEAN, STD = X[:, 0].copy(), np.full(N, 0.4)
COUNTS = np.arange(N) % 4 + 0.0
WEIGHTS = np.linspace(0.5, 1.5, N)
PROBS = np.abs(R.normal(size=(N, 3))) + 0.1
PROBS /= PROBS.sum(axis=1, keepdims=True)
LABELS = (np.arange(N) % 3).astype(float)
SHARES = np.linspace(0.1, 0.9, N)
LEVELS = np.array([0.1, 0.5, 0.9])
SETS = R.normal(size=(N, 5))

# Names passed on to matplotlib, or chosen freely by the caller.
SKIPPED_NAMES = {
    "ax",
    "figure",
    "label",
    "colour",
    "title",
    "name",
    "progress",
    "verbose",
    "deep",
    "self",
}


@dataclass(frozen=True)
class Entry:
    """A callable, the arguments of a valid call, and the arguments that may be replaced."""

    name: str
    function: Any
    base: dict[str, Any]
    parameters: tuple[str, ...]


def parameters_of(function: Any) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p for p in parameters if p.kind not in kinds and p.name not in SKIPPED_NAMES}


def entry(name: str, function: Any, /, **base: Any) -> Entry:
    return Entry(name, function, base, tuple(parameters_of(function)))


def method(name: str, make: Any, attribute: str, /, **base: Any) -> Entry:
    """Return a method of an object that is created anew for each call."""
    probe = getattr(make(), attribute)

    def call(**options: Any) -> Any:
        return getattr(make(), attribute)(**options)

    return Entry(name, call, base, tuple(parameters_of(probe)))


def required(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the required arguments, by name."""
    empty = inspect.Parameter.empty
    return {
        name: values[name] for name, one in parameters_of(function).items() if one.default is empty
    }


def path_of(name: str) -> str:
    """Return a path in a folder that the process removes at its end."""
    return os.path.join(_FOLDER.name, name)
