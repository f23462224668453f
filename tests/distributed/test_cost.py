"""Tasks and bytes of sums agree with the formulas; `test_cluster.py` counts those of a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.distributed.cost import (
    bootstrap_bytes,
    counted_bytes,
    loss_bytes,
    sum_bytes,
    task_count,
)

pytest.importorskip("dask.array", reason="Dask is not installed")


def test_bytes_of_differences_of_models_by_draws():
    from fastmcmd.distributed.losses import CongruenceTerms, Pieces

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 50))
    models = {"a": fm.Gaussian(x, 1.0), "b": fm.Draws(rng.normal(size=(50, 4)))}
    models["c"] = fm.Draws(rng.normal(size=(50, 3)))
    sums = fm.streaming.CCE(fm.RBF(0.2), fm.RBF(0.5), 9, 0.01).update(x, y, models)
    state = sums._state
    seed = np.random.SeedSequence(0)
    terms = CongruenceTerms.of(sums, state, 0.01, Pieces(5, 0), seed, 20)
    part = terms.sums(x[:, None], y[:, None], list(models.values()), None, 0)
    expected = loss_bytes(10, 3, 2, state.smoother.rank, len(state.columns))
    assert 0 <= counted_bytes(part) - expected < 60  # and two numbers
    # A block without rows must not drop the errors of the draws.
    none = terms.sums(x[:0, None], y[:0, None], [one.take([]) for one in models.values()], None, 1)
    for total in (part + none, none + part):
        assert total.draw_errors.keys() == part.draw_errors.keys()
        assert np.array_equal(total.draw_errors["1"], part.draw_errors["1"])


@pytest.mark.parametrize("classes", [0, 3])
def test_bytes_of_bootstrap_samples(classes):
    from fastmcmd.distributed.bootstrap import resampled_sums
    from fastmcmd.evaluation.context import Context, Settings
    from fastmcmd.evaluation.outcomes import read_rows

    y = np.arange(30) % (classes or 30)
    p = np.full((30, 3), 1 / 3)
    prediction = fm.Categorical(p, classes=list("abc")) if classes else fm.Gaussian(y, 1.0)
    outcomes = np.array(list("abc"))[y] if classes else y
    context = Context(read_rows(outcomes, prediction, None, "raise", None), Settings())
    (sums,) = resampled_sums({"": context}, 50, np.random.SeedSequence(0))
    expected = bootstrap_bytes(50, len(sums.moments), classes)
    assert counted_bytes(sums) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"simulations": 19}, {"landmarks": 7}])
def test_bytes_of_sums_of_an_accumulator(options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4))
    one = fm.streaming.CCE(fm.RBF(0.2), fm.RBF(0.5), random_state=0, **{"landmarks": 30, **options})
    one.update(x, x[:, 0], {"a": fm.Gaussian(x[:, 0], 1.0), "b": fm.Gaussian(x[:, 1], 1.0)})
    state = one._state
    expected = sum_bytes(
        state.smoother.rank, len(state.columns), 4, 2, options.get("simulations", 0), probes=0
    )
    assert counted_bytes(state) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize(("blocks", "tasks"), [(1, 2), (8, 9), (9, 12), (64, 73), (65, 75), (0, 0)])
def test_tasks_of_small_passes(blocks, tasks):
    assert task_count(blocks) == tasks


def test_the_projection_of_the_page_follows_from_its_constants():
    page = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
    row, block = map(
        float, re.search(r"(\d+) µs of CPU per row .*?, (\d+) ms per block", page).groups()
    )
    number = {"10^8": 1e8, "10^10": 1e10, "1,000": 1e3, "10^5": 1e5, "10^4": 1e4}
    seconds = {"s": 1.0, "min": 60.0}
    lines = re.findall(
        r"\| (10\^\d+) \| ([\d,^]+) of \S+ rows \| (\d+) (s|min) \| (\d+) (s|min) \|", page
    )
    assert len(lines) == 3
    for rows, blocks, work, unit, client, other in lines:
        assert number[rows] * row * 1e-6 / 100 / seconds[unit] == pytest.approx(
            float(work), abs=0.5
        )
        passes = number[blocks] * block * 1e-3 * 4 / seconds[other]
        assert passes == pytest.approx(float(client), abs=0.5)
