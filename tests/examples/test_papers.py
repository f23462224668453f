"""The papers' experiments: claims hold in small repetitions, and the page shows what they print."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
papers = pytest.importorskip("examples.papers.__main__")


PAGE = (ROOT / "docs" / "papers.md").read_text()
PAINTED = ("rotated_classes", "score_map")  # pictures that are quick to paint
COMPOSED = ("conflation",)  # drawn, and not painted
# Claims that do not hold in full, by the beginning of their text. All others must hold.
OPEN = {
    "conflation": {"The double Poisson head is best": "not"},
    "perturbed_digits": {
        "CCE grows with blur": "partly", "CCE grows with label noise": "partly",
        "CCE grows with mixup": "partly",
    },
    "rejection": {
        "Holding out rows of high CCE beats random rows in both losses (wave, wrong spread)": "partly",
        "Holding out rows of high CCE beats holding out rows of large predicted spread (wave, wrong "
        "spread": "partly",
        "Holding out rows of high CCE beats holding out rows of large predicted spread (digits": "not",
    },
    "score_map": {"CCE and log score rank images differently": "partly"},
    "tables": {
        "CCE and ECE order heads differently": "not",
        "Ensembles have a smaller CCE": "partly",
    },
    "boxes": {
        "Std scaling makes ENCE small": "partly", "Std scaling, with one parameter": "partly",
        "With fastmcmd": "partly",
    },
    "shifted_digits": {
        "Ensembles are best under shift": "not", "A few random passes": "partly",
    },
    "shifted_tokens": {"Ensembles are best under shift": "not"},
}  # fmt: skip


def expected(name, text):
    """Return the verdict that a claim of an experiment should have."""
    return next(
        (one for start, one in OPEN.get(name, {}).items() if text.startswith(start)), "holds"
    )


def rows_of_page(title):
    """Return the rows of the table of claims of an experiment, by claim."""
    part = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {
        row[0]: row[1:] for row in rows if row[-1] in ("**holds**", "**partly**", "**not**")
    }  # fmt: skip


def _without_figures(text):
    return re.sub(r"\d[\d.,]*\d|\d", "#", re.sub(r" ± [\d.]+", "", text))


@pytest.mark.parametrize("seeds", ["0", "-2"])
def test_repetitions_are_positive(seeds, capsys):
    with pytest.raises(SystemExit):
        papers.main(["marginal", "--seeds", seeds])
    assert f"--seeds is {seeds}; at least 1 is needed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", papers.NAMES)
def test_claims_hold(name, tmp_path, monkeypatch):
    """Claims for every repetition hold in the first; the page has all claims."""
    monkeypatch.setattr("examples.papers.claims.HALVES", 1)
    picture = tmp_path / "picture.png" if name in PAINTED + COMPOSED else None
    if name in COMPOSED:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda _, stream, **__: None)
    experiment = papers.load(name)
    claims = experiment.run(1, picture)
    assert [one.text for one in claims] == list(rows_of_page(experiment.title))
    assert [
        one.text for one in claims if expected(name, one.text) == "holds" != one.verdict
    ] == []  # fmt: skip
    last = claims[-1]
    assert _without_figures(last.measured) == _without_figures(
        rows_of_page(experiment.title)[last.text][0]
    )
    if picture is not None:
        size = picture.stat().st_size
        assert name in COMPOSED or size > 10_000


@pytest.mark.parametrize("name", papers.NAMES)
def test_verdicts_of_the_page(name):
    rows = rows_of_page(papers.load(name).title)
    assert {text: row[-1].strip("*") for text, row in rows.items()} == {
        text: expected(name, text) for text in rows
    }
    assert list(rows)[-1].startswith("With fastmcmd: verdict, diagnosis and mended model")
    assert all(any(text.startswith(one) for text in rows) for one in OPEN.get(name, ()))
    assert (ROOT / "docs" / "papers" / f"{name}.png").exists()


@pytest.mark.parametrize("name", papers.NAMES)
def test_data_and_picture_are_explained(name):
    """The page has the text of each experiment above its table."""
    from examples.papers.page import head

    experiment = papers.load(name)
    part = PAGE.split(f"\n## {experiment.title}\n")[1]
    repetitions = int(re.search(r"\. (\d+) repetitions\.", part)[1])
    assert len(experiment.about) > 100
    assert "\n\n".join(head(experiment, repetitions)) in PAGE


@pytest.mark.parametrize("name", papers.NAMES)
def test_cce_and_ence_have_their_value_by_chance(name):
    """Rows that print a CCE or an ENCE also print its value under the predictions; a CCE has its test."""
    for text, (figure, reference, _) in rows_of_page(papers.load(name).title).items():
        figures = figure + reference
        if re.search(r"\b(CCE|ENCE)\b", text + figure) is None or not re.search(r"\d", figure):
            continue
        if text.startswith(OTHER_FIGURES):
            continue
        assert "by chance" in figures, text
        if "CCE" in text + figure:
            assert re.search(r"reject|p < 0\.05|\(p 0\.|null", figures), text


# Their figures are losses, rank correlations, shares, or calibration errors of quantiles.
OTHER_FIGURES = (
    "Holding out rows", "CCE and log score rank", "The log score follows",
    "CCE and ECE order heads",
)  # fmt: skip


def test_page_is_of_these_experiments():
    from examples.papers.page import _HEAD, ELSEWHERE

    titles = [papers.load(name).title for name in papers.NAMES]
    headings = [line.removeprefix("## ") for line in PAGE.splitlines() if line.startswith("## ")]
    first = ["How to read the tables", "Summary"]
    assert headings == [*first, *titles, "What cannot be run or checked here"]
    assert PAGE.endswith(ELSEWHERE + "\n")
    assert PAGE.startswith(_HEAD)
    assert "nan" not in PAGE.lower().replace("|", " ").split()


def test_lines_for_other_data_run(monkeypatch):
    """The lines of the page run, with arrays in place of photographs and texts."""
    from examples.papers.page import ELSEWHERE

    rng = np.random.default_rng(0)
    n = 200
    names = {
        "photographs": rng.normal(size=(n, 3)), "mean": np.zeros(n), "std": np.ones(n),
        "y": rng.normal(size=n), "boxes": rng.normal(size=(n, 4)), "box_mean": np.zeros((n, 4)),
        "box_std": rng.uniform(1, 2, (n, 4)), "labels": rng.integers(0, 3, n),
        "probabilities": rng.dirichlet(np.ones(3), n),
        "probabilities_of_others": rng.dirichlet(np.ones(3), n), "texts": rng.normal(size=(n, 2)),
        "parts": [(rng.integers(0, 3, n), rng.dirichlet(np.ones(3), n)) for _ in range(2)],
    }  # fmt: skip
    for encoder in ("OpenCLIP", "SentenceTransformer"):
        monkeypatch.setattr(f"fastmcmd.encoders.{encoder}", lambda: np.asarray)
    code = ELSEWHERE.split("```py\n")[1].split("```")[0]
    exec(compile(code, "elsewhere", "exec"), names)


def test_published_cce_has_the_parameters_of_the_paper():
    """Agree with the plain formula: gamma 0.5 of inputs, 1 / (2 var y) of outcomes, n lam with lam 0.1."""
    from examples.papers.claims import published_cce

    data = fm.datasets.conflated_poissons(30, 0)
    outcomes, p = np.asarray(data.truth.values), np.asarray(data.truth.probs)
    gamma = 1 / (2 * data.y.var())

    def kernel(a, b, gamma):
        return np.exp(-gamma * np.subtract.outer(a, b) ** 2)

    inputs = kernel(data.x, data.x, 0.5)
    weights = np.linalg.solve(inputs + 30 * 0.1 * np.eye(30), inputs)
    cross = p @ kernel(outcomes, data.y, gamma)
    embeddings = kernel(data.y, data.y, gamma) - cross - cross.T
    embeddings += p @ kernel(outcomes, outcomes, gamma) @ p.T
    square = (weights * (embeddings @ weights)).sum(axis=0)
    values = published_cce(data.x, data.y, data.truth).values
    np.testing.assert_allclose(values, np.sqrt(square), atol=1e-6)


def test_mcmd_of_samples_is_that_of_its_source():
    """Agree with the plain formula: inverses of K + 0.01 I, and kernels exp(-0.1 d^2 / 2)."""
    from examples.papers import mcmd_of_samples

    (x, y), alternatives = mcmd_of_samples.samples(3)
    grid = np.arange(-3, 3, 0.1)

    def kernel(a, b):
        return np.exp(-0.5 * 0.1 * np.subtract.outer(a, b) ** 2)

    def weights(points):
        return np.linalg.solve(kernel(points, points) + 0.01 * np.eye(500), kernel(points, grid))

    a = weights(x)
    for x_prime, y_prime in alternatives.values():
        b = weights(x_prime)
        square = (
            (a * (kernel(y, y) @ a)).sum(axis=0)
            - 2 * (a * (kernel(y, y_prime) @ b)).sum(axis=0)
            + (b * (kernel(y_prime, y_prime) @ b)).sum(axis=0)
        )
        values = mcmd_of_samples.mcmd((x, y), (x_prime, y_prime))
        np.testing.assert_allclose(values, np.sqrt(np.maximum(square, 0)), atol=1e-5)


def test_witness_has_the_mcmd_as_its_norm():
    """Weights of both samples times the witness at their outcomes sum to the squared MCMD."""
    from examples.papers import mcmd_of_samples

    first, alternatives = mcmd_of_samples.samples(3)
    second = alternatives["different"]
    grid, kernel = mcmd_of_samples._GRID, mcmd_of_samples._KERNEL
    square = 0.0
    for sign, (x, y) in ((1, first), (-1, second)):
        weights = np.linalg.solve(kernel(x, x) + 0.01 * np.eye(500), kernel(x, grid))
        square += sign * (weights * mcmd_of_samples.witness(first, second, y)).sum(axis=0)
    np.testing.assert_allclose(square, mcmd_of_samples.mcmd(first, second) ** 2, atol=1e-5)


def test_witness_mends_classes():
    """The model never predicts the last of three classes, and a temperature cannot help."""
    from examples.papers.mended_classes import mended

    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (600, 1))
    side = np.searchsorted([0.0, 1.0], x[:, 0])
    labels = np.where(rng.random(600) < 0.1, rng.integers(0, 3, 600), side)
    p = np.full((600, 3), 0.05)
    p[np.arange(600), np.minimum(side, 1)] = 0.9  # never the last class
    first, second = slice(0, 300), slice(300, 600)
    cooler, added = mended(x[first], labels[first], p[first], x[second], p[second])
    np.testing.assert_allclose(added.sum(axis=1), 1)
    assert added.min() >= 1e-3 / 1.1
    assert (cooler.argmax(axis=1) == p[second].argmax(axis=1)).all()
    before, after = (fm.classification.accuracy(labels[second], one) for one in (cooler, added))
    assert after > before + 0.15


def test_worst_groups_are_seeded():
    """Uncertainty Toolbox draws them from NumPy's global state, which is restored."""
    from examples.papers import uncertainty_metrics as experiment

    data, models = experiment._models(0)
    arguments = models["constant"].mean, models["constant"].std, data.y
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (
        experiment._groups(experiment.ours, arguments, "mean_abs", seed).score_mean
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize("head", ["gaussian", "natural", "poisson", "negative binomial"])
def test_losses_are_negative_log_likelihoods(head):
    """Up to a term of the outcome alone, differences between two predictions agree."""
    torch = pytest.importorskip("torch")
    from examples.papers import heads
    from examples.papers.losses import loss_of

    rng = np.random.default_rng(0)
    y = rng.poisson(3.0, 50).astype(np.float64)
    losses, scores = [], []
    for _ in range(2):
        out = rng.normal(size=(50, heads.size(head)))
        loss = loss_of(
            torch.tensor(y), torch.tensor(out), head, torch.tensor(3.0), torch.tensor(2.0)
        )
        losses.append(loss.numpy())
        predicted = heads.prediction(head, *heads.parameters(head, out, 3.0, 2.0))
        scores.append(-predicted.log_prob(y))
    np.testing.assert_allclose(losses[0] - losses[1], scores[0] - scores[1], rtol=1e-6, atol=1e-9)


def test_outputs_of_zero_have_the_moments_of_all_outcomes():
    from examples.papers import heads

    for head in heads.HEADS:
        out = np.zeros((1, heads.size(head)))
        predicted = heads.prediction(head, *heads.parameters(head, out, 9.0, 2.0))
        np.testing.assert_allclose(predicted.mean, 9.0, rtol=1e-3)
        if head in (*heads.GAUSSIANS, "double poisson"):
            np.testing.assert_allclose(predicted.variance, 4.0, rtol=0.05)


def test_stored_networks_are_those_of_torch():
    torch = pytest.importorskip("torch")
    from examples.papers.networks import Stack
    from examples.papers.stored import StoredStack

    torch.manual_seed(0)
    stack = Stack(3, (5, 4, 4, 2))
    weights, biases = (
        tuple(one.detach().double().numpy() for one in part)
        for part in (stack.weights, stack.biases)
    )
    x = np.random.default_rng(0).normal(size=(6, 5))
    expected = stack(torch.tensor(x, dtype=torch.float32).expand(3, 6, 5)).detach().numpy()
    for member in range(3):
        np.testing.assert_allclose(
            StoredStack(weights, biases)(member, x), expected[member], atol=1e-5
        )


@pytest.mark.slow
def test_networks_of_a_stack_do_not_depend_on_each_other():
    """Training is deterministic, and clips the gradient of each network separately."""
    torch = pytest.importorskip("torch")
    from examples.papers.networks import Stack, _clip

    torch.manual_seed(0)
    stack = Stack(2, (3, 2))
    out = stack(torch.ones(2, 4, 3))
    (100 * out[0].sum() + 0.01 * out[1].sum()).backward()
    small = stack.weights[0].grad[1].clone()
    _clip(stack)
    gradients = [one.grad[0] for one in (stack.weights[0], stack.biases[0])]
    assert sum(float(one.square().sum()) for one in gradients) == pytest.approx(1.0)
    torch.testing.assert_close(stack.weights[0].grad[1], small)


def test_verdicts():
    from examples.papers.claims import spread, verdict

    assert verdict([True, True]) == "holds"
    assert verdict([True, False, False], [False, False, False]) == "not"
    assert verdict([True, True], [True, False]) == "partly"
    assert spread([1.0, 2.0]) == "1.500 ± 0.707"


@pytest.mark.parametrize(
    "simulate",
    [
        fm.datasets.linear,
        fm.datasets.cosine,
        fm.datasets.sine,
        fm.datasets.conflated_poissons,
        fm.datasets.proportional_noise,
        fm.datasets.damped_sine,
        *(lambda n, random_state, kind=kind: fm.datasets.equal_moments(kind, n, random_state)
          for kind in ("gaussian", "poisson", "negative binomial")),
    ],
)  # fmt: skip
def test_outcomes_are_from_the_truth(simulate):
    """The transform of outcomes by the true cdf is uniform, in each half of the inputs."""
    from scipy import stats

    data = simulate(n=4_000, random_state=7)
    again = simulate(n=4_000, random_state=7)
    np.testing.assert_array_equal(data.y, again.y)
    pit = fm.pit_values(data.y, data.truth, random_state=1)
    for half in (data.x < np.median(data.x), data.x >= np.median(data.x)):
        assert stats.kstest(pit[half], "uniform").pvalue > 1e-3


def test_conflation_is_the_product_of_masses():
    data = fm.datasets.conflated_poissons(50, random_state=0)
    from scipy import stats

    counts = 30 - np.asarray(data.truth.values)
    rate = 10 * np.sin(data.x) + 10
    mass = stats.poisson(rate[:, None]).pmf(counts) ** 5
    np.testing.assert_allclose(data.truth.probs, mass / mass.sum(axis=1, keepdims=True), atol=1e-12)


def test_unknown_family():
    with pytest.raises(ValueError, match="kind is 'gamma'"):
        fm.datasets.equal_moments("gamma", 10)


@pytest.mark.parametrize("noise", [0.0, 0.4, 1.0])
def test_truth_of_tokens(noise):
    """Shares in fifths of the true probability agree, as do draws of clean tokens given noisy ones."""
    data = fm.datasets.tokens(20_000, noise, random_state=3)
    p = np.asarray(data.truth.probs)[:, 1]
    for part in np.array_split(np.argsort(p), 5):
        error = data.y[part].mean() - p[part].mean()
        assert abs(error) < 4 * np.sqrt((p[part] * (1 - p[part])).mean() / len(part))
    frequency = 1 / np.arange(1, 21)
    frequency /= frequency.sum()
    levels = fm.datasets._token_levels()
    rng = np.random.default_rng(0)
    for row in range(3):
        steps = np.zeros(50_000)
        for column, token in enumerate(data.x[row].astype(int)):
            weight = frequency * ((1 - noise) * (np.arange(20) == token) + noise / 20)
            steps += rng.choice(levels[column], len(steps), p=weight / weight.sum())
        simulated = 1 / (1 + np.exp(1 - 0.4 * steps))
        assert abs(simulated.mean() - p[row]) < 5 * simulated.std() / np.sqrt(len(steps)) + 1e-12


def test_edges_of_boxes_are_from_the_truth():
    from scipy import stats

    data = fm.datasets.boxes(4_000, random_state=1)
    residuals = (data.y - data.truth.mean) / data.truth.std
    for edge in range(4):
        assert stats.kstest(residuals[:, edge], "norm").pvalue > 1e-3


@pytest.mark.parametrize("noise", [-0.1, 1.5, np.nan])
def test_share_of_noise(noise):
    with pytest.raises(ValueError, match=r"noise is .*a number in \[0, 1\]"):
        fm.datasets.tokens(10, noise)
