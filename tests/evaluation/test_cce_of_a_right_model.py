"""Evaluations report the CCE that a right model would have, and what their kernels can detect."""

import numpy as np
import pytest
from builders import sine_model

import fastmcmd as fm


@pytest.mark.parametrize("family", ["gaussian", "counts", "draws"])
def test_null_of_mean_cce_is_the_mean_over_right_outcomes(rng, family):
    """Agree with 30 samples within three standard errors, and a few per cent for the approximation."""
    n, draws = 120, family == "draws"
    x = rng.uniform(-2, 2, n)
    truth = fm.Poisson(np.exp(1 + 0.5 * x)) if family == "counts" else fm.Gaussian(np.sin(x), 0.3)
    y, *repeats = truth.sample(31, random_state=0).T
    members = truth.sample(31 * 10, random_state=1).reshape(n, 31, 10)  # an ensemble a sample
    models = [fm.Draws(members[:, k]) if draws else truth for k in range(31)]
    cc = fm.ConditionalCongruence().fit(x, y, models[0])
    kernels = {"x_kernel": cc.x_kernel_, "y_kernel": cc.y_kernel_, "lam": cc.lam_}
    means = [
        fm.cce(x, one, model, **kernels, tol=1e-4).mean
        for one, model in zip(repeats, models[1:], strict=True)
    ]
    null = cc.chance.right_values(np.arange(n)).mean()
    assert null == pytest.approx(np.mean(means), abs=0.03 * null + 3 * np.std(means) / np.sqrt(30))


def test_evaluations_print_it(rng):
    x, y, model = sine_model(rng, 150)
    evaluation = fm.evaluate(y, model, x)
    null = next(one.null for one in evaluation.measured if one.name == "mean_cce")
    assert 0.5 < evaluation["mean_cce"] / null < 2
    text = repr(evaluation)
    assert f"(a right model here: {null:.3g}; detectable from {evaluation.detectable:.3g})" in text
    assert f"CCE {evaluation.detectable:.2g} would have been seen" in text
    assert text.count("detectable from") == 1
    assert evaluation.kernels.sentence in text
    assert evaluation.kernels.power["ignores x"] > 0.9
    numbers = evaluation.to_dict()
    assert numbers["if_right"]["mean_cce"] == null
    assert numbers["kernels"]["sentence"] == evaluation.kernels.sentence


def test_its_figures_belong_to_one_pair_of_kernels(rng):
    """CCE, null mean and detectable bias all use the kernels of the CCE, default or chosen."""
    x, y, model = sine_model(rng, 150)
    for kernels in ({}, {"x_kernel": fm.RBF(0.7), "y_kernel": fm.RBF(3.0), "lam": 0.05}):
        evaluation = fm.evaluate(y, model, x, **kernels)
        squares = fm.cce(x, y, model, **kernels)
        assert evaluation.test.cce == pytest.approx(np.sqrt(np.mean(squares.values**2)), rel=0.05)
        assert evaluation.test.null_mean == pytest.approx(squares.null_mean.mean(), rel=0.1)
        fitted = evaluation.congruence
        same = fm.congruence_test(x, y, model, fitted.x_kernel_, fitted.y_kernel_, fitted.lam_)
        assert evaluation.detectable == same.detectable
        assert evaluation.to_dict()["detectable"] == evaluation.detectable
        alone = fm.congruence_test(x, y, model)
        assert evaluation.test.p_value == alone.p_value
        assert evaluation.test.evidence == alone.evidence


@pytest.mark.slow
def test_what_is_detectable_is_seen_in_half_of_all_samples(rng):
    """A bias of that size, in the unit of the CCE, exceeds a right model's 95 % quantile half the time."""
    n, kernels = 300, (fm.RBF(0.5), fm.RBF(0.5), 0.01)
    x = rng.uniform(-2, 2, n)
    mean = np.sin(x)
    right_one = fm.congruence_test(
        x, mean + 0.5 * rng.normal(size=n), (mean, 0.5), *kernels, simulations=999
    )
    gram = kernels[0](x[:, None])
    weights = np.linalg.solve(gram + n * kernels[2] * np.eye(n), gram)

    def misfit(bias):  # |E p - E_f p| of two Gaussians under the RBF kernel, smoothed
        spread = 1 + 4 * 0.5 * 0.25
        size = 2 / np.sqrt(spread) * (1 - np.exp(-0.5 * bias**2 / spread))
        return np.sqrt(size * np.mean(weights.sum(axis=0) ** 2))

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if misfit(middle) < right_one.detectable else (low, middle)
    rejections = [
        fm.congruence_test(
            x, mean + low + 0.5 * rng.normal(size=n), (mean, 0.5), *kernels, simulations=19, random_state=k
        ).statistic > right_one.critical_value
        for k in range(100)
    ]  # fmt: skip
    assert 0.35 < np.mean(rejections) < 0.65  # three standard errors


def test_a_blind_kernel_is_warned_of(rng):
    x, y, model = sine_model(rng, 150)
    text = repr(fm.evaluate(y, model, x, x_kernel=fm.RBF(1e-6), y_kernel=fm.RBF(1.0)))
    assert "Nearly blind to x" in text


def test_what_is_not_known_is_left_out(rng):
    x, y, model = sine_model(rng, 150)
    points = fm.evaluate(y, y + 0.1, x)  # one draw a row: its spread is unknown
    assert all(one.null is None for one in points.measured if one.name == "mean_cce")
    quick = fm.evaluate(y, model, x, test=False)
    assert quick.kernels is None
    assert quick.to_dict()["kernels"] is None
    assert "a right model here" not in quick.cce_line
    weighted = fm.evaluate(y, model, x, sample_weight=np.linspace(1, 2, len(y)))
    assert "a right model here" in weighted.cce_line


@pytest.mark.slow
def test_points_without_support_are_grey_and_marked(rng, tmp_path, request):
    pytest.importorskip("matplotlib")
    request.getfixturevalue("unpainted")
    from matplotlib.figure import Figure

    from fastmcmd.plots import panels
    from fastmcmd.plots.values import _GREY as GREY

    x, y, model = sine_model(rng, 150)
    x[7], y[7] = 60.0, 4.0  # far from all others, and a large CCE
    evaluation = fm.evaluate(y, fm.Gaussian(model.mean, 0.8), x)
    np.testing.assert_array_equal(np.flatnonzero(~evaluation.supported), [7])
    np.testing.assert_array_equal(evaluation.supported, evaluation.cce.effective_rows >= 5)
    (picture,) = (one for one in panels.panels({"": evaluation}) if one.title == "CCE over inputs")
    ax = Figure().subplots()
    picture.draw(ax)
    grey = [one for one in ax.lines if one.get_color() == GREY]
    assert [float(one) for one in grey[0].get_xdata()] == [60.0]
    evaluation.report(tmp_path / "r.html")
    assert "few rows near" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert fm.evaluate(y, model).supported is None
