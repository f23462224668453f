"""Shared settings of the tests: the same examples every time, without a deadline."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# The garbage collector would visit the twelve thousand tests again and again while they are collected.
gc.disable()


def pytest_collection(session):
    """Let every other worker import all tests from the last file on.

    Each then reads bytecode that another has written; otherwise each compiles every file.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if worker % 2 == 0 or session.config.args != session.config.getini("testpaths"):
        return
    for path in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
        if (folder := str(path.parent)) not in sys.path:
            sys.path.insert(0, folder)  # as pytest does
        with contextlib.suppress(Exception, pytest.skip.Exception):  # pytest reports them
            importlib.import_module(path.stem)


def pytest_collection_finish(session):
    """Leave out what the collection made when garbage is collected later."""
    gc.collect()
    gc.freeze()
    gc.enable()


# A worker of a parallel run has one core; threads of BLAS that share it wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    import scipy.linalg  # noqa: F401  it has a BLAS of its own
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")
    os.environ |= {
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }  # processes that tests start

# Processes that tests start read the package's modules as these have compiled them: parsing them anew
# takes each a third of a second. Some containers turn this off.
sys.dont_write_bytecode = False

collect_ignore_glob = ["users/with_*"]  # scripts that test_users.py runs

settings.register_profile(
    "fastmcmd",
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fastmcmd")


@pytest.fixture
def rng():
    return np.random.default_rng(20240512)


@pytest.fixture
def unpainted(monkeypatch):
    """Compose pictures without painting them, for tests that do not look at them."""

    def savefig(figure, stream, **options):
        stream.write("<svg></svg>")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)


@pytest.fixture(scope="session", autouse=True)
def _kernels_compiled_once(tmp_path_factory):
    """Share the CUDA kernels that host_device.py compiles between workers of one run."""
    base_folder = tmp_path_factory.getbasetemp()
    folder = (
        base_folder.parent if "PYTEST_XDIST_WORKER" in os.environ else base_folder
    ) / "kernels"
    folder.mkdir(exist_ok=True)
    os.environ["FASTMCMD_TEST_KERNELS"] = str(folder)


# A shell's background job ignores Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Let workers of a parallel run take files in the order of `_longest_first`."""
    if hasattr(config.option, "loadscopereorder"):  # else those of most tests, and the longest last
        config.option.loadscopereorder = False


def _longest_first(items):
    """Sort files by the number of slow tests, so that no worker waits for a long file at the end."""
    slow = Counter(item.location[0] for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.location[0]])


def pytest_collection_modifyitems(items):
    """Skip tests that need a device if there is none; pytest counts them by name (-ra)."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        _longest_first(items)
    needing = [item for item in items if item.get_closest_marker("gpu")]
    if not needing:
        return
    from fastmcmd.device.cuda import cuda_device_count

    count, why = cuda_device_count()
    for item in [] if count else needing:
        item.add_marker(pytest.mark.skip(reason=why.splitlines()[0]))
