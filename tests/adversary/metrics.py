"""Attacks metrics of a regression and of a classification against exact rational arithmetic.

    python tests/adversary/metrics.py --count 2000 --seed 0

Values are log-uniform from 1e-300 to 1e300, with ties, zeros and weights of ratios up to 1e12;
probabilities include 0, 1 and 1 - 1e-16. Calibration measures (`calibration_measures`) are among them.
Relative errors of 1e-9 are allowed (metrics are sums of up to 40 terms), plus 1e-14 of the largest summand,
which is what float64 sums with cancellation leave.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction as F
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
from calibration_measures import classes, exact, real, reliability, variances
from mpmath import mp, mpf

import fastmcmd as fm

mp.dps = 40
RELATIVE, OF_LARGEST = 1e-9, 1e-14
HUGE = float(np.finfo(np.float64).max)

Check = tuple[str, str, Any, Any, Any]  # name, line, came, right, largest summand


def mean(values: list[F], weights: list[F]) -> F:
    """Return the weighted mean."""
    return sum((w * v for w, v in zip(weights, values, strict=True)), F(0)) / sum(weights)


def regression(rng: Any) -> Iterator[Check]:
    """Check point predictions, intervals and quantiles."""
    n = int(rng.integers(1, 30))
    scale = 10.0 ** rng.uniform(-300, 300) if rng.random() < 0.5 else 1.0
    centre = scale * float(rng.choice([0.0, 1.0, 1e3]))
    y = np.clip(centre + scale * rng.normal(size=n), -1e300, 1e300)
    p = y + scale * 10.0 ** rng.uniform(-3, 1) * rng.normal(size=n)
    if rng.random() < 0.3:
        y[rng.integers(n)] = p[0]
    w = 10.0 ** rng.uniform(-12, 0, n) if rng.random() < 0.5 else np.ones(n)
    m = fm.metrics
    arrays = f"np.array({y.tolist()}), np.array({p.tolist()})"
    call_text = f"{arrays}, sample_weight=np.array({w.tolist()})"
    fy, fp, fw = exact(y), exact(p), exact(w)
    errors = [a - b for a, b in zip(fp, fy, strict=True)]
    sizes = [abs(e) for e in errors]
    most = real(max(sizes))
    yield "mae", call_text, m.mae(y, p, sample_weight=w), real(mean(sizes, fw)), most
    yield "bias", call_text, m.bias(y, p, sample_weight=w), real(mean(errors, fw)), most
    square = mean([e * e for e in errors], fw)
    yield "rmse", call_text, m.rmse(y, p, sample_weight=w), mp.sqrt(real(square)), most
    relative = [
        200 * abs(e) / (abs(a) + abs(b)) if a or b else F(0)
        for e, a, b in zip(errors, fp, fy, strict=True)
    ]
    yield "marpd", call_text, m.marpd(y, p, sample_weight=w), real(mean(relative, fw)), mpf(0)
    middle_y, middle_p = mean(fy, fw), mean(fp, fw)
    ssy = mean([(v - middle_y) ** 2 for v in fy], fw)
    ssp = mean([(v - middle_p) ** 2 for v in fp], fw)
    sp = mean([(a - middle_y) * (b - middle_p) for a, b in zip(fy, fp, strict=True)], fw)
    if len(set(y)) > 1 and n > 2:
        rounding = real(max(abs(v) for v in fy)) ** 2 / real(ssy) * mpf(1e-16) ** 2 * n
        r2 = 1 - real(square / ssy)
        yield "r2", call_text, m.r2(y, p, sample_weight=w), r2, abs(1 - r2) * (1 + rounding * 1e20)
        if ssp > 0:
            value = real(sp) / mp.sqrt(real(ssy) * real(ssp))
            yield (
                "pearson",
                call_text,
                m.pearson(y, p, sample_weight=w),
                value,
                mpf(1) + rounding * 1e20,
            )
    level = float(rng.uniform(0.01, 0.99))
    low, high = np.minimum(y, p) - scale * rng.random(n), np.maximum(y, p) * (rng.random(n) < 0.7)
    low, high = np.minimum(low, high), np.maximum(low, high)
    outcome = y + scale * rng.normal(size=n)
    value = m.interval_score_from(outcome, low, high, level=level)
    for i in range(n):
        a, b, c = exact([low[i], high[i], outcome[i]])
        right = b - a + 2 / (1 - F(level)) * (max(a - c, F(0)) + max(c - b, F(0)))
        line = f"[{outcome[i]!r}], [{low[i]!r}], [{high[i]!r}], level={level!r}"
        yield "interval_score_from", line, value[i], real(right), real(max(abs(a), abs(b), abs(c)))


def spreads(rng: Any) -> Iterator[Check]:
    """Check sharpness and Dawid and Sebastiani's score, whose squares leave the range of doubles."""
    n = int(rng.integers(1, 20))
    scale = 10.0 ** rng.uniform(-300, 300)
    std = scale * 10.0 ** rng.uniform(-3, 3, n)
    mean, y = scale * rng.normal(size=n), scale * rng.normal(size=n) * 10.0 ** rng.uniform(-2, 3)
    w = 10.0 ** rng.uniform(-12, 0, n) if rng.random() < 0.5 else np.ones(n)
    call_text = f"np.array({y.tolist()}), (np.array({mean.tolist()}), np.array({std.tolist()}))"
    m, right = fm.metrics, fm.Gaussian(mean, std)
    fs, fw = exact(std), exact(w)
    square = sum((a * s * s for a, s in zip(fw, fs, strict=True)), F(0)) / sum(fw)
    weighted = f"{call_text}, sample_weight=np.array({w.tolist()})"
    yield (
        "sharpness",
        weighted,
        m.sharpness(y, right, sample_weight=w),
        mp.sqrt(real(square)),
        mpf(0),
    )
    came = m.dawid_sebastiani(y, right)
    for i, (a, b, s) in enumerate(zip(exact(y), exact(mean), fs, strict=True)):
        z = (real(a) - real(b)) / real(s)
        logs = 2 * mp.log(real(s))
        yield "dawid_sebastiani", call_text, came[i], logs + z * z, abs(logs) + z * z


def ensembles(rng: Any) -> Iterator[Check]:
    """Check scores of draws: CRPS and its estimators, check scores, energy scores."""
    n, count = int(rng.integers(1, 5)), int(rng.integers(2, 9))
    scale = 10.0 ** rng.uniform(-290, 290) if rng.random() < 0.5 else 1.0
    draws = scale * rng.normal(size=(n, count))
    if rng.random() < 0.3:
        draws = np.round(draws / scale) * scale
    y = scale * rng.normal(size=n) * float(rng.choice([1.0, 1e6]))
    for estimator in ("qd", "nrg", "pwm", "fair"):
        came = fm.metrics.crps(y, fm.Draws(draws), estimator=estimator)
        energy = fm.metrics.energy_score(
            y, fm.Draws(draws), estimator={"qd": "nrg", "pwm": "fair"}.get(estimator, estimator)
        )
        for i in range(n):
            x, at = exact(draws[i]), F(float(y[i]))
            first = sum(abs(v - at) for v in x) / count
            pairs = sum(abs(a - b) for a in x for b in x)
            right = first - pairs / (
                2 * count * (count - 1 if estimator in ("pwm", "fair") else count)
            )
            line = f"[{y[i]!r}], fm.Draws([{draws[i].tolist()}]), estimator={estimator!r}"
            yield "crps", line, came[i], real(right), real(max(abs(v) for v in [*x, at]))
            yield "energy_score", line, energy[i], real(right), real(max(abs(v) for v in [*x, at]))


def classification(rng: Any) -> Iterator[Check]:
    """Check scores, calibration errors and rankings of class probabilities."""
    n, classes = int(rng.integers(2, 30)), int(rng.integers(2, 6))
    p = rng.dirichlet(np.full(classes, 10.0 ** rng.uniform(-3, 1)), size=n)
    p = np.where(np.isnan(p), 1 / classes, p)
    if rng.random() < 0.4:
        p[0] = np.eye(classes)[0]
        p[-1] = 0.0
        p[-1, :2] = 1 - 2.0**-53, 2.0**-53
    if rng.random() < 0.3:
        p = np.round(p * 8) / 8
        p[:, -1] = 1 - p[:, :-1].sum(axis=1)
        p = np.where((p < 0).any(axis=1, keepdims=True), 1 / classes, p)
    y = rng.integers(0, classes, n)
    w = 10.0 ** rng.uniform(-12, 0, n) if rng.random() < 0.5 else np.ones(n)
    c = fm.classification
    call_text = (
        f"np.array({y.tolist()}), np.array({p.tolist()}), sample_weight=np.array({w.tolist()})"
    )
    fw = exact(w)
    rows = [exact(row) for row in p]
    label_probabilities = [row[k] for row, k in zip(rows, y, strict=True)]
    nll = (
        mp.inf
        if min(label_probabilities) == 0
        else mp.fsum(
            real(v) * -mp.log(real(q)) for v, q in zip(fw, label_probabilities, strict=True)
        )
        / real(sum(fw))
    )
    yield "nll", call_text, c.nll(y, p, sample_weight=w), nll, mpf(1)
    brier = [
        sum((q - (k == j)) ** 2 for j, q in enumerate(row)) for row, k in zip(rows, y, strict=True)
    ]
    half = 2 if classes == 2 else 1
    yield (
        "mean_brier_score",
        call_text,
        c.mean_brier_score(y, p, sample_weight=w),
        real(mean(brier, fw) / half),
        mpf(0),
    )
    ranked = []
    for row, k in zip(rows, y, strict=True):
        below, total = F(0), F(0)
        for j in range(classes - 1):
            below += row[j]
            total += (below - (k <= j)) ** 2
        ranked.append(total)
    came = c.mean_ranked_probability_score(y, p, sample_weight=w)
    yield "mean_ranked_probability_score", call_text, came, real(mean(ranked, fw)), mpf(1) * 1e-2
    streamed = fm.streaming.RankedProbabilityScore().update(y, p, w).compute()
    yield (
        "streaming.RankedProbabilityScore",
        call_text,
        streamed,
        real(mean(ranked, fw)),
        mpf(1) * 1e-2,
    )
    top = [row.index(max(row)) for row in rows]
    right = [F(int(t == k)) for t, k in zip(top, y, strict=True)]
    yield "accuracy", call_text, c.accuracy(y, p, sample_weight=w), real(mean(right, fw)), mpf(0)
    bins = int(rng.integers(2, 20))
    gaps: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        edges = np.linspace(0, 1, bins + 1)  # bins (a, b], edges as NumPy rounds them
        place = int(np.searchsorted(edges, float(max(row)), side="left")) - 1
        gaps.setdefault(max(place, 0), []).append(i)
    ece = F(0)
    for group in gaps.values():
        ece += abs(sum((fw[i] * (right[i] - max(rows[i])) for i in group), F(0)))
    came = c.ece(y, p, bins=bins, of="top", sample_weight=w)
    yield "ece", call_text + f", bins={bins}, of='top'", came, real(ece / sum(fw)), mpf(1)
    if classes == 2 and len(set(y)) == 2:
        scores = [row[1] for row in rows]
        pairs = [
            (
                fw[i] * fw[j],
                F(1) if scores[i] > scores[j] else F(1, 2) if scores[i] == scores[j] else F(0),
            )
            for i in range(n)
            if y[i] == 1
            for j in range(n)
            if y[j] == 0
        ]
        area = sum(v * share for v, share in pairs) / sum(v for v, _ in pairs)
        yield "auroc", call_text, c.auroc(y, p[:, 1], sample_weight=w), real(area), mpf(0)


def attack(seed: int) -> Iterator[tuple[str, str | None]]:
    """Attack with one seed; yield the name of each check, and its failure."""
    rng = np.random.default_rng([seed, 41])
    for kind in (regression, ensembles, classification, spreads, reliability, variances, classes):
        for name, line, came, right, largest in kind(rng):
            limit = RELATIVE * abs(right) + OF_LARGEST * largest + mpf(10) ** -307
            if mp.isinf(right) or abs(right) > HUGE:
                good = bool(np.isinf(came))
            else:
                good = bool(np.isfinite(came)) and abs(mpf(float(came)) - right) <= limit
            wrong = None
            if not good:
                wrong = (
                    f"seed {seed}: {name}({line})\n    came {came!r}, right {mp.nstr(right, 17)}"
                )
            yield name, wrong


def run(count: int, seed: int, verbose: bool = False) -> tuple[list[str], int]:
    """Return the failures, and how many values were checked."""
    violations, check_count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in range(seed, seed + count):
            for _, wrong in attack(one):
                check_count += 1
                if wrong:
                    violations.append(wrong)
                    if verbose:
                        print(wrong, flush=True)
    return violations, check_count


def main() -> int:
    """Run from the command line; the exit status says whether there are violations."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    violations, check_count = run(options.count, options.seed, True)
    print(
        f"{check_count} values in {time.perf_counter() - start:.0f} s: {len(violations)} violations"
    )
    return bool(violations)


if __name__ == "__main__":
    sys.exit(main())
