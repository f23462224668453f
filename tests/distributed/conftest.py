"""What the tests of collections in blocks share; without Dask they are skipped."""

from __future__ import annotations

import os
import warnings

import pytest
from in_blocks import Data, make_data

import fastmcmd as fm

pytest.importorskip("dask", reason="Dask is not installed: pip install 'fastmcmd[distributed]'")


@pytest.fixture(autouse=True, scope="module")
def _environment():
    """Workers that Dask starts leave ``OMP_NUM_THREADS=1`` behind in this process."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(autouse=True)
def _loose():
    """Errors of landmarks are far above the default ``tol``; each test checks the bounds themselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


@pytest.fixture
def data() -> Data:
    return make_data()
