"""Subsamples: some rows as a small problem whose decisions are those of all rows.

Eigenvalues of ``K / n`` are about the same for any number of rows, and so are the norms behind
certificates. So the solvers themselves run on m rows, with ``D = m lam``. Costs and memory, which determine
their choices, are counted for all rows: the solvers choose as they will for all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, DType, HostArray
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.backends.base import Backend
from fastmcmd.embedding.features import output_features
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.gram import EXACT, GramOperator, KernelFeatures
from fastmcmd.kernels import RBF, Kernel
from fastmcmd.rows import Rows
from fastmcmd.solvers import LinearProblem

__all__ = ["EPS", "Y_KERNEL", "Subsample", "SubsampleOperator", "SubsampleProblem", "WholeOperator"]

Y_KERNEL = RBF(0.5)  # the paper's kernel on outputs, for about unit variance
EPS = 1e-13  # residual of output features: near rounding, as for small tolerances
_MOST_FEATURES = 200
_SCATTER, _WRONG = (
    0.7,
    0.8,
)  # standard deviation of outputs around their mean; factor of the mean in the model


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
    distinct : Subsample or None
        The distinct rows, if rows repeat: CG and Cholesky use these.
    """

    n: int
    x: HostArray
    read_bytes: int = 0
    on_device: bool = False
    distinct: Subsample | None = None

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
        return Subsample(self.n, self.x[:count], self.read_bytes, self.on_device)

    def outputs(self) -> tuple[Array, Array]:
        """Return outputs (m,) and a model's draws (m,); both scatter around smooth means."""
        rng = generator(0, Purpose.PLAN)
        along = np.asarray(self.x @ rng.standard_normal(self.dim), dtype=np.float64)
        spread = float(along.std())
        mean = np.sin((along - along.mean()) / (spread if spread > 0 else 1.0))
        y, draws = (_SCATTER * rng.standard_normal(len(self)) for _ in range(2))
        return mean + y, _WRONG * mean + draws

    def samples(self, lam: float) -> tuple[Sample, Sample]:
        """Return nature and a model at these rows."""
        y, draws = (DrawnOutputs(values[:, None, None]) for values in self.outputs())
        nature = Sample(self.x, y, None, lam)
        return nature, Sample(self.x, draws, None, lam, nature)

    def features(self) -> tuple[KernelFeatures, Array]:
        """Return features of the outputs, and the right-hand sides (m, r) from them."""
        y, draws = self.outputs()
        factored = output_features(
            Y_KERNEL, get_backend("auto", Y_KERNEL), np.concatenate([y, draws])[:, None], EPS,
            _MOST_FEATURES, None,
        )  # fmt: skip
        assert factored is not None, "an RBF kernel on scalars has low rank"
        features, p, _ = factored
        return features, p[: len(y)] - p[len(y) :]


class SubsampleOperator(GramOperator):
    """The kernel operator of some rows with the costs of all rows.

    Attributes
    ----------
    work : float
        Cost of the products so far if made for all rows, in float32 operations.
    """

    def __init__(
        self, rows: Subsample, reserve: Subsample, backend: Backend, kernel: Kernel, dtype: DType,
        budget: int,
    ) -> None:  # fmt: skip
        self._rows, self._reserve = rows, reserve
        self.work = 0.0
        super().__init__(backend, kernel, rows.x, dtype, budget)

    @property
    def size(self) -> int:
        """Number of rows that costs are counted for."""
        return self._rows.n

    def random_rows(
        self, count: int, rng: np.random.Generator
    ) -> tuple[HostArray, NDArray[np.intp]]:
        """Return rows from a larger subsample than the operator's: landmarks are few among all rows."""
        some = self._reserve.x[:count]
        return some, np.zeros(len(some), dtype=np.intp)  # all have the same diagonal

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
        columns = v.shape[1]
        if exact and self.dtype != EXACT:
            self.work += self.streamed_cost(columns, exact=True)
        elif self._packed is not None:
            self.work += self.cached_cost(columns)
        else:
            self.work += self.streamed_cost(columns) * (1 if self.holds_rows else 2)
        return super().matmul(v, exact=exact)

    def cross_matmul(self, grid: HostArray | Rows, v: Array, dtype: DType) -> Array:
        """Return K(grid, x) v, and count its cost if ``grid`` holds a certificate's rows."""
        if grid is not self.x:
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
    operators : list of SubsampleOperator
        Operators of the problem so far.
    """

    rows: Subsample
    reserve: Subsample
    operators: list[SubsampleOperator] = field(default_factory=list)

    def operator(self, dtype: DType, reserved: int = 0) -> GramOperator:
        """Return K over the subsample, with the costs of all rows."""
        operator = SubsampleOperator(
            self.rows, self.reserve, self.backend, self.kernel, dtype, self.budget - reserved
        )
        self.operators.append(operator)
        return operator
