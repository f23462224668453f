"""The published bootstrap in shared passes agrees with separate computations, sample by sample."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import oracle
import published
import pytest

import fastmcmd as fm
from fastmcmd.compat import probcal
from fastmcmd.compat.probcal import replicates
from fastmcmd.compat.probcal.replicates import bootstrap_mcmd


def problem(n=60, d=3, columns=1):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, d))
    return rng, x, x[:, :1] + rng.normal(size=(n, columns))


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("way", ["dense", "refined", "streamed", "other points"])
def test_samples_agree_with_the_published_formula(way, repeats, monkeypatch):
    rng, x, y = problem()
    samples = [rng.integers(0, 60, 60) for _ in range(3)]
    grid = rng.normal(size=(7, 3)) if way == "other points" else x
    if way == "streamed":
        monkeypatch.setattr(replicates, "_SHARE", 0.0)
    samples_used = []

    def draw(rows):
        samples_used.append(rng.normal(size=(len(rows), repeats, 1)) + x[rows, None, :1])
        return samples_used[-1]

    tol = 1e-9 if way == "refined" else 1e-5
    kernel = fm.Polynomial(3, 0.2, 1.0)
    values = bootstrap_mcmd(
        grid, x, y, samples, draw, 2, kernel, lambda some: fm.RBF(0.5 / some.var()), 0.1, tol
    )
    assert values.error_bound <= (1e-7 if way == "refined" else tol)
    trials = iter(samples_used)
    for sample, rows in enumerate(samples):
        gamma = 0.5 / y[rows].var()
        for trial in range(2):
            expected = oracle.mcmd(
                grid, x[rows], y[rows], np.repeat(x[rows], repeats, axis=0),
                next(trials).reshape(-1, 1), lambda a, b: published.polynomial(a, b, 0.2),
                partial(published.rbf, gamma=gamma), 0.1,
            )  # fmt: skip
            gap = np.abs(values.values[sample, trial] - expected).max()
            assert gap <= values.error_bound + 1e-9


def embeddings(n=500, d=64):
    """Return rows of norm one around a common mean, as from CLIP: the kernel matrix is nearly constant."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, d)) / np.sqrt(d) + 2 / np.sqrt(d)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    mean = 3 * x[:, :4].sum(axis=1)
    return x, mean, mean + 0.3 * rng.normal(size=n)


def test_embeddings_need_no_second_solver(monkeypatch):
    """Single precision once rounded the large constant part of the kernel by more than the tolerance."""
    x, mean, y = embeddings()

    def refuse(options):
        raise AssertionError("solved a second time")

    monkeypatch.setattr(replicates, "solver_of", refuse)
    rng = np.random.default_rng(4)
    samples = [rng.integers(0, len(x), len(x)) for _ in range(2)]
    samples_used = []

    def draw(rows):
        samples_used.append(mean[rows, None, None] + 0.35 * rng.normal(size=(len(rows), 1, 1)))
        return samples_used[-1]

    values = bootstrap_mcmd(
        x, x, y[:, None], samples, draw, 1, fm.Polynomial(3, 1.0, 1.0),
        lambda some: fm.RBF(0.5 / some.var()), 0.1, 1e-5,
    )  # fmt: skip
    assert values.error_bound <= 1e-5
    for sample, rows in enumerate(samples):
        expected = oracle.mcmd(
            x, x[rows], y[rows, None], x[rows], samples_used[sample].reshape(-1, 1),
            lambda a, b: published.polynomial(a, b, 1.0),
            partial(published.rbf, gamma=0.5 / y[rows].var()), 0.1,
        )  # fmt: skip
        assert np.abs(values.values[sample, 0] - expected).max() <= values.error_bound


def test_values_below_the_expected_ones_get_more_features(monkeypatch):
    """Features dropped relative to values of a million would matter for small values."""
    x, mean, y = embeddings(200)
    kinds = []
    leading = replicates._leading

    def recorded(*arguments):
        kinds.append(leading(*arguments))
        return kinds[-1]

    monkeypatch.setattr(replicates, "_leading", recorded)
    monkeypatch.setattr(replicates, "_EXPECTED", 1e6)
    monkeypatch.setattr(replicates, "_MOST_RESIDUAL", 1e-2)
    rng = np.random.default_rng(4)
    values = bootstrap_mcmd(
        x, x, y[:, None], [rng.integers(0, 200, 200)],
        lambda rows: mean[rows, None, None] + 0.35 * rng.normal(size=(len(rows), 1, 1)), 2,
        fm.Polynomial(3, 1.0, 1.0), lambda some: fm.RBF(0.5 / some.var()), 0.1, 1e-5,
    )  # fmt: skip
    first, second = (feature_array.shape[2] for feature_array, _ in kinds)
    assert first < second
    assert values.error_bound <= 1e-5


def test_summary_is_the_published_one():
    _rng, x, y = problem()
    settings = probcal.CCESettings(num_trials=2, num_mc_samples=2, output_kernel="laplacian")
    model = fm.Gaussian(x[:, 0], 1.0)
    result, again = (
        probcal.bootstrap_cce(
            x, y, model, num_bootstrap_samples=3, settings=settings, random_state=0
        )
        for _ in range(2)
    )
    assert result.mean_cce_bar == again.mean_cce_bar
    assert result.expected_values.shape == result.stdevs.shape == (60,)
    np.testing.assert_allclose(result.expected_values.mean(), result.mean_cce_bar)
    assert (result.quantiles["0.025"] <= result.quantiles["0.975"]).all()
    assert list(result.quantiles) == ["0.025", "0.05", "0.1", "0.9", "0.95", "0.975"]


def test_around_a_right_model_the_mean_is_too_large():
    """Repeated rows double the noise in the squared CCE: a factor of about sqrt(2)."""
    rng = np.random.default_rng(0)
    ratios = []
    for _ in range(4):
        x = rng.uniform(-2, 2, 150)
        y, resampled = x + rng.normal(size=(2, 150))
        result = probcal.bootstrap_cce(x, y, fm.Gaussian(x, 1.0), random_state=rng)
        kernels = {"x_kernel": fm.Polynomial(3, 1.0, 1.0), "y_kernel": fm.RBF(0.5 / y.var(ddof=1))}
        ratios.append(result.mean_cce_bar / fm.cce(x, y, resampled, lam=0.1, **kernels).mean)
    assert 1.1 < np.mean(ratios) < 1.6


def model_and_module():
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 2, generator=generator)
    y = x[:, 0] + torch.randn(80, generator=generator)
    batches = [(x[:50], y[:50]), (x[50:], y[50:])]
    model = SimpleNamespace(
        predict=lambda inputs: inputs[:, :1],
        sample=lambda y_hat, num_samples: y_hat + torch.randn(len(y_hat), num_samples),
        predictive_dist=lambda y_hat: torch.distributions.Normal(y_hat[:, 0], 1.0),
    )
    module = SimpleNamespace(
        test_dataloader=lambda: batches, val_dataloader=lambda: [(x[:60] + 0.1, y[:60])]
    )
    return torch, model, module


@pytest.mark.parametrize("split", [False, True])
def test_evaluator_of_torch_models(split, tmp_path):
    torch, model, module = model_and_module()
    settings = probcal.CalibrationEvaluatorSettings(
        dataset_type=probcal.DatasetType.TABULAR, device="cpu", num_bootstrap_samples=3,
        cce_settings=probcal.CCESettings(use_val_split_for_S=split, num_trials=2),
    )  # fmt: skip
    evaluator = probcal.CalibrationEvaluator(settings)
    torch.manual_seed(1)
    first = evaluator(model, module)
    torch.manual_seed(1)
    assert evaluator(model, module).cce.mean_cce_bar == first.cce.mean_cce_bar
    assert first.cce.expected_values.shape == (80,)
    assert 0 < first.ece.mean_ece < 0.3
    first.save(tmp_path / "results.npz")
    loaded_results = probcal.CalibrationResults.load(tmp_path / "results.npz")
    assert loaded_results.cce.std_cce_bar == first.cce.std_cce_bar
    np.testing.assert_array_equal(loaded_results.cce.quantiles["0.9"], first.cce.quantiles["0.9"])
    assert loaded_results.ece.quantiles == first.ece.quantiles
    with pytest.raises(ValueError, match=r"filepath.*\.npz"):
        first.save(tmp_path / "results.pt")
    with pytest.raises(ValueError, match="input_grid_2d"):
        evaluator.plot_cce_results(first)
    first.input_grid_2d = np.random.default_rng(0).normal(size=(80, 2))
    assert len(evaluator.plot_cce_results(first, gridsize=10).axes) == 6


def test_damaged_results_are_refused_by_name(tmp_path):
    path = tmp_path / "results.npz"
    x = np.arange(8.0)
    cce = probcal.CCEResults(x, x, {"0.1": x}, 0.5, 0.25)
    probcal.CalibrationResults(
        x, x[:, None], cce, probcal.ECEResults(0.5, 0.25, {"0.1": 0.25})
    ).save(path)
    with np.load(path) as file:
        good = dict(file)
    rng, content = np.random.default_rng(0), path.read_bytes()
    for place in rng.integers(len(content), size=30):  # cut off
        path.write_bytes(content[:place])
        with pytest.raises(ValueError, match=r"filepath .*results\.npz"):
            probcal.CalibrationResults.load(path)
    flipped = mentions = 0
    for place in rng.integers(len(content), size=100):  # refused, or harmless as in unused fields
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            results = probcal.CalibrationResults.load(path)
        except ValueError as error:
            mentions += "results.npz" in str(error)
            flipped += 1
        else:
            np.testing.assert_array_equal(results.cce.expected_values, x)
    assert flipped == mentions > 50
    for odd in (
        {name: array for name, array in good.items() if name != "targets"},
        {name: array for name, array in good.items() if name != "cce/stdevs/"},
        {**good, "other/a/": x},
        {**good, "cce/stdevs/0.1": x},
        {**good, "cce/median/": x},
        {**good, "targets": x.astype("U3")},
    ):
        np.savez(path, **odd)
        with pytest.raises(ValueError, match=r"results\.npz"):
            probcal.CalibrationResults.load(path)
    with pytest.raises(IsADirectoryError, match="filepath"):
        probcal.CalibrationResults.load(tmp_path)


def test_published_defaults():
    assert probcal.CCESettings() == probcal.CCESettings(False, 5, 1, "polynomial", "rbf", 0.1)
    assert probcal.ECESettings() == probcal.ECESettings(50, "frequency", 1.0)
    pytest.importorskip("torch")
    settings = probcal.CalibrationEvaluatorSettings()
    assert settings.num_bootstrap_samples == 10
    assert settings.dataset_type is probcal.DatasetType.IMAGE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_trials": 0}, "num_trials"),
        ({"lmbda": -1.0}, "lmbda"),
        ({"input_kernel": "rbf"}, "input_kernel"),
        ({"output_kernel": "cosine"}, "output_kernel"),
        ({"output_kernel": fm.Laplacian(1e6)}, "output_kernel"),
    ],
)
def test_bad_settings_are_named(change, message):
    _rng, x, y = problem(n=600)
    with pytest.raises(ValueError, match=message):
        probcal.bootstrap_cce(
            x, y, fm.Gaussian(x[:, 0], 1.0), settings=probcal.CCESettings(**change), random_state=0
        )
