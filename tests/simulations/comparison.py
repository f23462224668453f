"""Error rates of `fastmcmd.compare`, by simulation.

    python tests/simulations/comparison.py --repeats 1000 --n 300

Equally wrong models (bias +0.1 and -0.1 around sin(2 x)) must seldom be called different; intervals of the
difference of mean squared CCE must hold its expectation given x; of several equal models the share of runs
with any difference must not exceed the level. The figures in docs/comparing.md come from the command
above. ``--scores``: paired intervals of the CRPS and the log score, and model confidence sets. With
``--blocks`` the differences come from sums over blocks of rows, as those of Dask collections.
"""

from __future__ import annotations

import argparse

import numpy as np

import fastmcmd as fm
from fastmcmd.estimate.samples import problem_of
from fastmcmd.inference.chance import Chance
from fastmcmd.inference.comparison import congruence_losses, holm, model_confidence_set, paired

STD, LAM = 0.3, 0.01
X_KERNEL, Y_KERNEL = fm.RBF(2.0), fm.RBF(4.0)


def _inner(mean, std, other_mean, other_std):
    spread = 1 + 8 * (std**2 + other_std**2)
    return np.exp(-4 * (mean[:, None] - other_mean) ** 2 / spread) / np.sqrt(spread)


def _chances(x, y, models):
    """Return the samples of each model; the comparison needs no CCE."""
    problem = problem_of(
        np.asarray(x, dtype=float).reshape(len(y), -1), y, models.values(), X_KERNEL, Y_KERNEL, LAM,
        None, None, None, fm.ConditionalCongruence().options(),
    )  # fmt: skip
    nature = problem.nature
    return [Chance(nature, one, *problem.kernels, nature.x) for one in problem.models]


def misfit(x, truth, model):
    """Return the mean over rows of the smoothed squared misfit of a Gaussian model."""
    n = len(x)
    gram = X_KERNEL(x, x)
    a = np.linalg.solve(gram + n * LAM * np.eye(n), gram)
    both = _inner(*truth, *truth) - 2 * _inner(*truth, *model) + _inner(*model, *model)
    return float((a * (both @ a)).sum() / n)


SETTINGS = {
    "bias +0.1, -0.1": ((0.1, 1.0), (-0.1, 1.0)),
    "right, bias 0.1": ((0.0, 1.0), (0.1, 1.0)),
    "twice too wide, right": ((0.0, 2.0), (0.0, 1.0)),
    "too wide, too narrow": ((0.0, 1.5), (0.0, 0.6)),
    "nearly equal": ((0.0, 1.0), (0.01, 1.0)),
}


def by_blocks(x, y, models, ends=(0, 1, 110, 110, 290)):
    """Return the difference of two models from sums over blocks of rows, in two passes."""
    from fastmcmd.distributed.losses import CongruenceTerms, Pieces

    total = fm.streaming.CCE(X_KERNEL, Y_KERNEL, np.linspace(-2, 2, 30), LAM)
    predictions = list(models.values())
    places = np.split(np.arange(len(y)), [one for one in ends if one < len(y)])
    for rows in places:
        total.update(x[rows], y[rows], {name: one.take(rows) for name, one in models.items()})
    terms = CongruenceTerms.of(
        total, total._state, LAM, Pieces(1, 0), np.random.SeedSequence(0), 8_192
    )
    sums = None
    for number, rows in enumerate(places):
        some = [one.take(rows) for one in predictions]
        part = terms.sums(x[rows, None], y[rows, None], some, None, number)
        sums = part if sums is None else sums + part
    return terms.concluded(sums, list(models), 0.95)["0", "1"]


def two_models(setting="bias +0.1, -0.1", n=300, repeats=1000, seed=0, draws=None, in_blocks=False):
    """Return shares of runs: the difference significant at 5 %, its interval holding the truth."""
    rng = np.random.default_rng(seed)
    called = covered = 0
    for _ in range(repeats):
        x = rng.uniform(-2, 2, n)
        mean = np.sin(2 * x)
        y = mean + STD * rng.normal(size=n)
        parts = [(mean + bias, factor * STD) for bias, factor in SETTINGS[setting]]
        models = {str(place): fm.Gaussian(*one) for place, one in enumerate(parts)}
        if draws is not None:
            models = {name: fm.Draws(one.sample(draws, rng)) for name, one in models.items()}
        if in_blocks:
            result = by_blocks(x, y, models)
        else:
            losses = congruence_losses(_chances(x, y, models))
            result = paired(losses.pair(0, 1), None, 0.95, more_variance=losses.variances.sum())
        truth = misfit(x, (mean, STD), parts[0]) - misfit(x, (mean, STD), parts[1])
        called += result.p_value <= 0.05
        covered += result.low <= truth <= result.high
    return {"called different": called / repeats, "coverage": covered / repeats}


def equally_wrong(n=300, repeats=1000, seed=0):
    """Return `two_models` of equally wrong models."""
    return two_models("bias +0.1, -0.1", n, repeats, seed)


def family(n=300, repeats=1000, seed=0):
    """Return the share of runs in which any of four equally wrong models is called different."""
    rng = np.random.default_rng(seed)
    calls = 0
    for _ in range(repeats):
        half = rng.uniform(-2, 2, (n // 2, 2))
        x = np.concatenate([half, half[:, ::-1]])  # exchanging the columns changes nothing
        y = STD * rng.normal(size=len(x))
        shifts = [0.1 * x[:, 0], -0.1 * x[:, 0], 0.1 * x[:, 1], -0.1 * x[:, 1]]
        models = {str(k): fm.Gaussian(shift, STD) for k, shift in enumerate(shifts)}
        parts = congruence_losses(_chances(x, y, models))
        p = [paired(parts.pair(a, b), None, 0.95).p_value for a in range(4) for b in range(a)]
        calls += holm(np.array(p)).min() <= 0.05
    return calls / repeats


# Noise of mean 0 and variance 1.
NOISES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Poisson": lambda rng, n: (rng.poisson(2, n) - 2) / np.sqrt(2),
    "Student t, 10 degrees": lambda rng, n: rng.standard_t(10, n) / np.sqrt(10 / 8),
    "Student t, 5 degrees": lambda rng, n: rng.standard_t(5, n) / np.sqrt(5 / 3),
    "Laplace": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "lognormal": lambda rng, n: (rng.lognormal(size=n) - np.exp(0.5)) / np.sqrt(np.e * (np.e - 1)),
    "Student t, 3 degrees": lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
    "1 % outliers, 5 times as large": lambda rng, n: (
        rng.normal(size=n) * np.where(rng.random(n) < 0.01, 5, 1) / np.sqrt(1.24)
    ),
}
# Mean and std of two models of the noise, and the share of rows in which they differ.
PAIRS = {
    "too wide, biased": ((0.0, 1.5), (0.3, 1.0), 1.0),
    "too wide, right": ((0.0, 1.5), (0.0, 1.0), 1.0),
    "bias +0.1, -0.1": ((0.1, 1.0), (-0.1, 1.0), 1.0),
    "too wide in a fifth of the rows": ((0.0, 1.5), (0.0, 1.0), 0.2),
}
TRUTH_ROWS = 1_000_000
CLASSES = "two classes, right and twice too steep"


def differences_of(noise, pair, n, rng):
    """Return differences (n,) by score of two models of the noise."""
    if noise == CLASSES:
        score = rng.normal(size=n)
        sign = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * score)), 1, -1)
        losses = [np.logaddexp(0, -sign * steepness * score) for steepness in (2, 4)]
        return {"log score": losses[0] - losses[1]}
    y = NOISES[noise](rng, n)
    *parts, share = PAIRS[pair]
    models = [fm.Gaussian(np.full(n, mean), std) for mean, std in parts]
    some = rng.random(n) < share
    return {
        "CRPS": some * (models[0].crps(y) - models[1].crps(y)),
        "log score": some * (models[1].log_prob(y) - models[0].log_prob(y)),
    }


def truth_of(noise, pair, seed):
    """Return the expected differences by score; that of the log score of Gaussian models is exact."""
    rng = np.random.default_rng([seed, 1])
    truth = {name: d.mean() for name, d in differences_of(noise, pair, TRUTH_ROWS, rng).items()}
    if noise != CLASSES:
        *parts, share = PAIRS[pair]
        first, second = ((1 + mean**2) / (2 * std**2) + np.log(std) for mean, std in parts)
        truth["log score"] = share * (first - second)
    return truth


def paired_scores(noise, pair, n=300, repeats=1000, seed=0):
    """Return error rates of the 95 % intervals of the mean difference of two models.

    Returns
    -------
    dict of float
        Shares of all samples: the t interval of the CRPS and of the log score misses the truth; an
        interval of the log score is printed; it is printed and misses.
    """
    truth, rng = truth_of(noise, pair, seed), np.random.default_rng([seed, 2])
    counts = dict.fromkeys(("CRPS", "log score", "printed", "wrong"), 0)
    for _ in range(repeats):
        for name, d in differences_of(noise, pair, n, rng).items():
            plain = paired(d / n, None, 0.95)
            misses = not plain.low <= truth[name] <= plain.high
            counts[name] += misses
            if name == "log score":
                prints = not paired(d / n, None, 0.95, unbounded=True).reason
                counts["printed"] += prints
                counts["wrong"] += prints and misses
    return {name: count / repeats for name, count in counts.items()}


def confidence_sets(count=4, n=300, apart=0.0, clusters=None, repeats=400, seed=0):
    """Return the shares of runs in which the 95 % set of the best lacks a best model, and its mean size.

    Half of the models are best; the losses of the others are larger by ``apart`` on average.
    """
    rng = np.random.default_rng(seed)
    best = count // 2
    lacking = size = 0
    for run in range(repeats):
        losses = rng.exponential(size=(n, 1)) + rng.normal(size=(n, count))
        labels = None
        if clusters is not None:
            labels = np.arange(n) // clusters
            losses = losses + rng.normal(size=(labels.max() + 1, count))[labels]
        losses[:, best:] += apart
        p = model_confidence_set(losses, labels, 400, run)
        good = slice(0, best if apart else count)
        lacking += (p[good] < 0.05).any()
        size += (p >= 0.05).sum()
    return lacking / repeats, size / repeats


def print_scores(n, repeats, seed):
    """Print error rates of paired scores and of model confidence sets."""
    print(
        "| noise | models | CRPS misses | t interval of the log score misses | printed "
        "| right if printed | printed and wrong |\n|---|---|---|---|---|---|---|"
    )
    for noise in [*NOISES, CLASSES]:
        for pair in PAIRS if noise in NOISES else [""]:
            rates = paired_scores(noise, pair, n, repeats, seed)
            printed, wrong = rates["printed"], rates["wrong"]
            right = f"{100 * (1 - wrong / printed):.1f} %" if printed else ""
            print(
                f"| {noise} | {pair} | {100 * rates['CRPS']:.1f} % | {100 * rates['log score']:.1f} % "
                f"| {100 * printed:.0f} % | {right} | {100 * wrong:.1f} % |",
                flush=True,
            )
    print("| models | a best one is missing | mean size |\n|---|---|---|")
    for name, case in {
        "4 equal": {},
        "10 equal": {"count": 10},
        "2 best of 4": {"apart": 0.15},
        "4 equal, clusters of 5": {"clusters": 5},
        "4 equal, n = 50": {"n": 50},
    }.items():
        lacking, size = confidence_sets(**{"n": n, **case}, repeats=repeats, seed=seed)
        print(f"| {name} | {100 * lacking:.1f} % | {size:.1f} |", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--blocks", action="store_true")
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.scores:
        print_scores(arguments.n, arguments.repeats, arguments.seed)
        return
    print("| models | called different | coverage |\n|---|---|---|")
    for setting in arguments.setting or SETTINGS:
        for draws in (None, 5):
            rates = two_models(
                setting, arguments.n, arguments.repeats, arguments.seed, draws, arguments.blocks
            )
            name = setting if draws is None else f"{setting}, {draws} draws"
            print(
                f"| {name} | {100 * rates['called different']:.1f} % | {100 * rates['coverage']:.1f} % |",
                flush=True,
            )
    if arguments.blocks:
        return
    print(
        "| four equal, any pair (Holm) | "
        f"{100 * family(arguments.n, arguments.repeats, arguments.seed):.1f} % | |"
    )


if __name__ == "__main__":
    main()
