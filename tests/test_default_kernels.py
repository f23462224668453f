"""Default kernels: units do not matter, scales follow plain definitions, edge cases have answers."""

import tracemalloc

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

import fastmcmd as fm
from fastmcmd import default_kernels
from fastmcmd.default_kernels import (
    _bytes_of_choice,
    _distances,
    chosen_kernels,
    default_kernels_of,
    paper_kernels,
)
from fastmcmd.downsampling import downsampled_cce
from fastmcmd.inference.smoother import Smoother


def problem(rng, n=300, d=3):
    x = rng.normal(size=(n, d))
    return x, np.sin(x[:, 0]) + 0.2 * rng.normal(size=n)


def test_input_kernel_is_the_mean_of_three_rbfs_on_standardised_columns(rng):
    x, y = problem(rng)
    x *= [1e-3, 1.0, 1e4]
    kernels = default_kernels_of(x, y)
    z = x / x.std(axis=0)
    length = np.median(pdist(z))
    r2 = np.square(z[:, None] - z[None]).sum(axis=2) / length**2
    plain = np.mean([np.exp(-0.5 * r2 * part**2) for part in (1, 2, 4)], axis=0)
    np.testing.assert_allclose(kernels.x_kernel(x), plain, atol=1e-12)
    assert kernels.lam == 0.01


def test_output_kernel_sees_both_spreads(rng):
    x = rng.uniform(-2, 2, 400)
    y = 5 * x + 0.5 * rng.normal(size=400)
    kernels = default_kernels_of(x, y)
    low, high = np.quantile(y, [0.25, 0.75])
    assert kernels.marginal_spread == pytest.approx((high - low) / 1.349)
    assert kernels.residual_spread == pytest.approx(0.5, rel=0.15)
    r2 = np.square(np.subtract.outer(y, y))
    plain = np.mean(
        [np.exp(-0.5 * r2 / s**2) for s in (kernels.marginal_spread, kernels.residual_spread)],
        axis=0,
    )
    np.testing.assert_allclose(kernels.y_kernel(y), plain, atol=1e-12)


def test_units_do_not_matter(rng):
    x, y = problem(rng)
    first = default_kernels_of(x, y)
    factors = np.array([1e-80, 1e3, 1e100])
    second = default_kernels_of(x * factors + factors, 1e90 * y)
    np.testing.assert_allclose(second.x_kernel(x * factors), first.x_kernel(x), atol=1e-6)
    np.testing.assert_allclose(second.y_kernel(1e90 * y), first.y_kernel(y), atol=1e-6)


def test_the_same_data_give_the_same_kernels(rng):
    x, y = problem(rng, 15_000, 2)
    assert default_kernels_of(x, y) == default_kernels_of(x.copy(), y.copy())


def test_inputs_on_disk_give_the_kernels_of_those_in_memory(rng, tmp_path):
    x, y = problem(rng, 12_000, 2)
    np.save(tmp_path / "x.npy", x)
    assert default_kernels_of(tmp_path / "x.npy", y) == default_kernels_of(x, y)


def test_one_scale_for_all_columns_needs_no_scaled_kernel(rng):
    x, y = problem(rng, d=1)
    assert fm.Scaled not in {type(default_kernels_of(x, y).x_kernel)}
    columns = np.repeat(x, 3, axis=1)
    assert not isinstance(default_kernels_of(columns, y).x_kernel, fm.Scaled)


def test_constant_columns_do_not_count(rng):
    x, y = problem(rng, d=2)
    wide = np.column_stack([x[:, 0], np.full(300, 0.1), x[:, 1], np.full(300, 1e200)])
    kernels = default_kernels_of(wide, y)
    assert kernels.scales[1] == kernels.scales[3] == 0
    np.testing.assert_allclose(
        kernels.x_kernel(wide), default_kernels_of(x, y).x_kernel(x), atol=1e-12
    )


def test_constant_inputs_have_a_constant_kernel(rng):
    kernels = default_kernels_of(np.ones((50, 2)), rng.normal(size=50))
    assert kernels.x_kernel == fm.Constant(1.0)
    assert kernels.residual_spread == kernels.marginal_spread


def test_mostly_equal_inputs_and_outcomes(rng):
    x = np.zeros(200)
    x[:40] = rng.normal(size=40)
    y = np.zeros(200)
    y[:30] = rng.poisson(4, 30) + 1.0
    kernels = default_kernels_of(x, y)
    assert kernels.length > 0
    assert kernels.marginal_spread == pytest.approx(y.std())  # the quartiles are equal
    assert 0 < kernels.residual_spread <= kernels.marginal_spread


def test_vector_outcomes_have_the_norm_of_their_columns_spreads(rng):
    x, y = problem(rng)
    both = np.column_stack([y, 3 * y])
    one = default_kernels_of(x, y)
    assert default_kernels_of(x, both).marginal_spread == pytest.approx(
        np.sqrt(10) * one.marginal_spread
    )


def test_classes_have_the_equality_kernel(rng):
    x, y = problem(rng)
    assert default_kernels_of(x, y > 0).y_kernel == fm.Delta()
    assert default_kernels_of(x, rng.integers(0, 3, 300), classes=True).y_kernel == fm.Delta()


def test_few_rows_have_the_marginal_spread(rng):
    x, y = problem(rng, 10)
    kernels = default_kernels_of(x, y)
    assert kernels.residual_spread == kernels.marginal_spread
    assert kernels.y_kernel == fm.RBF(0.5 / kernels.marginal_spread**2)


@pytest.mark.parametrize("n", [1, 2, 40])
def test_equal_outcomes_are_an_error_that_says_what_to_pass(n):
    with pytest.raises(ValueError, match=r"all \d+ outcomes y are equal.*y_kernel"):
        default_kernels_of(np.arange(n), np.full(n, 3.0))


def test_nan_and_other_lengths_are_errors(rng):
    x, y = problem(rng)
    with pytest.raises(ValueError, match="x holds NaN"):
        default_kernels_of(np.where(x > 2, np.nan, x), y)
    with pytest.raises(ValueError, match="rows must match"):
        default_kernels_of(x, y[:-1])


def test_names_of_kernels(rng):
    x, y = problem(rng)
    y = y[:, None]
    kernels = default_kernels_of(x, y)
    assert chosen_kernels(x, y) == (kernels.x_kernel, kernels.y_kernel, 0.01)
    assert chosen_kernels(x, y, "auto", "auto", "auto") == chosen_kernels(x, y)
    published = (fm.Polynomial(3, None, 1.0), fm.RBF("variance"), 0.1)
    assert chosen_kernels(x, y, "paper", "paper") == published
    assert chosen_kernels(x, y, none="paper") == published
    assert chosen_kernels(x, y, "paper", fm.RBF(1.0), 0.5)[2] == 0.5
    assert chosen_kernels(x, y, fm.RBF(1.0), fm.RBF(1.0)) == (fm.RBF(1.0), fm.RBF(1.0), 0.01)
    with pytest.raises(ValueError, match="x_kernel is 'rbf'"):
        chosen_kernels(x, y, "rbf")
    with pytest.raises(TypeError, match="y_kernel is 3"):
        chosen_kernels(x, y, None, 3)
    with pytest.raises(ValueError, match="lam is 'small'"):
        chosen_kernels(x, y, lam="small")


def test_smoother_takes_scaled_kernels(rng):
    x, y = problem(rng, 60)
    x *= [1.0, 1e3, 1e-3]
    kernel = default_kernels_of(x, y).x_kernel
    smoother = Smoother.of(kernel, x, 60)
    f = smoother.transform(x)
    np.testing.assert_allclose(f @ f.T, kernel(x), atol=1e-9)


def test_names_in_the_public_functions(rng, tmp_path):
    x, y = problem(rng, 120, 2)
    x *= [1.0, 1e3]
    prediction = fm.Gaussian(np.sin(x[:, 0]), 0.2)
    kernels = default_kernels_of(x, y)
    expected = fm.cce(x, y, prediction, None, kernels.x_kernel, kernels.y_kernel, 0.01)
    names = {"x_kernel": "auto", "y_kernel": "auto", "lam": "auto"}
    np.testing.assert_array_equal(fm.cce(x, y, prediction).values, expected.values)
    np.testing.assert_array_equal(fm.cce(x, y, prediction, **names).values, expected.values)
    np.testing.assert_array_equal(
        fm.cce(x[:, 0], y, prediction, x_kernel="paper", y_kernel="paper").values,
        fm.cce(x[:, 0], y, prediction, None, *paper_kernels()).values,
    )
    cc = fm.ConditionalCongruence(**names).fit(x, y, prediction)
    # The estimator stays in feature form, for other points.
    np.testing.assert_allclose(cc.result_.values, expected.values, rtol=0, atol=1e-9)
    np.testing.assert_allclose(cc.score_samples(x[:5]), expected.values[:5], rtol=0, atol=1e-9)
    cc.save(tmp_path / "cc.npz")
    again = fm.load(tmp_path / "cc.npz")
    np.testing.assert_array_equal(again.score_samples(x[:5]), cc.score_samples(x[:5]))
    assert (again.x_kernel, again.lam, again.lam_) == ("auto", "auto", 0.01)
    evaluated = fm.evaluate(y, prediction, x, **names)
    assert abs(evaluated["mean_cce"] - expected.mean) <= 1e-9


def test_predicted_classes_have_the_equality_kernel(rng):
    x, _ = problem(rng, 80, 2)
    y = rng.integers(0, 3, 80)
    prediction = fm.Categorical(rng.dirichlet(np.ones(3), 80))
    kernel = default_kernels_of(x, y).x_kernel
    np.testing.assert_array_equal(
        fm.cce(x, y, prediction, x_kernel="auto", y_kernel="auto", lam="auto").values,
        fm.cce(x, y, prediction, x_kernel=kernel, y_kernel=fm.Delta(), lam=0.01).values,
    )


def test_rows_of_weight_zero_do_not_count(rng):
    x, y = problem(rng)
    weights = (np.arange(300) < 200).astype(float)
    wild = np.where(weights[:, None] > 0, x, 1e9)
    assert default_kernels_of(wild, y, weights=weights) == default_kernels_of(x[:200], y[:200])


@pytest.mark.slow
def test_every_function_takes_the_names(rng):
    """None is "auto", and the published kernels have a name."""
    x, y = problem(rng, 160, 2)
    model = fm.Gaussian(np.sin(x[:, 0]), 0.3)
    some = {"size": 60, "repeats": 2, "random_state": 0}
    calls = {
        "downsampled": lambda **k: downsampled_cce(x, y, model, **some, **k).values,
        "plan": lambda **k: fm.plan((4_000, 2), k.get("x_kernel"), k.get("lam")).passes,
        "compare": lambda **k: fm.compare({"a": model}, y, x, test=False, **k).evaluations["a"]["mean_cce"],
        "diagnose": lambda **k: fm.diagnose(x, y, model, **k).shift,
        "report": lambda **k: fm.kernel_report(x, y, model, simulations=19, **k).effective_dimension,
    }  # fmt: skip
    paper = {"x_kernel": "paper", "y_kernel": "paper"}
    auto = {"x_kernel": "auto", "y_kernel": "auto", "lam": "auto"}
    for name, call in calls.items():
        np.testing.assert_array_equal(call(), call(**auto), name)
        np.testing.assert_array_equal(call(**paper), call(**paper, lam=0.1), name)
        with pytest.raises(ValueError, match="x_kernel is 'rbf'"):
            call(x_kernel="rbf")
        with pytest.raises(TypeError, match="x_kernel is 3"):
            call(x_kernel=3)
    np.testing.assert_array_equal(
        fm.mcmd(x, x, y, x, -y).values, fm.mcmd(x, x, y, x, -y, *paper_kernels()).values
    )


def test_kernels_do_not_depend_on_the_model(rng):
    x, y = problem(rng, 100, 2)
    models = {"narrow": fm.Gaussian(y, 0.01), "far": fm.Gaussian(100 + 0 * y, 50.0), "draws": y + 3}
    estimators = fm.ConditionalCongruence().fit_each(x, y, models)
    kernels = default_kernels_of(x, y)
    for name, one in estimators.items():
        alone = fm.ConditionalCongruence().fit(x, y, models[name])
        for cc in (one, alone):
            assert (cc.x_kernel_, cc.y_kernel_, cc.lam_) == (
                kernels.x_kernel,
                kernels.y_kernel,
                0.01,
            )


def test_a_refit_chooses_anew(rng, tmp_path):
    x, y = problem(rng, 100, 2)
    model = fm.Gaussian(y, 1.0)
    cc = fm.ConditionalCongruence().fit(x, y, model)
    cc.save(tmp_path / "cc.npz")
    again = fm.load(tmp_path / "cc.npz")
    assert (again.x_kernel_, again.y_kernel_, again.lam_) == (cc.x_kernel_, cc.y_kernel_, 0.01)
    np.testing.assert_array_equal(again.score_samples(x * 3), cc.score_samples(x * 3))
    assert (
        again.fit(x * [1, 5], y * 2, model).x_kernel_ == default_kernels_of(x * [1, 5], y).x_kernel
    )
    assert again.y_kernel_ == default_kernels_of(x * [1, 5], 2 * y).y_kernel


def test_encoded_inputs_have_kernels_of_their_own(rng):
    x, y = problem(rng, 100, 2)
    model = fm.Gaussian(y, 1.0)
    encoded = np.column_stack([x, np.exp(x)])
    cc = fm.ConditionalCongruence(encoder=lambda a: np.column_stack([a, np.exp(a)])).fit(
        x, y, model
    )
    assert cc.x_kernel_ == default_kernels_of(encoded, y).x_kernel
    np.testing.assert_allclose(
        cc.result_.values, fm.cce(encoded, y, model).values, rtol=0, atol=1e-9
    )


def test_classes_are_recognised_whatever_gives_their_probabilities(rng):
    torch = pytest.importorskip("torch")
    x, _ = problem(rng, 60, 2)
    y, probs = rng.integers(0, 3, 60), rng.dirichlet(np.ones(3), 60)
    cc = fm.ConditionalCongruence()
    for model in (fm.Categorical(probs), torch.distributions.Categorical(torch.tensor(probs))):
        assert cc.fit(x, y, model).y_kernel_ == fm.Delta()


def test_duplicates_weights_and_disk_take_the_same_kernels(rng, tmp_path):
    x, y = problem(rng, 90, 2)
    np.save(tmp_path / "x.npy", x)
    expected = fm.cce(x, y, y + 1)
    np.testing.assert_array_equal(fm.cce(tmp_path / "x.npy", y, y + 1).values, expected.values)
    np.testing.assert_allclose(
        fm.cce(x, y, y + 1, weights=np.full(90, 3.0)).values, expected.values, atol=1e-9
    )
    twice = fm.ConditionalCongruence().fit(
        np.repeat(x, 2, axis=0), np.repeat(y, 2), np.repeat(y, 2)
    )
    assert twice.x_kernel_.scales == pytest.approx(default_kernels_of(x, y).scales)


def test_integers_and_single_rows(rng):
    x, y = problem(rng, 80, 2)
    counts, level = np.floor(np.exp(y)).astype(int), np.arange(80)
    one = fm.cce(level, counts, fm.Poisson(np.ones(80)))
    np.testing.assert_array_equal(
        one.values,
        fm.cce(level.astype(float), counts.astype(float), fm.Poisson(np.ones(80))).values,
    )
    with pytest.raises(ValueError, match="y_kernel"):
        fm.cce(x[:1], y[:1], y[:1])
    assert len(fm.cce(x[:1], y[:1], y[:1], y_kernel=fm.RBF(1.0))) == 1
    vectors = np.column_stack([y, 10 * y])
    assert fm.cce(x, vectors, vectors[::-1].copy()).mean > 0


@pytest.mark.parametrize("d", [1, 2, 4, 5, 17, 64])
def test_distances_of_narrow_rows_have_the_digits_of_scipy(rng, d):
    x = 100 + rng.normal(size=(83, d))
    x[5] = x[7]
    np.testing.assert_array_equal(_distances(x), squareform(pdist(x)))


def test_distances_of_wide_rows_are_those_of_narrow_ones(rng):
    """The points include equal and near rows far from the origin."""
    x = rng.normal(size=(80, 200)) + 100
    x[10], x[11] = x[12], x[12] + 1e-6 * rng.normal(size=200)
    plain = squareform(pdist(x))
    np.testing.assert_allclose(_distances(x), plain, rtol=1e-9, atol=0)
    assert _distances(np.ones((5, 100))).max() == 0


def test_a_choice_is_remembered_by_the_content_of_the_data(rng, monkeypatch):
    monkeypatch.setattr(default_kernels, "_recent", {})
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    first = default_kernels_of(x, y)
    assert default_kernels_of(x.copy(), list(y)) is first
    for other_x, other_y, options in [
        (np.where(x == x[7, 1], 9.0, x), y, {}),
        (x, np.where(y == y[3], 9.0, y), {}),
        (x, y, {"weights": np.arange(60.0)}),
        (x, np.round(y), {"classes": True}),
        (x.reshape(60, 2)[:, ::-1], y, {}),
    ]:
        assert default_kernels_of(other_x, other_y, **options) != first
    for k in range(40):
        default_kernels_of(x + 0.01 * k * x[:, ::-1], y)
    assert len(default_kernels._recent) <= 16
    assert default_kernels_of(x, y) == first


def test_the_content_is_read_to_its_end_with_any_number_of_threads(rng, monkeypatch):
    monkeypatch.setattr(default_kernels, "_HASHED", 1000)
    x, y = rng.normal(size=(500, 3)), rng.normal(size=(500, 1))
    digest = default_kernels._digest(x, y, False)
    fm.set_num_threads(1)
    try:
        assert default_kernels._digest(x, y, False) == digest
        assert default_kernels._digest(np.asfortranarray(x), y, False) == digest
    finally:
        fm.set_num_threads(None)
    for row in (0, 250, 499):
        for changed in (x, y):
            before = changed[row, -1]
            changed[row, -1] = np.nextafter(before, 9.0)
            assert default_kernels._digest(x, y, False) != digest
            changed[row, -1] = before
    assert default_kernels._digest(x, y, False) == digest


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_outcomes_whose_squares_leave_float64_are_named(rng, unit):
    """The outcomes were reported as equal, or with an infinite spread."""
    with pytest.raises(ValueError, match=r"y is too .* spread is \d.*rescale y"):
        default_kernels_of(rng.normal(size=50), unit * rng.normal(size=50))
    assert default_kernels_of(unit * rng.normal(size=50), rng.normal(size=50)).length > 0
    with pytest.raises(ValueError, match="column 0 of y is too small"):
        fm.Monitor(rng.normal(size=50), 1e-320 * rng.normal(size=50))


@pytest.mark.parametrize(("n", "d"), [(30_000, 3), (300, 2), (1000, 100), (3000, 300)])
def test_the_choice_states_its_memory(rng, monkeypatch, n, d):
    x = rng.normal(size=(n, d))
    y = x[:, 0] + 0.3 * rng.normal(size=n)
    default_kernels_of(x, y)  # loads what it needs
    monkeypatch.setattr(default_kernels, "_recent", {})
    tracemalloc.start()
    default_kernels_of(x, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.05 * _bytes_of_choice(n, d) <= 2 * peak
    with pytest.raises(fm.MemoryLimitError, match="pass x_kernel and y_kernel"):
        fm.cce(x, y, y + 0.1, memory_limit=1000)


@pytest.mark.parametrize("columns", [1, 2])
def test_ridge_residuals_are_those_without_each_row(rng, columns):
    """For the regulariser with the least mean square, by a solve without each row in turn."""
    n, length = 60, 0.8
    x, noise = rng.normal(size=(n, 2)), rng.normal(size=(n, columns))
    y = np.sin(2 * x[:, :1]) + 0.2 * noise
    distances = squareform(pdist(x))
    r2 = (distances / length) ** 2
    kernel = (np.exp(-0.5 * r2) + np.exp(-2 * r2) + np.exp(-8 * r2)) / 3
    residuals = []
    for lam in default_kernels._LAMS:
        without = np.empty_like(y)
        for row in range(n):
            remaining = np.arange(n) != row
            system = kernel[np.ix_(remaining, remaining)] + n * lam * np.eye(n - 1)
            without[row] = y[row] - kernel[row, remaining] @ np.linalg.solve(system, y[remaining])
        residuals.append(without)
    expected = min(residuals, key=lambda one: np.mean(one**2))
    np.testing.assert_allclose(
        default_kernels._ridge_residuals(distances, length, y), expected, rtol=1e-9, atol=1e-11
    )
