"""Plots of tests and conclusions, such as a statistic among its values for right models."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.checks import check_instance
from fastmcmd.plots.diagnosis import diagnosis
from fastmcmd.plots.style import COLOURS, axes, finish, matplotlib, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from fastmcmd.evaluation.verdict import Verdict
    from fastmcmd.inference.congruence_result import CongruenceTest
    from fastmcmd.inference.missing_mass import MissingMass
    from fastmcmd.inference.rejection import RejectionCurve

__all__ = ["congruence_test", "missing_mass", "rejection", "verdict"]

_GREY = "0.7"
_MOST_REJECTED = 0.95  # share of rejected rows up to which the axes show the whole band
_BARS = 30
_BELOW_LEGEND = 0.84  # share of the height that the bars and lines of `congruence_test` have


def congruence_test(test: CongruenceTest, ax: Axes | None = None) -> Axes:
    """Plot the CCE of the observed outcomes and its distribution for outcomes drawn from the predictions.

    Parameters
    ----------
    test : CongruenceTest
        Result of `fastmcmd.congruence_test`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.

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
    from fastmcmd.inference.congruence_test import CongruenceTest

    check_instance(test, "test", CongruenceTest, "what congruence_test returns")
    ax = axes(ax)
    null = np.sqrt(test.simulated[1:])
    counts, edges = np.histogram(null, min(_BARS, int(np.ceil(np.sqrt(len(null))))))
    ax.stairs(counts, edges, fill=True, color=_GREY, label="right model")
    critical = float(np.sqrt(test.critical_value))
    ax.axvline(
        critical, ymax=_BELOW_LEGEND, color="0.4", linewidth=1.2, linestyle="--", label="95 %"
    )
    ax.axvline(test.cce, ymax=_BELOW_LEGEND, color=COLOURS[1], linewidth=2, label="observed")
    ax.set(
        ylim=(0, counts.max() * 1.05 / _BELOW_LEGEND),
        xlabel="CCE, root mean square over the rows",
        ylabel=f"of {test.simulations:,} simulated data sets",
        title=f"p = {test.p_value:.3g}, all statistics together",
    )
    ax.title.set_fontsize("medium")
    ax.legend(frameon=False, loc="upper center", ncols=3, borderaxespad=0)
    return finish(ax)


def missing_mass(
    curve: MissingMass,
    ax: Axes | None = None,
    label: str | None = None,
    colour: str = COLOURS[0],
) -> Axes:
    """Plot observed minus predicted probability near one input, with the band of right predictions.

    Counts and classes are bars; densities, smoothed over y, are a line.

    Parameters
    ----------
    curve : MissingMass
        Result of `fastmcmd.inference.missing_mass.missing_mass`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    label : str, optional
        Label in the legend.
    colour : str
        Colour of the bars or the line, and of the band.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import fastmcmd as fm
    >>> from fastmcmd import plots
    >>> from fastmcmd.inference.missing_mass import missing_mass
    >>> x = np.linspace(-1, 1, 200)
    >>> curve = missing_mass(x, np.arange(200) % 5, fm.Poisson(np.full(200, 2.0)), 0.0)
    >>> plots.missing_mass(curve).get_ylabel()
    'observed - predicted probability'
    """
    from fastmcmd.inference.missing_mass import MissingMass

    check_instance(curve, "curve", MissingMass, "what missing_mass returns")
    ax = axes(ax)
    ax.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.fill_between(
        curve.values, -curve.band, curve.band, color=colour, alpha=0.15, linewidth=0, zorder=0
    )
    if curve.bandwidth:
        ax.plot(curve.values, curve.gap, color=colour, linewidth=1.8, label=label)
        quantity = "density"
        xlabel = "y, densities smoothed"
    else:
        ax.vlines(curve.values, 0, curve.gap, color=colour, linewidth=1.2)
        ax.plot(curve.values, curve.gap, "o", color=colour, markersize=4, label=label)
        quantity = "probability"
        xlabel = "y"
        ax.locator_params(axis="x", integer=True)
    ax.set(xlabel=xlabel, ylabel=f"observed - predicted {quantity}")
    ax.margins(y=0.16)  # space for the labels of the signs
    if not ax.texts:
        style: dict[str, Any] = {"ha": "right", "fontsize": "small", "color": "0.4"}
        style["transform"] = ax.transAxes
        ax.text(0.98, 0.98, "above 0: the model puts too little there", va="top", **style)
        text = f"below 0: too much; shaded: {curve.level:.0%} of right models"
        ax.text(0.98, 0.02, text, va="bottom", **style)
    return finish(ax, label)


def verdict(conclusion: Verdict) -> Figure:
    """Plot the test and, if there is a diagnosis, the corrections that predictions need.

    Parameters
    ----------
    conclusion : Verdict
        Result of `fastmcmd.verdict`.

    Returns
    -------
    matplotlib figure

    Examples
    --------
    >>> import numpy as np, pytest
    >>> _ = pytest.importorskip("matplotlib")
    >>> import fastmcmd as fm
    >>> x = np.random.default_rng(0).normal(size=200)
    >>> len(fm.verdict(x, x, fm.Gaussian(x, 1.0)).plot().axes)
    3
    """
    from fastmcmd.evaluation.verdict import Verdict

    check_instance(conclusion, "conclusion", Verdict, "what fastmcmd.verdict returns")
    plt = matplotlib()
    if conclusion.diagnosis is None:
        figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
        congruence_test(conclusion.test, ax=ax)
    else:
        figure, panels = plt.subplot_mosaic(
            [["test", "shift"], ["test", "factor"]], figsize=(11, 5), layout="constrained"
        )
        congruence_test(conclusion.test, ax=panels["test"])
        diagnosis(conclusion.diagnosis, axes=(panels["shift"], panels["factor"]))
        panels["shift"].sharex(panels["factor"])
    sentence = plain(conclusion.sentence).replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    width = 65 if conclusion.diagnosis is None else 100  # characters that fit the figure
    figure.suptitle("\n".join(textwrap.wrap(sentence, width)), fontsize="medium")
    return figure


def rejection(curve: RejectionCurve, ax: Axes | None = None, label: str = "score") -> Axes:
    """Plot the mean loss of the remaining rows against the share of rejected rows.

    Parameters
    ----------
    curve : RejectionCurve
        Result of `fastmcmd.rejection_curve`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
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
    _without_last_rows(ax, curve, low, high)
    return finish(ax, label)


def _without_last_rows(
    ax: Axes, curve: RejectionCurve, low: NDArray[np.float64], high: NDArray[np.float64]
) -> None:
    """Set the height of the axes by all but the last rows, whose few losses would flatten the curve."""
    most = curve.rejected <= _MOST_REJECTED
    curves = [low[most], high[most], curve.loss[most], curve.best_loss[most]]
    if curve.std_loss is not None:
        curves.append(curve.std_loss[most])
    bottom, top = min(one.min() for one in curves), max(one.max() for one in curves)
    if most.sum() > 1 and top > bottom:
        margin = 0.05 * (top - bottom)
        ax.set_ylim(bottom - margin, top + margin)
