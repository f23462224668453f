"""Arguments that are collections of blocks (Dask), and the one place where calls with them are redirected.

Nothing here imports Dask: its collections are recognised by their type. `fastmcmd.distributed` computes;
the package, which imports every layer, registers how to get its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fastmcmd.errors import require

__all__ = [
    "Deferred", "is_blockwise", "is_collection", "on_blocks", "register_functions", "replaced",
]  # fmt: skip

_DEPTH = 5  # of nested lists that are searched
_MISSING = "arguments in blocks need Dask; install with: pip install 'fastmcmd[distributed]'"


@dataclass(frozen=True, eq=False)
class Deferred:
    """An object that is made for each block of rows, such as a predicted distribution.

    Attributes
    ----------
    make : callable
        Receives the blocks of ``arguments`` and returns the object.
    arguments, options
        Arguments; those that are collections are replaced by their blocks.
    """

    make: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{getattr(self.make, '__name__', 'prediction')} of blocks"


def is_collection(value: object) -> bool:
    """Tell whether a value is a Dask collection: an array, a data frame, or xarray data in blocks."""
    kind = type(value)
    if kind.__module__.partition(".")[0] in ("dask", "dask_expr"):
        return hasattr(kind, "__dask_graph__")
    graph = getattr(
        kind, "__dask_graph__", None
    )  # xarray objects have one only if they hold Dask arrays
    return graph is not None and graph(value) is not None


def is_blockwise(*values: object, client: object = None) -> bool:
    """Tell whether any value is a collection, deferred or contains such a value, or there is a client.

    Raises
    ------
    TypeError
        A ``client`` that is no Dask client.
    """
    if client is None:
        return _contains_blocks(values, _DEPTH)
    if type(client).__module__ != "distributed.client":
        raise TypeError(
            f"client is a {type(client).__name__}; a distributed.Client or None is needed"
        )
    return True


def _contains_blocks(values: Iterable[object], depth: int) -> bool:
    for value in values:
        if value is None or type(value) is np.ndarray:
            continue
        if isinstance(value, Deferred) or is_collection(value):
            return True
        if isinstance(value, Mapping):
            value = tuple(value.values())
        items = value if isinstance(value, (list, tuple)) and len(value) < 1_000 else ()
        if items and depth and _contains_blocks(items, depth - 1):
            return True
    return False


def replaced(
    value: object, replace: Callable[[object], object], inside: Callable[..., bool] = is_blockwise
) -> Any:
    """Return nested arguments with ``replace`` applied to each leaf: whatever is no container.

    Lists and tuples are containers if ``inside(*items)`` says so.
    """
    if isinstance(value, Deferred):
        options = {name: replaced(one, replace, inside) for name, one in value.options.items()}
        return Deferred(
            value.make, tuple(replaced(one, replace, inside) for one in value.arguments), options
        )
    if isinstance(value, Mapping) and not is_collection(value):
        return {name: replaced(one, replace, inside) for name, one in value.items()}
    if isinstance(value, (list, tuple)) and inside(*value):
        return type(value)(replaced(one, replace, inside) for one in value)
    return replace(value)


_FUNCTIONS: list[Callable[[str], Callable[..., object]]] = []  # the registered one


def register_functions(function_named: Callable[[str], Callable[..., object]]) -> None:
    """Let `on_blocks` call the functions that ``function_named`` returns for their names."""
    _FUNCTIONS[:] = [function_named]


def on_blocks(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the result of the function ``name`` for collections of blocks with these arguments."""
    require("dask", _MISSING)
    arguments = dict(arguments)
    arguments.update(arguments.pop("settings", {}))
    (function_named,) = _FUNCTIONS
    return function_named(name)(**arguments)
