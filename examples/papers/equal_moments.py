"""Right predictions of counts: the plain calibration error blames them, the CCE does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    added,
    mean_cce,
    null_cce,
    over_seeds,
    spread,
    verdict,
)
from examples.papers.pictures import axes_of, diagonal, save

_N = 2_000
_FAMILIES = ("gaussian", "poisson", "negative binomial")
_EPSILON = 0.1
_COUNTS = _FAMILIES[1:]


def _numbers(seed: int) -> dict[str, float]:
    numbers = {}
    for family in _FAMILIES:
        data = fm.datasets.equal_moments(family, _N, seed)
        numbers[f"plain {family}"] = fm.regression_ece(data.y, data.truth, pit="plain")
        numbers[f"randomised {family}"] = fm.regression_ece(data.y, data.truth, random_state=seed)
        numbers[f"cce {family}"] = mean_cce(data, data.truth)
        numbers[f"null {family}"] = null_cce(data, data.truth, seed)
        test = fm.congruence_test(data.x, data.y, data.truth, random_state=seed)
        numbers[f"p {family}"] = test.p_value
    x = fm.datasets.equal_moments("negative binomial", _N, seed).x
    for name, count, p in (
        ("x^2 / eps", x**2 / _EPSILON, x / (x + _EPSILON)),
        ("x / eps", x / _EPSILON, x / (x + _EPSILON)),
        ("x / eps, constant p", x / _EPSILON, 1 / (1 + _EPSILON)),
    ):
        mean = np.ceil(count) * (1 - p) / p
        numbers[f"mean of {name}"] = float(np.max(np.abs(mean / x - 1)))
    return numbers


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figure 13."""
    runs = over_seeds(_numbers, seeds)
    if picture is not None:
        _draw(picture)
    data = fm.datasets.equal_moments("poisson", 500, 0)

    def figures(name: str, families: tuple[str, ...] = _FAMILIES) -> str:
        return "; ".join(f"{family} {spread(runs[f'{name} {family}'])}" for family in families)

    plain = np.stack([runs[f"plain {family}"] for family in _COUNTS])
    randomised = np.stack([runs[f"randomised {family}"] for family in _FAMILIES])
    rejected = np.stack([runs[f"p {family}"] < 0.05 for family in _FAMILIES])
    return [
        Claim(
            "The ECE of the plain probability integral transform (PIT) blames right models of counts",
            figures("plain", _COUNTS),
            f"gaussian {spread(runs['plain gaussian'])}",
            verdict(plain > 2 * runs["plain gaussian"]),
        ),
        Claim(
            "With the randomised PIT, the ECE is near 0 for all three families (not in the paper)",
            figures("randomised"),
            "",
            verdict(randomised < 0.03),
        ),
        Claim(
            "CCE is as small for counts as for continuous outcomes",
            f"{figures('cce')}; the test rejects {rejected.sum()} of {rejected.size} of these right models",
            "by chance: " + figures("null"),
            verdict(rejected.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / seeds)),  # families share x
        ),
        Claim(
            "The negative binomial with n = ceil(x^2 / eps), eps = 0.1, has the mean x (it is no misprint "
            "for x / eps)",
            f"with p = x / (x + eps), as in the published code, the largest relative error of the mean is "
            f"{spread(runs['mean of x^2 / eps'])}, from rounding up",
            f"with n = ceil(x / eps) and that p: {spread(runs['mean of x / eps'])}; that n would need "
            f"p = 1 / (1 + eps), with the variance 1.1 x: {spread(runs['mean of x / eps, constant p'])}",
            verdict(runs["mean of x^2 / eps"] < 0.1, runs["mean of x / eps"] > 0.5),
        ),
        added(data.x, data.y, fm.Poisson(1.5 * data.x), "overestimating Poisson"),
    ]


def _draw(path: Path) -> None:
    figure, panels = axes_of(3)
    for panel, family in zip(panels, _FAMILIES, strict=True):
        data = fm.datasets.equal_moments(family, _N, 0)
        for pit in ("plain", "randomized"):
            curve = fm.metrics.reliability_curve(data.y, data.truth, pit=pit, random_state=0)
            panel.plot(curve.expected, curve.observed, label=f"{pit} PIT")
        diagonal(panel)
        panel.set(title=family, xlabel="predicted probability", ylabel="observed frequency")
    save(figure, path)


EXPERIMENT = Experiment(
    "equal_moments", "Counts: calibration needs a randomised transform, CCE does not",
    "Young et al., arXiv 2405.12412, figure 13. The published code rounds the n of the negative binomial; "
    "here it is exact, so that the moments are", run,
    about=(
        "Outcomes from a Gaussian, a Poisson and a negative binomial distribution with the same mean "
        "and (nearly) the same variance at each x, 2,000 rows. Every model here is the truth. A right "
        "model should lie on the diagonal. With the plain transform, the two models of counts do not; "
        "with the randomised one they do."
    ),
)  # fmt: skip
