"""Attacks certificates that see only some rows: rare rows, at random places, in large problems.

    python tests/adversary/sampled.py --count 200 --seed 0
    python tests/adversary/sampled.py --count 10 --rows 50000
    python tests/adversary/sampled.py --only 17

Each problem has a bulk in groups far apart, where sharp predictions are nearly right, and few rows unlike
it: isolated gross failures, clusters of near-duplicates, rows of weights up to 1e12, rows far from the
origin. The groups are so far apart that kernel values between them are below 1e-30: the exact answer in a
group is that of a small system, which NumPy solves in float64 with explicit output features (the Taylor
series of the RBF kernel). It shares no code with the package.

Prints violations (seed, what was drawn), and for each solver and kind of certificate how many calls had a
point outside its bound, and the largest and median ratio of error to bound.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fastmcmd as fm

Array = NDArray[np.float64]

GAMMA_Y = 0.5
TERMS = 90  # of the Taylor series: outputs are below 4 in absolute value
GROUP = 700  # rows of a group at most
RARE = ("isolated", "cluster", "heavy", "far", "isolated and heavy", "plain")
METHODS: dict[str, dict[str, Any]] = {
    "lowrank sampled": {"solver": "lowrank", "certificate": "sampled"},
    "lowrank auto": {"solver": "lowrank"},
    "cg sampled": {"solver": "cg", "certificate": "sampled"},
    "cg float32": {"solver": "cg", "certificate": "sampled", "dtype": "float32"},
    "auto": {},
}


@dataclass(frozen=True)
class Problem:
    """Data, settings, and the group of each row."""

    x: Array
    y: Array
    draws: Array
    weights: Array | None
    group: NDArray[np.intp]
    at: Array
    at_group: NDArray[np.intp]
    gamma: float
    lam: float
    tol: float
    method: str
    description: str


def problem(seed: int, rows: int) -> Problem:
    """Return the problem of a seed."""
    rng = np.random.default_rng([seed, rows])
    method = list(METHODS)[rng.integers(len(METHODS))]
    kind = RARE[rng.integers(len(RARE))]
    by_landmarks = method.startswith("lowrank")  # many columns would need as many as there are rows
    d = int(rng.choice([1, 1, 2] if by_landmarks else [1, 2, 3, 8]))
    gamma, lam = float(10 ** rng.uniform(-1, 1)), float(10 ** rng.uniform(-3, 0))
    tol = float(10 ** rng.uniform(-5, -2))
    width = float(10 ** rng.uniform(-0.5, 1.5))  # of a group, in length scales
    far = 12.0 / math.sqrt(gamma) + 2 * width / math.sqrt(gamma) * math.sqrt(d) + 1.0
    groups = -(-rows // GROUP)
    group = np.sort(rng.integers(0, groups, rows))
    centres = np.zeros((groups, d))
    centres[:, 0] = np.arange(groups) * 2 * far
    x = centres[group] + rng.uniform(-1, 1, (rows, d)) * width / math.sqrt(gamma)
    y = np.sin(x[:, 0] - centres[group, 0]) * 0.5 + 0.05 * rng.normal(size=rows)
    noise = float(10 ** rng.uniform(-4, -1))
    draws = y + noise * rng.normal(size=rows)
    weights = None
    order = rng.permutation(rows)
    count = int(rng.integers(1, 21 if kind != "cluster" else 61))
    rare = order[:count]
    if kind in ("isolated", "isolated and heavy"):
        x[rare] = 0.0
        x[rare, 0] = -(2 + np.arange(count)) * 2 * far
        group[rare] = groups + np.arange(count)
        draws[rare] = y[rare] + rng.uniform(0.5, 3, count)
    if kind == "cluster":
        x[rare] = 1e-3 * rng.normal(size=(count, d)) / math.sqrt(gamma)
        x[rare, 0] -= 4 * far
        group[rare] = groups
        draws[rare] = y[rare] + rng.uniform(0.5, 3)
    if kind == "far":
        x[rare] = 1e-2 * rng.normal(size=(count, d)) / math.sqrt(gamma)
        x[rare, 0] -= float(10 ** rng.uniform(2, 4)) * far
        group[rare] = groups
        draws[rare] = y[rare] + rng.uniform(0, 3)
    if "heavy" in kind:
        weights = np.ones(rows)
        weights[rare] = 10 ** rng.uniform(0, 12 if rng.random() < 0.5 else 3, count)
    some = np.concatenate([rare[:20], order[count : count + 20]])
    beside = some[:20]
    at = np.concatenate([x[some], x[beside] + 0.3 * rng.normal(size=(len(beside), d)) / gamma**0.5])
    label = f"{method}, {kind} ({count}), n={rows}, d={d}, lam={lam:.2g}, tol={tol:.2g}, width={width:.2g}"
    return Problem(
        x, y, draws, weights, group, at, group[np.concatenate([some, beside])], gamma, lam, tol, method,
        label,
    )  # fmt: skip


def features(y: Array) -> Array:
    """Return explicit features (n, TERMS) of ``exp(-GAMMA_Y (y - z)^2)``."""
    out = np.empty((len(y), TERMS))
    term = np.exp(-GAMMA_Y * y**2)
    for power in range(TERMS):
        out[:, power] = term
        term = term * y * math.sqrt(2 * GAMMA_Y / (power + 1))
    return out


def gram(a: Array, b: Array, gamma: float) -> Array:
    """Return the RBF kernel matrix, from differences."""
    squares = np.zeros((len(a), len(b)))
    for column in range(a.shape[1]):
        squares += (a[:, column, None] - b[None, :, column]) ** 2
    return np.exp(-gamma * squares)


def truth(of: Problem) -> Array:
    """Return the exact CCE at the points."""
    weights = np.ones(len(of.x)) if of.weights is None else of.weights
    total, values = weights.sum(), np.empty(len(of.at))
    for group in np.unique(of.at_group):
        rows, points = np.flatnonzero(of.group == group), of.at_group == group
        scale = np.sqrt(weights[rows] / (total * of.lam))  # D^(-1/2)
        matrix = scale[:, None] * gram(of.x[rows], of.x[rows], of.gamma) * scale
        matrix[np.diag_indices(len(rows))] += 1.0
        right = features(of.y[rows]) - features(of.draws[rows])
        solved = scale[:, None] * np.linalg.solve(matrix, scale[:, None] * right)
        image = gram(of.at[points], of.x[rows], of.gamma) @ solved
        values[points] = np.linalg.norm(image, axis=1)
    return values


@dataclass(frozen=True)
class Outcome:
    """Largest ratio of error to bound, the kind of the certificate, and the drawn problem."""

    ratio: float
    error: float
    bound: float
    kind: str
    description: str


def attack(seed: int, rows: int) -> Outcome:
    """Return the outcome of the problem of a seed."""
    of = problem(seed, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.cce(
            of.x, of.y, of.draws, at=of.at, x_kernel=fm.RBF(of.gamma), y_kernel=fm.RBF(GAMMA_Y),
            lam=of.lam, weights=of.weights, tol=of.tol, **METHODS[of.method],
        )  # fmt: skip
    error = np.abs(result.values - truth(of))
    # The reference is right to some 1e-12; bounds below that cannot be checked.
    ratio = error / np.maximum(np.asarray(result.error_bounds), 1e-11)
    worst = int(ratio.argmax())
    bound = float(np.asarray(result.error_bounds)[worst])
    kind = f"{result.info.solver} {result.info.certificate}"
    return Outcome(float(ratio[worst]), float(error[worst]), bound, kind, of.description)


def main() -> None:
    """Attack, and print the outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--only", type=int)
    parser.add_argument("--verbose", action="store_true", help="print every problem")
    options = parser.parse_args()
    seeds = (
        range(options.seed, options.seed + options.count)
        if options.only is None
        else [options.only]
    )
    ratios: dict[str, list[float]] = defaultdict(list)
    for seed in seeds:
        outcome = attack(seed, options.rows)
        ratios[outcome.kind].append(outcome.ratio)
        if outcome.ratio > 1.0 or options.verbose or options.only is not None:
            print(
                f"seed {seed} (--only {seed} --rows {options.rows}): error {outcome.error:.2e}, bound "
                f"{outcome.bound:.2e}, ratio {outcome.ratio:.3g}, {outcome.kind}: {outcome.description}",
                flush=True,
            )
    for kind, values in sorted(ratios.items()):
        above = sum(value > 1.0 for value in values)
        print(
            f"{kind:22} {len(values):6} calls, {above} outside their bound ({above / len(values):.2%}); "
            f"error / bound: largest {max(values):.3g}, median {np.median(values):.3g}"
        )


if __name__ == "__main__":
    main()
