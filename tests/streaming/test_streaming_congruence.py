"""CCE from sums that merge agrees with its plain definition, in any split, order and window."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd import storage
from fastmcmd.streaming import CCE, SlidingWindow, congruence_sums, output_features

N = 120
X_KERNEL, Y_KERNEL = fm.RBF(0.4), 0.5 * fm.RBF(0.5) + 0.5 * fm.RBF(2.0)
LANDMARKS = np.random.default_rng(5).normal(size=(25, 2))


def problem(seed=0, n=N):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    mean = x[:, 0] + 0.4 * np.sin(2 * x[:, 1])
    y = x[:, 0] + rng.normal(size=n)
    return x, y, mean, np.full(n, 1.2), rng.uniform(0.1, 2.0, n)


def accumulator(**options):
    return CCE(X_KERNEL, Y_KERNEL, **{"landmarks": LANDMARKS, "lam": 0.02, **options})


def add(one, data, rows, weighted=True):
    x, y, mean, std, w = (column[rows] for column in data)
    return one.update(x, y, fm.Gaussian(mean, std), w if weighted else None)


def rbf(gamma, x, z):
    return np.exp(-gamma * ((x[:, None] - z[None]) ** 2).sum(axis=-1))


def plain(data, lam, landmarks=LANDMARKS):
    """Return the same regression without output features: kernels of outputs and predictions."""
    x, y, mean, std, w = data
    n, total = len(y), w.sum()
    if landmarks is None:
        k = rbf(0.4, x, x)
        c = k @ np.linalg.solve(w[:, None] * k + total * lam * np.eye(n), np.diag(w))
    else:
        factor = np.linalg.cholesky(rbf(0.4, landmarks, landmarks))
        f = rbf(0.4, x, landmarks) @ np.linalg.inv(factor).T
        c = f @ np.linalg.solve(f.T @ (w[:, None] * f) + total * lam * np.eye(len(factor)), f.T * w)

    def expected(gamma, at, other_mean, variance):
        shrink = 1 + 2 * gamma * variance
        return np.exp(-gamma * (at - other_mean) ** 2 / shrink) / np.sqrt(shrink)

    inner, variances = np.zeros((n, n)), np.zeros(n)
    for gamma in (0.5, 2.0):
        square = std**2
        yy = expected(gamma, y[:, None], y[None], 0.0)
        ym = expected(gamma, y[:, None], mean[None], square[None])
        mm = expected(gamma, mean[:, None], mean[None], square[:, None] + square[None])
        inner += 0.5 * (yy - ym - ym.T + mm)
        variances += 0.5 * (1 - np.diagonal(mm))
    squares = np.einsum("qi,ij,qj->q", c, inner, c)
    share = w / total
    return {
        "values": np.sqrt(squares),
        "value": np.sqrt(share @ squares),
        "noise": share @ (c**2 @ np.diagonal(inner)),
        "null": share @ (c**2 @ variances),
    }


def close(one, other, rtol=1e-9):
    for name in ("value", "null_mean", "excess", "weight", "residual"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(other, name), rtol, 1e-13, err_msg=name
        )
    # Bounds count the rounding of every sum on the way.
    np.testing.assert_allclose(one.error_bound, other.error_bound, max(rtol, 1e-6), 1e-8)
    assert one.rows == other.rows


def test_values_are_those_of_the_plain_definition():
    data = problem()
    one = add(accumulator(), data, slice(None))
    estimate, truth = one.compute(), plain(data, 0.02)
    np.testing.assert_allclose(estimate.value, truth["value"], rtol=1e-11)
    np.testing.assert_allclose(one.score_samples(data[0]), truth["values"], rtol=1e-10)
    np.testing.assert_allclose(estimate.null_mean, truth["null"], rtol=1e-11)
    np.testing.assert_allclose(estimate.excess, truth["value"] ** 2 - truth["noise"], rtol=1e-10)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.booleans())
def test_parts_in_any_split_and_order_are_one_pass(seed, count, weighted):
    data = problem(seed % 7)
    rng = np.random.default_rng(seed)
    label = rng.integers(0, count, N)
    one_pass = add(accumulator(), data, slice(None), weighted)
    parts = [add(accumulator(), data, np.flatnonzero(label == k), weighted) for k in range(count)]
    parts += [add(accumulator(), data, np.arange(0), weighted)]  # no rows
    merged = accumulator()
    for k in rng.permutation(len(parts)):
        merged.merge(parts[k])
    close(merged.compute(), one_pass.compute())
    rows = data[0][:5]
    np.testing.assert_allclose(merged.score_samples(rows), one_pass.score_samples(rows), rtol=1e-9)
    grid = np.linspace(-2, 2, 4)
    np.testing.assert_allclose(
        merged.witness(rows, grid), one_pass.witness(rows, grid), rtol=1e-9, atol=1e-12
    )


def test_batches_of_one_row_and_of_single_precision_add_up():
    data = problem(1, 12)
    rows = [column.astype(np.float32) for column in data]
    single, double = accumulator(), accumulator()
    for k in range(12):
        add(single, rows, slice(k, k + 1))
    add(double, [column.astype(np.float64) for column in rows], slice(None))
    close(single.compute(), double.compute())


def test_a_rare_row_unlike_the_rest_counts_wherever_it_comes():
    data = [column.copy() for column in problem(2)]
    for place in (0, 57, N - 1):
        x, y, *columns = (column.copy() for column in data)
        x[place], y[place] = 30.0, 4000.0
        reordered = [x, y, *columns]
        split = accumulator(most_landmarks=60)
        for rows in np.array_split(np.arange(N), 6):
            add(split, reordered, rows)
        estimate = split.compute()
        assert estimate.landmarks > len(LANDMARKS)
        # The regression with one more landmark, over all rows.
        landmarks = np.concatenate([LANDMARKS, x[[place]]])
        truth = plain(reordered, 0.02, landmarks)
        assert abs(estimate.value - truth["value"]) <= estimate.error_bound
        np.testing.assert_allclose(
            split.score_samples(x[[place]])[0], truth["values"][place], rtol=1e-6
        )


def test_the_certificate_holds_against_the_regression_without_landmarks():
    data = problem(3)
    exact = plain(data, 0.02, None)
    for count in (5, 20, 60):
        one = add(CCE(X_KERNEL, Y_KERNEL, data[0][:count], 0.02), data, slice(None))
        error = abs(one.compute().value - exact["value"])
        assert error <= one.compute().error_bound
        gaps = np.abs(one.score_samples(data[0]) - exact["values"])
        assert (gaps <= one.error_bounds(data[0])).all()


@pytest.mark.parametrize("landmarks", [30, 40, 200])
@pytest.mark.parametrize("kernel", [X_KERNEL, fm.RBF(0.02), fm.Matern(2.5, 3.0)])
def test_landmarks_that_others_nearly_reproduce_multiply_no_rounding(landmarks, kernel):
    """On a grid, in its order, |f(x)|^2 was 4.9 for k(x, x) = 1, and the error 6,800 times the bound."""
    x, y, mean, std, w = problem(3)
    data = (x[:, :1], y, mean, std, w)
    grid = np.linspace(-3, 3, landmarks)
    one = CCE(kernel, Y_KERNEL, grid, 1e-3).update(data[0], y, fm.Gaussian(mean, std), w)
    exact = fm.cce(
        data[0], y, fm.Gaussian(mean, std), x_kernel=kernel, y_kernel=Y_KERNEL, lam=1e-3, weights=w,
        solver="cholesky", tol=1e-8,
    )  # fmt: skip
    value = np.sqrt(w @ exact.values**2 / w.sum())
    assert abs(one.compute().value - value) <= one.compute().error_bound + exact.error_bound
    gaps = np.abs(one.score_samples(data[0]) - exact.values)
    assert (gaps <= one.error_bounds(data[0]) + exact.error_bounds).all()
    assert gaps.max() < 1e-4  # nothing of the sample is lost
    f = one._smoother.transform(np.linspace(-4, 4, 50)[:, None])
    assert (
        (f**2).sum(axis=1) <= kernel.diagonal(np.linspace(-4, 4, 50)[:, None]) * (1 + 1e-8)
    ).all()


@pytest.mark.parametrize("weight", [1.0, 1e4, 1e8, 1e12, 1e14])
@pytest.mark.parametrize("far", [0.0, 20.0])
def test_what_subtracted_rows_leave_is_in_the_bound(weight, far):
    """The residual of heavy rows beyond the landmarks raised that of the others: 9 times the bound."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (2, 40))
    y = np.sin(x) + 0.1 * rng.normal(size=(2, 40))
    blank = CCE(X_KERNEL, fm.RBF(0.5), np.linspace(-3, 3, 12), 1e-3)
    remaining = blank.fresh().update(x[0], y[0], fm.Gaussian(np.sin(x[0]), 0.1))
    subtracted = blank.fresh().update(
        x[1] + far, 3 * y[1], fm.Gaussian(-3 * y[1], 0.1), np.full(40, weight)
    )
    one = blank.fresh().merge(remaining).merge(subtracted).subtract(subtracted)
    exact = fm.cce(
        x[0], y[0], fm.Gaussian(np.sin(x[0]), 0.1), x_kernel=X_KERNEL, y_kernel=fm.RBF(0.5),
        lam=1e-3, solver="cholesky", tol=1e-8,
    )  # fmt: skip
    value = np.sqrt(np.mean(exact.values**2))
    assert abs(one.compute().value - value) <= one.compute().error_bound + exact.error_bound
    gaps = np.abs(one.score_samples(x[0]) - exact.values)
    assert (gaps <= one.error_bounds(x[0]) + exact.error_bounds).all()
    assert np.isfinite(one.compute().error_bound)


def test_the_certificate_holds_when_landmarks_grow_as_the_stream_moves():
    x, y, mean, std, w = problem(4)
    x = x + np.linspace(0, 6, N)[:, None]  # a stream that moves
    mean, y = mean + np.linspace(0, 3, N), y + np.linspace(0, 6, N)
    data = (x, y, mean, std, w)
    one = accumulator(most_landmarks=80)
    for rows in np.array_split(np.arange(N), 8):
        add(one, data, rows)
    estimate = one.compute()
    exact = plain(data, 0.02, None)
    assert 25 < estimate.landmarks <= 80
    assert abs(estimate.value - exact["value"]) <= estimate.error_bound
    assert (np.abs(one.score_samples(x) - exact["values"]) <= one.error_bounds(x)).all()
    assert len(one._state.ranks) > 1


def test_parts_whose_landmarks_differ_are_joined():
    data = problem(6)
    parts = [
        add(CCE(X_KERNEL, Y_KERNEL, 30, 0.02, random_state=k), data, slice(k * 60, k * 60 + 60))
        for k in range(2)
    ]
    merged = parts[0].merge(parts[1])
    exact = plain(data, 0.02, None)
    estimate = merged.compute()
    assert 30 < estimate.landmarks <= 60
    assert abs(estimate.value - exact["value"]) <= estimate.error_bound
    np.testing.assert_allclose(estimate.value, exact["value"], rtol=1e-2)


def test_subtracting_a_window_is_never_having_seen_it():
    data = problem(8)
    window, part = add(accumulator(), data, slice(None)), add(accumulator(), data, slice(0, 50))
    expected = add(accumulator(), data, slice(50, None)).compute()
    estimate = window.subtract(part).compute()
    close(estimate, expected, rtol=1e-10)
    assert estimate.rounding > expected.rounding
    assert window.subtract(window.fresh().merge(window))._state is None
    with pytest.raises(ValueError, match="no rows"):
        window.compute()


def test_a_window_is_renewed_and_its_memory_is_constant():
    rng = np.random.default_rng(0)
    blank = CCE(X_KERNEL, Y_KERNEL, LANDMARKS, 0.02)
    window = SlidingWindow(blank, 3, tolerance=5e-14)
    sizes, batches = set(), []
    for _ in range(60):
        x = rng.normal(size=(10, 2))
        batches.append((x, np.clip(x[:, 0] + rng.normal(size=10), -3, 3), x[:, 0].clip(-2, 2)))
        window.update(batches[-1][0], batches[-1][1], fm.Gaussian(batches[-1][2], 1.0))
        state = window.total._state
        sizes.add(state.numbers - sum(m.cross.size + m.squares.size for m in state.models.values()))
        p, r = state.smoother.rank, len(state.columns)
        assert state.numbers == 3 * p * p + p * r + r * r
        assert r < 250
    assert len(sizes) == 1
    assert window.renewals > 5
    last = accumulator()
    for x, y, mean in batches[-3:]:
        last.update(x, y, fm.Gaussian(mean, 1.0))
    close(window.compute(), last.compute())
    assert window.compute().rounding <= 5e-14


def test_other_output_kernels_need_landmarks_and_are_the_lattice_there():
    data = problem(9)
    grid = np.linspace(-8, 8, 60)
    one = add(accumulator(), data, slice(None)).compute()
    two = add(accumulator(output_landmarks=grid), data, slice(None)).compute()
    np.testing.assert_allclose(two.value, one.value, rtol=1e-6)
    np.testing.assert_allclose(two.null_mean, one.null_mean, rtol=1e-6)
    assert abs(one.value - two.value) <= one.error_bound + two.error_bound
    with pytest.raises(ValueError, match="output_landmarks"):
        CCE(X_KERNEL, fm.Laplacian(1.0))
    x, y = data[0], (data[1] > 0).astype(float)
    chance = np.stack([np.full(N, 0.4), np.full(N, 0.6)], axis=1)
    classes = CCE(X_KERNEL, fm.Delta(), LANDMARKS, 0.02, output_landmarks=[0.0, 1.0])
    classes.update(x, y, fm.Categorical(chance))
    expected = fm.cce(
        x, y, fm.Categorical(chance), x_kernel=X_KERNEL, y_kernel=fm.Delta(), lam=0.02
    )
    error = np.abs(classes.score_samples(x) - expected.values)
    assert (error <= classes.error_bounds(x) + expected.error_bounds).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda mean: fm.Draws(mean[:, None] + np.random.default_rng(1).normal(size=(N, 4))),
        lambda mean: fm.StudentT(30.0, mean, 1.0),
        lambda mean: fm.Laplace(mean, 0.8),
        lambda mean: fm.Poisson(np.exp(0.3 * mean)),
    ],
)
def test_every_kind_of_prediction_agrees_with_cce(make):
    x, y, mean, _, _ = problem(10)
    y = np.abs(np.round(y)) if isinstance(make(mean), fm.Poisson) else y
    kernel = fm.RBF(0.3)
    one = CCE(X_KERNEL, kernel, 200, 0.02, random_state=0).update(x, y, make(mean))
    expected = fm.cce(x, y, make(mean), x_kernel=X_KERNEL, y_kernel=kernel, lam=0.02)
    np.testing.assert_allclose(one.score_samples(x), expected.values, rtol=1e-5)
    np.testing.assert_allclose(one.compute().excess, expected.excess.mean(), rtol=1e-4)
    np.testing.assert_allclose(one.compute().null_mean, expected.null_mean.mean(), rtol=1e-4)


def test_several_models_share_a_pass():
    x, y, mean, std, w = problem(11)
    models = {"right": fm.Gaussian(x[:, 0], 1.0), "wrong": fm.Gaussian(mean + 1, std)}
    both = accumulator(simulations=19, random_state=3).update(x, y, models, w)
    for name, model in models.items():
        close(both.compute()[name], accumulator().update(x, y, model, w).compute())
    assert both.score_samples(x).keys() == both.witness(x, [0.0]).keys() == models.keys()
    assert both.compute()["wrong"].p_value == 0.05
    with pytest.raises(ValueError, match="models"):
        both.update(x, y, {"right": models["right"]})
    with pytest.raises(ValueError, match="models"):
        both.merge(accumulator(simulations=19).update(x, y, models["right"]))


@pytest.mark.slow
def test_the_exact_test_finds_what_is_wrong_and_merges():
    x, y, mean, _, _ = problem(12, 300)
    one_pass = accumulator(simulations=99, random_state=0)
    parts = [
        one_pass.fresh().update(x[k::3], y[k::3], fm.Gaussian(mean[k::3], 2.0)) for k in range(3)
    ]
    for part in parts:
        one_pass.merge(part)
    assert one_pass.compute().p_value == 0.01
    assert one_pass.compute().dispersion == "too wide"
    right = accumulator(simulations=99, random_state=0).update(x, y, fm.Gaussian(x[:, 0], 1.0))
    assert right.compute().p_value > 0.05
    with pytest.raises(ValueError, match="same random stream"):
        one_pass.merge(parts[0])
    one_pass.subtract(parts[0]).merge(parts[0])
    assert one_pass.compute().p_value == 0.01


def test_simulated_draws_are_exchanged_with_the_outcome():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    draws = fm.Draws(x[:, :1] + rng.normal(size=(200, 5)))
    one = accumulator(simulations=99, random_state=1).update(
        x, x[:, 0] + rng.normal(size=200), draws
    )
    state = one._state.models[""]
    # Observed and simulated data sets have the same spread on average.
    assert abs(state.spread[0] / state.spread[1:].mean() - 1) < 0.1


def test_saving_and_loading_goes_on(tmp_path):
    data = problem(13)
    for options in (
        {},
        {"landmarks": 20, "random_state": 0, "simulations": 19},
        {"output_landmarks": [0.0, 1.0]},
    ):
        one = add(accumulator(**options), data, slice(0, 70))
        one.save(tmp_path / "one.npz")
        other = fm.load(tmp_path / "one.npz")
        assert repr(one.compute()) == repr(other.compute())
        if "simulations" not in options:
            close(
                add(one, data, slice(70, N)).compute(),
                add(other, data, slice(70, N)).compute(),
                1e-14,
            )
        assert other.merge(one.fresh()).compute().rows == other.compute().rows
    blank = accumulator()
    blank.save(tmp_path / "blank.npz")
    close(
        add(fm.load(tmp_path / "blank.npz"), data, slice(None)).compute(),
        add(blank, data, slice(None)).compute(),
    )


@pytest.mark.parametrize("names", [["a", "a"], ["a"], []])
def test_saved_models_of_one_name_are_refused(names, tmp_path):
    """One of two models was lost, or sums without a model were read."""
    path, rows = tmp_path / "one.npz", np.zeros((4, 2))
    models = {"a": (np.zeros(4), 1.0), "b": (np.ones(4), 1.0)}
    accumulator().update(rows, np.zeros(4), models).save(path)
    arrays, document, _ = storage.read_file(path, "CCE")
    saved_sums = document["state"]["sums"]
    saved_sums["names"] = names
    if not names:
        saved_sums["models"] = []
    storage.write_file(path, arrays, {key: document[key] for key in ("kind", "state")})
    with pytest.raises(ValueError, match=r"is damaged.*without models, or of models of one name"):
        fm.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros((4, 3))}, "x has 3 columns"),
        ({"x": np.full((4, 2), np.nan)}, "x"),
        ({"y": np.zeros((4, 2))}, "y has 2 columns"),
        ({"y": np.zeros(3)}, "rows|length|y"),
        ({"y": np.full(4, 1e300)}, "too large"),
        ({"prediction": {}}, "prediction has the names"),
        ({"prediction": {1: (np.zeros(4), 1.0)}}, "prediction has the names"),
        ({"prediction": (np.zeros(4), 1e6)}, "span more than"),
        ({"sample_weight": -np.ones(4)}, "sample_weight"),
    ],
)
def test_bad_batches_are_refused_and_change_nothing(change, message):
    one = accumulator()
    batch = {"x": np.zeros((4, 2)), "y": np.zeros(4), "prediction": (np.zeros(4), 1.0)}
    one.update(**batch)
    before = one.compute()
    with pytest.raises(ValueError, match=message):
        one.update(**{**batch, **change})
    close(one.compute(), before, 0)


@pytest.mark.parametrize("simulations", [0, 39])
def test_sums_do_not_depend_on_the_blocks_of_a_batch(simulations, monkeypatch):
    data = problem(3, 1500)
    options = {"simulations": simulations, "random_state": 1}
    one_block = add(accumulator(**options), data, slice(None))
    blocks = []
    gathered = CCE._gathered
    monkeypatch.setattr(
        CCE, "_gathered", lambda self, *args: blocks.append(len(args[1])) or gathered(self, *args)
    )
    monkeypatch.setattr("fastmcmd.streaming.congruence._BLOCK_VALUES", 1)
    split = add(accumulator(**options), data, slice(None))
    assert blocks == [512, 512, 476]
    close(split.compute(), one_block.compute())
    np.testing.assert_allclose(
        split._state.models[""].cross, one_block._state.models[""].cross, 1e-9, 1e-9
    )
    if simulations:
        assert split.compute().p_value == one_block.compute().p_value


@pytest.mark.parametrize("wide", [300.0, 1e3, 1e5, 1e8])
def test_a_few_predictions_much_wider_than_the_kernel_have_certified_values(wide):
    x, y, mean, std, w = problem(4)
    std = std.copy()
    std[[7, 50]] = wide
    mean = mean.copy()
    mean[50] = -3 * wide
    data = x, y, mean, std, w
    one, truth = add(accumulator(), data, slice(None)), plain(data, 0.02)
    error = np.abs(one.score_samples(x) - truth["values"])
    assert (error <= one.error_bounds(x)).all()
    assert abs(one.compute().value - truth["value"]) <= one.compute().error_bound
    two = add(add(accumulator(), data, slice(None, 60)), data, slice(60, None))
    error = np.abs(two.score_samples(x) - truth["values"])
    assert (error <= two.error_bounds(x)).all()


def test_what_the_bumps_leave_out_of_wide_predictions_is_bounded():
    lattice = output_features.Lattice.of(Y_KERNEL)
    std = np.ones(100)
    std[:3] = [1e3, 1e4, 1e6]
    prediction = fm.Gaussian(np.linspace(-2, 2, 100), std)
    columns = lattice.columns(np.zeros((100, 1)), [prediction])
    mean, residual, proven = lattice.expected(prediction, columns)
    assert proven
    inner = sum(0.5 / np.sqrt(1 + 4 * gamma * std**2) for gamma in (0.5, 2.0))  # E k(Y, Y')
    left_out = np.sqrt(np.maximum(inner - (mean**2).sum(axis=1), 0))
    assert (left_out[:3] <= residual[:3]).all()
    assert (residual[:3] <= left_out[:3] + 1e-5).all()
    assert residual[3:].max() < 1e-6


def test_bad_arguments_are_named():
    with pytest.raises(TypeError, match="x_kernel"):
        CCE("rbf", Y_KERNEL)
    with pytest.raises(ValueError, match="simulations is 5"):
        accumulator(simulations=5)
    with pytest.raises(ValueError, match="lam"):
        accumulator(lam=0.0)
    with pytest.raises(ValueError, match="most_landmarks"):
        accumulator(most_landmarks=3)
    with pytest.raises(ValueError, match="settings"):
        accumulator().merge(accumulator(lam=0.1))
    with pytest.raises(TypeError, match="CRPS"):
        accumulator().merge(fm.streaming.CRPS())
    data = problem()
    small = add(accumulator(), data, slice(0, 10))
    with pytest.raises(ValueError, match="not merged into it"):
        small.subtract(add(accumulator(), data, slice(0, 20)))
    with pytest.raises(ValueError, match="all zero"):
        accumulator().update([[0.0, 0.0]], [0.0], ([0.0], 1.0), [0.0])


def test_the_largest_eigenvalue_is_bounded_without_features_of_hardly_any_mass():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(400, 60)) * np.geomspace(1, 1e-6, 400)[:, None]
    for matrix in (factor @ factor.T, np.eye(7), np.zeros((5, 5)), np.zeros((0, 0))):
        largest = float(np.linalg.eigvalsh(matrix)[-1]) if len(matrix) else 0.0
        bound = congruence_sums._largest_eigenvalue(matrix)
        assert largest - 1e-12 <= bound <= largest + 1e-6 * np.trace(matrix) + 1e-12


def test_bounds_of_heavy_tails_do_not_need_all_eigenvalues(monkeypatch):
    sizes = []
    eigenvalues = np.linalg.eigvalsh
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda a: (sizes.append(len(a)), eigenvalues(a))[1])
    sums = CCE(fm.RBF(0.5), fm.RBF(0.5), np.linspace(-1, 1, 5))
    estimate = sums.update([0.0, 0.5], [0.1, 0.4], fm.StudentT(5.0, [0.0, 0.5], 0.5)).compute()
    assert estimate.output_features > 1_000
    assert max(sizes) < 100
