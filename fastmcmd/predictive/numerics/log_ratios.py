"""Logarithms of ratios of outcomes and scales, and outcomes from them."""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array

__all__ = ["from_log", "log_ratio"]


def log_ratio(y: Array, scale: Array) -> Array:
    """Return ``log(y / scale)`` for y > 0, to rounding of itself also near 1; -inf for y <= 0."""
    ratio = np.maximum(y, 0.0) / scale
    logs = np.log(ratio)
    near = np.abs(ratio - 1) < 0.5
    np.log1p((y - scale) / scale, out=logs, where=near)
    extreme = ~((ratio > 1e-290) & (ratio < 1e290))
    if extreme.any():
        far = np.log(np.maximum(y, 0.0)) - np.log(scale)
        logs = np.where(extreme, far, logs)
    return np.asarray(logs)


def from_log(log_z: Array, scale: Array) -> Array:
    """Return ``scale exp(log_z)``, in one exponential where the first alone leaves the doubles."""
    return np.where(
        np.abs(log_z) < 650,
        scale * np.exp(np.clip(log_z, -700, 700)),
        np.exp(log_z + np.log(scale)),
    )
