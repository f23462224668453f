"""Predictions that a function makes of the columns of each block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastmcmd._base.blockwise import Deferred, is_blockwise
from fastmcmd._base.checks import check_callable

__all__ = ["predicted"]


def predicted(function: Callable[..., object], *columns: object, **options: object) -> Any:
    """Return a prediction that ``function`` makes of each block of some collections.

    Parameters
    ----------
    function : callable
        Receives the blocks of ``columns`` and ``options`` (NumPy arrays, pandas frames), and returns a
        distribution for each row: a `fastmcmd.Predictive`, or anything that converts to one. It runs on the
        workers.
    *columns, **options
        Dask arrays, data frames or series; other values are passed as they are.

    Raises
    ------
    TypeError
        ``function`` cannot be called, or no argument is a Dask collection.

    Examples
    --------
    >>> import dask.array as da, numpy as np, fastmcmd as fm
    >>> from fastmcmd.distributed import predicted
    >>> mean = da.zeros(100, chunks=30)
    >>> prediction = predicted(lambda m: fm.Truncated(fm.Gaussian(m, 1.0), -9.0, 9.0), mean)
    >>> y = da.from_array(np.random.default_rng(0).normal(size=100), chunks=30)
    >>> round(fm.evaluate(y, prediction)["mean_crps"], 1)
    0.6
    """
    check_callable(
        function, "function", len(columns), "a callable that makes predictions of blocks"
    )
    if not is_blockwise(columns, options):
        raise TypeError("columns holds no Dask collection; call the function itself")
    return Deferred(function, columns, options)
