"""How often the intervals of `fastmcmd.evaluate` hold the truth, by simulation.

    python tests/simulations/interval_coverage.py --repeats 300 --output coverage.json
    python tests/simulations/interval_coverage.py --table coverage*.json
    python tests/simulations/interval_coverage.py --means --scenario "Poisson, right" --n 200 --seed 1
    python tests/simulations/interval_coverage.py --blocks --n 200 1000  # of Dask collections

Each scenario draws inputs, outcomes and a right or wrong model; the truth is the number of a sample of two
million rows, and 0 for measures of calibration that a right model has at 0. The table in docs/evaluating.md
was made by the command above.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

import fastmcmd as fm
from fastmcmd.evaluation import bootstrap
from fastmcmd.evaluation.result import Measured

ZERO_IF_RIGHT = (
    "regression_ece", "rms_calibration_error", "mean_absolute_calibration_error",
    "miscalibration_area", "ence", "uce",
)  # fmt: skip
ZERO_OF_CLASSES = ("ece", "classwise_ece")
SIZES = (200, 1_000, 2_000)
TRUTH_ROWS = 2_000_000
N_BOOT = 200


def _gaussian(shift: float, scale: float) -> Callable:
    def draw(rng, n):
        x = rng.normal(size=n)
        std = 0.3 + 0.2 * np.abs(x)
        return x + std * rng.normal(size=n), fm.Gaussian(x + shift, scale * std)

    return draw


def _counts(dispersion: float) -> Callable:
    def draw(rng, n):
        mean = np.exp(0.7 + 0.5 * rng.normal(size=n))
        rate = mean if dispersion == 0 else rng.gamma(1 / dispersion, dispersion * mean)
        return rng.poisson(rate).astype(float), fm.Poisson(mean)

    return draw


def _classes(power: float) -> Callable:
    def draw(rng, n):
        scores = np.concatenate([np.zeros((n, 1)), rng.normal(size=(n, 2))], axis=1)
        right = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        y = (right.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1)
        p = right**power
        p /= p.sum(axis=1, keepdims=True)
        return np.minimum(y, 2), fm.Categorical(p, classes=["a", "b", "c"])

    return draw


SCENARIOS = {
    "Gaussian, right": _gaussian(0.0, 1.0),
    "Gaussian, mean wrong": _gaussian(0.2, 1.0),
    "Gaussian, too narrow": _gaussian(0.0, 0.6),
    "Poisson, right": _counts(0.0),
    "Poisson, overdispersed": _counts(0.5),
    "classes, right": _classes(1.0),
    "classes, too sure": _classes(2.0),
}


def truth(scenario: str, rows: int = TRUTH_ROWS, seed: int = 20_000) -> dict[str, float]:
    """Return the numbers of a very large sample."""
    rng = np.random.default_rng(seed)
    y, prediction = SCENARIOS[scenario](rng, rows)
    values = {one.name: one.value for one in fm.evaluate(y, prediction).measured}
    if scenario.endswith("right"):
        values.update(dict.fromkeys(ZERO_IF_RIGHT + ZERO_OF_CLASSES, 0.0))
    return values


def share_covered(
    measures: Callable[[np.random.Generator, int], Iterable[Measured]],
    n: int,
    repeats: int,
    true_values: dict[str, float],
    seed: int,
) -> dict[str, float]:
    """Return the share of runs in which the interval of each number holds the truth.

    ``measured`` returns the numbers of a run from its source of samples of n rows and its index.
    """
    hits: dict[str, int] = {}
    for repeat in range(repeats):
        for one in measures(np.random.default_rng([seed, n, repeat]), repeat):
            if one.low is not None:
                is_covered = one.low <= true_values[one.name] <= one.high
                hits[one.name] = hits.get(one.name, 0) + is_covered
    return {name: count / repeats for name, count in hits.items()}


def coverage(
    scenario: str,
    n: int,
    repeats: int,
    true_values: dict[str, float],
    *,
    n_boot: int = N_BOOT,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, float]:
    """Return the coverage of the intervals of `fastmcmd.evaluate`."""

    def measures(rng: np.random.Generator, repeat: int) -> Iterable[Measured]:
        y, prediction = SCENARIOS[scenario](rng, n)
        return fm.evaluate(
            y, prediction, n_boot=n_boot, confidence=confidence, random_state=repeat
        ).measured

    return share_covered(measures, n, repeats, true_values, seed)


def coverage_of_means(
    scenario: str,
    n: int,
    repeats: int,
    true_values: dict[str, float],
    n_boot: int = N_BOOT,
    seed: int = 0,
) -> dict[str, float]:
    """Return the same at 95 % of the measures that are functions of means, in a fraction of the time."""

    def measures(rng: np.random.Generator, repeat: int) -> Iterable[Measured]:
        evaluation = fm.evaluate(*SCENARIOS[scenario](rng, n), test=False)
        names = [one.name for one in evaluation.measured if one.name not in bootstrap.WITHOUT]
        means = bootstrap.Means(evaluation.context, names)
        counts = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(n_boot)]
        values, errors = (part.T for part in means.samples(np.array(counts, dtype=float)))
        means_of_all = means.over_all_rows()[1].tolist()
        replicates = bootstrap.Replicates(
            (), dict(zip(means.names, values, strict=True)),
            dict(zip(means.names, zip(means_of_all, errors, strict=True), strict=True)), {}, float(n),
        )  # fmt: skip
        return bootstrap.intervals(evaluation.measured, replicates, 0.95)

    return share_covered(measures, n, repeats, true_values, seed)


def measured_in_blocks(y, prediction, n_boot: int, seed: int) -> tuple:
    """Return the numbers with intervals as those of Dask collections, from sums of four blocks."""
    from fastmcmd.distributed.measures import concluded
    from fastmcmd.distributed.parts import EvaluationJob
    from fastmcmd.distributed.rows import RowRules
    from fastmcmd.distributed.running import added
    from fastmcmd.evaluation.context import Settings

    settings = Settings(random_state=seed)
    job = EvaluationJob(
        settings, RowRules(), np.random.SeedSequence(seed), None, 8_192, n_boot=n_boot
    )
    n = len(y)
    blocks = np.split(np.arange(n), [1, n // 10, n // 2])
    parts = added(
        [
            job.sums({"y": y[rows], "prediction": {"": prediction.take(rows)}}, number)
            for number, rows in enumerate(blocks)
        ]
    )
    model = parts.models[""]
    measures, _ = concluded(model.sums, model.skipped, settings, model.gaussian)
    return bootstrap.intervals(tuple(measures), parts.resampled[0].replicates(()), 0.95)


def coverage_in_blocks(
    scenario: str,
    n: int,
    repeats: int,
    true_values: dict[str, float],
    n_boot: int = N_BOOT,
    seed: int = 0,
) -> dict[str, float]:
    """Return the coverage at 95 % of the intervals of Dask collections."""

    def measures(rng: np.random.Generator, repeat: int) -> Iterable[Measured]:
        return measured_in_blocks(*SCENARIOS[scenario](rng, n), n_boot, repeat)

    return share_covered(measures, n, repeats, true_values, seed)


def table(coverages: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the coverage in percent as a Markdown table: a line a number, sizes side by side."""
    names = list(next(iter(next(iter(coverages.values())).values())))
    sizes = " / ".join(f"{n:,}" for n in SIZES)
    lines = [f"| n = {sizes} | {' | '.join(coverages)} |", "|---" * (len(coverages) + 1) + "|"]
    for name in names:
        cells = [
            " / ".join(f"{100 * by_size[str(n)][name]:.0f}" for n in SIZES)
            for by_size in coverages.values()
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run all scenarios, or the named ones, or print a table of earlier runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", action="append", choices=list(SCENARIOS))
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--n-boot", type=int, default=N_BOOT)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, nargs="+")
    parser.add_argument("--means", action="store_true")
    parser.add_argument("--blocks", action="store_true")
    parser.add_argument("--n", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    coverages: dict[str, dict[str, dict[str, float]]] = {}
    if arguments.table:
        for path in arguments.table:
            coverages.update(json.loads(path.read_text()))
        print(table({name: coverages[name] for name in SCENARIOS if name in coverages}))
        return
    for scenario in arguments.scenario or SCENARIOS:
        true_values = truth(scenario)
        if arguments.means or arguments.blocks:
            of_runs = coverage_of_means if arguments.means else coverage_in_blocks
            for n in arguments.n:
                shares = of_runs(
                    scenario, n, arguments.repeats, true_values, arguments.n_boot, arguments.seed
                )
                cells = ", ".join(f"{name} {100 * share:.1f}" for name, share in shares.items())
                print(f"{scenario}, n = {n}, {arguments.repeats} runs: {cells}", flush=True)
            continue
        coverages[scenario] = {}
        for n in SIZES:
            coverages[scenario][str(n)] = coverage(
                scenario, n, arguments.repeats, true_values, n_boot=arguments.n_boot
            )
            if arguments.output:
                arguments.output.write_text(json.dumps(coverages, indent=1))
    if coverages:
        print(table(coverages))


if __name__ == "__main__":
    main()
