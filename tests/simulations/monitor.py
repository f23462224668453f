"""False alarms and delays of `fastmcmd.Monitor`, looked at after every batch.

Run: python tests/simulations/monitor.py [--runs 200] [--only NAME] [--seed 1]

Each run has a reference of 500 rows and batches of 100 rows; from batch 5 on something may move. A line
gives, for each question, the share of runs with an alarm and the median number of batches to it. The rate
of false alarms of a scenario in which nothing moves must be at most 5 % for all questions together.

    python tests/simulations/monitor.py --error [--runs 200]

The CCE of the model over the last three batches, while the model is right and after P(y | x) moved: the
mean of CCE^2 less its value under a right model, and of the excess less its expectation, in standard
errors. The expectation is ``sum_{i != j} c_ij <E e_i, E e_j>`` with embeddings of Gaussians in closed form.
"""

from __future__ import annotations

import argparse

import numpy as np

import fastmcmd as fm
from fastmcmd.streaming.monitor import QUESTIONS

REFERENCE, ROWS, BATCHES, QUIET = 500, 100, 12, 4


def gaussian(rng, n, is_changed, wrong=False):
    """Outcomes y = sin 2 x_1 + x_2 + noise; with ``wrong``, the model leaves out the sine."""
    x = rng.normal(size=(n, 3))
    if is_changed in ("x", "x far"):
        x[:, 0] += 0.7 if is_changed == "x" else 1.5
    mean = np.sin(2 * x[:, 0]) + x[:, 1]
    model = fm.Gaussian(x[:, 1] if wrong else mean, 0.5)
    if is_changed == "flip":  # P(x) and P(y) stay as they are
        mean = -mean
    noise = rng.normal(size=n) * (0.75 if is_changed == "spread" else 0.5)
    return x, mean + noise + (0.4 if is_changed == "y" else 0.0), model


def counts(rng, n, is_changed):
    """Counts with five skewed inputs."""
    x = rng.exponential(size=(n, 5))
    mean = np.exp(0.3 * x[:, 0] - 0.2 * x[:, 1])
    return x, rng.poisson(mean * (1.5 if is_changed else 1.0)).astype(float), fm.Poisson(mean)


def heavy(rng, n, is_changed):
    """Student t outcomes with two degrees of freedom in eight dimensions."""
    x = rng.standard_t(2, size=(n, 8))
    return x, x[:, 0] + rng.standard_t(2, size=n) + (1.0 if is_changed else 0.0), None


SCENARIOS = {
    "nothing, Gaussian": (gaussian, None, {}),
    "nothing, wrong model": (gaussian, None, {"wrong": True}),
    "nothing, counts": (counts, None, {}),
    "nothing, heavy tails": (heavy, None, {}),
    "x": (gaussian, "x", {}),
    "x far, wrong model": (gaussian, "x far", {"wrong": True}),
    "x, wrong model": (gaussian, "x", {"wrong": True}),
    "y for all x by 0.4": (gaussian, "y", {}),
    "y | x: mean reversed": (gaussian, "flip", {}),
    "y | x: spread x 1.5": (gaussian, "spread", {}),
    "counts x 1.5": (counts, "y", {}),
    "heavy tails + 1": (heavy, "y", {}),
}


def alarms(name: str, runs: int, seed: int) -> np.ndarray:
    """Return the batch (runs, 3) of each alarm; 0 for none."""
    make, is_changed, options = SCENARIOS[name]
    hits = np.zeros((runs, len(QUESTIONS)), dtype=int)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        monitor = fm.Monitor(
            *make(rng, REFERENCE, None, **options), simulations=199, random_state=run
        )
        for batch in range(BATCHES):
            update = monitor.update(
                *make(rng, ROWS, is_changed if batch >= QUIET else None, **options)
            )
        hits[run] = [update.alarms[question] or 0 for question in QUESTIONS]
    return hits


def expected_excess(x, misfit, monitor) -> float:
    """Return the expected excess over inputs (n,) whose outcomes are higher by ``misfit`` (n,)."""
    from fastmcmd.streaming.output_features import Lattice

    settings = monitor._error._window.total.settings
    parts = Lattice.of(settings["y_kernel"]).parts
    n = len(x)
    gram = settings["x_kernel"](x, x)
    inverse = np.linalg.inv(gram + n * settings["lam"] * np.eye(n))
    form = inverse @ gram @ gram @ inverse / n
    mean = np.sin(x)
    products = np.zeros((n, n))
    for gamma, factor in parts:
        spread = 1 + 2 * gamma * (0.5**2 + 0.5**2)
        for one, sign in ((mean + misfit, 1), (mean, -1)):
            for other, other_sign in ((mean + misfit, 1), (mean, -1)):
                gaps = one[:, None] - other
                products += (
                    factor * sign * other_sign * np.exp(-gamma * gaps**2 / spread) / np.sqrt(spread)
                )
    np.fill_diagonal(form, 0.0)
    return float((form * products).sum())


def errors(runs: int, seed: int) -> dict[str, np.ndarray]:
    """Return deviations (runs,) from expectations: of CCE^2, of the excess before and after the move."""
    values: dict[str, list[float]] = {"square": [], "excess": [], "moved": [], "gain": []}
    for run in range(runs):
        rng = np.random.default_rng([seed, run])

        def batch(n, shift, rng=rng):
            x = rng.normal(size=n)
            misfit = shift * (x > 0)
            y = np.sin(x) + misfit + 0.5 * rng.normal(size=n)
            return (x, y, fm.Gaussian(np.sin(x), 0.5)), misfit

        monitor = fm.Monitor(
            *batch(200, 0.0)[0], x_kernel=fm.RBF(1.0), simulations=19, window=3, random_state=run
        )
        for shift in (0.0, 0.4):
            batches = [batch(50, shift) for _ in range(3)]
            for one, _ in batches:
                estimate = monitor.update(*one).cce
            x = np.concatenate([one[0] for one, _ in batches])
            misfit = np.concatenate([one for _, one in batches])
            if shift == 0:
                values["square"].append(estimate.value**2 - estimate.null_mean)
                values["excess"].append(estimate.excess)
            else:
                expected = expected_excess(x, misfit, monitor)
                values["moved"].append(estimate.excess - expected)
                values["gain"].append(expected)
    return {name: np.array(one) for name, one in values.items()}


def print_errors(runs: int, seed: int) -> None:
    """Print the means of `errors` in standard errors."""
    results = errors(runs, seed)
    gain = results.pop("gain").mean()
    labels = {
        "square": "right, CCE^2 less null mean",
        "excess": "right, excess",
        "moved": f"moved, excess less its expectation {gain:.4f}",
    }
    for name, deviations in results.items():
        error = deviations.std(ddof=1) / len(deviations) ** 0.5
        mean = deviations.mean()
        print(f"{labels[name]}: {mean:.6f}, standard error {error:.6f}, {mean / error:.1f} of them")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--error", action="store_true")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.error:
        print_errors(options.runs, options.seed)
        return
    for name in SCENARIOS:
        if options.only and options.only not in name:
            continue
        hits = alarms(name, options.runs, options.seed)
        cells = []
        for question, column in zip(QUESTIONS, hits.T, strict=True):
            cell = f"{question} {np.mean(column > 0):.3f}"
            if (column > QUIET).any():
                cell += f" after {np.median(column[column > QUIET]) - QUIET:.0f}"
            cells.append(cell)
        early = ((hits > 0) & (hits <= QUIET)).any(axis=1).mean()
        print(f"{name}: {', '.join(cells)}; any {(hits > 0).any(axis=1).mean():.3f}, early {early:.3f}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
