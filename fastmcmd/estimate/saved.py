"""A fitted estimator as named arrays and JSON-safe settings, and back."""

from __future__ import annotations

import time
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd.backends import Backend
from fastmcmd.embedding.design import Design
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.dense import DenseFit
from fastmcmd.estimate.fit import Fit
from fastmcmd.estimate.lowrank import LowRankFit, LowRankPart, Term
from fastmcmd.estimate.primal import Part, PrimalFit, Truncation
from fastmcmd.gram import GramOperator, KernelFeatures
from fastmcmd.kernels import Kernel, kernel_from_dict
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


def from_arrays(arrays: Arrays, settings: Settings) -> ConditionalCongruence:
    """Return the fitted estimator."""
    from fastmcmd.estimator import ConditionalCongruence

    x_kernel = kernel_from_dict(settings["x_kernel"])
    y_kernel = kernel_from_dict(settings["y_kernel"])
    estimator = ConditionalCongruence(
        x_kernel=x_kernel, y_kernel=y_kernel, dtype=settings["dtype"],
        landmarks=arrays.get("chosen_landmarks", settings.get("landmarks")), **settings["options"],
    )  # fmt: skip
    options = estimator.options()
    backend = options.backend_for(x_kernel)
    form: PrimalFit | DenseFit | LowRankFit
    if settings["form"] == "feature":
        features = KernelFeatures(
            y_kernel, arrays["pivots"], arrays["factor"], options.feature_backend_for(y_kernel)
        )
        parts = []
        for index, told in enumerate(settings["parts"]):
            design = _get_design(arrays, f"part{index}")
            value, image = arrays[f"part{index}_value"], arrays[f"part{index}_image"]
            operator = GramOperator(
                backend, x_kernel, design.x, np.dtype(told["dtype"]), told["room"]
            )
            operator.passes = told["passes"]
            solutions = [Solution(value, image, Certificate(*c)) for c in told["certificates"]]
            solved = Solved(solutions, operator, told["solver"], told["iterations"], told["notes"])
            parts.append(Part(design, value, image, solved))
        truncation = Truncation(*settings["truncation"])
        form = PrimalFit(features, parts, truncation, options.certificate)
    elif settings["form"] == "lowrank":
        form = _get_low_rank(
            arrays, settings, x_kernel, y_kernel, backend, options.feature_backend_for(y_kernel)
        )
    else:
        from scipy import sparse

        samples, spreads = [], []
        for index, lam in enumerate(settings["lams"]):
            design = _get_design(arrays, f"part{index}")
            # The outputs themselves are in the spread already.
            samples.append(_sample(design, lam))
            parts_of = [arrays[f"part{index}_spread_{k}"] for k in ("data", "indices", "indptr")]
            spreads.append(
                sparse.csr_array(tuple(parts_of), shape=(len(arrays["outputs"]), len(design)))
            )
        form = DenseFit(
            backend=options.backend_for(x_kernel + y_kernel),
            x_kernel=x_kernel,
            y_kernel=y_kernel,
            samples=(samples[0], samples[1]),
            outputs=arrays["outputs"],
            spread=(spreads[0], spreads[1]),
            room=settings["room"],
            options=options,
            node_error=_embedding_error(settings),
            deviations=arrays.get("deviations"),
        )
    n, m = settings["sizes"]
    fitted = Fit(
        form, backend, x_kernel, y_kernel, options, (n, m), settings["working"], time.perf_counter()
    )
    info = dict(settings["result_info"])
    info["notes"] = tuple(info["notes"])
    result = Result(
        arrays["result_values"],
        arrays["result_error_bounds"],
        settings["result_tol"],
        Info(**info),
        "CCE",
    )
    estimator.restore(
        fitted, result, settings["features_in"], settings["columns"], np.dtype(settings["x_dtype"])
    )
    return estimator


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
    arrays: Arrays,
    settings: Settings,
    x_kernel: Kernel,
    y_kernel: Kernel,
    backend: Backend,
    y_backend: Backend,
) -> LowRankFit:
    parts = []
    for index, told in enumerate(settings["parts"]):
        name = f"part{index}"
        features = KernelFeatures(
            x_kernel, arrays[f"{name}_landmarks"], arrays[f"{name}_factor"], backend,
            arrays.get(f"{name}_offset"),
        )  # fmt: skip
        solutions = [
            LowRankSolution(arrays[f"{name}_weights{term}"], *numbers)
            for term, numbers in enumerate(told["solutions"])
        ]
        terms = [Term(slice(a, b), lam, sign) for a, b, lam, sign in told["terms"]]
        part = LowRankPart(
            features,
            solutions,
            terms,
            dtype=np.dtype(told["dtype"]),
            rows=told["rows"],
            passes=told["passes"],
            missed=told["missed"],
            notes=told["notes"],
        )
        parts.append(part)
    output = KernelFeatures(y_kernel, arrays["pivots"], arrays["factor"], y_backend)
    truncation = Truncation(*settings["truncation"])
    return LowRankFit(output, parts, truncation, settings["block_rows"])


def _embedding_error(settings: Settings) -> float | None:
    """Return the weighted error of embeddings; older files hold it without the regulariser."""
    if "embedding_error" in settings:
        error: float | None = settings["embedding_error"]
        return error
    return settings["node_error"] / min(settings["lams"]) ** 0.5 or None


def _put_design(arrays: Arrays, name: str, design: Design) -> None:
    arrays[f"{name}_x"], arrays[f"{name}_weight"] = design.x[:], design.weight


def _get_design(arrays: Arrays, name: str) -> Design:
    return Design(arrays[f"{name}_x"], arrays[f"{name}_weight"], None, None, None)


def _sample(design: Design, lam: float) -> Sample:
    sample = Sample(design.x, DrawnOutputs(np.empty((0, 1, 1))), None, lam)
    sample.__dict__["design"] = design  # as collapsed when it was saved
    return sample


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
