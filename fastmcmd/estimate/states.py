"""What is saved of a fitted estimator: its state, one frozen dataclass for each part of it.

The names of the fields are in the files that users have: whoever changes them needs a new format in
`storage`, and a reader of this one beside `saved_earlier`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

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
    "LowRankPartState",
    "LowRankState",
    "PartState",
    "SideState",
    "TermState",
]

Array = NDArray[Any]
Json = dict[str, Any]


@dataclass(frozen=True)
class FeaturesState:
    """Features of a kernel: pivots (r, k), Cholesky factor (r, r), offset (k,)."""

    pivots: Array
    factor: Array
    offset: Array | None = None


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


@dataclass(frozen=True)
class FeatureState:
    """The feature form."""

    features: FeaturesState
    parts: list[PartState]
    truncation: Truncation


@dataclass(frozen=True)
class TermState:
    """One system of a low-rank part: its columns, regulariser and sign."""

    start: int
    stop: int
    lam: float
    sign: float


@dataclass(frozen=True)
class LowRankPartState:
    """One part of the low-rank form: landmarks and weights."""

    features: FeaturesState
    solutions: list[LowRankSolution]
    terms: list[TermState]
    dtype: str
    rows: int
    passes: int
    residual_diagonal: float
    notes: list[str]


@dataclass(frozen=True)
class LowRankState:
    """The low-rank form."""

    features: FeaturesState
    parts: list[LowRankPartState]
    truncation: Truncation
    block_rows: int


@dataclass(frozen=True)
class SideState:
    """One side of the dense form: its inputs, regulariser, and the sparse matrix (u, n) that spreads it."""

    design: DesignState
    lam: float
    data: Array
    indices: Array
    indptr: Array


@dataclass(frozen=True)
class DenseState:
    """The dense form: pooled outputs (u, k), their standard deviations, nature and model."""

    outputs: Array
    deviations: Array | None
    sides: tuple[SideState, SideState]
    budget: int
    embedding_error: float | None
    atomless: tuple[bool, bool] = (False, False)


@dataclass(frozen=True)
class EstimatorState:
    """A fitted `ConditionalCongruence`.

    Attributes
    ----------
    options : dict
        Plain arguments of the constructor.
    given : dict
        Kernels and random state as they were given; kernels None for the defaults.
    x_kernel, y_kernel : dict
        The resolved kernels.
    sizes : tuple of int
        Distinct inputs of both samples.
    working : int
        Bytes that the fit needed beside its matrices.
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
