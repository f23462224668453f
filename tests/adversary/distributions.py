"""Attacks every predicted distribution and every score against mpmath at extreme parameters.

    python tests/adversary/distributions.py --count 5000 --seed 0

prints each violation as the seed of its problem, one line of Python that shows it, what came, what is
right, and the tolerance. ``--only Gamma`` attacks one family, ``--seed S --count 1`` one problem;
``--each`` attacks one family after the other, each for ``--seconds`` at most, so that slow ones leave time.

Tolerances
----------
A value is right if it is that of inputs which differ from those given by a few units of rounding, to a
relative error: the outcome and each parameter are moved by 2^-50 of themselves in mpmath, and what the
true value changes by, doubled, is allowed beside the relative error of `TOLERANCE`. Below 1e-307,
where doubles lose digits, absolute errors of 1e-307 are allowed; so 0 is right only for values that
small. Infinity is right only for values that round to it.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from distribution_oracles import INF, Oracle, Unknown
from distribution_problems import FAMILIES, Problem, outcomes
from mpmath import mp, mpf

import fastmcmd as fm

HUGE = float(np.finfo(np.float64).max)
SMALL = mpf(10) ** -307
CHANGE = mpf(2) ** -50
QUANTILE = mpf(10) ** -12  # relative change of a level, or of its complement, in a quantile
LIMIT = 10  # seconds of CPU time that a problem may take

# Documented: sf and cdf "with all their digits", of SciPy's special functions 1e-11 at the worst; CRPS
# "to about 1e-12 of the mean" for counts, quadrature 1e-10 elsewhere.
TOLERANCE = {
    "cdf": 1e-10,
    "sf": 1e-10,
    "cdf_below": 1e-10,
    "log_prob": 1e-10,
    "crps": 1e-8,
    "mean": 1e-10,
    "variance": 1e-9,
    "std": 1e-9,
}


@dataclass
class Violation:
    """One violation."""

    seed: int
    family: str
    quantity: str
    line: str
    came: Any
    right: Any
    tolerance: Any

    def __str__(self) -> str:
        right = mp.nstr(self.right, 17) if isinstance(self.right, mp.mpf) else self.right
        tolerance = (
            mp.nstr(self.tolerance, 3) if isinstance(self.tolerance, mp.mpf) else self.tolerance
        )
        text = f"came {self.came!r}, right {right}, error allowed {tolerance}"
        return f"seed {self.seed}: {self.line}\n    {text}"


def moved_values(
    problem: Problem, oracle: Oracle, quantity: str, y: float | None, came: float
) -> tuple[Any, Any]:
    """Return the true value, and how much it changes if inputs move by a few units of rounding."""
    numbers = [mpf(v) for v in problem.numbers]
    fixed = {*problem.fixed, *(i for i, v in enumerate(problem.numbers) if abs(v) == np.inf)}
    at = () if y is None else (mpf(y),)
    right = value_of(oracle, quantity, *at)
    if right is None or abs(right) == INF or agrees(quantity, came, right, mpf(0))[0]:
        return right, mpf(0)
    change = mpf(0)
    for i, number in enumerate(numbers):
        if i in fixed:
            continue
        moves = []
        for factor in (1 + CHANGE, 1 - CHANGE):
            other = [*numbers[:i], number * factor, *numbers[i + 1 :]]
            moves.append(difference(value_of(problem.oracle(other), quantity, *at), right))
        change += max(moves)
    if y is not None and not problem.counts and abs(y) != np.inf:
        for sign in (1, -1):
            other = value_of(oracle, quantity, at[0] + sign * max(abs(at[0]) * CHANGE, mpf(5e-324)))
            if quantity == "log_prob" and abs(other) == INF:
                continue
            change = (
                max(change, difference(other, right))
                if quantity != "crps"
                else change + difference(other, right) / 2
            )
    return right, change


def difference(a: Any, b: Any) -> Any:
    """Return |a - b|, or 0 if one is infinite."""
    return mpf(0) if a is None or abs(a) == INF or abs(b) == INF else abs(a - b)


def value_of(oracle: Oracle, quantity: str, *at: Any) -> Any:
    """Return the answer of an oracle."""
    if quantity == "std":
        variance = oracle.variance()
        return None if variance is None else mp.sqrt(variance)
    return getattr(oracle, quantity)(*at)


def agrees(quantity: str, came: float, right: Any, change: Any) -> tuple[bool, Any]:
    """Return whether a value is right, and the allowed error."""
    if right is None:
        return bool(np.isnan(came)), 0
    if abs(right) == INF:
        return came == float(right), 0
    scale = max(abs(right), mpf(1)) if quantity == "log_prob" else abs(right)
    tolerance = TOLERANCE[quantity] * scale + 2 * change + SMALL
    if np.isnan(came):
        return False, tolerance
    if np.isinf(came):
        return bool(abs(right) + tolerance >= HUGE and (came > 0) == (right > 0)), tolerance
    return abs(mpf(came) - right) <= tolerance, tolerance


def line_of(problem: Problem, quantity: str, y: float | None = None) -> str:
    """Return Python code that shows one value."""
    expression = problem.expression.format(n=1)
    if y is None:
        return f"{expression}.{quantity}"
    text = {np.inf: "np.inf", -np.inf: "-np.inf"}.get(y, repr(y))
    return f"{expression}.{quantity}([{text}])"


def infinite_outcome(quantity: str, y: float, problem: Problem) -> Any:
    """Return the value at an infinite outcome."""
    if quantity == "crps":
        return INF
    if quantity == "log_prob":
        return -INF
    return mpf((y > 0) != (quantity == "sf"))


def attack(seed: int, only: str | None = None) -> Iterator[Violation | str]:
    """Attack one distribution; yield violations, and words to count."""
    rng = np.random.default_rng([seed, 14])
    families = [f for f in FAMILIES if only is None or f.__name__.replace("_", "") == only.lower()]
    problem = families[int(rng.integers(len(families)))](rng)
    ys = outcomes(problem, rng, 5)
    try:
        oracle = problem.oracle([mpf(v) for v in problem.numbers])
    except Unknown:
        yield "skipped"
        return
    try:
        # A name for NumPy in the expressions of infinite ends.
        prediction = eval(problem.expression.format(n=len(ys)), {"fm": fm, "np": np})
    except ValueError as error:
        yield from _refused(seed, problem, str(error))
        return
    names = ["cdf", "sf", "crps"]
    if prediction.discrete or problem.name in ("Draws", "Quantiles", "ZeroInflated", "Mixture"):
        names.append("cdf_below")
    if prediction.has_density:
        names.append("log_prob")
    for quantity in names:
        yield from _values(seed, problem, oracle, prediction, quantity, ys)
    for quantity in ("mean", "variance", "std"):
        yield from _moments(seed, problem, oracle, prediction, quantity)
    yield from _quantiles(seed, problem, oracle, prediction, rng)
    if rng.random() < 0.3:
        yield from _draws(seed, problem, oracle)


def _refused(seed: int, problem: Problem, message: str) -> Iterator[Violation | str]:
    """Accept an error where the package documents it: too many counts, no mass between ends."""
    words = ("mass", "not finite", "overflow", "must increase", "infinity", "too many")
    if any(word in message for word in words):
        yield "refused"
    else:
        yield Violation(
            seed, problem.name, "init", problem.expression.format(n=1), message, "a distribution", 0
        )


def _values(
    seed: int, problem: Problem, oracle: Oracle, prediction: Any, quantity: str, ys: list[float]
) -> Iterator[Violation | str]:
    try:
        came = getattr(prediction, quantity)(np.array(ys))
    except ValueError as error:
        if "too many" in str(error) or "finite" in str(error):
            yield "refused"
            return
        yield Violation(
            seed, problem.name, quantity, line_of(problem, quantity, ys[0]), error, "a value", 0
        )
        return
    for y, value in zip(ys, came, strict=True):
        if quantity == "log_prob" and _narrower_than_rounding(problem, y):
            yield "skipped"
            continue
        try:
            if np.isinf(y):
                right, change = infinite_outcome(quantity, y, problem), mpf(0)
            else:
                right, change = moved_values(problem, oracle, quantity, y, float(value))
        except (Unknown, mp.NoConvergence, ZeroDivisionError, OverflowError, ValueError):
            yield "skipped"
            continue
        good, tolerance = agrees(quantity, float(value), right, change)
        yield quantity
        if not good:
            yield Violation(
                seed,
                problem.name,
                quantity,
                line_of(problem, quantity, y),
                float(value),
                right,
                tolerance,
            )


def _narrower_than_rounding(problem: Problem, y: float) -> bool:
    """Return whether any density at y is acceptable: the peak is narrower than the rounding of y."""
    near = any(abs(y - place) <= 4 * np.spacing(abs(y)) for place in problem.places)
    return near and not problem.counts and problem.width < 4 * np.spacing(abs(y))


def _moments(
    seed: int, problem: Problem, oracle: Oracle, prediction: Any, quantity: str
) -> Iterator[Violation | str]:
    try:
        came = float(getattr(prediction, quantity)[0])
    except ValueError as error:
        yield Violation(
            seed, problem.name, quantity, line_of(problem, quantity), error, "a number", 0
        )
        return
    try:
        right, change = moved_values(problem, oracle, quantity, None, came)
    except (Unknown, mp.NoConvergence, ZeroDivisionError, OverflowError, ValueError):
        yield "skipped"
        return
    if (
        problem.name == "Recalibrated" and quantity == "mean"
    ):  # by quadrature, in standard deviations
        change += mpf(10) ** -13 * problem.width
    if problem.name == "Truncated" and quantity != "mean":  # sums over nodes, each of them a double
        spacing = mpf(float(np.spacing(abs(prediction.mean[0]))))
        change += spacing if quantity == "std" else 2 * mp.sqrt(right) * spacing
    good, tolerance = agrees(quantity, came, right, change)
    yield quantity
    if not good:
        yield Violation(
            seed, problem.name, quantity, line_of(problem, quantity), came, right, tolerance
        )


def _quantiles(
    seed: int, problem: Problem, oracle: Oracle, prediction: Any, rng: Any
) -> Iterator[Violation | str]:
    """The cdf in mpmath on either side of a quantile must enclose the level."""
    levels = [
        float(rng.random()),
        float(10 ** rng.uniform(-300, 0)),
        1 - float(10 ** rng.uniform(-16, -1)),
    ]
    if problem.name == "Draws":
        return  # its quantiles interpolate between draws, as NumPy's do
    for level in levels:
        line = f"{problem.expression.format(n=1)}.quantile({level!r})"
        try:
            came = float(prediction.quantile(level)[0])
        except ValueError as error:
            yield Violation(seed, problem.name, "quantile", line, error, "a value", 0)
            continue
        yield "quantile"
        if np.isnan(came) or (problem.counts and np.isfinite(came) and came % 1):
            right = "a whole number" if problem.counts else "a number"
            yield Violation(seed, problem.name, "quantile", line, came, right, 0)
            continue
        try:
            good = _encloses(oracle, problem, came, level)
        except (Unknown, mp.NoConvergence, ZeroDivisionError, OverflowError, ValueError):
            yield "skipped"
            continue
        if good is not True:
            yield Violation(
                seed, problem.name, "quantile", line, came, f"cdf beside {good}", mp.nstr(QUANTILE)
            )


def _encloses(oracle: Oracle, problem: Problem, came: float, level: float) -> Any:
    """Return whether the quantile is that of the level, moved by `QUANTILE` of itself and its rest."""
    if abs(came) == np.inf:
        edge = mpf(HUGE) if came > 0 else -mpf(HUGE)
        return (oracle.cdf(edge) <= level) if came > 0 else (oracle.cdf(edge) >= level)
    q = mpf(came)
    numbers = [abs(mpf(v)) for v in problem.numbers if abs(v) != np.inf]
    places = [abs(q - mpf(p)) for p in problem.places if abs(p) != np.inf]
    step = abs(q) * CHANGE * 4 + max([*places, mpf(0)]) * mpf(10) ** -14 + mpf(5e-324)
    if problem.name in (
        "Gaussian",
        "Laplace",
        "StudentT",
        "Mixture",
        "Truncated",
        "Rescaled",
        "Recalibrated",
    ):
        step += max(numbers) * CHANGE if abs(q) <= max(numbers) else 0
    if problem.name == "Rescaled":  # of the quantile before, which has its own digits
        step += oracle.scale * abs(oracle._back(q)) * QUANTILE
    below, above = q - step, q + step
    if problem.name in (
        "Gamma",
        "Beta",
        "LogNormal",
        "ZeroInflated",
        "Mixture",
        "Truncated",
        "Rescaled",
    ):
        step += abs(q) * QUANTILE  # SciPy's inverses
        below, above = q - step, q + step
    if oracle.discrete:
        below, above = q - 1 if problem.counts else below, q
    low, high = oracle.cdf(below), oracle.cdf(above)
    slack = mpf(level) * QUANTILE
    tolerance = (1 - mpf(level)) * QUANTILE + mpf(2) ** -52
    slack = min(slack, tolerance) if level > 0.5 else slack
    if oracle.discrete and not problem.counts:
        low = oracle.cdf_below(q)
    if low - slack <= level <= high + slack:
        return True
    return mp.nstr(low, 12), mp.nstr(high, 12)


def _draws(seed: int, problem: Problem, oracle: Oracle) -> Iterator[Violation | str]:
    """Compare Kolmogorov's distance of 1,000 draws: above 3.2 / sqrt(1,000) once in 1e9 runs."""
    count = 1000
    line = f"{problem.expression.format(n=1)}.sample({count}, {seed})"
    one = eval(problem.expression.format(n=1), {"fm": fm, "np": np})
    try:
        draws = np.sort(one.sample(count, seed)[0])
    except ValueError as error:
        yield Violation(seed, problem.name, "sample", line, error, "draws", 0)
        return
    yield "sample"
    if np.isnan(draws).any():
        yield Violation(seed, problem.name, "sample", line, "NaN", "draws", 0)
        return
    limit = 3.2 / np.sqrt(count)
    try:
        worst = _distance(draws, [oracle])
        if worst > limit:  # unless parameters that differ by rounding are as far apart
            numbers = [mpf(v) for v in problem.numbers]
            shifted_oracles = [oracle]
            for i in set(range(len(numbers))) - set(problem.fixed):
                for factor in (1 + CHANGE, 1 - CHANGE):
                    shifted_oracles.append(
                        problem.oracle([*numbers[:i], numbers[i] * factor, *numbers[i + 1 :]])
                    )
            worst = _distance(draws, shifted_oracles)
    except (Unknown, mp.NoConvergence, ZeroDivisionError, OverflowError, ValueError):
        return
    if worst > limit:
        yield Violation(
            seed, problem.name, "sample", line, f"distance {worst:.3f}", "the distribution", 0.1
        )


def _distance(draws: Any, oracles: list[Oracle]) -> float:
    """Return how far draws are from everything between some distributions, at a few draws."""
    worst, count = 0.0, len(draws)
    for i in np.linspace(0, count - 1, 6).astype(int):
        if not np.isfinite(draws[i]):
            continue
        # Between the neighbours: a grid of doubles as coarse as the distribution makes atoms.
        at = max(float(one.cdf(mpf(np.nextafter(draws[i], np.inf)))) for one in oracles)
        below = min(float(one.cdf_below(mpf(np.nextafter(draws[i], -np.inf)))) for one in oracles)
        share = np.searchsorted(draws, draws[i], side="right") / count
        least = np.searchsorted(draws, draws[i], side="left") / count
        worst = max(worst, share - at, below - least)
    return worst


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise TimeoutError if a problem takes longer than `LIMIT`: sums of mpmath may be endless."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(
    count: int,
    seed: int,
    only: str | None = None,
    verbose: bool = False,
    seconds: float = np.inf,
) -> tuple[list[Violation], Counter[str]]:
    """Attack ``count`` distributions; return violations, and how often each check ran."""
    violations: list[Violation] = []
    counts: Counter[str] = Counter()
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in range(seed, seed + count):
            if time.perf_counter() - begin > seconds:
                break
            counts["distributions"] += 1
            try:
                with limited():
                    for result in attack(one, only):
                        if isinstance(result, str):
                            counts[result] += 1
                        else:
                            violations.append(result)
                            if verbose:
                                print(result, flush=True)
            except TimeoutError:
                counts["too slow"] += 1
    return violations, counts


def main() -> int:
    """Run from the command line; the exit status says whether there are violations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="one family, such as zeroinflated")
    parser.add_argument("--each", action="store_true", help="one family after the other")
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so long")
    options = parser.parse_args()
    start = time.perf_counter()
    names = [options.only]
    if options.each:
        names = [family.__name__.replace("_", "") for family in FAMILIES]
    violations, counts = [], Counter()
    for name in names:
        more, new_counts = run(options.count, options.seed, name, True, options.seconds)
        violations, counts = violations + more, counts + new_counts
        if name:
            print(
                f"{name}: {new_counts['distributions']} distributions, {len(more)} violations",
                flush=True,
            )
    kinds = Counter((v.family, v.quantity) for v in violations)
    for (family, quantity), number in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"{number:6d} {family}.{quantity}")
    summary_text = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
    print(f"in {time.perf_counter() - start:.0f} s: {summary_text}")
    print(f"{len(violations)} violations")
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
