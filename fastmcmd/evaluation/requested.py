"""Measures that a caller names."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from fastmcmd import metrics
from fastmcmd._base.checks import quote
from fastmcmd._base.tables import did_you_mean
from fastmcmd.evaluation.measures import ALL_MEASURES
from fastmcmd.evaluation.result import SHORT_NAMES

__all__ = ["check_measures"]

# What some functions need to be meaningful, although it has a default.
_ARGUMENTS = {
    "censored_likelihood_score": ("lower",),
    "weighted_crps": ("lower",),
    "weighted_energy_score": ("weight",),
    "weighted_variogram_score": ("weight",),
}


def check_measures(measures: Sequence[str] | None) -> tuple[str, ...]:
    """Return the full names of measures.

    Raises
    ------
    TypeError
        If ``measures`` is no sequence of text.
    ValueError
        If a name is none, or of a function that needs further arguments; the message says how to call it.
    """
    if measures is None:
        return ()
    value: object = measures
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        raise TypeError(
            f"measures is {quote(value)}; a list of names is needed, such as ['gaussian_kernel_score']"
        )
    return tuple(dict.fromkeys(map(_full_name, measures)))


def _full_name(name: str) -> str:
    names = [one.name for one in ALL_MEASURES]
    for candidate in (name, SHORT_NAMES.get(name, ""), f"mean_{name}"):
        if candidate in names:
            return candidate
    score = name.removeprefix("mean_")
    arguments = _ARGUMENTS.get(score) or _required(score)
    if arguments:
        function = f"mean_{score}" if hasattr(metrics, f"mean_{score}") else score
        passed = ", ".join(f"{one}=..." for one in arguments)
        raise ValueError(
            f"measures: {name!r} needs {' and '.join(arguments)}, which evaluate does not take; call "
            f"fastmcmd.metrics.{function}(y, prediction, {passed})"
        )
    short = [one.removeprefix("mean_") for one in names]
    hint = did_you_mean(name, [*short, *names, *SHORT_NAMES])
    raise ValueError(f"measures: {hint}no measure {name!r}; there are {', '.join(short)}")


def _required(name: str) -> tuple[str, ...]:
    """Return the keywords without a default of a function of `fastmcmd.metrics`; () if there is none."""
    function = getattr(metrics, name, None) if name in metrics.__all__ else None
    if not inspect.isfunction(function):
        return ()
    parameters = inspect.signature(function).parameters.values()
    return tuple(
        one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty
    )
