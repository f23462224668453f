"""Scripts that users of other packages would write run as they stand."""

from __future__ import annotations

import os
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


@pytest.mark.slow
@pytest.mark.parametrize("name", REQUIREMENTS)
def test_script_runs(name, tmp_path):
    for package in REQUIREMENTS[name]:
        pytest.importorskip(package)
    shell = shutil.which("bash") if name.endswith(".sh") else sys.executable
    if shell is None:
        pytest.skip("needs bash")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    process = subprocess.run(
        [shell, str(FOLDER / name)], cwd=tmp_path, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


def test_every_script_is_run():
    assert {one.name for one in FOLDER.glob("with_*")} == set(REQUIREMENTS)
