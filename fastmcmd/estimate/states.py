"""The saved state of a fitted estimator, with one frozen dataclass for each part.

The files of users contain the names of the fields. A change of names needs a new format in `storage`, and a
reader for this format beside the reader for formats 1 and 2 below.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fastmcmd._base.annotations import HostArray, Json
from fastmcmd.estimate.primal import Truncation
from fastmcmd.result import Info
from fastmcmd.solvers import Certificate
from fastmcmd.solvers.lowrank import LowRankSolution

__all__ = [
    "DenseState",
    "DesignState",
    "EstimatorState",
    "FeatureState",
    "FeaturesState",
    "LineState",
    "LowRankPartState",
    "LowRankState",
    "PartState",
    "RowsState",
    "SideState",
    "TermState",
    "upgraded",
]

Array = HostArray


@dataclass(frozen=True)
class FeaturesState:
    """Features of a kernel: pivots (r, k), Cholesky factor (r, r), offset (k,)."""

    pivots: Array
    factor: Array
    offset: Array | None = None


@dataclass(frozen=True)
class LineState:
    """Features on panels of the line: ends (p, 2) of each RBF kernel's panels, used features (r,)."""

    panels: list[Array]
    selected: Array


@dataclass(frozen=True)
class DesignState:
    """Distinct inputs (n, d) and their weights (n,)."""

    x: Array
    weight: Array


@dataclass(frozen=True)
class PartState:
    """One part of the feature form: a solved system."""

    design: DesignState
    value: Array
    image: Array
    certificates: list[Certificate]
    solver: str
    iterations: int
    notes: list[str]
    passes: int
    dtype: str
    budget: int
    rounding_alone: bool = False


@dataclass(frozen=True)
class FeatureState:
    """The feature form."""

    features: FeaturesState | LineState
    parts: list[PartState]
    truncation: Truncation
    basis: Array | None = None
    lam: float = 0.0


@dataclass(frozen=True)
class TermState:
    """One system of a low-rank part: its columns, regulariser and sign."""

    start: int
    stop: int
    lam: float
    sign: float


@dataclass(frozen=True)
class RowsState:
    """Rows with their coefficients."""

    x: Array
    value: Array
    weight: Array
    rounding: float


@dataclass(frozen=True)
class LowRankPartState:
    """One part of the low-rank form: landmarks and weights, and rows unless they are very many."""

    features: FeaturesState
    solutions: list[LowRankSolution]
    terms: list[TermState]
    dtype: str
    rows: int
    passes: int
    residual_diagonal: float
    notes: list[str]
    row_coefficients: RowsState | None = None


@dataclass(frozen=True)
class LowRankState:
    """The low-rank form."""

    features: FeaturesState | LineState
    parts: list[LowRankPartState]
    truncation: Truncation
    block_rows: int
    basis: Array | None = None


@dataclass(frozen=True)
class SideState:
    """One side of the dense form: inputs, regulariser, and the sparse matrix (u, n) to its outputs."""

    design: DesignState
    lam: float
    data: Array
    indices: Array
    indptr: Array


@dataclass(frozen=True)
class PanelsState:
    """Densities on panels: the ends (p + 1,) of these, and coefficients (n, 16 p) of polynomials."""

    edges: Array
    coefficients: Array


@dataclass(frozen=True)
class DenseState:
    """The dense form: pooled outputs (u, k), their standard deviations, nature and model."""

    outputs: Array
    deviations: Array | None
    sides: tuple[SideState, SideState]
    budget: int
    embedding_error: float | None
    atomless: tuple[bool, bool] = (False, False)
    densities: PanelsState | None = None


@dataclass(frozen=True)
class EstimatorState:
    """A fitted `ConditionalCongruence`.

    Attributes
    ----------
    options : dict
        Plain arguments of the constructor.
    given : dict
        Kernels and random state as the caller passed them; kernels None for the defaults.
    x_kernel, y_kernel : dict
        The resolved kernels.
    sizes : tuple of int
        Number of distinct inputs of both samples.
    working : int
        Bytes that the fit needed besides its matrices.
    chosen_lam : float or None
        Regulariser of the fit. None in files of versions whose default kernels were the
        published ones.
    """

    options: Json
    landmarks: str | Array | None
    dtype: str | None
    given: Json
    x_kernel: Json
    y_kernel: Json
    sizes: tuple[int, int]
    working: int
    features_in: int
    columns: int
    x_dtype: str
    form: FeatureState | LowRankState | DenseState
    values: Array
    error_bounds: Array
    tol: float
    info: Info
    chosen_lam: float | None = None


Arrays = dict[str, HostArray]

_SOLUTION = ("slope", "constant", "miss", "floor", "through", "row", "kind", "pivots")
_RENAMED = {
    r"chosen_landmarks": "landmarks",
    r"result_(values|error_bounds)": r"\1",
    r"(pivots|factor)": r"form.features.\1",
    r"(outputs|deviations)": r"form.\1",
    r"part(\d+)_(value|image)": r"form.parts.\1.\2",
    r"part(\d+)_landmarks": r"form.parts.\1.features.pivots",
    r"part(\d+)_(factor|offset)": r"form.parts.\1.features.\2",
    r"part(\d+)_weights(\d+)": r"form.parts.\1.solutions.\2.weights",
    r"part(\d+)_spread_(data|indices|indptr)": r"form.sides.\1.\2",
}


def upgraded(arrays: Arrays, settings: Json) -> tuple[Arrays, Json]:
    """Return arrays and document in the present format, from those of format 1 or 2."""
    kernels = {name: settings[name] for name in ("x_kernel", "y_kernel")}
    designs = (
        r"form.sides.\1.design.\2" if settings["form"] == "dense" else r"form.parts.\1.design.\2"
    )
    names = {**_RENAMED, r"part(\d+)_(x|weight)": designs}
    document = {
        "options": settings["options"],
        "landmarks": settings.get("landmarks"),
        "dtype": settings["dtype"],
        "given": settings.get("given", kernels),  # format 1 had the resolved kernels only
        **kernels,
        **{
            name: settings[name]
            for name in ("sizes", "working", "features_in", "columns", "x_dtype")
        },
        "form": _form(settings),
        "values": None,
        "error_bounds": None,
        "tol": settings["result_tol"],
        "info": settings["result_info"],
    }
    return {_renamed(name, names): array for name, array in arrays.items()}, document


def _renamed(name: str, names: dict[str, str]) -> str:
    for pattern, new in names.items():
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(new)
    return name


def _form(settings: Json) -> Json:
    design = {"x": None, "weight": None}
    if settings["form"] == "dense":
        return {
            "class": "DenseState", "outputs": None, "deviations": None,
            "sides": [
                {"design": design, "lam": lam, "data": None, "indices": None, "indptr": None}
                for lam in settings["lams"]
            ],
            "budget": settings["room"], "embedding_error": _embedding_error(settings),
        }  # fmt: skip
    kinds = {"feature": ("FeatureState", _part), "lowrank": ("LowRankState", _low_rank_part)}
    kind, part = kinds[settings["form"]]
    truncation = zip(("missed", "expectation", "rigorous"), settings["truncation"], strict=True)
    form = {
        "class": kind,
        "features": {"pivots": None, "factor": None},
        "parts": [part(one) for one in settings["parts"]],
        "truncation": dict(truncation),
    }
    return {**form, "block_rows": settings["block_rows"]} if kind == "LowRankState" else form


def _part(part: Json) -> Json:
    names = ("residual", "value", "kind")
    return {
        **{name: part[name] for name in ("solver", "iterations", "notes", "passes", "dtype")},
        "design": {"x": None, "weight": None}, "value": None, "image": None, "budget": part["room"],
        "certificates": [dict(zip(names, one, strict=True)) for one in part["certificates"]],
    }  # fmt: skip


def _low_rank_part(part: Json) -> Json:
    names = ("start", "stop", "lam", "sign")
    return {
        **{name: part[name] for name in ("dtype", "rows", "passes", "notes")},
        "features": {"pivots": None, "factor": None, "offset": None},
        "residual_diagonal": part["missed"],
        "terms": [dict(zip(names, one, strict=True)) for one in part["terms"]],
        "solutions": [
            {"weights": None, **dict(zip(_SOLUTION, one, strict=True))} for one in part["solutions"]
        ],
    }


def _embedding_error(settings: Json) -> Any:
    """Return the weighted error of embeddings, which the oldest files store without the regulariser."""
    if "embedding_error" in settings:
        return settings["embedding_error"]
    return settings["node_error"] / min(settings["lams"]) ** 0.5 or None
