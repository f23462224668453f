"""Arguments in blocks: their collections, aligned by rows, and the arguments of one block."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from fastmcmd._base.blockwise import Deferred, is_collection, replaced
from fastmcmd.predictive import Gaussian
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.count_base import WholeNumbers

__all__ = [
    "Arguments",
    "BlockError",
    "Blocks",
    "arguments_of",
    "common_rows",
    "identity_of",
    "received",
    "row_count",
    "shipped",
]

Arguments: TypeAlias = dict[str, Any]

_BY_ROW = (Gaussian, ScipyPredictive, WholeNumbers)  # parameters have a value for each row, or one

_ROWS = (
    "x",
    "y",
    "x_prime",
    "y_prime",
    "weights",
    "weights_prime",
    "sample_weight",
    "by",
    "at",
    "grid",
)


class BlockError(ValueError):
    """A block of the data cannot be read or computed; the message names it."""


@dataclass(frozen=True)
class Place:
    """The position of a collection in nested arguments."""

    index: int


@dataclass(frozen=True, eq=False)
class Blocks:
    """Arguments whose collections have their rows in the same blocks.

    Attributes
    ----------
    template : dict
        The arguments, with a `Place` for each collection.
    parts : list of list of Delayed
        The blocks of each collection.
    rows : tuple of int or None
        Numbers of rows of the blocks; None if the collections do not know them.
    token : str
        Identity of the collections, and of what is computed from them.
    """

    template: Arguments
    parts: list[list[Any]]
    rows: tuple[int, ...] | None
    token: str

    def __len__(self) -> int:
        return len(self.parts[0])

    def block(self, number: int) -> list[Any]:
        """Return the parts of a block, not computed."""
        return [parts[number] for parts in self.parts]

    @staticmethod
    def of(**arguments: object) -> Blocks:
        """Return arguments in blocks.

        Raises
        ------
        ValueError, TypeError
            Collections have other blocks than the first one and cannot be aligned, or there is none.
        """
        chunks, first = _reference(arguments)
        aligned = {
            name: _in_chunks(value, name, chunks, first)
            if name in _ROWS
            else _prediction_in_chunks(value, chunks, first)
            if name == "prediction"
            else value
            for name, value in arguments.items()
        }
        collections: list[tuple[str, object]] = []
        names: list[str] = []

        def placed(value: object) -> Any:
            if not is_collection(value):
                return value
            collections.append((names[-1], value))
            return Place(len(collections) - 1)

        template = {}
        for name, value in aligned.items():
            names.append(name)
            template[name] = replaced(value, placed)
        parts = [_parts(value, name, chunks) for name, value in collections]
        for (name, _), one in zip(collections, parts, strict=True):
            if len(one) != len(parts[0]):
                raise ValueError(
                    f"{name} has {len(one)} blocks of rows and {collections[0][0]} has {len(parts[0])}; "
                    "equal blocks are needed: repartition or rechunk one of them"
                )
        from dask.base import tokenize

        token = tokenize(identity_of(template), *(_source_of(value) for _, value in collections))
        return Blocks(template, parts, chunks, token)


def arguments_of(template: Mapping[str, object], values: Sequence[object]) -> Arguments:
    """Return the arguments of a block from the values of its parts."""

    def filled(value: object) -> Any:
        return _aligned(values[value.index]) if isinstance(value, Place) else value

    return {
        name: _make_deferred(replaced(value, filled, _has_places))
        for name, value in template.items()
    }


def identity_of(value: object) -> Any:
    """Return nested arguments in a form that `dask.base.tokenize` tells apart by content."""
    if isinstance(value, Place):
        return "place", value.index
    if isinstance(value, Deferred):
        return "deferred", value.make, identity_of(value.arguments), identity_of(value.options)
    if isinstance(value, Mapping) and not is_collection(value):
        return [(name, identity_of(one)) for name, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [identity_of(one) for one in value]
    return value


def _source_of(value: Any) -> Any:
    """Return what a collection is made from, in a form that has the same token in each process.

    Names of Dask data frames from Parquet files differ between processes, as they depend on a dataset of
    pyarrow that the reader holds. Their files and sizes, or times, are in its checksum.
    """
    return (
        _expression(value.expr)
        if hasattr(value, "npartitions") and hasattr(value, "expr")
        else value
    )


def _expression(value: Any) -> Any:
    """Return an expression as nested lists, with a checksum instead of what its reader remembers."""
    if isinstance(value, (list, tuple)):
        return [_expression(one) for one in value]
    names = getattr(type(value), "_parameters", None)
    if names is None or not hasattr(type(value), "deterministic_token"):
        return value
    remembered = [name for name in ("_dataset_info_cache", "_pq_length_stats") if name in names]
    operands = [
        _expression(one)
        for place, one in enumerate(value.operands)
        if place >= len(names) or names[place] not in remembered
    ]
    checksum = value.checksum if remembered else None
    return [type(value).__qualname__, checksum, operands]


def _has_places(*values: object) -> bool:
    """Tell whether any value is a `Place`, deferred, or contains one."""
    return any(
        isinstance(one, (Place, Deferred))
        or (isinstance(one, Mapping) and _has_places(*one.values()))
        or (isinstance(one, (list, tuple)) and len(one) < 1_000 and _has_places(*one))
        for one in values
    )


def row_count(value: Any) -> int:
    """Return the number of rows of an argument of a block."""
    return int(np.shape(value)[0]) if not hasattr(value, "__len__") else len(value)


def shipped(work: object, template: Mapping[str, object]) -> Any:
    """Return what workers do and the arguments' template as a delayed value, for `received`.

    They travel as bytes: arrays that Dask receives apart from their object need not be aligned in memory,
    as the compiled core needs them.
    """
    from cloudpickle import dumps
    from dask import delayed

    return delayed(dumps((work, dict(template))), pure=False, traverse=False)


@lru_cache(maxsize=8)
def received(content: bytes) -> tuple[Any, Arguments]:
    """Return what `shipped` was given; a worker keeps the last few."""
    work: tuple[object, Arguments] = pickle.loads(content)
    return work


def _aligned(value: Any) -> Any:
    """Return a part of a block whose arrays are aligned in memory."""
    if isinstance(value, np.ndarray):
        return np.require(value, requirements="A")
    return value.copy() if type(value).__module__.startswith("pandas") else value


def common_rows(values: Sequence[object]) -> int:
    """Return the number of rows of a block, on which its parts must agree."""
    counts = set(map(row_count, values))
    if len(counts) > 1:
        raise ValueError(f"its parts have different numbers of rows: {sorted(counts)}")
    return counts.pop()


def _make_deferred(value: object) -> Any:
    """Return nested arguments with deferred objects made, the innermost first."""
    if isinstance(value, Deferred):
        options = {name: _make_deferred(one) for name, one in value.options.items()}
        return value.make(*map(_make_deferred, value.arguments), **options)
    if isinstance(value, Mapping):
        return {name: _make_deferred(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(one, Deferred) for one in value):
        return type(value)(map(_make_deferred, value))
    return value


def _leaves(arguments: Mapping[str, object]) -> list[tuple[str, Any]]:
    results: list[tuple[str, object]] = []
    for name, value in arguments.items():

        def note_leaf(leaf: object, name: str = name) -> Any:
            if is_collection(leaf):
                results.append((name, leaf))
            return leaf

        replaced(value, note_leaf)
    return results


def _reference(arguments: Mapping[str, object]) -> tuple[tuple[int, ...] | None, str]:
    """Return the row chunks of the first array whose blocks have known sizes, and its name."""
    results = [(name, _array(value)) for name, value in _leaves(arguments)]
    if not results:
        raise TypeError("client is given, and no argument is a Dask collection")
    for name, value in results:
        if type(value).__module__ == "dask.delayed":
            raise TypeError(
                f"{name} is a dask.delayed object; a Dask array, data frame or series is needed, such as "
                "dask.array.from_delayed(part, (float('nan'),), float) for each block, concatenated"
            )
    for name, value in results:
        chunks = getattr(value, "chunks", None)
        if chunks and not np.isnan(chunks[0]).any():
            if any(
                not hasattr(other, "chunks") or np.isnan(other.chunks[0]).any()
                for _, other in results
            ):
                break  # blocks of frames cannot be cut; arrays must have as many
            return tuple(int(count) for count in chunks[0]), name
    return None, results[0][0]


def _array(value: object) -> Any:
    """Return the Dask array that an xarray object holds; others unchanged."""
    data = getattr(value, "data", None)
    return data if type(value).__module__.startswith("xarray") else value


def _in_chunks(value: object, name: str, chunks: tuple[int, ...] | None, first: str) -> Any:
    """Return an argument with a value for each row as a collection in these chunks."""
    if value is None or isinstance(value, Deferred) or is_collection(value):
        return value
    if chunks is None:
        raise ValueError(
            f"{name} is in memory and {first} has blocks of unknown sizes; pass it as a column of the same "
            f"data frame, or call {first}.compute_chunk_sizes()"
        )
    import dask.array as da

    rows = np.asarray(value)
    if len(rows) != sum(chunks):
        raise ValueError(f"rows must match: {first} has {sum(chunks)}, {name} has {len(rows)}")
    return da.from_array(rows, chunks=(chunks, *((size,) for size in rows.shape[1:])))


def _prediction_in_chunks(value: Any, chunks: tuple[int, ...] | None, first: str) -> Any:
    """Return a prediction, or predictions by model, whose arrays with a value for each row are collections.

    An array in memory that has as many rows as a block would be read as the prediction of each block.

    Raises
    ------
    ValueError
        A prediction is in memory and cannot be cut into blocks.
    """
    if isinstance(value, Mapping):
        return {name: _prediction_in_chunks(one, chunks, first) for name, one in value.items()}
    if value is None or is_collection(value):
        return value
    if isinstance(value, Deferred):
        if not (isinstance(value.make, type) and issubclass(value.make, _BY_ROW)):
            return value
        flat = all(getattr(_array(one), "ndim", 1) == 1 for _, one in _leaves({"": value}))
        options = {
            name: _parameter(one, name, chunks, first, flat) for name, one in value.options.items()
        }
        parameters = tuple(
            _parameter(one, value.make.__name__, chunks, first, flat) for one in value.arguments
        )
        return Deferred(value.make, parameters, options)
    if isinstance(value, tuple):
        return tuple(_parameter(one, "prediction", chunks, first, True) for one in value)
    if isinstance(value, (list, np.ndarray)):
        return _in_chunks(value, "prediction", chunks, first)
    raise ValueError(
        f"prediction is in memory ({type(value).__name__}) and {first} is a Dask collection; pass its "
        "parameters as Dask arrays, such as dask.array.from_array(mean, chunks=...)"
    )


def _parameter(
    value: Any, name: str, chunks: tuple[int, ...] | None, first: str, flat: bool
) -> Any:
    """Return a parameter as a collection if it has a value for each row, else unchanged."""
    if is_collection(value) or isinstance(value, Deferred) or np.ndim(value) == 0:
        return value
    count = len(value)
    if chunks is not None and count == sum(chunks):
        return _in_chunks(value, name, chunks, first)
    if flat and count > 1:
        rows = "" if chunks is None else f" and {first} has {sum(chunks)}"
        raise ValueError(
            f"a parameter of the prediction ({name}) is in memory with {count} rows{rows}; pass a Dask "
            f"array in the blocks of {first}, or one number"
        )
    return value


def _parts(value: Any, name: str, chunks: tuple[int, ...] | None) -> list[Any]:
    """Return the blocks of rows of a collection."""
    value = _array(value)
    if hasattr(value, "chunks"):  # an array
        if value.ndim == 0:
            raise ValueError(f"{name} is a Dask array without rows; (n,) or (n, d) is needed")
        if value.ndim > 1:
            value = value.rechunk(dict.fromkeys(range(1, value.ndim), -1))
        if chunks is not None and tuple(value.chunks[0]) != chunks:
            if sum(value.chunks[0]) != sum(chunks):
                raise ValueError(
                    f"{name} has {sum(value.chunks[0])} rows; {sum(chunks)} are needed"
                )
            value = value.rechunk({0: chunks})
        return list(value.to_delayed().reshape(-1))
    if hasattr(value, "npartitions") and (hasattr(value, "columns") or hasattr(value, "to_frame")):
        # Not optimised as a whole: readers join files of which few columns are needed, x others than y.
        plain = value.simplify() if hasattr(value, "simplify") else value
        return list(plain.to_delayed(optimize_graph=plain is value))
    raise TypeError(
        f"{name} is a {type(value).__module__}.{type(value).__name__}; a Dask array, data frame or series "
        "is needed"
    )
