"""SciPy: its distributions, and its statistics that are measures here."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
from benchmarks.peers.functions.pairs import Pair, regression
from fastmcmd import metrics

PACKAGES: tuple[str, ...] = ()
NO_COUNTERPART = {
    "kstest, cramervonmises": "pit_ecdf has a band and a p-value of the whole curve instead",
    "wasserstein_distance, energy_distance": "of two samples, not of a prediction for each row",
    "spearmanr, kendalltau": "no rank correlation here; concordance_index is in the table of survival",
}


def families(rng, n):
    """Return ours, SciPy's, and outcomes by name of the family."""
    from scipy import stats

    def uniform(low, high):
        return rng.uniform(low, high, n)

    normal, positive = rng.normal(size=n), rng.gamma(2.0, 1.0, n)
    loc, scale, shape = uniform(-1, 1), uniform(0.5, 2), uniform(1, 5)
    mean, p = uniform(1, 12), uniform(0.2, 0.8)
    low = uniform(-2, 0)
    return {
        "norm": (lambda: fm.Gaussian(loc, scale), lambda: stats.norm(loc, scale), normal),
        "laplace": (lambda: fm.Laplace(loc, scale), lambda: stats.laplace(loc, scale), normal),
        "logistic": (lambda: fm.Logistic(loc, scale), lambda: stats.logistic(loc, scale), normal),
        "t": (
            lambda: fm.StudentT(shape + 2, loc, scale),
            lambda: stats.t(shape + 2, loc, scale),
            normal,
        ),
        "expon": (
            lambda: fm.Exponential(1 / scale),
            lambda: stats.expon(scale=scale),
            positive,
        ),
        "gamma": (
            lambda: fm.Gamma(shape, 1 / scale),
            lambda: stats.gamma(shape, scale=scale),
            positive,
        ),
        "lognorm": (
            lambda: fm.LogNormal(loc, scale),
            lambda: stats.lognorm(scale, scale=np.exp(loc)),
            positive,
        ),
        "weibull_min": (
            lambda: fm.Weibull(shape, scale),
            lambda: stats.weibull_min(shape, scale=scale),
            positive,
        ),
        "beta": (
            lambda: fm.Beta(shape, shape + 1),
            lambda: stats.beta(shape, shape + 1),
            uniform(0.01, 0.99),
        ),
        "genpareto": (
            lambda: fm.GeneralizedPareto(shape / 20, scale),
            lambda: stats.genpareto(shape / 20, scale=scale),
            positive,
        ),
        "uniform": (
            lambda: fm.Uniform(low, low + scale),
            lambda: stats.uniform(low, scale),
            low + scale * rng.random(n),
        ),
        "poisson": (
            lambda: fm.Poisson(mean),
            lambda: stats.poisson(mean),
            rng.poisson(mean).astype(float),
        ),
        "nbinom": (
            lambda: fm.NegativeBinomial(mean, 1 / shape),
            lambda: stats.nbinom(shape, shape / (shape + mean)),
            rng.poisson(mean).astype(float),
        ),
        "binom": (
            lambda: fm.Binomial(20, p),
            lambda: stats.binom(20, p),
            rng.binomial(20, p).astype(float),
        ),
    }


def pairs(rng, n):
    """Return pairs by name."""
    from scipy import stats

    table = {}
    for name, (ours, theirs, y) in families(rng, n).items():
        density = "logpmf" if name in ("poisson", "nbinom", "binom") else "logpdf"
        table[f"{name}.{density}"] = Pair(
            lambda ours=ours, y=y: ours().log_prob(y),
            lambda theirs=theirs, y=y, density=density: getattr(theirs(), density)(y),
            atol=1e-9,
        )
        for method, same, argument in (
            ("cdf", "cdf", y), ("sf", "sf", y), ("quantile", "ppf", 0.8), ("mean", "mean", None),
            ("std", "std", None),
        ):  # fmt: skip

            def one(ours=ours, method=method, argument=argument):
                prediction = ours()
                return (
                    getattr(prediction, method)
                    if argument is None
                    else getattr(prediction, method)(argument)
                )

            def other(theirs=theirs, same=same, argument=argument):
                return getattr(theirs(), same)(*([] if argument is None else [argument]))

            table[f"{name}.{same}"] = Pair(one, other, rtol=1e-8, atol=1e-12)
        table[f"{name}.rvs"] = Pair(
            lambda ours=ours: ours().sample(1, 0),
            lambda theirs=theirs, n=n: theirs().rvs(size=(1, n), random_state=0),
            rtol=None,
            note="random",
        )
    y, mean, std = regression(rng, n)
    p = rng.dirichlet(np.ones(10), n)
    members = mean[:, None] + std[:, None] * rng.normal(size=(n, 20))
    times, event = rng.exponential(size=n), rng.random(n) < 0.7
    table |= {
        "pearsonr": Pair(
            lambda: metrics.pearson(y, mean), lambda: stats.pearsonr(y, mean).statistic
        ),
        "entropy": Pair(
            lambda: fm.classification.entropy(p), lambda: stats.entropy(p, axis=1), rtol=1e-9
        ),
        "variation of std": Pair(
            lambda: metrics.variance_variation(y, (mean, std)), lambda: stats.variation(std, ddof=1)
        ),
        "gaussian_kde.logpdf of each row": Pair(
            lambda: metrics.ensemble_log_score(y[:200], members[:200]),
            lambda: [
                -stats.gaussian_kde(row, "silverman").logpdf(v)[0]
                for row, v in zip(members[:200], y[:200], strict=True)
            ],
            rtol=None,
            note="another bandwidth",
            largest=1_000,
        ),
        "ecdf of censored data": Pair(
            lambda: metrics.kaplan_meier(times, event),
            lambda: stats.ecdf(stats.CensoredData(uncensored=times[event], right=times[~event])).sf,
            value=lambda v: v[1][-5:] if isinstance(v, tuple) else v.probabilities[-5:],
            rtol=None,
        ),
    }
    return table
