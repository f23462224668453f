"""`decode` restores bit for bit what `encode` stored, and rejects anything else by field name."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from fastmcmd.checkpoint import Checkpoint
from fastmcmd.io.state import decode, encode


@dataclass(frozen=True)
class Part:
    x: NDArray[np.float64]
    rows: int
    spread: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class Other:
    name: str


@dataclass(frozen=True)
class AllTypes:
    parts: tuple[Part, ...]
    index: dict[str, Part]
    arrays: list[NDArray[np.float64]]
    either: Part | Other
    maybe: Part | None
    marks: str | NDArray[np.float64] | None
    fitted: dict[str, Any]
    pair: tuple[int, float]
    number: float
    flag: bool
    choice: Literal["cg", "cholesky"]
    plain: Any


def all_types(**changes):
    part = Part(np.arange(6.0).reshape(2, 3), 2)
    state = {
        "parts": (part, Part(np.empty((0, 2)), 0, np.float32([1.5]))),
        "index": {"a/b.c": part},
        "arrays": [np.array([np.nan, -0.0, 5e-324]), np.array(3.0)],
        "either": Other("ü\n"),
        "maybe": None,
        "marks": np.eye(2),
        "fitted": {"levels_": np.arange(3.0), "scale_": 2.0, "none_": None},
        "pair": (3, 0.1),
        "number": float("inf"),
        "flag": True,
        "choice": "cg",
        "plain": {"lam": [0.1, None]},
    }
    return AllTypes(**{**state, **changes})


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    elif hasattr(one, "__dataclass_fields__"):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    else:
        assert one == other


def test_round_trip():
    state = all_types()
    arrays, document = encode(state)
    assert arrays["parts.0.x"] is state.parts[0].x  # not copied
    assert_same(decode(AllTypes, arrays, json.loads(json.dumps(document))), state)


def test_round_trip_in_a_checkpoint(tmp_path):
    path = tmp_path / "run.ckpt"
    checkpoint = Checkpoint(path, "f", every=0)
    checkpoint.save("first", lambda: Part(np.eye(2), 2))
    checkpoint.stage("second").save(all_types)
    later = Checkpoint(path, "f")
    assert_same(later.load("first", Part), Part(np.eye(2), 2))
    assert_same(later.stage("second").load(AllTypes), all_types())
    assert later.load("third", Part) is None
    with pytest.raises(ValueError, match=r"damaged.*name is needed"):
        later.load("first", Other)


def test_numpy_scalars_become_numbers():
    _, document = encode(all_types(number=np.float64(0.1), flag=np.True_))
    assert document["number"] == 0.1
    assert document["flag"] is True


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("pair", [3], "pair is"),
        ("pair", [3.5, 0.1], r"pair.0 is 3.5; int is needed"),
        ("pair", [True, 0.1], r"pair.0 is True; int"),
        ("number", "1", "number is '1'; float"),
        ("number", 10**400, "number is 1"),
        ("choice", "qr", "choice is 'qr'"),
        ("parts", None, "parts is None"),
        ("parts", [{"class": "Part", "x": None}], "parts.0 is .* rows"),
        ("maybe", 3, "maybe is 3"),
        ("either", {"class": "os.system", "name": "x"}, "either is"),
        ("index", {"z": {"class": "Part", "x": None, "rows": 1, "spread": None}}, "index.z.x is missing"),
    ],
)  # fmt: skip
def test_fields_of_other_types_are_refused(field, value, message):
    arrays, document = encode(all_types())
    with pytest.raises(ValueError, match=message):
        decode(AllTypes, arrays, {**document, field: value})


def test_missing_and_unknown_fields_are_refused():
    arrays, document = encode(all_types())
    with pytest.raises(ValueError, match="either"):
        decode(AllTypes, arrays, {k: v for k, v in document.items() if k != "either"})
    with pytest.raises(ValueError, match="the state is"):
        decode(AllTypes, arrays, {**document, "more": 1})


def test_fields_with_defaults_may_be_missing():
    arrays, document = encode(Part(np.eye(2), 2))
    del document["spread"]
    assert decode(Part, arrays, document).spread is None


def test_what_a_state_cannot_hold():
    with pytest.raises(TypeError, match="plain is a set"):
        encode(all_types(plain={1}))
    with pytest.raises(TypeError, match="dataclass"):
        encode([1, 2])
