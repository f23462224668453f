"""Plots of kernel choices: how well kernels predict, and which misfits they detect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastmcmd._base.checks import check_count, check_instance
from fastmcmd.plots.style import COLOURS, axes, finish, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fastmcmd.inference.kernel_report import KernelReport
    from fastmcmd.inference.select_kernel import KernelChoice

__all__ = ["kernel_choice", "kernel_power"]


def kernel_choice(choice: KernelChoice, ax: Axes | None = None, most: int = 6) -> Axes:
    """Plot the share of the outcomes' embedding that kernels explain, against the regulariser.

    Parameters
    ----------
    choice : KernelChoice
        Result of `fastmcmd.select_kernel`.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.
    most : int
        Largest number of kernels; the best are shown.

    Returns
    -------
    matplotlib axes
    """
    from fastmcmd.inference.select_kernel import KernelChoice

    check_instance(choice, "choice", KernelChoice, "what select_kernel returns")
    most = check_count(most, "most", 1)
    ax = axes(ax)
    names = list(dict.fromkeys(one.name for one in choice.scores))[:most]
    for place, name in enumerate(names):
        some = sorted((one for one in choice.scores if one.name == name), key=lambda one: one.lam)
        ax.plot(
            [one.lam for one in some],
            [100 * one.explained for one in some],
            marker="o",
            markersize=3,
            color=COLOURS[place % len(COLOURS)],
            linewidth=2 if place == 0 else 1,
            label=plain(name if len(name) <= 40 else f"{name[:37]}..."),
        )
    ax.set_xscale("log")
    ax.axvline(choice.lam, color="0.7", linewidth=1, zorder=0)
    ax.set_xlabel("regulariser lam")
    ax.set_ylabel("embedding of y explained, left out (%)")
    return finish(ax, "kernels")


def kernel_power(report: KernelReport, ax: Axes | None = None) -> Axes:
    """Plot how often wrong models are detected, by the plain CCE and with standardised outcomes.

    Parameters
    ----------
    report : KernelReport
        Result of `fastmcmd.kernel_report`. Unknown powers are left out.
    ax : matplotlib axes, optional
        Axes to draw in. Default: new axes.

    Returns
    -------
    matplotlib axes
    """
    from fastmcmd.inference.kernel_report import KernelReport

    check_instance(report, "report", KernelReport, "what kernel_report returns")
    ax = axes(ax)
    places = range(len(report.powers))
    ax.barh(
        [place - 0.2 for place in places],
        [100 * one.power for one in report.powers],
        0.4,
        color=COLOURS[0],
        label="plain CCE",
    )
    ax.barh(
        [place + 0.2 for place in places],
        [100 * one.standardised for one in report.powers],
        0.4,
        color=COLOURS[1],
        label="standardised y",
    )
    ax.set_yticks(list(places), [one.model for one in report.powers])
    ax.invert_yaxis()
    ax.axvline(5, color="0.7", linewidth=1)
    ax.set_xlim(0, 100)
    ax.set_xlabel(f"seen in this share of samples of {report.rows:,} rows (%)")
    finish(ax)
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return ax
