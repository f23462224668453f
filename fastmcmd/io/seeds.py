"""Conversion of random states to JSON-safe values and back, without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fastmcmd._base.annotations import Json

__all__ = ["seed_from_json", "seed_to_json"]

_KINDS = {
    kind.__name__: kind
    for kind in (
        np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64,
    )
}  # fmt: skip
_MOST = {"pos": 624, "buffer_pos": 4}  # largest positions in the buffers of MT19937 and Philox


def seed_to_json(seed: object, name: str) -> Any:
    """Return a random state as a JSON-safe value.

    Parameters
    ----------
    seed : None, int, sequence of int, SeedSequence, BitGenerator, Generator or RandomState
        The current state of a generator is stored: the copy draws the same numbers as the generator next.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    TypeError
        If the value is of another type.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> copy = seed_from_json(seed_to_json(rng, "random_state"))
    >>> rng.random() == copy.random()
    True
    """
    if seed is None or (isinstance(seed, int | np.integer) and not isinstance(seed, bool)):
        return None if seed is None else int(seed)
    if isinstance(seed, np.random.SeedSequence):
        return {"kind": "SeedSequence", **_sequence(seed)}
    if isinstance(seed, np.random.Generator):
        return {"kind": "Generator", **_bits(seed.bit_generator, name)}
    if isinstance(seed, np.random.BitGenerator):
        return {"kind": "BitGenerator", **_bits(seed, name)}
    if isinstance(seed, np.random.RandomState):
        state = seed.get_state(legacy=False)
        gauss = {"has_gauss": int(state["has_gauss"]), "gauss": float(state["gauss"])}
        bits = {"bits": state["bit_generator"], "state": _plain({"state": state["state"]})}
        return {"kind": "RandomState", **bits, **gauss}
    if isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str | bytes):
        integers = np.asarray(seed)
        if integers.dtype.kind in "iu" and integers.ndim == 1:
            return [int(value) for value in integers]
    raise TypeError(
        f"{name} is {seed!r}, which cannot be saved: None, integers or a generator of NumPy is needed"
    )


def seed_from_json(document: Any) -> Any:
    """Return the random state that `seed_to_json` described.

    Raises
    ------
    ValueError, TypeError, KeyError, IndexError
        If the document does not describe a random state.
    """
    if document is None or type(document) is int:
        return document
    if isinstance(document, list):
        return [int(value) for value in document]
    match document["kind"]:
        case "SeedSequence":
            return _sequence_of(document)
        case "Generator":
            return np.random.Generator(_bits_of(document))
        case "BitGenerator":
            return _bits_of(document)
        case "RandomState":
            state = np.random.RandomState(_bits_of(document))
            gauss = {"has_gauss": int(document["has_gauss"]), "gauss": float(document["gauss"])}
            state.set_state({**state.get_state(legacy=False), **gauss})
            return state
    raise ValueError(f"no random state is of kind {document['kind']!r}")


def _sequence(seed: np.random.SeedSequence) -> Json:
    entropy: Any = seed.entropy
    return {
        "entropy": entropy
        if entropy is None or isinstance(entropy, int)
        else [int(e) for e in entropy],
        "spawn_key": [int(key) for key in seed.spawn_key],
        "pool_size": int(seed.pool_size),
        "spawned": int(seed.n_children_spawned),
    }


def _sequence_of(document: Json) -> np.random.SeedSequence:
    return np.random.SeedSequence(
        document["entropy"], spawn_key=tuple(map(int, document["spawn_key"])),
        pool_size=min(int(document["pool_size"]), 1024), n_children_spawned=int(document["spawned"]),
    )  # fmt: skip


def _bits(bits: Any, name: str) -> Json:
    kind = type(bits).__name__
    if kind not in _KINDS:
        raise TypeError(f"{name} has the bit generator {kind}, which cannot be saved")
    document = {"bits": kind, "state": _plain(dict(bits.state))}
    sequence = getattr(bits, "seed_seq", None)
    if isinstance(sequence, np.random.SeedSequence):
        document["sequence"] = _sequence(sequence)
    return document


def _bits_of(document: Json) -> Any:
    kind, sequence = document["bits"], document.get("sequence")
    bits = _KINDS[kind](0 if sequence is None else _sequence_of(sequence))
    bits.state = _like(document["state"], dict(bits.state))
    return bits


def _plain(state: object) -> Any:
    if isinstance(state, dict):
        return {name: _plain(value) for name, value in state.items()}
    if isinstance(state, np.ndarray):
        return state.tolist()
    return state.item() if isinstance(state, np.generic) else state


def _like(value: Any, example: Any, name: str = "") -> Any:
    """Return a state of the form of ``example``: the generators' C code trusts its input."""
    if isinstance(example, dict):
        return {key: _like(value.get(key, old), old, key) for key, old in example.items()}
    if isinstance(value, np.ndarray | list) and isinstance(example, np.ndarray):
        array = np.asarray(value, dtype=example.dtype)
        if array.shape != example.shape:
            raise ValueError(f"{name} has shape {array.shape}; {example.shape} is needed")
        return array
    if value is example or (isinstance(example, str) and value == example):
        return value
    if type(value) is not int or value < 0 or value > _MOST.get(name, value):
        raise ValueError(f"{name} is {value!r}")
    return value
