"""The picture of a rejection curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastmcmd._base.checks import check_instance
from fastmcmd.plots.style import COLOURS, axes, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.inference.rejection import RejectionCurve

__all__ = ["rejection"]


def rejection(curve: RejectionCurve, ax: Axes | None = None, label: str = "score") -> Axes:
    """Draw the mean loss of the rows that are left over the share of rejected rows.

    Parameters
    ----------
    curve : RejectionCurve
        As `fastmcmd.rejection_curve` returns it.
    ax : matplotlib axes, optional
        Where to draw.
    label : str
        Name of the score in the legend.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import fastmcmd as fm
    >>> curve = fm.rejection_curve([0.1, 0.2, 0.3], [1.0, 2.0, 1.5])
    >>> fm.plots.rejection(curve).get_xlabel()
    'share of rejected rows'
    """
    from fastmcmd.inference.rejection import RejectionCurve

    check_instance(curve, "curve", RejectionCurve, "what rejection_curve returns")
    ax = axes(ax)
    low, high = curve.random_band.T
    ax.fill_between(curve.rejected, low, high, color="0.85", linewidth=0, label="random order")
    ax.plot(
        curve.rejected, curve.best_loss, ":", color="0.4", linewidth=1.2, label="by the loss itself"
    )
    if curve.std_loss is not None:
        ax.plot(
            curve.rejected, curve.std_loss, color=COLOURS[1], linewidth=1.8, label="predicted std"
        )
    ax.plot(curve.rejected, curve.loss, color=COLOURS[0], linewidth=1.8, label=label)
    ax.set(xlabel="share of rejected rows", ylabel="mean loss of the others", xlim=(0, 1))
    return finish(ax, label)
