"""Subsamples: some rows as a small problem whose decisions are those of all rows.

Eigenvalues of ``K / n`` are about the same for any number of rows, and so are the norms behind
certificates. So the solvers themselves run on m rows, with ``D = m lam``. Costs and memory, which determine
their choices, are counted for all rows: the solvers choose as they will for all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, DType, HostArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.backends.base import Backend
from fastmcmd.backends.tall_skinny import cholesky_factor, inner, substituted
from fastmcmd.embedding.design import distinct_rows
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures
from fastmcmd.gram.cost import FEWEST_PRODUCTS
from fastmcmd.kernels import RBF, Kernel, Scaled
from fastmcmd.planning.observed_outputs import MOST_FEATURES, ObservedOutputs
from fastmcmd.rows import Rows
from fastmcmd.solvers import LinearProblem, ProblemSize

__all__ = [
    "EPS", "ScaledRows", "Subsample", "SubsampleOperator", "SubsampleProblem", "WholeOperator",
]  # fmt: skip

# The default kernel on outputs that scatter as below.
_Y_KERNEL = 0.5 * RBF(0.5) + 0.5 * RBF(1.0)
EPS = 1e-13  # residual of output features: near rounding, as for small tolerances
# Standard deviation of made-up outputs around their mean; factor of the mean in the model.
_SCATTER, _WRONG = 0.7, 0.8
_FARTHEST = 100  # rows far from all others
_MOST_NUMBERS, _BLOCK = 20_000_000, 1 << 20  # numbers that are read for them, in all and at a time
_NARROW = 64  # most columns of a linear fit by normal equations
_ROWS_OF_LANDMARK = 5  # of a preconditioner, at least
_FITTED, _RIDGE = 1000, 0.1  # rows of a linear fit; its ridge, relative to the mean eigenvalue


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows in memory whose columns are scaled when some are taken."""

    rows: HostArray
    scaled: Scaled

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (n, d)."""
        return self.rows.shape

    def __getitem__(self, index: NDArray[np.intp]) -> HostArray:
        return self.scaled.rows(self.rows[index])


@dataclass(frozen=True, eq=False)
class Subsample:
    """A sample of rows that represents all ``n``.

    Attributes
    ----------
    n : int
        Number of rows that the sample represents.
    x : ndarray (m, d)
        Some of the rows, in random order.
    read_bytes : int
        Bytes of all rows if they are on disk, else 0.
    on_device : bool
        Whether the rows are on the device that processes them.
    outcomes : ObservedOutputs or None
        Outputs at these rows; None makes some up.
    all_rows : ndarray (n, d) or None
        All rows, if they are in memory.
    scaled : Scaled or None
        Kernel that scales the columns of ``all_rows``, if ``x`` is scaled; scaling all rows may take longer
        than a plan.
    made_up : bool
        Whether ``x`` are random rows for a shape.
    """

    n: int
    x: HostArray
    read_bytes: int = 0
    on_device: bool = False
    outcomes: ObservedOutputs | None = None
    all_rows: HostArray | None = None
    scaled: Scaled | None = None
    made_up: bool = False

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, place: slice) -> HostArray:
        return self.x[place]

    @property
    def dim(self) -> int:
        """Number of columns d."""
        return int(self.x.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (n, d) of all rows."""
        return self.n, self.dim

    def some(self, count: int) -> Subsample:
        """Return fewer rows that represent the same n."""
        if count >= len(self):
            return self
        outcomes = None if self.outcomes is None else self.outcomes.take(slice(0, count))
        return replace(self, x=self.x[:count], outcomes=outcomes)

    @cached_property
    def distinct(self) -> Subsample:
        """The distinct rows, which CG and Cholesky use; the same object if no rows repeat."""
        first, group = distinct_rows(self.x)
        if self.all_rows is None or group is None:
            return self
        outcomes = None if self.outcomes is None else self.outcomes.take(first)
        n = len(distinct_rows(self._scaled_rows(self.all_rows))[0])
        return replace(self, n=n, x=self.x[first], outcomes=outcomes, all_rows=None)

    def _scaled_rows(self, rows: HostArray) -> HostArray:
        return rows if self.scaled is None else self.scaled.rows(rows)

    @property
    def every(self) -> HostArray | ScaledRows:
        """All rows if they are in memory, else some."""
        if self.all_rows is None:
            return self.x
        return self.all_rows if self.scaled is None else ScaledRows(self.all_rows, self.scaled)

    def farthest(self) -> HostArray:
        """Return the rows in memory that are farthest from the mean; of very many numbers, some rows."""
        if self.all_rows is None:
            return self.x[:0]
        rows = self.all_rows[:: max(1, self.all_rows.size // _MOST_NUMBERS)]
        mean, step = self.x.mean(axis=0), max(1, _BLOCK // self.dim)
        squares = np.empty(len(rows))
        for start in range(0, len(rows), step):
            gaps = self._scaled_rows(rows[start : start + step]) - mean
            squares[start : start + step] = np.einsum("ij,ij->i", gaps, gaps)
        most = min(len(rows), _FARTHEST)
        return self._scaled_rows(np.asarray(rows[np.argpartition(-squares, most - 1)[:most]]))

    @property
    def y_kernel(self) -> Kernel:
        """Kernel on outputs."""
        return _Y_KERNEL if self.outcomes is None else self.outcomes.kernel

    def outputs(self) -> tuple[Array, Array]:
        """Return outputs (m, 1, k) and a model's draws (m, l, k); both scatter around smooth means.

        Two draws scatter less than one, and more than a predicted distribution. If there are observed
        outputs but no predictions, draws are the outputs of the two rows that are nearest in the direction
        of a linear fit: as far as that fit explains the outputs, such a model is right.
        """
        return self._outputs

    @cached_property
    def _outputs(self) -> tuple[Array, Array]:
        if self.outcomes is not None:
            y, predicted = self.outcomes.y.astype(np.float64, copy=False), self.outcomes.draws()
            if predicted is not None:
                return y[:, None, :], predicted
            draws, order = np.empty((len(self), 2, y.shape[1])), np.argsort(self._fitted(y[:, 0]))
            draws[order] = np.stack([y[np.roll(order, 1)], y[np.roll(order, -1)]], axis=1)
            return y[:, None, :], draws
        rng = generator(0, Purpose.PLAN)
        along = np.einsum("ij,j->i", self.x, rng.standard_normal(self.dim))
        spread = float(along.std())
        mean = np.sin((along - along.mean()) / (spread if spread > 0 else 1.0))[:, None, None]
        y, draws = (_SCATTER * rng.standard_normal((len(self), count, 1)) for count in (1, 2))
        return mean + y, _WRONG * mean + draws

    def _fitted(self, y: Array) -> Array:
        """Return the values (m,) of a linear fit, up to a constant."""
        some = np.asarray(self.x[:_FITTED], dtype=np.float64)
        some = some - some.mean(axis=0)
        slope = inner(some, (y[:_FITTED] - y[:_FITTED].mean())[:, None])[:, 0]
        if self.dim <= _NARROW:  # else this direction of steepest descent serves
            square = inner(some, some)
            ridge = _RIDGE * max(float(np.trace(square)) / self.dim, 1e-300)
            factor = cholesky_factor(square + ridge * np.eye(self.dim))
            slope = substituted(factor, substituted(factor, slope[:, None]), transposed=True)[:, 0]
        return np.einsum("ij,j->i", self.x, slope)

    def samples(self, lam: float, count: int | None = None) -> tuple[Sample, Sample]:
        """Return nature and a model at these rows, with ``count`` draws of each row if that is given."""
        y, draws = (DrawnOutputs(values[:, :count]) for values in self.outputs())
        nature = Sample(self.x, y, None, lam)
        return nature, Sample(self.x, draws, None, lam, nature)

    def features(self) -> tuple[KernelFeatures, Array]:
        """Return features of the outputs, and the right-hand sides (m, r) from them."""
        values, kernel = np.concatenate(self.outputs(), axis=1), self.y_kernel
        m, count, k = values.shape
        flat = values.reshape(-1, k)
        features = None if self.outcomes is None else self.outcomes.features
        if features is not None:
            p = features.transform(flat)
        else:
            factored = output_features(
                kernel, get_backend("auto", kernel), flat, EPS, MOST_FEATURES, None
            )
            assert factored is not None, "the kernel has low rank on these outputs"
            features, p, _ = factored
        p = p.reshape(m, count, -1)
        return features, p[:, 0] - p[:, 1:].mean(axis=1)


class SubsampleOperator(GramOperator):
    """The kernel operator of some rows with the costs of all rows.

    Attributes
    ----------
    work : float
        Cost of the products so far if made for all rows, in float32 operations.
    fresh_bytes : int
        Memory that tiles of all rows use for the first time.
    """

    def __init__(
        self, rows: Subsample, reserve: Subsample, backend: Backend, kernel: Kernel, dtype: DType,
        budget: int, products: float = FEWEST_PRODUCTS, search_bytes: int = 0,
    ) -> None:  # fmt: skip
        self._rows, self._reserve = rows, reserve
        self.work, self.fresh_bytes = 0.0, 0
        super().__init__(backend, kernel, rows.x, dtype, budget, products, search_bytes)

    @property
    def size(self) -> int:
        """Number of rows that costs are counted for."""
        return self._rows.n

    @property
    def most_landmarks(self) -> int:
        """Largest number of landmarks: a fifth of the rows that represent others.

        More of them would reproduce the candidates, and leave less than they do among all rows.
        """
        every = len(self._reserve)
        return super().most_landmarks if every == self.size else every // _ROWS_OF_LANDMARK

    def random_rows(
        self, count: int, rng: np.random.Generator
    ) -> tuple[HostArray, NDArray[np.intp]]:
        """Return rows from a larger subsample than the operator's: landmarks are few among all rows.

        They are at most half of these rows if there are more: two draws from all rows share few.
        """
        every = self._reserve.x
        most = len(every) if len(every) == self.size else len(every) // 2
        index = np.sort(rng.choice(len(every), min(count, most), replace=False))
        return every[index], np.zeros(len(index), dtype=np.intp)  # all have the same diagonal

    @property
    def rounding_share(self) -> float:
        """Rounding of a scaled residual for all rows, relative to that for these.

        Sums over more rows average more roundings, of smaller coefficients.
        """
        return math.sqrt(len(self.x) / self.size)

    @property
    def packed_bytes(self) -> int:
        """Bytes of the packed lower tiles of all rows."""
        return math.prod(self.backend.packed_shape(self.size)) * self.dtype.itemsize

    def row_bytes(self, dtype: DType) -> int:
        """Bytes of all rows prepared in ``dtype``."""
        return super().row_bytes(dtype) * self.size // len(self.x)

    @property
    def holds_rows(self) -> bool:
        """Whether all prepared rows fit."""
        need = self.row_bytes(self.dtype) + self._rows.read_bytes
        return self._rows.on_device or need <= self.budget

    def matmul(self, v: Array, *, exact: bool = False) -> Array:
        """Return K v, and count its cost."""
        columns, times = v.shape[1], 1
        if exact and self.dtype != EXACT:
            self.work += self.streamed_cost(columns, exact=True)
        elif self._packed is not None:
            self.work += self.product_cost(columns)
        else:
            times = 1 if self.holds_rows else 2
            self.work += times * self.streamed_cost(columns)
            self.fresh_bytes += self.tile_bytes
        return super().matmul(v, exact=exact)

    def cross_matmul(self, grid: HostArray | Rows, v: Array, dtype: DType) -> Array:
        """Return K(grid, x) v, and count its cost if ``grid`` holds a certificate's rows."""
        if grid is self.x:
            return super().cross_matmul(grid, v, dtype)
        full_cost = self.streamed_cost(v.shape[1], exact=dtype == EXACT)
        self.work += 2 * full_cost * len(grid) / self.size
        return super().cross_matmul(grid, v, dtype)


class WholeOperator(SubsampleOperator):
    """The operator of all rows, known by its sizes and costs only."""

    def __len__(self) -> int:
        return self.size


@dataclass(frozen=True, eq=False, kw_only=True)
class SubsampleProblem(LinearProblem):
    """Systems over some rows, solved with the decisions for all rows.

    Attributes
    ----------
    rows, reserve : Subsample
        Rows of the problem, and rows from which landmarks are drawn.
    columns : int
        Number of right-hand sides that costs are counted for.
    operators : list of SubsampleOperator
        Operators of the problem so far.
    """

    rows: Subsample
    reserve: Subsample
    columns: int
    operators: list[SubsampleOperator] = field(default_factory=list)

    def operator(self, dtype: DType, search_bytes: int = 0) -> GramOperator:
        """Return K over the subsample, with the costs of all rows."""
        operator = SubsampleOperator(
            self.rows, self.reserve, self.backend, self.kernel, dtype, self.budget - search_bytes,
            self.products, search_bytes,
        )  # fmt: skip
        self._permit_quantized(operator)
        self.operators.append(operator)
        return operator

    def size(self, operator: GramOperator) -> ProblemSize:
        """Return the sizes that costs depend on, with all right-hand sides."""
        return replace(super().size(operator), columns=(self.columns,))
