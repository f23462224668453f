"""Conversion of a fitted estimator to a saved state, and back.

Nothing in a file is trusted: the compiled core does not check shapes and indices, so all are checked here.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmcmd._base.annotations import DType, HostArray, Json
from fastmcmd.backends import Backend
from fastmcmd.embedding.design import Design
from fastmcmd.embedding.exponential_panels import TERMS, ExponentialPanels
from fastmcmd.embedding.exponential_sums import densities_kernel
from fastmcmd.embedding.line import LineFeatures
from fastmcmd.embedding.panel_gram import PanelOutputs
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.embedding.spread import Spread
from fastmcmd.estimate.dense import DenseFit
from fastmcmd.estimate.fit import Fit
from fastmcmd.estimate.images import Part
from fastmcmd.estimate.lowrank import MOST_WORK, LowRankFit, LowRankPart, RowCoefficients, Term
from fastmcmd.estimate.primal import PrimalFit, Truncation
from fastmcmd.estimate.states import (
    DenseState,
    DesignState,
    EstimatorState,
    FeaturesState,
    FeatureState,
    LineState,
    LowRankPartState,
    LowRankState,
    PanelsState,
    PartState,
    RowsState,
    SideState,
    TermState,
)
from fastmcmd.estimate.task import backend_of, feature_backend_of
from fastmcmd.gram import GramOperator, KernelFeatures
from fastmcmd.io.seeds import seed_from_json, seed_to_json
from fastmcmd.io.state import decode
from fastmcmd.kernels import Kernel, Scaled, kernel_from_dict, split_scales
from fastmcmd.options import DEFAULTS, Options
from fastmcmd.result import Result
from fastmcmd.solvers import Certificate, Solution, Solved
from fastmcmd.solvers.lowrank import LowRankSolution

if TYPE_CHECKING:
    from fastmcmd.estimator import ConditionalCongruence

__all__ = ["fit_of", "parameters_of", "read_state", "state_of"]

Array = HostArray

# The arguments that files store in this table: plain values. Arrays are stored elsewhere; paths and devices
# depend on the machine and are not stored.
_ELSEWHERE = {"dtype", "landmarks", "cache_dir", "checkpoint", "devices", "device_memory_limit"}
_OPTIONS = ("lam", "draws", *(name for name in DEFAULTS if name not in _ELSEWHERE))


# Bytes of rows that a file stores beside landmarks, for points unlike all inputs.
_ROW_BYTES = 1 << 26


# ---- objects to states ----


def state_of(estimator: ConditionalCongruence) -> EstimatorState:
    """Return the state of a fitted estimator."""
    fitted, result = estimator.fitted(), estimator.result_
    if estimator.encoder is not None:
        raise TypeError(
            "encoder is a Python callable, which cannot be saved without pickle: fit on encoded "
            "inputs with encoder=None, save, and encode new inputs before scoring"
        )
    kernels = {"x_kernel": estimator.x_kernel, "y_kernel": estimator.y_kernel}
    marks = estimator.landmarks
    scales, x_kernel = estimator._scales, fitted.x_kernel
    if scales is not None:
        x_kernel = Scaled(x_kernel, scales)
    return EstimatorState(
        options={name: getattr(estimator, name) for name in _OPTIONS},
        landmarks=marks if marks is None or isinstance(marks, str) else np.asarray(marks),
        dtype=None if fitted.options.dtype is None else str(fitted.options.dtype),
        given={
            **{name: k.to_dict() if isinstance(k, Kernel) else k for name, k in kernels.items()},
            "random_state": seed_to_json(estimator.random_state, "random_state"),
        },
        x_kernel=x_kernel.to_dict(),
        y_kernel=fitted.y_kernel.to_dict(),
        sizes=fitted.sizes,
        working=fitted.working,
        features_in=estimator.n_features_in_,
        columns=estimator.output_columns_,
        x_dtype=str(estimator.input_dtype_),
        form=_form_state(fitted.form),
        values=result.values,
        error_bounds=result.error_bounds,
        tol=result.tol,
        info=result.info,
        chosen_lam=estimator.lam_,
    )


def _form_state(
    form: PrimalFit | LowRankFit | DenseFit,
) -> FeatureState | LowRankState | DenseState:
    if isinstance(form, PrimalFit):
        parts = [_part_state(part) for part in form.parts]
        features = _output_features_state(form.features)
        return FeatureState(features, parts, form.truncation, form.basis, form.lam)
    if isinstance(form, LowRankFit):
        low = [_low_rank_state(part, form.block_rows) for part in form.parts]
        features = _output_features_state(form.features)
        return LowRankState(features, low, form.truncation, form.block_rows, form.basis)
    nature, model = (
        SideState(_design_state(s.design), s.lam, *spread.by_rows(len(form.outputs)))
        for s, spread in zip(form.samples, form.spread, strict=True)
    )
    return DenseState(
        form.outputs,
        form.deviations,
        (nature, model),
        form.budget,
        form.node_error,
        form.atomless,
        None if form.densities is None else _panels_state(form.densities),
    )


def _panels_state(densities: PanelOutputs) -> PanelsState:
    return PanelsState(densities.panels.edges, densities.coefficients)


def _output_features_state(features: KernelFeatures | LineFeatures) -> FeaturesState | LineState:
    return (
        _line_state(features) if isinstance(features, LineFeatures) else _features_state(features)
    )


def _line_state(features: LineFeatures) -> LineState:
    return LineState([np.stack(ends, axis=1) for ends in features.panels], features.selected)


def _features_state(features: KernelFeatures) -> FeaturesState:
    return FeaturesState(features.pivots, features.factor, features.offset)


def _design_state(design: Design) -> DesignState:
    return DesignState(design.x[:], design.weight)


def _part_state(part: Part) -> PartState:
    solved, operator = part.solved, part.solved.operator
    return PartState(
        design=_design_state(part.design),
        value=part.value,
        image=part.image,
        certificates=[solution.certificate for solution in solved.solutions],
        solver=solved.solver,
        iterations=solved.iterations,
        notes=solved.notes,
        passes=operator.passes,
        dtype=str(operator.dtype),
        budget=operator.budget,
        rounding_alone=solved.rounding_alone,
    )


def _low_rank_state(part: LowRankPart, block_rows: int) -> LowRankPartState:
    rows = part.to_store(block_rows, _ROW_BYTES)
    return LowRankPartState(
        features=_features_state(part.features),
        solutions=[replace(solution, rows=None) for solution in part.solutions],
        terms=[TermState(t.columns.start, t.columns.stop, t.lam, t.sign) for t in part.terms],
        dtype=str(part.dtype),
        rows=part.rows,
        passes=part.passes,
        residual_diagonal=part.mean_residual_diagonal,
        notes=part.notes,
        row_coefficients=None
        if rows is None
        else RowsState(rows.x, rows.values, rows.weight, rows.rounding),
    )


# ---- states to objects ----


def read_state(arrays: dict[str, Array], document: Json, version: int) -> EstimatorState:
    """Return the state in a file of any format."""
    if version < 3:
        from fastmcmd.estimate.states import upgraded

        arrays, document = upgraded(arrays, document)
    return decode(EstimatorState, arrays, document)


def parameters_of(state: EstimatorState) -> Json:
    """Return the arguments of the constructor."""
    if state.options.keys() != set(_OPTIONS):
        raise ValueError(f"options are {sorted(state.options)}")
    marks = state.landmarks
    if isinstance(marks, np.ndarray):
        marks = _numbers(marks, "landmarks", None, state.features_in)
    none = "paper" if state.chosen_lam is None else None
    kernels = {
        name: _given_kernel(state.given[name], name) or none for name in ("x_kernel", "y_kernel")
    }
    return {
        **state.options,
        **kernels,
        "landmarks": marks,
        "dtype": state.dtype,
        "random_state": seed_from_json(state.given.get("random_state")),
    }


def _given_kernel(value: Any, name: str) -> Any:
    """Return the constructor's argument: a kernel, the name of a choice, or None."""
    if value is None or value in ("auto", "paper"):
        return value
    if isinstance(value, str):
        raise ValueError(f"{name} is {value!r}")
    return kernel_from_dict(value)


def fit_of(
    state: EstimatorState, options: Options
) -> tuple[Fit, Result, int, int, DType, tuple[float, ...] | None, float]:  # fmt: skip
    """Return the arguments of `ConditionalCongruence.restore`.

    Raises
    ------
    ValueError
        A field has a wrong shape or range.
    """
    x_kernel, y_kernel = kernel_from_dict(state.x_kernel), kernel_from_dict(state.y_kernel)
    for name, kernel in (("x_kernel", x_kernel), ("y_kernel", y_kernel)):
        if not kernel.is_resolved:
            raise ValueError(f"{name} has no numbers as parameters")
    scales, x_kernel = split_scales(x_kernel)
    n, m = (_count(size, "sizes") for size in state.sizes)
    features_in, columns = (
        _count(getattr(state, name), name) for name in ("features_in", "columns")
    )
    reader = _Reader(x_kernel, y_kernel, options, features_in, columns)
    fitted = Fit(
        reader.form(state.form), backend_of(options, x_kernel), x_kernel, y_kernel, options, (n, m),
        _count(state.working, "working", least=0), time.perf_counter(),
    )  # fmt: skip
    values = _numbers(state.values, "values", None, finite=False)
    bounds = _numbers(state.error_bounds, "error_bounds", len(values), finite=False)
    if not ((values >= 0).all() and (bounds >= 0).all()):  # NaN neither
        raise ValueError("its values or their error bounds are negative or NaN")
    result = Result(values, bounds, state.tol, state.info, "CCE")
    lam = state.options["lam"] if state.chosen_lam is None else state.chosen_lam
    _check_size(lam, "chosen_lam")
    return fitted, result, features_in, columns, _float_dtype(state.x_dtype), scales, lam


@dataclass(frozen=True)
class _Reader:
    """Builds each form of a fit from its state."""

    x_kernel: Kernel
    y_kernel: Kernel
    options: Options
    features_in: int
    columns: int

    @property
    def backend(self) -> Backend:
        return backend_of(self.options, self.x_kernel)

    def form(
        self, state: FeatureState | LowRankState | DenseState
    ) -> PrimalFit | LowRankFit | DenseFit:
        if isinstance(state, DenseState):
            return self.dense(state)
        _check_sizes(state.truncation, "truncation")
        if not state.parts:
            raise ValueError("parts is empty")
        features, options = self.output_features(state.features), self.options
        basis, columns = state.basis, features.rank
        if basis is not None:
            basis = _numbers(basis, "basis", features.rank, None)
            columns = basis.shape[1]
        if isinstance(state, FeatureState):
            parts = [self.part(part, columns) for part in state.parts]
            _check_size(state.lam, "lam")
            return PrimalFit(
                features,
                parts,
                state.truncation,
                options.certificate,
                options.tol,
                basis,
                state.lam,
            )
        low = [self.low_rank_part(part, columns) for part in state.parts]
        rows = _count(state.block_rows, "block_rows")
        work = np.inf if options.solver == "auto" else MOST_WORK
        return LowRankFit(
            features, low, state.truncation, rows, basis=basis, tol=options.tol, most_work=work
        )

    def output_features(self, state: FeaturesState | LineState) -> KernelFeatures | LineFeatures:
        if isinstance(state, LineState):
            return self.line_features(state)
        backend = feature_backend_of(self.options, self.y_kernel)
        return _features(state, self.y_kernel, self.columns, backend)

    def line_features(self, state: LineState) -> LineFeatures:
        if self.columns != 1:
            raise ValueError(f"panels of the line do not serve {self.columns} columns")
        panels = []
        for ends in state.panels:
            low, high = _numbers(ends, "panels", None, 2).T
            if not ((low < high).all() and (high[:-1] <= low[1:]).all()):
                raise ValueError("panels are not ascending")
            with np.errstate(over="ignore"):
                lengths = high - low
            if not np.isfinite(lengths).all():
                raise ValueError("panels have no finite lengths")
            panels.append((np.ascontiguousarray(low), np.ascontiguousarray(high)))
        every = LineFeatures.on(self.y_kernel, panels)
        selected = _places(state.selected, "selected", len(state.selected), every.rank - 1)
        if not len(selected) or (np.diff(selected) <= 0).any():
            raise ValueError("selected is empty or not ascending")
        return replace(every, selected=selected)

    def part(self, state: PartState, rank: int) -> Part:
        design = self.design(state.design)
        value, image = (
            _numbers(getattr(state, name), name, len(design), rank) for name in ("value", "image")
        )
        operator = GramOperator(
            self.backend, self.x_kernel, design.x, _float_dtype(state.dtype),
            _count(state.budget, "budget", least=0),
        )  # fmt: skip
        operator.passes = _count(state.passes, "passes", least=0)
        if not state.certificates:
            raise ValueError("certificates is empty")
        for certificate in state.certificates:
            _check_sizes(certificate, "certificates")
        solutions = [Solution(value, image, certificate) for certificate in state.certificates]
        iterations = _count(state.iterations, "iterations", least=0)
        solved = Solved(
            solutions, operator, state.solver, iterations, state.notes,
            rounding_alone=state.rounding_alone,
        )  # fmt: skip
        return Part(design, value, image, solved)

    def low_rank_part(self, state: LowRankPartState, rank: int) -> LowRankPart:
        features = _features(state.features, self.x_kernel, self.features_in, self.backend)
        if not state.terms or len(state.terms) != len(state.solutions):
            raise ValueError(f"{len(state.terms)} terms have {len(state.solutions)} solutions")
        for solution in state.solutions:
            _check_sizes(solution, "solutions")
        solutions = [
            replace(s, weights=_numbers(s.weights, "weights", features.rank, rank), rows=None)
            for s in state.solutions
        ]
        terms = [
            Term(slice(_count(t.start, "start", least=0), _count(t.stop, "stop")), t.lam, t.sign)
            for t in state.terms
        ]
        for term in terms:
            _check_size(term.lam, "lam")
        return LowRankPart(
            features,
            solutions,
            terms,
            dtype=_float_dtype(state.dtype),
            rows=_count(state.rows, "rows"),
            passes=_count(state.passes, "passes", least=0),
            mean_residual_diagonal=state.residual_diagonal,
            notes=state.notes,
            rows_of_file=None
            if state.row_coefficients is None
            else self.rows(state.row_coefficients, rank),
        )

    def rows(self, state: RowsState, rank: int) -> RowCoefficients:
        x = _numbers(state.x, "x", None, self.features_in)
        values = _numbers(state.value, "value", len(x), rank)
        weight = _numbers(state.weight, "weight", len(x))
        if not len(x) or not weight.min() >= 0:
            raise ValueError("weight needs nonnegative numbers")
        _check_size(state.rounding, "rounding")
        return RowCoefficients(x, values, weight, state.rounding)

    def dense(self, state: DenseState) -> DenseFit:
        outputs = _numbers(state.outputs, "outputs", None, self.columns)
        deviations = state.deviations
        if deviations is not None:
            deviations = _numbers(deviations, "deviations", len(outputs), self.columns)
        if state.embedding_error is not None:
            _check_size(state.embedding_error, "embedding_error")
        nature, model = (self.sample(side) for side in state.sides)
        spread = (
            _spread(state.sides[0], len(outputs), len(nature.design)),
            _spread(state.sides[1], len(outputs), len(model.design)),
        )
        densities = None
        if state.densities is not None:
            densities = self.panels(state.densities, outputs, spread[0], nature, model)
        return DenseFit(
            backend=backend_of(self.options, self.x_kernel + self.y_kernel),
            x_kernel=self.x_kernel,
            y_kernel=self.y_kernel,
            samples=(nature, model),
            outputs=outputs,
            spread=spread,
            budget=_count(state.budget, "budget", least=0),
            options=self.options,
            node_error=state.embedding_error,
            deviations=deviations,
            atomless=state.atomless,
            densities=densities,
        )

    def panels(
        self, state: PanelsState, outputs: Array, spread: Spread, nature: Sample, model: Sample
    ) -> PanelOutputs:
        kernel = densities_kernel(self.y_kernel)
        if kernel is None or outputs.shape[1] != 1:
            raise ValueError(f"densities on panels do not serve {self.y_kernel!r}")
        edges = _numbers(state.edges, "edges", None)
        if len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ValueError("edges of panels must ascend")
        columns = TERMS * (len(edges) - 1)
        coefficients = _numbers(state.coefficients, "coefficients", len(model.design), columns)
        return PanelOutputs.of(
            ExponentialPanels(kernel, edges),
            coefficients,
            outputs[:, 0],
            spread,
            len(nature.design),
        )

    def design(self, state: DesignState) -> Design:
        x = _numbers(state.x, "x", None, self.features_in)
        weight = _numbers(state.weight, "weight", len(x))
        if not len(x) or not weight.min() > 0:
            raise ValueError("weight needs positive numbers")
        return Design(x, weight, None, None, None)

    def sample(self, state: SideState) -> Sample:
        if not 0 < state.lam < np.inf:
            raise ValueError(f"lam is {state.lam}")
        design = self.design(state.design)
        # The spread matrix already contains the outputs.
        sample = Sample(design.x, DrawnOutputs(np.empty((0, 1, 1))), None, state.lam)
        sample.__dict__["design"] = design  # with equal inputs already collapsed
        return sample


def _features(
    state: FeaturesState, kernel: Kernel, columns: int, backend: Backend
) -> KernelFeatures:
    pivots = _numbers(state.pivots, "pivots", None, columns)
    factor = _numbers(state.factor, "factor", len(pivots), len(pivots))
    offset = None if state.offset is None else _numbers(state.offset, "offset", columns)
    return KernelFeatures(kernel, pivots, factor, backend, offset)


# ---- checks ----


def _numbers(array: Array, name: str, *shape: int | None, finite: bool = True) -> Array:
    """Return a float32 or float64 array after a check of its shape, in which None is any length."""
    _check_shape(array, name, shape)
    if array.dtype not in (np.float32, np.float64):
        raise ValueError(f"{name} has dtype {array.dtype}; float32 or float64 is needed")
    if finite and not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinity")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _spread(state: SideState, rows: int, columns: int) -> Spread:
    """Return the sparse matrix of a side, with checked indices."""
    data = _numbers(state.data, "data", None)
    indices = _places(state.indices, "indices", len(data), columns - 1)
    starts = _places(state.indptr, "indptr", rows + 1, len(data))
    if starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError(f"indptr does not divide {len(data)} entries among {rows} rows")
    return Spread.of_rows(data, indices, starts)


def _places(array: Array, name: str, length: int, most: int) -> Array:
    _check_shape(array, name, (length,))
    if array.dtype.kind != "i":
        raise ValueError(f"{name} has dtype {array.dtype}; integers are needed")
    if length and not (array.min() >= 0 and array.max() <= most):
        raise ValueError(f"{name} has entries outside 0 to {most}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_shape(array: Array, name: str, shape: tuple[int | None, ...]) -> None:
    fits = array.ndim == len(shape) and all(
        size in (None, length) for size, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        text = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} has shape {array.shape}; ({text}) is needed")


def _count(value: int, name: str, least: int = 1) -> int:
    if not least <= value < 2**62:
        raise ValueError(f"{name} is {value}; a whole number from {least} is needed")
    return value


def _check_size(value: float, name: str) -> None:
    if not value >= 0:
        raise ValueError(f"{name} is {value}; a nonnegative number is needed")


def _check_sizes(state: Certificate | Truncation | LowRankSolution, name: str) -> None:
    """Check that all numbers of a bound are nonnegative."""
    for value in vars(state).values():
        if isinstance(value, float):
            _check_size(value, name)


def _float_dtype(name: str) -> DType:
    dtype = np.dtype(name)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype}")
    return dtype
