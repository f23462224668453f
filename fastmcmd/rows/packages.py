"""Packages that may not be there, and what their errors become."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from fastmcmd.errors import MissingDependencyError


def package(name: str, where: str) -> Any:
    """Import a package that ``where`` is read with."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingDependencyError(
            f"{where} is read with {name}, which is not installed: pip install 'fastmcmd[disk]'"
        ) from None


def package_of(value: Any) -> str:
    """Return the name of the package that ``value`` is an object of; it need not be imported."""
    return type(value).__module__.partition(".")[0]


@contextlib.contextmanager
def prefix_errors(what: str) -> Iterator[None]:
    """Let errors of a package begin with ``what``; of kinds that users do not expect, a ValueError."""
    try:
        yield
    except (MissingDependencyError, MemoryError):
        raise
    except OSError as error:
        if error.errno is None:  # packages raise these for damaged files too
            raise ValueError(f"{what}: {error}") from error
        raise OSError(error.errno, f"{what}: {error.strerror}") from error
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from error
    except Exception as error:
        raise ValueError(f"{what}: {error}") from error
