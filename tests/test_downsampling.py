"""The CCE from subsamples agrees with the same rows by hand, and is drawn without bias."""

from __future__ import annotations

import json

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd import subsample
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.backends import get_backend
from fastmcmd.downsampling import downsampled_cce

N = 150
METHODS = ("uniform", "stratified", "leverage")


@pytest.fixture
def data(rng):
    x = rng.normal(size=(N, 2))
    y = x[:, 0] + 0.5 * rng.normal(size=N)
    return x, y, fm.Gaussian(x[:, 0], 0.9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
def test_each_repeat_is_the_cce_of_its_rows(data, rng, method, weighted):
    x, y, prediction = data
    row_weights = rng.uniform(0.5, 2, N) if weighted else np.ones(N)
    at = rng.normal(size=(20, 2))
    result = downsampled_cce(
        x, y, prediction, 43, method=method, repeats=3, at=at, random_state=1,
        weights=row_weights if weighted else None, x_kernel="paper", y_kernel="paper")  # fmt: skip
    y_kernel = fm.RBF(1 / (2 * y.var(ddof=1)))  # of all rows, not of the subsample
    by_hand = [
        fm.cce(
            x[rows], y[rows], fm.Gaussian(x[rows, 0], 0.9), at=at, y_kernel=y_kernel,
            weights=share * row_weights[rows], x_kernel="paper").values
        for rows, share in zip(result.rows, result.weights, strict=True)
    ]  # fmt: skip
    np.testing.assert_allclose(result.values, np.mean(by_hand, axis=0), rtol=1e-12)
    np.testing.assert_allclose(result.std, np.std(by_hand, axis=0, ddof=1), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(result.means, np.mean(by_hand, axis=1), rtol=1e-12)
    assert result.mean == pytest.approx(np.mean(by_hand), rel=1e-12)
    assert result.mean_std == pytest.approx(np.mean(by_hand, axis=1).std(ddof=1), rel=1e-9)
    for rows in result.rows:
        assert len(np.unique(rows)) == 43
        assert (np.diff(rows) > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_against_the_plain_definition(data, rng, method):
    x, y, _ = data
    draws = x[:, 0] + rng.normal(size=N)
    x_kernel, y_kernel = fm.RBF("median"), fm.RBF("variance")
    result = downsampled_cce(
        x, y, draws, 40, method=method, repeats=2, random_state=0, x_kernel=x_kernel,
        y_kernel=y_kernel, lam=0.05,
    )  # fmt: skip
    plain = [
        oracle.mcmd(
            x, x[rows], y[rows], x[rows], draws[rows], x_kernel.resolve(x), y_kernel.resolve(y),
            lam=0.05, weights=share, weights_prime=share,
        )
        for rows, share in zip(result.rows, result.weights, strict=True)
    ]  # fmt: skip
    assert result.error_bound <= 1e-6
    np.testing.assert_allclose(result.values, np.mean(plain, axis=0), atol=1e-6)
    np.testing.assert_allclose(result.std, np.std(plain, axis=0, ddof=1), atol=2e-6)


def test_error_bound_is_the_largest_of_any_repeat(data):
    x, y, prediction = data
    result = downsampled_cce(
        x, y, prediction, 50, repeats=3, random_state=0, x_kernel="paper", y_kernel="paper"
    )
    y_kernel = fm.RBF("variance").resolve(y[:, None])
    bounds = [
        fm.cce(
            x[r], y[r], prediction.take(r), at=x, y_kernel=y_kernel, x_kernel="paper"
        ).error_bound
        for r in result.rows
    ]
    assert result.error_bound == max(bounds)
    assert result.certificate == "rigorous"


@pytest.mark.parametrize("method", METHODS)
def test_the_whole_sample_is_the_full_estimate(data, method):
    x, y, prediction = data
    result = downsampled_cce(x, y, prediction, N, method=method, repeats=3, random_state=5)
    np.testing.assert_array_equal(result.values, fm.cce(x, y, prediction).values)
    np.testing.assert_array_equal(result.std, 0)
    assert result.mean_std == 0
    np.testing.assert_array_equal(result.rows, np.broadcast_to(np.arange(N), (3, N)))


@pytest.mark.parametrize("method", METHODS)
def test_seeds(data, method):
    x, y, prediction = data

    def run(repeats, random_state):
        return downsampled_cce(
            x, y, prediction, 30, method=method, repeats=repeats, random_state=random_state, draws=1
        )

    result, again, fewer = run(4, 7), run(4, 7), run(2, 7)
    np.testing.assert_array_equal(result.values, again.values)
    np.testing.assert_array_equal(result.std, again.std)
    np.testing.assert_array_equal(result.rows[:2], fewer.rows)
    np.testing.assert_array_equal(result.means[:2], fewer.means)
    assert len(np.unique(result.means)) == 4
    assert (run(4, 8).rows != result.rows).any()
    stream = generator(7, Purpose.DOWNSAMPLING)
    np.testing.assert_array_equal(run(2, stream).means, fewer.means)
    assert (run(2, stream).means != fewer.means).any()  # the generator moved on


@given(
    st.lists(st.integers(1, 500), min_size=1, max_size=30).flatmap(
        lambda counts: st.tuples(st.just(counts), st.integers(0, sum(counts)))
    )
)
def test_allocation(case):
    counts, size = np.array(case[0]), case[1]
    sizes = subsample.proportional(counts, size)
    quota = counts * size / counts.sum()
    assert sizes.sum() == size
    assert (sizes <= counts).all()
    assert (np.abs(sizes - quota) < 1 + 1e-9).all()


def test_strata_are_intervals_of_the_outputs(data):
    x, y, prediction = data
    result = downsampled_cce(
        x, y, prediction, 47, method="stratified", strata=6, repeats=3, random_state=0
    )
    place = np.argsort(np.argsort(y)) // (N // 6)
    stratum_sizes = np.array([np.bincount(place[rows], minlength=6) for rows in result.rows])
    np.testing.assert_array_equal(stratum_sizes, np.broadcast_to([8, 8, 8, 8, 8, 7], (3, 6)))
    # Each stratum weighs what it weighs among all rows.
    for rows, share in zip(result.rows, result.weights, strict=True):
        total = np.bincount(place[rows], weights=share)
        np.testing.assert_allclose(total, 47 / 6)
    one = downsampled_cce(x, y, prediction, 48, method="stratified", strata=6, repeats=1)
    np.testing.assert_array_equal(one.weights, 1)


def test_equal_outputs_are_as_probable_as_each_other(rng):
    """Ties go to neighbouring strata at random: none of them is preferred."""
    y = np.repeat([0.0, 1.0], [35, 25])
    sampler = subsample.stratified(y, 14, 4)
    counts, hits = np.zeros(60), np.zeros(60)
    totals = []
    for _ in range(3000):
        rows, weights = sampler(rng)
        counts[rows] += weights
        hits[rows] += 1
        totals.append(np.bincount(y[rows].astype(int), weights=weights, minlength=2))
    expected = 14 / 60  # the weighted count of each row
    assert np.abs(counts / 3000 - expected).max() < 4.5 * np.sqrt(expected / 3000)
    # Strata of 15 give 4, 4, 3, 3 rows; the third one is a third zeros.
    chance = np.repeat([9 / 35, 5 / 25], [35, 25])
    assert np.abs(hits / 3000 - chance).max() < 4.5 * np.sqrt(0.25 * 0.75 / 3000)
    off = np.mean(totals, axis=0) - np.array([35, 25]) * 14 / 60
    assert (np.abs(off) < 4 * np.std(totals, axis=0) / np.sqrt(3000) + 1e-12).all()


def test_vector_outputs_are_stratified_along_their_main_direction(rng):
    main = rng.permutation(N)
    y = np.outer(main, [3.0, 4.0]) / 5 + 0.1 * rng.normal(size=(N, 2)) + [100, -7]
    position = subsample.along(y)
    assert abs(np.corrcoef(position, main)[0, 1]) > 0.9999
    result = downsampled_cce(
        rng.normal(size=N), y, y + rng.normal(size=y.shape), 30, method="stratified", strata=3,
        repeats=2, random_state=0,
    )  # fmt: skip
    for rows in result.rows:
        np.testing.assert_array_equal(np.bincount(main[rows] // 50), [10, 10, 10])


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=60), st.floats(0, 1))
def test_inclusion_probabilities(density, part):
    density = np.array(density) / np.sum(density)
    size = 1 + int(part * (len(density) - 1))
    chance = subsample.inclusion(density, size)
    assert chance.sum() == pytest.approx(size, rel=1e-7)
    assert (chance <= 1).all()
    assert (chance > 0).all()
    free = chance < 1
    if free.any():
        ratio = chance[free] / density[free]
        np.testing.assert_allclose(ratio, ratio[0])
        assert (density[~free] * ratio[0] >= 1 - 1e-6).all()  # certain only where needed


@pytest.mark.slow
def test_systematic_draws_have_their_probabilities(rng):
    chance = subsample.inclusion(rng.exponential(size=40), 12)
    assert (chance == 1).any()
    counts, trials = np.zeros(40), 20_000
    for _ in range(trials):
        rows = subsample.systematic(chance, 12, rng)
        assert len(rows) == 12
        counts[rows] += 1  # distinct: a repeated row would be counted once and the sum be short
    assert counts.sum() == 12 * trials
    sure = chance == 1
    assert (counts[sure] == trials).all()
    z = (counts / trials - chance)[~sure] / np.sqrt(chance * (1 - chance) / trials)[~sure]
    assert np.abs(z).max() < 4
    assert 0.3 < np.mean(z**2) < 2


def test_systematic_draws_meet_every_pair(rng):
    """In a fixed order neighbours would never be drawn together."""
    samples = [tuple(subsample.systematic(np.full(4, 0.5), 2, rng)) for _ in range(600)]
    pairs, counts = np.unique(samples, axis=0, return_counts=True)
    assert len(pairs) == 6
    assert counts.min() > 60


@pytest.mark.parametrize("weighted", [False, True])
def test_leverage_scores_from_all_rows_are_exact(data, rng, weighted):
    x = data[0]
    weights = rng.uniform(0.1, 3, N) if weighted else None
    w = np.ones(N) if weights is None else weights
    for kernel in (fm.Polynomial(degree=3, gamma=0.5, coef0=1.0), fm.RBF(0.7), fm.Laplacian(2.0)):
        gram = oracle.gram(kernel, x, x)
        exact = np.diag(np.linalg.solve(gram + np.diag(w.sum() * 0.1 / w), gram).T)
        leverages = subsample.leverage_scores(
            x, weights, kernel, get_backend("auto", kernel), 0.1, rng
        )
        np.testing.assert_allclose(leverages, exact, rtol=1e-6)


def test_leverage_scores_from_landmarks(rng, monkeypatch):
    """Values are nearly exact, and a row unlike all landmarks does not count as impossible."""
    monkeypatch.setattr(subsample, "_LANDMARKS", 60)
    x = rng.normal(size=(400, 1))
    x[-1] = 50.0
    kernel = fm.RBF(0.5)
    gram = oracle.gram(kernel, x, x)
    exact = np.diag(np.linalg.solve(gram + 400 * 1e-3 * np.eye(400), gram))
    leverages = subsample.leverage_scores(x, None, kernel, get_backend("auto", kernel), 1e-3, rng)
    assert np.max(np.abs(leverages / exact - 1)) < 0.05
    assert leverages[-1] == pytest.approx(1 / 1.4, rel=1e-6)


def test_leverage_weights_undo_the_probabilities(rng):
    """The weighted covariance of the features has that of all rows as its expectation."""
    x = np.concatenate([rng.normal(size=(180, 1)), 4 + rng.normal(size=(20, 1))])
    kernel = fm.Polynomial(degree=1, gamma=1.0, coef0=1.0)
    phi = np.concatenate([np.ones((200, 1)), x], axis=1)
    sampler = subsample.leverage(
        x, None, kernel, get_backend("auto", kernel), 0.1, 25, np.random.default_rng(0)
    )
    weighted, plain = [], []
    for _ in range(4000):
        rows, weights = sampler(rng)
        assert weights.max() <= 2 + 1e-9
        weighted.append((phi[rows].T * weights) @ phi[rows] / 25)
        plain.append(phi[rows].T @ phi[rows] / 25)
    target = phi.T @ phi / 200
    error = np.std(weighted, axis=0) / np.sqrt(4000)
    assert (np.abs(np.mean(weighted, axis=0) - target) < 4 * error).all()
    # Without weights it would be another covariance.
    assert (np.abs(np.mean(plain, axis=0) - target)[1] > 20 * error[1]).all()


def test_leverage_estimate_is_of_all_rows(rng):
    """If rare inputs are drawn often, the weighted estimate stays that of all rows."""
    x = np.concatenate([rng.normal(size=560), 4 + rng.normal(size=40)])
    y = 0.3 * rng.normal(size=600)
    prediction = fm.Gaussian(np.where(x > 2.5, 0.6, 0.0), 0.4)
    full = fm.cce(x, y, prediction, x_kernel=fm.RBF(0.05), y_kernel="paper", lam=0.1).values
    result = downsampled_cce(
        x,
        y,
        prediction,
        200,
        method="leverage",
        repeats=30,
        random_state=0,
        x_kernel=fm.RBF(0.05),
        y_kernel="paper",
        lam=0.1,
    )
    y_kernel = fm.RBF("variance").resolve(y[:, None])
    without = np.mean(
        [
            fm.cce(
                x[r],
                y[r],
                prediction.take(r),
                at=x,
                x_kernel=fm.RBF(0.05),
                y_kernel=y_kernel,
                lam=0.1,
            ).values
            for r in result.rows
        ],
        axis=0,
    )
    off, off_without = np.abs(result.values - full).mean(), np.abs(without - full).mean()
    assert off < 0.5 * off_without


def test_kernel_that_is_zero_somewhere_still_reaches_all_rows(rng):
    x = np.concatenate([np.zeros(20), np.ones(20)])
    kernel = fm.Linear()
    scores = subsample.leverage_scores(
        x[:, None], None, kernel, get_backend("auto", kernel), 0.1, rng
    )
    np.testing.assert_allclose(scores[:20], 0, atol=1e-15)
    y = x + rng.normal(size=40)
    result = downsampled_cce(
        x,
        y,
        fm.Gaussian(x, 1.0),
        12,
        method="leverage",
        repeats=40,
        random_state=0,
        x_kernel=kernel,
    )
    assert len(np.unique(result.rows)) == 40


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_zero_weight_are_never_drawn(data, method):
    x, y, prediction = data
    weights = np.where(np.arange(N) % 3 == 0, 2.0, 0.0)
    result = downsampled_cce(
        x, y, prediction, 20, method=method, repeats=4, random_state=0, weights=weights
    )
    assert (result.rows % 3 == 0).all()
    assert result.n == 50
    assert len(result) == N
    every = downsampled_cce(
        x, y, prediction, 50, method=method, repeats=2, random_state=0, weights=weights
    )
    np.testing.assert_allclose(
        every.values, fm.cce(x, y, prediction, weights=weights).values, atol=2e-9
    )
    with pytest.raises(ValueError, match=r"size is 51; an integer in \[2, 50\]"):
        downsampled_cce(x, y, prediction, 51, method=method, weights=weights)


def test_encoder_and_points(data):
    x, y, prediction = data
    calls = []

    def encoder(inputs):
        calls.append(len(inputs))
        return np.asarray(inputs)[:, :1]

    at = np.linspace(-1, 1, 5)
    result = downsampled_cce(
        x, y, prediction, 30, repeats=3, random_state=0, encoder=encoder, at=np.c_[at, at]
    )
    plain = downsampled_cce(x[:, 0], y, prediction, 30, repeats=3, random_state=0, at=at)
    np.testing.assert_array_equal(result.values, plain.values)
    assert calls == [N, 5]  # once, not in each repeat


def test_inputs_are_left_alone(data):
    x, y, _ = data
    draws = y[:, None] + [[0.1, -0.1]]
    arrays = (x, y, draws, np.full(N, 2.0))
    before = [array.copy() for array in arrays]
    for method in METHODS:
        downsampled_cce(x, y, draws, 20, method=method, repeats=1, weights=arrays[3])
    for array, was in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_one_repeat_knows_no_spread(data):
    result = downsampled_cce(*data, 20, repeats=1, random_state=0)
    assert np.isnan(result.std).all()
    assert np.isnan(result.mean_std)
    assert "spread unknown: one repeat" in repr(result)
    as_json = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert as_json["mean_std"] is None
    assert as_json["std_max"] is None
    assert not result.plot().collections  # no band
    plt.close("all")


def test_what_a_result_tells(data):
    x = data[0]
    result = downsampled_cce(*data, 60, method="stratified", repeats=4, random_state=0)
    np.testing.assert_array_equal(np.asarray(result), result.values)
    assert np.asarray(result, dtype=np.float32).dtype == np.float32
    assert len(result) == N
    assert result.repeats == 4
    assert result.size == 60
    text = repr(result)
    assert f"at 150 points: mean {result.mean:.6g} (std {result.mean_std:.2g}" in text
    assert "60 of 150 rows, stratified, 4 repeats" in text
    as_json = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert as_json["means"] == result.means.tolist()
    assert as_json["mean"] == pytest.approx(np.mean(result.means))
    assert as_json["q50"] == np.median(result.values)
    ax = result.plot()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), np.sort(result.values))
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == (result.values + result.std).max()
    for inputs in (x, x[:, 0]):
        ax = result.plot(inputs, label="60 rows", colour="k")
        assert len(ax.lines[0].get_xdata()) == 15
        assert ax.get_legend().get_texts()[0].get_text() == "60 rows"
    with pytest.raises(ValueError, match="rows must match"):
        result.plot(x[:3])
    plt.close("all")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"size": 1}, ValueError, r"size is 1; an integer in \[2, 150\]"),
        ({"size": N + 1}, ValueError, r"size is 151; an integer in \[2, 150\]"),
        ({"size": 10.0}, TypeError, "size is 10.0; an integer"),
        ({"size": True}, TypeError, "size is True"),
        ({"method": "random"}, ValueError, "method is 'random'; one of 'uniform', 'stratified'"),
        ({"method": None}, ValueError, "method is None"),
        ({"repeats": 0}, ValueError, "repeats is 0; a positive integer is needed"),
        ({"repeats": 2.5}, TypeError, "repeats is 2.5"),
        ({"method": "stratified", "strata": 0}, ValueError, r"strata is 0; .* in \[1, 20\]"),
        ({"method": "stratified", "strata": 21}, ValueError, r"strata is 21; .* in \[1, 20\]"),
        ({"method": "stratified", "strata": "5"}, TypeError, "strata is '5'"),
        ({"lam": 0}, ValueError, "lam is 0"),
        ({"tol": 0}, ValueError, "tol is 0"),
        ({"draws": 0}, ValueError, "draws is 0"),
        ({"x_kernel": "rbf"}, ValueError, "x_kernel is 'rbf'"),
        ({"weights": np.ones(3)}, ValueError, r"weights has shape \(3,\)"),
        ({"at": np.ones((5, 3))}, ValueError, "at has 3 columns; 2 are needed"),
        ({"y": np.ones(N + 1)}, ValueError, "x has 150, y has 151"),
        ({"prediction": fm.Gaussian(np.zeros(3), 1.0)}, ValueError, "prediction has 3 rows"),
    ],
)
def test_bad_input(data, change, error, message):
    arguments = dict(zip(("x", "y", "prediction"), data, strict=True)) | {"size": 20}
    with pytest.raises(error, match=message):
        downsampled_cce(**(arguments | change))
