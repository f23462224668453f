"""Conditional congruence error and the MCMD: exact, certified, in bounded memory.

`cce` judges the predicted distributions of a model at every input, `mcmd` compares two conditional
distributions, `ConditionalCongruence` scores unlabelled inputs. Every result carries a bound on its
error.
"""

from fastmcmd._version import __version__
from fastmcmd.backends.threads import get_num_threads, set_num_threads
from fastmcmd.cce import cce
from fastmcmd.downsampling import DownsampledResult, downsampled_cce
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
    Sum,
)
from fastmcmd.mcmd import mcmd
from fastmcmd.metrics import ence, nll, pit_values, regression_ece
from fastmcmd.planning import Plan, plan
from fastmcmd.predictive import Draws, Gaussian, NegativeBinomial, Poisson, Predictive
from fastmcmd.result import Info, Result
from fastmcmd.storage import load

__all__ = [
    "RBF",
    "ConditionalCongruence",
    "Constant",
    "Cosine",
    "CustomKernel",
    "Delta",
    "DownsampledResult",
    "Draws",
    "Gaussian",
    "Info",
    "Kernel",
    "Laplacian",
    "Linear",
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
    "Sum",
    "ToleranceWarning",
    "__version__",
    "cce",
    "downsampled_cce",
    "ence",
    "get_num_threads",
    "load",
    "mcmd",
    "nll",
    "pit_values",
    "plan",
    "regression_ece",
    "set_num_threads",
]
