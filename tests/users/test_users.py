"""Scripts as users of other packages would write them run unchanged."""

from __future__ import annotations

import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
REQUIREMENTS = {
    "with_uncertainty_toolbox.py": ["matplotlib"],
    "with_scikit_learn.py": ["sklearn", "pandas", "joblib"],
    "with_scoringrules.py": ["scoringrules"],
    "with_torchmetrics.py": ["torch", "torchmetrics"],
    "with_ngboost_and_statsmodels.py": ["ngboost", "statsmodels", "sklearn", "matplotlib"],
    "with_pandas_and_a_shell.sh": ["pandas", "matplotlib"],
}
# Where Numba is installed, scoringrules compiles loops for seconds when it is imported. It does without.
RUN_WITHOUT_NUMBA = """
import runpy, sys
sys.modules["numba"] = None
import scoringrules
del sys.modules["numba"]
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def _run(command, folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    process = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, env={**os.environ, "PATH": path}
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUIREMENTS)
def test_script_runs(name, tmp_path, monkeypatch):
    """Python scripts run in this process, where other tests have imported the packages."""
    for package in REQUIREMENTS[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    if name.endswith(".sh"):
        shell = shutil.which("bash")
        if shell is None:
            pytest.skip("needs bash")
        _run([shell, str(FOLDER / name)], tmp_path)
    elif "scoringrules" in REQUIREMENTS[name]:
        _run([sys.executable, "-c", RUN_WITHOUT_NUMBA, str(FOLDER / name)], tmp_path)
    else:
        monkeypatch.chdir(tmp_path)
        runpy.run_path(str(FOLDER / name), run_name="__main__")


def test_every_script_is_run():
    assert {one.name for one in FOLDER.glob("with_*")} == set(REQUIREMENTS)
