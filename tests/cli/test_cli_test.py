"""`fastmcmd test` runs the exact test on the predictions of a file."""

import json

import numpy as np
import pytest
import scipy.stats
from cli_process import run_cli

import fastmcmd as fm


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 300)
    y = x + 0.3 * rng.standard_normal(300)
    path = tmp_path / "rows.npz"
    np.savez(path, x=x, y=y, m=x)
    return path


def test_conclusion_first(file):
    process = run_cli("test", str(file), "--prediction", "gaussian:mean=m,std=0.5")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("The predictions are wrong beyond chance (p = 0.005)")
    assert "outcomes lie closer to them" in process.stdout
    assert "dispersion" in process.stdout


def test_json_and_conditioning(file):
    process = run_cli(
        "test", str(file), "--prediction", "gaussian:mean=m,std=0.3", "--simulations", "39",
        "--condition-on", "forecast", "--format", "json",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    numbers = json.loads(process.stdout)
    assert numbers["simulations"] == 39
    assert numbers["condition_on"] == "forecast"
    assert 0 < numbers["p_value"] <= 1


def test_relevance_and_clusters(tmp_path):
    path = tmp_path / "rows.csv"
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 120)
    y = x + 0.2 + 0.3 * rng.standard_normal(120)
    lines = [f"{a},{b},patient {k // 4}" for k, (a, b) in enumerate(zip(x, y, strict=True))]
    path.write_text("x,y,who\n" + "\n".join(lines) + "\n")
    prediction = "--x", "x", "--prediction", "gaussian:mean=x,std=0.3", "--simulations", "39"
    process = run_cli("test", str(path), *prediction, "--delta", "0.9")
    assert process.stdout.startswith("CCE is not shown to be above 0.9"), process.stderr
    process = run_cli("test", str(path), *prediction, "--groups", "who")
    assert "30 clusters" in process.stdout, process.stderr
    refused = run_cli("test", str(path), *prediction, "--groups", "who,x")
    assert refused.returncode == 2
    assert "--groups" in refused.stderr


def people(path, missing=False):
    """Write a model that is right on average over people, and wrong for women and for men."""
    rng = np.random.default_rng(0)
    age, who = rng.uniform(20, 80, 400), rng.integers(0, 2, 400)
    y = age + np.where(who == 1, 8.0, -8.0) + 10 * rng.standard_normal(400)
    cells = [
        f"{a},{v},{'man' if w else 'woman'},{float(w)}" for a, v, w in zip(age, y, who, strict=True)
    ]
    if missing:
        cells.append("50,50,woman,")
    path.write_text("age,y,sex,code\n" + "\n".join(cells) + "\n")
    return age, y, who


BY_AGE = ("--x", "age", "--prediction", "gaussian:mean=age,std=12.8", "--simulations", "99")


def test_groups_that_the_test_conditions_on_and_the_test_of_each_row(tmp_path):
    path, target = tmp_path / "people.csv", tmp_path / "rows.csv"
    age, y, who = people(path)
    given_age = run_cli("test", str(path), *BY_AGE, "--format", "json")
    assert json.loads(given_age.stdout)["p_value"] > 0.05
    process = run_cli("test", str(path), *BY_AGE, "--condition-on", "sex", "--output", str(target))
    assert process.stdout.startswith("The predictions are wrong given the columns beyond chance")
    assert "wrong at 400 of them" in process.stdout
    expected = fm.congruence_test(
        age, y, fm.Gaussian(age, 12.8), condition_on=who, at=who, simulations=99, random_state=0
    ).rows
    table = np.genfromtxt(target, delimiter=",", names=True)
    np.testing.assert_allclose(table["cce"], expected.values, rtol=1e-6)
    np.testing.assert_allclose(table["adjusted"], expected.adjusted)
    refused = run_cli(
        "test", str(path), *BY_AGE, "--condition-on", "forecast", "--output", str(target)
    )
    assert refused.returncode == 2
    assert "--output needs a test by row" in refused.stderr


def test_rows_without_a_group_are_left_out(tmp_path):
    path = tmp_path / "people.csv"
    people(path, missing=True)
    refused = run_cli("test", str(path), *BY_AGE, "--condition-on", "code")
    assert refused.returncode == 2
    assert "column 'code'" in refused.stderr
    refused = run_cli("test", str(path), *BY_AGE, "--condition-on", "sex,y")
    assert "--condition-on names 'y', which is the outcome" in refused.stderr
    left_out = run_cli("test", str(path), *BY_AGE, "--condition-on", "code", "--nan-policy", "omit")
    assert "400 rows" in left_out.stdout, left_out.stderr


def test_options_are_those_of_the_function(file):
    prediction = "--prediction", "gaussian:mean=m,std=0.3", "--format", "json"
    process = run_cli(
        "test", str(file), *prediction, "--statistic", "max", "--x-kernel", "rbf", "--x-gamma", "2",
        "--lam", "0.05", "--memory-limit", "60MB", "--simulations", "39",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    data = np.load(file)
    expected = fm.congruence_test(
        data["x"], data["y"], fm.Gaussian(data["m"], 0.3), x_kernel=fm.RBF(2.0), lam=0.05,
        statistic="max", simulations=39, random_state=0,
    )  # fmt: skip
    numbers = json.loads(process.stdout)
    assert numbers["p_value"] == expected.p_value
    assert numbers["statistic"] == pytest.approx(expected.statistic, rel=1e-6)
    small = run_cli("test", str(file), *prediction, "--memory-limit", "1MB")
    assert small.returncode == 1
    assert "memory_limit" in small.stderr


def test_a_clear_answer_comes_early(tmp_path):
    rng = np.random.default_rng(0)
    noise = scipy.stats.norm.ppf((np.arange(300) + 0.5) / 300)  # more regular than any sample
    x = rng.uniform(-2, 2, 300)
    np.savez(tmp_path / "rows.npz", x=x, y=x + rng.permutation(noise))
    early = run_cli(
        "test", str(tmp_path / "rows.npz"), "--prediction", "gaussian:mean=x,std=1", "--format", "json",
        "--alpha", "0.05", "--simulations", "999",
    )  # fmt: skip
    assert json.loads(early.stdout)["simulations"] == 79, early.stderr


def test_rows_with_missing_numbers(tmp_path):
    path = tmp_path / "rows.csv"
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 50)
    lines = [f"{a},{a + 0.3 * rng.standard_normal()}" for a in x]
    path.write_text("x,y\n" + "\n".join(["1.0,", *lines]) + "\n")
    refused = run_cli("test", str(path), "--prediction", "gaussian:mean=x,std=0.3")
    assert refused.returncode == 2
    assert "--nan-policy omit" in refused.stderr
    process = run_cli(
        "test", str(path), "--prediction", "gaussian:mean=x,std=0.3", "--nan-policy", "omit"
    )
    assert "50 rows" in process.stdout


def test_what_is_missing_is_named(file):
    process = run_cli(
        "test", str(file), "--prediction", "gaussian:mean=m,std=0.3", "--weights", "m"
    )
    assert process.returncode == 2
    assert "--weights" in process.stderr
    process = run_cli(
        "test", str(file), "--prediction", "gaussian:mean=m,std=0.3", "--simulations", "3"
    )
    assert process.returncode == 2
    assert "simulations" in process.stderr
