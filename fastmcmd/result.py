"""The result of a call: values, their certified error bounds, and how they were computed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastmcmd._base.annotations import AnyArray, HostArray, InputsLike, Json
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import all_finite, as_array, check_choice, check_count, is_cupy, quote
from fastmcmd._base.tables import Notebook
from fastmcmd.errors import NumericalError, ToleranceWarning

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "LEAST_SUPPORT", "Cause", "Info", "NoiseSource", "PointValues", "Result", "on_device_of", "on_host",
]  # fmt: skip

LEAST_SUPPORT = 5.0  # effective rows below which a point has no support


class NoiseSource(Protocol):
    """The interface that computes the noise of a result on demand; see `fastmcmd.inference.chance`."""

    @property
    def noise(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def null_mean(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def effective_rows(self) -> NDArray[np.float64]: ...  # noqa: D102
    @property
    def landmarks(self) -> int: ...  # noqa: D102
    @property
    def approximation(self) -> float: ...  # noqa: D102
    @property
    def quick_support(self) -> NDArray[np.bool_] | None: ...  # noqa: D102


CauseKind = Literal["kernel values", "quadrature", "output features", "rounding"]
# The beginning of a note on each cause, and what helps.
_CAUSES: dict[CauseKind, tuple[str, str]] = {
    "kernel values": (
        "x_kernel has values up to",
        "scale the columns of x to unit variance, or use a larger lam",
    ),
    "quadrature": (
        "quadrature of the predicted distributions leaves",
        "use a smoother y_kernel, a larger lam or tol, or draws=100, say",
    ),
    "output features": (
        "output features of y_kernel miss",
        "use a wider y_kernel, a larger lam or a larger tol",
    ),
    "rounding": (
        "rounding in float64 alone leaves",
        "float64 rounding is what is left; use a larger lam or a larger tol",
    ),
}


@dataclass(frozen=True)
class Cause:
    """What makes up most of an error bound that exceeds ``tol``.

    Attributes
    ----------
    kind : {"kernel values", "quadrature", "output features", "rounding"}
        Very large values of ``x_kernel``, whose rounding is as large; numerical integrals of the predicted
        distributions; the rank of the features of ``y_kernel``; or rounding in float64 alone.
    size : float
        The largest value of ``x_kernel``, or the part of the error.
    """

    kind: CauseKind
    size: float

    @property
    def note(self) -> str:
        """The cause in words."""
        return f"{_CAUSES[self.kind][0]} {self.size:.1e}"

    @property
    def advice(self) -> str:
        """The cause, and how to reduce the error."""
        help_text = _CAUSES[self.kind][1]
        return help_text if self.kind == "rounding" else f"{self.note}: {help_text}"


@dataclass(frozen=True)
class Info:
    """How a result was computed.

    Attributes
    ----------
    solver : str
        "cholesky", "cg" or "lowrank".
    form : str
        "feature" (low rank of the output kernel) or "dense".
    backend, dtype, cache : str
        Backend that computed the tiles, final precision, and storage of the tiles: "packed" in memory,
        "quantized" (packed in 16 bits, where that hardly adds to the error), "partly packed" or "partly
        quantized" (those that ``memory_limit`` holds), on "disk" (a Cholesky factor read from a file), or
        "streamed".
    certificate : str
        Kind of the error bound: "rigorous", or "sampled" if the residual was estimated from randomly drawn
        rows (256, in addition to those where rounding is probably largest; with four standard errors).
    n, n_prime : int
        Numbers of distinct inputs of the two samples.
    rank : int
        Number of features of the output kernel (0 in dense form).
    iterations, passes : int
        Number of products of the solver with the Gram matrix, and of all products including certificates.
    seconds : float
        Wall time.
    peak_bytes : int
        Largest memory, beyond the inputs, that the plan allowed.
    notes : tuple of str
        Notes on deviations from the first choice, with reasons.
    landmarks : int
        Number of landmarks of the low-rank solver (0 for other solvers).
    device : str
        Devices of backend "cupy", and whether products were split for tensor cores; "" for other backends.
    cause : Cause or None
        What makes up most of an error bound that exceeds ``tol``; None if it does not, or if the choice of
        solver or precision does.
    suspicions : tuple of str
        Those of the notes that doubt the arguments: outcomes far outside the predictions.
    advice : str
        What reduces an error bound that exceeds ``tol``; "" if the bound does not.
    """

    solver: str
    form: str
    backend: str
    dtype: str
    cache: str
    certificate: str
    n: int
    n_prime: int
    rank: int
    iterations: int
    passes: int
    seconds: float
    peak_bytes: int
    notes: tuple[str, ...] = ()
    landmarks: int = 0
    device: str = ""
    cause: Cause | None = None
    suspicions: tuple[str, ...] = ()
    advice: str = ""

    def to_dict(self) -> Json:
        """Return the fields, JSON-safe."""
        texts = {name: list(getattr(self, name)) for name in ("notes", "suspicions")}
        return {**asdict(self), **texts}


class PointValues(Notebook):
    """Base class of results with values at points: conversion to an array, mean and quantiles.

    Attributes
    ----------
    values : ndarray (q,)
        The value at each point.
    """

    values: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(self.values.mean())

    def quantile(self, level: ArrayLike) -> Any:
        """Return quantiles of the values at ``level`` (scalar or array, in [0, 1])."""
        levels = as_array(level, "level")
        if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise ValueError(
                f"level is {quote(level)}; a number or numbers (j,) in [0, 1] are needed"
            )
        return np.quantile(on_host(self.values), levels)

    def _named_quantiles(self) -> dict[str, float]:
        """Return the 5, 25, 50, 75 and 95 % quantiles of the values, by name."""
        levels = (5, 25, 50, 75, 95)
        values = self.quantile(np.divide(levels, 100))
        return {f"q{level:02d}": float(v) for level, v in zip(levels, values, strict=True)}

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> HostArray:
        """Return the values, for ``np.asarray(result)``."""
        if copy is False and dtype not in (None, self.values.dtype):
            raise ValueError("a copy is needed to change the dtype")
        return np.array(on_host(self.values), dtype=dtype, copy=bool(copy) or None)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False, repr=False)
class Result(PointValues):
    """Values of the MCMD or the CCE at points, with certified error bounds.

    Attributes
    ----------
    values : ndarray (q,)
        The nonnegative estimate at each point; a CuPy array if the inputs were one.
    error_bounds : ndarray (q,)
        Bound on the error of each value relative to the exact estimate, in the same kind of array.
    tol : float
        The requested tolerance.
    info : Info
        How the values were computed.
    name : str
        "MCMD" or "CCE".
    source : NoiseSource or None
        The data from which `null_mean`, `excess` and `effective_rows` are computed on first access. It
        holds references to the arrays, not copies: do not change the arrays before that. A copy of the
        result keeps the source; a pickled result does not.

    Notes
    -----
    With the coefficients c_i(x) of the rows, ``CCE(x)^2 = |sum_i c_i(x) e_i|^2``, where e_i is the
    embedding of the outcome y_i minus that of its prediction; see ``docs/theory.md``, "Inference".
    Coefficients are exact up to 2,000 distinct inputs. Beyond that, `null_mean`, `excess` and
    `effective_rows` use 256 to 1,000 landmarks in x; ``source.landmarks`` is their number, and
    ``source.approximation`` the change of the sums when half of them are used.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> x = np.random.default_rng(0).normal(size=200)
    >>> y = x + np.random.default_rng(1).normal(size=200)
    >>> result = fm.cce(x, y, fm.Gaussian(x, 1.0))
    >>> result.values.shape, bool((result.error_bounds < 1e-6).all())
    ((200,), True)
    >>> row = result.worst(1)[0]  # the input where the model is most wrong
    >>> bool(result.excess[row] >= np.median(result.excess))
    True
    """

    values: NDArray[np.float64]
    error_bounds: NDArray[np.float64]
    tol: float
    info: Info
    name: str = field(default="MCMD")
    source: NoiseSource | None = field(default=None, repr=False)

    @staticmethod
    def of(
        values: NDArray[np.float64],
        error_bounds: NDArray[np.float64],
        tol: float,
        info: Info,
        name: str,
        points: str = "here",
        source: NoiseSource | None = None,
    ) -> Result:
        """Return a result, and warn if its error is not certified to be within ``tol``.

        ``points`` describes the points in an error message.
        """
        worst = float(error_bounds.max())
        if not (math.isfinite(worst) and all_finite(values)):
            raise NumericalError(
                f"the {name} cannot be computed {points}: its certified error is {worst:g} "
                f"({_extreme(info)}); scale the columns of x to unit variance, and y with the "
                "prediction (y_prime), and choose kernel parameters in these units"
            )
        if not worst <= tol:
            warnings.warn(
                f"the error of the {name} is certified to be at most {worst:.1e} only, above "
                f"tol={tol:.0e}: {_advice(info)}",
                ToleranceWarning,
                stacklevel=5,
            )
        return Result(values, error_bounds, tol, info, name, source)

    def _noise_source(self) -> NoiseSource:
        if self.source is not None:
            return self.source
        if self.name != "CCE":
            raise ValueError(
                f"{self.name} compares two samples: there is no model that could be right; use fastmcmd.cce"
            )
        raise ValueError(
            "this result was loaded or pickled without the data; compute the CCE again, or read null_mean, "
            "excess and effective_rows before it is pickled, which keeps them"
        )

    @cached_property
    def null_mean(self) -> NDArray[np.float64]:
        """Expectation of CCE^2 (q,) at each point for a right model: ``sum_i c_i(x)^2 V_i``.

        V_i is the variance of the prediction of row i in the space of the output kernel.
        """
        return self._noise_source().null_mean

    @cached_property
    def excess(self) -> NDArray[np.float64]:
        """CCE^2 minus its noise (q,), ``CCE(x)^2 - sum_i c_i(x)^2 |e_i|^2``: a signed U-statistic.

        It is an unbiased estimate of ``sum_{i != j} c_i c_j <E e_i, E e_j>``, the smoothed squared misfit,
        whatever the true distribution is.
        """
        noise = self._noise_source().noise
        return np.asarray(on_host(self.values) ** 2 - noise)

    @cached_property
    def effective_rows(self) -> NDArray[np.float64]:
        """Support (q,): ``(c(x)'k(x) / k(x, x))^2 / sum_i c_i(x)^2``.

        This many rows at x itself would detect a misfit at x equally well. If all rows near x are m rows at
        x, it is m; far from all rows it is 0. Points with fewer than 5 have no support: plots show them in
        grey.
        """
        return self._noise_source().effective_rows

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling: all computed results, without the data."""
        return {**self.__dict__, "source": None}

    def __copy__(self) -> Result:
        """Return a copy that shares the arrays and the data."""
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __deepcopy__(self, memo: dict[int, object]) -> Result:
        """Return a copy that shares the data."""
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        for name, value in self.__dict__.items():
            copied.__dict__[name] = value if name == "source" else deepcopy(value, memo)
        return copied

    def _computed(self) -> dict[str, NDArray[np.float64]]:
        """Return the lazy columns that have been computed."""
        names = ("null_mean", "excess", "effective_rows")
        return {name: self.__dict__[name] for name in names if name in self.__dict__}

    def best(self, k: int = 10, by: str = "excess") -> NDArray[np.intp]:
        """Return the indices of the k points with the smallest excess (or value), the smallest first.

        Parameters
        ----------
        k : int
            Number of points; all points if there are fewer.
        by : {"excess", "value"}
            Rank by `excess`, which accounts for noise, or by the CCE itself. With "excess", points with
            fewer than 5 `effective_rows` come after all others.
        """
        return self._ranked(by, False)[: check_count(k, "k")]

    def worst(self, k: int = 10, by: str = "excess") -> NDArray[np.intp]:
        """Return the indices of the k points with the largest excess (or value), the largest first.

        Parameters
        ----------
        k, by
            As in `best`.
        """
        return self._ranked(by, True)[: check_count(k, "k")]

    def _ranked(self, by: str, largest: bool) -> NDArray[np.intp]:
        check_choice(by, "by", ("excess", "value"))
        key = self.excess if by == "excess" else on_host(self.values)
        order = np.argsort(-key if largest else key, kind="stable")
        if by == "excess":
            unsupported = self.effective_rows[order] < LEAST_SUPPORT
            order = order[np.argsort(unsupported, kind="stable")]
        return order

    @property
    def error_bound(self) -> float:
        """Largest of the error bounds."""
        return float(self.error_bounds.max())

    @property
    def vague(self) -> str:
        """Why the mean is meaningless, if its error bound exceeds both ``tol`` and the mean; else ""."""
        bound = float(on_host(self.error_bounds).mean())
        if self.error_bound <= self.tol or bound < self.mean:
            return ""
        return f"its error bound, {bound:.1e}, exceeds it ({_advice(self.info)})"

    def to_dict(self) -> Json:
        """Return a JSON-safe summary: mean, quantiles, error bound and settings."""
        return {
            "name": self.name,
            "n": len(self.values),
            "mean": self.mean,
            "min": float(self.values.min()),
            **self._named_quantiles(),
            "max": float(self.values.max()),
            "error_bound": self.error_bound,
            "tol": self.tol,
            "info": self.info.to_dict(),
        }

    def to_frame(self, index: object = None) -> pd.DataFrame:
        """Return values and error bounds of all points as a pandas frame, with an optional ``index``.

        The frame includes `null_mean`, `excess`, `effective_rows` and whether a point has support if these
        were computed before.
        """
        from fastmcmd.frames import to_frame

        values, errors = on_host(self.values), on_host(self.error_bounds)
        columns: dict[str, HostArray] = {
            self.name.lower(): values,
            "error_bound": errors,
            **self._computed(),
        }
        if "effective_rows" in columns:
            columns["supported"] = columns["effective_rows"] >= LEAST_SUPPORT
        return to_frame(columns, index)

    def plot(self, x: InputsLike | None = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Plot the values over inputs ``x`` (or their histogram), with matplotlib.

        Points without support are grey, unless that would take more than a few seconds: for more than
        100,000 rows or points, and for results without their data, only if `effective_rows` was computed
        before.
        """
        from fastmcmd import plots

        if "supported" not in options and (supported := self._supported()) is not None:
            options["supported"] = supported
        if x is None:
            return plots.cce_histogram(on_host(self.values), ax=ax, **options)
        return plots.cce_over_inputs(x, on_host(self.values), ax=ax, **options)

    def _supported(self) -> NDArray[np.bool_] | None:
        """Return the mask (q,) of points with support; None if it is not known, or takes long."""
        if "effective_rows" in self.__dict__:
            return np.asarray(self.effective_rows >= LEAST_SUPPORT)
        return None if self.source is None else self.source.quick_support

    def with_notes(self, notes: Sequence[str]) -> Result:
        """Return a copy with additional notes in ``info``."""
        if not notes:
            return self
        return replace(self, info=replace(self.info, notes=(*self.info.notes, *notes)))

    def with_suspicions(self, suspicions: Sequence[str]) -> Result:
        """Return a copy with additional notes that doubt the arguments."""
        if not suspicions:
            return self
        info = replace(self.info, suspicions=(*self.info.suspicions, *suspicions))
        return replace(self, info=info).with_notes(suspicions)

    def __repr__(self) -> str:
        low, middle, high = self.quantile([0.05, 0.5, 0.95])
        info = self.info
        landmarks = f", {info.landmarks:,} landmarks" if info.landmarks else ""
        products = f", {info.iterations} iterations" if info.iterations else ""
        where = f"{info.backend} ({info.device})" if info.device else info.backend
        lines = [
            f"{self.name} at {len(self.values):,} points: mean {self.mean:.6g}",
            f"  5 / 50 / 95 %: {low:.4g} / {middle:.4g} / {high:.4g}",
        ]
        if self.vague:
            lines = [f"{self.name} at {len(self.values):,} points: mean not known, {self.vague}"]
        lines += self._lines_on_noise()
        lines += [
            f"  error <= {self.error_bound:.1e} ({info.certificate}), tol {self.tol:.0e}",
            f"  solver {info.solver}, {where}, {info.dtype}{landmarks}{products}",
        ]
        lines += [f"  {suspicion}" for suspicion in info.suspicions]
        return "\n".join(lines)

    def _lines_on_noise(self) -> list[str]:
        """Return a line on the computed noise columns: root mean squares in the unit of the CCE."""
        columns = self._computed()
        parts = []
        if "null_mean" in columns:
            root = float(np.sqrt(np.mean(on_host(self.values) ** 2)))
            parts.append(
                f"root mean square {root:.4g}, a right model: {np.sqrt(columns['null_mean'].mean()):.4g}"
            )
        if "excess" in columns:
            parts.append(f"mean excess of its square {columns['excess'].mean():.4g}")
        if "effective_rows" in columns:
            bare = int((columns["effective_rows"] < LEAST_SUPPORT).sum())
            parts.append(f"{bare:,} points without support" if bare else "all points have support")
        return [f"  {'; '.join(parts)}"] if parts else []


def on_host(values: AnyArray) -> NDArray[np.float64]:
    """Return an array as a NumPy array."""
    return np.asarray(values.get() if is_cupy(values) else values)


def on_device_of(result: Result, array: AnyArray) -> Result:
    """Return the result with CuPy arrays on the device of ``array``, if that is a CuPy array."""
    if not is_cupy(array):
        return result
    import cupy

    with array.device:
        values, errors = cupy.asarray(result.values), cupy.asarray(result.error_bounds)
    return replace(result, values=values, error_bounds=errors)


def _extreme(info: Info) -> str:
    """Return why no error could be certified."""
    if info.dtype == "float32":
        return "kernel values, or what they are made of, leave the range of float32"
    return "kernel values, or what they are made of, leave the range of float64"


def _advice(info: Info) -> str:
    if info.cause is not None:
        return info.cause.advice
    return info.advice or "use a larger lam or a larger tol"
