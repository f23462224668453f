"""The order of four models by CCE under other kernels, regularisers, draws and smaller samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastmcmd as fm
from examples.papers.claims import (
    Claim,
    Experiment,
    added,
    null_cce,
    published_cce,
    spread,
    verdict,
)
from examples.papers.conflation import HEADS, TRIALS, WRONG, models_of_the_test_rows
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
Cces = dict[str, np.ndarray]  # of each head: (trials, settings)


def _by_setting(
    data: fm.datasets.Simulated, models: dict[str, fm.Predictive], options: list[_Options]
) -> Cces:
    """Return the mean CCE (1, settings) of each head under each setting."""
    return {
        name: np.array([[published_cce(data.x, data.y, model, **one).mean for one in options]])
        for name, model in models.items()
    }


class _Swept(NamedTuple):
    """CCE of all trials under several settings, by chance, and p-values of the test."""

    cce: Cces
    null: Cces
    p: Cces


def _sweep(trials: int, options: list[_Options]) -> _Swept:
    rows = []
    for trial in range(trials):
        data, models = models_of_the_test_rows(trial)
        null = {
            name: np.array([[null_cce(data, model, 2, **one) for one in options]])
            for name, model in models.items()
        }
        p = {name: np.array([_p_values(data, model, options)]) for name, model in models.items()}
        rows.append((_by_setting(data, models, options), null, p))
    return _Swept(*(
        {name: np.concatenate([one[name] for one in part]) for name in HEADS}
        for part in zip(*rows, strict=True)
    ))  # fmt: skip


def _p_values(
    data: fm.datasets.Simulated, model: fm.Predictive, options: list[_Options]
) -> list[float]:
    published = {"x_kernel": fm.RBF(0.5), "lam": 0.1, "simulations": 99, "alpha": 0.05}
    return [
        fm.congruence_test(data.x, data.y, model, **(published | one)).p_value for one in options
    ]


def _is_ordered(cce: Cces) -> np.ndarray:
    """Return whether both wrong heads are above both others (trials, settings)."""
    return np.min([cce[name] for name in WRONG], 0) > np.max([cce[name] for name in _RIGHT], 0)


def _claim(text: str, settings: tuple[object, ...], swept: _Swept) -> Claim:
    """Return the claim that settings do not change the order."""
    wrong = np.min([swept.cce[one] for one in WRONG], 0)
    right, null = (np.max([part[one] for one in _RIGHT], 0) for part in (swept.cce, swept.null))
    pairs = (
        f"{setting}: {spread(wrong[:, place])} against {spread(right[:, place])}"
        for place, setting in enumerate(settings)
    )
    chance = (f"{setting}: {spread(null[:, place])}" for place, setting in enumerate(settings))
    shares = {name: float(np.mean(one < 0.05)) for name, one in swept.p.items()}
    return Claim(
        text,
        "least of the wrong heads against largest of the others: " + "; ".join(pairs),
        "by chance, largest of the others: " + "; ".join(chance) + "; the test rejects "
        + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()),
        verdict(_is_ordered(swept.cce)),
    )  # fmt: skip


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims of figures 6 and 8 to 12 for the networks of figure 2."""
    trials = min(seeds, TRIALS)
    data, models = models_of_the_test_rows(0)
    lams, gammas, kernels = (
        _sweep(trials, options)
        for options in (
            [{"lam": lam} for lam in _LAMS],
            [{"x_kernel": fm.RBF(gamma)} for gamma in _GAMMAS],
            [{"x_kernel": one} for one in _KERNELS.values()],
        )
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
        count: np.ravel([_is_ordered(one) for one in repetitions])
        for count, repetitions in by_draws.items()
    }
    of_subsets = {
        count: np.ravel([_is_ordered(smaller(count, seed)) for seed in range(seeds)])
        for count in _ROWS
    }
    if picture is not None:
        _draw(
            picture,
            {"lam": (_LAMS, lams.cce), "gamma of the inputs' kernel": (_GAMMAS, gammas.cce)},
            by_draws,
        )
    return [
        _claim("The order of the heads does not depend on the regulariser lam", _LAMS, lams),
        _claim(
            "The order does not depend on gamma of the inputs' kernel (1 in figures 8 and 9)",
            _GAMMAS, gammas,
        ),
        _claim("The order does not depend on the kind of the inputs' kernel", tuple(_KERNELS), kernels),
        Claim(
            "The order does not depend on the number of draws from each prediction, 1 to 5",
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
            panel.plot(settings, cce[name].mean(axis=0), marker="o", label=name, **styles[name])
        panel.set(xlabel=label)
        plain_logarithms(panel)
    for name in HEADS:
        values = np.array(
            [[one[name].item() for one in repetitions] for repetitions in by_draws.values()]
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
    "Young et al., arXiv 2405.12412, figures 6 and 8 to 12, on the networks of figure 2: five for "
    "each head; draws and smaller samples on the first of them", run,
    seeds=10,
    about=(
        "The networks and the 500 test rows of the previous experiment, with the CCE computed under "
        "other settings. Left and centre: mean CCE against the regulariser lam and against gamma of the "
        "inputs' kernel (both axes logarithmic). Right: mean CCE when each prediction is replaced by 1 "
        "to 5 draws; bands show the range over repetitions. Poisson and negative binomial nearly "
        "coincide."
    ),
)  # fmt: skip
