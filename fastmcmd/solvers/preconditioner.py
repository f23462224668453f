"""A preconditioner for CG from landmarks: the large eigenvalues of K, in a form that is fast to invert.

With features at p landmarks ``K = F F' + E``, and in the variables scaled by ``D^(-1/2)``::

    M = F~ F~' + mu I,   F~ = D^(-1/2) F,   M^-1 v = (v - F~ (mu I + F~'F~)^-1 F~' v) / mu

(Woodbury). ``mu`` replaces ``I + E~``: 1 plus the median of E~'s diagonal. F~ is never an n x p array:
products with it are streamed, ``F'v = L^-1 K(Z, X) v`` and ``F s = K(X, Z) L'^-1 s``. Randomly pivoted
Cholesky draws the landmarks from a fixed subset of the rows (Diaz, Epperly, Frangella, Tropp, Webber,
*Robust, randomized preconditioning for kernel ridge regression*, 2023).
"""

from __future__ import annotations

import numpy as np
import scipy

from fastmcmd._base.annotations import Array
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import substituted
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures
from fastmcmd.rows import as_blocks
from fastmcmd.solvers.costs import CANDIDATES
from fastmcmd.solvers.landmarks import LandmarkSearch

__all__ = ["RANKS", "Landmarks", "Preconditioner"]

RANKS = (64, 96, 128, 192, 256, 384, 512, 768, 1024)
_EIGENVALUE_ROWS = 400  # rows whose part of E gives the estimate of its largest eigenvalue
_POWERS = 12  # steps of the power method: the eigenvalue is needed to one digit
# Bytes of a block of rows; on a device, starting the work on few rows would take longer than the work.
_BLOCK_BYTES, _DEVICE_BLOCK_BYTES = 16_000_000, 1_000_000_000


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
    """

    def __init__(self, operator: GramOperator, shift: Array, budget: int) -> None:
        n = operator.size
        # Two arrays of the candidates' features at a time, and the small dense problem.
        most = next((p for p in reversed(RANKS) if 64 * p * p <= budget), RANKS[0])
        size = int(min(n, np.clip(budget // (16 * most), 2 * most, CANDIDATES)))
        rng = generator(n, Purpose.PROBE)  # the same rows each time
        rows, index = operator.random_rows(size, rng)
        super().__init__(
            operator.backend, operator.kernel, rows, 1.0 / shift[index], most, rng, operator.offset
        )
        self._scale = len(operator) / len(rows)
        self._sampled_rows = np.sort(
            rng.choice(len(rows), min(len(rows), _EIGENVALUE_ROWS), replace=False)
        )
        points = operator.prepare(rows[self._sampled_rows], EXACT)
        self._root = np.sqrt(self.weight[self._sampled_rows])
        gram = np.asarray(operator.backend.gram(operator.kernel, points), dtype=np.float64)
        # The sampled part of E~, without the first landmarks.
        self._residual_gram, self._explained = self._root[:, None] * gram * self._root, 0
        self._first = generator(0, Purpose.PROBE).normal(size=len(gram))
        self._residual_eigenvalue = 0, 0.0  # at a rank
        self.step = 0

    def residual_eigenvalue(self) -> float:
        """Return an estimate of the largest eigenvalue of ``E~``, the scaled residual of K."""
        if self._residual_eigenvalue[0] != self.rank:
            self._residual_eigenvalue = self.rank, self._largest_left()
        return self._residual_eigenvalue[1]

    def _largest_left(self) -> float:
        # Steps in the same parts, whichever are new: a resumed run computes the same number.
        for stop in RANKS:
            stop = min(stop, self.rank)
            if stop > self._explained:
                low = self._columns[self._explained : stop, self._sampled_rows] * self._root
                self._residual_gram -= low.T @ low
                self._explained = stop
        vector = self._first
        for _ in range(_POWERS):
            vector = self._residual_gram @ (vector / np.linalg.norm(vector))
        share = len(self.rows) / len(vector) * self._scale
        return float(np.linalg.norm(vector)) * share

    @property
    def damping(self) -> float:
        """``mu - 1``: the median of the diagonal of ``E~``."""
        return float(np.median(self.residual_diagonal * self.weight))


class Preconditioner:
    """The operator ``M^-1`` for one diagonal, applied to blocks.

    Parameters
    ----------
    operator : GramOperator
        K; only its rows and its kernel are used.
    shift : ndarray (n,)
        Diagonal D.
    features : KernelFeatures
        Features of the kernel at the landmarks; used in float64.
    mu : float
        Factor, at least 1, that replaces ``I + E~``.

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
    >>> x, kernel, shift = np.linspace(0.0, 1.0, 90)[:, None], RBF(1.0), np.full(90, 0.9)
    >>> operator = GramOperator(get_backend("numpy", kernel), kernel, x, np.dtype("f8"), 10**8)
    >>> landmarks = Landmarks(operator, shift, 10**8)
    >>> landmarks.grow(RANKS[0])
    >>> apply = Preconditioner(operator, shift, landmarks.kernel_features(), 1.0 + landmarks.damping)
    >>> b = np.ones((90, 1))
    >>> np.allclose(kernel(x) @ apply(b) / 0.9 + apply(b), b)
    True
    """

    def __init__(
        self, operator: GramOperator, shift: Array, features: KernelFeatures, mu: float
    ) -> None:
        self._x, self._features, self._mu = operator.x, features, mu
        self._landmarks = features.backend.points(features.pivots, EXACT, features.offset)
        self._scale = 1.0 / np.sqrt(shift)[:, None]
        rank, dim = features.rank, operator.dim
        most = _DEVICE_BLOCK_BYTES if operator.backend.on_device else _BLOCK_BYTES
        self._rows = max(256, min(most, operator.budget // 8) // (8 * (rank + 2 * dim)))
        gram, cross = np.zeros((rank, rank)), np.zeros((rank, 1))
        for rows, x in as_blocks(self._x, self._rows):
            row_features, _, _ = features.of_rows(x, EXACT, keep=True, sizes=False)
            assert row_features.values is not None
            none = np.zeros((len(x), 1))
            features.backend.add_products(row_features.values, none, 1.0 / shift[rows], gram, cross)
        self._factor = scipy.linalg.cho_factor(
            gram + mu * np.eye(rank), lower=True, overwrite_a=True, check_finite=False
        )

    @property
    def rank(self) -> int:
        """Number of landmarks p."""
        return self._features.rank

    def __call__(self, block: Array) -> Array:
        """Return ``M^-1 block`` (n, k)."""
        features, scaled = self._features, self._scale * block
        backend, kernel, offset = features.backend, features.kernel, features.offset
        total = np.zeros((self.rank, block.shape[1]))
        for rows, x in as_blocks(self._x, self._rows):
            points = backend.points(x, EXACT, offset)
            total += backend.matmul(
                kernel, self._landmarks, points, np.ascontiguousarray(scaled[rows])
            )
        total = substituted(features.factor, total)
        inner = scipy.linalg.cho_solve(self._factor, total, check_finite=False)
        at = substituted(features.factor, inner, transposed=True)
        out = scaled  # reuses its memory
        for rows, x in as_blocks(self._x, self._rows):
            points = backend.points(x, EXACT, offset)
            image = backend.matmul(kernel, points, self._landmarks, at)
            out[rows] = (block[rows] - self._scale[rows] * image) / self._mu
        return out
