"""All measures of a prediction in one call. To add a number, add a `Measure` in `measures.py`."""

from fastmcmd.evaluation.comparison import Comparison, compare
from fastmcmd.evaluation.evaluating import evaluate
from fastmcmd.evaluation.result import Evaluation, Measured

__all__ = ["Comparison", "Evaluation", "Measured", "compare", "evaluate"]
