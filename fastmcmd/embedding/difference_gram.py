"""The Gram matrix of differences of embeddings, for the dense form of two samples at the same inputs.

If nature and model share a regularised system, one coefficient ``a_i`` belongs to each input, and
``MCMD^2 = a' M a`` with ``M_ij`` the inner product of the differences ``mu_i - mu'_i`` and
``mu_j - mu'_j``. M has a row for each input, not for each output. With l draws an input, a quadratic form
of M takes ``(1 + l)^2`` times fewer operations than one over all outputs. M is never stored: panels of its
rows are computed from kernel values, and used at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.cached import cached_property
from fastmcmd.backends import Backend
from fastmcmd.backends.base import Points
from fastmcmd.backends.tall_skinny import product, roots_of_forms, spread
from fastmcmd.embedding.atoms import kernel_of_atoms
from fastmcmd.embedding.spread import Spread
from fastmcmd.gram import EXACT, largest_diagonal
from fastmcmd.kernels import Kernel

__all__ = ["DifferenceGram"]

# Rows of a panel: few enough for symmetry to save almost half, and enough for the product of a panel to
# take much longer than the copy of its right-hand side.
_ROWS = 512
_ENTRIES = 1 << 21  # kernel values in memory at once, and half the values of a panel


@dataclass(frozen=True, eq=False)
class DifferenceGram:
    """The matrix ``M = S' K_Y S`` (n, n), where S (u, n) spreads coefficients of inputs over outputs.

    Attributes
    ----------
    kernel : Kernel
        Output kernel.
    backend : Backend
        Backend that computes kernel values, on the host.
    outputs : ndarray (u, k)
        Distinct outputs.
    deviations : ndarray (u, k) or None
        Standard deviations of outputs that are normal distributions.
    spreads : tuple of Spread
        The parts of S: nature's, and the model's with negative shares.
    inputs : int
        Number of inputs n.
    stores : bool
        Whether panels stay in memory for the next form.
    """

    kernel: Kernel
    backend: Backend
    outputs: Array
    deviations: Array | None
    spreads: tuple[Spread, ...]
    inputs: int
    stores: bool = False
    feature_error: ClassVar[float] = 0.0  # as of `BumpLattice`: there are no features

    def __len__(self) -> int:
        return self.inputs

    @cached_property
    def entries(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Array, NDArray[np.intp]]:
        """Inputs, outputs and shares (m,) of S in the order of the inputs, and where each input begins."""
        source, where, share = (
            np.concatenate([getattr(part, name) for part in self.spreads])
            for name in ("source", "where", "share")
        )
        order = np.argsort(source, kind="stable")
        starts = np.concatenate([[0], np.bincount(source, minlength=self.inputs).cumsum()])
        return source[order], where[order], share[order], starts.astype(np.intp)

    @cached_property
    def sizes(self) -> Array:
        """Sum of the absolute shares (n,) of each input: the 1-norm of what a unit coefficient spreads."""
        source, _, share, _ = self.entries
        return np.asarray(np.bincount(source, weights=np.abs(share), minlength=self.inputs), float)

    @cached_property
    def most_outputs(self) -> int:
        """The largest number of outputs of an input."""
        return int(np.diff(self.entries[3]).max(initial=0))

    @cached_property
    def largest(self) -> float:
        """The largest value of the kernel at outputs."""
        return largest_diagonal(self.kernel, self.outputs)

    @cached_property
    def entry_count(self) -> int:
        """The number of outputs of all inputs, equal ones included."""
        return len(self.entries[0])

    def keeping(self, memory: int) -> DifferenceGram:
        """Return the same matrix, which stores its panels if they fit in so many bytes."""
        storing = replace(self, stores=True)
        return storing if storing.nbytes <= memory else self

    @property
    def nbytes(self) -> int:
        """Bytes of stored panels; blocks on the diagonal are squares."""
        return 4 * self.inputs * (self.inputs + _ROWS) if self.stores else 0

    def panels(self) -> Iterator[tuple[slice, Array]]:
        """Yield rows, and the block of M of these rows and of the columns from the first of them on.

        What lies to the right of the square block is doubled: summed over all panels, products give a
        quadratic form of M by symmetry.
        """
        return iter(self._panels_in_memory) if self.stores else self._computed()

    @cached_property
    def _panels_in_memory(self) -> list[tuple[slice, Array]]:
        return list(self._computed())

    def _computed(self) -> Iterator[tuple[slice, Array]]:
        starts, n = self.entries[3], self.inputs
        most = max(1, min(_ROWS, 2 * _ENTRIES // max(1, n)))
        compute = self._panel
        if self.deviations is None and self.backend.sums_groups:
            compute = self._panel_in_tiles
        first = 0
        while first < n:
            stop = _stop(starts, first, most, _ENTRIES // 64)
            panel = compute(slice(first, stop))
            panel[:, stop - first :] *= 2
            yield slice(first, stop), panel
            first = stop

    def _panel(self, rows: slice) -> Array:
        """Return a panel from blocks of kernel values."""
        starts, n = self.entries[3], self.inputs
        panel = np.empty((rows.stop - rows.start, n - rows.start))
        start, width = rows.start, int(starts[rows.stop] - starts[rows.start])
        while start < n:
            columns = slice(start, _stop(starts, start, n, _ENTRIES // max(1, width)))
            places = slice(start - rows.start, columns.stop - rows.start)
            panel[:, places] = self._block(rows, columns)
            start = columns.stop
        return panel

    def _panel_in_tiles(self, rows: slice) -> Array:
        """Return a panel, without its kernel values in memory."""
        _, _, share, starts = self.entries
        return self.backend.group_sums(
            self.kernel, self._points, starts.astype(np.int64, copy=False), share, rows
        )

    @cached_property
    def _points(self) -> Points:
        """The outputs of all entries, packed."""
        return self.backend.points(self.outputs[self.entries[1]], EXACT)

    def _block(self, rows: slice, columns: slice) -> Array:
        """Return the block of M of some rows and columns."""
        where = self.entries[1]
        values = self._values(where[self._places(columns)], where[self._places(rows)])
        half = self._summed(values, columns)
        return self._summed(np.ascontiguousarray(half.T), rows)

    def _places(self, inputs: slice) -> slice:
        """Return the entries of S that belong to some inputs."""
        starts = self.entries[3]
        return slice(starts[inputs.start], starts[inputs.stop])

    def _summed(self, values: Array, inputs: slice) -> Array:
        """Return sums (m, j) over the outputs of each of some inputs, from a row for each entry."""
        source, _, share, _ = self.entries
        places, out = self._places(inputs), np.zeros((inputs.stop - inputs.start, values.shape[1]))
        spread(values, np.arange(len(values)), source[places] - inputs.start, share[places], out)
        return out

    def _values(self, one: NDArray[np.intp], other: NDArray[np.intp]) -> Array:
        """Return kernel values between the outputs at some places."""
        if self.deviations is not None:
            atoms = [
                np.concatenate([self.outputs[at], self.deviations[at]], axis=1)
                for at in (one, other)
            ]
            return np.ascontiguousarray(kernel_of_atoms(self.kernel, *atoms))
        points = [self.backend.points(self.outputs[at], EXACT) for at in (one, other)]
        return np.asarray(self.backend.gram(self.kernel, *points), dtype=np.float64)

    def norms(self, coefficients: Array, unit: float, underflow: float) -> tuple[Array, Array]:
        """Return ``sqrt(a' M a)`` (q,) for columns a of coefficients (n, q), and bounds on their errors.

        ``unit`` is the rounding of a form relative to the squared 1-norm of what its coefficients spread
        over outputs, and ``underflow`` that of numbers next to zero.
        """
        scaled = np.ascontiguousarray(self.sizes[:, None] * coefficients)
        return roots_of_forms(scaled, self.quadratic_forms(coefficients), unit, underflow)

    def quadratic_forms(self, coefficients: Array) -> Array:
        """Return ``a' M a`` (q,) for columns a of coefficients (n, q)."""
        forms = np.zeros(coefficients.shape[1])
        for rows, panel in self.panels():
            image = product(panel, coefficients[rows.start :])
            forms += np.einsum("ij,ij->j", coefficients[rows], image)
        return forms

    def inner_products(self, z: Array) -> tuple[Array, Array]:
        """Return ``Z' M Z`` (r, r) for z (n, r), and the diagonal (n,) of M."""
        total, diagonal = np.zeros((z.shape[1], z.shape[1])), np.empty(self.inputs)
        for rows, panel in self.panels():
            diagonal[rows] = panel.diagonal()
            image = product(panel, z[rows.start :])
            total += product(z[rows], image, transposed=True)
        return (total + total.T) / 2, diagonal


def _stop(starts: NDArray[np.intp], start: int, most: int, outputs: int) -> int:
    """Return the end of at least one input from ``start``, with at most so many inputs and outputs."""
    stop = int(np.searchsorted(starts, starts[start] + outputs, side="right")) - 1
    return min(max(start + 1, min(stop, start + most)), len(starts) - 1)
