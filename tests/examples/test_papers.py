"""The papers' experiments: their claims hold in small repetitions, and the page has what they print."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
papers = pytest.importorskip("examples.papers.__main__")


@pytest.mark.slow
@pytest.mark.parametrize("name", papers.NAMES)
def test_claims_hold(name, tmp_path):
    experiment = papers.load(name)
    claims = experiment.run(2, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    rows = [line.split(" | ") for line in (ROOT / "docs" / "papers.md").read_text().splitlines()]
    verdicts = {row[0].removeprefix("| "): row[-1] for row in rows if len(row) == 4}
    assert {one.text: f"**{one.verdict}** |" for one in claims}.items() <= verdicts.items()
    assert (ROOT / "docs" / "papers" / f"{name}.png").exists()


def test_verdicts():
    from examples.papers.claims import spread, verdict

    assert verdict([True, True]) == "holds"
    assert verdict([True, False, False], [False, False, False]) == "not"
    assert verdict([True, True], [True, False]) == "partly"
    assert spread([1.0, 2.0]) == "1.500 ± 0.707"


@pytest.mark.parametrize(
    "simulate",
    [
        fm.datasets.linear,
        fm.datasets.cosine,
        fm.datasets.sine,
        fm.datasets.conflated_poissons,
        fm.datasets.proportional_noise,
        *(lambda n, random_state, kind=kind: fm.datasets.equal_moments(kind, n, random_state)
          for kind in ("gaussian", "poisson", "negative binomial")),
    ],
)  # fmt: skip
def test_outcomes_are_from_the_truth(simulate):
    """The transform of outcomes by the true cdf is uniform, in each half of the inputs."""
    from scipy import stats

    data = simulate(n=4_000, random_state=7)
    again = simulate(n=4_000, random_state=7)
    np.testing.assert_array_equal(data.y, again.y)
    pit = fm.pit_values(data.y, data.truth, random_state=1)
    for half in (data.x < np.median(data.x), data.x >= np.median(data.x)):
        assert stats.kstest(pit[half], "uniform").pvalue > 1e-3


def test_conflation_is_the_product_of_masses():
    data = fm.datasets.conflated_poissons(50, random_state=0)
    from scipy import stats

    counts = 30 - np.asarray(data.truth.values)
    rate = 10 * np.sin(data.x) + 10
    mass = stats.poisson(rate[:, None]).pmf(counts) ** 5
    np.testing.assert_allclose(data.truth.probs, mass / mass.sum(axis=1, keepdims=True), atol=1e-12)


def test_unknown_family():
    with pytest.raises(ValueError, match="kind is 'gamma'"):
        fm.datasets.equal_moments("gamma", 10)
