"""Some rows that stand for all: a small problem whose decisions are those of the whole.

Eigenvalues of ``K / n`` are about the same for any number of rows, and so are the norms that
certificates are made of. So the solvers themselves run on some rows, with ``D = m lam``, while costs and
memory, on which their choices rest, are counted for all: what they do there is what they will do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
from fastmcmd.solvers import LinearProblem

__all__ = ["EPS", "Y_KERNEL", "Subsample", "SubsampleOperator", "SubsampleProblem", "WholeOperator"]

Y_KERNEL = RBF(0.5)  # on outputs of about unit variance: the paper's
EPS = 1e-13  # residual of output features: near rounding, as for small tolerances
_MOST_FEATURES = 200
_SCATTER, _WRONG = (
    0.7,
    0.8,
)  # standard deviation of outputs around their mean; the model's share of it


@dataclass(frozen=True, eq=False)
class Subsample:
    """Rows that stand for ``n``.

    Attributes
    ----------
    n : int
        Rows stood for.
    x : ndarray (m, d)
        Some of them, in random order.
    read_bytes : int
        Bytes of all rows where they lie on disk, else 0.
    on_device : bool
        Whether they lie on the device that works on them.
    distinct : Subsample or None
        The distinct rows, where rows repeat: CG and Cholesky work on these.
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
        """Return fewer rows that stand for the same."""
        return Subsample(self.n, self.x[:count], self.read_bytes, self.on_device)

    def outputs(self) -> tuple[Array, Array]:
        """Return outputs (m,) and a model's draws (m,): a smooth mean, about which both scatter."""
        rng = generator(0, Purpose.PLAN)
        along = np.asarray(self.x @ rng.standard_normal(self.dim), dtype=np.float64)
        spread = float(along.std())
        mean = np.sin((along - along.mean()) / (spread if spread > 0 else 1.0))
        y, drawn = (_SCATTER * rng.standard_normal(len(self)) for _ in range(2))
        return mean + y, _WRONG * mean + drawn

    def samples(self, lam: float) -> tuple[Sample, Sample]:
        """Return nature and a model at these rows."""
        y, drawn = (DrawnOutputs(values[:, None, None]) for values in self.outputs())
        nature = Sample(self.x, y, None, lam)
        return nature, Sample(self.x, drawn, None, lam, nature)

    def features(self) -> tuple[KernelFeatures, Array]:
        """Return features of the outputs, and the right-hand sides (m, r) made of them."""
        y, drawn = self.outputs()
        factored = output_features(
            Y_KERNEL, get_backend("auto", Y_KERNEL), np.concatenate([y, drawn])[:, None], EPS,
            _MOST_FEATURES, None,
        )  # fmt: skip
        assert factored is not None, "an RBF kernel on scalars has low rank"
        features, p, _ = factored
        return features, p[: len(y)] - p[len(y) :]


class SubsampleOperator(GramOperator):
    """The operator of some rows with the costs of all.

    Attributes
    ----------
    work : float
        What the products so far would cost for all rows, in float32 operations.
    """

    def __init__(
        self, rows: Subsample, reserve: Subsample, backend: Backend, kernel: Kernel, dtype: Any,
        budget: int,
    ) -> None:  # fmt: skip
        self._rows, self._reserve = rows, reserve
        self.work = 0.0
        super().__init__(backend, kernel, rows.x, dtype, budget)

    @property
    def size(self) -> int:
        """Rows that costs are counted for."""
        return self._rows.n

    def drawn(self, count: int, rng: np.random.Generator) -> tuple[HostArray, NDArray[np.intp]]:
        """Return rows, from more than the operator has: landmarks are few among all."""
        some = self._reserve.x[:count]
        return some, np.zeros(len(some), dtype=np.intp)  # all have the same diagonal

    @property
    def packed_bytes(self) -> int:
        """Bytes of the packed lower tiles of all rows."""
        return int(np.prod(self.backend.packed_shape(self.size))) * self.dtype.itemsize

    def row_bytes(self, dtype: DType) -> int:
        """Bytes of all rows prepared in ``dtype``."""
        return super().row_bytes(dtype) * self.size // len(self.x)

    @property
    def holds_rows(self) -> bool:
        """Whether all prepared rows fit."""
        need = self.row_bytes(self.dtype) + self._rows.read_bytes
        return self._rows.on_device or need <= self.budget

    def matmul(self, v: Array) -> Array:
        """Return K v, its cost counted."""
        columns = v.shape[1]
        if self._packed is not None:
            self.work += self.cached_cost(columns)
        else:
            self.work += self.streamed_cost(columns) * (1 if self.holds_rows else 2)
        return super().matmul(v)

    def exact_matmul(self, v: Array) -> Array:
        """Return K v in float64, its cost counted."""
        if self.dtype != EXACT:  # else it is a `matmul`
            self.work += self.streamed_cost(v.shape[1], exact=True)
        return super().exact_matmul(v)

    def cross_matmul(self, grid: Any, v: Array, dtype: DType) -> Array:
        """Return K(grid, x) v; of a certificate's rows its cost is counted."""
        if grid is not self.x:
            whole = self.streamed_cost(v.shape[1], exact=dtype == EXACT)
            self.work += 2 * whole * len(grid) / self.size
        return super().cross_matmul(grid, v, dtype)


class WholeOperator(SubsampleOperator):
    """The operator of all rows, of which some are known: it knows its sizes and costs."""

    def __len__(self) -> int:
        return self.size


@dataclass(frozen=True, eq=False, kw_only=True)
class SubsampleProblem(LinearProblem):
    """Systems over some rows, solved as those over all would be.

    Attributes
    ----------
    rows, reserve : Subsample
        Rows of the problem, and those that landmarks are drawn from.
    made : list of SubsampleOperator
        Its operators so far.
    """

    rows: Subsample
    reserve: Subsample
    made: list[SubsampleOperator] = field(default_factory=list)

    def operator(self, dtype: DType, reserved: int = 0) -> GramOperator:
        """Return K of some rows, with the costs of all."""
        operator = SubsampleOperator(
            self.rows, self.reserve, self.backend, self.kernel, dtype, self.budget - reserved
        )
        self.made.append(operator)
        return operator
