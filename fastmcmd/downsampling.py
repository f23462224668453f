"""The CCE estimated from subsamples, as published, with its spread over repeated subsamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from fastmcmd._base.annotations import (
    CertificateName,
    Encoder,
    FilePath,
    InputsLike,
    Json,
    MemoryLimit,
    RandomState,
    SolverName,
)
from fastmcmd._base.checks import (
    as_rows,
    as_weights,
    check_choice,
    check_count,
    check_same_length,
)
from fastmcmd._base.memory import parse_memory
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.cce import cce
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.estimate.arguments import common_dtype, resolved_kernels, scaled_inputs
from fastmcmd.estimate.samples import encoded
from fastmcmd.frames import check_row_order
from fastmcmd.kernels import Kernel
from fastmcmd.predictive import Categorical, as_predictive
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.result import Info, PointValues
from fastmcmd.rows import open_rows
from fastmcmd.subsample import along, leverage, stratified, uniform

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DownsampledResult", "downsampled_cce"]

METHODS = ("uniform", "stratified", "leverage")

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class DownsampledResult(PointValues):
    """The CCE estimated from repeated subsamples, at the same points each time.

    Attributes
    ----------
    values : ndarray (q,)
        Mean over the repeats of the CCE at each point.
    std : ndarray (q,)
        Standard deviation (ddof=1) over the repeats: the scatter of the estimate from *one* subsample about
        the mean. NaN for a single repeat. It does not include the bias of subsampling, see
        ``docs/downsampling.md``.
    means : ndarray (repeats,)
        Mean CCE over the points, for each repeat.
    rows, weights : ndarray (repeats, size)
        Rows of each subsample in ascending order, and their weights, which multiply the caller's weights.
        With these, ``fm.cce`` reproduces the estimate of that repeat.
    error_bound : float
        Largest certified error of a value in any repeat, relative to the exact estimate of its subsample.
    tol : float
        The requested tolerance.
    n : int
        Number of rows with positive weight, from which subsamples are drawn.
    method : str
        "uniform", "stratified" or "leverage".
    info : tuple of Info
        How each repeat was computed.
    """

    values: Floats
    std: Floats
    means: Floats
    rows: NDArray[np.intp]
    weights: Floats
    error_bound: float
    tol: float
    n: int
    method: str
    info: tuple[Info, ...]

    @property
    def size(self) -> int:
        """Number of rows k of a subsample."""
        return self.rows.shape[1]

    @property
    def repeats(self) -> int:
        """Number of subsamples."""
        return len(self.means)

    @property
    def mean_std(self) -> float:
        """Standard deviation (ddof=1) over repeats of the mean CCE; NaN for a single repeat."""
        if self.repeats == 1:
            return float("nan")
        return float((self.means - self.means[0]).std(ddof=1))  # shifted: equal means give 0

    @property
    def certificate(self) -> str:
        """Kind of ``error_bound``: "sampled" if the bound of any repeat is sampled, else "rigorous"."""
        kinds = {info.certificate for info in self.info}
        return "sampled" if "sampled" in kinds else "rigorous"

    @property
    def seconds(self) -> float:
        """Wall time of all repeats."""
        return sum(info.seconds for info in self.info)

    def to_dict(self) -> Json:
        """Return a JSON-safe summary; for a single repeat, spreads are None."""
        repeated = self.repeats > 1
        return {
            "name": "downsampled CCE",
            "method": self.method,
            "n": self.n,
            "size": self.size,
            "repeats": self.repeats,
            "points": len(self.values),
            "mean": self.mean,
            "mean_std": self.mean_std if repeated else None,
            "means": self.means.tolist(),
            **self._named_quantiles(),
            "std_median": float(np.median(self.std)) if repeated else None,
            "std_max": float(self.std.max()) if repeated else None,
            "error_bound": self.error_bound,
            "certificate": self.certificate,
            "tol": self.tol,
            "seconds": self.seconds,
        }

    def plot(self, x: InputsLike | None = None, ax: Axes | None = None, **options: Any) -> Axes:
        """Plot the values with their spread, over inputs ``x`` or in order of size."""
        from fastmcmd.plots.congruence import downsampled_cce as draw

        return draw(self, x, ax=ax, **options)

    def __repr__(self) -> str:
        low, middle, high = self.quantile([0.05, 0.5, 0.95])
        times = "1 repeat" if self.repeats == 1 else f"{self.repeats:,} repeats"
        if self.repeats == 1:
            mean = point = "spread unknown: one repeat"
        else:
            mean = f"std {self.mean_std:.2g} from repeat to repeat"
            point = (
                f"std at a point: median {np.median(self.std):.2g}, largest {self.std.max():.2g}"
            )
        lines = [
            f"Downsampled CCE at {len(self.values):,} points: mean {self.mean:.6g} ({mean})",
            f"  {self.size:,} of {self.n:,} rows, {self.method}, {times}",
            f"  5 / 50 / 95 %: {low:.4g} / {middle:.4g} / {high:.4g}; {point}",
            f"  error <= {self.error_bound:.1e} ({self.certificate}) of each subsample's estimate, "
            f"tol {self.tol:.0e}",
        ]
        return "\n".join(lines)


def downsampled_cce(
    x: InputsLike,
    y: ArrayLike,
    prediction: PredictionLike,
    size: int,
    *,
    method: str = "uniform",
    repeats: int = 10,
    at: InputsLike | None = None,
    random_state: RandomState = None,
    strata: int = 10,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    draws: int | None = None,
    encoder: Encoder | None = None,
    weights: ArrayLike | None = None,
    tol: float = 1e-6,
    solver: SolverName = "auto",
    backend: str = "auto",
    dtype: DTypeLike | None = None,
    memory_limit: MemoryLimit = None,
    progress: bool = False,
    certificate: CertificateName = "auto",
    cache_dir: FilePath | None = None,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
) -> DownsampledResult:
    """Return the CCE estimated from subsamples of ``size`` rows, with its standard deviation over repeats.

    Parameters
    ----------
    x, y, prediction
        All n rows, as in `cce`.
    size : int
        Number of rows k of a subsample, from 2 to n.
    method : {"uniform", "stratified", "leverage"}
        How rows are drawn, always without replacement. "uniform": with equal probability, as published.
        "stratified": proportionally from ``strata`` strata of equal count along y. "leverage": rows that
        are unusual in terms of the input kernel are more probable and get smaller weights.
    repeats : int
        Number of independent subsamples, at least 1.
    at : array_like (q, d) or (q,), optional
        Inputs at which to evaluate the CCE, the same in every repeat. Default: all of ``x``.
    random_state : int, numpy.random.Generator or None
        Source of subsamples and draws. Repeat j does not depend on the number of repeats.
    strata : int
        For "stratified" only: number of strata, from 1 to ``size``. In each repeat, equal outputs are
        assigned at random to neighbouring strata. Vector outputs are ordered along their first principal
        component (unscaled, as the default output kernel measures distance).
    x_kernel, y_kernel : Kernel, "auto" or "paper", optional
        As in `cce`. Parameters that depend on the data are computed once from all n rows, so that all
        repeats estimate the same quantity.
    lam, draws, encoder, weights
        As in `cce`. Each repeat uses new draws. Rows of zero weight are never drawn.
    tol, solver, backend, dtype, memory_limit, progress, certificate, cache_dir, devices
    device_memory_limit
        As in `mcmd`, for each repeat.

    Returns
    -------
    DownsampledResult
        ``values``, ``std`` (q,), ``means`` (repeats,), ``mean``, ``mean_std``, ``error_bound``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    For large n, Young et al. (arXiv 2405.12412, appendix B.3) estimate the CCE from k of n test points
    drawn uniformly. A row drawn with probability pi gets the weight ``(k / n) / pi`` (Horvitz & Thompson,
    1952). The expectations of covariance and cross-covariance of the subsample are then those of all rows,
    up to the common factor ``sum w / k``, by which `cce` divides. The CCE is not a linear function of them,
    so it is biased for small k; see ``docs/downsampling.md``.

    For "leverage", ``pi`` is proportional to the mean of 1/n and ``l_i / sum l``, and at most 1, with
    ``l(x) = f(x)' (F'F + n lam I)^-1 f(x) + e / (e + n lam)``, f the Nystroem features of 256 rows drawn
    uniformly and ``e = k(x, x) - |f(x)|^2``. Rows are drawn by systematic sampling in random order, which
    has exactly these probabilities.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> from fastmcmd.downsampling import downsampled_cce
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, 1000)
    >>> y = x + 0.3 * rng.normal(size=1000)
    >>> some = downsampled_cce(x, y, fm.Gaussian(x, 0.6), 200, repeats=5, random_state=0)
    >>> some.values.shape, some.means.shape
    ((1000,), (5,))
    >>> bool(abs(some.mean - fm.cce(x, y, fm.Gaussian(x, 0.6)).mean) < 0.05)
    True
    """
    check_row_order(x=x, y=y, prediction=prediction, weights=weights)
    inputs = open_rows(encoded(x, encoder), "x" if encoder is None else "encoder(x)")
    if at is None or at is x:
        grid = inputs
    else:
        name = "at" if encoder is None else "encoder(at)"
        grid = open_rows(encoded(at, encoder), name, columns=inputs.shape[1])
    inputs, grid = common_dtype(inputs, grid)
    outputs = as_rows(y, "y")
    check_same_length(x=inputs, y=outputs)
    n = len(inputs)
    predictive = as_predictive(prediction, n, outputs.shape[1], y=outputs, x=x)
    masses = as_weights(weights, "weights", n)
    check_choice(method, "method", METHODS)
    repeats = check_count(repeats, "repeats")
    x_kernel, y_kernel, lam = chosen_kernels(
        inputs, outputs, x_kernel, y_kernel, lam, classes=isinstance(predictive, Categorical),
        weights=masses, memory_limit=parse_memory(memory_limit),
    )  # fmt: skip
    x_kernel, y_kernel = resolved_kernels(x_kernel, y_kernel, inputs, outputs)
    part = np.arange(n) if masses is None else np.flatnonzero(masses)
    size = check_count(size, "size", 2, len(part), explanation="the rows that take part")
    if method == "stratified":
        strata = check_count(strata, "strata", 1, size, explanation="size")
    else:
        check_count(strata, "strata")
    common_source, sources = _generators(random_state, repeats)
    if method == "stratified":
        sampler = stratified(along(outputs[part]), size, strata)
    elif method == "leverage":
        some = inputs if len(part) == n else inputs[part]
        weigh = None if masses is None else masses[part]
        limit = device_memory_limit
        gpu_bytes = None if limit is None else parse_memory(limit, "device_memory_limit")
        maker = get_backend(backend, x_kernel, devices, gpu_bytes)
        inner, _, (some,) = scaled_inputs(x_kernel, x=some)
        sampler = leverage(some, weigh, inner, maker, lam, size, common_source)
    else:
        sampler = uniform(len(part), size)
    rows = np.empty((repeats, size), dtype=np.intp)
    share = np.empty((repeats, size))
    means = np.empty(repeats)
    mean, squares = np.zeros(len(grid)), np.zeros(len(grid))
    worst, infos = 0.0, []
    for j, source in enumerate(sources):
        positions, share[j] = sampler(source)
        rows[j] = part[positions]
        weigh = share[j] if masses is None else share[j] * masses[rows[j]]
        result = cce(
            inputs[rows[j]], outputs[rows[j]], predictive.take(rows[j]), at=grid, x_kernel=x_kernel,
            y_kernel=y_kernel, lam=lam, draws=draws, weights=None if (weigh == 1).all() else weigh,
            random_state=source, tol=tol, solver=solver, backend=backend, dtype=dtype,
            memory_limit=memory_limit, progress=progress, certificate=certificate,
            cache_dir=cache_dir, devices=devices, device_memory_limit=device_memory_limit,
        )  # fmt: skip
        # Welford's updates need no stored values; equal values have a spread of exactly 0.
        off = result.values - mean
        mean += off / (j + 1)
        squares += off * (result.values - mean)
        means[j] = result.mean
        worst = max(worst, result.error_bound)
        infos.append(result.info)
    std = np.full(len(grid), np.nan) if repeats == 1 else np.sqrt(squares / (repeats - 1))
    return DownsampledResult(
        mean, std, means, rows, share, worst, result.tol, len(part), method, tuple(infos)
    )


def _generators(
    random_state: RandomState, repeats: int
) -> tuple[np.random.Generator, list[np.random.Generator]]:
    """Return a generator for computations that all repeats share, and one per repeat.

    A Generator seeds them by a draw, because its seed sequence does not depend on earlier draws.
    """
    seed = generator(random_state, Purpose.DOWNSAMPLING).integers(0, 2**32, 4, dtype=np.uint32)
    common, per_repeat = np.random.SeedSequence(seed.tolist()).spawn(2)
    sources = [np.random.default_rng(child) for child in per_repeat.spawn(repeats)]
    return np.random.default_rng(common), sources
