"""A preconditioner for CG from landmarks: the large eigenvalues of K, in a form that is fast to invert.

With features at p landmarks ``K = F F' + E``, and in the variables scaled by ``D^(-1/2)``::

    M = F~ F~' + mu I,   F~ = D^(-1/2) F,   M^-1 v = (v - F~ (mu I + F~'F~)^-1 F~' v) / mu

(Woodbury). ``mu`` replaces ``I + E~``: 1 plus the median of E~'s diagonal. Randomly pivoted Cholesky draws
the landmarks from a fixed subset of the rows (Diaz, Epperly, Frangella, Tropp, Webber, *Robust, randomized
preconditioning for kernel ridge regression*, 2023).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array, DType
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import cholesky_factor, inner, substituted
from fastmcmd.gram import EXACT, GramOperator, tile_dtype
from fastmcmd.solvers.costs import CANDIDATES
from fastmcmd.solvers.landmarks import LandmarkSearch
from fastmcmd.solvers.row_features import FeatureMatrix

__all__ = ["EARLY_RANK", "RANKS", "Landmarks", "Look", "Preconditioner"]

RANKS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
EARLY_RANK = 32  # landmarks of the first step that show, beside all of it, how fast the rest falls
_EIGENVALUE_ROWS = 400  # rows whose part of E gives the estimate of its largest eigenvalue
_POWERS = 12  # steps of the power method


@dataclass(frozen=True)
class Look:
    """What landmarks show after a step of their search.

    Attributes
    ----------
    rank : int
        Number of landmarks.
    eigenvalue : float
        Largest eigenvalue that they leave of K~, positive.
    stores : bool
        Whether a preconditioner would store its features.
    exhausted : bool
        Whether the search finds no more.
    """

    rank: int
    eigenvalue: float
    stores: bool
    exhausted: bool


class Landmarks(LandmarkSearch):
    """A growing set of landmarks for a preconditioner, in steps: `grow` to each of `RANKS`.

    Parameters
    ----------
    operator : GramOperator
        K.
    shift : ndarray (n,)
        The smallest diagonal D among the systems.
    budget : int
        Bytes that the search for landmarks may use.

    Attributes
    ----------
    step : int
        Number of steps so far. Other steps would lead to other landmarks.
    looks : dict of int to Look
        What the landmarks showed after numbers of steps.
    largest : int
        Largest number that the budget allows; a plan, whose rows are few, may end its search before.
    """

    def __init__(self, operator: GramOperator, shift: Array, budget: int) -> None:
        n = operator.size
        # Two arrays of the candidates' features at a time, and the small dense problem.
        most = next((p for p in reversed(RANKS) if 64 * p * p <= budget), RANKS[0])
        size = int(min(n, np.clip(budget // (16 * most), 2 * most, CANDIDATES)))
        rng = generator(n, Purpose.PROBE)  # the same rows each time
        rows, index = operator.random_rows(size, rng)
        self.largest = min(most, len(rows))
        super().__init__(
            operator.backend, operator.kernel, rows, 1.0 / shift[index],
            min(most, operator.most_landmarks), rng, operator.offset,
        )  # fmt: skip
        # The part of K~ that shows what is left: among all rows, as landmarks explain candidates best.
        self._sampled_rows, index = operator.random_rows(_EIGENVALUE_ROWS, rng)
        self._share = len(operator) / len(self._sampled_rows)
        self._root = np.sqrt(1.0 / shift[index])
        points = operator.prepare(self._sampled_rows, EXACT)
        gram = np.asarray(operator.backend.gram(operator.kernel, points), dtype=np.float64)
        self._gram = self._root[:, None] * gram * self._root
        self._residual_eigenvalues: dict[tuple[int, DType], float] = {}
        self._residuals: dict[DType, tuple[int, Array]] = {}  # landmarks, and what they leave of K~
        self.step, self.looks = 0, dict[int, Look]()

    def residual_eigenvalue(self, dtype: DType = EXACT) -> float:
        """Return an estimate of the largest eigenvalue of ``E~``, the scaled residual of K.

        The features are computed in ``dtype``.
        """
        key = self.rank, dtype
        if key in self._residual_eigenvalues:
            return self._residual_eigenvalues[key]
        backend, pivots = self._backend, self.rows[self.pivots]
        kind = tile_dtype(self._kernel, dtype, self._sampled_rows, pivots)
        rows, at = (backend.points(x, kind, self.offset) for x in (self._sampled_rows, pivots))
        features = backend.features(self._kernel, at, rows, self._factor(), keep=True, sizes=False)
        low = backend.to_host(features.values) * self._root
        # Features of earlier landmarks stay the same, so only further ones are subtracted, in parts between
        # `RANKS`: the bits do not depend on the numbers of landmarks that were looked at.
        first, residual = self._residuals.get(dtype, (0, self._gram))
        for last in [*(rank for rank in (EARLY_RANK, *RANKS) if first < rank < len(low)), len(low)]:
            # Without BLAS, whose threads would go on spinning.
            residual, first = residual - inner(low[first:last], low[first:last]), last
            if last == EARLY_RANK:
                self._residual_eigenvalues[last, dtype] = self._eigenvalue_of(residual)
        self._residuals[dtype] = first, residual
        eigenvalue = self._eigenvalue_of(residual)
        self._residual_eigenvalues[key] = eigenvalue
        return eigenvalue

    def early_eigenvalue(self, dtype: DType = EXACT) -> float:
        """Return `residual_eigenvalue` of the first `EARLY_RANK` landmarks, after that of more of them."""
        return self._residual_eigenvalues[EARLY_RANK, dtype]

    def _eigenvalue_of(self, residual: Array) -> float:
        """Return the largest eigenvalue that ``residual`` (m, m), of the sampled rows, shows."""
        # A row's own residual is no share of many rows'.
        residual = residual.copy()
        residual.flat[:: len(residual) + 1] /= self._share
        return _largest_eigenvalue(residual) * self._share

    @property
    def unexplained(self) -> float:
        """Share of the sum of ``k(x, x)`` that the landmarks leave of the candidates."""
        total = float(self.diagonal.sum())
        return float(self.residual_diagonal.sum()) / total if total > 0 else 0.0

    @property
    def damping(self) -> float:
        """``mu - 1``: the median of the diagonal of ``E~``."""
        return float(np.median(self.residual_diagonal * self.weight))


def _largest_eigenvalue(matrix: Array) -> float:
    """Return an estimate of the largest absolute eigenvalue of a symmetric matrix, to one digit."""
    vector = generator(0, Purpose.PROBE).normal(size=len(matrix))
    for _ in range(_POWERS):  # not `@`: BLAS would wake its threads
        size = float(np.linalg.norm(vector))
        if size == 0.0:
            return 0.0
        vector = np.einsum("ij,j->i", matrix, vector / size)
    return float(np.linalg.norm(vector))


class Preconditioner:
    """The operator ``M^-1`` for one diagonal, applied to blocks.

    Parameters
    ----------
    features : FeatureMatrix
        F (n, p).
    shift : ndarray (n,)
        Diagonal D.
    mu : float
        Factor, at least 1, that replaces ``I + E~``.

    Attributes
    ----------
    largest : float
        Estimate of the largest eigenvalue of M.

    Raises
    ------
    numpy.linalg.LinAlgError
        ``mu I + F~'F~`` is not numerically positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd import RBF
    >>> from fastmcmd.backends import get_backend
    >>> from fastmcmd.gram import GramOperator
    >>> from fastmcmd.solvers.row_features import StreamedFeatures
    >>> x, kernel, shift = np.linspace(0.0, 1.0, 90)[:, None], RBF(1.0), np.full(90, 0.9)
    >>> operator = GramOperator(get_backend("numpy", kernel), kernel, x, np.dtype("f8"), 10**8)
    >>> landmarks = Landmarks(operator, shift, 10**8)
    >>> landmarks.grow(RANKS[0])
    >>> features = StreamedFeatures(operator, landmarks.kernel_features())
    >>> apply = Preconditioner(features, shift, 1.0 + landmarks.damping)
    >>> b = np.ones((90, 1))
    >>> np.allclose(kernel(x) @ apply(b) / 0.9 + apply(b), b)
    True
    """

    def __init__(self, features: FeatureMatrix, shift: Array, mu: float) -> None:
        self._features, self._mu = features, mu
        self._scale = 1.0 / np.sqrt(shift)[:, None]
        gram = features.gram(1.0 / shift)
        gram.flat[:: features.rank + 1] += mu
        self.largest = _largest_eigenvalue(gram)
        self._factor = cholesky_factor(gram)

    @property
    def rank(self) -> int:
        """Number of landmarks p."""
        return self._features.rank

    def __call__(self, block: Array) -> Array:
        """Return ``M^-1 block`` (n, k)."""
        out = self._scale * block
        total = substituted(self._factor, self._features.adjoint(out))
        weights = substituted(self._factor, total, transposed=True)
        for rows, image in self._features.images(weights):
            out[rows] = (block[rows] - self._scale[rows] * image) / self._mu
        return out
