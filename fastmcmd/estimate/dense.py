"""The dense form, for output kernels without low rank: solve at every evaluation point.

``MCMD^2(x) = c(x)' K_Y c(x)`` over the pooled distinct outputs, where c(x) spreads the coefficients
``a(x) = (K_X + D)^-1 k_X(x)`` of nature and ``-a'(x)`` of the model over their outputs. The evaluation
points are processed in blocks, so that memory stays bounded; the direct solver's factors stay for all
blocks.

An error e in the coefficients changes the norm by at most ``sqrt(max k_Y) ||e||_1``, and
``||e||_1 <= ||D^(-1/2)||_F ||D^(1/2) e|| <= lam^(-1/2) ||D^(-1/2) R||``. Rounding of K_Y and of the sums
adds ``unit ||c||_1^2`` to the square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, HostArray, Json
from fastmcmd._base.cached import cached_property
from fastmcmd._base.progress import Progress
from fastmcmd.backends.base import Backend
from fastmcmd.backends.tall_skinny import roots_of_forms, squares_and_largest
from fastmcmd.checkpoint import Checkpoint, Stage, stages_of
from fastmcmd.embedding.atoms import CLOSED_FORM_ERROR, pair_cost, products, quadratic_forms
from fastmcmd.embedding.bump_lattice import BumpLattice
from fastmcmd.embedding.difference_gram import DifferenceGram
from fastmcmd.embedding.exponential_sums import ExponentialSum, split_delta
from fastmcmd.embedding.panel_gram import PanelGram, PanelOutputs
from fastmcmd.embedding.sample import Sample
from fastmcmd.embedding.spread import Spread
from fastmcmd.estimate.dense_landmarks import (
    DenseLandmarks,
    Differences,
    InputFeatures,
    input_features,
    most_input_landmarks,
)
from fastmcmd.gram import EXACT, GramOperator, diagonal_of, largest_diagonal
from fastmcmd.gram.precision import dtype_name
from fastmcmd.kernels import Delta, Kernel
from fastmcmd.kernels.base import UNIT
from fastmcmd.options import Options
from fastmcmd.rows import Rows
from fastmcmd.solvers import (
    Cholesky,
    Goal,
    LinearProblem,
    PreconditionedCG,
    ProblemSize,
    Solved,
    System,
    solver_of,
)
from fastmcmd.solvers.cholesky import DirectSolver, cholesky_bytes, factor_fits
from fastmcmd.solvers.costs import EXACT_COST, LEAST_CG, exact_cost
from fastmcmd.solvers.factor_file import LeavingAtInterrupt
from fastmcmd.solvers.protocol import Cost, Solver

__all__ = ["MATRIX_SHARE", "DenseFit", "distinct_samples"]

MATRIX_SHARE = (
    3,
    4,
)  # 3 / 4 of the budget is for matrices of the solvers, the rest for a block of points
_TINY = float(np.finfo(np.float64).tiny)
_MANY = 1000  # outputs from which linear-time quadratic forms are used
_LEAST_INPUTS = 400  # from which on operations take longer than the calls of `DifferenceGram`
_SOLVER_SHARE = 0.4  # share of the tolerance for the solves of each side
_CG_COLUMNS = 128  # points in a block with CG: its small dense problems stay small


@dataclass(frozen=True, eq=False)
class DenseProgress:
    """The state of an evaluation in dense form after some blocks of points.

    Attributes
    ----------
    values, errors : ndarray (done,)
        Values and error bounds at the finished points.
    step : int
        Points in a block.
    iterations, passes, solver, dtype, notes
        As in `DenseFit`.
    kinds : list of str
        Kinds of certificates so far.
    rounding_alone : bool
        As in `DenseFit`.
    """

    values: Array
    errors: Array
    step: int
    iterations: int
    passes: int
    solver: str
    dtype: str
    notes: list[str]
    kinds: list[str]
    rounding_alone: bool = False


@dataclass(eq=False)
class DenseFit:
    """A difference of conditional embeddings, stored as its linear systems.

    Attributes
    ----------
    backend, x_kernel, y_kernel
        Backend, and the kernels of inputs and outputs.
    samples : tuple of Sample
        Nature and model.
    outputs : ndarray (u, k)
        Pooled distinct outputs.
    spread : tuple of Spread
        How coefficients of distinct inputs spread over the outputs; the model's shares are negative.
    budget : int
        Bytes for matrices.
    options : Options
        Solver, tolerance, precision.
    node_error : float or None
        ``sum ||D^(-1/2) d||`` over both sides, where d is the estimated error of each embedding by nodes;
        None if no density is integrated numerically. Bounds that include it are "sampled".
    deviations : ndarray (u, k) or None
        Standard deviations of outputs that are normal distributions; None if all outputs are points.
    points : int or None
        Number of evaluation points for which the solver is chosen; None for the number of nature's rows.
    atomless : tuple of bool
        Whether the outputs of a side are nodes of densities, which give no single output a probability:
        `Delta` parts of the output kernel are zero for them.
    input_features : tuple, optional
        The result of `dense_landmarks.input_features`, if it has been computed.
    densities : PanelOutputs, optional
        The model as densities on panels; its spread is then empty, and ``outputs`` are nature's.
    rounding_alone : bool
        Whether rounding in float64 alone kept a solver from its goal so far.
    """

    backend: Backend
    x_kernel: Kernel
    y_kernel: Kernel
    samples: tuple[Sample, Sample]
    outputs: NDArray[np.float64]
    spread: tuple[Spread, Spread]
    budget: int
    options: Options
    node_error: float | None = None
    deviations: NDArray[np.float64] | None = None
    points: int | None = None
    atomless: tuple[bool, bool] = (False, False)
    input_features: InputFeatures | None = None
    densities: PanelOutputs | None = None
    iterations: int = 0
    passes: int = 0
    solver: str = ""
    rank: int = 0  # landmarks of the inputs, if they replace solves
    dtype: str = "float64"
    cache: str = "packed"
    notes: list[str] = field(default_factory=list)
    rounding_alone: bool = False
    peak_bytes: int = 0  # of solvers and blocks of points
    _gram_bytes: int = field(default=0, init=False, repr=False)  # of stored panels
    _direct: list[DirectSolver] = field(default_factory=list)
    _checkpoint: Checkpoint | None = None  # of the current evaluation

    def details(self) -> Json:
        """Return the fields of `Info` that this form determines, and the bytes it holds."""
        return {
            "solver": self.solver,
            "form": "dense",
            "dtype": self.dtype,
            "cache": self.cache,
            "rank": self.rank,
            "iterations": self.iterations,
            "passes": self.passes,
            "notes": tuple(self.notes),
            "held": min(self.budget, self.peak_bytes),
        }

    def evaluate(
        self, grid: HostArray | Rows, progress: Progress, keep: Stage | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
        """Return values (q,), their error bounds (q,) and the kind of the bounds.

        ``keep`` is the stage that saves finished blocks and factors, and from which evaluation resumes.
        """
        landmarks, first, at = self._landmarks, None, grid
        gram = self._gram if landmarks is None else landmarks.gram
        if landmarks is not None:
            first = self._at_landmarks(landmarks, at)
            if not len(first.above):
                return self._with_node_error(at, first.values, first.errors, "rigorous")
            grid = at[first.above]
            gram = None if self._exponential is not None else gram  # forms in linear time
        values = np.empty(len(grid))
        errors = np.empty(len(grid))
        unit, underflow = self._unit(gram), self._underflow
        kinds: set[str] = set()
        gram, step = self._in_blocks(gram, len(grid))
        start_point = 0
        saved_state = None if keep is None else keep.load(DenseProgress)
        if saved_state is not None:
            start_point, step = len(saved_state.values), saved_state.step
            values[:start_point], errors[:start_point] = saved_state.values, saved_state.errors
            self._resume(saved_state)
            kinds.update(saved_state.kinds)
            progress.stage(f"resumed from a checkpoint after {start_point:,} points")
        # Saves factors; an evaluation without checkpoint recomputes them.
        self._checkpoint = None if keep is None else keep.checkpoint
        try:
            for start in range(start_point, len(grid), step):
                rows = slice(start, start + step)
                points = grid if step >= len(grid) else grid[rows]
                block = _Block(self, self._point_bytes(gram))
                for index, solver in enumerate(self._solvers):
                    block.add(solver.solve(self._problem(index, points), progress))
                kinds |= block.kinds
                values[rows], rounding = self._norms(block, gram, unit, underflow)
                errors[rows] = block.error + rounding
                if keep is not None:
                    stop = min(len(grid), rows.stop)
                    last = stop == len(grid)  # the factors are freed next
                    state = partial(self._state, step, values[:stop], errors[:stop], kinds)
                    keep.save(state, force=last)
        except KeyboardInterrupt:
            self.leave()
            raise
        finally:
            if keep is not None:
                self.close()
            self._checkpoint = None
        kind = "sampled" if "sampled" in kinds else "rigorous"
        if first is not None:
            values, errors = first.improved(values, errors)
            if len(first.above) < len(first.values):
                self.solver = "lowrank"
        return self._with_node_error(at, values, errors, kind)

    def _with_node_error(
        self, grid: HostArray | Rows, values: Array, errors: Array, kind: str
    ) -> tuple[Array, Array, str]:
        """Return values, errors with those of nodes of densities, and the kind of all errors together."""
        if self.node_error is None:
            return values, errors, kind
        scale = np.sqrt(np.maximum(diagonal_of(self.x_kernel, grid), 0.0))
        return values, errors + self.node_error * scale / 2, "sampled"

    def _norms(
        self, block: _Block, gram: Differences | None, unit: float, underflow: float
    ) -> tuple[Array, Array]:
        """Return values (q,) from solutions, and bounds on their rounding."""
        if gram is not None:
            return gram.norms(block.common, unit, underflow)
        coefficients, atoms = block.coefficients()
        forms = self._quadratic_forms(coefficients, atoms)
        if self.densities is not None:
            forms += self.densities.forms(block.of_nature, block.of_model)
            coefficients = np.concatenate([coefficients, block.of_model])
        return roots_of_forms(coefficients, forms, unit, underflow)

    def _at_landmarks(self, landmarks: DenseLandmarks, grid: HostArray | Rows) -> _AtLandmarks:
        """Return values and error bounds from landmarks of the inputs."""
        tol = self.options.tol
        values, errors = landmarks.evaluate(grid, self._underflow, tol)
        self.solver, self.rank, self.passes = "lowrank", landmarks.features.rank, 0
        self.peak_bytes = max(self.peak_bytes, landmarks.nbytes)
        return _AtLandmarks(values, errors, np.flatnonzero(~(errors <= tol)))

    @cached_property
    def _underflow(self) -> float:
        """Error of a quadratic form from numbers next to zero.

        Squares of coefficients and residuals underflow at points far from all inputs.
        """
        lam = min(side.lam for side in self.samples)
        return _TINY * len(self.outputs) ** 2 * max(1.0, self.largest / min(1.0, lam))

    @cached_property
    def largest(self) -> float:
        """The largest ``k_Y``."""
        return largest_diagonal(self.y_kernel, self.outputs)

    @cached_property
    def _landmarks(self) -> DenseLandmarks | None:
        """The form at landmarks of the inputs, for all evaluations; None if these do not pay."""
        options, sample, differences = self.options, self.samples[0], self._differences
        if (options.solver, options.dtype) != ("auto", None) or differences is None:
            return None
        # Quadratic forms of sums of exponentials take linear time; M takes all pairs.
        pairs = 0.0 if self._exponential is None else self._pairs_cost(differences.entry_count)
        operator, points = self._operators[0], self._expected_points
        most = most_input_landmarks(operator, points, self.budget, pairs)
        factored = self.input_features
        if most and factored is None:
            factored = input_features(
                sample, self.backend, self.x_kernel, self.largest, options.tol, most
            )
        self.input_features = None  # its values are in the result
        if factored is None or factored[0].rank > most:
            return None
        gram = self._cheapest(differences, factored[0].rank)
        return DenseLandmarks.of(*factored, sample, gram, self._unit(gram))

    @property
    def _expected_points(self) -> int:
        """Number of evaluation points for which methods are chosen."""
        return len(self.samples[0].design) if self.points is None else self.points

    @cached_property
    def _differences(self) -> DifferenceGram | PanelGram | None:
        """The Gram matrix of differences of embeddings, if the samples share their systems."""
        nature, model = self.samples
        inputs = len(nature.design)
        if inputs < _LEAST_INPUTS or self.backend.on_device or not nature.same_system(model):
            return None
        if self.densities is None and (self.node_error is not None or any(self.atomless)):
            return None
        single = DifferenceGram(
            self.y_kernel,
            self.backend,
            self.outputs,
            self.deviations,
            self.spread if self.densities is None else self.spread[:1],
            inputs,
        )
        return single if self.densities is None else PanelGram(single, self.densities)

    def _cheapest(self, differences: DifferenceGram | PanelGram, columns: int) -> Differences:
        """Return the form of M whose products with so many vectors take the least time."""
        if isinstance(differences, PanelGram):
            return differences
        lattice = BumpLattice.of(differences)
        pairs = float(len(differences)) ** 2 * columns * EXACT_COST
        pairs += self._pairs_cost(differences.entry_count) / 2
        if lattice is None or not EXACT_COST * lattice.cost(columns) < pairs:
            return differences
        return lattice

    @cached_property
    def _gram(self) -> Differences | None:
        """The Gram matrix of differences of embeddings, if its quadratic forms take fewer operations."""
        differences = self._differences
        if differences is None or self._exponential is not None:  # forms take linear time
            return None
        gram = self._cheapest(differences, len(differences))
        if not isinstance(gram, DifferenceGram):
            return gram

        def cost(rows: int, outputs: int) -> float:  # as many points as rows: not those of one call
            return float(rows) ** 2 * len(gram) + self._pairs_cost(outputs)

        outputs = len(self.outputs)
        return gram if cost(len(gram), gram.entry_count) < cost(outputs, outputs) else None

    def _pairs_cost(self, outputs: int) -> float:
        normal, columns = self.deviations is not None, self.outputs.shape[1]
        entry = pair_cost(self.y_kernel, columns, self.backend.name, normal=normal)
        return float(outputs) ** 2 * entry

    def _unit(self, gram: Differences | None) -> float:
        """Return the rounding of a quadratic form, relative to the squared 1-norm of its coefficients."""
        largest = self.largest
        if isinstance(gram, BumpLattice):
            return largest * (gram.entry_error + UNIT * (528 + gram.roundings))
        norm2 = squares_and_largest(self.outputs)[1]
        columns = self.outputs.shape[1]
        direct = self.backend.direct_distances(columns, self.y_kernel)
        entry = self.y_kernel.rounding(UNIT, columns, norm2, direct, largest)
        if self.deviations is not None:
            entry = max(entry, CLOSED_FORM_ERROR * columns * UNIT * largest)
        # Rounding of the sums over a tile, over tiles, and over coefficients.
        roundings = 512 + len(self.outputs) / 256 + 16
        if self._exponential is not None:
            roundings = max(roundings, self._exponential.rounding(len(self.outputs)))
        if gram is not None:
            roundings += 2 * gram.most_outputs
        if self.densities is not None:
            roundings += 512 + 2 * self.densities.count
        return entry + largest * UNIT * roundings

    @property
    def _smooth(self) -> Kernel | None:
        """The output kernel; without its `Delta` parts if nodes of densities are among the outputs."""
        return split_delta(self.y_kernel)[0] if any(self.atomless) else self.y_kernel

    @property
    def _exponential(self) -> ExponentialSum | None:
        """The smooth part as a sum of exponentials, if that gives quadratic forms in linear time."""
        smooth, columns = self._smooth, self.outputs.shape[1]
        if smooth is None or self.deviations is not None or len(self.outputs) < _MANY:
            return None
        return ExponentialSum.of(smooth, columns)

    def _equality(self, y: Array) -> Array:
        """Return the difference (g,) between the kernel and its smooth part at equal outputs y (g, k)."""
        smooth = self._smooth
        smooth_diagonal = 0.0 if smooth is None else smooth.diagonal(y)
        return np.asarray(self.y_kernel.diagonal(y) - smooth_diagonal)

    def _quadratic_forms(self, coefficients: Array, atoms: Array | None) -> Array:
        """Return ``c' K_Y c`` (q,) for coefficients (u, q) of all outputs, and of atoms alone."""
        if self.deviations is not None:
            return quadratic_forms(self.y_kernel, self._atoms, coefficients)
        smooth, exponential = self._smooth, self._exponential
        if exponential is not None:
            total = exponential.quadratic_forms(self.outputs, coefficients)
        elif smooth is not None:
            points = self.backend.points(self.outputs, EXACT)
            total = self.backend.quadratic_forms(smooth, points, coefficients)
        else:
            total = np.zeros(coefficients.shape[1])
        if atoms is not None:
            total += self._equality(self.outputs) @ atoms**2
        return total

    @property
    def _atoms(self) -> Array:
        assert self.deviations is not None
        return np.concatenate([self.outputs, self.deviations], axis=1)

    def _resume(self, saved_state: DenseProgress) -> None:
        self.iterations, self.passes = saved_state.iterations, saved_state.passes
        self.solver, self.dtype = saved_state.solver, saved_state.dtype
        self.notes.extend(saved_state.notes)
        self.rounding_alone |= saved_state.rounding_alone

    def _state(self, step: int, values: Array, errors: Array, kinds: set[str]) -> DenseProgress:
        return DenseProgress(
            values, errors, step, self.iterations, self.passes, self.solver, self.dtype,
            list(self.notes), sorted(kinds), self.rounding_alone,
        )  # fmt: skip

    def close(self) -> None:
        """Release all factors, and delete their files; they are recomputed when needed."""
        for direct in self._direct:
            direct.close()
        self._direct.clear()

    def leave(self) -> None:
        """Release all factors; files that a checkpoint lists stay for a later run."""
        for direct in self._direct:
            direct.leave()
        self._direct.clear()

    def witness(
        self, grid: HostArray | Rows, y: NDArray[np.float64], progress: Progress
    ) -> NDArray[np.float64]:
        """Return the witness h(x, y) (q, len(y))."""
        out = np.empty((len(grid), len(y)))
        point_bytes, self._gram_bytes = self._point_bytes(None), 0
        step = self._block(len(grid), point_bytes)
        against = self.backend.points(y, EXACT)
        points = self.backend.points(self.outputs, EXACT)
        at = np.concatenate([y, np.zeros_like(y)], axis=1)
        for start in range(0, len(grid), step):
            rows = slice(start, start + step)
            block = _Block(self, point_bytes)
            for index, solver in enumerate(self._solvers):
                block.add(solver.solve(self._problem(index, grid[rows]), progress))
            coefficients, atoms = block.coefficients()
            smooth, image = self._smooth, np.zeros((len(y), coefficients.shape[1]))
            if self.deviations is not None:
                image += products(self.y_kernel, at, self._atoms, coefficients)
            elif smooth is not None:
                image += self.backend.matmul(smooth, against, points, coefficients)
            if self.densities is not None:
                image -= self.densities.expected(y[:, 0], block.of_model)
            if atoms is not None:
                equal = self.backend.matmul(Delta(), against, points, atoms)
                image += self._equality(y)[:, None] * equal
            out[rows] = image.T
        return out

    def _in_blocks(self, gram: Differences | None, count: int) -> tuple[Differences | None, int]:
        """Return M, with stored panels if several blocks of points need them, and points in a block."""
        self._gram_bytes = 0
        point_bytes = self._point_bytes(gram)
        step = self._block(count, point_bytes)
        if not isinstance(gram, DifferenceGram) or step == count:
            return gram, step
        gram = gram.keeping(self.budget // 8)
        self._gram_bytes = gram.nbytes
        return gram, self._block(count, point_bytes)

    def _block(self, count: int, point_bytes: int) -> int:
        fitting = max(16, (self.budget // 4 - self._gram_bytes) // point_bytes)
        most = _CG_COLUMNS if not self._use_direct else 4096
        return int(min(count, fitting, most))

    def _point_bytes(self, gram: Differences | None) -> int:
        """Return the bytes for each point: coefficients, right-hand sides and their residuals.

        Without ``gram``, coefficients are spread over the outputs.
        """
        nature, model = self.samples
        n = max(len(nature.design), len(model.design))
        spread = 0 if isinstance(gram, DifferenceGram) else len(self.outputs)
        polynomials = 0 if self.densities is None else self.densities.count
        return 8 * (12 * n + 4 * (spread + polynomials))

    @cached_property
    def _use_direct(self) -> bool:
        """Whether to factor once for all points: if the factors fit and cost less than CG."""
        if self.options.solver in ("cg", "cholesky"):
            return self.options.solver == "cholesky"
        points = self._expected_points
        blocks, factors, iterations = -(-points // _CG_COLUMNS), 0.0, 0.0
        systems = list(zip(self.systems, self._operators, strict=True))
        for _, operator in systems:
            if not factor_fits(operator, operator.budget):
                return False
            factors += exact_cost(operator, points)
        if factors <= LEAST_CG * blocks * len(systems):
            return True
        error = _SOLVER_SHARE * self.options.tol
        for sample, operator in systems:
            condition = float(operator.diagonal.mean()) / sample.lam
            size = ProblemSize(operator, (min(points, _CG_COLUMNS),), 1, condition, error)
            iterations += blocks * PreconditionedCG().estimate(size).total
        return factors <= iterations

    @cached_property
    def systems(self) -> list[Sample]:
        """The samples that have systems of their own."""
        return distinct_samples(self.samples)

    @property
    def _solvers(self) -> list[Solver]:
        """The solver of each system."""
        count = len(self.systems)
        if self._use_direct:
            return [_Factored(self, index) for index in range(count)]
        # "auto" chose CG for all blocks. It remains as the fallback if CG misses the goal, and for factors
        # that fit in memory one at a time.
        return [solver_of(self.options)] * count

    @cached_property
    def _operators(self) -> list[GramOperator]:
        """Operators of the systems in float64."""
        return [
            GramOperator(self.backend, self.x_kernel, sample.design.x, EXACT, self._matrix_budget)
            for sample in self.systems
        ]

    @property
    def _matrix_budget(self) -> int:
        """Bytes for the matrices of each system."""
        return self.budget * MATRIX_SHARE[0] // MATRIX_SHARE[1] // len(self.systems)

    def _problem(self, index: int, grid: HostArray | Rows) -> LinearProblem:
        """Return the systems of a sample at some points."""
        sample = self.systems[index]
        goal = Goal(_SOLVER_SHARE * self.options.tol, 2 * math.sqrt(self.largest / sample.lam))
        system = System(self._operators[index].columns(grid), sample.shift)
        budget = self.budget * MATRIX_SHARE[0] // MATRIX_SHARE[1]
        return LinearProblem(
            self.backend, self.x_kernel, sample.design.x, [system], sample.lam, goal, budget
        )

    def direct_solver(self, index: int) -> DirectSolver:
        """Return the solver of a sample, which keeps its factor for the next block of points."""
        if len(self._direct) <= index:
            dtype = self.options.dtype or EXACT
            operator = self._operators[index]
            if dtype != EXACT:
                operator = GramOperator(
                    self.backend, self.x_kernel, operator.x, dtype, self._matrix_budget
                )
            stages = stages_of(self._checkpoint, f"dense {index}")
            self._direct.append(DirectSolver(operator, self.options.cache_dir, stages))
        return self._direct[index]

    def account(self, solved: Solved, block_bytes: int) -> None:
        """Record a solve of a block of points, of so many bytes: by iterations, or with a factor."""
        operator = solved.operator
        self.solver, self.dtype = solved.solver, dtype_name(operator.dtype)
        self.iterations += solved.iterations
        for note in solved.notes:
            if note not in self.notes:
                self.notes.append(note)
        self.rounding_alone |= solved.rounding_alone
        if self._use_direct:  # the factors of all samples stay
            self.cache = min(self.cache, operator.cache)  # "disk" sorts first
            self.passes += solved.passes
            matrices = cholesky_bytes(operator) * len(self.systems)
        else:
            self.cache = operator.cache
            self.passes += operator.passes
            matrices = operator.peak_bytes
        self.peak_bytes = max(self.peak_bytes, matrices + block_bytes + self._gram_bytes)


@dataclass(frozen=True, eq=False)
class _AtLandmarks:
    """Values and error bounds (q,) from landmarks, and the points ``above`` the tolerance."""

    values: Array
    errors: Array
    above: NDArray[np.intp]

    def improved(self, values: Array, errors: Array) -> tuple[Array, Array]:
        """Return values and bounds, with those from systems where their bounds are smaller."""
        better = ~(errors >= self.errors[self.above])
        places = self.above[better]
        self.values[places], self.errors[places] = values[better], errors[better]
        return self.values, self.errors


@dataclass(frozen=True, eq=False)
class _Factored:
    """The solver of a sample's systems with a factor that stays for other blocks of points."""

    form: DenseFit
    index: int
    name: ClassVar[str] = "cholesky"

    def estimate(self, size: ProblemSize) -> Cost:
        """Return the expected cost of the factor."""
        return Cholesky().estimate(size)

    def solve(
        self, problem: LinearProblem, progress: Progress, state: Checkpoint | None = None
    ) -> Solved:
        """Return certified solutions, with the number of passes that they took."""
        direct = self.form.direct_solver(self.index)
        operator = direct.operator
        before = operator.passes
        with LeavingAtInterrupt(self.form):  # factors of the other side are released, too
            solutions = direct.solve(problem.systems, problem.goal, progress, keep=True)
        return Solved(solutions, operator, self.name, 0, passes=operator.passes - before)


class _Block:
    """The coefficients at a block of points, from the solutions of each sample.

    Attributes
    ----------
    kinds : set of str
        Kinds of the certificates.
    """

    def __init__(self, form: DenseFit, point_bytes: int) -> None:
        self._form, self._point_bytes = form, point_bytes
        self._values: list[NDArray[np.float64]] = []
        self._errors: list[float] = []
        self.kinds: set[str] = set()

    def add(self, solved: Solved) -> None:
        """Take the solutions of the next sample."""
        sample = self._form.systems[len(self._values)]
        (solution,) = solved.solutions
        self._form.account(solved, len(solution.value[0]) * self._point_bytes)
        residual = solution.certificate.residual
        self._values.append(solution.value)
        self._errors.append(math.sqrt(self._form.largest / sample.lam) * residual)
        self.kinds.add(solution.certificate.kind)

    @property
    def error(self) -> float:
        """Bound on the error of the value that follows from the solutions."""
        return self._errors[0] + self._errors[-1]

    @property
    def of_nature(self) -> NDArray[np.float64]:
        """The coefficients (n, q) of nature's inputs."""
        return self._values[0]

    @property
    def of_model(self) -> NDArray[np.float64]:
        """The coefficients (n', q) of the model's inputs."""
        return self._values[-1]

    @property
    def common(self) -> NDArray[np.float64]:
        """The coefficients (n, q) of inputs that both samples share."""
        (value,) = self._values
        return value

    def coefficients(self) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return c (u, q), and its part for outputs that are atoms; None if all are."""
        form = self._form
        total = np.zeros((len(form.outputs), self._values[0].shape[1]))
        atoms = np.zeros_like(total) if any(form.atomless) else None
        values = self._values[0], self._values[-1]
        for side, value, atomless in zip(form.spread, values, form.atomless, strict=True):
            side.add(value, total)
            if atoms is not None and not atomless:
                side.add(value, atoms)
        return total, atoms


def distinct_samples(samples: tuple[Sample, Sample]) -> list[Sample]:
    """Return both samples, or only the first if one system serves both."""
    nature, model = samples
    if nature.same_system(model):
        return [nature]
    return [nature, model]
