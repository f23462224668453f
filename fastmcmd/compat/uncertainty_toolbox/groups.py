"""Calibration in the worst of several random groups, drawn as in Uncertainty Toolbox."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd import metrics
from fastmcmd._base.checks import check_choice, check_count, check_flag
from fastmcmd._base.progress import Progress
from fastmcmd.compat.uncertainty_toolbox.inputs import documented, gaussian

__all__ = ["PROPORTIONS", "adversarial_group_calibration"]

PROPORTIONS = ("interval", "quantile")
_NORMS = {"mean_abs": "mean_absolute", "root_mean_sq": "rms"}


@documented
def adversarial_group_calibration(
    y_pred: ArrayLike,
    y_std: ArrayLike,
    y_true: ArrayLike,
    cali_type: str,
    prop_type: str = "interval",
    num_bins: int = 100,
    num_group_bins: int = 10,
    draw_with_replacement: bool = False,
    num_trials: int = 10,
    num_group_draws: int = 10,
    verbose: bool = False,
) -> Namespace:
    """Return the calibration error of the worst of several random groups, by group size.

    Parameters
    ----------
    cali_type : {"mean_abs", "root_mean_sq"}
        Mean absolute or root mean square calibration error.
    num_group_bins : int
        Number of evenly spaced group sizes, from 0 (2 rows) to all rows.
    draw_with_replacement : bool
        Whether a group may contain a row more than once.
    num_trials, num_group_draws : int
        Number of trials; each trial takes the worst of ``num_group_draws`` groups.
    verbose : bool
        Whether to show progress.

    Returns
    -------
    argparse.Namespace
        ``group_size`` (shares of the rows), ``score_mean`` and ``score_stderr``, the mean and the standard
        deviation (ddof=1) over trials, ndarray (num_group_bins,).

    Notes
    -----
    Groups are drawn from ``numpy.random`` in the order of the original, so ``numpy.random.seed`` gives the
    same groups. `fastmcmd.metrics.adversarial_group_calibration` has a ``random_state`` argument and is
    faster.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd.compat.uncertainty_toolbox import adversarial_group_calibration
    >>> y = np.random.default_rng(0).normal(size=500)
    >>> calibration = adversarial_group_calibration(np.zeros(500), np.ones(500), y, "mean_abs")
    >>> bool(calibration.score_mean[0] > calibration.score_mean[-1])
    True
    """
    check_choice(cali_type, "cali_type", tuple(_NORMS))
    check_choice(prop_type, "prop_type", PROPORTIONS)
    outcomes, predicted = gaussian(y_pred, y_std, y_true)
    shares = np.linspace(0, 1, check_count(num_group_bins, "num_group_bins"))
    trials = check_count(num_trials, "num_trials")
    draws = check_count(num_group_draws, "num_group_draws")
    draw_with_replacement = check_flag(draw_with_replacement, "draw_with_replacement")
    if len(outcomes) < 2 and not draw_with_replacement:
        raise ValueError("y_true has 1 row; at least 2 are needed for groups without replacement")
    sizes = np.maximum(np.round(len(outcomes) * shares).astype(np.intp), 2)
    result = metrics.adversarial_group_calibration(
        outcomes,
        predicted,
        np.linspace(0, 1, check_count(num_bins, "num_bins")),
        norm=_NORMS[cali_type],
        kind=prop_type,
        pit="plain",
        groups=_drawn_groups(
            len(outcomes), sizes, trials, draws, draw_with_replacement, bool(verbose)
        ),
    )
    worst = result.worst.reshape(len(shares), trials)
    deviation = worst.std(axis=1, ddof=1) if trials > 1 else np.full(len(shares), np.nan)
    return Namespace(group_size=shares, score_mean=worst.mean(axis=1), score_stderr=deviation)


def _drawn_groups(
    n: int, sizes: NDArray[np.intp], trials: int, draws: int, replace: bool, verbose: bool
) -> Iterator[NDArray[np.int32]]:
    """Yield rows of groups (1, draws, size), size by size and trial by trial.

    Rows come from the global generator of ``numpy.random``, one call per group in the order of the
    original. One trial at a time is in memory.
    """
    progress = Progress(verbose, 0.0)
    sweep = progress.sweep("groups", len(sizes) * trials * draws, unit="groups")
    count = 0
    try:
        for size in sizes.tolist():
            for _ in range(trials):
                rows = np.empty((1, draws, size), dtype=np.int32)
                for draw in range(draws):
                    # The original's generator: with the same seed the groups are the same.
                    rows[0, draw] = np.random.choice(n, size, replace=replace)  # noqa: NPY002
                yield rows
                count += draws
                sweep.advance(count)
    finally:
        progress.close()
