"""The table of docs/recalibration.md: recalibrators on real and simulated data. Prints Markdown."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd.recalibration import (
    ConditionalRescaling,
    ConformalIntervals,
    IsotonicCDF,
    StdScaling,
    WitnessTilting,
)

Problem = tuple[Any, Any, Any]


def real(name: str) -> Problem:
    """Return x, y and predictions of a simple model for rows outside its training set."""
    rng = np.random.default_rng(0)
    if name == "randhie":
        from fastmcmd import demo

        data = demo.load()
        some = np.random.default_rng(0).permutation(len(data["y"]))[:3000]
        return data["x"][some], data["y"][some], fm.Poisson(data["poisson_mean"][some])
    from sklearn import datasets
    from sklearn.linear_model import Ridge

    data = getattr(datasets, f"load_{name}")()
    columns = np.asarray(data.data, dtype=np.float64)
    target = np.asarray(data.target, dtype=np.float64)
    if name == "breast_cancer":  # the mean area of a cell nucleus from what is not a size
        target, columns = columns[:, 3], columns[:, [1, 4, 5, 6, 7, 8, 9]]
    columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    order = rng.permutation(len(target))
    train, others_order = order[: len(order) // 3], order[len(order) // 3 :]
    model = Ridge(1.0).fit(columns[train], target[train])
    std = np.std(target[train] - model.predict(columns[train]))
    return (
        columns[others_order],
        target[others_order],
        fm.Gaussian(model.predict(columns[others_order]), std),
    )


def simulated(name: str, n: int = 2000) -> Problem:
    """Return x, y and a wrong model."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, n)
    noise = rng.normal(size=n)
    if name == "bias and spread by x":
        model = fm.Gaussian(np.sin(2 * x) + 0.4 * (x > 1), np.where(x < -1, 0.1, 0.2))
        return x, np.sin(2 * x) + 0.2 * noise, model
    if name == "spread and wiggle":
        return x, x + 0.4 * np.sin(4 * x) + (0.25 + 0.12 * np.abs(x)) * noise, fm.Gaussian(x, 0.45)
    if name == "two modes":
        return x, x + 0.8 * rng.choice([-1, 1], n) + 0.35 * noise, fm.Gaussian(x, 0.873)
    return x, x + 0.5 * noise, fm.Gaussian(x, 0.5)  # right


def conditional_coverage(x: Any, low: Any, high: Any, y: Any) -> float:
    """Return the root mean square gap of 90 % intervals' coverage from 0.9 over eight groups of inputs."""
    place = x if x.ndim == 1 else np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[0][:, 0]
    group = np.argsort(np.argsort(place, kind="stable"), kind="stable") * 8 // len(place)
    inside = (low <= y) & (y <= high)
    return float(np.sqrt(np.mean([(inside[group == g].mean() - 0.9) ** 2 for g in range(8)])))


def rows_of(problem: Problem, methods: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Return log score, CRPS and conditional coverage of each method on the second half."""
    x, y, prediction = problem
    order = np.random.default_rng(2).permutation(len(y))
    fit_rows, test = order[: len(y) // 2], order[len(y) // 2 :]
    wrong = prediction.take(test)
    out: dict[str, list[float]] = {}
    for name, make in methods.items():
        try:
            if name == "conformal":
                fitted = make().fit(prediction.take(fit_rows), y[fit_rows])
                low, high = fitted.interval(wrong).T
                scores = [np.nan, np.nan]
            else:
                mended = wrong
                if name != "nothing":
                    mended = (
                        make()
                        .fit(prediction.take(fit_rows), y[fit_rows], x[fit_rows])
                        .transform(wrong, x[test])
                    )
                scores = [fm.nll(y[test], mended), float(mended.crps(y[test]).mean())]
                low, high = mended.quantile(np.array([0.05, 0.95])).T
        except ValueError:
            out[name] = [np.nan] * 3
            continue
        out[name] = [*scores, conditional_coverage(x[test], low, high, y[test])]
    return out


METHODS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "StdScaling": StdScaling,
    "IsotonicCDF": IsotonicCDF,
    "conformal": lambda: ConformalIntervals(0.9, "scaled"),
    "ConditionalRescaling": ConditionalRescaling,
    "WitnessTilting": WitnessTilting,
}


def main(names: list[str]) -> None:
    """Print the rows of the table."""
    print("| data | " + " | ".join(METHODS) + " |")
    print("|---|" + "---|" * len(METHODS))
    for name in names:
        problem = (
            real(name) if name in ("diabetes", "randhie", "breast_cancer") else simulated(name)
        )
        rows = rows_of(problem, METHODS)
        cells = [
            " / ".join("-" if np.isnan(v) else f"{v:.3f}" for v in rows[one]) for one in METHODS
        ]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    every = ["diabetes", "breast_cancer", "randhie", "bias and spread by x", "spread and wiggle"]
    main(sys.argv[1:] or [*every, "two modes", "right"])
