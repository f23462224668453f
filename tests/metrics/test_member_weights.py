"""Scores of draws with weights of members, pairs and outcomes agree with definitions and peers."""

from __future__ import annotations

import numpy as np
import peers
import pytest

import fastmcmd as fm
from fastmcmd import metrics

N, M, K = 6, 7, 3
VECTOR_ESTIMATORS = ["nrg", "fair", "akr", "akr_circperm"]


@pytest.fixture
def vectors(rng):
    weights = rng.uniform(size=(N, M))
    weights[0, 2] = 0.0
    return rng.normal(size=(N, K)), rng.normal(size=(N, M, K)), weights


def _kernel_score(distance, y, draws, weights, estimator):
    """Return ``sum w_i d(x_i, y) - E d(X, X') / 2``, row by row."""
    scores = []
    for outcome, points, one in zip(y, draws, weights, strict=True):
        w = one / one.sum()
        near = sum(w[i] * distance(points[i], outcome) for i in range(M))
        if estimator in ("nrg", "fair"):
            apart = sum(
                w[i] * w[j] * distance(points[i], points[j]) for i in range(M) for j in range(M)
            )
            apart /= 1 - (w**2).sum() if estimator == "fair" else 1
        else:
            back = 1 if estimator == "akr" else M // 2
            apart = sum(w[i] * distance(points[i], points[i - back]) for i in range(M))
        scores.append(near - apart / 2)
    return np.array(scores)


@pytest.mark.parametrize("estimator", VECTOR_ESTIMATORS)
def test_energy_score(vectors, estimator):
    y, draws, weights = vectors
    beta = 1.3
    expected = _kernel_score(
        lambda a, b: np.linalg.norm(a - b) ** beta, y, draws, weights, estimator
    )
    options = {"beta": beta, "estimator": estimator}
    scores = metrics.energy_score(y, draws, ens_weight=weights, **options)
    np.testing.assert_allclose(scores, expected, rtol=1e-11)
    np.testing.assert_allclose(  # only the ratio of weights counts
        metrics.energy_score(y, draws, ens_weight=1e300 * weights, **options), expected, rtol=1e-11
    )
    equal = metrics.energy_score(y, draws, **options)
    same = metrics.energy_score(y, draws, ens_weight=np.full(M, 3.0), **options)
    np.testing.assert_allclose(same, equal, rtol=1e-11)


@pytest.mark.parametrize("estimator", ["nrg", "fair"])
def test_variogram_score(vectors, estimator):
    y, draws, weights = vectors
    pairs = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5], [2.0, 0.5, 0.0]])
    p = 0.7

    def distance(a, b):
        one, other = (np.abs(v[:, None] - v) ** p for v in (a, b))
        return (pairs * (one - other) ** 2).sum()

    expected = _kernel_score(distance, y, draws, weights, estimator)
    options = {"p": p, "weights": pairs, "estimator": estimator}
    scores = metrics.variogram_score(y, draws, ens_weight=weights, **options)
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
    equal = metrics.variogram_score(y, draws, **options)
    same = metrics.variogram_score(y, draws, ens_weight=np.ones((N, M)), **options)
    np.testing.assert_allclose(same, equal, rtol=1e-10)


@pytest.mark.parametrize("estimator", VECTOR_ESTIMATORS)
def test_gaussian_kernel_score(vectors, estimator):
    y, draws, weights = vectors
    h = 0.8

    def distance(a, b):
        return 1 - np.exp(-np.sum((a - b) ** 2) / (2 * h * h))

    options = {"bandwidth": h, "estimator": estimator}
    expected = _kernel_score(distance, y, draws, weights, estimator)
    scores = metrics.gaussian_kernel_score(y, draws, ens_weight=weights, **options)
    np.testing.assert_allclose(scores, expected, rtol=1e-11)
    np.testing.assert_allclose(
        metrics.gaussian_kernel_score(y, draws, **options),
        _kernel_score(distance, y, draws, np.ones((N, M)), estimator),
        rtol=1e-11,
    )
    expected = _kernel_score(distance, y[:, 0], draws[:, :, 0], weights, estimator)
    for prediction, more in (
        (fm.WeightedDraws(draws[:, :, 0], weights), {}),
        (draws[:, :, 0], {"ens_weight": weights}),
    ):
        scores = metrics.gaussian_kernel_score(y[:, 0], prediction, **options, **more)
        np.testing.assert_allclose(scores, expected, rtol=1e-11)


def test_crps_from_pairs_with_weights(vectors):
    y, draws, weights = vectors
    y, draws = y[:, 0], draws[:, :, 0]
    prediction = fm.WeightedDraws(draws, weights)
    for estimator in ("akr", "akr_circperm"):
        expected = _kernel_score(lambda a, b: abs(a - b), y, draws, weights, estimator)
        scores = metrics.crps(y, prediction, estimator=estimator)
        np.testing.assert_allclose(scores, expected, rtol=1e-11)
        some = metrics.crps(y[[4, 1]], prediction.take(np.array([4, 1])), estimator=estimator)
        np.testing.assert_allclose(some, expected[[4, 1]], rtol=1e-11)
    np.testing.assert_array_equal(metrics.crps(y, prediction, estimator="int"), prediction.crps(y))
    draws[0, 1] = np.nan
    with pytest.raises(ValueError, match="missing members; estimator='akr' needs all"):
        metrics.crps(y, fm.WeightedDraws(draws, weights), estimator="akr")


@pytest.mark.parametrize(
    ("weighting", "prefix"), [("threshold", "tw"), ("outcome", "ow"), ("vertical", "vr")]
)
def test_weighted_gaussian_kernel_scores(vectors, weighting, prefix):
    sr = peers.imported("scoringrules")
    y, draws, weights = vectors
    score = metrics.weighted_gaussian_kernel_score
    theirs = getattr(sr, f"{prefix}gksuv_ensemble")
    ends = {"lower": -1.0, "upper": 1.5}
    numbers = y[:, 0], draws[:, :, 0]
    expected = theirs(*numbers, a=-1.0, b=1.5, backend="numpy")
    np.testing.assert_allclose(score(*numbers, weighting=weighting, **ends), expected, rtol=1e-11)
    expected = theirs(*numbers, a=-1.0, b=1.5, ens_w=weights, backend="numpy")
    for prediction, more in (
        (fm.WeightedDraws(numbers[1], weights), {}),
        (numbers[1], {"ens_weight": weights}),
    ):
        scores = score(numbers[0], prediction, weighting=weighting, **ends, **more)
        np.testing.assert_allclose(scores, expected, rtol=1e-11)
    if weighting == "threshold":
        option, function = "chaining", np.tanh
        one_vector = function
    else:
        option, function = "weight", lambda v: 1 / (1 + (v**2).sum(axis=-1))
        one_vector = function
    theirs = getattr(sr, f"{prefix}gksmv_ensemble")
    expected = theirs(y, draws, one_vector, ens_w=weights, backend="numpy")
    scores = score(y, draws, weighting=weighting, **{option: function}, ens_weight=weights)
    np.testing.assert_allclose(scores, expected, rtol=1e-11)
    plain = metrics.gaussian_kernel_score(y, draws, bandwidth=2.0)
    np.testing.assert_allclose(score(y, draws, weighting=weighting, bandwidth=2.0), plain)


def test_weighted_scores_of_vectors_with_member_weights(vectors):
    sr = peers.imported("scoringrules")
    y, draws, weights = vectors
    for ours, theirs in (
        (metrics.weighted_energy_score, sr.twes_ensemble),
        (metrics.weighted_variogram_score, sr.twvs_ensemble),
    ):
        expected = theirs(y, draws, np.tanh, ens_w=weights, backend="numpy")
        scores = ours(y, draws, chaining=np.tanh, ens_weight=weights)
        np.testing.assert_allclose(scores, expected, rtol=1e-11)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_scores_with_weights_at_any_scale(vectors, scale):
    y, draws, weights = vectors
    for score in (metrics.energy_score, metrics.variogram_score):  # homogeneous of degree 1
        scores = score(y * scale, draws * scale, ens_weight=weights, estimator="fair")
        expected = score(y, draws, ens_weight=weights, estimator="fair") * scale
        np.testing.assert_allclose(scores, expected, rtol=1e-10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("estimator", VECTOR_ESTIMATORS)
def test_kernel_scores_with_weights_at_any_scale(vectors, scale, estimator):
    y, draws, weights = vectors
    options = {"ens_weight": weights, "estimator": estimator}
    scores = metrics.gaussian_kernel_score(y * scale, draws * scale, bandwidth=scale, **options)
    expected = metrics.gaussian_kernel_score(y, draws, **options)
    np.testing.assert_allclose(scores, expected, rtol=1e-10)
    weighted = metrics.weighted_gaussian_kernel_score
    options = {"weighting": "vertical", "weight": lambda v: np.ones(v.shape[:-1])}
    scores = weighted(y * scale, draws * scale, bandwidth=scale, **options)
    np.testing.assert_allclose(scores, weighted(y, draws, **options), rtol=1e-10)


def test_rows_that_are_left_out(vectors):
    y, draws, weights = vectors
    expected = metrics.energy_score(y, draws, ens_weight=weights)
    y = y.copy()
    y[2, 1] = np.nan
    scores = metrics.energy_score(y, draws, ens_weight=weights, nan_policy="omit")
    assert np.isnan(scores[2])
    other_rows = np.delete(np.arange(N), 2)
    np.testing.assert_array_equal(scores[other_rows], expected[other_rows])


def test_dawid_sebastiani_of_vectors(rng, vectors):
    sr = peers.imported("scoringrules")
    y, draws, _ = vectors
    for ddof in (0, 1):
        expected = sr.dssmv_ensemble(y, draws, bias=ddof == 0, backend="numpy")
        scores = metrics.dawid_sebastiani(y, draws, ddof=ddof)
        np.testing.assert_allclose(scores, expected, rtol=1e-9)
        covariance = [np.cov(one.T, ddof=ddof) for one in draws]
        gap = y - draws.mean(axis=1)
        definition = [
            np.linalg.slogdet(c)[1] + g @ np.linalg.solve(c, g)
            for c, g in zip(covariance, gap, strict=True)
        ]
        np.testing.assert_allclose(scores, definition, rtol=1e-9)
        numbers = metrics.dawid_sebastiani(y[:, 0], draws[:, :, 0], ddof=ddof)
        expected = sr.dssuv_ensemble(y[:, 0], draws[:, :, 0], bias=ddof == 0, backend="numpy")
        np.testing.assert_allclose(numbers, expected, rtol=1e-9)
    mean = metrics.mean_dawid_sebastiani(y, draws, ddof=1)
    assert mean == pytest.approx(metrics.dawid_sebastiani(y, draws, ddof=1).mean())
    far = metrics.dawid_sebastiani(y * 1e200, draws * 1e200)
    shift = 2 * K * np.log(1e200)  # of the log determinant
    np.testing.assert_allclose(far - shift, metrics.dawid_sebastiani(y, draws), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda y, d, w: metrics.energy_score(y, d, ens_weight=w[:, :2]), r"ens_weight has shape \(6, 2\)"),
        (lambda y, d, w: metrics.energy_score(y, d, ens_weight=-w), "ens_weight holds negative"),
        (lambda y, d, w: metrics.energy_score(y, d, ens_weight=w * 0), "0 for all draws of row 0"),
        (lambda y, d, w: metrics.energy_score(y, d, ens_weight=w, draws=3), "prediction is draws already"),
        (lambda y, d, w: metrics.energy_score(y, (y, 1.0), ens_weight=w), "weights of members need draws"),
        (
            lambda y, d, w: metrics.variogram_score(
                y, d, ens_weight=[1.0] + [0.0] * (M - 1), estimator="fair"
            ),
            "row 0 has one; use 'nrg'",
        ),
        (
            lambda y, d, w: metrics.gaussian_kernel_score(y[:, 0], (y[:, 0], 1.0), estimator="akr"),
            "needs draws",
        ),
        (
            lambda y, d, w: metrics.weighted_gaussian_kernel_score(y, d, lower=0.0),
            "lower or upper is given, which is for numbers; vectors need chaining",
        ),
        (lambda y, d, w: metrics.dawid_sebastiani(y, d, ddof=2), "ddof is 2; 0 or 1"),
        (lambda y, d, w: metrics.dawid_sebastiani(y[:, 0], (y[:, 0], 1.0), ddof=1), "which is for draws"),
        (lambda y, d, w: metrics.dawid_sebastiani(y[:, 0], d[:, :1, 0], ddof=1), "at least two draws"),
        (lambda y, d, w: metrics.dawid_sebastiani(y, (y, 1.0)), r"needs draws \(n, m, k\)"),
        (lambda y, d, w: metrics.dawid_sebastiani(y, d[:, :3]), "3 draws in row 0 that do not span its 3"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit(vectors, call, message):
    with pytest.raises(ValueError, match=message):
        call(*vectors)


@pytest.mark.parametrize("weight", [1e-9, 1e-17, 1e-200])
def test_fair_score_with_a_member_of_hardly_any_weight(weight):
    """Two members give the fair score of two draws, whatever their weights: ``1 - sum w^2`` rounds to 0."""
    y, draws, weights = [0.5], [[0.0, 1.0]], [[1.0, weight]]
    distance = 1 - np.exp(-0.5)
    near, apart = 1 - np.exp(-0.125), distance
    weighted = fm.WeightedDraws(draws, weights)
    options = {"estimator": "fair"}
    for score in (
        metrics.gaussian_kernel_score(y, draws, ens_weight=weights, **options),
        metrics.gaussian_kernel_score(y, weighted, **options),
    ):
        np.testing.assert_allclose(score, near - apart / 2, rtol=1e-9)
    for score in (
        metrics.crps(y, weighted, **options),
        metrics.energy_score(y, draws, ens_weight=weights, **options),
    ):
        np.testing.assert_allclose(score, 0.0, atol=3 * weight + 1e-15)
    vectors = [[[0.0, 0.0], [1.0, 0.0]]]
    score = metrics.variogram_score([[0.5, 0.0]], vectors, p=1.0, ens_weight=weights, **options)
    np.testing.assert_allclose(score, 2 * 0.5**2 - 2 * 1**2 / 2, rtol=1e-8)


def test_rows_are_counted_with_those_left_out():
    y, draws, weights = [np.nan, 1.0, 1.0], [[1.0, 2.0]] * 3, [[1, 1], [1, 1], [1, 0]]
    vectors = [[one, one] for one in y], [[[1.0, 1.0], [2.0, 3.0]]] * 3
    weighted = fm.WeightedDraws(draws, weights)
    options = {"estimator": "fair", "nan_policy": "omit"}
    for call in (
        lambda: metrics.crps(y, weighted, **options),
        lambda: metrics.gaussian_kernel_score(y, weighted, **options),
        lambda: metrics.gaussian_kernel_score(y, draws, ens_weight=weights, **options),
        lambda: metrics.energy_score(*vectors, ens_weight=weights, **options),
        lambda: metrics.variogram_score(*vectors, ens_weight=weights, **options),
    ):
        with pytest.raises(fm.errors.RowError, match="row 2 has one") as caught:
            call()
        assert caught.value.row == 2


@pytest.mark.parametrize("score", ["crps", "gaussian_kernel_score", "energy_score"])
def test_functions_that_work_in_place(vectors, score):
    """Functions get a copy: y and the caller's draws stay, and the score is that of a pure function."""
    y, draws, _ = vectors
    if score == "crps":
        y, draws = y[:, 0].copy(), draws[:, :, 0].copy()

    def raised(values):
        values[values < 0] = 0.0
        return values

    before = y.copy(), draws.copy()
    weighted = getattr(metrics, f"weighted_{score}")
    expected = weighted(y, draws, chaining=lambda values: np.maximum(values, 0.0))
    np.testing.assert_array_equal(weighted(y, draws, chaining=raised), expected)
    np.testing.assert_array_equal(y, before[0])
    np.testing.assert_array_equal(draws, before[1])


@pytest.mark.parametrize("size", [1e-100, 1e150, 1e200])
@pytest.mark.parametrize("score", ["gaussian_kernel_score", "energy_score", "variogram_score"])
def test_vertical_scores_of_large_weights(vectors, score, size):
    """Scores grow with the square of the weights, to infinity and not to NaN."""
    y, draws, _ = vectors
    weighted = getattr(metrics, f"weighted_{score}")
    plain, scaled = (
        weighted(
            y,
            draws,
            weighting="vertical",
            weight=lambda v, size=one: size * np.exp(-(v**2).sum(axis=-1)),
        )
        for one in (1.0, size)
    )
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(scaled, plain * size * size, rtol=1e-9)
