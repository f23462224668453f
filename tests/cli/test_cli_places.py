"""Data errors name file and line; `compare` takes groups and prints row values; standard input."""

from __future__ import annotations

import csv
import io
import json
import sys

import numpy as np
import pytest
from cli_process import run_cli

import fastmcmd as fm

ROWS = ["1,1,1,a,1", "2,2.5,1,b,2", "4,3,1,a,1", "3,3,2,b,1"]
MODELS = ("--model", "m=gaussian:mean=mean,std=std", "--model", "wide=gaussian:mean=y,std=9")


def table(tmp_path, change=(), name="t.csv"):
    """Write a file with some rows replaced."""
    rows = list(ROWS)
    for place, row in dict(change).items():
        rows[place] = row
    path = tmp_path / name
    path.write_text("\n".join(["y,mean,std,g,w", *rows]) + "\n")
    return path


@pytest.mark.parametrize("command", ["evaluate", "test", "diagnose"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2,2.5,-1,b,2", "std has values down to -1"),
        ("2,inf,1,b,2", "mean holds infinity"),
        ("inf,2.5,1,b,2", "y holds infinity"),
        ("2,2.5,1,b,-2", "negative values"),
        ("2,word,1,b,2", "'word' is not a number"),
        (",2.5,1,b,2", "the value is missing"),
    ],
)
def test_errors_of_the_data_name_the_line(command, row, message, tmp_path):
    path = table(tmp_path, {1: row})
    process = run_cli(command, path, "--x", "w", "--weights", "w")
    assert process.returncode == 2
    assert message in process.stderr
    assert "line 3" in process.stderr
    assert str(path) in process.stderr


def test_compare_names_the_line(tmp_path):
    process = run_cli("compare", table(tmp_path, {2: "4,3,0,a,1"}), *MODELS)
    assert "t.csv, line 4" in process.stderr
    wrong = run_cli("compare", table(tmp_path, {3: "nan,3,2,b,1"}), *MODELS)
    assert "line 5" in wrong.stderr


def test_compare_names_the_model_of_a_bad_column(tmp_path):
    """The message named the parameter, although another column may have that name."""
    path = table(tmp_path, {2: "4,3,1,a,0"})
    spec = "gaussian:mean=mean,std=w"
    process = run_cli("compare", path, *MODELS[:2], "--model", f"b={spec}")
    assert process.returncode == 2
    assert f"--prediction {spec}: std has values down to 0" in process.stderr
    assert f"{path.name}, line 4" in process.stderr


def test_binary_files_name_the_row(tmp_path):
    np.savez(tmp_path / "t.npz", y=np.zeros(5), mean=np.zeros(5), std=[1, 1, 1, -1, 1.0])
    process = run_cli("evaluate", tmp_path / "t.npz")
    assert process.stderr.rstrip().endswith("t.npz, row 3")


def test_lines_are_not_guessed_where_rows_are_left_out(tmp_path):
    path = table(tmp_path, {0: ",1,1,a,1", 2: "inf,3,1,a,1"})
    process = run_cli("evaluate", path, "--nan-policy", "omit")
    assert process.returncode == 2
    assert "line" not in process.stderr.replace("fastmcmd", "")


def standard_input(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_standard_input_has_a_name(tmp_path, monkeypatch):
    path = table(tmp_path)
    standard_input(monkeypatch, path.read_text())
    piped = run_cli("compare", "-", *MODELS, "--format", "json")
    of_file = run_cli("compare", path, *MODELS, "--format", "json")
    ours, theirs = json.loads(piped.stdout), json.loads(of_file.stdout)
    assert ours["m"]["metrics"] == theirs["m"]["metrics"]
    standard_input(monkeypatch, path.read_text().replace("2.5", "word"))
    assert "standard input, line 3" in run_cli("evaluate", "-").stderr
    standard_input(monkeypatch, path.read_text())
    assert "standard input has no column 'gg'" in run_cli("evaluate", "-", "--by", "gg").stderr
    standard_input(monkeypatch, "")
    assert "standard input: it is empty" in run_cli("evaluate", "-").stderr


def test_compare_by_group(tmp_path):
    path = table(tmp_path)
    process = run_cli("compare", path, *MODELS, "--by", "g")
    assert process.returncode == 0, process.stderr
    groups = process.stdout[process.stdout.index("a (2 rows)") :]
    assert "b (2 rows)" in groups
    numbers = json.loads(run_cli("compare", path, *MODELS, "--by", "g", "--format", "json").stdout)
    y, mean = np.array([2, 3.0]), np.array([2.5, 3.0])
    expected = fm.metrics.mean_crps(y, (mean, np.array([1.0, 2.0])))
    assert numbers["m"]["by"]["b"]["mean_crps"] == pytest.approx(expected)
    line = next(line for line in groups.split("b (2 rows)")[1].splitlines() if " CRPS " in line)
    assert float(line.split()[1]) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_compare_writes_values_by_row(suffix, tmp_path):
    path, output = table(tmp_path), tmp_path / f"o{suffix}"
    names = ("--model", "a, b=gaussian:mean=mean,std=std", *MODELS[2:])
    process = run_cli("compare", path, *names, "--output", output)
    assert process.returncode == 0, process.stderr
    assert f"written: {output}" in process.stdout
    expected = fm.crps([1, 2, 4, 3], ([1, 2.5, 3, 3], [1.0, 1, 1, 2]))
    if suffix == ".csv":
        with output.open(newline="") as stream:
            rows = list(csv.DictReader(stream))
        assert [row["row"] for row in rows] == ["0", "1", "2", "3"]
        crps_values = [float(row["a, b.crps"]) for row in rows]
    else:
        with np.load(output) as archive:
            crps_values = archive["a, b.crps"]
            assert set(json.loads(bytes(archive["summary"]))) == {"a, b", "wide"}
    np.testing.assert_allclose(crps_values, expected)


def test_compare_takes_nan_policy_and_output(tmp_path):
    path, output = table(tmp_path, {0: ",1,1,a,1"}), tmp_path / "o.csv"
    process = run_cli("compare", path, *MODELS, "--nan-policy", "omit", "--output", output)
    assert process.returncode == 0, process.stderr
    first = output.read_text().splitlines()[1]
    assert set(first.split(",")[1:]) == {"nan"}


def test_compare_does_not_overwrite_its_input(tmp_path):
    path = table(tmp_path)
    process = run_cli("compare", path, *MODELS, "--output", path)
    assert process.returncode == 2
    assert path.read_text().startswith("y,mean")


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_progress_names_its_stage(command, tmp_path):
    options = MODELS if command == "compare" else ()
    stderr = io.StringIO()
    process = run_cli(command, table(tmp_path), *options, "--x", "w", "--progress", stderr=stderr)
    assert process.returncode == 0
    assert "reading t.csv" in stderr.getvalue() + (process.stderr or "")
