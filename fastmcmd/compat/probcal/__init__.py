"""Drop-in replacement for the published code of the CCE paper (github.com/spencermyoung513/probcal).

Not for the unrelated package of that name on PyPI. Change the import, ``from probcal.evaluation.metrics
import compute_mcmd_torch`` to ``from fastmcmd.compat.probcal import compute_mcmd_torch``, and nothing
else: names, arguments and defaults are the published ones.

Differences, where the published result is wrong or missing:

- The MCMD is never NaN. It is the norm of a vector; the published code takes the root of a difference that
  rounding can make negative. Values near zero keep their digits. A `fastmcmd.ToleranceWarning` is issued if
  an error of at most 1e-6 cannot be certified.
- Targets of a regression ECE stay real numbers under ``torch.distributions``; the published code truncates
  them to integers.
- Poisson and negative binomial probabilities are exact at any count; the published code sums 2,000 values
  for every row.
- Counts beyond the table of a published ``DiscreteRandomVariable`` have P(Y <= y) = 1 and negative counts
  have 0; the published code stops or reads the end of the table.
- `CalibrationEvaluator` encodes and predicts every input once, and computes all bootstrap samples in shared
  passes. Results are saved as ``.npz``, because the published ``.pt`` is a pickle. Custom output kernels
  work. Each row of a batch of 10 x 5 draws is as published, with another order of random numbers.
- A torch result is detached: no gradient flows through it. A warning is issued if inputs require gradients.
- Invalid input (NaN, infinity, different numbers of rows, ``lmbda <= 0``) raises an error that names the
  argument.

Preserved: the published Laplacian kernel squares the L1 distance, see `laplacian_kernel`; the polynomial
kernel has ``gamma=1.0``, not 1/d; ``gamma=0`` means 1/d in `rbf_kernel` and `laplacian_kernel`; the PIT of
counts is P(Y <= y), not randomised.
"""

from fastmcmd.compat.probcal.bootstrap import CCEResults, CCESettings, bootstrap_cce
from fastmcmd.compat.probcal.evaluator import (
    CalibrationEvaluator,
    CalibrationEvaluatorSettings,
    CalibrationResults,
    DatasetType,
    ECEResults,
    ECESettings,
)
from fastmcmd.compat.probcal.kernels import laplacian_kernel, polynomial_kernel, rbf_kernel
from fastmcmd.compat.probcal.mcmd import compute_mcmd_numpy, compute_mcmd_torch
from fastmcmd.compat.probcal.regression_ece import compute_regression_ece

__all__ = [
    "CCEResults",
    "CCESettings",
    "CalibrationEvaluator",
    "CalibrationEvaluatorSettings",
    "CalibrationResults",
    "DatasetType",
    "ECEResults",
    "ECESettings",
    "bootstrap_cce",
    "compute_mcmd_numpy",
    "compute_mcmd_torch",
    "compute_regression_ece",
    "laplacian_kernel",
    "polynomial_kernel",
    "rbf_kernel",
]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
