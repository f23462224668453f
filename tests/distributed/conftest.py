"""Fixtures for collections in blocks; the tests are skipped without Dask."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from in_blocks import Data, make_data

import fastmcmd as fm

pytest.importorskip("dask", reason="Dask is not installed: pip install 'fastmcmd[distributed]'")


@pytest.fixture(scope="module")
def cluster():
    """Start two single-threaded workers for all tests of a file: each start imports the package twice.
    All tests that need them are in `test_cluster.py`, so that they start once.

    Its event loop allocates memory in this process, which would be counted in tests of other files.
    Workers that Dask starts leave ``OMP_NUM_THREADS=1`` behind in this process.
    """
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    before = dict(os.environ)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GB",
    ) as one:  # fmt: skip
        os.environ.clear()
        os.environ.update(before)
        yield one


@pytest.fixture
def client(cluster):
    """Return a client of the two workers."""
    import distributed

    with distributed.Client(cluster, set_as_default=False) as one:
        one.wait_for_workers(2, timeout=30)
        yield one


@pytest.fixture(autouse=True, scope="module")
def _environment():
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _loose():
    """Suppress the tolerance warning: landmark errors exceed ``tol``, and each test checks the bounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


@pytest.fixture
def data() -> Data:
    return make_data()


@pytest.fixture
def folder(tmp_path):
    """Return a folder of three Parquet files, and their rows as one frame."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip("dask.dataframe")
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
