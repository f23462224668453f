"""Pictures of conclusions: a statistic among those of right models."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastmcmd.plots.style import COLOURS, axes, finish

__all__ = ["congruence_test"]

_GREY = "0.7"
_BARS = 30


def congruence_test(test: Any, ax: Any = None) -> Any:
    """Draw the CCE of the observed outcomes among that of outcomes drawn from the predictions.

    Parameters
    ----------
    test : CongruenceTest
        As `fastmcmd.congruence_test` returns it.
    ax : matplotlib axes, optional
        Where to draw.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import fastmcmd as fm
    >>> x = np.random.default_rng(0).normal(size=100)
    >>> test = fm.congruence_test(x, x, fm.Gaussian(x, 1.0), random_state=0)
    >>> test.plot().get_xlabel()
    'CCE, root mean square over the rows'
    """
    ax = axes(ax)
    null = np.sqrt(test.simulated[1:])
    counts, edges = np.histogram(null, min(_BARS, int(np.ceil(np.sqrt(len(null))))))
    ax.stairs(counts, edges, fill=True, color=_GREY, label="right model")
    critical = float(np.sqrt(test.critical_value))
    ax.axvline(critical, color="0.4", linewidth=1.2, linestyle="--", label="95 %")
    ax.axvline(test.cce, color=COLOURS[1], linewidth=2, label="observed")
    ax.set(
        xlabel="CCE, root mean square over the rows",
        ylabel=f"of {test.simulations:,} simulated data sets",
        title=f"p = {test.p_value:.3g}, all statistics together",
    )
    ax.title.set_fontsize("medium")
    return finish(ax, "legend")
