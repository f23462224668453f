"""Errors and warnings that fastmcmd raises beyond the built-in ones."""

from __future__ import annotations

__all__ = ["ROUNDING_ALONE", "MemoryLimitError", "MissingDependencyError", "ToleranceWarning"]

# How a note begins where no solver could be certified to the tolerance.
ROUNDING_ALONE = "rounding in float64 alone leaves"


class ToleranceWarning(UserWarning):
    """The certified error bound of a result is larger than the requested ``tol``.

    The values are the best that was found and ``error_bound`` is still true; turn the warning
    into an error with ``warnings.simplefilter("error", fastmcmd.ToleranceWarning)``.
    """


class MemoryLimitError(MemoryError):
    """``memory_limit`` is too small for any way of computing the result."""


class MissingDependencyError(ImportError):
    """An optional package is needed; the message holds the command that installs it."""
