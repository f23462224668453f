"""The order of four models by CCE under other kernels, regularisers, draws and smaller samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, added, null_cce, published_cce, verdict
from examples.papers.conflation import HEADS, WRONG, models_of_the_test_rows
from examples.papers.pictures import STYLES, axes_of, plain_logarithms, save

_RIGHT = [name for name in HEADS if name not in WRONG]
_LAMS = (1e-3, 1e-2, 0.1, 1.0)
_GAMMAS = (0.05, 0.5, 1.0, 5.0)
_KERNELS: dict[str, fm.kernels.Kernel] = {
    "RBF": fm.RBF(0.5), "Laplacian": fm.Laplacian(1.0), "Matern": fm.Matern(1.5, 1.0),
}  # fmt: skip
_DRAWS = (1, 2, 3, 4, 5)
_ROWS = (25, 50, 75, 100)  # of figure 6

_Options = dict[str, Any]  # arguments of `cce`
Cces = dict[str, list[float]]  # of each head, one for each setting


def _by_setting(
    data: fm.datasets.Simulated, models: dict[str, fm.Predictive], options: list[_Options]
) -> Cces:
    """Return the mean CCE of each head under each setting."""
    return {
        name: [float(published_cce(data.x, data.y, model, **one).mean) for one in options]
        for name, model in models.items()
    }


def _by_chance(
    data: fm.datasets.Simulated,
    models: dict[str, fm.Predictive],
    options: list[_Options],
    settings: tuple[object, ...],
) -> str:
    """Return for each setting the largest CCE of the other heads by chance, and what the test rejects."""
    null = [max(null_cce(data, models[name], 2, **one) for name in _RIGHT) for one in options]
    rejected = {name: 0 for name in models}
    for one in options:
        kernels = {"x_kernel": fm.RBF(0.5), "lam": 0.1} | one
        for name, model in models.items():
            test = fm.congruence_test(data.x, data.y, model, **kernels, simulations=99, alpha=0.05)
            rejected[name] += test.p_value < 0.05
    return (
        "by chance, largest of the others: "
        + "; ".join(f"{label}: {value:.3f}" for label, value in zip(settings, null, strict=True))
        + "; settings in which the test rejects: "
        + ", ".join(f"{name} {count} of {len(options)}" for name, count in rejected.items())
    )


def _ordered(cce: Cces) -> np.ndarray:
    """Return whether both wrong heads are above both others, for each setting."""
    return np.min([cce[name] for name in WRONG], 0) > np.max([cce[name] for name in _RIGHT], 0)


def _listed(cce: Cces, settings: tuple[object, ...]) -> str:
    """Return for each setting the least CCE of a wrong head and the largest of the others."""
    wrong, right = np.min([cce[one] for one in WRONG], 0), np.max([cce[one] for one in _RIGHT], 0)
    return "; ".join(
        f"{setting}: {high:.3f} against {low:.3f}"
        for setting, high, low in zip(settings, wrong, right, strict=True)
    )


def _share(seeds: int, ordered: Callable[[int], bool]) -> np.ndarray:
    return np.array([ordered(seed) for seed in range(seeds)])


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figures 6 and 8 to 12 for the networks of figure 2."""
    data, models = models_of_the_test_rows(0)
    of_lam: list[_Options] = [{"lam": lam} for lam in _LAMS]
    of_gamma: list[_Options] = [{"x_kernel": fm.RBF(gamma)} for gamma in _GAMMAS]
    of_kernel: list[_Options] = [{"x_kernel": one} for one in _KERNELS.values()]
    lams, gammas, kernels = (
        _by_setting(data, models, one) for one in (of_lam, of_gamma, of_kernel)
    )

    def with_draws(count: int) -> list[Cces]:
        return [
            _by_setting(data, models, [{"draws": count, "random_state": seed}])
            for seed in range(seeds)
        ]

    def smaller(count: int, seed: int) -> Cces:
        rows = np.random.default_rng(seed).choice(len(data.y), count, replace=False)
        part = fm.datasets.Simulated(data.x[rows], data.y[rows], data.truth.take(rows))
        return _by_setting(part, {name: one.take(rows) for name, one in models.items()}, [{}])

    by_draws = {count: with_draws(count) for count in _DRAWS}
    in_order = {
        count: np.ravel([_ordered(one) for one in repetitions])
        for count, repetitions in by_draws.items()
    }
    of_subsets = {
        count: np.ravel([_ordered(smaller(count, seed)) for seed in range(seeds)])
        for count in _ROWS
    }
    if picture is not None:
        _draw(
            picture,
            {"lam": (_LAMS, lams), "gamma of the inputs' kernel": (_GAMMAS, gammas)},
            by_draws,
        )
    return [
        Claim(
            "The order of the heads does not depend on the regulariser lam",
            f"least of the wrong heads against largest of the others: {_listed(lams, _LAMS)}",
            _by_chance(data, models, of_lam, _LAMS), verdict(_ordered(lams)),
        ),
        Claim(
            "Nor on the parameter gamma of the inputs' kernel (1 in figures 8 and 9)",
            _listed(gammas, _GAMMAS), _by_chance(data, models, of_gamma, _GAMMAS),
            verdict(_ordered(gammas)),
        ),
        Claim(
            "Nor on the kind of that kernel",
            _listed(kernels, tuple(_KERNELS)),
            _by_chance(data, models, of_kernel, tuple(_KERNELS)), verdict(_ordered(kernels)),
        ),
        Claim(
            "Nor on the number of draws from each prediction, 1 to 5",
            "Poisson and negative binomial above the others: " + "; ".join(
                f"{count} {'draw' if count == 1 else 'draws'} {one.mean():.0%}"
                for count, one in in_order.items()
            ),
            "", verdict(*in_order.values()),
        ),
        Claim(
            f"100 of the {len(data.y)} rows give the same order (figure 6)",
            "Poisson and negative binomial above the others: " + "; ".join(f"{count} rows "
                f"{one.mean():.0%}" for count, one in of_subsets.items()),
            "", verdict(of_subsets[100]),
        ),
        added(data.x, data.y, models["negative binomial"], "negative binomial"),
    ]  # fmt: skip


def _draw(
    path: Path, swept: dict[str, tuple[tuple[float, ...], Cces]], by_draws: dict[int, list[Cces]]
) -> None:
    figure, panels = axes_of(3)
    styles = dict(zip(HEADS, STYLES, strict=False))
    for panel, (label, (settings, cce)) in zip(panels, swept.items(), strict=False):
        for name in HEADS:
            panel.plot(settings, cce[name], marker="o", label=name, **styles[name])
        panel.set(xlabel=label)
        plain_logarithms(panel)
    for name in HEADS:
        values = np.array(
            [[one[name][0] for one in repetitions] for repetitions in by_draws.values()]
        )
        panels[2].plot(_DRAWS, values.mean(axis=1), marker="o", label=name, **styles[name])
        panels[2].fill_between(
            _DRAWS,
            values.min(axis=1),
            values.max(axis=1),
            alpha=0.2,
            lw=0,
            color=styles[name]["color"],
        )
    panels[0].set(ylabel="mean CCE")
    panels[2].set(xlabel="draws per prediction", xticks=_DRAWS, ylim=(0, None))
    save(figure, path, {0: "lower left"})


EXPERIMENT = Experiment(
    "settings", "The order of models under other settings",
    "Young et al., arXiv 2405.12412, figures 6 and 8 to 12, on the networks of figure 2", run,
    seeds=10,
)  # fmt: skip
