"""`ConditionalCongruence`: scores at other points, witness, save and load."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import fastmcmd as fm


@pytest.fixture
def data(rng):
    x = rng.normal(size=(150, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=150)
    return x, y, fm.Gaussian(x[:, 0], 0.6)


def test_scores_are_cce_elsewhere(data, rng):
    x, y, prediction = data
    new = rng.normal(size=(20, 2))
    cc = fm.ConditionalCongruence(lam=0.05).fit(x, y, prediction)
    np.testing.assert_allclose(
        cc.score_samples(new), fm.cce(x, y, prediction, at=new, lam=0.05).values, atol=2e-6
    )
    np.testing.assert_allclose(cc.result_.values, cc.score_samples(x), atol=2e-6)


@pytest.mark.parametrize("y_kernel", [fm.RBF(1.0), fm.Laplacian(1.0)], ids=["feature", "dense"])
def test_witness_is_the_difference_of_embeddings(rng, y_kernel):
    """Return h(x, y) = sum a_i(x) (k(y_i, y) - k(y'_i, y)) by the definition."""
    import oracle

    x, y, p = rng.normal(size=(350, 2)), rng.normal(size=350), rng.normal(size=350) + 0.4
    points, new = np.linspace(-2, 2, 9)[:, None], rng.normal(size=(5, 2))
    cc = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), y_kernel=y_kernel, tol=1e-9, lam=0.1).fit(
        x, y, p
    )
    a = oracle.coefficients(fm.RBF(0.5), x, new, 0.1)
    rows = y_kernel(y[:, None], points) - y_kernel(p[:, None], points)
    np.testing.assert_allclose(cc.witness(new, points), a.T @ rows, atol=1e-8)


@pytest.mark.parametrize(("tol", "y_kernel"), [(1e-3, fm.RBF(40.0)), (1e-6, fm.Laplacian(1.0))])
def test_error_of_the_witness(rng, tol, y_kernel):
    """At outputs outside the features' span, it exceeds the error of the value, within its own bound."""
    import oracle

    x, y, p = rng.normal(size=(500, 2)), rng.normal(size=500), rng.normal(size=500) + 0.4
    points, new = np.linspace(-4, 4, 99)[:, None], rng.normal(size=(5, 2))
    cc = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), y_kernel=y_kernel, tol=tol, lam=0.1).fit(
        x, y, p
    )
    a = oracle.coefficients(fm.RBF(0.5), x, new, 0.1)
    rows = y_kernel(y[:, None], points) - y_kernel(p[:, None], points)
    result = cc.evaluate(new)
    v, e = result.values[:, None], result.error_bounds[:, None]
    off = np.abs(cc.witness(new, points) - a.T @ rows)
    assert (off <= np.sqrt(e * (2 * v + e))).all()
    assert (off > e).any() == (result.info.form == "feature")


@pytest.mark.parametrize("y_kernel", [fm.RBF(1.0), fm.Laplacian(1.0)], ids=["feature", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_save_and_load(tmp_path, rng, y_kernel, dtype):
    x = rng.normal(size=(420, 2)).astype(dtype)
    y, p = rng.normal(size=420), rng.normal(size=420)
    new = rng.normal(size=(11, 2)).astype(dtype)
    cc = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), y_kernel=y_kernel).fit(x, y, p)
    cc.save(tmp_path / "fitted.npz")
    again = fm.load(tmp_path / "fitted.npz")
    np.testing.assert_array_equal(again.score_samples(new), cc.score_samples(new))
    np.testing.assert_array_equal(again.result_.values, cc.result_.values)
    np.testing.assert_array_equal(again.witness(new, [0.0, 1.0]), cc.witness(new, [0.0, 1.0]))
    assert again.result_.info == cc.result_.info
    assert again.evaluate(new).error_bound == cc.evaluate(new).error_bound
    assert [f.name for f in tmp_path.iterdir()] == ["fitted.npz"]


def test_the_cause_of_a_large_bound_is_named_and_saved(tmp_path, rng):
    x = rng.normal(size=(200, 2))
    y = x[:, 0] + rng.normal(size=200)
    options = {"y_kernel": fm.RBF(0.5), "solver": "cholesky"}
    with pytest.warns(fm.ToleranceWarning, match=r"features of y_kernel miss .* wider y_kernel"):
        cc = fm.ConditionalCongruence(**options, tol=1e-12).fit(x, y, fm.Gaussian(x[:, 0], 1.0))
    cause = cc.result_.info.cause
    assert cause.kind == "output features"
    assert cc.result_.error_bound / 2 <= cause.size <= cc.result_.error_bound
    assert cc.result_.to_dict()["info"]["cause"] == {"kind": cause.kind, "size": cause.size}
    cc.save(tmp_path / "fitted.npz")
    assert fm.load(tmp_path / "fitted.npz").result_.info == cc.result_.info
    assert fm.cce(x, y, fm.Gaussian(x[:, 0], 1.0), **options).info.cause is None


@pytest.mark.slow
def test_save_refuses_what_cannot_be_saved(tmp_path, data):
    x, y, prediction = data
    with pytest.raises(ValueError, match="not fitted"):
        fm.ConditionalCongruence().save(tmp_path / "a.npz")
    encoded = fm.ConditionalCongruence(encoder=lambda a: a * 2).fit(x, y, prediction)
    with pytest.raises(TypeError, match="encoder is a Python callable"):
        encoded.save(tmp_path / "a.npz")
    custom = fm.ConditionalCongruence(x_kernel=fm.CustomKernel(_dot)).fit(x, y, prediction)
    with pytest.raises(TypeError, match="function"):
        custom.save(tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def _dot(a, b):
    return 1.0 + np.sum(a * b)


def test_load_refuses_other_files(tmp_path, data):
    x, y, prediction = data
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"no zip at all")
    with pytest.raises(ValueError, match="is not a saved ConditionalCongruence or recalibrator"):
        fm.load(bad)
    np.savez(bad, x=x)
    with pytest.raises(ValueError, match="is not a saved ConditionalCongruence or recalibrator"):
        fm.load(bad)
    np.savez(bad, settings=np.array([{"format": 1}], dtype=object))
    with pytest.raises(ValueError, match="is not a saved ConditionalCongruence or recalibrator"):
        fm.load(bad)
    np.savez(bad, settings=np.frombuffer(json.dumps({"format": 99}).encode(), dtype=np.uint8))
    with pytest.raises(ValueError, match="format 99"):
        fm.load(bad)
    with pytest.raises(FileNotFoundError):
        fm.load(tmp_path / "missing.npz")
    good = tmp_path / "good.npz"
    fm.ConditionalCongruence().fit(x, y, prediction).save(good)
    good.write_bytes(good.read_bytes()[:-500])
    with pytest.raises(ValueError, match="is not a saved ConditionalCongruence or recalibrator"):
        fm.load(good)


def test_failed_save_keeps_the_earlier_file(tmp_path, data, monkeypatch):
    target = tmp_path / "fitted.npz"
    cc = fm.ConditionalCongruence().fit(*data)
    cc.save(target)
    before = target.read_bytes()

    def broken(stream, arrays):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("fastmcmd.storage.write_npz", broken)
    with pytest.raises(OSError, match="disk full"):
        cc.save(target)
    assert target.read_bytes() == before
    assert [f.name for f in tmp_path.iterdir()] == ["fitted.npz"]


def test_encoder(data):
    x, y, prediction = data
    double = fm.cce(2 * x, y, prediction)
    encoded = fm.cce(x, y, prediction, encoder=lambda a: 2 * np.asarray(a))
    np.testing.assert_array_equal(double.values, encoded.values)
    cc = fm.ConditionalCongruence(encoder=lambda a: 2 * np.asarray(a)).fit(x, y, prediction)
    np.testing.assert_allclose(cc.score_samples(x), double.values, atol=2e-6)


def test_unfitted_and_wrong_columns(data):
    with pytest.raises(ValueError, match="not fitted"):
        fm.ConditionalCongruence().score_samples([[1.0, 2.0]])
    cc = fm.ConditionalCongruence().fit(*data)
    with pytest.raises(ValueError, match="x_new has 3 columns; 2 are needed"):
        cc.score_samples(np.ones((4, 3)))


def test_result_is_an_array_with_a_summary(data):
    result = fm.cce(*data)
    np.testing.assert_array_equal(np.asarray(result), result.values)
    assert np.asarray(result, dtype=np.float32).dtype == np.float32
    assert np.asarray(result).mean() == pytest.approx(result.mean)
    text = repr(result)
    for word in ("CCE at 150 points", "error <=", "rigorous"):
        assert word in text
    assert json.loads(json.dumps(result.to_dict()))["n"] == 150


@pytest.mark.slow
def test_exact_expectation_is_the_limit_of_many_draws(data):
    x, y, prediction = data
    exact = fm.cce(x, y, prediction)
    many = fm.cce(x, y, prediction, draws=4000, random_state=1)
    assert np.abs(exact.values - many.values).max() < 0.01
    again = fm.cce(x, y, prediction, draws=3, random_state=1)
    same = fm.cce(x, y, prediction, draws=3, random_state=1)
    np.testing.assert_array_equal(again.values, same.values)


@pytest.mark.parametrize(
    "make",
    [
        lambda m: fm.Gaussian(m, 0.5),
        lambda m: fm.Poisson(np.exp(m)),
        lambda m: fm.NegativeBinomial(np.exp(m), 0.7),
        lambda m: __import__("scipy.stats", fromlist=["t"]).t(5, loc=m, scale=0.4),
        lambda m: __import__("scipy.stats", fromlist=["binom"]).binom(9, 1 / (1 + np.exp(-m))),
        lambda m: (m, np.full(len(m), 0.5)),
    ],
    ids=["gaussian", "poisson", "negative binomial", "student t", "binomial", "mean and std"],
)
@pytest.mark.parametrize("y_kernel", [None, fm.Matern(2.5, 1.0), fm.Laplacian(0.7)])
def test_predictions_exact_against_draws(rng, make, y_kernel):
    m = rng.normal(size=40) * 0.7
    y = np.round(np.exp(m) + rng.exponential(size=40))
    prediction = make(m)
    with warnings.catch_warnings():
        # Quadrature nodes of a kinked kernel without low rank: the bound is valid, and above tol.
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        exact = fm.cce(m, y, prediction, x_kernel=fm.RBF(1.0), y_kernel=y_kernel)
    from_draws = fm.cce(
        m, y, prediction, x_kernel=fm.RBF(1.0), y_kernel=y_kernel, draws=600, random_state=0
    )
    # Monte-Carlo error of 600 draws at 40 inputs.
    assert np.abs(exact.values - from_draws.values).max() < 0.03
    assert exact.error_bound <= 1e-6 or exact.info.form == "dense"


@pytest.mark.parametrize(
    ("y_kernel", "std"),
    [(fm.Laplacian(1.0), 0.5), (fm.Laplacian(8.0), 2.0), (fm.Matern(1.5, 0.1), 2.0)],
)
def test_kinked_kernels_go_by_closed_forms(rng, y_kernel, std):
    """A value was certified rigorous to 2e-11 and wrong by 5e-3: Gauss-Hermite nodes miss a kink."""
    import oracle

    x = rng.normal(size=120)
    y = x + rng.normal(size=120)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        result = fm.cce(x, y, (x, std), x_kernel=fm.RBF(1.0), y_kernel=y_kernel, lam=0.1)

    # The definition, by Gauss-Legendre panels on either side of the kink: over a normal gap of two outputs.
    panels = np.concatenate([[0.0], std * 2.0 ** np.arange(-9, 6)])
    z, w = np.polynomial.legendre.leggauss(20)
    half = np.diff(panels)[:, None] / 2
    gap, weight = (panels[:-1, None] + half * (1 + z)).ravel(), (half * w).ravel()
    height = weight * y_kernel(gap[:, None], np.zeros((1, 1)))[:, 0]

    def expected(apart, variance):
        apart = np.abs(apart)[..., None]
        density = sum(np.exp(-((side * gap - apart) ** 2) / (2 * variance)) for side in (1, -1))
        return density @ height / np.sqrt(2 * np.pi * variance)

    cross = expected(x[:, None] - y, std**2)
    both = np.stack([expected(one - x, 2 * std**2) for one in x])
    gram = y_kernel(y[:, None], y[:, None]) - cross - cross.T + both
    a = oracle.coefficients(fm.RBF(1.0), x[:, None], x[:, None], 0.1)
    exact = np.sqrt(np.maximum(np.einsum("iq,ij,jq->q", a, gram, a), 0))
    assert result.info.certificate == "rigorous"
    assert result.error_bound < 1e-6
    assert (np.abs(result.values - exact) <= result.error_bounds + 1e-7).all()


def test_progress_shows_products_and_certificate(data, capfd):
    x, y, prediction = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fm.cce(x, y, prediction, progress=True, solver="cg")
    progress_text = capfd.readouterr().err
    assert "certificate" in progress_text
    assert "left" in progress_text


@pytest.mark.slow
def test_exact_expectations_that_would_take_hours_are_refused(rng):
    """Heavy tails and no low rank: an answer in time, or a clear error, but no endless run.

    The Cauchy distribution took 91 s for a bound of 6.5e-3. Families of users are not known to be smooth.
    """
    from scipy import stats

    class UserLevy(stats.rv_continuous):
        _pdf, _cdf, _sf, _ppf, _isf = (
            staticmethod(getattr(stats.levy, name)) for name in ("pdf", "cdf", "sf", "ppf", "isf")
        )

    x = rng.normal(size=400)
    y = x + 0.5 * rng.standard_t(4, size=400)
    few = x[:80]
    for heavy in (stats.t(4.0, loc=few, scale=0.5), stats.cauchy(few, 0.5), stats.levy(few, 0.5)):
        result = fm.cce(few, y[:80], heavy, x_kernel=fm.RBF(1.0))
        assert result.info.form == "feature"
        assert result.error_bound <= 1e-6
    with pytest.raises(ValueError, match=r"draws=None: .* use draws=100"):
        fm.cce(x, y, UserLevy(a=0.0, name="own")(loc=x, scale=0.5), x_kernel=fm.RBF(1.0))


def test_reprs_show_kernels_and_no_time(data):
    estimator = fm.ConditionalCongruence(fm.RBF(1.0), lam=0.1)
    assert repr(estimator) == "ConditionalCongruence(x_kernel=RBF(gamma=1.0), lam=0.1)"
    text = repr(estimator.fit(*data))
    assert "x_kernel=RBF(gamma=1.0), y_kernel=" in text
    assert text == repr(fm.ConditionalCongruence(fm.RBF(1.0), lam=0.1).fit(*data))
