"""`fastmcmd test`: the exact test of a file's predictions."""

import json

import numpy as np
import pytest
from cli_process import run_cli


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
