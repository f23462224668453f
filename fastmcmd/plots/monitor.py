"""Plot of a monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from fastmcmd._base.checks import check_instance
from fastmcmd.plots.style import COLOURS, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

    from fastmcmd.streaming.monitor import Monitor

__all__ = ["evidence"]


def evidence(monitor: Monitor, ax: Axes | None = None) -> Axes:
    """Plot the evidence over the batches that P(x), P(y) and P(y | x) have changed.

    Parameters
    ----------
    monitor : Monitor
        A monitor with at least one batch.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> monitor = fm.Monitor(rng.normal(size=100), rng.normal(size=100), simulations=99)
    >>> _ = monitor.update(rng.normal(size=50), rng.normal(size=50))
    >>> fm.plots.evidence(monitor).get_xlabel()
    'batch'
    """
    from fastmcmd.streaming.monitor import Monitor

    check_instance(monitor, "monitor", Monitor, "a monitor")
    history = monitor.history
    if not history:
        raise ValueError("monitor has no batches yet; update it first")
    ax = axes(ax)
    threshold = history[-1].threshold
    batches = [0, *(one.batch for one in history)]
    for place, name in enumerate(history[0].evidence):
        values = [1.0, *(one.evidence[name] for one in history)]
        ax.plot(
            batches, values, "o-", color=COLOURS[place], linewidth=1.6, markersize=3.5, label=name
        )
        alarm = history[-1].alarms[name]
        if alarm is not None:
            ax.plot(alarm, values[alarm], "o", color=COLOURS[place], markersize=9, fillstyle="none")
    ax.axhline(threshold, color="0.4", linestyle="--", linewidth=1.1)
    ax.annotate(
        f"alarm at {threshold:.3g}", (0, threshold), xytext=(2, 3), textcoords="offset points",
        color="0.35", fontsize="small",
    )  # fmt: skip
    ax.set(xlabel="batch", ylabel="evidence that it moved", yscale="log")
    cast("MaxNLocator", ax.xaxis.get_major_locator()).set_params(integer=True)
    return finish(ax, "evidence")
