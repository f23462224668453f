"""The conditional congruence error of test sets that arrive in batches, in parts, or in sliding windows."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import storage
from fastmcmd._base.annotations import FilePath, Json, RandomState
from fastmcmd._base.blocks import row_blocks
from fastmcmd._base.checks import (
    as_rows,
    as_weights,
    check_count,
    check_instance,
    check_lam,
    check_path,
    check_same_length,
    distinct_digits,
)
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends.tall_skinny import inner
from fastmcmd.embedding.sample import DrawnOutputs
from fastmcmd.frames import check_row_order
from fastmcmd.inference.exchangeable import (
    ROWS,
    ExchangedOutcomes,
    OutcomeSource,
    exchangeable_outcomes,
)
from fastmcmd.inference.inputs import LEAST_SIMULATIONS
from fastmcmd.inference.row_norms import own_products
from fastmcmd.inference.smoother import Smoother
from fastmcmd.io.state import decode
from fastmcmd.kernels import Kernel, kernel_from_dict
from fastmcmd.kernels.base import UNIT, relative_error
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.adapters.convert import check_order
from fastmcmd.predictive.base import PredictionLike
from fastmcmd.streaming.base import Accumulator
from fastmcmd.streaming.congruence_estimate import CongruenceEstimate, estimate_of
from fastmcmd.streaming.congruence_landmarks import (
    extended,
    features_of,
    residual_kernel,
    scaled_rows,
    smoother_at,
)
from fastmcmd.streaming.congruence_saved import (
    SavedCCE,
    landmarks_of,
    saved_landmarks,
    saved_sums,
    sums_of,
)
from fastmcmd.streaming.congruence_sums import CongruenceSums, ModelSums, Probes, Ridge
from fastmcmd.streaming.output_features import (
    Columns,
    GivenLandmarks,
    Lattice,
    OutputMap,
    outputs_of,
)

__all__ = ["CCE", "ModelsLike", "accumulator_of", "saved_accumulator"]

Array = NDArray[np.float64]
ModelsLike: TypeAlias = PredictionLike | Mapping[str, PredictionLike]
T = TypeVar("T")

_KIND = "streaming.CCE"
_BLOCK_VALUES = 1 << 20  # features of inputs and outputs in a block: 8 MB, several times
_ONE = ""  # name of the model if the prediction has no name
_SHARE = 0.1  # share of k(x, x): landmarks grow when the residual of a row exceeds it


class CCE(Accumulator[CongruenceSums]):
    """Conditional congruence error at landmarks, from sums that add, merge and subtract.

    Parameters
    ----------
    x_kernel : Kernel
        Kernel on inputs. A parameter that depends on the data is resolved on the landmarks if they are
        given, else on the first batch.
    y_kernel : Kernel
        Kernel on outputs, with numbers as its parameters. Sums of RBF kernels on numbers need nothing
        else; other kernels need ``output_landmarks``.
    landmarks : int or array_like (p, d)
        Landmarks, or the largest number to choose from the first batch.
    lam : float
        Regulariser.
    output_landmarks : array_like (r,) or (r, k), optional
        Outputs at which the features of ``y_kernel`` are exact; all classes for ``Delta()``.
    most_landmarks : int, optional
        Largest number to which landmarks may grow when the residual of a row exceeds a tenth of k(x, x).
        Default: they do not grow.
    simulations : int
        Number of outcomes simulated for each row for the exact test: 0, or at least 19.
    random_state : int, numpy.random.Generator or None
        Source of simulated outcomes and landmarks. None takes fresh entropy. Parts that are merged need
        different random states, which `fresh` provides.

    Notes
    -----
    The value is the root mean square over the rows, which is a function of sums; the mean of CCE(x) over
    any points is ``score_samples(points).mean()``. Regulariser and number of rows enter at the end. With p
    landmarks and r output features, the sums of a model take ``p^2`` numbers each for the excess and the
    null mean, ``p r (1 + simulations)`` and ``r^2``; all models share ``p^2``. They do not grow with the
    rows. A lattice has a fixed number of features for each length scale of ``y_kernel`` in the range of the
    outputs.

    The certificate compares the value with the same regression on all rows without landmarks. It is a
    bound, and may be far above the error if the landmarks' residuals are large.

    The test ranks the observed rows among all data sets. Its statistic is the largest of four standardised
    ones: the smoothed misfit at 10 lam, lam and lam / 10, and the spread of the outcomes. It is exact for
    any landmarks.

    Subtraction adds rounding; its level is ``eps N_handled / (N lam)``, in ``rounding`` of the estimate.
    `SlidingWindow` renews the sums when it grows.

    Examples
    --------
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=900)
    >>> y = x + rng.normal(size=900)
    >>> whole = fm.streaming.CCE(fm.RBF(0.5), fm.RBF(0.5), landmarks=50, lam=0.01)
    >>> for start in range(0, 900, 300):
    ...     rows = slice(start, start + 300)
    ...     _ = whole.update(x[rows], y[rows], fm.Gaussian(x[rows] + 0.5, 1.0))
    >>> estimate = whole.compute()
    >>> estimate.excess > 5 * estimate.null_mean
    True
    """

    def __init__(
        self,
        x_kernel: Kernel,
        y_kernel: Kernel,
        landmarks: int | ArrayLike = 100,
        lam: float = 0.01,
        *,
        output_landmarks: ArrayLike | None = None,
        most_landmarks: int | None = None,
        simulations: int = 0,
        random_state: RandomState = None,
    ) -> None:
        for name, kernel in (("x_kernel", x_kernel), ("y_kernel", y_kernel)):
            check_instance(kernel, name, Kernel, "a fastmcmd kernel such as fastmcmd.RBF(0.5)")
        lam = check_lam(lam)
        simulations = check_count(simulations, "simulations", least=0)
        if 0 < simulations < LEAST_SIMULATIONS:
            raise ValueError(
                f"simulations is {simulations}; 0 or at least {LEAST_SIMULATIONS} are needed: with fewer "
                "no p-value reaches 0.05"
            )
        given_landmarks = None
        if isinstance(landmarks, (int, np.integer)) or np.ndim(landmarks) == 0:
            landmarks = check_count(landmarks, "landmarks", least=1)
        else:
            landmarks = given_landmarks = as_rows(landmarks, "landmarks").astype(np.float64)
        if most_landmarks is not None:
            least = landmarks if given_landmarks is None else len(given_landmarks)
            most_landmarks = check_count(most_landmarks, "most_landmarks", least=int(least))
        if output_landmarks is not None:
            output_landmarks = as_rows(output_landmarks, "output_landmarks").astype(np.float64)
        self._outputs = _output_map(y_kernel, output_landmarks)
        super().__init__(
            x_kernel=x_kernel, y_kernel=y_kernel, landmarks=landmarks, lam=lam,
            output_landmarks=output_landmarks, most_landmarks=most_landmarks, simulations=simulations,
        )  # fmt: skip
        self._random = generator(random_state, Purpose.TEST)
        self._stream = f"{int(self._random.integers(0, 2**63)):016x}"
        self._probes: Probes | None = None  # rows that `fastmcmd.distributed` draws from all rows
        self._smoother = None if given_landmarks is None else smoother_at(x_kernel, given_landmarks)

    def update(
        self,
        x: ArrayLike,
        y: ArrayLike,
        prediction: ModelsLike,
        sample_weight: ArrayLike | None = None,
    ) -> CCE:
        """Add a batch, and return the accumulator. After an error the accumulator is unchanged.

        Parameters
        ----------
        x : array_like (n, d) or (n,)
            Inputs; a batch of no rows changes nothing.
        y : array_like (n,) or (n, k)
            Observed outputs.
        prediction : Predictive or what converts to one, or a mapping of these
            Predicted distributions; several models by name share the computations on x.
        sample_weight : array_like (n,), optional
            Nonnegative weights.
        """
        if _is_empty(x) and _is_empty(y):
            return self
        self.add(self.gather(x, y, prediction, sample_weight))
        return self

    def gather(
        self,
        x: ArrayLike,
        y: ArrayLike,
        prediction: ModelsLike,
        sample_weight: ArrayLike | None = None,
    ) -> CongruenceSums:
        """Return the sums of a batch; arguments as in `update`."""
        check_order(y, "(x, y, prediction)")
        check_row_order(x=x, y=y, sample_weight=sample_weight)
        inputs = as_rows(x, "x").astype(np.float64)
        if self._width not in (None, inputs.shape[1]):
            raise ValueError(
                f"x has {inputs.shape[1]} columns and landmarks have {self._width}; they must agree"
            )
        outcomes = as_rows(y, "y", columns=self._outputs.dimension).astype(np.float64)
        check_same_length(x=inputs, y=outcomes)
        n = len(outcomes)
        weights = as_weights(sample_weight, "sample_weight", n)
        models = self._models(prediction, outcomes)
        smoother = self._smoother
        if smoother is None:
            kernel, most = self.settings["x_kernel"], self.settings["landmarks"]
            smoother = Smoother.of(kernel, inputs, most, self._random)
        smoother = self._grown(smoother, inputs)
        columns = self._outputs.columns(outcomes, list(models.values()))
        simulated = self._outcomes(outcomes, models)
        for one in simulated.values():
            columns = self._columns_with(one, columns)
        w = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        step = _BLOCK_VALUES // (smoother.rank + len(columns)) // ROWS * ROWS
        parts = []
        for rows in row_blocks(n, max(step, ROWS)) or [slice(0, n)]:
            some = models
            if rows.stop - rows.start < n:
                places = np.arange(rows.start, rows.stop)
                some = {name: one.take(places) for name, one in models.items()}
            parts.append(
                self._gathered(
                    smoother,
                    inputs[rows],
                    w[rows],
                    outcomes[rows],
                    some,
                    columns,
                    simulated,
                    rows.start,
                )
            )
        return functools.reduce(operator.add, parts)

    def _gathered(
        self, smoother: Smoother, inputs: Array, w: Array, outcomes: Array,
        models: dict[str, Predictive], columns: Columns, simulated: dict[str, OutcomeSource], start: int,
    ) -> CongruenceSums:  # fmt: skip
        """Return the sums of a block of rows of a batch, the first of which is row ``start``."""
        n = len(outcomes)
        f, residual = features_of(smoother, inputs)
        probes, residual_cross = self._probes, None
        if probes is not None:
            residual_cross = w * residual_kernel(smoother, probes.points, inputs, f)
            probes = replace(probes, cross=residual_cross @ f)
        size = float(w @ smoother.features.diagonal(scaled_rows(smoother, inputs)))
        relative = relative_error(n + 2, UNIT)
        gram = inner(f, f, scale=w)
        return CongruenceSums(
            smoother=smoother,
            gram=gram,
            weight=float(w.sum()),
            handled=float(w.sum()),
            rows=n,
            ranks=np.array([smoother.rank]),
            residual=np.array([float(w @ residual)]),
            columns=columns,
            models={
                name: self._sums(
                    f, w, outcomes, one, columns, simulated.get(name), residual_cross, start
                )
                for name, one in models.items()
            },
            streams=(self._stream,) if self.settings["simulations"] else (),
            # In other blocks of rows, the residual of a row may differ by a few roundings.
            lost=(
                relative * float(np.trace(gram)),
                relative * float(w.sum()),
                relative * float(w @ residual) + relative_error(smoother.rank + 8, UNIT) * size,
            ),
            probes=probes,
        )

    def add(self, state: CongruenceSums) -> None:
        """Add sums that `gather` returned, perhaps in another process."""
        super().add(state)
        assert self._state is not None
        self._smoother = self._state.smoother

    def merge(self, other: CCE) -> CCE:
        """Add the rows of another accumulator of the same settings and models.

        Landmarks that differ, because they were chosen from other samples or have grown, are joined.

        Raises
        ------
        TypeError, ValueError
            ``other`` has another kind, other settings or models, or the same stream of simulated outcomes.
        """
        mine, theirs = self._state, getattr(other, "_state", None)
        if mine is not None and isinstance(theirs, CongruenceSums):
            _check_models(mine, theirs)
            if set(mine.streams) & set(theirs.streams):
                raise ValueError(
                    "other drew its simulated outcomes from the same random stream as this one: rows of "
                    "both would depend on each other; give parts another random_state, or use fresh()"
                )
        if theirs is None and isinstance(other, CCE) and self._smoother is None:
            self._smoother = other._smoother
        return super().merge(other)

    def subtract(self, other: CCE) -> CCE:
        """Remove the rows of another accumulator that was merged into this one.

        Raises
        ------
        TypeError, ValueError
            ``other`` has another kind or other settings, or its rows cannot be part of this one.
        """
        empty = self.fresh()
        empty.merge(other)  # checks kind and settings
        theirs = empty._state
        if theirs is None:
            return self
        mine = self._state
        if mine is None or theirs.rows > mine.rows:
            raise ValueError(
                f"other has {theirs.rows:,} rows and this one {0 if mine is None else mine.rows:,}: it was "
                "not merged into it"
            )
        _check_models(mine, theirs)
        if not set(theirs.streams) <= set(mine.streams):
            raise ValueError("other has simulated outcomes that were not merged into this one")
        if theirs.weight > mine.weight * (1 + 1e-9):
            other_weight, own_weight = distinct_digits(theirs.weight, mine.weight)
            raise ValueError(
                f"other has weight {other_weight} and this one {own_weight}: it was not merged into it"
            )
        self._state = None if theirs.rows == mine.rows else mine - theirs
        return self

    def fresh(self, random_state: RandomState = None) -> CCE:
        """Return an accumulator without rows, with the same settings and landmarks and a new random stream.

        Use it for parts that are merged: windows, worker processes.

        Parameters
        ----------
        random_state : int, numpy.random.SeedSequence, numpy.random.Generator or None
            Source of the stream. Default: the stream of this accumulator, which is advanced.
        """
        part = copy.copy(self)
        part._random = np.random.default_rng(self._random.integers(0, 2**32, 4))
        if random_state is not None:
            part._random = generator(random_state, Purpose.TEST)
        part._stream = f"{int(part._random.integers(0, 2**63)):016x}"
        part._state = None
        return part

    def conclude(self, state: CongruenceSums) -> CongruenceEstimate | dict[str, CongruenceEstimate]:
        """Return the estimate; a dict of estimates for several models."""
        simulations = self.settings["simulations"]
        return self._by_model(state, lambda ridge: estimate_of(ridge, simulations))

    def score_samples(self, x: ArrayLike) -> Array | dict[str, Array]:
        """Return CCE(x) (q,) at inputs (q, d); a dict of arrays for several models."""
        f, _, _ = self._at(x)
        return self._by_model(
            self._required_sums,
            lambda ridge: np.asarray(np.linalg.norm(f @ ridge.coefficients, axis=1)),
        )

    def error_bounds(self, x: ArrayLike) -> Array | dict[str, Array]:
        """Return bounds (q,) on the error of `score_samples` at inputs (q, d)."""
        _, diagonal, residual = self._at(x)
        return self._by_model(
            self._required_sums, lambda ridge: ridge.error_bounds(diagonal, residual)
        )

    def witness(self, x: ArrayLike, y: ArrayLike) -> Array | dict[str, Array]:
        """Return the witness h(x, y) (q, g) at inputs (q, d) and outputs (g, k).

        At input x the model puts too little mass near y where h > 0, and too much where h < 0.
        """
        f, _, _ = self._at(x)
        grid = as_rows(y, "y", columns=self._outputs.dimension).astype(np.float64)
        p = self._outputs.transform(grid, self._required_sums.columns)
        return self._by_model(
            self._required_sums, lambda ridge: np.asarray(f @ ridge.coefficients @ p.T)
        )

    def save(self, path: FilePath) -> None:
        """Save the accumulator to a ``.npz`` file, never as a pickle; `fastmcmd.load` reads it.

        The loaded accumulator accepts further batches; its simulated outcomes use fresh entropy. Kernels
        made of Python functions cannot be saved.
        """
        check_path(path, "path")
        storage.save(path, _KIND, saved_accumulator(self))

    @property
    def _required_sums(self) -> CongruenceSums:
        if self._state is None:
            raise ValueError("CCE has seen no rows; call update first")
        return self._state

    @property
    def _width(self) -> int | None:
        """Number of columns of the inputs, if known."""
        return None if self._smoother is None else int(self._smoother.features.pivots.shape[1])

    def _by_model(self, state: CongruenceSums, value: Callable[[Ridge], T]) -> T | dict[str, T]:
        if not state.weight > 0:
            raise ValueError("all rows so far have weight 0; at least one must have more")
        lam = self.settings["lam"]
        values = {name: value(Ridge(state, one, lam)) for name, one in state.models.items()}
        return values[_ONE] if list(values) == [_ONE] else values

    def _at(self, x: ArrayLike) -> tuple[Array, Array, Array]:
        """Return the features, k(x, x) and its residual under the landmarks, at inputs."""
        smoother = self._required_sums.smoother
        rows = as_rows(x, "x", columns=self._width).astype(np.float64)
        f, residual = features_of(smoother, rows)
        return f, smoother.features.diagonal(scaled_rows(smoother, rows)), residual

    def _models(self, prediction: ModelsLike, y: Array) -> dict[str, Predictive]:
        """Return the predictions by name."""
        items: Mapping[str, PredictionLike] = (
            prediction if isinstance(prediction, Mapping) else {_ONE: prediction}
        )
        names = [
            name
            for name in items
            if not isinstance(name, str) or (name == _ONE) is (items is prediction)
        ]
        if names or not items:
            raise ValueError(f"prediction has the names {list(items)}; nonempty texts are needed")
        if self._state is not None and items.keys() != self._state.models.keys():
            raise ValueError(
                f"prediction has the models {list(items)}; {list(self._state.models)} are needed, as before"
            )
        columns = y.shape[1]
        return {
            name: as_predictive(
                one, len(y), columns, f"prediction[{name!r}]" if name else "prediction", y=y
            )
            for name, one in items.items()
        }

    def _grown(self, smoother: Smoother, x: Array) -> Smoother:
        most = self.settings["most_landmarks"]
        if most is None or smoother.rank >= most:
            return smoother
        _, residual = features_of(smoother, x)
        rows = scaled_rows(smoother, x)
        new = residual > _SHARE * smoother.features.diagonal(rows)
        return extended(smoother, rows[new], most, _SHARE) if new.any() else smoother

    def _sums(
        self, f: Array, w: Array, y: Array, prediction: Predictive, columns: Columns,
        outcomes: OutcomeSource | None, residual_cross: Array | None, start: int,
    ) -> ModelSums:  # fmt: skip
        """Return the sums of one model over a batch."""
        simulations = self.settings["simulations"]
        p = self._outputs.transform(y, columns)
        mean, residual, proven = self._expected(prediction, columns)
        e = p - mean
        weighted = f * w[:, None]
        norms = np.einsum("ij,ij->i", e, e)
        variances = self._variances(prediction, mean)
        cross = np.empty((f.shape[1], simulations + 1, len(columns)))
        cross[:, 0] = inner(weighted, e)
        spread = np.empty(simulations + 1)
        spread[0] = w @ norms
        if outcomes is not None:
            cross[:, 1:], spread[1:] = self._simulated(
                weighted, w, p, mean, outcomes, columns, start
            )
        residual = (residual + self._outputs.residual(y, columns)) ** 2
        relative = relative_error(len(w) + 2, UNIT)
        size = float(np.einsum("i,ij,ij->", w, f, f))
        return ModelSums(
            cross=cross,
            squares=inner(e, e, scale=w),
            noise=inner(weighted, weighted, scale=norms),
            null=None if variances is None else inner(weighted, weighted, scale=variances),
            spread=spread,
            residual=float(w @ residual),
            proven=proven,
            lost=(
                relative * float(np.sqrt(size * spread[0])),
                relative * float(spread[0]),
                relative * float(w @ (residual + np.einsum("ij,ij->i", p, p))),
            ),
            residual_cross=None if residual_cross is None else residual_cross @ e,
        )

    def _expected(self, prediction: Predictive, columns: Columns) -> tuple[Array, Array, bool]:
        """Return the embeddings of predictions, as `OutputMap.expected`."""
        return self._outputs.expected(prediction, columns)

    def _variances(self, prediction: Predictive, mean: Array) -> Array | None:
        """Return ``V_i`` (n,), the mean of ``|e_i|^2`` if the prediction is right."""
        outputs = outputs_of(prediction, self._outputs.dimension)
        diagonal = own_products(self._outputs.kernel, outputs)
        variances = np.maximum(diagonal - np.einsum("ij,ij->i", mean, mean), 0.0)
        if not isinstance(outputs, DrawnOutputs):
            return variances
        draws = outputs.values.shape[1]
        return None if draws == 1 else variances * (draws + 1) / (draws - 1)

    def _outcomes(self, y: Array, models: dict[str, Predictive]) -> dict[str, OutcomeSource]:
        """Return the data sets for the test of each model."""
        simulations = self.settings["simulations"]
        if not simulations:
            return {}
        return {
            name: exchangeable_outcomes(y, one, simulations, self._random)
            for name, one in models.items()
        }

    def _columns_with(self, outcomes: OutcomeSource, columns: Columns) -> Columns:
        """Return the columns plus those that any data set reaches: the observed data are not special."""
        if not isinstance(self._outputs, Lattice):
            return columns
        for number in range(-(-len(outcomes.y) // ROWS)):
            values = outcomes.block(number).reshape(-1, 1)
            more = self._outputs.columns(values, [])
            columns = np.unique(np.concatenate([columns, more]), axis=0)
        return columns

    def _simulated(
        self,
        weighted: Array,
        w: Array,
        p: Array,
        mean: Array,
        outcomes: OutcomeSource,
        columns: Columns,
        start: int,
    ) -> tuple[Array, Array]:
        """Return ``F'WE`` (p, B, r) and ``sum w |e|^2`` (B,) of outcomes from row ``start`` on."""
        simulations = outcomes.simulations
        total = np.zeros((weighted.shape[1], simulations * len(columns)))
        spread = np.zeros(simulations)
        for number in range(-(-len(p) // ROWS)):
            rows = slice(number * ROWS, min((number + 1) * ROWS, len(p)))
            data_sets = outcomes.block(start // ROWS + number)[:, 1:]
            count = len(data_sets)
            features = self._outputs.transform(data_sets.reshape(-1, data_sets.shape[2]), columns)
            e = features.reshape(count, simulations, -1)
            if isinstance(outcomes, ExchangedOutcomes):  # relative to the mean of the other values
                draws = outcomes.draws.shape[1]
                e = e - ((draws * mean[rows] + p[rows])[:, None] - e) / draws
            else:
                e = e - mean[rows, None]
            total += weighted[rows].T @ e.reshape(count, -1)
            spread += w[rows] @ np.einsum("ibr,ibr->ib", e, e)
        return total.reshape(weighted.shape[1], simulations, -1), spread


def saved_accumulator(accumulator: CCE) -> SavedCCE:
    """Return the state of an accumulator, which `accumulator_of` reads."""
    settings = accumulator.settings
    return SavedCCE(
        settings["x_kernel"].to_dict(), settings["y_kernel"].to_dict(), settings["landmarks"],
        settings["lam"], settings["output_landmarks"], settings["most_landmarks"],
        settings["simulations"], saved_landmarks(accumulator._smoother), saved_sums(accumulator._state),
    )  # fmt: skip


def accumulator_of(state: SavedCCE) -> CCE:
    """Return the accumulator of a saved state; its simulated outcomes use fresh entropy."""
    restored = CCE(
        kernel_from_dict(state.x_kernel), kernel_from_dict(state.y_kernel), state.landmarks, state.lam,
        output_landmarks=state.output_landmarks, most_landmarks=state.most_landmarks,
        simulations=state.simulations,
    )  # fmt: skip
    if state.features is not None:
        restored._smoother = landmarks_of(state.features)
    if state.sums is not None:
        restored._state = sums_of(state.sums, restored._smoother, state.simulations + 1)
    return restored


def _restored(arrays: dict[str, Any], document: Json, version: int) -> CCE:
    del version
    return accumulator_of(decode(SavedCCE, arrays, document))


storage.register(_KIND, _restored)


def _output_map(kernel: Kernel, points: Array | None) -> OutputMap:
    if points is not None:
        return GivenLandmarks(kernel.resolve(points), points)
    lattice = Lattice.of(kernel)
    if lattice is None:
        raise ValueError(
            f"y_kernel is {kernel!r}; without output_landmarks, a sum of RBF kernels with numbers for "
            "gamma is needed, whose features do not depend on the data"
        )
    return lattice


def _is_empty(value: ArrayLike) -> bool:
    try:
        shape = np.shape(value)
    except ValueError:  # ragged lists: the reader reports them
        return False
    return isinstance(shape, tuple) and shape[:1] == (0,)


def _check_models(one: CongruenceSums, other: CongruenceSums) -> None:
    if one.models.keys() != other.models.keys():
        raise ValueError(
            f"other has the models {list(other.models)}, this one {list(one.models)}; they must agree"
        )
