"""Clicks predicted from tokens, when tokens are replaced at random: the true probabilities are known."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

import fastmcmd as fm
from examples.papers.claims import Claim, Experiment, over_seeds, per_name, spread, verdict
from examples.papers.classifiers import METHODS, Classifiers
from examples.papers.pictures import STYLES, axes_of, save

TRIALS = 3
NOISE = (0.0, 0.2, 0.4, 0.6, 0.8)
_TRAINING, _SECOND, _TEST, _TESTED = 4_000, 1_000, 4_000, 1_000
_KERNEL = fm.RBF(0.25)  # of one-hot tokens: a factor exp(-1/2) for each token that differs


def one_hot(tokens: np.ndarray) -> np.ndarray:
    """Return tokens (n, 6) as indicators (n, 120)."""
    return np.eye(20)[tokens.astype(np.int64)].reshape(len(tokens), -1)


def training_rows(trial: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and labels that the networks of a trial are trained on."""
    data = fm.datasets.tokens(_TRAINING, 0.0, trial)
    return one_hot(data.x), data.y


def _classifiers(trial: int) -> Classifiers:
    second = fm.datasets.tokens(_SECOND, 0.0, 1_000 + trial)
    return Classifiers("tokens", trial, (one_hot(second.x), second.y.astype(np.int64)))


def _test_of(x: np.ndarray, labels: np.ndarray, p: np.ndarray) -> fm.CongruenceTest:
    rows = np.arange(_TESTED)
    return fm.congruence_test(
        x[rows], labels[rows], fm.Categorical(p[rows]), _KERNEL, fm.Delta(), simulations=99
    )


def _numbers(trial: int) -> dict[str, float]:
    models, numbers = _classifiers(trial), {}
    for noise in NOISE:
        data = fm.datasets.tokens(_TEST, noise, 2_000 + trial)
        x, labels = one_hot(data.x), data.y.astype(np.int64)
        predicted = {one: models.probabilities(one, x) for one in METHODS}
        for name, p in (predicted | {"truth": data.truth.probs}).items():
            terms = fm.classification.brier_decomposition(labels, p)
            numbers[f"{noise} {name} Brier"] = terms.score
            numbers[f"{noise} {name} ECE"] = fm.classification.ece(labels, p, bins=10)
            numbers[f"{noise} {name} NLL"] = fm.classification.nll(labels, p)
            if name in ("vanilla", "ensemble", "truth"):
                test = _test_of(x, labels, p)
                numbers |= {
                    f"{noise} {name} CCE": test.cce, f"{noise} {name} null": test.null_cce,
                    f"{noise} {name} p": test.p_value,
                }  # fmt: skip
    return numbers


@lru_cache(maxsize=2)
def _values(seeds: int) -> dict[str, np.ndarray]:
    return over_seeds(_numbers, min(seeds, TRIALS))


def run(seeds: int, picture: Path | None = None) -> list[Claim]:
    """Return the claims about tokens."""
    values = _values(seeds)
    if picture is not None:
        _draw(picture, values)

    def at(noise: float, measure: str) -> dict[str, np.ndarray]:
        return {one: values[f"{noise} {one} {measure}"] for one in METHODS}

    low, high = NOISE[0], NOISE[-2]
    truth = {noise: spread(values[f"{noise} truth Brier"]) for noise in (low, high)}
    brier, ece, plain = at(high, "Brier"), at(high, "ECE"), at(low, "ECE")
    best = min(brier, key=lambda name: brier[name].mean())
    rejected = {
        name: [np.mean(values[f"{noise} {name} p"] < 0.05) for noise in NOISE]
        for name in ("vanilla", "ensemble", "truth")
    }

    def shares(name: str) -> str:
        return ", ".join(f"{one:.0%}" for one in rejected[name])

    return [
        Claim(
            "Brier score and calibration get worse with the noise, for every method",
            f"Brier score at noise {high}: {per_name(METHODS, brier)}; ECE: {per_name(METHODS, ece)}",
            f"Brier score of the truth {truth[high]}, without noise {truth[low]}; ECE of the methods "
            "without "
            f"noise: {per_name(METHODS, plain)}",
            verdict(*(
                (brier[one] > at(low, "Brier")[one]) & (ece[one] > plain[one]) for one in METHODS
            )),
        ),
        Claim(
            "Part of the loss is the task's: the true probabilities given noisy tokens have a larger Brier "
            "score, too (not in the paper)",
            f"up to noise {high} the Brier score of the truth rises by "
            f"{_share(values, low, high).mean():.0%} of what that of the vanilla network does",
            "", verdict(_share(values, low, high) > 0.1),
        ),
        Claim(
            "Temperature scaling on clean data is not enough",
            f"ECE {spread(ece['temperature'])} at noise {high}", f"{spread(plain['temperature'])} without",
            verdict(ece["temperature"] > 3 * plain["temperature"]),
        ),
        Claim(
            "Ensembles are best under shift",
            f"least Brier score at noise {high}: {best} {spread(brier[best])}; "
            f"ensemble {spread(brier['ensemble'])}", f"truth {truth[high]}",
            verdict(brier["ensemble"] == np.min(list(brier.values()), axis=0)),
        ),
        Claim(
            "The exact test rejects the networks under shift, and not the truth (not in the paper)",
            f"p < 0.05 at noise {', '.join(map(str, NOISE))}: vanilla {shares('vanilla')}; ensemble "
            f"{shares('ensemble')}; CCE of the vanilla network at {high} "
            f"{spread(values[f'{high} vanilla CCE'])}, by "
            f"chance {spread(values[f'{high} vanilla null'])}",
            f"truth {shares('truth')}; CCE {spread(values[f'{high} truth CCE'])}",
            verdict(
                *(
                    values[f"{noise} {name} p"] < 0.05
                    for name in ("vanilla", "ensemble") for noise in NOISE[1:]
                ),
                np.mean(rejected["truth"]) <= 0.2,
            ),
        ),
        _mended(),
    ]  # fmt: skip


def _share(values: dict[str, np.ndarray], low: float, high: float) -> np.ndarray:
    """Return the rise of the Brier score of the truth as a share of that of the vanilla network."""
    truth, vanilla = (
        values[f"{high} {name} Brier"] - values[f"{low} {name} Brier"]
        for name in ("truth", "vanilla")
    )
    return truth / vanilla


def _mended() -> Claim:
    noise = NOISE[-2]
    models = _classifiers(0)
    second, test = (fm.datasets.tokens(_SECOND, noise, seed) for seed in (3_000, 3_001))
    p, again = (models.probabilities("vanilla", one_hot(part.x)) for part in (second, test))
    labels = test.y.astype(np.int64)
    scaling = fm.recalibration.TemperatureScaling().fit(np.log(p), second.y.astype(np.int64))
    platt = fm.recalibration.PlattScaling().fit(p[:, 1], second.y)
    after = {
        "temperature": scaling.transform(np.log(again)),
        "Platt": np.asarray(platt.transform(again[:, 1])),
    }
    after["Platt"] = np.stack([1 - after["Platt"], after["Platt"]], axis=1)
    tests = {
        name: _test_of(one_hot(test.x), labels, one)
        for name, one in ({"before": again} | after).items()
    }
    rows = np.arange(_TESTED)
    result = fm.verdict(
        one_hot(test.x)[rows], labels[rows], fm.Categorical(again[rows]),
        {"predicted probability of a click": again[rows, 1]}, test=tests["before"],
    )  # fmt: skip
    confident = again[:, 1] > 0.5
    return Claim(
        "With fastmcmd: verdict, diagnosis and mended model (vanilla network at noise "
        f"{noise}; Platt scaling fitted on {_SECOND} labelled rows)",
        f"“{result.sentence}” Where it predicts clicks (probability above 1/2), the mean prediction is "
        f"{again[confident, 1].mean():.2f} and the share of clicks {labels[confident].mean():.2f}. "
        + "; ".join(f"{name}: CCE {one.cce:.3f} (p {one.p_value:.3f})" for name, one in tests.items())
        + ". A temperature alone draws probabilities to 1/2, away from the share of clicks, "
        f"{test.y.mean():.2f}",
        "by chance: " + "; ".join(f"{name} {one.null_cce:.3f}" for name, one in tests.items()),
        verdict(
            result.wrong, tests["before"].p_value < 0.05, tests["Platt"].p_value > 0.05,
            tests["Platt"].cce < tests["before"].cce,
        ),
    )  # fmt: skip


def _draw(path: Path, values: dict[str, np.ndarray]) -> None:
    figure, panels = axes_of(3)
    for method, style in zip(METHODS, STYLES, strict=True):
        for panel, measure in zip(panels, ("Brier", "ECE"), strict=False):
            means = [values[f"{noise} {method} {measure}"].mean() for noise in NOISE]
            panel.plot(NOISE, means, marker="o", markersize=4, label=method, **style)
    for panel, measure in zip(panels, ("Brier", "ECE"), strict=False):
        means = [values[f"{noise} truth {measure}"].mean() for noise in NOISE]
        panel.plot(NOISE, means, color="0.2", lw=2, label="truth")
        panel.set(ylabel=f"{measure} score" if measure == "Brier" else measure)
    for name, style in zip(("vanilla", "ensemble", "truth"), STYLES, strict=False):
        for part, dash in (("CCE", "-"), ("null", ":")):
            means = [values[f"{noise} {name} {part}"].mean() for noise in NOISE]
            label = name if part == "CCE" else f"{name}, by chance"
            panels[2].plot(
                NOISE, means, dash, marker="o", markersize=4, color=style["color"], label=label
            )
    panels[2].set(ylabel="CCE", ylim=(0, None))
    for panel in panels:
        panel.set(xlabel="share of replaced tokens")
    save(figure, path, {0: "upper left", 2: "lower left"})


EXPERIMENT = Experiment(
    "shifted_tokens", "Clicks from tokens, with tokens replaced at random",
    "Ovadia et al., arXiv 1906.02530, section 4.4 in kind (there: Criteo's advertisements); simulated "
    "tokens, so that the truth is known at every noise", run, seeds=TRIALS,
    about=(
        "Six tokens determine the probability that an advertisement is clicked. Then tokens are "
        "replaced at random, with a share that grows from left to right. The data are simulated, so the "
        "true probability of a click given the noisy tokens is known (\"truth\", black): no model has a "
        "smaller Brier score in the long run. The methods are those of the previous experiment. Right: "
        "the CCE should be near its value by chance (dotted), and of the three models drawn it is so "
        "for the truth only."
    ),
)  # fmt: skip
