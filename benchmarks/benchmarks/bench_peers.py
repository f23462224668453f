"""Metrics against the fastest alternative, in one process and in turns.

``python benchmarks/benchmarks/bench_peers.py [PATTERN]`` prints the ratios of CPU time, least and median.
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from scipy import special, stats

import fastmcmd as fm
from fastmcmd.predictive.clipped import Clipped

Call = Callable[[], object]
Pair = tuple[Call, Call]
N, ROWS, DRAWS = 1_000_000, 100_000, 100
LEVELS = np.linspace(0.05, 0.95, 19)


def _rng():
    return np.random.default_rng(0)


def _uniform(low, high):
    return _rng().uniform(low, high, N)


def _moments():
    """Return outcomes, means and standard deviations."""
    rng = _rng()
    mean, std = rng.normal(size=N), np.exp(0.5 * rng.normal(size=N))
    return mean + std * rng.normal(size=N), mean, std


def _points(name: str, plain: Callable[[np.ndarray, np.ndarray], float]):
    """Return the case of a measure of point predictions and its plain NumPy form."""

    def case() -> Pair:
        y, mean, _ = _moments()
        return lambda: getattr(fm.metrics, name)(y, mean), lambda: plain(y, mean)

    return case


def _family(ours: str, score: str, family: str, theirs: str, *shapes: np.ndarray):
    """Return the case of a score of a family and scoringrules' function."""

    def case() -> Pair:
        import scoringrules

        values = [_uniform(*ends) for ends in shapes]
        prediction = getattr(fm.predictive, family)(*values)
        y = prediction.sample(1, 1)[:, 0]
        function = getattr(scoringrules, f"{score}_{theirs}")
        return lambda: getattr(fm.metrics, ours)(y, prediction), lambda: function(y, *values)

    return case


_SHAPES = {
    "gaussian": ("Gaussian", "normal", (-2, 2), (0.5, 2)),
    "gamma": ("Gamma", "gamma", (0.5, 5), (0.5, 2)),
    "beta": ("Beta", "beta", (0.5, 5), (0.5, 5)),
    "lognormal": ("LogNormal", "lognormal", (-2, 2), (0.2, 2)),
    "laplace": ("Laplace", "laplace", (-2, 2), (0.5, 2)),
}


def _two_piece(ours: str, score: str, family: str, theirs: str):
    """Return the case of a score of two-piece distributions, which are constructed in the call."""

    def case() -> Pair:
        import scoringrules

        y, loc, lower = _moments()
        upper, make = _uniform(0.5, 2), getattr(fm, family)
        function = getattr(scoringrules, f"{score}_{theirs}")
        return (
            lambda: getattr(fm.metrics, ours)(y, make(loc, lower, upper)),
            lambda: function(y, lower, upper, loc),
        )

    return case


def _exponential_with_mass() -> Pair:
    import scoringrules

    y, mass, scale = np.abs(_moments()[0]), _uniform(0, 0.3), _uniform(0.5, 2)
    return (
        lambda: fm.metrics.crps(y, fm.ZeroInflated(fm.Exponential(scale=scale), mass)),
        lambda: scoringrules.crps_exponentialM(y, mass, 0.0, scale),
    )


def _censored_gamma() -> Pair:
    import scoringrules

    shape, rate, shift = (_uniform(*ends)[:ROWS] for ends in ((0.5, 5), (0.5, 2), (0.1, 1)))
    y = np.maximum(_rng().gamma(shape, 1 / rate) - shift, 0.0)
    low, high = np.zeros(ROWS), np.full(ROWS, np.inf)

    def ours() -> object:
        base = fm.predictive.as_predictive(stats.gamma(shape, -shift, 1 / rate), ROWS)
        return Clipped(base, low, high).crps(y)

    return ours, lambda: scoringrules.crps_csg0(y, shape, rate=rate, shift=shift)


def _plain_r2(y, mean):
    return 1 - ((y - mean) ** 2).sum() / ((y - y.mean()) ** 2).sum()


def _interval() -> Pair:
    import scoringrules

    y, mean, std = _moments()
    prediction, z = fm.Gaussian(mean, std), special.ndtri(0.95)
    return (
        lambda: fm.metrics.interval_score(y, prediction),
        lambda: scoringrules.interval_score(y, mean - z * std, mean + z * std, 0.1),
    )


def _interval_from() -> Pair:
    import scoringrules

    y, mean, std = _moments()
    low, high = mean - std, mean + std
    return (
        lambda: fm.metrics.interval_score_from(y, low, high),
        lambda: scoringrules.interval_score(y, low, high, 0.1),
    )


def _quantiles():
    y = _rng().normal(size=ROWS)
    return y, np.sort(_rng().normal(size=(ROWS, len(LEVELS))), axis=1)


def _crps_of_quantiles() -> Pair:
    import scoringrules

    y, values = _quantiles()
    prediction = fm.predictive.Quantiles(LEVELS, values)
    return (
        lambda: fm.metrics.crps(y, prediction),
        lambda: scoringrules.crps_quantile(y, values, LEVELS),
    )


def _pinball_of_quantiles() -> Pair:
    import scoringrules

    y, values = _quantiles()
    prediction = fm.predictive.Quantiles(LEVELS, values)
    return (
        lambda: fm.metrics.crps(y, prediction, estimator="pinball"),
        lambda: scoringrules.crps_quantile(y, values, LEVELS),
    )


def _draws(dtype: type):
    rng = _rng()
    return rng.normal(size=ROWS).astype(dtype), rng.normal(size=(ROWS, DRAWS)).astype(dtype)


def _pit_of_draws() -> Pair:
    y, draws = _draws(np.float64)
    prediction = fm.Draws(draws)
    return (
        lambda: fm.metrics.pit_values(y, prediction, pit="plain"),
        lambda: (draws <= y[:, None]).mean(axis=1),
    )


def _crps_of_draws(dtype: type):
    def case() -> Pair:
        y, draws = _draws(dtype)
        return lambda: fm.metrics.crps(y, draws), lambda: np.sort(draws, axis=1)

    return case


def netcal_ence(y, mean, std, bins=10):
    """Return ENCE as netcal computes it: bins of equal width, histograms of variances and squares."""
    edges = np.linspace(std.min(), std.max(), bins + 1)
    place = np.clip(np.digitize(std, edges) - 1, 0, bins - 1)
    count = np.maximum(np.bincount(place, minlength=bins), 1)
    rmv = np.sqrt(np.bincount(place, std**2, bins) / count)
    rmse = np.sqrt(np.bincount(place, (y - mean) ** 2, bins) / count)
    some = rmv > 0
    return float((np.abs(rmv - rmse)[some] / rmv[some]).mean())


def _ence() -> Pair:
    y, mean, std = _moments()
    prediction = fm.Gaussian(mean, std)
    return lambda: fm.ence(y, prediction), lambda: netcal_ence(y, mean, std)


def _scikit_learn(ours: str, theirs: str):
    """Return the case of a measure of point predictions and scikit-learn's function."""

    def case() -> Pair:
        from sklearn import metrics

        y, mean, _ = _moments()
        function = getattr(metrics, theirs)
        return lambda: getattr(fm.metrics, ours)(y, mean), lambda: function(y, mean)

    return case


def _properscoring_gaussian() -> Pair:
    import properscoring

    y, mean, std = _moments()
    prediction = fm.Gaussian(mean, std)
    return (
        lambda: fm.metrics.crps(y, prediction),
        lambda: properscoring.crps_gaussian(y, mean, std),
    )


CASES: dict[str, Callable[[], Pair]] = {
    "ence, netcal's form": _ence,
    "pearson, np.corrcoef": _points("pearson", lambda y, m: np.corrcoef(y, m)[0, 1]),
    "r2, NumPy": _points("r2", _plain_r2),
    "rmse, NumPy": _points("rmse", lambda y, m: np.sqrt(np.mean((y - m) ** 2))),
    "bias, NumPy": _points("bias", lambda y, m: np.mean(m - y)),
    "mae, NumPy": _points("mae", lambda y, m: np.mean(np.abs(y - m))),
    **{
        f"log score {name}, scoringrules": _family("log_score", "logs", one[0], *one[1:])
        for name, one in _SHAPES.items()
    },
    **{
        f"crps {name}, scoringrules": _family("crps", "crps", one[0], *one[1:])
        for name, one in _SHAPES.items()
    },
    "r2, scikit-learn": _scikit_learn("r2", "r2_score"),
    "rmse, scikit-learn": _scikit_learn("rmse", "root_mean_squared_error"),
    "crps gaussian, properscoring": _properscoring_gaussian,
    "crps two-piece normal, scoringrules": _two_piece("crps", "crps", "TwoPieceNormal", "2pnormal"),
    "crps two-piece Laplace, scoringrules": _two_piece(
        "crps", "crps", "TwoPieceLaplace", "2pexponential"
    ),
    "log score two-piece normal, scoringrules": _two_piece(
        "log_score", "logs", "TwoPieceNormal", "2pnormal"
    ),
    "crps exponential with a mass, scoringrules": _exponential_with_mass,
    "crps censored shifted gamma, scoringrules": _censored_gamma,
    "interval score, scoringrules": _interval,
    "interval score from ends, scoringrules": _interval_from,
    "crps of quantiles, scoringrules": _crps_of_quantiles,
    "pinball of quantiles, scoringrules": _pinball_of_quantiles,
    "pit of draws, NumPy": _pit_of_draws,
    "crps of draws float64, np.sort": _crps_of_draws(np.float64),
    "crps of draws float32, np.sort": _crps_of_draws(np.float32),
}


def in_turns(
    pair: Pair,
    rounds: int = 9,
    clock: Callable[[], float] = time.process_time,
    pause: float = 0.0,
) -> tuple[list[float], list[float]]:
    """Return seconds of both calls, measured in turns after a first call of each.

    ``clock`` defaults to CPU time; ``pause`` are seconds before each call.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    for call in pair:
        call()
    for turn in range(rounds):
        for index in (0, 1) if turn % 2 == 0 else (1, 0):
            time.sleep(pause)
            start = clock()
            pair[index]()
            seconds[index].append(clock() - start)
    return seconds


class Peers:
    """CPU time on one thread, divided by that of the fastest alternative."""

    params = [list(CASES)]
    param_names = ["case"]
    timeout = 300

    def setup(self, case):
        fm.set_num_threads(1)
        self.pair = CASES[case]()

    def teardown(self, case):
        fm.set_num_threads(None)

    def track_ratio(self, case):
        ours, theirs = in_turns(self.pair)
        return min(ours) / min(theirs)


class TwoThreads:
    """Time of the CRPS of draws on one thread, divided by that on two."""

    params = [["float32", "float64"]]
    param_names = ["dtype"]

    def setup(self, dtype):
        self.y, self.draws = _draws(np.dtype(dtype).type)

    def teardown(self, dtype):
        fm.set_num_threads(None)

    def track_gain(self, dtype):
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(15):
            for threads, calls in seconds.items():
                fm.set_num_threads(threads)
                start = time.perf_counter()
                fm.metrics.crps(self.y, self.draws)
                calls.append(time.perf_counter() - start)
        return statistics.median(seconds[1]) / statistics.median(seconds[2])


def main() -> None:
    """Print least times and ratios of the cases whose names match."""
    fm.set_num_threads(1)
    pattern = sys.argv[1] if len(sys.argv) > 1 else "."
    for name, case in CASES.items():
        if re.search(pattern, name):
            ours, theirs = in_turns(case())
            ratios = min(ours) / min(theirs), statistics.median(ours) / statistics.median(theirs)
            print(f"{name:42s} {1e3 * min(ours):8.2f} {1e3 * min(theirs):8.2f} ms"
                  f"  least {ratios[0]:5.2f}  median {ratios[1]:5.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
