"""Pictures of docs/gallery.md that need no kernel: predictions, ranks, probabilities, elementary scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd import plots
from fastmcmd.plots.style import COLOURS

One = Callable[[Callable[[Any], Any]], Any]


def pictures(plt: Any, y: Any, prediction: Any, one: One) -> dict[str, Callable[[], Any]]:
    """Return by the name of each plot function a picture of it, of outcomes and their prediction."""
    metrics = fm.metrics
    fractions = np.geomspace(0.003, 1, 10)

    def pair(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Any:
        figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
        first(axes[0])
        second(axes[1])
        return figure

    def fans() -> Any:
        x, outcomes, model = sine()
        day, load, forecast = days()
        return pair(
            lambda ax: plots.fan(outcomes, model, x, ax),
            lambda ax: (
                plots.fan(load, forecast, day, ax),
                ax.set_ylabel("load, GW"),
            ),
        )

    def ranks() -> Any:
        outcomes, draws = ensemble()
        return pair(
            lambda ax: plots.rank_histogram(metrics.rank_histogram(outcomes, draws), ax),
            lambda ax: plots.rank_histogram(
                metrics.rank_histogram(outcomes, 0.6 * draws), ax, colour=COLOURS[1]
            ),
        )

    def uniformity(ax: Any) -> None:
        scales = {"calibrated": 1.0, "too narrow": 0.8, "too wide": 1.25}
        outcomes = np.random.default_rng(0).normal(size=600)
        for colour, (name, scale) in zip(COLOURS, scales.items(), strict=False):
            plots.pit_ecdf(metrics.pit_ecdf(outcomes, (0 * outcomes, scale)), ax, name, colour)

    def reliabilities() -> Any:
        event, p = rain()
        classes = fm.classification
        return pair(
            lambda ax: plots.isotonic_reliability(classes.isotonic_reliability(event, p), ax),
            lambda ax: plots.isotonic_reliability(
                metrics.exceedance_reliability(y[:2000], prediction.take(np.arange(2000)), 1.0), ax
            ),
        )

    def murphy() -> Any:
        outcomes, models = forecasters()

        def curves(ax: Any) -> None:
            for colour, (name, model) in zip(COLOURS, models.items(), strict=False):
                plots.murphy(metrics.murphy_curve(outcomes, model), ax, name, colour)

        first, second = models["biased"], models["ignores x"]
        return pair(
            curves,
            lambda ax: plots.murphy(
                metrics.murphy_difference(outcomes, first, second),
                ax,
                names=("biased", "ignores x"),
            ),
        )

    return {
        "fan": fans,
        "group_calibration": lambda: one(
            lambda ax: plots.group_calibration(
                metrics.adversarial_group_calibration(y, prediction, fractions=fractions, null=100),
                ax,
            )
        ),
        "isotonic_reliability": reliabilities,
        "murphy": murphy,
        "ordered_intervals": lambda: one(lambda ax: plots.ordered_intervals(y, prediction, ax)),
        "pit_ecdf": lambda: one(uniformity),
        "rank_histogram": ranks,
        "residuals": lambda: one(lambda ax: plots.residuals(y, prediction, ax)),
        "sharpness": lambda: one(lambda ax: plots.sharpness(y, prediction, ax)),
    }


def sine() -> tuple[Any, Any, Any]:
    """Return inputs with a gap, outcomes, and a right prediction."""
    x = np.concatenate([np.linspace(0, 6, 120), np.linspace(8, 12, 80)])
    spread = 0.1 + 0.15 * np.abs(x - 5)
    y = np.sin(x) + spread * np.random.default_rng(0).normal(size=len(x))
    return x, y, fm.Gaussian(np.sin(x), spread)


def days() -> tuple[Any, Any, Any]:
    """Return days, a load of which the last weeks are not known yet, and its forecast."""
    day = np.datetime64("2026-01-01") + np.arange(60)
    week = 50 + 6 * np.sin(2 * np.pi * np.arange(60) / 7) + 0.05 * np.arange(60)
    ahead = np.maximum(0, np.arange(60) - 42)
    y = week + 1.2 * np.random.default_rng(2).normal(size=60)
    return day, np.where(ahead > 0, np.nan, y), fm.Gaussian(week, 1.2 + 0.4 * np.sqrt(ahead))


def ensemble(n: int = 2000, members: int = 19) -> tuple[Any, Any]:
    """Return outcomes, and members of an ensemble from their distribution."""
    rng = np.random.default_rng(0)
    return rng.normal(size=n), rng.normal(size=(n, members))


def rain(n: int = 1500) -> tuple[Any, Any]:
    """Return events, and probabilities that are too far from 1/2."""
    rng = np.random.default_rng(1)
    p = rng.beta(0.8, 1.6, n)
    return rng.random(n) < 0.3 * 0.4 + 0.7 * p, p


def forecasters(n: int = 1000) -> tuple[Any, dict[str, Any]]:
    """Return outcomes, and three models."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return x + rng.normal(size=n), {
        "right": fm.Gaussian(x, 1.0),
        "biased": fm.Gaussian(x + 0.8, 1.0),
        "ignores x": fm.Gaussian(0 * x, 1.4),
    }
