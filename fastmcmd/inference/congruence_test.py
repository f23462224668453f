"""The exact Monte-Carlo test of whether the observed outcomes could come from the predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import ColumnsLike, Encoder, MemoryLimit, RandomState
from fastmcmd._base.blockwise import is_blockwise, on_blocks
from fastmcmd._base.checks import (
    as_rows,
    as_weights,
    check_choice,
    check_flag,
    check_labels,
    check_positive,
    check_same_length,
)
from fastmcmd._base.memory import parse_memory
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd._base.threads import get_num_threads
from fastmcmd.default_kernels import (
    chosen_lam,
    default_input_kernel,
    given_kernel,
)
from fastmcmd.estimate.samples import encoded
from fastmcmd.frames import check_row_order
from fastmcmd.inference.combination import (
    direction_of,
    evidence_of,
    rank_p_value,
    scores_of,
    squared_norms,
    statistics_of,
)
from fastmcmd.inference.complete_rows import complete_rows
from fastmcmd.inference.conditioning import inputs_of, points_of, with_columns_of_labels
from fastmcmd.inference.congruence_result import CongruenceTest, KernelEvidence
from fastmcmd.inference.dispersion import has_outliers
from fastmcmd.inference.exchangeable import exchangeable_outcomes
from fastmcmd.inference.forecast_calibration import forecast_calibration
from fastmcmd.inference.inputs import LEAST_SIMULATIONS, check_simulations
from fastmcmd.inference.memory_plan import MemoryPlan, TestSize
from fastmcmd.inference.outcome_features import (
    OutcomeFeatures,
    ladder_of_outcomes,
    landmark_features,
)
from fastmcmd.inference.relevance import excess_of
from fastmcmd.inference.row_test import row_test
from fastmcmd.inference.smoother import Basis, Smoother
from fastmcmd.inference.statistics import ClusterSigns, project
from fastmcmd.kernels import Delta, Kernel
from fastmcmd.predictive import Categorical, Draws, Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.predictive.categorical import numbered

__all__ = ["LEAST_CLUSTERS", "CongruenceTest", "KernelEvidence", "congruence_test"]

LAMS = (0.1, 0.01, 0.001)
REPORTED_LAM = 0.01
_LANDMARKS = 100
_LEAST_LANDMARKS = 40
_WORK = (
    1.2e12  # largest number of operations of the products, unless the fewest landmarks need more
)
# Smallest numbers of clusters, and of rows of a test of relevance: simulations of sizes began there.
LEAST_CLUSTERS = 10
_LEAST_ROWS = 20
_STAGE = 4.0  # divided by alpha: data sets of the first stage
_CLEAR = 3.0  # times alpha: a p-value of the first stage above it ends the test
_MOST_POINTS = 2_000  # rows that are searched for the largest

Array = NDArray[np.float64]


def congruence_test(
    x: ArrayLike,
    y: ArrayLike,
    prediction: PredictionLike,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = None,
    simulations: int = 199,
    statistic: Literal["mean", "max"] = "mean",
    condition_on: str | ColumnsLike = "x",
    random_state: RandomState = 0,
    *,
    at: ArrayLike | None = None,
    null: Literal["right", "relevant"] = "right",
    delta: float | None = None,
    groups: ArrayLike | None = None,
    alpha: float | None = None,
    encoder: Encoder | None = None,
    weights: ArrayLike | None = None,
    memory_limit: MemoryLimit = None,
    nan_policy: Literal["raise", "omit"] = "raise",
    progress: bool = False,
    client: object = None,
) -> CongruenceTest:
    """Return an exact test of whether outcomes could come from the predicted distributions.

    Parameters
    ----------
    x : array_like (n, d) or (n,)
        Inputs.
    y : array_like (n,) or (n, k)
        Observed outcomes.
    prediction : Predictive, array, (mean, std), scipy.stats or torch.distributions object
        As in `cce`. Draws are exchanged with y, row by row.
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs, or on the variables of ``condition_on``; default ("auto") the mean of three RBF
        kernels on standardised columns.
    y_kernel : Kernel, "auto" or "paper", optional
        Kernel on outcomes; default ("auto") several: on outcomes at their marginal scale, on standardised
        outcomes, and on their ranks among outcomes of the prediction.
    lam : float, "auto" or "paper", optional
        Regulariser; default ("auto") 0.1, 0.01 and 0.001 together.
    simulations : int
        B, at least 19. The smallest possible p-value is 1 / (B + 1).
    statistic : {"mean", "max"}
        Mean over the rows, or the largest row (of at most 2,000), which detects misfit in few places.
    condition_on : {"x", "forecast"} or array_like (n, c)
        "forecast": calibration given the predicted mean and spread, or probabilities, in place of x; the
        result holds the SKCE and the CKCE as well. The forecast of draws includes the outcome, with
        which they are exchanged.
        Columns: calibration given these. They must not be computed from draws of the prediction. Labels
        that are text, of shape (n,), stand for groups.
    random_state : int, numpy.random.Generator or None
        Source of the simulated outcomes. The default gives the same p-value at each call; None takes fresh
        random numbers.
    at : array_like (q, d), optional
        Points at which to test as well, or labels of groups: `CongruenceTest.rows`.
    null : {"right", "relevant"}
        "relevant": test whether CCE is at most ``delta``, because large samples reject every model. This
        test is approximate, and uses only the first kernel on outcomes and one ``lam`` (0.01 by default).
    delta : float, optional
        With ``null="relevant"``: the largest negligible CCE (root mean square over the rows).
    groups : array_like (n,), optional
        Labels of clusters of dependent rows, such as patients with several visits; at least 10 clusters.
        Each cluster gets random signs (a wild bootstrap), which is approximate.
    alpha : float, optional
        For many tests of which most will not reject: ``4 / alpha`` data sets are simulated first, and the
        test ends there if its p-value is above ``3 * alpha``. The p-value stays valid.
    encoder : callable, optional
        Maps the inputs x, and points ``at`` of theirs, to an array, as in `cce`.
    weights : array_like (n,), optional
        Nonnegative weights of the rows, such as those of a covariate shift; only their ratios matter. The
        test is exact if they do not depend on y.
    memory_limit : int, str or None
        Bytes that may be allocated beyond the arguments, such as "200MB". A small limit takes fewer rows
        at once, then one thread, then fewer landmarks. Default: half of the free memory.
    nan_policy : {"raise", "omit"}
        What to do with rows in which x, y, the weight, a column of ``condition_on``, a label of ``groups``
        or an array of the prediction is NaN: raise an error, or leave them out. Leaving them out is exact
        if right predictions would not change which rows these are.
    progress : bool
        Show a progress bar.
    client : distributed.Client, optional
        The cluster that computes if arguments are Dask collections; see `fastmcmd.distributed`.

    Returns
    -------
    CongruenceTest

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.
    MemoryLimitError
        ``memory_limit`` is too small.

    Notes
    -----
    If the prediction is right at each row, y and B outcomes drawn from it are exchangeable given x. Then
    the rank of the observed data set is uniform for any statistic that treats all B + 1 data sets alike:
    the p-value is valid for every n, kernel, number of landmarks and precision. Statistics are combined by
    ``max_k (T_k - mean_k) / sd_k``, with mean and deviation over all B + 1 data sets, and ranked again.

    With ``alpha`` the p-value is that of the first stage if it is above ``3 * alpha``, else the smaller of
    ``3 * alpha`` and that of all simulations: ``P(p <= t) <= t`` for all t, whatever the stages share.

    The CCE of the result belongs to the first kernel on outcomes, one ``lam`` and at most 100 landmarks on
    inputs, so it differs from that of `cce` with its default kernels.

    The test is not exact for predictions fitted to the same y, for rows that depend on each other (see
    ``groups``), and for a kernel chosen by looking at y.

    Examples
    --------
    The first model is too wide beyond chance. Nothing speaks against the second.

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(-2, 2, 400)
    >>> y = np.sin(x) + 0.3 * rng.normal(size=400)
    >>> wide = fm.congruence_test(x, y, fm.Gaussian(np.sin(x), 0.4), random_state=0)
    >>> wide.p_value, wide.dispersion
    (0.005, 'too wide')
    >>> fm.congruence_test(x, y, fm.Gaussian(np.sin(x), 0.3), random_state=0).p_value > 0.05
    True
    """
    if is_blockwise(x, y, prediction, groups, client=client):
        return on_blocks("congruence_test", locals())
    check_order(y, "(x, y, prediction)")
    check_row_order(x=x, y=y, prediction=prediction, condition_on=condition_on, weights=weights)
    condition_on, at = with_columns_of_labels(condition_on, at)
    input_name = "x" if encoder is None else "encoder(x)"
    encoded_x: Any = encoded(x, encoder)
    y = numbered(y, prediction)
    check_choice(nan_policy, "nan_policy", ("raise", "omit"))
    if nan_policy == "omit":
        encoded_x, y, prediction, weights, groups, condition_on = complete_rows(
            encoded_x, y, prediction, weights, groups, condition_on
        )
    x, y = as_rows(encoded_x, input_name).astype(np.float64), as_rows(y, "y").astype(np.float64)
    check_same_length(x=x, y=y)
    row_weights = as_weights(weights, "weights", len(y))
    if row_weights is not None:
        row_weights /= row_weights.mean()
    predictive = as_predictive(prediction, len(y), y.shape[1], y=y, x=x)
    simulations = check_simulations(simulations)
    check_choice(statistic, "statistic", ("mean", "max"))
    labels = None if groups is None else _clusters(groups, len(y), row_weights)
    delta = _limit(null, delta, len(y), statistic, groups, alpha)
    x_kernel, y_kernel, lam = _resolved_arguments(x_kernel, y_kernel, lam)
    lams = LAMS if lam is None else (lam,)
    inputs, condition = inputs_of(condition_on, x, y, predictive)
    points = None
    if at is not None:
        places: Any = encoded(at, encoder) if condition == "x" else at
        points = points_of(places, inputs, condition)
    if x_kernel is None:
        x_kernel = default_input_kernel(inputs, "x" if condition == "x" else "condition_on")
    test = _Test(
        inputs=inputs, y=y, prediction=predictive, x_kernel=x_kernel, y_kernel=y_kernel, lams=lams,
        reported=REPORTED_LAM if lam is None else lams[0], statistic=statistic, condition=condition,
        points=points, delta=delta, labels=labels, weights=row_weights,
        rng=generator(random_state, Purpose.TEST), progress=check_flag(progress, "progress"),
        memory=parse_memory(memory_limit),
    )  # fmt: skip
    return test.run(simulations) if alpha is None else _in_stages(test.run, simulations, alpha)


def _in_stages(
    run: Callable[[int], CongruenceTest], simulations: int, alpha: float
) -> CongruenceTest:
    """Return the result of a first stage if that is clear, else of all simulations."""
    alpha = check_positive(alpha, "alpha")
    if alpha >= 1:
        raise ValueError(f"alpha is {alpha:g}; a number in (0, 1) is needed")
    first = max(np.ceil(_STAGE / alpha) - 1, LEAST_SIMULATIONS)  # infinite for a tiny alpha
    if 2 * first > simulations:
        return run(simulations)
    early = run(int(first))
    clear = _CLEAR * alpha
    if early.p_value > clear:
        return early
    full_test = run(simulations)
    return replace(full_test, p_value=min(full_test.p_value, clear))


@dataclass(frozen=True, eq=False)
class _Test:
    """The settings of a test that do not depend on the number of simulations."""

    inputs: Array
    y: Array
    prediction: Predictive
    x_kernel: Kernel
    y_kernel: Kernel | None
    lams: tuple[float, ...]
    reported: float
    statistic: str
    condition: str
    points: Array | None
    delta: float | None
    labels: NDArray[np.intp] | None
    weights: Array | None
    rng: np.random.Generator
    progress: bool
    memory: int

    def run(self, simulations: int) -> CongruenceTest:
        """Return the result with ``simulations`` simulated data sets."""
        rng, inputs, weights, n = self.rng, self.inputs, self.weights, len(self.y)
        outcomes = exchangeable_outcomes(self.y, self.prediction, simulations, rng)
        kinds = _kinds_of(self.y_kernel, self.prediction, outcomes.of_some_rows(), rng)
        work = 2.0 * sum(kind.rank for kind in kinds) * (simulations + 1) * n
        landmarks = int(np.clip(_WORK / work, _LEAST_LANDMARKS, _LANDMARKS))
        relevant = self.delta is not None
        given_forecast = self.condition == "forecast" and self.labels is None and n > 1
        plan = self._plan(simulations, kinds, landmarks, relevant or given_forecast)
        with Progress(self.progress, 0.0) as line:
            basis = Smoother.of(self.x_kernel, inputs, plan.landmarks, rng).basis(inputs, weights)
            signs = None
            if self.labels is not None:
                signs = ClusterSigns.random(self.labels, simulations + 1, rng)
            energy = basis.energy(self.reported)
            projections = project(
                outcomes,
                kinds,
                basis,
                inputs,
                energy,
                line,
                weights=weights,
                signs=signs,
                keep_residuals=relevant or given_forecast,
                chunk=plan.chunk,
                threads=plan.threads,
            )
            at_points = projections.outcomes[0]
            if self.labels is not None and (self.points is not None or self.statistic == "max"):
                # Few clusters lie near a point. With signs, the adjusted p-values were too small.
                signs = ClusterSigns.six_point(self.labels, simulations + 1, rng)
                at_points = project(
                    outcomes, kinds[:1], basis, inputs, energy, line, weights=weights, signs=signs,
                    chunk=plan.chunk, threads=plan.threads,
                ).outcomes[0]  # fmt: skip
        misfit = energy @ squared_norms(projections, 0)
        names, values = statistics_of(projections, kinds, basis, self.lams)
        rows = None
        if self.points is not None:
            rows = row_test(basis, at_points, self.points, self.reported)
        if self.statistic == "max":
            largest = self._largest(basis, at_points)
            names = [(kinds[0].name, "largest row"), *names[-1:]]
            values = np.stack([largest, values[-1]])
        scores = scores_of(values)
        p_value = rank_p_value(scores.max(axis=0))
        excess = float((misfit[0] - projections.noise[0]) * projections.signal_factor)
        bound = None
        dispersion = direction_of(projections.dispersion) if p_value <= 0.05 else ""
        if signs is not None:  # pairs of rows in one cluster are noise, too
            excess = float(misfit[0] - misfit[1:].mean())
        if self.delta is not None:
            assert projections.residuals is not None
            relevance = excess_of(basis, inputs, projections.residuals, self.reported, rng, weights)
            p_value, bound = relevance.p_value(self.delta * self.delta), relevance.bound(0.05)
        calibration = None
        if given_forecast:
            calibration = forecast_calibration(basis, inputs, projections, self.reported, weights)
        return CongruenceTest(
            p_value=p_value,
            excess=excess,
            evidence=evidence_of(names, scores),
            dispersion=dispersion,
            rows=rows,
            n=n,
            simulations=simulations,
            lam=self.reported,
            condition_on=self.condition,
            simulated=misfit,
            null="relevant" if relevant else "right",
            delta=self.delta,
            lower_bound=None if bound is None else float(np.sqrt(max(bound, 0.0))),
            clusters=0 if self.labels is None else _count_of(self.labels, weights),
            skce=None if calibration is None else calibration.skce,
            ckce=None if calibration is None else calibration.ckce,
            null_ckce=None if calibration is None else calibration.null_ckce,
            of_classes=isinstance(self.prediction, Categorical),
            one_draw=isinstance(self.prediction, Draws) and self.prediction.array.shape[1] == 1,
            outliers=dispersion == "too wide"
            and has_outliers(self.y, self.prediction, self.weights),
        )

    def _plan(
        self, simulations: int, kinds: list[OutcomeFeatures], landmarks: int, residuals: bool
    ) -> MemoryPlan:
        points = 0 if self.points is None else len(self.points)
        if self.statistic == "max":
            points = max(points, min(len(self.y), _MOST_POINTS))
        size = TestSize(
            rows=len(self.y),
            columns=self.inputs.shape[1],
            outputs=self.y.shape[1],
            data_sets=simulations + 1,
            points=points,
            clusters=0 if self.labels is None else int(self.labels.max()) + 1,
            residuals=residuals,
            relevance=self.delta is not None,
        )
        return MemoryPlan.of(
            self.memory, size, kinds, landmarks, _LEAST_LANDMARKS, get_num_threads()
        )

    def _largest(self, basis: Basis, projection: NDArray[np.float32]) -> Array:
        """Return the largest deviation of any row, of at most 2,000, in each data set."""
        some = self.inputs if self.weights is None else self.inputs[self.weights > 0]
        if len(some) > _MOST_POINTS:
            some = some[np.sort(self.rng.choice(len(some), _MOST_POINTS, replace=False))]
        return row_test(basis, projection, some, self.reported).largest


def _clusters(groups: ArrayLike, n: int, weights: Array | None) -> NDArray[np.intp]:
    """Return the cluster (n,) of each row."""
    labels = check_labels(groups, "groups", n)
    count = _count_of(labels, weights)
    if count < LEAST_CLUSTERS:
        rows = "" if weights is None else " in rows of positive weight"
        raise ValueError(
            f"groups has {count} different labels{rows}; at least {LEAST_CLUSTERS} are needed: the "
            "error rate of the test with fewer clusters is not known"
        )
    return labels


def _count_of(labels: NDArray[np.intp], weights: Array | None) -> int:
    """Return the number of clusters with a row of positive weight."""
    return len(np.unique(labels if weights is None else labels[weights > 0]))


def _limit(
    null: str, delta: float | None, n: int, statistic: str, groups: object, alpha: float | None
) -> float | None:
    """Return the largest negligible CCE; None if the null hypothesis is right predictions."""
    check_choice(null, "null", ("right", "relevant"))
    if null == "right":
        if delta is not None:
            raise ValueError(
                f"delta is {delta!r}, which null='right' does not use; pass null='relevant' to test "
                "whether CCE is at most delta"
            )
        return None
    if delta is None:
        raise ValueError("delta is None; null='relevant' needs the largest CCE that is negligible")
    for name, is_set in (
        ("statistic", statistic != "mean"),
        ("groups", groups is not None),
        ("alpha", alpha is not None),
    ):
        if is_set:
            raise ValueError(f"{name} is given, and null='relevant' is not available with it")
    if n < _LEAST_ROWS:
        raise ValueError(f"there are {n} rows; null='relevant' needs at least {_LEAST_ROWS}")
    return check_positive(delta, "delta")


def _resolved_arguments(
    x_kernel: Kernel | str | None, y_kernel: Kernel | str | None, lam: float | str | None
) -> tuple[Kernel | None, Kernel | None, float | None]:
    """Return the kernels and the regulariser that the arguments name; None for the test's defaults."""
    ladder = lam is None or (isinstance(lam, str) and lam == "auto")
    return (
        given_kernel(x_kernel, "x_kernel"),
        given_kernel(y_kernel, "y_kernel"),
        None if ladder else chosen_lam(lam),
    )


def _kinds_of(
    y_kernel: Kernel | None, prediction: Predictive, outcomes: Array, rng: np.random.Generator
) -> list[OutcomeFeatures]:
    if y_kernel is None and not isinstance(prediction, Categorical):
        return ladder_of_outcomes(outcomes)
    kernel = Delta() if y_kernel is None else y_kernel
    return [landmark_features(kernel, outcomes, rng, "y")]
