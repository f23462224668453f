"""A small share of the attack on distributions and metrics; run the programs by hand for more."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("mpmath")
sys.path.insert(0, str(Path(__file__).parent))

import distributions
import metrics
from distribution_problems import FAMILIES

_SECONDS = 2  # of processor time, after which a problem is left out


@pytest.mark.slow
@pytest.mark.parametrize("family", dict.fromkeys(one.__name__.replace("_", "") for one in FAMILIES))
def test_every_family_agrees_with_mpmath(family, monkeypatch):
    monkeypatch.setattr(distributions, "LIMIT", _SECONDS)
    violations, counts = distributions.run(4, seed=200, only=family)
    assert not violations, "\n".join(map(str, violations))
    least = {"cdf": 10, "sf": 10, "crps": 5, "mean": 1, "variance": 1}
    if family != "draws":  # its quantiles interpolate, as NumPy's do
        least["quantile"] = 6
    assert not [quantity for quantity, count in least.items() if counts[quantity] < count], counts


@pytest.mark.slow
def test_metrics_agree_with_rational_arithmetic():
    violations, check_count = metrics.run(10, seed=100)
    assert check_count > 200
    assert not violations, "\n".join(violations)
