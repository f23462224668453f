"""The outputs of nature and of a model as features: means at each input, and bounds on the residual."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array
from fastmcmd._base.blocks import row_blocks
from fastmcmd.embedding.atoms import pair_cost
from fastmcmd.embedding.bump_lattice import expected_cost, serves_on_lattice
from fastmcmd.embedding.candidates import IN_SQUARE, candidates
from fastmcmd.embedding.expected import Expectation
from fastmcmd.embedding.exponential_sums import ExponentialSum, split_delta
from fastmcmd.embedding.line import LineFeatures, RowMeans, line_means, serves_on_line
from fastmcmd.embedding.many_draws import (
    MOST_CANDIDATES,
    DrawnMeans,
    are_many,
    representatives,
)
from fastmcmd.embedding.pivots import Pool, Predicted, rows_to_add, uncovered
from fastmcmd.embedding.sample import (
    DrawnOutputs,
    Outputs,
    Places,
    PredictedOutputs,
    Sample,
    same_outputs,
)
from fastmcmd.estimate.leading_columns import leading_columns, omissible
from fastmcmd.estimate.panel_rows import LEAST_ROWS, panel_rows
from fastmcmd.estimate.primal import Truncation
from fastmcmd.estimate.task import Task, backend_of
from fastmcmd.gram import KernelFeatures
from fastmcmd.kernels import Kernel
from fastmcmd.solvers.costs import EXACT_COST, factor_cost

__all__ = [
    "MOST_PAIRS",
    "MOST_PIVOTS",
    "MOST_RANK",
    "MeanFeatures",
    "any_predicted",
    "better_dense",
    "expected_outputs",
    "in_few_columns",
    "is_atomless",
    "mean_features",
    "on_line",
    "pairs_in_closed_form",
    "sums_exponentials",
]

MOST_RANK = 2000  # largest rank of the output features
_NODES = 400  # approximate number of quadrature nodes of a prediction
MOST_PAIRS = 2e12  # pairs of quadrature nodes, times points: about a minute
_LEAST_RANK = 256
_FEW_FEATURES = 450  # rank up to which output features take less time than landmarks of the inputs
_FEW_FOR_MANY = 150  # the same for many draws, whose features take time with the square of the rank
_MOST_PAIRED = 40_000  # outputs or atoms up to which their kernel values take about a second
_MOST_ON_LATTICE = 2e11  # operations in about two seconds
_TRIED_ROWS = 200  # rows whose outputs tell the time of a lattice
_MOST_PREDICTED = 1000  # largest rank if predictions are integrated numerically
MOST_PIVOTS = 100  # with more pivots, panels of the line take less time if they apply
_MOST_CLOSED = 300  # the same if expectations at pivots have closed forms
_CANDIDATES = 7500  # approximate number of outputs that represent predicted distributions
_MOST_DENSE = 5000  # inputs and points up to which systems for each point are cheap
# Cost of features of few rows, of any rank, in float32 operations: of drawn outputs, of predicted ones and
# for each row of these. Measured: the dense form takes less up to n = 95 for one draw, 250 for `Gaussian`.
_DRAWN_FEATURES, _PREDICTED_FEATURES, _PREDICTED_ROW = 8e6, 4e7, 8e5
_OUT_OF_REACH = 1e3  # ratio to the tolerance of an error that makes features useless
_USEFUL = 2.5e-3  # ratio to sqrt(k(y, y)) of an error that leaves two digits of a large CCE
_NORMS = 1e-6  # error of embeddings, relative to sqrt(k(y, y)), that their norms may have
_NORM_ROWS = 1000  # rows whose norms are computed at once
_PROBED = 12  # predictions on which the error is tried
_ROUNDS = 8  # largest number of rounds of choosing pivots
_UNCOVERED_SHARE = 0.1  # share of the tolerance: error from rows that more outputs could cover
_COARSER = 10.0  # factor of the goal of expectations if panels are too many for it
_RELAXED, _MOST_RELAXED = (
    1e3,
    1e-3,
)  # factor by which the residual grows if the rank limit is reached, and its largest value


@dataclass(frozen=True, eq=False)
class MeanFeatures:
    """Mean output features of two samples at their distinct inputs.

    Attributes
    ----------
    features : KernelFeatures or LineFeatures
        Features of the output kernel, over the outputs of both samples.
    means : tuple of ndarray (n, r)
        ``E p(Y)`` at each distinct input, of nature and of the model; only their difference if both have
        the same regularised system.
    truncation : Truncation
        Bounds on the error of the features.
    outputs : int
        Number of distinct outputs from which the features were chosen.
    norms : dict of ndarray (n,), optional
        `inference.row_norms` of the rows, if the features give them without further work.
    basis : ndarray (r, c), optional
        Directions of the features, in which ``means`` (n, c) are given; by default all of them.
    in_blocks : bool
        Whether ``means`` were computed block by block: features of all outputs were never in memory.
    """

    features: KernelFeatures | LineFeatures
    means: tuple[Array, ...]
    truncation: Truncation
    outputs: int
    norms: dict[str, Array] | None = None
    basis: Array | None = None
    in_blocks: bool = False

    @property
    def columns(self) -> int:
        """Number of columns of the means."""
        return int(self.means[0].shape[1])

    @property
    def rank_in_memory(self) -> int:
        """Number of features that were in memory for all outputs."""
        return self.columns if self.in_blocks else self.features.rank


def mean_features(nature: Sample, model: Sample, task: Task) -> MeanFeatures | None:
    """Return the mean output features of two samples, or None if the dense form is better.

    The dense form is better if ``k_Y`` has no low rank over the outputs, and for small samples. It is also
    better if predictions have inner products in closed form, and features at the rank limit would miss the
    tolerance.
    """
    sides = (nature, model)
    if _is_constant(task.y_kernel):
        return _of_constant(sides, task)
    if better_dense(sides, task) or _small(sides, task):
        return None
    in_closed_form = pairs_in_closed_form(sides, task)
    if on_line(sides, task):
        # Few pivots are enough for a wide kernel; if tails are wide relative to it, panels are needed.
        result = _by_pivots(sides, task, in_closed_form, MOST_PIVOTS)
        if result is not None and _is_within_tolerance(result, task):
            return result
        by_panels = _by_panels(sides, task)
        if by_panels is None:
            # Panels of far outcomes may be too many for the goal, which is well below the tolerance.
            by_panels = _by_panels(sides, task, _COARSER)
            if by_panels is not None and not _is_within_tolerance(by_panels, task):
                by_panels = None
        if by_panels is not None:
            return by_panels
    elif in_closed_form and _panels_pay(sides, task):
        # Few rows of huge scales would need thousands of pivots; panels are long there.
        result = _by_pivots(sides, task, in_closed_form, _MOST_CLOSED) or _by_panels(sides, task)
        if result is not None and _is_within_tolerance(result, task):
            return result
    if _may_take_landmarks(sides, task):
        many = any(are_many(side.outputs) for side in sides)
        stop = _FEW_FOR_MANY if many else _FEW_FEATURES
        result = _by_pivots(sides, task, in_closed_form, stop=stop)
        if result is not None or task.input_features(sides[0]) is not None:
            return result  # the dense form at landmarks of the inputs, whatever the rank of k_Y
    return _by_pivots(sides, task, in_closed_form)


def _of_constant(sides: tuple[Sample, Sample], task: Task) -> MeanFeatures:
    """Return mean features under a constant kernel: every distribution has the same embedding."""
    y = np.zeros((1, _columns(sides[0])))
    root = np.sqrt(task.y_kernel.diagonal(y))
    if not root[0] > 0:
        raise ValueError("y_kernel is zero at all outputs; choose another y_kernel")
    features = KernelFeatures(task.y_kernel, y, root[:, None], task.y_backend)
    rows = [np.full((len(side.design), 1), root[0]) for side in sides]
    means = [np.zeros_like(rows[0])] if sides[0].same_system(sides[1]) else rows
    return MeanFeatures(features, tuple(means), Truncation(0.0, 0.0, rigorous=True), 1)


def _is_within_tolerance(mean_features: MeanFeatures, task: Task) -> bool:
    """Tell whether what features omit leaves an answer within the tolerance."""
    return mean_features.truncation.linear_at(task.scale) <= task.options.tol


def _may_take_landmarks(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether landmarks of the inputs may serve, whatever the rank of k_Y (`dense_landmarks`)."""
    options, counts = task.options, [task.atom_count(side.outputs) for side in sides]
    return (
        (options.solver, options.dtype) == ("auto", None)
        and not task.stays
        and not task.backend.on_device
        and task.y_kernel.translation_invariant
        and None not in counts
        and sides[0].same_system(sides[1])
        and len(sides[0].design) // 4 > _FEW_FEATURES
        and (pairs_in_closed_form(sides, task) or not sums_exponentials(sides, task))
        and (sum(filter(None, counts)) <= _MOST_PAIRED or _lattice_pays(sides, task))
    )


def _lattice_pays(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether differences of drawn embeddings take little time on a lattice (`BumpLattice`)."""
    outcomes = []
    for side in sides:
        if not isinstance(side.outputs, DrawnOutputs):
            return False
        values = side.outputs.values
        outcomes.append(np.asarray(values[:: -(-len(values) // _TRIED_ROWS)], dtype=np.float64))
    if len(outcomes[0]) != len(outcomes[1]) or not serves_on_lattice(
        task.y_kernel, outcomes[0].shape[2]
    ):
        return False
    some = np.concatenate(outcomes, axis=1)
    cost = expected_cost(task.y_kernel, some, len(sides[0]), _FEW_FEATURES)
    return cost <= _MOST_ON_LATTICE


def _pair_cost(sides: tuple[Sample, Sample], task: Task) -> float:
    backend = backend_of(task.options, task.y_kernel).name
    normal = any_predicted(sides)
    return pair_cost(task.y_kernel, _columns(sides[0]), backend, normal=normal)


def in_few_columns(
    mean_features: MeanFeatures | None, sides: tuple[Sample, Sample], task: Task
) -> MeanFeatures | None:
    """Return mean features in as many columns as directions in which they vary; None without any.

    What this omits adds to the truncation of the features, and is little beside it or the tolerance.
    """
    if mean_features is None or mean_features.basis is not None:
        return mean_features
    truncation = mean_features.truncation
    limit = omissible(task.options.tol, task.scale, truncation.residual)
    weights = [1 / side.shift for side in sides][: len(mean_features.means)]
    leading = leading_columns(mean_features.means, weights, limit)
    if leading is None:
        return mean_features
    residual = math.hypot(truncation.residual, leading.omitted)  # orthogonal to what features omit
    return replace(
        mean_features,
        means=leading.rows,
        basis=leading.basis,
        truncation=replace(truncation, residual=residual),
    )


def _by_pivots(
    sides: tuple[Sample, Sample],
    task: Task,
    in_closed_form: bool,
    limit: int | None = None,
    stop: int | None = None,
) -> MeanFeatures | None:
    """Return mean features at pivots, at most ``limit`` of them if that is given.

    With ``stop`` they are those without a limit, or None if there are more.

    ``in_closed_form`` is the result of `pairs_in_closed_form`.
    """
    nature, model = sides
    n = max(len(side.design) for side in sides)
    parts = [_pivot_pool(side) for side in sides]
    pool = Pool(task.y_kernel, task.y_backend, parts, differences=_differ_by_row(sides))
    most = _affordable_rank(n, task, len(pool), sides, in_closed_form)
    if limit is not None:
        most = min(most, limit)
    eps = task.feature_residual(nature.lam, model.lam)
    best: _EmbeddedSides | None = None
    for attempt in range(_ROUNDS):
        factored = pool.features(eps, most, stop)
        if factored is None:
            break
        best = _EmbeddedSides(sides, task, eps, *factored)
        more = best.more_outputs(attempt)
        if not more:
            return best.result()
        pool.add(more)
    if limit is not None or stop is not None:
        return None
    if in_closed_form and _pairs(sides) * len(task.grid) <= MOST_PAIRS:
        return None
    if best is None and not in_closed_form and not any_predicted(sides):
        return None
    return best.result() if best is not None else _relaxed(pool, eps, most, sides, task)


def on_line(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether panels of the line apply without closed forms: drawn numbers, predicted densities."""
    return _have_panels(sides, task) and not pairs_in_closed_form(sides, task)


def _have_panels(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether panels of the line apply: drawn numbers, and predicted densities."""
    nature, model = sides
    return (
        isinstance(nature.outputs, DrawnOutputs)
        and isinstance(model.outputs, PredictedOutputs)
        and serves_on_line(task.y_kernel, model.outputs.prediction)
    )


def _panels_pay(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether panels of the line apply, and take less time than many pivots or the dense form."""
    is_long = len(sides[1].design) >= LEAST_ROWS and task.options.certificate != "rigorous"
    return is_long and _have_panels(sides, task)


def _by_panels(
    sides: tuple[Sample, Sample], task: Task, coarser: float = 1.0
) -> MeanFeatures | None:
    """Return mean features on panels of the line, or None if these are too many.

    ``coarser`` multiplies the goal of expectations.
    """
    nature, model = sides
    assert isinstance(nature.outputs, DrawnOutputs)
    assert isinstance(model.outputs, PredictedOutputs)
    values, where = np.unique(nature.outputs.flat[:, 0].astype(np.float64), return_inverse=True)
    goal = coarser * task.expectation_error(model.lam)
    on_panels = line_means(task.y_kernel, values, [model.outputs.prediction], goal)
    if on_panels is None:
        return None
    features, (row_means,) = on_panels
    n = len(nature.outputs.flat)
    if n >= LEAST_ROWS and len(nature.design) == len(nature.outputs.values) == n:
        in_blocks = _by_panel_rows(sides, task, features, row_means)
        if in_blocks is not None:
            return in_blocks
    expected, error = row_means(np.arange(len(model.outputs.prediction)))
    p = features.transform(values[:, None])
    residual = np.sqrt(features.residuals(values[:, None], p))[:, None]
    where = where.reshape(-1)
    norms = None
    single = len(nature.outputs.values) == len(where) == len(expected)
    if single:
        norms = _norms_of(*_row_squares(p, where, expected), error, task)
    miss = nature.design.average(nature.outputs.mean_features(residual, where))[:, 0]
    error = model.design.average(error[:, None])[:, 0]
    truncation = Truncation(
        float(np.sqrt((miss**2 / nature.shift).sum())),
        float(np.sqrt((error**2 / model.shift).sum())),
        rigorous=False,
    )
    return MeanFeatures(
        features,
        _means(sides, [nature.outputs.mean_features(p, where), expected]),
        truncation,
        len(values),
        norms,
    )


def _by_panel_rows(
    sides: tuple[Sample, Sample], task: Task, features: LineFeatures, row_means: RowMeans
) -> MeanFeatures | None:
    """Return mean features in few columns, computed block by block; None if many columns are needed."""
    nature, model = sides
    assert isinstance(nature.outputs, DrawnOutputs)
    if not nature.same_system(model):
        return None
    y, weight = nature.outputs.flat[:, 0].astype(np.float64), 1 / nature.shift
    some = panel_rows(features, y, row_means, weight, task)
    if some is None:
        return None
    norms = _norms_of(some.squares, some.expected_squares, some.errors, task)
    miss, error = (
        math.sqrt(float(np.einsum("i,i->", norm**2, weight)))
        for norm in (some.residuals, some.errors)
    )
    truncation = Truncation(math.hypot(miss, some.omitted), error, rigorous=False)
    return MeanFeatures(
        features, (some.rows,), truncation, len(y), norms, some.basis, in_blocks=True
    )


def _row_squares(p: Array, where: NDArray[np.intp], expected: Array) -> tuple[Array, Array]:
    """Return ``|p[where] - expected|^2`` (n,) and ``|expected|^2`` (n,) of rows with one outcome each."""
    squares, expected_squares = np.empty(len(expected)), np.empty(len(expected))
    for rows in row_blocks(len(expected), _NORM_ROWS):
        mean = expected[rows]
        residuals = p[where[rows]] - mean
        squares[rows] = np.einsum("ij,ij->i", residuals, residuals)
        expected_squares[rows] = np.einsum("ij,ij->i", mean, mean)
    return squares, expected_squares


def _norms_of(
    squares: Array, expected_squares: Array, errors: Array, task: Task
) -> dict[str, Array] | None:
    """Return norms of rows with one outcome each, or None if ``errors`` of expectations are too large."""
    largest = task.y_kernel.at_zero
    if not errors.max() <= _NORMS * np.sqrt(largest):
        return None
    return {"errors": squares, "variances": np.maximum(largest - expected_squares, 0.0)}


def _relaxed(
    pool: Pool, eps: float, most: int, sides: tuple[Sample, Sample], task: Task
) -> MeanFeatures | None:
    """Return features with a larger residual than intended, if sums over all pairs of nodes are too many.

    Returns None if their error would make the answer useless (`_OUT_OF_REACH`, `_USEFUL`): predictions may
    have tails so heavy that features of any affordable rank leave out much of them.
    """
    if (float(_NODES) ** 2) * _pairs(sides) * len(task.grid) <= MOST_PAIRS:
        return None
    while eps < _MOST_RELAXED:
        eps *= _RELAXED
        factored = pool.features(eps, most)
        if factored is not None:
            size = float(np.sqrt(task.y_kernel.diagonal(factored[0].pivots).max()))
            useful = max(_OUT_OF_REACH * task.options.tol, _USEFUL * size)
            if _probed_error(factored[0], sides, task) > useful:
                return None
            return _EmbeddedSides(sides, task, eps, *factored).result()
    return None


def _probed_error(features: KernelFeatures, sides: tuple[Sample, Sample], task: Task) -> float:
    """Return the error of the MCMD for all predictions as a few predictions suggest it."""
    total = 0.0
    for side in sides:
        if isinstance(side.outputs, DrawnOutputs):
            continue
        prediction = side.outputs.prediction
        rows = np.unique(np.linspace(0, len(prediction) - 1, _PROBED).astype(np.intp))
        some = prediction.take(rows)
        goal, share = task.expectation_error(side.lam), len(rows) / len(prediction)
        errors = Expectation(features, some, goal=goal, share=share).of(some)
        square = float(np.mean(errors.error**2))
        total += float(np.sqrt(square * (1 / side.shift).sum()))
    return task.scale / 2 * total


class _EmbeddedSides:
    """Features with the expectations of both sides, and with their residuals and errors."""

    def __init__(
        self,
        sides: tuple[Sample, Sample],
        task: Task,
        eps: float,
        features: KernelFeatures,
        values: Array,
        p: Array,
        missing: Array,
        where: list[Places],
    ) -> None:
        self._sides, self._task = sides, task
        self._features, self._values, self._p = features, values, p
        self._differences = len(p) < len(values)  # p holds those of both sides, row by row
        residuals = np.sqrt(missing)[:, None]
        self._noise, self._rigorous = 0.0, True
        self._rows: list[
            tuple[Array, Array, Array]
        ] = []  # means, residuals, errors of each side's rows
        self._floors: list[float] = []
        self._worst: list[Array] = []  # of many draws
        for side, index in zip(sides, where, strict=False):
            if isinstance(side.outputs, DrawnOutputs):
                if are_many(side.outputs):
                    largest = float(features.kernel.diagonal(features.pivots).max())
                    small = (eps + features.noise) * largest
                    means = DrawnMeans.of(features, side.outputs, small)
                    self._rows.append((means.mean, means.miss, np.zeros(len(means.miss))))
                    self._worst.append(means.worst)
                    self._floors.append(math.sqrt(small))
                    continue
                mean = p if self._differences else side.outputs.mean_features(p, index)
                miss = side.outputs.mean_features(residuals, index)[:, 0]
                self._rows.append((mean, miss, np.zeros(len(miss))))
                self._floors.append(0.0)
                continue
            goal = task.expectation_error(side.lam)
            expectation = Expectation(features, side.outputs.prediction, self._draws(), goal)
            expected = expectation.of(side.outputs.prediction)
            self._rows.append((expected.mean, expected.residual, expected.error))
            # Two sums over importance: the residual of an output may be sqrt(eps) over its importance.
            allowed_residual = (
                2
                * IN_SQUARE
                * np.sqrt(eps * float(features.kernel.diagonal(features.pivots).max()))
            )
            self._floors.append(expected.floor + allowed_residual)
            self._noise += expectation.noise
            self._rigorous = self._rigorous and expectation.rigorous

    def _draws(self) -> Array | None:
        """Return the drawn outputs of either side."""
        draws = [
            side.outputs.flat for side in self._sides if isinstance(side.outputs, DrawnOutputs)
        ]
        return np.asarray(np.concatenate(draws), dtype=np.float64) if draws else None

    def more_outputs(self, attempt: int) -> list[tuple[Array, Array]]:
        """Return outputs of predicted rows whose residual is too large, with importance."""
        task = self._task
        limit = IN_SQUARE * _UNCOVERED_SHARE * task.options.tol / max(task.scale, 1e-300)
        more = []
        if self._uncovered_by_draws() > limit:
            more = [(worst, np.ones(len(worst))) for worst in self._worst if len(worst)]
        for side, (_, residual, _), floor in zip(
            self._sides, self._rows, self._floors, strict=True
        ):
            if isinstance(side.outputs, DrawnOutputs):
                continue
            weight = 1 / side.shift
            if side.design.group is not None:
                weight = weight[side.design.group]
            predicted = Predicted(side.outputs.prediction, weight)
            additions = rows_to_add(predicted, residual, floor, limit, task.y_kernel, attempt)
            if additions is not None:
                more.append(additions)
        return more

    def _uncovered_by_draws(self) -> float:
        """Return the weighted residual norm of rows of many draws that more pivots could reduce."""
        total = 0.0
        for side, (_, miss, _), floor in zip(self._sides, self._rows, self._floors, strict=True):
            if isinstance(side.outputs, DrawnOutputs) and are_many(side.outputs):
                square = side.design.average(uncovered(miss, floor)[:, None])[:, 0]
                total += math.sqrt(float((square / side.shift).sum()))
        return total

    def result(self) -> MeanFeatures:
        """Return the mean features at the distinct inputs, with bounds on their error; call it once."""
        cancels = self._cancellation()
        means: tuple[Array, ...] = (self._p,)
        if not self._differences:
            means = _means(self._sides, [mean for mean, _, _ in self._rows], self._p)
        total, expectation = 0.0, 0.0
        for side, (_, miss, error) in zip(self._sides, self._rows, strict=True):
            shift = side.shift
            if cancels is not None:
                miss = np.where(cancels, 0.0, miss)
            square = side.design.average(miss[:, None])[:, 0] ** 2
            square += self._noise
            total += float(np.sqrt((square / shift).sum()))
            if not isinstance(side.outputs, DrawnOutputs):
                error = side.design.average(error[:, None])[:, 0]
                expectation += float(np.sqrt((error**2 / shift).sum()))
        truncation = Truncation(total, expectation, self._rigorous)
        return MeanFeatures(self._features, means, truncation, len(self._values))

    def _cancellation(self) -> NDArray[np.bool_] | None:
        """Return in which rows both sides have the same outputs, whose residuals cancel, or None."""
        nature, model = (side.outputs for side in self._sides)
        if not (isinstance(nature, DrawnOutputs) and isinstance(model, DrawnOutputs)):
            return None
        one, other = self._sides
        if one.lam != other.lam or not one.same_rows(other):
            return None
        same = same_outputs(nature, model)
        if not same.any():
            return None
        (mean, _, _), (mean_prime, _, _) = self._rows
        if self._differences:
            return np.asarray(same & (mean == 0.0).all(axis=1))
        return np.asarray(same & (mean == mean_prime).all(axis=1))


def _differ_by_row(sides: tuple[Sample, Sample]) -> bool:
    """Tell whether only the difference of the features matters, of one drawn output in each row."""
    return sides[0].same_system(sides[1]) and all(
        isinstance(side.outputs, DrawnOutputs)
        and side.outputs.values.shape[1] == 1
        and side.outputs.weights is None
        and side.design.group is None
        for side in sides
    )


def _means(
    sides: tuple[Sample, Sample], rows: list[Array], p: Array | None = None
) -> tuple[Array, ...]:
    """Return the mean features at the distinct inputs from those of the rows, or their difference.

    Rows of ``p`` are overwritten: fresh memory takes longer than the subtraction.
    """
    nature, model = (side.design.average(mean) for side, mean in zip(sides, rows, strict=True))
    if not sides[0].same_system(sides[1]):
        return nature, model
    is_part = p is not None and nature.base is p
    return (np.subtract(nature, model, out=nature if is_part else None),)


def pairs_in_closed_form(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether all inner products of embeddings have closed forms, so that the dense form is exact."""
    return any_predicted(sides) and None not in [task.atom_count(side.outputs) for side in sides]


def is_atomless(outputs: Outputs) -> bool:
    """Tell whether outputs are predicted by densities, which give no single output a probability."""
    return not isinstance(outputs, DrawnOutputs) and outputs.prediction.atomless


def sums_exponentials(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether quadratic forms of the output kernel take linear time in dense form."""
    columns = set(map(_columns, sides))
    kernel: Kernel | None = task.y_kernel
    if any(is_atomless(side.all_outputs) for side in sides):
        kernel = split_delta(task.y_kernel)[0]
    return kernel is None or ExponentialSum.of(kernel, max(columns)) is not None


def better_dense(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether features of predicted densities would not pay: kernels with kinks or jumps.

    The rank of such kernels is the number of outputs, and the dense form takes time proportional to the
    number of nodes.
    """
    densities = [
        side
        for side in sides
        if not isinstance(side.all_outputs, DrawnOutputs)
        and not side.all_outputs.prediction.discrete
    ]
    if not densities:
        return False
    n = max(len(task.grid), *map(len, sides))
    return n <= _MOST_DENSE and sums_exponentials(sides, task) and not _is_constant(task.y_kernel)


def _is_constant(kernel: Kernel) -> bool:
    """Tell whether a kernel has one value everywhere, and therefore rank 1."""
    parts = ExponentialSum.of(kernel, 1)
    return parts is not None and not parts.delta and not any(rate for rate, _ in parts.terms)


def _small(sides: tuple[Sample, Sample], task: Task) -> bool:
    """Tell whether the dense form costs less than the features themselves, whatever their rank."""
    options, points = task.options, len(task.grid)
    if (
        (options.solver, options.backend) != ("auto", "auto")
        or options.dtype is not None
        or task.stays
    ):
        return False
    predicted = any_predicted(sides)
    n = max(map(len, sides))
    features = _PREDICTED_FEATURES + _PREDICTED_ROW * n if predicted else _DRAWN_FEATURES
    entry = _pair_cost(sides, task)

    def cost(outputs: int) -> float:
        """Return the cost of solutions at each point, and of their quadratic forms over the outputs."""
        return factor_cost(n, points) + EXACT_COST * outputs**2 * (entry + points)

    if cost(sum(map(len, sides))) > features:
        return False
    counts = [task.atom_count(side.outputs) for side in sides]
    return None not in counts and cost(sum(filter(None, counts))) <= features


def _columns(side: Sample) -> int:
    outputs = side.all_outputs
    return (
        outputs.values.shape[2] if isinstance(outputs, DrawnOutputs) else outputs.prediction.columns
    )


def any_predicted(sides: tuple[Sample, Sample]) -> bool:
    """Tell whether a side has predicted distributions, not draws."""
    nature, model = sides
    return not (
        isinstance(nature.outputs, DrawnOutputs) and isinstance(model.outputs, DrawnOutputs)
    )


def _pairs(sides: tuple[Sample, Sample]) -> float:
    return float(sum(len(side.design) for side in sides)) ** 2


def expected_outputs(side: Sample) -> int:
    """Return the number of distinct outputs of a side that give the features: an upper bound or a guess."""
    outputs = side.all_outputs
    if are_many(outputs):
        return MOST_CANDIDATES
    return outputs.count if isinstance(outputs, DrawnOutputs) else _CANDIDATES


def _pivot_pool(side: Sample) -> tuple[Array, Array | None]:
    """Return the outputs of a side that are candidates for pivots, and their importance if it differs."""
    if isinstance(side.outputs, DrawnOutputs):
        many = are_many(side.outputs)
        return representatives(side.outputs) if many else side.outputs.flat, None
    return candidates(side.outputs.prediction)


def _affordable_rank(
    n: int, task: Task, outputs: int, sides: tuple[Sample, Sample], in_closed_form: bool
) -> int:
    """Return the rank beyond which the dense form is cheaper.

    If predicted distributions have no inner products in closed form, the dense form sums over all pairs of
    their nodes, and is never cheaper.
    """
    if any_predicted(sides) and not in_closed_form:
        return min(outputs, _MOST_PREDICTED)
    return min(outputs, max(_LEAST_RANK, min(n // 4, 2 * len(task.grid), MOST_RANK)))
