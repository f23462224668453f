"""Choice of an input kernel and a regulariser by how well they predict the outcomes, without any model.

The regression on x predicts the embedding of y itself. Its leave-one-out error compares input kernels and
regularisers at one output kernel; it cannot compare output kernels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import InputsLike, Json, RandomState
from fastmcmd._base.checks import (
    as_array,
    as_rows,
    as_weights,
    check_count,
    check_lams,
    check_same_length,
    quote,
)
from fastmcmd._base.names import numbers_of_labels
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.tables import Notebook, aligned, data_frame
from fastmcmd.backends.tall_skinny import eigh, inner, times
from fastmcmd.default_kernels import chosen_kernels, column_scales, median_distance
from fastmcmd.errors import NumericalError
from fastmcmd.frames import check_row_order
from fastmcmd.inference.smoother import Smoother
from fastmcmd.kernels import (
    RBF,
    Constant,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Scaled,
    scale_columns,
)
from fastmcmd.rows import open_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["KernelChoice", "KernelScore", "described", "leave_one_out", "left_out", "select_kernel"]

Candidates: TypeAlias = Kernel | Mapping[str, Kernel] | Iterable[Kernel] | None

_LAMS = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
_ROWS = 20_000  # rows of the selection
_LANDMARKS = 300
_CANDIDATE_ROWS = 3_000  # rows from which landmarks of x are chosen
_OUTPUT_RANK = 200  # output features
_NEGLIGIBLE = 1e-10  # share of the largest variance of output features
_SCALE_ROWS = 1_000  # rows of the search for scales
_SCALE_LANDMARKS = 120
_SWEEPS = 3  # sweeps over the columns
_MOST_TRIALS = 300  # largest number of tried factors of columns: some seconds
_NOTHING = 0.005  # share explained below which the sentence says that nothing is explained
# Least length of scaled inputs; 1 over it is the largest: squares stay in float64.
_LEAST_LENGTH = 1e-140
_GAIN = 1e-3  # share of the error: a smaller improvement does not change the scale

_LEGEND = """explained: share of the variance of the outcomes' embedding, on rows left out (0: no use of x)
behind, +-: error above that of the best, and its standard error
dimension, residual: directions of x that the kernel follows; share of x that its landmarks miss
l: the median distance of scaled inputs"""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class KernelScore:
    """The score of one kernel with one regulariser in predicting the outcomes.

    Attributes
    ----------
    name : str
        Name of the kernel.
    lam : float
        Regulariser.
    error : float
        Mean squared leave-one-out error of the embedding of y.
    explained : float
        Share of the embedding's variance that the prediction explains: 0 for a constant, at most 1.
    effective_dimension : float
        Trace of the smoother: the number of directions of x that it follows.
    behind : float
        Error minus that of the best.
    behind_error : float
        Standard error of ``behind``, paired over rows.
    residual : float
        Mean share of k(x, x) that the landmarks do not explain. If it is large, the kernel is smoother here
        than it would be with all inputs.
    """

    name: str
    lam: float
    error: float
    explained: float
    effective_dimension: float
    behind: float
    behind_error: float
    residual: float


@dataclass(frozen=True)
class KernelChoice(Notebook):
    """The input kernel and the regulariser that predict the outcomes best.

    Attributes
    ----------
    x_kernel : Kernel
        The best kernel, on the caller's inputs.
    lam : float
        Its best regulariser.
    y_kernel : Kernel
        The output kernel of the comparison.
    scales : tuple of float (d,) or None
        Factors of the columns within ``x_kernel``; None without scaling.
    best : KernelScore
        Their score.
    scores : tuple of KernelScore
        Scores of all kernels at all regularisers, the best first.
    kernels : dict
        The kernels by their names.
    rows, landmarks : int
        Number of rows of the selection, and largest number of landmarks of each kernel.
    """

    x_kernel: Kernel
    lam: float
    y_kernel: Kernel
    scales: tuple[float, ...] | None
    best: KernelScore
    scores: tuple[KernelScore, ...]
    kernels: dict[str, Kernel]
    rows: int
    landmarks: int

    @property
    def sentence(self) -> str:
        """The result, in words."""
        best, lams = self.best, sorted({one.lam for one in self.scores})
        if best.explained < _NOTHING:
            return (
                f"No kernel predicts the outcomes better than their mean ({len(self.kernels)} "
                f"kernel{'s'[: len(self.kernels) != 1]}, {len(lams)} value{'s'[: len(lams) != 1]} of lam, "
                f"{self.rows:,} rows): with these x, only errors on "
                "average over all inputs can be seen."
            )
        text = (
            f"{best.name} with lam = {best.lam:g} predicts outcomes that were left out best, of "
            f"{len(self.kernels)} kernels and {len(lams)} value{'s'[: len(lams) != 1]} of lam. It explains "
            f"{100 * best.explained:.0f} % of their variation ({self.rows:,} rows)."
        )
        if len(lams) > 1 and best.lam in (lams[0], lams[-1]):
            end = "smallest" if best.lam == lams[0] else "largest"
            text += f" This is the {end} lam tried: try others beyond it."
        return text

    def __repr__(self) -> str:
        return self.sentence

    def table(self, most: int | None = 15) -> str:
        """Return the scores as text, the best first; ``most`` lines, or all with None."""
        some = self.scores[: check_count(most, "most", optional=True)]
        head = ["kernel", "lam", "explained", "behind", "+-", "dimension", "residual"]
        rows = [
            [
                one.name, f"{one.lam:g}", f"{round(100 * one.explained, 1) + 0.0:.1f} %",
                f"{one.behind:.2g}", f"{one.behind_error:.1g}", f"{one.effective_dimension:.1f}",
                f"{100 * one.residual:.0f} %",
            ]
            for one in some
        ]  # fmt: skip
        return f"{aligned([head, *rows])}\n{_LEGEND}"

    def to_dict(self) -> Json:
        """Return everything as a JSON-safe dictionary, with Python-function kernels by their text."""
        return {
            "x_kernel": described(self.x_kernel),
            "y_kernel": described(self.y_kernel),
            "lam": self.lam,
            "scales": None if self.scales is None else list(self.scales),
            "best": dataclasses.asdict(self.best),
            "scores": [dataclasses.asdict(one) for one in self.scores],
            "kernels": {name: described(kernel) for name, kernel in self.kernels.items()},
            "rows": self.rows,
            "landmarks": self.landmarks,
            "sentence": self.sentence,
        }

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas frame with one row for each score, the best first.

        Raises
        ------
        MissingDependencyError
            pandas is not installed.
        """
        return data_frame([dataclasses.asdict(one) for one in self.scores])

    def plot(self, ax: Axes | None = None, **options: Any) -> Axes:
        """Plot the error of each kernel against the regulariser; see `fastmcmd.plots.kernel_choice`."""
        from fastmcmd.plots import kernel_choice

        return kernel_choice(self, ax=ax, **options)


def select_kernel(
    x: InputsLike,
    y: ArrayLike,
    candidates: Candidates = None,
    lams: ArrayLike | None = None,
    scales: ArrayLike | str | None = "standard",
    y_kernel: Kernel | str | None = None,
    weights: ArrayLike | None = None,
    landmarks: int = _LANDMARKS,
    random_state: RandomState = 0,
) -> KernelChoice:
    """Return the input kernel and the regulariser that predict the outcomes best, without any model.

    Parameters
    ----------
    x : array_like (n, d) or (n,), or rows on disk
        Inputs; if there are more than 20,000 rows, that many are drawn.
    y : array_like (n, k) or (n,)
        Observed outputs, or names of classes.
    candidates : sequence of Kernel, or dict of them by name, optional
        Input kernels, on scaled columns unless ``scales`` is None. Default: RBF, Matern, Laplacian and
        polynomial kernels over a range of lengths, and the default mixture of three RBFs.
    lams : sequence of float, optional
        Regularisers; default seven from 0.1 to 0.0001.
    scales : {"standard", "select"}, array_like (d,) or None
        Factors of the columns of x. "standard" divides by standard deviations. "select" searches factors of
        these, column by column, for the smallest error, and leaves out columns that do not help; it tries
        at most 300 factors, first of the columns that alone explain most (a few seconds for 200 columns).
        Numbers are used as they are; None means no scaling.
    y_kernel : Kernel or "paper", optional
        Kernel on outputs; default as for the defaults of `cce`.
    weights : array_like (n,), optional
        Nonnegative weights of the rows.
    landmarks : int
        Largest number of inputs that represent all in each kernel. With n landmarks nothing is
        approximated.
    random_state : int, numpy.random.Generator or None
        Source of rows and landmarks.

    Returns
    -------
    KernelChoice
        ``x_kernel``, ``lam``, ``best``, ``scores``, ``table()``, ``plot()``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.

    Notes
    -----
    With output features p and the smoother ``H = K (K + N lam W^-1)^-1``, the leave-one-out error of a row
    is ``|p_i - (H P)_i|^2 / (1 - H_ii)^2``, the error of refitting without the row at the same N lam. The
    mean over rows is weighted. An exact test is not valid for a kernel that was chosen with the tested
    outcomes: choose the kernel on other rows.

    Examples
    --------
    Only the first column matters for y. The choice gives the second one a smaller scale.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, (150, 2))
    >>> y = np.sin(3 * x[:, 0]) + 0.3 * rng.normal(size=150)
    >>> choice = fm.select_kernel(x, y, scales="select")
    >>> choice.scales[1] < 0.3 * choice.scales[0]
    True
    """
    check_row_order(x=x, y=y, weights=weights)
    rows = open_rows(x, "x")
    labels = numbers_of_labels(y)
    y = as_rows(y if labels is None else labels, "y")
    check_same_length(x=rows, y=y)
    weights = as_weights(weights, "weights", len(y))
    landmarks = check_count(landmarks, "landmarks", 1)
    lams = _checked_lams(lams)
    rng = generator(random_state, Purpose.SELECTION)
    some = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
    if len(some) < 3:
        raise ValueError(
            f"x has {len(some)} row{'s'[: len(some) != 1]} of positive weight; at least 3 are needed to "
            "leave one out"
        )
    if len(some) > _ROWS:
        some = np.sort(rng.choice(some, _ROWS, replace=False))
    inputs = np.asarray(rows[some], dtype=np.float64)
    outcomes = np.asarray(y[some], dtype=np.float64)
    weight = np.ones(len(some)) if weights is None else weights[some]
    y_kernel = chosen_kernels(
        inputs, outcomes, Constant(1.0), y_kernel, 1.0, classes=labels is not None
    )[1].resolve(outcomes)
    smoother = Smoother.of(y_kernel, outcomes, _OUTPUT_RANK, rng, "y_kernel")
    features = _principal(smoother.transform(outcomes))
    factors = _factors(scales, inputs, features, weight, rng)
    scaled = inputs if factors is None else inputs * factors
    kernels = _default_candidates(scaled) if candidates is None else _by_name(candidates)
    fitted = [
        _Candidate.of(name, kernel.resolve(scaled), scaled, features, weight, lams, landmarks, rng)
        for name, kernel in kernels.items()
    ]
    scores = _scores(fitted, features, weight, lams)
    best = next(one for one in fitted if one.name == scores[0].name)
    chosen_scales = None if factors is None else tuple(float(one) for one in factors)
    on_given = {
        one.name: one.kernel if chosen_scales is None else Scaled(one.kernel, chosen_scales)
        for one in fitted
    }
    return KernelChoice(
        on_given[best.name], scores[0].lam, y_kernel, chosen_scales, scores[0], tuple(scores), on_given,
        len(some), min(landmarks, len(some)),
    )  # fmt: skip


def _principal(features: Array) -> Array:
    """Return the features (n, r) in fewer coordinates, without negligible directions."""
    values, vectors = eigh(inner(features, features))
    return times(features, vectors[:, values > _NEGLIGIBLE * max(float(values[-1]), 0.0)])


@dataclass(frozen=True)
class _Candidate:
    """Leave-one-out errors of one kernel for each row (L, n), and effective dimensions (L,)."""

    name: str
    kernel: Kernel
    errors: Array
    dimensions: Array
    residual: float

    @staticmethod
    def of(
        name: str,
        kernel: Kernel,
        x: Array,
        features: Array,
        weight: Array,
        lams: Sequence[float],
        landmarks: int,
        rng: np.random.Generator,
    ) -> _Candidate:
        kernel, x = scale_columns(kernel, x)
        among = x
        if len(x) > max(_CANDIDATE_ROWS, landmarks):
            among = x[np.sort(rng.choice(len(x), max(_CANDIDATE_ROWS, landmarks), replace=False))]
        smoother = Smoother.of(kernel, among, landmarks, rng, "candidates")
        f = smoother.transform(x)
        diagonal = np.asarray(kernel.diagonal(x), dtype=np.float64)
        reproduced = np.einsum("ij,ij->i", f, f)
        residual = float(np.mean(np.clip(1 - reproduced / np.maximum(diagonal, 1e-300), 0, 1)))
        errors, dimensions = leave_one_out(f, features, weight, lams)
        return _Candidate(name, kernel, errors, dimensions, residual)


def leave_one_out(
    f: Array, features: Array, weight: Array, lams: Sequence[float]
) -> tuple[Array, Array]:
    """Return squared leave-one-out errors (L, n) of the rows, and effective dimensions (L,).

    Parameters
    ----------
    f : ndarray (n, m)
        Features of inputs, with the kernel ``f f'``.
    features : ndarray (n, r)
        Features of outcomes.
    weight : ndarray (n,)
        Positive weights of the rows.
    lams : sequence of float (L,)
        Regularisers.
    """
    values, vectors = eigh(inner(f, f, scale=weight))
    positive = values > np.finfo(np.float64).eps * max(float(values[-1]), 0.0) * len(values)
    return left_out(values[positive], times(f, vectors[:, positive]), features, weight, lams)


def left_out(
    values: Array, g: Array, features: Array, weight: Array, lams: Sequence[float]
) -> tuple[Array, Array]:
    """Return the results of `leave_one_out`, given an eigenproblem that is solved.

    Parameters
    ----------
    values : ndarray (p,)
        Positive eigenvalues of ``f' W f``.
    g : ndarray (n, p)
        Coordinates ``f U`` with its eigenvectors U.
    features, weight, lams
        As there.
    """
    shrink = 1 / (values + float(weight.sum()) * np.asarray(lams)[:, None])
    leverage = weight * times(np.square(g), shrink.T).T
    projected = inner(g, features, scale=weight)
    errors = np.empty((len(lams), len(g)))
    for k, share in enumerate(shrink):
        residual = times(g, share[:, None] * projected, base=features, sign=-1.0)
        complement = np.maximum(1 - leverage[k], np.finfo(np.float64).eps)
        errors[k] = np.einsum("ij,ij->i", residual, residual) / complement**2
    return errors, np.asarray((values * shrink).sum(axis=1))


def _scores(
    candidates: Sequence[_Candidate], features: Array, weight: Array, lams: Sequence[float]
) -> list[KernelScore]:
    """Return all scores, the best first."""
    share = weight / weight.sum()
    constant = float(
        share @ leave_one_out(np.ones((len(weight), 1)), features, weight, [1e-12])[0][0]
    )
    means = np.array([one.errors @ share for one in candidates])
    best, at = divmod(int(means.argmin()), means.shape[1])
    least = candidates[best].errors[at]
    scores = []
    for mean, one in zip(means, candidates, strict=True):
        for k, lam in enumerate(lams):
            behind = one.errors[k] - least
            middle = float(share @ behind)
            spread = float(np.sqrt(np.square(share * (behind - middle)).sum()))
            explained = 1 - float(mean[k]) / constant if constant > 0 else 0.0
            scores.append(
                KernelScore(
                    one.name,
                    float(lam),
                    float(mean[k]),
                    explained,
                    float(one.dimensions[k]),
                    middle,
                    spread,
                    one.residual,
                )
            )
    return sorted(scores, key=lambda one: one.error)


def _checked_lams(lams: ArrayLike | None) -> tuple[float, ...]:
    if lams is None:
        return _LAMS
    return tuple(check_lams(lams, "lams"))


def _by_name(candidates: object) -> dict[str, Kernel]:
    """Return the checked candidates by name."""
    if isinstance(candidates, Kernel):
        candidates = [candidates]
    if isinstance(candidates, Mapping):
        kernels = {str(name): kernel for name, kernel in candidates.items()}
    elif isinstance(candidates, Iterable) and not isinstance(candidates, (str, np.ndarray)):
        kernels = {repr(kernel): kernel for kernel in candidates}
    else:
        raise TypeError(
            f"candidates is {quote(candidates)}; kernels, in a sequence or by name in a dict, are needed"
        )
    for name, kernel in kernels.items():
        if not isinstance(kernel, Kernel):
            raise TypeError(
                f"candidates holds {name}, which is {quote(kernel)}; a kernel is needed"
            )
    if not kernels:
        raise ValueError("candidates is empty; at least one kernel is needed")
    return kernels


def _default_candidates(x: Array) -> dict[str, Kernel]:
    """Return kernels of scaled inputs, with lengths around their median distance."""
    length = median_distance(x)
    if not length > 0:
        return {"constant": Constant(1.0)}
    if not _LEAST_LENGTH < length < 1 / _LEAST_LENGTH:
        raise NumericalError(
            f"x has a median distance of {length:.3g} after scaling, whose square leaves float64; other "
            "scales are needed, such as 'standard'"
        )
    parts = (2.0, 1.0, 0.5, 0.25, 0.125)
    kernels: dict[str, Kernel] = {}

    def rbf(part: float) -> Kernel:
        return RBF(0.5 / (part * length) ** 2)

    kernels["three RBFs (default)"] = (rbf(1.0) + rbf(0.5) + rbf(0.25)) * (1 / 3)
    for part in parts:
        kernels[f"RBF, length {part:g} l"] = rbf(part)
    for part in parts:
        kernels[f"Matern 3/2, length {part:g} l"] = Matern(1.5, part * length)
    l1 = length * np.sqrt(x.shape[1])
    kernels["Laplacian"] = Laplacian(1 / l1)
    mean2 = float(np.mean(np.square(x).sum(axis=1)))
    kernels["linear"] = Linear() * (1 / mean2) + 1.0
    kernels["polynomial, degree 3"] = Polynomial(3, 1 / mean2, 1.0)
    return kernels


def _factors(
    scales: object, x: Array, features: Array, weight: Array, rng: np.random.Generator
) -> Array | None:
    """Return the factors of the columns (d,), or None without scaling."""
    if scales is None:
        return None
    if isinstance(scales, str):
        if scales not in ("standard", "select"):
            raise ValueError(
                f"scales is {scales!r}; 'standard', 'select', numbers (d,) or None is needed"
            )
        standard = column_scales(x)
        if scales == "standard" or x.shape[1] == 1 or not standard.any():
            return standard
        some = np.arange(len(x))
        if len(x) > _SCALE_ROWS:
            some = np.sort(rng.choice(len(x), _SCALE_ROWS, replace=False))
        return standard * _search(x[some] * standard, features[some], weight[some])
    factors = as_array(scales, "scales").astype(np.float64)
    if factors.shape != (x.shape[1],):
        raise ValueError(
            f"scales has shape {factors.shape}; ({x.shape[1]},) is needed: one a column"
        )
    if not (np.isfinite(factors).all() and (factors >= 0).all() and factors.any()):
        raise ValueError("scales holds numbers that are not finite and >= 0, or only zeros")
    return factors


def _search(x: Array, features: Array, weight: Array) -> Array:
    """Return factors of standardised columns (d,) that make the error of a smooth kernel small.

    First the search tries to keep only the columns that alone explain the outcomes best. Then it tries,
    column by column, 0, 1/2 and 2 times the present factor. The unit is the initial median distance.
    """
    length = median_distance(x)
    kernel = (RBF(0.5 / length**2) + RBF(2 / length**2)) * 0.5
    landmarks = np.sort(np.random.default_rng(0).permutation(len(x))[:_SCALE_LANDMARKS])
    share = weight / weight.sum()

    def error(factors: Array) -> float:
        some = factors > 0
        z = x[:, some] * factors[some]
        marks = kernel(z[landmarks])
        marks[np.diag_indices(len(marks))] += 1e-10
        f = np.linalg.solve(np.linalg.cholesky(marks), kernel(z[landmarks], z)).T
        return float((leave_one_out(f, features, weight, _LAMS)[0] @ share).min())

    factors = (x.std(axis=0) > 0).astype(np.float64)
    least = error(factors)
    active_columns = np.flatnonzero(factors)
    alone = np.full(len(factors), np.inf)
    for column in active_columns:  # scaled to the distances of all columns together
        alone[column] = error(np.sqrt(len(active_columns)) * (np.arange(len(factors)) == column))
    order = np.argsort(alone, kind="stable")[: len(active_columns)]
    count = len(active_columns)
    while (count := count // 2) >= 1:
        trial = np.zeros(len(factors))
        trial[order[:count]] = np.sqrt(len(active_columns) / count)
        if (now := error(trial)) < (1 - _GAIN) * least:
            factors, least = trial, now
    trials = 0
    for _ in range(_SWEEPS):
        before = least
        for column in order[factors[order] > 0]:
            for factor in (2.0, 0.5, 0.0):
                trial = factors.copy()
                trial[column] *= factor
                while trials < _MOST_TRIALS and trial.any():
                    trials += 1
                    now = error(trial)
                    if not now < (1 - _GAIN) * least:
                        break
                    factors, least = trial.copy(), now
                    if factor == 0:
                        break
                    trial[column] *= factor
        if not least < (1 - _GAIN) * before:
            break
    return factors


def described(kernel: Kernel) -> Any:
    """Return a kernel as a JSON-safe dictionary, or as text if it is a function."""
    try:
        return kernel.to_dict()
    except TypeError:  # a function
        return repr(kernel)
