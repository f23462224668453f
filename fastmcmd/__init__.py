"""Evaluate probabilistic predictions: conditional congruence error (CCE), MCMD, scores, calibration.

`cce` measures how wrong the predicted distributions of a model are at every input. `mcmd` compares two
conditional distributions. `ConditionalCongruence` evaluates the CCE at inputs without outcomes. These
results are exact up to a certified error bound. `evaluate` computes accuracy, proper scores, calibration
and the CCE in one call.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from fastmcmd._base.blockwise import register_functions
from fastmcmd._base.thread_setting import set_num_threads
from fastmcmd._base.threads import get_num_threads
from fastmcmd._version import __version__
from fastmcmd.cce import cce
from fastmcmd.errors import MemoryLimitError, MissingDependencyError, ToleranceWarning
from fastmcmd.estimator import ConditionalCongruence
from fastmcmd.kernels import (
    RBF,
    Constant,
    Cosine,
    CustomKernel,
    Delta,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    Product,
    Scaled,
    Sum,
)
from fastmcmd.mcmd import mcmd
from fastmcmd.predictive import (
    Beta,
    Binomial,
    Categorical,
    DoublePoisson,
    Draws,
    Exponential,
    Gamma,
    Gaussian,
    GeneralizedPareto,
    Laplace,
    Logistic,
    LogNormal,
    Mixture,
    NegativeBinomial,
    Normal,
    Poisson,
    Predictive,
    Quantiles,
    StudentT,
    Truncated,
    TwoPieceLaplace,
    TwoPieceNormal,
    Uniform,
    Weibull,
    WeightedDraws,
    ZeroInflated,
)
from fastmcmd.result import Info, Result

if TYPE_CHECKING:
    from fastmcmd import (
        classification,
        compat,
        datasets,
        distributed,
        metrics,
        plots,
        recalibration,
        streaming,
    )
    from fastmcmd.downsampling import DownsampledResult, downsampled_cce
    from fastmcmd.evaluation import Comparison, Evaluation, compare, evaluate
    from fastmcmd.evaluation.verdict import RegionVerdict, Remedy, Verdict, verdict
    from fastmcmd.inference.congruence_test import CongruenceTest, congruence_test
    from fastmcmd.inference.diagnose import diagnose
    from fastmcmd.inference.diagnosis import Diagnosis
    from fastmcmd.inference.difference_map import DifferenceMap
    from fastmcmd.inference.kernel_report import KernelReport, kernel_report
    from fastmcmd.inference.regions import WeakRegion, WeakRegions, weak_regions
    from fastmcmd.inference.rejection import RejectionCurve, rejection_curve
    from fastmcmd.inference.select_kernel import KernelChoice, select_kernel
    from fastmcmd.loading import load
    from fastmcmd.metrics import crps, ence, nll, pit_values, regression_ece
    from fastmcmd.metrics import regression_ece as ece
    from fastmcmd.planning import Plan, plan
    from fastmcmd.streaming.monitor import Monitor, MonitorUpdate

__all__ = [
    "RBF",
    "Beta",
    "Binomial",
    "Categorical",
    "Comparison",
    "ConditionalCongruence",
    "CongruenceTest",
    "Constant",
    "Cosine",
    "CustomKernel",
    "Delta",
    "Diagnosis",
    "DifferenceMap",
    "DoublePoisson",
    "DownsampledResult",
    "Draws",
    "Evaluation",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GeneralizedPareto",
    "Info",
    "Kernel",
    "KernelChoice",
    "KernelReport",
    "Laplace",
    "Laplacian",
    "Linear",
    "LogNormal",
    "Logistic",
    "Matern",
    "MemoryLimitError",
    "MissingDependencyError",
    "Mixture",
    "Monitor",
    "MonitorUpdate",
    "NegativeBinomial",
    "Normal",
    "Plan",
    "Poisson",
    "Polynomial",
    "Predictive",
    "Product",
    "Quantiles",
    "RegionVerdict",
    "RejectionCurve",
    "Remedy",
    "Result",
    "Scaled",
    "StudentT",
    "Sum",
    "ToleranceWarning",
    "Truncated",
    "TwoPieceLaplace",
    "TwoPieceNormal",
    "Uniform",
    "Verdict",
    "WeakRegion",
    "WeakRegions",
    "Weibull",
    "WeightedDraws",
    "ZeroInflated",
    "__version__",
    "cce",
    "classification",
    "compare",
    "compat",
    "congruence_test",
    "crps",
    "datasets",
    "diagnose",
    "distributed",
    "downsampled_cce",
    "ece",
    "ence",
    "evaluate",
    "get_num_threads",
    "kernel_report",
    "load",
    "mcmd",
    "metrics",
    "nll",
    "pit_values",
    "plan",
    "plots",
    "recalibration",
    "regression_ece",
    "rejection_curve",
    "select_kernel",
    "set_num_threads",
    "streaming",
    "verdict",
    "weak_regions",
]

# Loaded on first use (PEP 562): importing everything would double the import time.
_LATER = {
    "fastmcmd": (
        "classification",
        "compat",
        "datasets",
        "distributed",
        "metrics",
        "plots",
        "recalibration",
        "streaming",
    ),
    "fastmcmd.downsampling": ("DownsampledResult", "downsampled_cce"),
    "fastmcmd.evaluation": ("Comparison", "Evaluation", "compare", "evaluate"),
    "fastmcmd.inference.congruence_test": ("CongruenceTest", "congruence_test"),
    "fastmcmd.inference.diagnose": ("diagnose",),
    "fastmcmd.inference.diagnosis": ("Diagnosis",),
    "fastmcmd.evaluation.verdict": ("RegionVerdict", "Remedy", "Verdict", "verdict"),
    "fastmcmd.streaming.monitor": ("Monitor", "MonitorUpdate"),
    "fastmcmd.inference.difference_map": ("DifferenceMap",),
    "fastmcmd.inference.regions": ("WeakRegion", "WeakRegions", "weak_regions"),
    "fastmcmd.inference.rejection": ("RejectionCurve", "rejection_curve"),
    "fastmcmd.inference.kernel_report": ("KernelReport", "kernel_report"),
    "fastmcmd.inference.select_kernel": ("KernelChoice", "select_kernel"),
    "fastmcmd.metrics": ("crps", "ence", "nll", "pit_values", "regression_ece"),
    "fastmcmd.planning": ("Plan", "plan"),
    "fastmcmd.loading": ("load",),
}


def __getattr__(name: str) -> object:
    if name == "ece":  # for regression; for classification use fastmcmd.classification.ece
        name = "regression_ece"
    for place, names in _LATER.items():
        if name in names:
            if place == "fastmcmd":
                return importlib.import_module(f"fastmcmd.{name}")
            attribute = getattr(importlib.import_module(place), name)
            globals()[name] = attribute
            return attribute
    raise AttributeError(f"module 'fastmcmd' has no attribute {name!r}")


# Calls with Dask collections go to the functions of the same names, which stand in a higher layer.
register_functions(lambda name: getattr(importlib.import_module("fastmcmd.distributed"), name))


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
