"""`diagnose` agrees with a plain implementation of its formula and known corrections, or abstains."""

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.inference.corrections import CountCorrection, LocationScale, centre_and_scale
from fastmcmd.inference.local_corrections import (
    Influences,
    RowBlocks,
    fit_corrections,
    quadratic,
    smoothing_filter,
)
from fastmcmd.inference.smoother import Smoother


def wrong_model(n, seed=0):
    """Return x, y and a model 0.4 too high on x > 1 and half too narrow on x < -1."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, n)
    y = np.sin(2 * x) + 0.2 * rng.normal(size=n)
    return x, y, fm.Gaussian(np.sin(2 * x) + 0.4 * (x > 1), np.where(x < -1, 0.1, 0.2))


def plain_embedding(model, shift, log_factor):
    """Return expected features of a corrected Gaussian by a fine sum over y, and differences of them."""
    z = np.linspace(-9, 9, 2001)
    weight = np.exp(-z * z / 2)
    weight /= weight.sum()
    centre, scale = centre_and_scale(model.prediction)

    def embedded(c, s):
        values = centre[:, None] + c[:, None] + np.exp(s)[:, None] * scale[:, None] * z
        out = np.zeros((len(centre), model.size))
        for i in range(len(centre)):
            standard = (values[i] - centre[i]) / (scale[i] * model.unit)
            lattice = model.map
            places = np.arange(-lattice.most, lattice.most + 1) * lattice.step
            bumps = lattice.height * np.exp(-lattice.rate * (standard[:, None] - places) ** 2)
            out[i] = weight @ bumps
        return out

    step = 1e-5
    by_shift = (embedded(shift + step, log_factor) - embedded(shift - step, log_factor)) / (
        2 * step
    )
    by_factor = (embedded(shift, log_factor + step) - embedded(shift, log_factor - step)) / (
        2 * step
    )
    return embedded(shift, log_factor), by_shift, by_factor


def test_embeddings_of_corrected_gaussians_are_plain_sums():
    rng = np.random.default_rng(0)
    prediction = fm.Gaussian(rng.normal(size=6), rng.uniform(0.5, 2, 6))
    model = LocationScale(prediction)
    shift, log_factor = rng.normal(size=6) / 3, rng.normal(size=6) / 3
    embedding = model.embed(shift, log_factor, slice(0, 6))
    for one, plain in zip(embedding, plain_embedding(model, shift, log_factor), strict=True):
        np.testing.assert_allclose(one, plain, atol=2e-5)


@pytest.mark.slow
def test_fit_and_variances_are_those_of_n_by_n_matrices():
    x, y, prediction = wrong_model(120)
    x, weights = x[:, None], np.random.default_rng(1).uniform(0.5, 2, 120)
    smoother = Smoother.of(fm.RBF(2.0), x, 120)
    basis = smoother.basis(x, weights)
    model, lam = LocationScale(prediction), 0.01
    blocks, shrink = RowBlocks(smoother, x, weights), smoothing_filter(basis, lam)
    fit = fit_corrections(blocks, shrink, model, y, steps=2)
    # Ridge regression three times: A = I - (I - H)^3, with H over the rows.
    kernel = fm.RBF(2.0)(x, x)
    ridge = kernel @ np.linalg.inv(kernel + weights.sum() * lam * np.diag(1 / weights))
    residual_maker = np.eye(120) - ridge
    smooth = np.eye(120) - residual_maker @ residual_maker @ residual_maker
    shift, log_factor = np.zeros(120), np.zeros(120)
    for _ in range(2):
        mean, by_shift, by_factor = plain_embedding(model, shift, log_factor)
        working = model.features(y, slice(0, 120)) - mean
        working += by_shift * shift[:, None] + by_factor * log_factor[:, None]
        right, one, two = smooth @ working, smooth @ by_shift, smooth @ by_factor
        solved = [
            np.linalg.lstsq(np.stack([one[i], two[i]], axis=1), right[i], rcond=None)[0]
            for i in range(120)
        ]
        step = np.array(solved) - np.stack([shift, log_factor], axis=1)
        shift = shift + np.clip(step[:, 0], -model.scale, model.scale)
        log_factor = log_factor + np.clip(step[:, 1], -0.7, 0.7)
    np.testing.assert_allclose(fit.shift, shift, atol=1e-3)
    np.testing.assert_allclose(fit.log_factor, log_factor, atol=5e-3)

    features = model.features(y, slice(0, 120))
    influences = Influences(shrink, fit)
    for rows, g in blocks:
        mean = model.embed(fit.shift[rows], fit.log_factor[rows], rows)[0]
        influences.add(g, weights[rows], features[rows] - mean)
    variances = influences.uncertainty()
    residual = features - plain_embedding(model, shift, log_factor)[0]
    total, diagonal = smooth.sum(axis=1), np.diagonal(smooth)
    influence = np.array(
        [
            np.linalg.lstsq(np.stack([one[i], two[i]], axis=1), residual[i], rcond=None)[0]
            for i in range(120)
        ]
    )
    influence *= (total / (1 - np.clip(diagonal / total, 0, 0.8)))[:, None]
    plain = smooth**2 @ influence**2
    g = basis.coordinates(x)
    of_shift = quadratic(g, variances.shift) * variances.unit**2
    np.testing.assert_allclose(of_shift, plain[:, 0], rtol=0.05)
    np.testing.assert_allclose(quadratic(g, variances.log_factor), plain[:, 1], rtol=0.05)


def test_finds_what_is_wrong_where():
    x, y, prediction = wrong_model(2000)
    diagnosis = fm.diagnose(x, y, prediction, at=[-1.6, 0.0, 1.6])
    assert diagnosis.supported.all()
    np.testing.assert_allclose(diagnosis.shift, [0, 0, -0.4], atol=0.06)
    np.testing.assert_allclose(diagnosis.factor, [2, 1, 1], rtol=0.2)
    assert (diagnosis.shift_band[:, 0] < diagnosis.shift).all()
    assert diagnosis.location[2] > 0.9
    assert diagnosis.spread[0] > 0.5
    assert sum(diagnosis.total.values()) == pytest.approx(1)
    assert "down by 0." in repr(diagnosis)
    assert "wider" in repr(diagnosis)
    assert len(diagnosis.table().splitlines()) > 4


def test_standardised_outcomes_see_a_spread_that_the_means_hide():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    y = 100 * x + rng.normal(size=1000)
    diagnosis = fm.diagnose(x, y, fm.Gaussian(100 * x, 10.0))
    np.testing.assert_allclose(np.median(diagnosis.factor[diagnosis.supported]), 0.1, rtol=0.1)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.4])
@pytest.mark.parametrize("family", [fm.Poisson, lambda mean: fm.NegativeBinomial(mean, 0.5)])
def test_corrected_counts_have_the_requested_moments(family, factor):
    prediction = family(np.array([1.0, 3.0, 20.0]))
    model = CountCorrection(prediction)
    rows = slice(0, 3)
    shift = np.full(3, 0.2)
    table = model.table(rows)
    masses = table.masses(*model.parameters(shift, np.full(3, np.log(factor)), rows, table))
    mean = (masses * table.values).sum(axis=1)
    std = np.sqrt((masses * (table.values - mean[:, None]) ** 2).sum(axis=1))
    np.testing.assert_allclose(mean, prediction.mean * np.exp(0.2), rtol=1e-6)
    np.testing.assert_allclose(std, prediction.std * factor * np.exp(0.1), rtol=1e-5)


def test_counts_that_need_another_mean():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 1500)
    mean = np.exp(1 + 0.5 * x)
    diagnosis = fm.diagnose(x, rng.poisson(mean), fm.Poisson(mean * 1.3))
    assert diagnosis.scale == "log mean"
    np.testing.assert_allclose(np.median(diagnosis.shift), -np.log(1.3), atol=0.05)
    np.testing.assert_allclose(np.median(diagnosis.factor), 1, atol=0.08)


@pytest.mark.parametrize(
    ("prediction", "reason"),
    [
        (fm.Categorical(np.full((60, 3), 1 / 3)), "classes"),
        (fm.Draws(np.zeros((60, 1))), "points"),
        (fm.StudentT(np.full(60, 1.0), 0.0, 1.0), "not finite"),
    ],
)
def test_says_why_there_is_no_answer(prediction, reason):
    x = np.linspace(0, 1, 60)
    diagnosis = fm.diagnose(x, np.zeros(60), prediction)
    assert reason in diagnosis.reason
    assert reason in repr(diagnosis)
    assert np.isnan(diagnosis.shift).all()
    assert not diagnosis.supported.any()


def test_infinite_variance_is_no_obstacle():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 1000)
    y = x + 0.5 * rng.standard_t(1.5, 1000)
    diagnosis = fm.diagnose(x, y + 1, fm.StudentT(np.full(1000, 1.5), x, 0.5))
    np.testing.assert_allclose(np.median(diagnosis.shift), 1, atol=0.15)


def test_edges():
    x, y, prediction = wrong_model(60)
    one = fm.diagnose(x[:1], y[:1], prediction.take(np.arange(1)))
    assert not one.supported.any()
    constant = fm.diagnose(np.ones(60), y, prediction)  # all inputs tie
    assert len(set(np.round(constant.shift, 9))) == 1
    far = fm.diagnose(x, y, prediction, at=[50.0])
    assert not far.supported[0]
    assert np.isnan(far.factor[0])
    flat = fm.diagnose(x, np.zeros(60), fm.Gaussian(np.zeros(60), 1.0))
    assert (flat.factor[flat.supported] < 0.5).all()
    plain = fm.diagnose(x, y, prediction)
    weighted = fm.diagnose(x, y, prediction, weights=np.full(60, 2.0))
    np.testing.assert_allclose(weighted.shift, plain.shift, atol=1e-9, equal_nan=True)
    np.testing.assert_allclose(weighted.factor_band, plain.factor_band, rtol=1e-9, equal_nan=True)


def test_a_kernel_of_the_caller_and_landmarks_from_a_seed():
    x, y, prediction = wrong_model(400)
    diagnosis = fm.diagnose(
        x,
        y,
        prediction,
        at=[1.6],
        x_kernel=fm.RBF(2.0),
        y_kernel=fm.RBF("variance"),
        random_state=3,
    )
    np.testing.assert_allclose(diagnosis.shift, -0.4, atol=0.1)
    same = fm.diagnose(x, y, prediction, random_state=3)
    again = fm.diagnose(x, y, prediction, random_state=3)
    np.testing.assert_array_equal(same.shift, again.shift)
    frame = same.to_frame()
    assert len(frame) == 400
    assert same.to_dict()["scale"] == "units of y"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 1.0}, "level"),
        ({"lam": -1.0}, "lam"),
        ({"x_kernel": "rbf"}, "x_kernel"),
        ({"y_kernel": 3}, "y_kernel"),
        ({"at": np.zeros((2, 3))}, "at"),
        ({"weights": np.ones(3)}, "weights"),
    ],
)
def test_bad_arguments(options, message):
    x, y, prediction = wrong_model(40)
    with pytest.raises((ValueError, TypeError), match=message):
        fm.diagnose(x, y, prediction, **options)


def test_nan_is_refused():
    x, y, prediction = wrong_model(40)
    y[3] = np.nan
    with pytest.raises(ValueError, match="y"):
        fm.diagnose(x, y, prediction)


def test_bands_hold_at_the_end_of_inputs_where_the_shift_is_steep():
    """The smoother is biased there, by more than its standard error."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 8000)
    shift, factor = 0.3 * np.sin(1.5 * x), 1.5 ** np.cos(1.5 * x)
    prediction = fm.Gamma.from_mean(np.exp(0.5 * x), dispersion=0.3)
    y = prediction.mean + shift + factor * (prediction.sample(1, rng)[:, 0] - prediction.mean)
    ends = np.array([-1.9, -1.8, -1.7, -1.6, -1.4])
    diagnosis = fm.diagnose(x, y, prediction, at=ends)
    band_errors = np.abs(
        np.log(diagnosis.factor_band / 1.5 ** np.cos(1.5 * ends)[:, None]).mean(axis=1)
    )
    assert (
        band_errors < np.log(diagnosis.factor_band[:, 1] / diagnosis.factor_band[:, 0]) / 2
    ).all()


def test_rows_left_out_of_early_steps_change_nothing_that_matters(monkeypatch):
    x, y, prediction = wrong_model(3000)
    expected = fm.diagnose(x, y, prediction)
    monkeypatch.setattr("fastmcmd.inference.local_corrections._ENOUGH", 1000)
    thinned = fm.diagnose(x, y, prediction)
    some = expected.supported
    for name in ("shift", "factor"):
        band = getattr(expected, name + "_band")[some]
        change = np.abs(getattr(thinned, name) - getattr(expected, name))[some]
        assert (change < 0.2 * (band[:, 1] - band[:, 0])).all()


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_of_y_do_not_matter(unit):
    """Squares of shifts exceeded float64: no input had an answer."""
    x, y, prediction = wrong_model(300)
    scaled = fm.Gaussian(prediction.mean * unit, prediction.std * unit)
    plain, diagnosis = fm.diagnose(x, y, prediction), fm.diagnose(x, y * unit, scaled)
    assert plain.supported.any()
    np.testing.assert_allclose(diagnosis.shift / unit, plain.shift, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(diagnosis.shift_band / unit, plain.shift_band, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(diagnosis.factor_band, plain.factor_band, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-20, 1e20])
def test_the_scale_of_weights_does_not_matter(unit):
    """The chance level used the sum of the weights instead of the number of rows."""
    x, y, prediction = wrong_model(300)
    plain = fm.diagnose(x, y, prediction)
    diagnosis = fm.diagnose(x, y, prediction, weights=np.full(300, unit))
    assert plain.total.keys() == diagnosis.total.keys() != set()
    right = fm.Gaussian(np.sin(2 * x), 0.2)
    assert not fm.diagnose(x, y, right, weights=np.full(300, unit)).total


def test_functions_that_are_no_kernels_are_refused():
    x, y, prediction = wrong_model(60)
    kernel = fm.CustomKernel(lambda a, b: 1 - np.sum((a - b) ** 2))
    calls = {
        "x_kernel": [
            lambda: fm.diagnose(x, y, prediction, x_kernel=kernel),
            lambda: fm.congruence_test(x, y, prediction, kernel, simulations=19),
            lambda: fm.kernel_report(x, y, prediction, kernel),
            lambda: fm.Monitor(x, y, prediction, x_kernel=kernel),
        ],
        "y_kernel": [
            lambda: fm.congruence_test(x, y, prediction, y_kernel=kernel, simulations=19),
            lambda: fm.select_kernel(x, y, y_kernel=kernel),
        ],
        "candidates": [lambda: fm.select_kernel(x, y, [kernel])],
    }
    for name, functions in calls.items():
        for function in functions:
            with pytest.raises(ValueError, match=f"{name}.* not positive semi-definite"):
                function()


def test_rows_share_tables_of_their_own_width():
    mean = np.concatenate([np.full(400, 0.5), np.full(3, 300.0)])
    prediction = fm.NegativeBinomial(mean, 0.2)
    model = CountCorrection(prediction)
    rng = np.random.default_rng(0)
    shift, log_factor = rng.normal(0, 0.2, 403), rng.normal(0, 0.2, 403)
    rows = slice(1, 403, 2)
    embedded = model.embed(shift[rows], log_factor[rows], rows)
    np.testing.assert_allclose(
        model.expected(shift[rows], log_factor[rows], rows), embedded[0], atol=1e-10
    )
    for row in (1, 399, 401):
        alone = model.embed(shift[[row]], log_factor[[row]], slice(row, row + 1))
        for one, many in zip(alone, embedded, strict=True):
            np.testing.assert_allclose(many[row // 2], one[0], atol=1e-9)
    sizes = [table.values.shape[1] for _, _, table in model._parts(rows)]
    assert min(sizes) < 100 < 800 < max(sizes)


def test_many_quadratic_forms_in_single_precision():
    rng = np.random.default_rng(0)
    g = rng.normal(size=(5000, 30)) * np.logspace(0, 60, 30)
    root = rng.normal(size=(30, 30)) / np.logspace(0, 60, 30)
    np.testing.assert_allclose(
        quadratic(g, root.T @ root), np.sum((g @ root.T) ** 2, axis=1), rtol=1e-3
    )
    assert (quadratic(g, np.zeros((30, 30))) == 0).all()


@pytest.mark.parametrize("seed", [0, 2])
def test_the_noise_of_a_fitted_shift_explains_nothing(seed):
    """Of two modes with the right mean and variance, 74 and 97 % counted as location, none as shape."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (1500, 2))
    y = x[:, 0] + 0.9 * rng.choice([-1, 1], 1500) + np.sqrt(0.19) * rng.normal(size=1500)
    total = fm.diagnose(x, y, fm.Gaussian(x[:, 0], 1.0)).total
    assert total["location"] < 0.5
    assert total["shape"] > 0.25


@pytest.mark.parametrize(
    ("predicted", "right"), [(30.0, 150.0), (150.0, 30.0), (15.0, 1.0), (2.0, 90.0)]
)
def test_counts_that_are_far_off_get_the_right_factor(rng, predicted, right):
    """Steps from no correction found no outcomes within reach, and a wrong sign with a narrow band."""
    x, y = rng.uniform(-2, 2, 300), rng.poisson(right, 300)
    diagnosis = fm.diagnose(x, y, fm.Poisson(np.full(300, predicted)), at=[-1.0, 0.0, 1.0])
    low, high = diagnosis.shift_band.T
    truth = np.log(right / predicted)
    assert ((low - 0.1 <= truth) & (truth <= high + 0.1) & (high - low < 1.2)).all()
    assert ((diagnosis.factor_band[:, 0] < 1.1) & (diagnosis.factor_band[:, 1] > 0.9)).all()


@pytest.mark.parametrize(("jump", "factor"), [(10.0, 1.0), (20.0, 1.0), (0.0, 40.0), (20.0, 0.2)])
def test_a_region_far_from_its_predictions_gets_its_own_start(rng, jump, factor):
    """A model 20 deviations off for x > 1 was said to need a shift of 0.6 and a factor of 16."""
    x = rng.uniform(-2, 2, 1000)
    far = x > 1
    y = np.sin(x) + 0.3 * np.where(far, jump, 0.0)
    y += 0.3 * np.where(far, factor, 1.0) * rng.standard_normal(1000)
    diagnosis = fm.diagnose(x, y, fm.Gaussian(np.sin(x), 0.3), at=[-1.0, 1.7, 1.85])
    np.testing.assert_allclose(diagnosis.shift / 0.3, [0, jump, jump], atol=0.5 + 0.3 * factor)
    np.testing.assert_allclose(diagnosis.factor, [1, factor, factor], rtol=0.4)


def test_one_row_with_hardly_any_spread_does_not_decide(rng):
    """A row of std 1e-100 outweighed all others: infinite factors, and bands without width."""
    x = rng.uniform(-2, 2, 300)
    y = np.sin(x) + 0.3 * rng.standard_normal(300)
    std = np.full(300, 0.5)
    right = fm.diagnose(x, y, fm.Gaussian(np.sin(x) + 0.2, std))
    std[5] = 1e-100
    tiny = fm.diagnose(x, y, fm.Gaussian(np.sin(x) + 0.2, std))
    np.testing.assert_allclose(tiny.factor, right.factor, rtol=0.1)
    np.testing.assert_allclose(tiny.shift_band, right.shift_band, atol=0.05)


def test_shares_do_not_depend_on_the_unit(rng):
    """The noise that corrections absorb was left out where its factors left float64."""
    x = rng.uniform(-2, 2, 300)
    y, mean = np.sin(x) + 0.3 * rng.standard_normal(300), np.sin(x) + 0.2
    expected = fm.diagnose(x, y, fm.Gaussian(mean, 0.5)).total
    for unit in (1e-200, 1e200):
        shares = fm.diagnose(x, y * unit, fm.Gaussian(mean * unit, 0.5 * unit)).total
        assert shares == pytest.approx(expected)


def test_sparse_counts_have_no_answer_or_a_right_one(rng):
    """Where hardly any count is positive, log means ran to -25, with bands that excluded the truth."""
    covered, number = 0, 0
    for _ in range(5):
        x = rng.uniform(-2, 2, 300)
        mean = np.exp(-3 + x / 2)
        diagnosis = fm.diagnose(x, rng.poisson(mean), fm.Poisson(mean))
        low, high = diagnosis.shift_band[diagnosis.supported].T
        covered, number = covered + int(((low <= 0) & (high >= 0)).sum()), number + len(low)
        assert (np.abs(diagnosis.shift[diagnosis.supported]) < 3.1).all()
    assert covered >= 0.85 * number


@pytest.mark.filterwarnings("error")
def test_a_count_with_mean_1e_300_is_diagnosed_without_warnings(rng):
    x = rng.uniform(-2, 2, 200)
    mean = np.where(np.arange(200) < 3, 1e-300, np.exp(x))
    diagnosis = fm.diagnose(x, rng.poisson(mean), fm.Poisson(mean))
    assert diagnosis.supported.any()


def test_what_few_rows_cannot_resolve_is_not_called_shape():
    """In ten columns a wrong spread counts as rest; the sentence must not call it shape."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(442, 10))
    mean = x.sum(axis=1) / np.sqrt(10)
    y = mean + 0.7 * np.exp(0.4 * mean) * rng.normal(size=442)
    diagnosis = fm.diagnose(x, y, fm.Gaussian(mean, 0.75))
    assert diagnosis.total["shape"] > 0.5
    text = repr(diagnosis)
    assert "is left: the shape, or corrections finer than these rows can show" in text
    assert "Fewer columns as x" in text
    assert "rest" in diagnosis.table()
    by_forecast = fm.diagnose(mean, y, fm.Gaussian(mean, 0.75))
    assert by_forecast.total["spread"] > 0.6
    assert by_forecast.total["shape"] < 0.1
    assert "is left" not in repr(by_forecast)


def test_few_rows_in_many_columns_have_an_answer():
    """With 300 landmarks of 300 rows, a spread 1.5 to 2.5 times too narrow was beyond chance nowhere."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8))
    shift, factor = 0.6 * np.sin(x[:, 0]), np.exp(0.5 * np.tanh(x[:, 1]) + 0.4)
    y = x.sum(axis=1) + shift + factor * rng.normal(size=300)
    diagnosis = fm.diagnose(x, y, fm.Gaussian(x.sum(axis=1), 1.0))
    some = diagnosis.supported
    assert some.mean() > 0.6
    assert np.mean(diagnosis.factor_band[some, 0] > 1) > 0.3
    for true, band in ((shift, diagnosis.shift_band), (factor, diagnosis.factor_band)):
        assert np.mean((band[some, 0] <= true[some]) & (true[some] <= band[some, 1])) > 0.85
