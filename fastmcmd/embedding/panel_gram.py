"""Inner products of differences of embeddings: single outputs of nature, densities on panels of the model.

``MCMD^2 = a' K a - 2 (X' a)' (C' a') + (C' a')' T (C' a')`` with the Gram matrix K of single outputs, the
coefficients C of the model's densities, the inner products T of the panels' polynomials, and the expected
kernel values X of nature's outputs. The parts besides K take time proportional to the polynomials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd.backends.tall_skinny import product, roots_of_forms, spread
from fastmcmd.embedding.difference_gram import DifferenceGram
from fastmcmd.embedding.exponential_panels import TERMS, ExponentialPanels
from fastmcmd.embedding.spread import Spread

__all__ = ["PanelGram", "PanelOutputs"]


@dataclass(frozen=True, eq=False)
class PanelOutputs:
    """The densities of a model, and what nature's outputs have in common with them.

    Attributes
    ----------
    panels : ExponentialPanels
        The panels, and the kernel of different outputs.
    coefficients : ndarray (n', q)
        C, a row for each input of the model.
    values : ndarray (n, q)
        X, a row for each input of nature: sums over its outputs.
    """

    panels: ExponentialPanels
    coefficients: Array
    values: Array

    @staticmethod
    def of(
        panels: ExponentialPanels, coefficients: Array, outputs: Array, nature: Spread, inputs: int
    ) -> PanelOutputs:
        """Return the parts for distinct outputs (u,) over which ``nature`` spreads its inputs."""
        values = np.zeros((inputs, coefficients.shape[1]))
        spread(panels.at(outputs), nature.where, nature.source, nature.share, values)
        return PanelOutputs(panels, coefficients, values)

    @staticmethod
    def bytes_of(panels: int, inputs: int) -> int:
        """Return the bytes for so many panels and inputs of both sides together."""
        columns = TERMS * panels
        return 8 * columns * (3 * columns + 2 * inputs)

    @property
    def count(self) -> int:
        """Number of polynomials q."""
        return int(self.coefficients.shape[1])

    def forms(self, a: Array, a_prime: Array) -> Array:
        """Return the part (q,) of MCMD^2 besides K, for coefficients of nature and of the model."""
        b = product(self.coefficients, a_prime, transposed=True)
        both = product(self.panels.inner, b) - 2 * product(self.values, a, transposed=True)
        return np.asarray(np.einsum("ij,ij->j", b, both))

    def expected(self, y: Array, a_prime: Array) -> Array:
        """Return the model's embedding (m, q) at outputs (m,)."""
        b = product(self.coefficients, a_prime, transposed=True)
        return product(self.panels.at(y), b)


@dataclass(frozen=True, eq=False)
class PanelGram:
    """The matrix M of inner products of differences, as `DifferenceGram`, at inputs that both sides share.

    Attributes
    ----------
    single : DifferenceGram
        The part of nature's outputs.
    densities : PanelOutputs
        The model.
    """

    single: DifferenceGram
    densities: PanelOutputs
    feature_error: ClassVar[float] = 0.0  # as of `BumpLattice`

    def __len__(self) -> int:
        return len(self.single)

    @property
    def sizes(self) -> Array:
        """The 1-norm (n,) of what a unit coefficient spreads: a density has mass 1."""
        return self.single.sizes + 1.0

    @property
    def most_outputs(self) -> int:
        """The largest number of outputs and polynomials of an input."""
        return self.single.most_outputs + self.densities.count

    @property
    def entry_count(self) -> int:
        """The number of single outputs of all inputs."""
        return self.single.entry_count

    @property
    def largest(self) -> float:
        """The largest value of the kernel at outputs."""
        return self.single.largest

    def norms(self, coefficients: Array, unit: float, underflow: float) -> tuple[Array, Array]:
        """Return ``sqrt(a' M a)`` (q,) for columns a of coefficients, and bounds, as `DifferenceGram`."""
        forms = self.single.quadratic_forms(coefficients)
        forms += self.densities.forms(coefficients, coefficients)
        scaled = np.ascontiguousarray(self.sizes[:, None] * coefficients)
        return roots_of_forms(scaled, forms, unit, underflow)

    def inner_products(self, z: Array) -> tuple[Array, Array]:
        """Return ``Z' M Z`` (r, r) for z (n, r), and a bound (n,) on the diagonal of M.

        The norm of a density's embedding is at most that of a single output's.
        """
        total, diagonal = self.single.inner_products(z)
        c, x = self.densities.coefficients, self.densities.values
        inner = self.densities.panels.inner
        b, v = product(c, z, transposed=True), product(x, z, transposed=True)
        both = product(b, product(inner, b) / 2 - v, transposed=True)
        diagonal += self.densities.panels.kernel.at_zero - 2 * np.einsum("ij,ij->i", c, x)
        return total + both + both.T, diagonal
