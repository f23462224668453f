"""Size and power of `fastmcmd.weak_regions`, by simulation.

    python tests/simulations/regions.py --repeats 400 --n 400

Size: the share of runs in which any region of a right model is called wrong (level 5 %, Holm). Power: a
shift of 0.3, one standard deviation, where two columns that the kernel does not see are large. The
figures in docs/evaluating.md come from the command above.
"""

from __future__ import annotations

import argparse

import numpy as np

import fastmcmd as fm


def run(rng, n, shift, simulations=199):
    """Return the regions of one data set, and where the model is wrong."""
    x = rng.uniform(-1, 1, n)
    columns = rng.uniform(0, 1, (n, 3))
    wrong = (columns[:, 0] > 0.6) & (columns[:, 1] > 0.4)
    y = x + np.where(wrong, shift, 0.0) + 0.3 * rng.normal(size=n)
    return fm.weak_regions(
        columns, x, y, fm.Gaussian(x, 0.3), fm.RBF(1.0), fm.RBF(2.0), 0.05,
        simulations=simulations, random_state=rng,
    )  # fmt: skip


def size(repeats=400, n=400, seed=0, simulations=199):
    """Return the share of runs in which a region of a right model is called wrong."""
    rng = np.random.default_rng(seed)
    return np.mean([bool(run(rng, n, 0.0, simulations).significant) for _ in range(repeats)])


def power(repeats=400, n=400, seed=0, simulations=199):
    """Return the share of runs in which the planted region is called wrong."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(repeats):
        significant = run(rng, n, 0.3, simulations).significant
        hits += any("column 0 >" in one.description for one in significant)
    return hits / repeats


def main() -> None:
    """Print size and power."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"size {size(options.repeats, options.n, options.seed):.3f}", flush=True)
    print(f"power {power(options.repeats, options.n, options.seed):.3f}", flush=True)


if __name__ == "__main__":
    main()
