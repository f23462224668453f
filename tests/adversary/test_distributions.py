"""A small share of the attack on distributions and metrics; by hand run the programs themselves."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("mpmath")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.mark.slow
def test_distributions_agree_with_mpmath():
    from distributions import run

    found, counts = run(15, seed=100)
    assert counts["cdf"] >= 30
    assert counts["crps"] >= 30
    assert not found, "\n".join(map(str, found))


@pytest.mark.slow
def test_metrics_agree_with_rational_arithmetic():
    from metrics import run

    found, checked = run(10, seed=100)
    assert checked > 200
    assert not found, "\n".join(found)
