"""Make the data of ``fastmcmd demo``: two count regressions evaluated on held-out people.

Doctor visits of 20,190 people in the RAND Health Insurance Experiment (public domain; shipped by
statsmodels as ``randhie``). A Poisson and a negative-binomial (NB2) regression are fitted by maximum
likelihood on 14,000 people; the file holds the inputs, outcomes and predictions of the other 6,190.

Run: ``pip install 'fastmcmd[examples]' && python examples/make_randhie.py``
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import statsmodels.api as sm

TRAINING = 14_000


def main(target: Path) -> None:
    """Fit both models and write the held-out part to ``target``."""
    data = sm.datasets.randhie.load_pandas()
    y = data.endog.to_numpy(dtype=np.float64)
    x = data.exog.to_numpy(dtype=np.float64)
    order = np.random.default_rng(2024).permutation(len(y))
    train, test = order[:TRAINING], order[TRAINING:]
    design = sm.add_constant(x)
    poisson = sm.Poisson(y[train], design[train]).fit(disp=0, maxiter=200)
    negbin = sm.NegativeBinomial(y[train], design[train]).fit(
        start_params=[*poisson.params, 1.0], disp=0, maxiter=500
    )
    centre, scale = x[train].mean(axis=0), x[train].std(axis=0)
    np.savez_compressed(
        target,
        x=((x[test] - centre) / scale).astype(np.float32),
        y=y[test].astype(np.int16),
        poisson_mean=poisson.predict(design[test]).astype(np.float32),
        negbin_mean=negbin.predict(design[test]).astype(np.float32),
        negbin_dispersion=np.float64(negbin.params[-1]),
        names=np.array(list(data.exog.columns)),
        centre=centre,
        scale=scale,
    )
    print(f"{target}: {len(test)} people, {target.stat().st_size} bytes")
    print(f"dispersion {negbin.params[-1]:.4f}; converged: {negbin.mle_retvals['converged']}")


if __name__ == "__main__":
    default = Path(__file__).parents[1] / "fastmcmd" / "data" / "randhie.npz"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
