"""A fitted estimator as named arrays and JSON-safe settings, and back.

What is read is trusted in nothing: the compiled core takes shapes and indices as they come, so all are
checked here.
"""

from __future__ import annotations

import time
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends import Backend
from fastmcmd.embedding.design import Design
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.errors import MissingDependencyError
from fastmcmd.estimate.dense import DenseFit
from fastmcmd.estimate.fit import Fit
from fastmcmd.estimate.lowrank import LowRankFit, LowRankPart, Term
from fastmcmd.estimate.primal import Part, PrimalFit, Truncation
from fastmcmd.estimate.stored_arrays import Stored
from fastmcmd.gram import GramOperator, KernelFeatures
from fastmcmd.io.seeds import seed_from_json, seed_to_json
from fastmcmd.kernels import Kernel, kernel_from_dict
from fastmcmd.options import Options
from fastmcmd.result import Info, Result
from fastmcmd.solvers import Certificate, Solution, Solved
from fastmcmd.solvers.lowrank import LowRankSolution

if TYPE_CHECKING:
    from fastmcmd.estimator import ConditionalCongruence

__all__ = ["from_arrays", "to_arrays"]

Arrays = dict[str, NDArray[Any]]
Settings = dict[str, Any]

# How it is computed and what is estimated: plain values only.
_OPTIONS = (
    "lam", "draws", "tol", "solver", "backend", "memory_limit", "progress", "certificate", "rank",
)  # fmt: skip


def to_arrays(estimator: ConditionalCongruence) -> tuple[Arrays, Settings]:
    """Return the arrays and settings of a fitted estimator."""
    fitted = estimator.fitted()
    if estimator.encoder is not None:
        raise TypeError(
            "encoder is a Python callable, which cannot be saved without pickle: fit on encoded "
            "inputs with encoder=None, save, and encode new inputs before scoring"
        )
    settings: Settings = {
        "options": {name: _plain(getattr(estimator, name)) for name in _OPTIONS},
        "dtype": None if fitted.options.dtype is None else str(fitted.options.dtype),
        "x_kernel": fitted.x_kernel.to_dict(),
        "y_kernel": fitted.y_kernel.to_dict(),
        "given": {
            "x_kernel": None if estimator.x_kernel is None else estimator.x_kernel.to_dict(),
            "y_kernel": None if estimator.y_kernel is None else estimator.y_kernel.to_dict(),
            "random_state": seed_to_json(estimator.random_state, "random_state"),
        },
        "sizes": list(fitted.sizes),
        "working": fitted.working,
        "features_in": estimator.n_features_in_,
        "columns": estimator.output_columns_,
        "x_dtype": str(estimator.input_dtype_),
    }
    arrays: Arrays = {}
    if isinstance(estimator.landmarks, str):
        settings["landmarks"] = estimator.landmarks
    elif estimator.landmarks is not None:
        arrays["chosen_landmarks"] = np.asarray(estimator.landmarks)
    form = fitted.form
    if isinstance(form, PrimalFit):
        settings["form"] = "feature"
        settings["truncation"] = list(astuple(form.truncation))
        settings["parts"] = []
        arrays["pivots"], arrays["factor"] = form.features.pivots, form.features.factor
        for index, part in enumerate(form.parts):
            _put_design(arrays, f"part{index}", part.design)
            arrays[f"part{index}_value"] = part.value
            arrays[f"part{index}_image"] = part.image
            settings["parts"].append(
                {
                    "solver": part.solved.solver,
                    "iterations": part.solved.iterations,
                    "notes": part.solved.notes,
                    "passes": part.solved.operator.passes,
                    "dtype": str(part.solved.operator.dtype),
                    "room": part.solved.operator.room,
                    "certificates": [
                        [s.certificate.residual, s.certificate.value, s.certificate.kind]
                        for s in part.solved.solutions
                    ],
                }
            )
        return arrays, settings
    if isinstance(form, LowRankFit):
        _put_low_rank(arrays, settings, form)
        return arrays, settings
    settings["form"] = "dense"
    settings["room"] = form.room
    settings["embedding_error"] = form.node_error
    settings["lams"] = [sample.lam for sample in form.samples]
    arrays["outputs"] = form.outputs
    if form.deviations is not None:
        arrays["deviations"] = form.deviations
    for index, (sample, spread) in enumerate(zip(form.samples, form.spread, strict=True)):
        _put_design(arrays, f"part{index}", sample.design)
        for name in ("data", "indices", "indptr"):
            arrays[f"part{index}_spread_{name}"] = getattr(spread, name)
    return arrays, settings


def from_arrays(path: Any, arrays: Arrays, settings: Settings) -> ConditionalCongruence:
    """Return the fitted estimator; ``path`` is where it was read from, for messages.

    Raises
    ------
    ValueError
        Something is missing, or is not of the shape, type or range that the rest needs.
    """
    try:
        return _restored(Stored(arrays), settings)
    except (MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # settings are any JSON
        what = repr(error) if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path} is damaged, or no saved ConditionalCongruence: {what}") from error


def _restored(arrays: Stored, settings: Settings) -> ConditionalCongruence:
    from fastmcmd.estimator import ConditionalCongruence

    x_kernel, y_kernel = (kernel_from_dict(settings[name]) for name in ("x_kernel", "y_kernel"))
    for name, kernel in (("x_kernel", x_kernel), ("y_kernel", y_kernel)):
        if not kernel.is_resolved:
            raise ValueError(f"{name} has no numbers as parameters")
    given = settings.get("given")  # format 1 did not keep it
    if given is None:
        given = {"x_kernel": settings["x_kernel"], "y_kernel": settings["y_kernel"]}
    chosen, options_ = settings.get("landmarks"), dict(settings["options"])
    if options_.keys() != set(_OPTIONS):
        raise ValueError(f"options are {sorted(options_)}")
    if "chosen_landmarks" in arrays:
        chosen = arrays.numbers("chosen_landmarks", None, settings["features_in"])
    estimator = ConditionalCongruence(
        x_kernel=_kernel(given["x_kernel"]), y_kernel=_kernel(given["y_kernel"]),
        random_state=seed_from_json(given.get("random_state")), dtype=settings["dtype"],
        landmarks=chosen, **options_,
    )  # fmt: skip
    options = estimator.options()
    backend = options.backend_for(x_kernel)
    features_in, columns = (_count(settings[name]) for name in ("features_in", "columns"))
    n, m = (_count(size) for size in settings["sizes"])
    form: PrimalFit | DenseFit | LowRankFit
    match settings["form"]:
        case "feature":
            features = _output_features(arrays, y_kernel, columns, options)
            parts = [
                _get_part(
                    arrays, f"part{index}", told, x_kernel, backend, features_in, features.rank
                )
                for index, told in enumerate(_listed(settings["parts"]))
            ]
            form = PrimalFit(features, parts, _truncation(settings), options.certificate)
        case "lowrank":
            features = _output_features(arrays, y_kernel, columns, options)
            low = [
                _get_low_rank(
                    arrays, f"part{index}", told, x_kernel, backend, features_in, features.rank
                )
                for index, told in enumerate(_listed(settings["parts"]))
            ]
            form = LowRankFit(features, low, _truncation(settings), _count(settings["block_rows"]))
        case "dense":
            form = _get_dense(arrays, settings, x_kernel, y_kernel, options, features_in, columns)
        case other:
            raise ValueError(f"form is {other!r}")
    fitted = Fit(
        form, backend, x_kernel, y_kernel, options, (n, m), _count(settings["working"], least=0),
        time.perf_counter(),
    )  # fmt: skip
    values = arrays.numbers("result_values", None, finite=False)
    bounds = arrays.numbers("result_error_bounds", len(values), finite=False)
    if not ((values >= 0).all() and (bounds >= 0).all()):  # NaN neither
        raise ValueError("its values or their error bounds are negative or NaN")
    result = Result(values, bounds, float(settings["result_tol"]), _info(settings), "CCE")
    dtype = np.dtype(settings["x_dtype"])
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"x_dtype is {dtype}")
    estimator.restore(fitted, result, features_in, columns, dtype)
    return estimator


def _kernel(described: dict[str, Any] | None) -> Kernel | None:
    return None if described is None else kernel_from_dict(described)


def _output_features(
    arrays: Stored, y_kernel: Kernel, columns: int, options: Options
) -> KernelFeatures:
    pivots = arrays.numbers("pivots", None, columns)
    factor = arrays.numbers("factor", len(pivots), len(pivots))
    return KernelFeatures(y_kernel, pivots, factor, options.feature_backend_for(y_kernel))


def _get_part(
    arrays: Stored,
    name: str,
    told: Settings,
    x_kernel: Kernel,
    backend: Backend,
    features_in: int,
    rank: int,
) -> Part:
    design = _get_design(arrays, name, features_in)
    value, image = (
        arrays.numbers(f"{name}_{each}", len(design), rank) for each in ("value", "image")
    )
    dtype = _tile_dtype(told["dtype"])
    operator = GramOperator(backend, x_kernel, design.x, dtype, _count(told["room"], least=0))
    operator.passes = _count(told["passes"], least=0)
    solutions = [
        Solution(value, image, Certificate(_size(residual), _size(rows), _certified(kind)))
        for residual, rows, kind in _listed(told["certificates"])
    ]
    solved = Solved(
        solutions, operator, str(told["solver"]), _count(told["iterations"], least=0),
        [str(note) for note in told["notes"]],
    )  # fmt: skip
    return Part(design, value, image, solved)


def _get_dense(
    arrays: Stored,
    settings: Settings,
    x_kernel: Kernel,
    y_kernel: Kernel,
    options: Options,
    features_in: int,
    columns: int,
) -> DenseFit:
    outputs = arrays.numbers("outputs", None, columns)
    samples, spreads = [], []
    for index, lam in enumerate(settings["lams"]):
        design = _get_design(arrays, f"part{index}", features_in)
        if not _size(lam) > 0:
            raise ValueError(f"lam is {lam!r}")
        # The outputs themselves are in the spread already.
        samples.append(_sample(design, lam))
        spreads.append(arrays.sparse(f"part{index}_spread", len(outputs), len(design)))
    return DenseFit(
        backend=options.backend_for(x_kernel + y_kernel),
        x_kernel=x_kernel,
        y_kernel=y_kernel,
        samples=(samples[0], samples[1]),
        outputs=outputs,
        spread=(spreads[0], spreads[1]),
        room=_count(settings["room"], least=0),
        options=options,
        node_error=_embedding_error(settings),
        deviations=(
            arrays.numbers("deviations", len(outputs), columns) if "deviations" in arrays else None
        ),
    )


def _info(settings: Settings) -> Info:
    told = dict(settings["result_info"])
    told["notes"] = tuple(str(note) for note in told["notes"])
    info = Info(**told)
    for name, kind in Info.__annotations__.items():
        value = getattr(info, name)
        kinds: dict[str, Any] = {"str": str, "int": int, "float": (int, float)}
        if not isinstance(value, kinds.get(str(kind), tuple)):
            raise ValueError(f"result_info: {name} is {value!r}")
    return info


def _truncation(settings: Settings) -> Truncation:
    missed, expectation, *rest = settings["truncation"]
    return Truncation(_size(missed), _size(expectation), *rest)


def _count(value: Any, least: int = 1) -> int:
    if type(value) is not int or not least <= value < 2**62:
        raise ValueError(f"a number of things is {value!r}")
    return value


def _size(value: Any) -> float:
    if not isinstance(value, int | float) or not value >= 0:
        raise ValueError(f"the size of an error is {value!r}")
    return float(value)


def _certified(kind: Any) -> Any:
    if kind not in ("rigorous", "sampled"):
        raise ValueError(f"a certificate is {kind!r}")
    return kind


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"a list of parts is {str(value)[:60]!r}")
    return value


def _tile_dtype(name: Any) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype is {dtype}")
    return dtype


_NUMBERS = ("slope", "constant", "miss", "floor", "through", "row", "kind", "pivots")


def _put_low_rank(arrays: Arrays, settings: Settings, form: LowRankFit) -> None:
    settings["form"] = "lowrank"
    settings["truncation"] = list(astuple(form.truncation))
    settings["block_rows"] = form.block_rows
    settings["parts"] = []
    arrays["pivots"], arrays["factor"] = form.features.pivots, form.features.factor
    for index, part in enumerate(form.parts):
        name = f"part{index}"
        arrays[f"{name}_landmarks"] = part.features.pivots
        arrays[f"{name}_factor"] = part.features.factor
        if part.features.offset is not None:
            arrays[f"{name}_offset"] = part.features.offset
        for term, solution in enumerate(part.solutions):
            arrays[f"{name}_weights{term}"] = solution.weights
        settings["parts"].append(
            {
                "terms": [[t.columns.start, t.columns.stop, t.lam, t.sign] for t in part.terms],
                "solutions": [[getattr(s, key) for key in _NUMBERS] for s in part.solutions],
                "dtype": str(part.dtype),
                "rows": part.rows,
                "passes": part.passes,
                "missed": part.missed,
                "notes": part.notes,
            }
        )


def _get_low_rank(
    arrays: Stored,
    name: str,
    told: Settings,
    x_kernel: Kernel,
    backend: Backend,
    features_in: int,
    rank: int,
) -> LowRankPart:
    landmarks = arrays.numbers(f"{name}_landmarks", None, features_in)
    factor = arrays.numbers(f"{name}_factor", len(landmarks), len(landmarks))
    offset = f"{name}_offset"
    features = KernelFeatures(
        x_kernel, landmarks, factor, backend,
        arrays.numbers(offset, features_in) if offset in arrays else None,
    )  # fmt: skip
    solutions = []
    for term, numbers in enumerate(_listed(told["solutions"])):
        weights = arrays.numbers(f"{name}_weights{term}", len(landmarks), rank)
        named = dict(zip(_NUMBERS, numbers, strict=True))
        kind = _certified(named.pop("kind"))
        sizes: dict[str, Any] = {key: _size(value) for key, value in named.items()}
        solutions.append(LowRankSolution(weights, kind=kind, **sizes))
    terms = [
        Term(slice(_count(a, least=0), _count(b)), _size(lam), float(sign))
        for a, b, lam, sign in told["terms"]
    ]
    if len(terms) != len(solutions):
        raise ValueError(f"{len(terms)} terms have {len(solutions)} solutions")
    return LowRankPart(
        features,
        solutions,
        terms,
        dtype=_tile_dtype(told["dtype"]),
        rows=_count(told["rows"]),
        passes=_count(told["passes"], least=0),
        missed=float(told["missed"]),
        notes=[str(note) for note in told["notes"]],
    )


def _embedding_error(settings: Settings) -> float | None:
    """Return the weighted error of embeddings; older files hold it without the regulariser."""
    if "embedding_error" in settings:
        error = settings["embedding_error"]
        return None if error is None else _size(error)
    return _size(settings["node_error"]) / min(settings["lams"]) ** 0.5 or None


def _put_design(arrays: Arrays, name: str, design: Design) -> None:
    arrays[f"{name}_x"], arrays[f"{name}_weight"] = design.x[:], design.weight


def _get_design(arrays: Stored, name: str, features_in: int) -> Design:
    x = arrays.numbers(f"{name}_x", None, features_in)
    weight = arrays.numbers(f"{name}_weight", len(x))
    if not len(x) or not weight.min() > 0:
        raise ValueError(f"{name}_weight needs positive numbers")
    return Design(x, weight, None, None, None)


def _sample(design: Design, lam: float) -> Sample:
    sample = Sample(design.x, DrawnOutputs(np.empty((0, 1, 1))), None, lam)
    sample.__dict__["design"] = design  # as collapsed when it was saved
    return sample


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
