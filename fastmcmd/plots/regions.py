"""Regions in which a model was tested: how wrong it is, next to what a right model shows by chance."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from fastmcmd._base.checks import check_instance
from fastmcmd.plots.style import COLOURS, axes, finish, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.inference.regions import WeakRegions

__all__ = ["weak_regions"]

_WRAP = 34  # characters of a line of a description


def weak_regions(regions: WeakRegions, ax: Axes | None = None) -> Axes:
    """Draw the CCE in each region as a point, joined to that of a right model; the worst region on top.

    Filled points are beyond chance at the level of the result, Holm's adjustment included.

    Parameters
    ----------
    regions : WeakRegions
        As `fastmcmd.weak_regions` returns them.
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
    >>> x = np.random.default_rng(0).uniform(-2, 2, 400)
    >>> y = x + 0.5 * (x > 1) + 0.3 * np.random.default_rng(1).normal(size=400)
    >>> fm.weak_regions({"x": x}, x, y, fm.Gaussian(x, 0.3)).plot().get_xlabel()
    'CCE of the tested rows'
    """
    from fastmcmd.inference.regions import WeakRegions

    check_instance(regions, "regions", WeakRegions, "what weak_regions returns")
    ax = axes(ax)
    sorted_regions = sorted(regions, key=lambda one: one.cce**2 - one.null_cce**2)
    places = np.arange(len(sorted_regions))
    cce = np.array([one.cce for one in sorted_regions])
    null = np.array([one.null_cce for one in sorted_regions])
    wrong = np.array([one.p_adjusted <= regions.level for one in sorted_regions])
    ax.hlines(places, null, cce, color="0.75", linewidth=2, zorder=1)
    ax.plot(null, places, "|", color="0.4", markersize=14, markeredgewidth=2, label="a right model")
    style: dict[str, Any] = {
        "linestyle": "none",
        "marker": "o",
        "color": COLOURS[1],
        "markersize": 8,
    }
    if wrong.any():
        ax.plot(cce[wrong], places[wrong], label="beyond chance", **style)
    if not wrong.all():
        ax.plot(
            cce[~wrong], places[~wrong], label="may be chance", markerfacecolor="white", **style
        )
    labels = [
        f"{one.description}\n{one.rows:,} rows, p = {one.p_adjusted:.3g}" for one in sorted_regions
    ]
    wrapped = ["\n".join(textwrap.fill(part, _WRAP) for part in one.split("\n")) for one in labels]
    ax.set_yticks(places, [plain(one) for one in wrapped], fontsize="small")
    ax.set(xlabel="CCE of the tested rows", ylim=(-0.6, len(sorted_regions) - 0.4))
    most = max([*cce, *null, 1e-3])
    ax.set_xlim(-0.04 * most, 1.08 * most)  # no marker is cut
    ax.legend(
        frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, columnspacing=1.2
    )
    return finish(ax)
