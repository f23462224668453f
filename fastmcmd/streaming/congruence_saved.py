"""Saved states of CCE accumulators, which `fastmcmd.io.state` writes and reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Json
from fastmcmd.backends import get_backend
from fastmcmd.gram import KernelFeatures
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import kernel_from_dict
from fastmcmd.streaming.congruence_sums import CongruenceSums, ModelSums, Probes
from fastmcmd.streaming.output_features import Columns

__all__ = [
    "SavedCCE",
    "SavedLandmarks",
    "SavedSums",
    "landmarks_of",
    "saved_landmarks",
    "saved_sums",
    "sums_of",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SavedLandmarks:
    """The landmarks of a `Smoother`."""

    kernel: Json
    pivots: Array
    factor: Array
    offset: Array | None
    scales: tuple[float, ...] | None


@dataclass(frozen=True, eq=False)
class SavedSums:
    """The fields of `CongruenceSums`, with models as lists."""

    gram: Array
    weight: float
    handled: float
    rows: int
    ranks: NDArray[np.int64]
    residual: Array
    columns: Columns
    names: list[str]
    models: list[ModelSums]
    streams: list[str]
    lost: tuple[float, ...] = (0.0, 0.0, 0.0)
    probes: Probes | None = None


@dataclass(frozen=True, eq=False)
class SavedCCE:
    """The settings of a `CCE`, with its landmarks and sums."""

    x_kernel: Json
    y_kernel: Json
    landmarks: int | Array
    lam: float
    output_landmarks: Array | None
    most_landmarks: int | None
    simulations: int
    features: SavedLandmarks | None
    sums: SavedSums | None


def saved_landmarks(smoother: Smoother | None) -> SavedLandmarks | None:
    """Return the saved state of landmarks, or None."""
    if smoother is None:
        return None
    features = smoother.features
    pivots = np.asarray(features.pivots, dtype=np.float64)
    return SavedLandmarks(
        features.kernel.to_dict(), pivots, features.factor, features.offset, smoother.scales
    )


def landmarks_of(state: SavedLandmarks) -> Smoother:
    """Return the landmarks from a saved state."""
    rank = len(state.pivots)
    if state.pivots.ndim != 2 or state.factor.shape != (rank, rank):
        raise ValueError(f"the factor of {rank} landmarks has shape {state.factor.shape}")
    _check_finite(pivots=state.pivots, factor=state.factor, offset=state.offset)
    kernel = kernel_from_dict(state.kernel)
    backend = get_backend("auto", kernel)
    return Smoother(
        KernelFeatures(kernel, state.pivots, state.factor, backend, state.offset),
        state.scales,
    )


def saved_sums(sums: CongruenceSums | None) -> SavedSums | None:
    """Return the saved state of sums, or None."""
    if sums is None:
        return None
    return SavedSums(
        sums.gram, sums.weight, sums.handled, sums.rows, sums.ranks, sums.residual, sums.columns,
        list(sums.models), list(sums.models.values()), list(sums.streams),
        sums.lost, sums.probes,
    )  # fmt: skip


def sums_of(state: SavedSums, smoother: Smoother | None, data_sets: int) -> CongruenceSums:
    """Return the sums from a saved state, at its landmarks."""
    if smoother is None or not len(set(state.names)) == len(state.names) == len(state.models) > 0:
        raise ValueError(
            "there are sums without landmarks, without models, or of models of one name"
        )
    rank, count = smoother.rank, len(state.columns)
    shape = rank, data_sets, count
    lost_of_models = [one.lost for one in state.models]
    for one in state.models:
        if one.cross.shape != shape or one.squares.shape != (count, count):
            raise ValueError(f"sums of a model have shape {one.cross.shape}; {shape} is needed")
        null_shape = one.noise.shape if one.null is None else one.null.shape
        if not one.noise.shape == null_shape == (rank, rank) or one.spread.shape != (data_sets,):
            raise ValueError(
                f"sums of a model have shapes {one.noise.shape} and {null_shape}, of {rank} landmarks"
            )
        _check_finite(cross=one.cross, squares=one.squares, noise=one.noise, null=one.null)
        _check_finite(spread=one.spread)
    if any(
        len(rounding_bounds) != 3 or not min(rounding_bounds) >= 0
        for rounding_bounds in (state.lost, *lost_of_models)
    ):
        raise ValueError("bounds on rounding are missing or negative")
    if state.gram.shape != (rank, rank) or state.ranks.shape != state.residual.shape:
        raise ValueError(f"sums of inputs have shape {state.gram.shape}, of {rank} landmarks")
    if state.columns.ndim > 2:
        raise ValueError(f"columns has shape {state.columns.shape}")
    _check_finite(gram=state.gram, residual=state.residual)
    return CongruenceSums(
        smoother, state.gram, state.weight, state.handled, state.rows, state.ranks, state.residual,
        state.columns, dict(zip(state.names, state.models, strict=True)), tuple(state.streams),
        state.lost, state.probes,
    )  # fmt: skip


def _check_finite(**arrays: Array | None) -> None:
    for name, array in arrays.items():
        if array is not None and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
