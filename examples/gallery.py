"""Draw the pictures of docs/gallery.md and docs/what_cce_is.md.

python examples/gallery.py [FOLDER [NAME ...]]
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gallery_of_predictions import pictures

import fastmcmd as fm
from fastmcmd import plots
from fastmcmd.inference.missing_mass import missing_mass
from fastmcmd.plots.style import COLOURS

SIZE = (5.0, 3.6)  # inches: two fit beside each other on a page
DPI = 90
WIDTH = 920  # pixels at most: what a page shows
PALETTE_SIZE = 64  # of a picture: hardly a difference to the eye, and a third of the size


def calibrated_pair(n: int = 3000) -> tuple[Any, Any, dict[str, Any]]:
    """Return x, y and two models: the truth, and the marginal distribution of y at every x.

    x is standard normal and y = 0.8 x + 0.6 noise, so that y is standard normal, too: both models are
    exactly calibrated over all inputs, and only one is right at each.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    y = 0.8 * x + 0.6 * rng.normal(size=n)
    models = {"knows x": fm.Gaussian(0.8 * x, 0.6), "ignores x": fm.Gaussian(np.zeros(n), 1.0)}
    return x, y, models


def what_cce_is(plt: Any) -> Any:
    """Draw two calibrated models: data, reliability, CCE."""
    x, y, models = calibrated_pair()
    figure, (data, calibration, where) = plt.subplots(
        1, 3, figsize=(11.5, 3.7), layout="constrained"
    )
    data.plot(x[::3], y[::3], ".", color="0.75", markersize=2, zorder=0)
    order = np.argsort(x)
    for colour, (name, model) in zip(COLOURS, models.items(), strict=False):
        low, high = model.quantile([0.05, 0.95])[order].T
        data.fill_between(x[order], low, high, color=colour, alpha=0.2, linewidth=0, label=name)
        plots.reliability(fm.metrics.reliability_curve(y, model), calibration, name, colour)
        result = fm.cce(x, y, model, x_kernel=fm.RBF(1.0))
        plots.cce_over_inputs(x, result, where, f"{name} (mean {result.mean:.3f})", colour)
    data.set(xlabel="x", ylabel="y", title="Two models: what holds 90 %")
    data.legend(frameon=False)
    data.spines[["top", "right"]].set_visible(False)
    calibration.set_title("Both are calibrated over all inputs")
    where.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 0.1))  # between the curves
    where.set_title("Only one is right at each input")
    return figure


def why(plt: Any) -> Any:
    """Draw the witness of the model that ignores x, at two inputs."""
    x, y, models = calibrated_pair()
    grid = np.linspace(-3, 3, 121)
    figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
    fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(1.0)).fit(x, y, models["ignores x"])
    for colour, at in zip(COLOURS, (-1.0, 1.0), strict=False):
        plots.witness(grid, fitted.witness([at], grid), ax, f"at x = {at:g}", colour)
    ax.margins(y=0.3)  # space for the legend
    ax.legend(frameon=False, loc="upper left")
    return figure


def visits(n: int = 6000) -> tuple[Any, Any, Any]:
    """Return inputs of two columns, noisy outputs and a prediction whose spread is wrong at places."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (n, 2))
    spread = 0.2 + 0.3 * np.abs(x[:, 0])
    y = np.sin(x[:, 0]) + 0.5 * x[:, 1] + spread * rng.normal(size=n)
    predicted_spread = spread * np.where(x[:, 1] > 0.5, 0.4, 1.0)
    return x, y, fm.Gaussian(np.sin(x[:, 0]) + 0.5 * x[:, 1], predicted_spread)


def gallery(plt: Any) -> dict[str, Callable[[], Any]]:
    """Return by the name of each plot function a picture of it."""
    x, y, prediction = visits()
    kernel = fm.RBF(1.0)
    fitted = fm.ConditionalCongruence(x_kernel=kernel).fit(x, y, prediction)
    values = fitted.result_.values

    def one(draw: Callable[[Any], Any]) -> Any:
        figure, ax = plt.subplots(figsize=SIZE, layout="constrained")
        draw(ax)
        return figure

    def evaluation() -> Any:
        figure = plt.figure(figsize=(12.5, 9.5), layout="constrained")
        return plots.evaluation(fm.evaluate(y, prediction, x, x_kernel=kernel), figure)

    def witness(ax: Any) -> None:
        grid = np.linspace(-2.5, 3.5, 121)
        plots.witness(grid, fitted.witness([[0.0, 1.0]], grid), ax, "at x = (0, 1)")
        ax.margins(y=0.3)  # space for the legend
        ax.legend(frameon=False, loc="upper left")

    overall = fm.Gaussian(np.full(len(y), y.mean()), y.std())
    models = {"too narrow": prediction, "ignores x": overall}
    crps = fm.metrics.crps(y, prediction)

    def two_models(ax: Any) -> None:
        for colour, (name, model) in zip(COLOURS, models.items(), strict=False):
            result = fm.cce(x, y, model, x_kernel=kernel)
            plots.cumulative(result, ax, name, colour, "CCE")

    def planes() -> Any:
        figure, axes = plt.subplots(1, 3, figsize=(11.5, 3.4), layout="constrained")
        plane = plots.project(x)
        for ax, (name, part) in zip(
            axes, {"CCE": values, "CRPS": crps, "y": y}.items(), strict=True
        ):
            plots.over_plane(plane, part, ax, name=name)
        return figure

    def missing() -> Any:
        contrast = missing_mass(x, y, prediction, [0.0, 1.0])
        return one(lambda ax: plots.missing_mass(contrast, ax, "at x = (0, 1)"))

    def diagnosis() -> Any:
        rng = np.random.default_rng(1)
        place = rng.uniform(-2, 2, 2000)
        outcome = np.sin(2 * place) + 0.2 * rng.normal(size=2000)
        wrong = fm.Gaussian(np.sin(2 * place) + 0.4 * (place > 1), np.where(place < -1, 0.1, 0.2))
        return fm.diagnose(place, outcome, wrong).plot()[0].figure

    def visits_by_age() -> tuple[Any, Any, Any, Any]:
        rng = np.random.default_rng(0)
        age, income = rng.uniform(20, 80, 2000), rng.normal(size=2000)
        predicted = age / 30 + income
        visits = predicted + 1.2 * (age > 61) + 0.5 * rng.normal(size=2000)
        columns = {"age": age, "income": income}
        inputs = np.stack([age, income], axis=1)
        return inputs, visits, fm.Gaussian(predicted, 0.5), columns

    def verdict() -> Any:
        return fm.verdict(*visits_by_age()).plot()

    def regions(ax: Any) -> None:
        inputs, visits, model, columns = visits_by_age()
        plots.weak_regions(fm.weak_regions(columns, inputs, visits, model, random_state=0), ax)

    some = fm.downsampled_cce(x, y, prediction, 200, repeats=10, random_state=0, x_kernel=kernel)
    return {
        **pictures(plt, y, prediction, one),
        "reliability": lambda: one(
            lambda ax: plots.reliability(fm.metrics.reliability_curve(y, prediction), ax)
        ),
        "pit_histogram": lambda: one(
            lambda ax: plots.pit_histogram(fm.metrics.pit_histogram(y, prediction), ax)
        ),
        "variance": lambda: one(
            lambda ax: plots.variance(fm.metrics.ence_curve(y, prediction), ax)
        ),
        "cce_over_inputs": lambda: one(
            lambda ax: plots.cce_over_inputs(x[:, 1], values, ax).set_xlabel("x, column 2")
        ),
        "cce_projection": lambda: one(lambda ax: plots.cce_projection(x, values, ax)),
        "cce_histogram": lambda: one(lambda ax: plots.cce_histogram(values, ax)),
        "congruence_test": lambda: one(
            lambda ax: fm.congruence_test(x, y, prediction, random_state=0).plot(ax)
        ),
        "kernel_choice": lambda: one(
            lambda ax: plots.kernel_choice(fm.select_kernel(x, y), ax, most=4)
        ),
        "kernel_power": lambda: one(
            lambda ax: plots.kernel_power(fm.kernel_report(x, *steep_line(x)), ax)
        ),
        "cumulative": lambda: one(two_models),
        "diagnosis": diagnosis,
        "histogram": lambda: one(
            lambda ax: plots.histogram(prediction.std, ax, name="predicted standard deviation")
        ),
        "missing_mass": missing,
        "over_inputs": lambda: one(
            lambda ax: plots.over_inputs(x[:, 1], crps, ax, points=0, name="CRPS").set_xlabel(
                "x, column 2"
            )
        ),
        "over_plane": planes,
        "difference_map": lambda: one(lambda ax: plots.difference_map(two_sides(), ax=ax)),
        "evidence": lambda: one(lambda ax: plots.evidence(monitored(), ax)),
        "rejection": lambda: one(
            lambda ax: plots.rejection(
                fm.rejection_curve(fitted.result_.excess, crps, prediction.std),
                ax,
                "excess of the CCE",
            )
        ),
        "verdict": verdict,
        "weak_regions": lambda: one(regions),
        "witness": lambda: one(witness),
        "downsampled_cce": lambda: one(lambda ax: plots.downsampled_cce(some, x[:, 1], ax)),
        "evaluation": evaluation,
    }


def two_sides() -> Any:
    """Return where each of two models is better: one is wrong on the left, one on the right."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, 600)
    mean = np.sin(2 * x)
    y = mean + 0.4 * rng.normal(size=600)
    models = {
        "wrong on the right": fm.Gaussian(mean + 0.4 * (x > 0), 0.4),
        "wrong on the left": fm.Gaussian(mean - 0.4 * (x < 0), 0.4),
    }
    return fm.compare(models, y, x).map()


def monitored() -> Any:
    """Return a monitor of ten batches; from the sixth on outcomes are higher by 0.5."""
    rng = np.random.default_rng(3)

    def batch(n: int, shift: float = 0.0) -> tuple[Any, Any, Any]:
        x = rng.normal(size=(n, 2))
        mean = np.sin(2 * x[:, 0]) + x[:, 1]
        return x, mean + shift + 0.5 * rng.normal(size=n), fm.Gaussian(mean, 0.5)

    monitor = fm.Monitor(*batch(600))
    for number in range(10):
        monitor.update(*batch(100, 0.5 if number >= 5 else 0.0))
    return monitor


def steep_line(x: Any) -> tuple[Any, Any]:
    """Return outcomes whose means vary faster than a kernel resolves, and the right prediction."""
    mean = 100 * x[:, 0]
    return mean + np.random.default_rng(2).normal(size=len(x)), fm.Gaussian(mean, 1.0)


def main(folder: Path, *names: str) -> None:
    """Write some pictures, or all."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image

    pictures = {"what_cce_is": lambda: what_cce_is(plt), "why": lambda: why(plt), **gallery(plt)}
    for name in names or pictures:
        figure = pictures[name]()
        drawing = io.BytesIO()
        figure.savefig(drawing, dpi=min(DPI, WIDTH / figure.get_figwidth()))
        plt.close(figure)
        picture = (
            Image.open(drawing)
            .convert("RGB")
            .quantize(PALETTE_SIZE, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        )
        picture.save(folder / f"{name}.png", optimize=True)


if __name__ == "__main__":
    standard = Path(__file__).parents[1] / "docs" / "gallery"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else standard, *sys.argv[2:])
