"""Releases: an sdist with everything a build needs and no build products, and one version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import fastmcmd as fm

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(
    ".*", "build", "dist", "*.egg-info", "__pycache__", "_build", "*.so", "*.pyd"
)
BUILT = (".so", ".pyd", ".pyc", ".o", ".obj", ".nbi", ".nbc", ".dll")

pytestmark = pytest.mark.skipif(
    not (ROOT / "setup.py").exists(), reason="the tests run without the source tree"
)


def run(code: str, *arguments: str, cwd: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout[-2000:] + process.stderr[-4000:]


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """Return a copy of the sources that also holds the leftovers of builds and runs."""
    copy = tmp_path_factory.mktemp("source") / "fastmcmd"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    for name in (
        "fastmcmd/_core.cpython-311-x86_64-linux-gnu.so",
        "fastmcmd/__pycache__/cce.cpython-311.pyc",
        "tests/__pycache__/oracle.cpython-311.pyc",
        "docs/_build/index.html",
        "csrc/kernels.o",
        "build/temp/kernels.o",
    ):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(b"left behind")
    return copy


@pytest.fixture(scope="module")
def sdist(tree, tmp_path_factory) -> Path:
    """Return the sdist, built by the build backend that pyproject.toml names."""
    pytest.importorskip("setuptools", minversion="77", reason="needs the extra 'lint'")
    pytest.importorskip("pybind11", reason="needs the extra 'lint'")
    folder = tmp_path_factory.mktemp("dist")
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(code, str(folder), cwd=tree)
    (path,) = folder.iterdir()
    return path


@pytest.fixture(scope="module")
def names(sdist) -> set[str]:
    """Return the files of the sdist, without its folder."""
    with tarfile.open(sdist) as archive:
        return {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}


@pytest.mark.slow
def test_sdist_is_named_after_the_version(sdist):
    assert sdist.name == f"fastmcmd-{fm.__version__}.tar.gz"


@pytest.mark.slow
def test_sdist_holds_every_source(names):
    folders = ("csrc", "fastmcmd", "tests", "docs", "examples", "benchmarks")
    suffixes = ("py", "pyi", "h", "cpp", "css", "js", "npz", "md", "png", "json", "sh")
    expected = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for pattern in (*(f"*.{kind}" for kind in suffixes), "py.typed")
        for path in (ROOT / folder).rglob(pattern)
        if not {"__pycache__", "_build", ".asv"} & set(path.parts)
    }
    expected |= {
        "pyproject.toml",
        "setup.py",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
    }
    assert {"csrc/leaves.h", "csrc/bind.cpp", "fastmcmd/py.typed", "tests/oracle.py"} <= expected
    assert {"fastmcmd/data/randhie.npz", "fastmcmd/_core.pyi", "docs/conf.py"} <= expected
    assert {"fastmcmd/report/report.css", "fastmcmd/report/explorer.js"} <= expected
    assert expected - names == set()


def test_sdist_holds_nothing_built(names):
    assert {name for name in names if name.endswith(BUILT)} == set()
    folder = re.compile(r"(^|/)(build|_build|__pycache__|\.git)/")
    assert {name for name in names if folder.search(name)} == set()


def test_version_is_in_one_place():
    """The package and its settings read the version from there and state it nowhere else."""
    settings = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in settings
    assert '"fastmcmd._version.__version__"' in settings
    places = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "fastmcmd").rglob("*.py")
        if re.search(r"^__version__\s*=", path.read_text(), re.MULTILINE)
    ]
    assert places == ["fastmcmd/_version.py"]
    text = re.compile(rf"""["']{re.escape(fm.__version__)}["']""")
    other_files = [ROOT / name for name in ("pyproject.toml", "setup.py", "docs/conf.py")]
    assert [
        path.name for path in other_files if path.exists() and text.search(path.read_text())
    ] == []
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## {re.escape(fm.__version__)}\b", changes, re.MULTILINE)


@pytest.mark.skipif(
    os.environ.get("FASTMCMD_TEST_WHEEL", "") in ("", "0"),
    reason="compiles the core once more: FASTMCMD_TEST_WHEEL=1 runs it",
)
def test_wheel_builds_from_the_sdist(sdist, tmp_path):
    """Build as pip does, but without its isolated environment, which would need the network."""
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    wheels = tmp_path / "wheels"
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    run(code, str(wheels), cwd=source)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert any(re.match(r"fastmcmd/_core\..*\.(so|pyd)$", name) for name in names)
    assert {"fastmcmd/py.typed", "fastmcmd/_core.pyi", "fastmcmd/data/randhie.npz"} <= names
    assert {"fastmcmd/report/report.css", "fastmcmd/report/explorer.js"} <= names
    assert {name.partition("/")[0] for name in names} == {
        "fastmcmd",
        f"fastmcmd-{fm.__version__}.dist-info",
    }
    folder = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import fastmcmd as fm; "
        "assert fm.__file__.startswith(sys.argv[1]), fm.__file__; "
        "assert fm.cce([0., 1., 2.], [0., 1., 2.], ([0., 1., 2.], 1.)).mean >= 0"
    )
    run(code, str(folder), cwd=tmp_path)
