"""Errors and warnings that fastmcmd adds to the built-in ones."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "TOO_HEAVY", "MemoryLimitError", "MissingDependencyError", "NumericalError", "RowError",
    "ToleranceWarning",
]  # fmt: skip

TOO_HEAVY = (
    "prediction has tails too heavy for this y_kernel, or not its moments; use a bounded "
    "y_kernel such as RBF('variance')"
)


class ToleranceWarning(UserWarning):
    """The certified error bound of a result is larger than the requested ``tol``.

    The values are the best available and ``error_bound`` is still valid. To turn the warning into an error,
    call ``warnings.simplefilter("error", fastmcmd.ToleranceWarning)``.
    """


class RowError(ValueError):
    """A value in one row is not valid.

    Attributes
    ----------
    row : int or None
        Number of the row, from 0; None if the message does not name one.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class NumericalError(RowError):
    """A result cannot be computed because of the data, not because of a wrong argument.

    `fastmcmd.evaluate` reports the reason in ``skipped`` and computes the other numbers.
    """


class MemoryLimitError(MemoryError):
    """``memory_limit`` is too small for every method of computing the result."""


class MissingDependencyError(ImportError):
    """An optional package is missing; the message contains the command that installs it."""


def require(module: str, message: str) -> Any:
    """Return an optional module, or raise MissingDependencyError with the message.

    Parameters
    ----------
    module : str
        Full name of the module, as after ``import``.
    message : str
        Message that says what needs the module and how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(message) from error
