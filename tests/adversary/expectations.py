"""Attacks `expected_kernel` of every predicted distribution and every kernel by integrals of the cdf.

    python tests/adversary/expectations.py --count 2000 --seed 0

prints each violation as the seed of its problem, one line of Python that shows it, what came, and what is
right. ``--only beta`` attacks one family, ``--seed S --count 1`` one problem.

The integral by parts in `laws.py` shares nothing with the package: neither nodes nor densities nor
quantiles. A value is right to `TOLERANCE` of the largest sizes that its integral adds up, or of
``sqrt(k(y, y) k(z, z))`` at the median y.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from laws import LAWS, Law, eval_one

import fastmcmd as fm

TOLERANCE = 1e-10
HEAVY_TOLERANCE = (
    1e-7  # of kernels that grow: 1e-16 of the mass is left out, and refused where more is lost
)
POINTS = 4


@dataclass
class Numeric:
    """A kernel: Python that makes it, ``k(t, z)``, its derivative in t, the length of its changes."""

    expression: str
    value: Callable[[Any, float], Any]
    slope: Callable[[Any, float], Any]
    length: float
    heavy: bool = False  # polynomials, whose expectation needs moments


def _rbf(rng: Any, length: float) -> Numeric:
    gamma = length**-2
    return Numeric(
        f"fm.RBF({gamma!r})",
        lambda t, z: np.exp(-gamma * (t - z) ** 2),
        lambda t, z: -2 * gamma * (t - z) * np.exp(-gamma * (t - z) ** 2),
        length,
    )


def _laplacian(rng: Any, length: float) -> Numeric:
    gamma = 1 / length
    return Numeric(
        f"fm.Laplacian({gamma!r})",
        lambda t, z: np.exp(-gamma * np.abs(t - z)),
        lambda t, z: -gamma * np.sign(t - z) * np.exp(-gamma * np.abs(t - z)),
        length,
    )


def _matern(rng: Any, length: float) -> Numeric:
    nu = float(rng.choice([0.5, 1.5, 2.5]))
    scale = np.sqrt(2 * nu) / length
    factor = {
        0.5: (lambda r: 1.0, lambda r: 1.0),
        1.5: (lambda r: 1 + r, lambda r: r),
        2.5: (lambda r: 1 + r + r * r / 3, lambda r: r * (1 + r) / 3),
    }[nu]

    def value(t: Any, z: float) -> Any:
        r = np.minimum(scale * np.abs(t - z), 800.0)
        return factor[0](r) * np.exp(-r)

    def slope(t: Any, z: float) -> Any:
        r = np.minimum(scale * np.abs(t - z), 800.0)
        return -scale * np.sign(t - z) * factor[1](r) * np.exp(-r)

    return Numeric(f"fm.Matern({nu!r}, {length!r})", value, slope, length)


def _polynomial(rng: Any, length: float) -> Numeric:
    degree, gamma, c = int(rng.integers(1, 4)), length**-2, float(rng.random())
    return Numeric(
        f"fm.Polynomial({degree}, {gamma!r}, {c!r})",
        lambda t, z: (gamma * t * z + c) ** degree,
        lambda t, z: degree * gamma * z * (gamma * t * z + c) ** (degree - 1),
        length,
        True,
    )


def _linear(rng: Any, length: float) -> Numeric:
    return Numeric("fm.Linear()", lambda t, z: t * z, lambda t, z: z + 0 * t, length, True)


def _cosine(rng: Any, length: float) -> Numeric | None:
    return None  # a step at zero: probabilities test it, see `_step`


def _constant(rng: Any, length: float) -> Numeric:
    c = float(rng.random())
    return Numeric(
        f"fm.kernels.Constant({c!r})", lambda t, z: c + 0 * t, lambda t, z: 0 * t, length
    )


LEAVES = [_rbf, _laplacian, _laplacian, _matern, _matern, _polynomial, _linear, _constant]


def kernel(rng: Any, width: float) -> Numeric:
    """Draw a kernel, a sum or a product whose length is that of a law, within three orders."""
    length = float(width * 10 ** rng.uniform(-3, 3))
    kinds = rng.choice(LEAVES, 2)
    one = kinds[0](rng, length)
    combined = rng.random()
    if combined > 0.35:
        return one
    two = kinds[1](rng, float(length * 10 ** rng.uniform(-1, 1)))
    short, heavy = min(one.length, two.length), one.heavy or two.heavy
    if combined < 0.2:
        return Numeric(
            f"({one.expression} + {two.expression})",
            lambda t, z: one.value(t, z) + two.value(t, z),
            lambda t, z: one.slope(t, z) + two.slope(t, z),
            short,
            heavy,
        )
    return Numeric(
        f"{one.expression} * {two.expression}",
        lambda t, z: one.value(t, z) * two.value(t, z),
        lambda t, z: one.slope(t, z) * two.value(t, z) + one.value(t, z) * two.slope(t, z),
        short,
        heavy,
    )


def points(rng: Any, law: Law) -> list[float]:
    """Return points of a kernel: anywhere in the law, at and near its ends and atoms, far out."""
    places = [law.centre, *(place for place, _ in law.breaks), *(v for v, _ in law.atoms[:3])]
    at = []
    for _ in range(POINTS):
        place, kind = float(rng.choice(places)), rng.random()
        if kind < 0.15:
            at.append(place)
        elif kind < 0.9:
            at.append(place + law.width * float(rng.normal()) * 10 ** float(rng.uniform(-3, 0.5)))
        else:
            at.append(place + law.width * float(rng.normal()) * 100)
    return at


def attack(seed: int, only: str | None = None) -> tuple[str, list[str], int]:
    """Attack one law with one kernel; return the family, violations, and the number of values checked."""
    rng = np.random.default_rng([seed, 15])
    laws = [one for one in LAWS if only is None or one.__name__.replace("_", "") == only.lower()]
    kind = laws[int(rng.integers(len(laws)))]
    law = kind(rng)
    one = kernel(rng, law.width)
    z = points(rng, law)
    line = f"{law.expression.format(n=1)}.expected_kernel({one.expression}, {z})"
    instance = eval(one.expression, {"fm": fm})
    prediction = eval_one(law.expression)
    try:
        came = prediction.expected_kernel(instance, z)[0]
    except ValueError as error:
        if one.heavy:
            return kind.__name__, [], 0
        return kind.__name__, [f"seed {seed}: {line}\n    came {error}"], 0
    violations = []
    for point, value in zip(z, came, strict=True):
        right, size, left_out = law.expectation(
            lambda t, z=point: one.value(t, z),
            lambda t, z=point: one.slope(t, z),
            point,
            one.length,
        )
        product = one.value(np.array([law.centre]), law.centre) * one.value(
            np.array([point]), point
        )
        tolerance = TOLERANCE if not one.heavy else HEAVY_TOLERANCE
        tolerance += np.spacing(max(abs(point), abs(law.centre))) / one.length  # of the reference
        limit = tolerance * max(size, float(np.sqrt(np.abs(product))[0])) + 2 * left_out
        if not abs(value - right) <= limit:
            off = f"came {float(value)!r}, right {right!r}, off by {abs(value - right):.1e}"
            violations.append(f"seed {seed}: {line}\n    at {point!r}: {off}, allowed {limit:.1e}")
    return kind.__name__, violations, len(z)


def run(
    count: int, seed: int, only: str | None = None, verbose: bool = False
) -> tuple[list[str], Counter[str], int]:
    """Attack ``count`` laws; return violations, the count of each family, and values checked."""
    violations: list[str] = []
    kinds: Counter[str] = Counter()
    checks = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in range(seed, seed + count):
            kind, more, values = attack(one, only)
            violations += more
            checks += values
            if more:
                kinds[kind] += 1
                if verbose:
                    print(*more, sep="\n", flush=True)
    return violations, kinds, checks


def main() -> int:
    """Run from the command line; the exit status says whether there are violations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=None, help="one family, such as logNormal")
    options = parser.parse_args()
    start = time.perf_counter()
    violations, kinds, checks = run(options.count, options.seed, options.only, True)
    for kind, number in kinds.most_common():
        print(f"{number:6d} problems of {kind}")
    seconds = time.perf_counter() - start
    print(
        f"in {seconds:.0f} s: {checks} values of {options.count} problems, {len(violations)} violations"
    )
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
