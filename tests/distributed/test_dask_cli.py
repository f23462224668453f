"""``fastmcmd evaluate 'folder/*.parquet' --dask``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from cli_process import run_cli
from in_blocks import make_data

import fastmcmd as fm

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe", reason="Dask is not installed")


@pytest.fixture
def folder(tmp_path):
    data = make_data((150, 1, 200))
    frame = pandas.DataFrame(
        {
            "y": data.y,
            "mean": data.mean,
            "std": 0.5,
            "x0": data.x[:, 0],
            "x1": data.x[:, 1],
            "g": data.groups,
        }
    )
    ends = np.cumsum([0, 150, 1, 200])
    for number in range(3):
        rows = slice(ends[number], ends[number + 1])
        frame.iloc[rows].to_parquet(tmp_path / f"part{number}.parquet")
    return tmp_path, frame


@pytest.mark.slow
@pytest.mark.parametrize("starts_processes", [False, True])
def test_a_folder_of_parquet_files(folder, starts_processes, request, monkeypatch):
    """On a cluster that runs already, or on processes that the command starts: here, one."""
    path, frame = folder
    monkeypatch.setattr("fastmcmd._base.threads.get_num_threads", lambda: 1)
    where = [] if starts_processes else [request.getfixturevalue("cluster").scheduler_address]
    process = run_cli(
        "evaluate",
        path / "*.parquet",
        "--dask",
        *where,
        "--by",
        "g",
        "--format",
        "json",
        "--output",
        path / "rows",
        "--report",
        path / "page.html",
        "--n-boot",
        "20",
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    in_memory = fm.evaluate(
        frame["y"],
        fm.Gaussian(frame["mean"], frame["std"]),
        frame[["x0", "x1"]],
        by=frame["g"],
        test=False,
    )
    assert result["n"] == 351
    low, high = result["intervals"]["mean_crps"]
    assert low < in_memory["crps"] < high
    assert result["metrics"]["mean_crps"] == pytest.approx(in_memory["crps"], rel=1e-9)
    assert abs(result["metrics"]["mean_cce"] - in_memory["cce"]) < 0.05 * in_memory["cce"]
    assert list(result["by"]) == ["early", "late"]
    rows = pandas.read_parquet(path / "rows")
    assert "351 outcomes" in (path / "page.html").read_text()
    assert np.allclose(rows["crps"], in_memory.rows["crps"], rtol=1e-12)


def test_usage_errors(folder):
    path, _ = folder
    for options, message in (
        (["--output", "rows.csv"], "--output rows.csv: with --dask a folder is needed"),
        (["--report", "page.txt"], "--report is 'page.txt'; a name that ends in .html"),
        (["--draws", "10"], "--draws is not available with --dask"),
        (["--y", "outcome"], "has no column 'outcome'"),
    ):
        process = run_cli("evaluate", path / "*.parquet", "--dask", *options)
        assert process.returncode == 2
        assert message in process.stderr
    process = run_cli("evaluate", path / "none-*.parquet", "--dask")
    assert (process.returncode, "has no columns; a pattern of" in process.stderr) == (2, True)
    process = run_cli("evaluate", path / "*.parquet")
    assert "No such file or directory; a pattern of files needs --dask" in process.stderr
