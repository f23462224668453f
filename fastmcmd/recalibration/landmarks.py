"""The base class of recalibrators whose corrections depend on the input, with a smoother on landmarks."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import RandomState
from fastmcmd._base.checks import check_count, check_lams
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.default_kernels import kernel_or_name
from fastmcmd.gram import KernelFeatures
from fastmcmd.inference.inputs import InputMap
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import kernel_from_dict
from fastmcmd.kernels.base import KernelLike
from fastmcmd.metrics.inputs import Outcomes
from fastmcmd.predictive.base import Array
from fastmcmd.recalibration.base import Recalibrator

__all__ = ["LocalRecalibrator", "folds_of", "standard_error"]

_FOLDS = 5


class LocalRecalibrator(Recalibrator):
    """A recalibrator that smooths over inputs with a kernel.

    Parameters
    ----------
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs. Default ("auto"): three RBF lengths on standardised columns, as in `cce`.
    lam : "auto", float or sequence of float
        Regularisers to choose from by cross-fitting.
    folds : int
        Number of folds of the cross-fitting.
    landmarks : int
        Largest number of landmarks.
    random_state : int, numpy.random.Generator or None
        Source of the folds and the landmarks.
    """

    needs_inputs = True

    offset_: Array
    scales_: Array
    kernel_: str
    landmarks_: Array
    origin_: Array
    factor_: Array

    def __repr__(self) -> str:
        unchanged = "; no correction is better beyond chance: predictions do not change"
        return super().__repr__() + (unchanged if self.fitted.get("gain_") == 0 else "")

    def _set_options(
        self,
        x_kernel: KernelLike,
        lam: ArrayLike | None,
        folds: int,
        landmarks: int,
        random_state: RandomState,
    ) -> None:
        kernel_or_name(x_kernel, "x_kernel")
        self.x_kernel = x_kernel
        if isinstance(lam, str):
            if lam != "auto":
                raise ValueError(f'lam is {lam!r}; "auto", a positive number or several are needed')
            self.lam: str | float | list[float] = lam
        else:
            lams = check_lams(lam)
            self.lam = lams if isinstance(lam, (list, tuple, np.ndarray)) else lams[0]
        self.folds: int = check_count(folds, "folds", 2)
        self.landmarks: int = check_count(landmarks, "landmarks", 1)
        self.random_state = random_state

    def _lams(self, default: tuple[float, ...]) -> list[float]:
        if isinstance(self.lam, str):
            return list(default)
        return [self.lam] if isinstance(self.lam, (int, float)) else list(self.lam)

    def _keep_inputs(self, mapping: InputMap, smoother: Smoother) -> None:
        self.offset_, self.scales_ = mapping.offset, mapping.scales
        self.kernel_ = json.dumps(smoother.features.kernel.to_dict())
        self.landmarks_ = np.asarray(smoother.features.pivots, dtype=np.float64)
        origin = smoother.features.offset
        self.origin_ = (
            np.zeros(len(mapping.scales)) if origin is None else np.array(origin, dtype=np.float64)
        )
        self.factor_ = smoother.features.factor

    def _features(self, x: Array) -> Array:
        """Return the features (q, m) of inputs at the landmarks."""
        if x.shape[1] != len(self.scales_):
            raise ValueError(
                f"x has {x.shape[1]} columns; {len(self.scales_)} are needed, as in fit"
            )
        kernel = kernel_from_dict(json.loads(self.kernel_))
        features = KernelFeatures(
            kernel, self.landmarks_, self.factor_, get_backend("auto", kernel), self.origin_
        )
        return features.transform((x - self.offset_) * self.scales_)

    def check_state(self) -> None:
        """Raise ValueError unless the fitted smoother is valid."""
        super().check_state()
        m = len(self.landmarks_)
        for name, shape in (
            ("offset_", self.offset_.shape),
            ("scales_", self.offset_.shape),
            ("origin_", self.offset_.shape),
            ("landmarks_", (m, len(self.offset_))),
            ("factor_", (m, m)),
        ):
            value = getattr(self, name)
            if not isinstance(value, np.ndarray) or value.dtype != np.float64:
                raise ValueError(f"{name} is no array of float64")
            if value.shape != shape or not np.isfinite(value).all():
                raise ValueError(f"{name} has shape {value.shape} or values that are not finite")
        if not (self.scales_ >= 0).all() or not (np.diagonal(self.factor_) > 0).all():
            raise ValueError("scales_ are negative, or the diagonal of factor_ is not positive")
        kernel_from_dict(json.loads(self.kernel_))


def folds_of(rows: Outcomes, folds: int, random_state: RandomState) -> NDArray[np.intp]:
    """Return the fold of each row (n,): folds of nearly equal size, in random order."""
    n = len(rows.y)
    if n < 2 * folds:
        raise ValueError(f"y has {n} rows; at least {2 * folds} are needed for {folds} folds")
    rng = generator(0 if random_state is None else random_state, Purpose.PROBE)
    return np.asarray(rng.permutation(n) % folds, dtype=np.intp)


def standard_error(values: Array, weights: Array) -> float:
    """Return the standard error of the weighted mean of values (n,)."""
    share = weights / weights.sum()
    return float(np.sqrt((share**2) @ (values - share @ values) ** 2))
