"""The task of a fit: kernels, options, and the points where the tolerance must hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fastmcmd._base.annotations import HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.backends.base import Backend
from fastmcmd.embedding.atoms import atom_count
from fastmcmd.embedding.sample import Outputs, Sample
from fastmcmd.estimate.dense_landmarks import (
    InputFeatures,
    input_features,
    most_input_landmarks,
)
from fastmcmd.gram import check_finite, largest_diagonal
from fastmcmd.gram.cost import MatrixSize
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.rows import Rows

__all__ = ["SOLVER_SHARE", "Task", "backend_of", "feature_backend_of", "some_rows"]

SOLVER_SHARE = 0.74  # share of the tolerance; truncation of the features takes at most a quarter
_LEAST_EPS, _MOST_EPS = 5e-15, 1e-9  # residual of the output features, relative
_QUADRATURE_SHARE = 0.05  # share of the tolerance
_MOST_LOOKED_AT = 20000  # grid points at which certificates are checked during a fit


@dataclass(frozen=True, eq=False)
class Task:
    """Kernels, options and evaluation points of a fit.

    Attributes
    ----------
    x_kernel, y_kernel : Kernel
        Resolved kernels.
    options : Options
        Options of the computation.
    grid : ndarray (q, d) or Rows
        Points where the tolerance must hold.
    stays : bool
        Whether the fit stays for evaluation at any number of other points.
    """

    x_kernel: Kernel
    y_kernel: Kernel
    options: Options
    grid: HostArray | Rows
    stays: bool = False
    _atom_counts: dict[Outputs, int | None] = field(default_factory=dict, init=False, repr=False)
    _input_features: dict[tuple[int, float], InputFeatures | None] = field(
        default_factory=dict, init=False, repr=False
    )

    def atom_count(self, outputs: Outputs) -> int | None:
        """Return the number of atoms (`fastmcmd.embedding.atoms`), or None without closed forms."""
        if outputs not in self._atom_counts:
            self._atom_counts[outputs] = atom_count(outputs, self.y_kernel)
        return self._atom_counts[outputs]

    def input_features(self, nature: Sample) -> InputFeatures | None:
        """Return features of nature's inputs if landmarks pay in dense form, else None.

        The output kernel is translation-invariant.
        """
        key = id(nature.design), nature.lam
        if key not in self._input_features:
            x = nature.design.x
            size = MatrixSize(self.x_kernel, len(x), x.shape[1], self.backend.name)
            most = most_input_landmarks(size, len(self.grid), self.options.memory_limit // 2)
            self._input_features[key] = None
            if most:
                largest, tol = self.y_kernel.at_zero, self.options.tol
                self._input_features[key] = input_features(
                    nature, self.backend, self.x_kernel, largest, tol, most
                )
        return self._input_features[key]

    def known_input_features(self, nature: Sample) -> InputFeatures | None:
        """Return `input_features` if they have been computed."""
        return self._input_features.get((id(nature.design), nature.lam))

    @cached_property
    def backend(self) -> Backend:
        """Backend that computes the input kernel."""
        return backend_of(self.options, self.x_kernel)

    @cached_property
    def y_backend(self) -> Backend:
        """Backend that computes output features."""
        return feature_backend_of(self.options, self.y_kernel)

    @cached_property
    def scale(self) -> float:
        """Largest ``sqrt(k(x, x))`` over the grid."""
        largest = largest_diagonal(self.x_kernel, self.grid)
        check_finite(self.x_kernel, largest)
        return float(np.sqrt(max(largest, 0.0)))

    def feature_residual(self, lam: float, lam_prime: float) -> float:
        """Return the target residual of the output features, relative to the largest ``k_Y(y, y)``."""
        amplitude = self.scale / 2 * (lam**-0.5 + lam_prime**-0.5)
        share = min(1.0, self.options.tol / 4 / max(amplitude, 1e-300))
        return float(np.clip(share**2, _LEAST_EPS, _MOST_EPS))

    def expectation_error(self, lam: float) -> float:
        """Return the target for the quadrature error of each row's expected features.

        If every row has this error, a value changes by at most ``scale / 2 / sqrt(lam)`` times as much.
        """
        return (
            _QUADRATURE_SHARE * self.options.tol * 2 * float(np.sqrt(lam)) / max(self.scale, 1e-300)
        )


def backend_of(options: Options, kernel: Kernel) -> Backend:
    """Return the backend that computes tiles of a kernel."""
    return get_backend(options.backend, kernel, options.devices, options.device_memory_limit)


def feature_backend_of(options: Options, kernel: Kernel) -> Backend:
    """Return the backend for output features: not a GPU, because copying them would take longer.

    Distances are computed directly: features amplify the rounding of kernel values, and outputs are not
    centred.
    """
    backend = backend_of(options, kernel)
    return (get_backend("auto", kernel) if backend.on_device else backend).directly()


def some_rows(grid: HostArray | Rows) -> HostArray:
    """Return the points of a grid, or a random subset if there are very many."""
    if len(grid) <= _MOST_LOOKED_AT:
        return grid[:]
    rng = generator(len(grid), Purpose.PROBE)
    return grid[np.sort(rng.choice(len(grid), _MOST_LOOKED_AT, replace=False))]
