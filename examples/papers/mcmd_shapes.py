"""The MCMD grows with the difference between two conditional distributions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, over_seeds, spread, verdict
from examples.papers.pictures import axes_of, save

_N, _M = 1_000, 500


class _Other(NamedTuple):
    """A second sample: its mean is shifted, its standard deviation multiplied."""

    name: str
    shift: float
    factor: float


class _Setting(NamedTuple):
    simulate: object
    models: tuple[_Other, ...]
    line: float  # the last alternative is N(x - line, 1/4)


_SETTINGS = {
    "homoscedastic": _Setting(
        fm.datasets.cosine,
        (
            _Other("same", 0, 1), _Other("narrow", 0, 0.2), _Other("wide", 0, 3),
            _Other("shifted, narrow", -2, 0.2), _Other("shifted, wide", -2, 3),
        ),
        5.0,
    ),
    "heteroscedastic": _Setting(
        fm.datasets.sine,
        (
            _Other("same", 0, 1), _Other("narrow", 0, 0.25), _Other("wide", 0, 2),
            _Other("shifted, narrow", -3, 0.25), _Other("shifted, wide", -3, 2),
        ),
        0.0,
    ),
}  # fmt: skip
_NAMES = [one.name for one in _SETTINGS["homoscedastic"].models] + ["another shape"]


def _samples(setting: _Setting, seed: int) -> tuple[fm.datasets.Simulated, dict[str, tuple]]:
    """Return a sample, and the samples of every alternative."""
    rng = np.random.default_rng(seed + 10_000)
    data = setting.simulate(_N, seed)
    samples = {}
    for place, one in enumerate(setting.models):
        second = setting.simulate(_M, seed + 1_000 * (place + 1))
        mean, std = second.truth.mean, second.truth.std
        samples[one.name] = (second.x, rng.normal(mean + one.shift, one.factor * std))
    x = rng.uniform(data.x.min(), data.x.max(), _M)
    samples["another shape"] = (x, rng.normal(x - setting.line, 0.5))
    return data, samples


def _mcmd(data: fm.datasets.Simulated, other: tuple, grid: np.ndarray) -> np.ndarray:
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(1 / (2 * data.y.var(ddof=1)))}
    return fm.mcmd(grid, data.x, data.y, *other, lam=0.1, **kernels).values


def _grid(data: fm.datasets.Simulated) -> np.ndarray:
    return np.linspace(data.x.min(), data.x.max(), 50)


def _numbers(setting: _Setting, seed: int) -> dict[str, float]:
    data, samples = _samples(setting, seed)
    return {name: float(_mcmd(data, other, _grid(data)).mean()) for name, other in samples.items()}


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of the figures on the homoscedastic and the heteroscedastic example."""
    claims = []
    for kind, setting in _SETTINGS.items():
        runs = over_seeds(lambda seed, setting=setting: _numbers(setting, seed), seeds)
        shifted = np.minimum(runs["shifted, narrow"], runs["shifted, wide"])
        spreads = np.maximum(runs["narrow"], runs["wide"])
        right_order = (
            (runs["same"] < np.minimum(runs["narrow"], runs["wide"]))
            & (spreads < shifted)
            & (runs["same"] < runs["another shape"])
        )  # fmt: skip
        claims.append(
            Claim(
                f"{kind.capitalize()}: least for equal distributions, more for another spread, most for "
                "another mean",
                "; ".join(f"{name} {spread(runs[name])}" for name in _NAMES[1:])
                + f". Orders hold in {int(right_order.sum())} of {seeds} seeds",
                spread(runs["same"]),
                verdict(right_order),
            )
        )
    if picture is not None:
        _draw(picture)
    return claims


def _draw(path: Path) -> None:
    figure, panels = axes_of(len(_NAMES), 2 * len(_SETTINGS))
    for place, setting in enumerate(_SETTINGS.values()):
        data, samples = _samples(setting, 0)
        grid = _grid(data)
        upper, lower = (panels[(2 * place + row) * len(_NAMES) :] for row in range(2))
        for name, top, bottom in zip(_NAMES, upper, lower, strict=False):
            top.scatter(data.x, data.y, s=3)
            top.scatter(*samples[name], s=3)
            top.set(title=name, ylim=(-7, 7))
            values = _mcmd(data, samples[name], grid)
            bottom.plot(grid, values)
            bottom.set(xlabel="x", ylim=(0, 1.5), title=f"mean MCMD {values.mean():.3f}")
        lower[0].set(ylabel="MCMD")
        upper[0].set(ylabel="y")
    save(figure, path)


EXPERIMENT = Experiment(
    "mcmd_shapes", "The MCMD of samples that differ in mean, spread or shape",
    "the code of Young et al., arXiv 2405.12412, after the MCMD of Ren et al., *Conditional Generative "
    "Moment-Matching Networks* (2016)", run, seeds=20,
)  # fmt: skip
