"""States: frozen dataclasses, written by field name and read back by their type hints.

Whatever the package saves (fitted estimators, recalibrators, stages of a checkpoint) is a frozen dataclass
of arrays, numbers, text, sequences of these, and further states. `encode` splits one into its arrays, named
by the path of their field ("parts.0.x"), and a document that JSON can hold; `decode` checks both against
the types of the fields. Nothing in a file chooses what is constructed, except that a file names the member
of a union of states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fastmcmd._base.annotations import HostArray, Json

__all__ = ["decode", "encode", "same_layout"]

T = TypeVar("T")
Arrays = dict[str, HostArray]

_KIND = "class"  # of a state, for unions; no field can have this name
_SCALARS = (bool, int, float, str)
_LARGEST = int(np.finfo(np.float64).max)


def encode(state: object) -> tuple[Arrays, Json]:
    """Return the arrays of a state by the paths of their fields, not copied, and a document of the rest.

    Parameters
    ----------
    state : dataclass
        Its fields hold arrays, bool, int, float, str, None, lists, tuples or dicts of these by text, or
        further dataclasses. Fields with a default may be missing in what `decode` reads.

    Raises
    ------
    TypeError
        A field holds something else.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Mean:
    ...     total: HostArray
    ...     rows: int
    >>> arrays, document = encode(Mean(np.array([3.0, 4.0]), 2))
    >>> arrays, document
    ({'total': array([3., 4.])}, {'class': 'Mean', 'total': None, 'rows': 2})
    >>> decode(Mean, arrays, document).rows
    2
    """
    arrays: Arrays = {}
    document = _encoded(state, "", arrays)
    if not isinstance(document, dict) or _KIND not in document:
        raise TypeError(f"a state is a dataclass, not a {type(state).__name__}")
    return arrays, document


def _encoded(value: object, path: str, arrays: Arrays) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, _SCALARS):
        return value
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return None
    if is_dataclass(value) and not isinstance(value, type):
        items = {_stored_name(field): getattr(value, field.name) for field in fields(value)}
        return {_KIND: type(value).__name__, **_encoded(items, path, arrays)}
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: _encoded(item, _join(path, name), arrays) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_encoded(item, _join(path, place), arrays) for place, item in enumerate(value)]
    raise TypeError(f"{path} is a {type(value).__name__}, which a state cannot hold")


def decode(kind: type[T], arrays: Mapping[str, HostArray], document: object) -> T:
    """Return the state of type ``kind`` from the arrays and the document of `encode`.

    Raises
    ------
    ValueError
        A field is missing, unknown, or not of its type; the message names it.
    """
    state: T = _decoded(kind, "", arrays, document)
    return state


def _decoded(kind: object, path: str, arrays: Mapping[str, HostArray], value: object) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return arrays[path] if value is None and path in arrays else value
    if (origin or kind) is np.ndarray:
        if path not in arrays:
            raise ValueError(f"{path} is missing")
        return _array_of_type(arrays[path], kind, path)
    if origin in (Union, UnionType):
        return _decoded(_member(arguments, path, arrays, value), path, arrays, value)
    if is_dataclass(kind):
        return _decoded_state(kind, path, arrays, value)
    if origin in (list, tuple) and isinstance(value, list):
        kinds = arguments
        if origin is list or arguments[1:] == (...,):
            kinds = arguments[:1] * len(value)
        if len(kinds) == len(value):
            return origin(
                _decoded(item_kind, _join(path, place), arrays, item)
                for place, (item_kind, item) in enumerate(zip(kinds, value, strict=True))
            )
    if origin is dict and isinstance(value, dict):
        return {
            name: _decoded(arguments[1], _join(path, name), arrays, item)
            for name, item in value.items()
        }
    if kind is float and type(value) is int and abs(value) <= _LARGEST:
        return float(value)
    if (origin is Literal and value in arguments) or type(value) is kind:
        return value
    raise ValueError(f"{path} is {_text(value)}; {_name(kind)} is needed")


def _array_of_type(array: HostArray, kind: object, path: str) -> HostArray:
    """Return an array, after checking that its numbers convert to the type of its field."""
    arguments = get_args(kind)  # the shape, and numpy.dtype[scalar]
    scalar = get_args(arguments[1])[0] if len(arguments) == 2 else None
    if isinstance(scalar, type) and not np.can_cast(array.dtype, scalar, "same_kind"):
        raise ValueError(f"{path} has dtype {array.dtype}; {scalar.__name__} is needed")
    return array


def _decoded_state(kind: Any, path: str, arrays: Mapping[str, HostArray], value: Any) -> Any:
    hints = get_type_hints(kind)
    members = {_stored_name(field): field.default is MISSING for field in fields(kind)}
    field_names = {_stored_name(field): field.name for field in fields(kind)}
    names = value.keys() - {_KIND} if isinstance(value, dict) else ()
    if not {name for name, must in members.items() if must} <= set(names) <= set(members):
        raise ValueError(
            f"{path or 'the state'} is {_text(value)}; {_name(kind)} with {', '.join(members)} is needed"
        )
    return kind(
        **{
            field_names[name]: _decoded(
                hints[field_names[name]], _join(path, name), arrays, value[name]
            )
            for name in names
        }
    )


def _stored_name(field: Field[object]) -> str:
    """Return the name of a field in files: ``metadata={"stored": ...}`` keeps that of earlier versions."""
    return str(field.metadata.get("stored", field.name))


def _member(
    kinds: tuple[object, ...], path: str, arrays: Mapping[str, HostArray], value: object
) -> Any:
    """Return the member of a union to which a value belongs."""
    if value is None:
        value_kind: object = np.ndarray if path in arrays else NoneType
    else:
        value_kind = type(value)
    for kind in kinds:
        if is_dataclass(kind):
            if isinstance(value, dict) and value.get(_KIND) == _name(kind):
                return kind
        elif (get_origin(kind) or kind) is value_kind:
            return kind
    return kinds[0]  # its decoder fails with the message


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _name(kind: object) -> str:
    return getattr(kind, "__name__", None) or str(kind)


def _text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def same_layout(one: object, other: object) -> bool:
    """Return whether two states have arrays of the same shapes and types in the same fields."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.shape == other.shape and one.dtype == other.dtype
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return False
    if is_dataclass(one) and not isinstance(one, type):
        return type(one) is type(other) and all(
            same_layout(getattr(one, field.name), getattr(other, field.name))
            for field in fields(one)
        )
    return True
