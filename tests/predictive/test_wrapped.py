"""Wrappers of predictions forward every public member, and change an answer only on purpose."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats

import fastmcmd as fm
from fastmcmd.evaluation.context import Memo
from fastmcmd.predictive import Predictive, as_predictive
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.numerics.closed_scores import CDFPiece
from fastmcmd.predictive.truncated import Truncated
from fastmcmd.predictive.wrapped import Wrapped
from fastmcmd.predictive.zero_inflated import ZeroInflated
from fastmcmd.recalibration import MonotoneMap, RecalibratedCDF
from fastmcmd.recalibration.atoms import RecalibratedAtoms
from fastmcmd.recalibration.rescaled import Rescaled

FLAGS = {"discrete", "has_density", "has_inverse"}
MEMBERS = {name for name in dir(Predictive) if not name.startswith("_")} | {"mean", "std"}


class Recorder(Predictive):
    """Base prediction that answers each question with the question."""

    def __getattribute__(self, name):
        if name.startswith("_") or name in FLAGS:
            return super().__getattribute__(name)
        if inspect.isfunction(vars(Predictive).get(name)):
            return lambda *args, **kwargs: (name, args, kwargs)
        return name


Recorder.__abstractmethods__ = frozenset()


@pytest.mark.parametrize("name", sorted(MEMBERS - FLAGS))
@pytest.mark.parametrize("kind", [Wrapped, Memo])
def test_every_public_member_is_forwarded(kind, name):
    """A member added to `Predictive` later is forwarded, or fails here."""
    base = Recorder()
    wrapper = Wrapped(base) if kind is Wrapped else Memo(base, np.zeros(3))
    member = vars(Predictive).get(name)
    if not inspect.isfunction(member):
        assert getattr(wrapper, name) == name
        return
    count = len(inspect.signature(member).parameters) - 1
    arguments = tuple(np.full(2, float(place)) for place in range(count))
    if kind is Memo and name == "cdf_below":
        name = "cdf"  # of a base without atoms these are the same numbers
    member_name, args, kwargs = getattr(wrapper, member.__name__)(*arguments)
    assert member_name == name
    assert all(one is other for one, other in zip(args, arguments, strict=True))
    assert kwargs == {}


@pytest.mark.parametrize("flag", sorted(FLAGS))
@pytest.mark.parametrize("value", [False, True])
def test_flags_are_those_of_the_base(flag, value):
    base = Recorder()
    setattr(base, flag, value)
    assert getattr(Wrapped(base), flag) == value


SMOOTH = {
    "gaussian": fm.Gaussian([0.3, -1.0, 5.0], [1.0, 2.0, 0.5]),
    "student": fm.StudentT([7.0, 9.0, 30.0], [0.3, -1.0, 5.0], 1.0),
    "scipy": as_predictive(stats.laplace([0.3, -1.0, 5.0]), 3),
}
COUNTS = {
    "poisson": fm.Poisson([0.3, 4.0, 60.0]),
    "negative binomial": fm.NegativeBinomial([0.3, 4.0, 60.0], [2.0, 0.5, 0.1]),
}
IDENTITY = MonotoneMap(np.array([0.0, 0.4, 1.0]), np.array([0.0, 0.4, 1.0]))
UNCHANGED = {
    "memo": lambda base: Memo(base, np.array([0.5, -1.0, 4.0])),
    "wrapped": Wrapped,
    "mixture": lambda base: Mixture([base, base], [0.25, 0.75]),
    "truncated": lambda base: Truncated(base, -np.inf, np.inf),
    "zero-inflated": lambda base: ZeroInflated(base, 0.0),
    "recalibrated": lambda base: RecalibratedCDF(base, IDENTITY),
    "rescaled": lambda base: Rescaled(base, 1.0),
    "recalibrated atoms": lambda base: RecalibratedAtoms(base, IDENTITY),
}
CASES = [
    (wrapper, base)
    for wrapper in UNCHANGED
    for base in (*SMOOTH, *COUNTS)
    if not (wrapper == "rescaled" and base in COUNTS)
    and (wrapper == "recalibrated atoms") <= (base in COUNTS)
    and not (wrapper == "recalibrated" and base in COUNTS)
]


@pytest.mark.slow
@pytest.mark.parametrize(("wrapper", "base"), CASES)
def test_a_wrapper_that_changes_nothing_answers_as_its_base(wrapper, base):
    """Every public member agrees; expectations do wherever nodes are the same."""
    base = {**SMOOTH, **COUNTS}[base]
    wrapped = UNCHANGED[wrapper](base)
    y, levels = np.array([1.0, -1.0, 7.0]), np.array([0.01, 0.3, 0.5, 0.97])
    by_row = np.array([[0.1, 0.6], [0.2, 0.7], [0.3, 0.8]])
    kernel, points, rows = fm.RBF(0.4), np.array([-1.0, 0.5, 4.0]), np.array([2, 0])
    of_base, of_wrapped = [
        {
            "mean": one.mean,
            "variance": one.variance,
            "std": one.std,
            "cdf": one.cdf(y),
            "cdf_below": one.cdf_below(y),
            "cdf_bounds": np.stack(one.cdf_bounds(y)),
            "sf": one.sf(y),
            "log_prob": one.log_prob(y),
            "log_densities": one.log_densities(by_row, rows=np.arange(3)),
            "quantile": one.quantile(levels),
            "quantiles_at": one.quantiles_at(by_row),
            "upper_quantiles_at": one.upper_quantiles_at(by_row),
            "crps": one.crps(y),
            "scored_quantiles": np.column_stack(one.scored_quantiles(y, levels)),
            "densities": one.densities(np.arange(3), by_row),
            "expected_kernel": one.expected_kernel(kernel, points),
            "take": one.take(rows).cdf(0.5),
            "outcomes": one.outcomes(y),
            "sample": np.array(one.sample(3, 0).shape),
            "nodes": np.einsum("nl,nl->n", *one.nodes()),
            "coarse_nodes": np.einsum("nl,nl->n", *one.coarse_nodes()),
            "nodes_within": np.einsum("nl,nl->n", *one.nodes_within(0.2)),
        }
        for one in (base, wrapped)
    ]
    for name, expected in of_base.items():
        loose = name in ("coarse_nodes", "expected_kernel", "nodes", "nodes_within")
        np.testing.assert_allclose(
            of_wrapped[name], expected, rtol=1e-6 if loose else 1e-9, atol=1e-9, err_msg=name
        )
    assert (wrapped.shape, wrapped.columns, len(wrapped)) == (base.shape, base.columns, len(base))
    assert (wrapped.discrete, wrapped.has_density) == (base.discrete, base.has_density)
    for support in (wrapped.support(),):
        assert support is None or np.allclose(support[1].sum(axis=1), 1)
    for closed in (wrapped.closed_form(kernel, points[:, None]),):
        assert closed is None or np.allclose(closed, of_base["expected_kernel"], atol=1e-9)
    if (pairs := wrapped.closed_form_pairs(kernel, base)) is not None:
        assert pairs.shape == (3, 3)
    if (row_pairs := wrapped.closed_form_rows(kernel, base)) is not None:
        assert row_pairs.shape == (3,)
    if (parts := wrapped.gaussian_parts()) is not None:
        np.testing.assert_allclose(sum(weights for weights, _ in parts), 1.0)
    assert wrapped.node_count == wrapped.nodes()[1].shape[1]
    assert wrapped.node_count_within(0.2) == wrapped.nodes_within(0.2)[1].shape[1]
    assert wrapped.mirrored() is None or base.mirrored() is not None
    assert base.atomless or not wrapped.atomless
    members = {
        *of_base,
        "shape",
        "columns",
        "support",
        "closed_form",
        "node_count",
        "gaussian_parts",
    }
    assert wrapped.exact_nodes == base.exact_nodes
    assert ((wrapped.rough_levels > 0) & (wrapped.rough_levels < 1)).all()
    if (parts := wrapped.weighted_parts()) is not None:
        np.testing.assert_allclose(sum(weights for weights, _ in parts), 1.0)
    members |= {"closed_form_pairs", "closed_form_rows", "atomless", "exact_nodes", "rough_levels"}
    members |= {"weighted_parts", "has_quick_quantiles", "node_count_within", "mirrored"}
    assert wrapped.has_quick_quantiles <= base.has_quick_quantiles
    members |= {"kinks", "panel_edges", "shares_panels", "masses_outside", "ends"}
    if wrapped.ends() is not None:  # tests/predictive/test_separate_parts.py
        np.testing.assert_array_equal(wrapped.ends(), base.ends())
    below, upto = wrapped.jump_levels()
    assert below.shape == wrapped.atoms().shape
    assert (below <= upto).all()
    if base.atomless:  # atoms of a wrapper have no mass here
        np.testing.assert_allclose(upto, below, rtol=0, atol=1e-12)
    members |= {"atoms", "jump_levels"}
    few = np.array([[0.2, 0.4]])
    for one, expected in zip(wrapped.panel_quantiles(few), base.panel_quantiles(few), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9)
    members.add("panel_quantiles")
    for one, expected in zip(wrapped.cdf_and_sf(y), (base.cdf(y), base.sf(y)), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9)
    masses, low, high = wrapped.interval_masses(y - 0.5, y + 1.5), y - 0.5, y + 1.5
    expected = (
        base.cdf(low),
        base.sf(low),
        base.cdf(high),
        base.sf(high),
        base.cdf(high) - base.cdf(low),
    )
    for one, mass in zip(masses, expected, strict=True):
        np.testing.assert_allclose(one, mass, rtol=1e-9, atol=1e-9)
    members |= {"interval_masses", "cdf_and_sf", "piece_scores"}
    piece = CDFPiece(y - 1, y + 2, *np.full((3, 3), [[0.2], [0.7], [0.1]]))
    pieces, expected = wrapped.piece_scores(y, piece), base.piece_scores(y, piece)
    if pieces is not None:
        np.testing.assert_allclose(pieces, expected, rtol=1e-9, atol=1e-9)
    if wrapper in ("memo", "wrapped", "truncated"):
        assert (pieces is None) == (expected is None)
    members |= {"clipped_scores", "inflated_scores"}
    pieces, expected = wrapped.clipped_scores(y, y - 1, y + 2), base.clipped_scores(y, y - 1, y + 2)
    if pieces is not None and expected is not None:
        np.testing.assert_allclose(pieces, expected, rtol=1e-9, atol=1e-9)
    mass = np.full(len(base), 0.4)
    inflated = wrapped.inflated_scores(y, mass), base.inflated_scores(y, mass)
    np.testing.assert_allclose(*inflated, rtol=1e-9, atol=1e-9)
    ends = base.quantile(0.2), base.quantile(0.9)
    for outside, expected in zip(
        wrapped.masses_outside(*ends), base.masses_outside(*ends), strict=True
    ):
        np.testing.assert_allclose(outside, expected, rtol=1e-6 if loose else 1e-9)
    np.testing.assert_allclose(base.masses_outside(*ends), (base.cdf(ends[0]), base.sf(ends[1])))
    outcomes, levels = base.quantile([0.3, 0.6]), np.tile([0.2, 0.7], (3, 1))
    expected_pair = base.scored_row_quantiles(outcomes, levels)
    for one, expected in zip(
        wrapped.scored_row_quantiles(outcomes, levels), expected_pair, strict=True
    ):
        np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-9)
    members.add("scored_row_quantiles")
    members.add("density_terms")  # tests/predictive/test_density_terms.py
    if wrapper not in ("zero-inflated", "recalibrated"):  # have further jumps
        np.testing.assert_allclose(base.kinks(), np.unique(wrapped.kinks(), axis=1))
    if not base.discrete:
        edges, low, high = wrapped.panel_edges(1e-6)
        assert (np.diff(edges, axis=1) >= 0).all()
        assert (low < base.quantile(1e-5)).all()
        assert (high > base.quantile(1 - 1e-5)).all()
    assert members == MEMBERS - FLAGS


def test_counts_far_out_where_the_survival_function_has_few_digits():
    """475 counts had 1e-10 of the tail: the cdf moved in steps of .05."""
    low, high = 1683284443164.0, 1683284443639.0
    prediction = fm.Truncated(fm.NegativeBinomial([2102414807.9267], 61588.083861983476), low, high)
    y = [1683284443614.0]  # the values below are mpmath's
    np.testing.assert_allclose(prediction.cdf(y), 0.94747899160376595, rtol=1e-10)
    np.testing.assert_allclose(prediction.cdf_below(y), 0.94537815126790015, rtol=1e-10)
    np.testing.assert_allclose(prediction.sf(y), 0.052521008396176609, rtol=1e-10)
    np.testing.assert_allclose(prediction.log_prob(y), -6.1654178543593004, rtol=1e-10)
    np.testing.assert_allclose(prediction.mean - low, 237.5, rtol=1e-6)
    assert low <= prediction.sample(5, 0).min() <= prediction.sample(5, 0).max() <= high


def test_few_counts_of_a_tail():
    base = fm.Poisson([5.0])
    prediction = fm.Truncated(base, 40.0, 45.5)
    values = np.arange(40.0, 46.0)
    masses = np.exp([base.log_prob([value])[0] for value in values])
    masses /= masses.sum()
    np.testing.assert_allclose(prediction.mean, masses @ values)
    np.testing.assert_allclose(prediction.cdf([42.2]), masses[:3].sum())
    np.testing.assert_allclose(prediction.cdf_below([42.0]), masses[:2].sum())
    np.testing.assert_allclose(prediction.nodes(), (values[None], masses[None]), rtol=1e-12)
    for y in (38.0, 41.3, 44.0, 60.0):
        spread = masses @ np.abs(values[:, None] - values) @ masses
        np.testing.assert_allclose(
            prediction.crps([y]), masses @ np.abs(values - y) - spread / 2, rtol=1e-12
        )
