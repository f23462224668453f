"""Conditional congruence error and the MCMD: exact, certified, in bounded memory.

`cce` judges the predicted distributions of a model at every input, `mcmd` compares two conditional
distributions, `ConditionalCongruence` scores unlabelled inputs. Every result carries a bound on its
error.
"""

from fastmcmd import classification, metrics, recalibration, streaming
from fastmcmd._version import __version__
from fastmcmd.backends.threads import get_num_threads, set_num_threads
from fastmcmd.cce import cce
from fastmcmd.downsampling import DownsampledResult, downsampled_cce
from fastmcmd.errors import MemoryLimitError, MissingDependencyError, ToleranceWarning
from fastmcmd.estimator import ConditionalCongruence
from fastmcmd.evaluation import Comparison, Evaluation, compare, evaluate
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
    Sum,
)
from fastmcmd.mcmd import mcmd
from fastmcmd.metrics import ence, nll, pit_values, regression_ece
from fastmcmd.planning import Plan, plan
from fastmcmd.predictive import (
    Beta,
    Draws,
    Gamma,
    Gaussian,
    Laplace,
    LogNormal,
    NegativeBinomial,
    Poisson,
    Predictive,
    StudentT,
    Uniform,
)
from fastmcmd.result import Info, Result
from fastmcmd.storage import load

__all__ = [
    "RBF",
    "Beta",
    "Comparison",
    "ConditionalCongruence",
    "Constant",
    "Cosine",
    "CustomKernel",
    "Delta",
    "DownsampledResult",
    "Draws",
    "Evaluation",
    "Gamma",
    "Gaussian",
    "Info",
    "Kernel",
    "Laplace",
    "Laplacian",
    "Linear",
    "LogNormal",
    "Matern",
    "MemoryLimitError",
    "MissingDependencyError",
    "NegativeBinomial",
    "Plan",
    "Poisson",
    "Polynomial",
    "Predictive",
    "Product",
    "Result",
    "StudentT",
    "Sum",
    "ToleranceWarning",
    "Uniform",
    "__version__",
    "cce",
    "classification",
    "compare",
    "downsampled_cce",
    "ence",
    "evaluate",
    "get_num_threads",
    "load",
    "mcmd",
    "metrics",
    "nll",
    "pit_values",
    "plan",
    "recalibration",
    "regression_ece",
    "set_num_threads",
    "streaming",
]
