"""Errors and warnings that fastmcmd raises beyond the built-in ones."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "FEATURES_MISS", "QUADRATURE", "ROUNDING_ALONE", "TOO_HEAVY", "UNSCALED", "MemoryLimitError",
    "MissingDependencyError", "NumericalError", "ToleranceWarning",
]  # fmt: skip

# How a note begins where no solver could be certified to the tolerance.
ROUNDING_ALONE = "rounding in float64 alone leaves"
# How one begins where kernel values are so large that rounding in proportion to them is the cause.
UNSCALED = "x_kernel has values up to"
# How notes begin where the error is that of the embedded outputs, whatever the solver.
QUADRATURE = "quadrature of the predicted distributions leaves"
MIXED_UP = (
    "are units or arguments mixed up? The order is (y, prediction), with prediction=(mean, std)"
)
FEATURES_MISS = "output features of y_kernel miss"
TOO_HEAVY = (
    "prediction has tails too heavy for this y_kernel, or not its moments; use a bounded "
    "y_kernel such as RBF('variance')"
)


class ToleranceWarning(UserWarning):
    """The certified error bound of a result is larger than the requested ``tol``.

    The values are the best that was found and ``error_bound`` is still true; turn the warning
    into an error with ``warnings.simplefilter("error", fastmcmd.ToleranceWarning)``.
    """


class NumericalError(ValueError):
    """The data, not a wrong argument, make a result impossible to compute; the message says why.

    `fastmcmd.evaluate` names it in ``skipped`` and goes on with the other numbers.
    """


class MemoryLimitError(MemoryError):
    """``memory_limit`` is too small for any way of computing the result."""


class MissingDependencyError(ImportError):
    """An optional package is needed; the message holds the command that installs it."""


def require(module: str, message: str) -> Any:
    """Return an optional module, or raise MissingDependencyError with the message.

    Parameters
    ----------
    module : str
        Its full name, as after ``import``.
    message : str
        What needs it, and the command that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(message) from error
