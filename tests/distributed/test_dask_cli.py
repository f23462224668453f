"""Usage errors of ``fastmcmd evaluate 'folder/*.parquet' --dask``; `test_cluster.py` runs it."""

from __future__ import annotations

import pytest
from cli_process import run_cli

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("dask.dataframe", reason="Dask is not installed")


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
