"""Functions for Dask arrays and data frames.

You rarely call them yourself: `fastmcmd.cce`, `mcmd`, `evaluate`, `compare` and `congruence_test` do so if
an argument is a Dask collection. docs/distributed.md has examples.
"""

from fastmcmd.distributed.blocks import BlockError, Blocks
from fastmcmd.distributed.congruence import cce, mcmd
from fastmcmd.distributed.evaluating import BlockComparison, BlockEvaluation, compare, evaluate
from fastmcmd.distributed.predicted import predicted
from fastmcmd.distributed.result import BlockResult
from fastmcmd.distributed.running import Run, SchedulerLostError
from fastmcmd.distributed.testing import congruence_test

__all__ = [
    "BlockComparison",
    "BlockError",
    "BlockEvaluation",
    "BlockResult",
    "Blocks",
    "Run",
    "SchedulerLostError",
    "cce",
    "compare",
    "congruence_test",
    "evaluate",
    "mcmd",
    "predicted",
]
