"""Code in the documents runs, and the names in them exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import fastmcmd as fm

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.usefixtures("unpainted")
def test_readme_example_runs(tmp_path, monkeypatch, capsys):
    """Use fewer rows: any sample size shows whether it runs."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    for many, few in {"200_000": "20_000", "2000": "500", "1000": "300"}.items():
        assert re.search(rf"\b{many}\b", text)
        text = re.sub(rf"\b{many}\b", few, text)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert "CCE at 500 points" in capsys.readouterr().out
    assert (tmp_path / "congruence.npz").exists()


def test_quickstart_runs():
    """The page checks its answer itself."""
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")


def test_links_of_the_documents_lead_somewhere():
    for name in (
        "README.md",
        "docs/theory.md",
        "docs/architecture.md",
        "docs/performance.md",
        "docs/downsampling.md",
        "docs/metrics.md",
        "CHANGELOG.md",
    ):
        page = ROOT / name
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_design_names_existing_places():
    pages = [ROOT / "docs" / "architecture.md", *(ROOT / "docs" / "decisions").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    for place in re.findall(
        r"`((?:fastmcmd|csrc|solvers|gram|kernels|backends|estimate|evaluation|cli|recalibration|plots|predictive|rows|report)/[\w/.]*)`",
        text,
    ):
        assert (ROOT / place).exists() or (ROOT / "fastmcmd" / place).exists(), place


def test_every_metric_is_in_its_document():
    """Functions in the tables exist, and the document has each public function."""
    text = (ROOT / "docs" / "metrics.md").read_text()
    tables = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, re.MULTILINE)
    names = {name for cell in tables for name in re.findall(r"`(\w+)`", cell)}
    assert len(names) > 30
    assert {name for name in names if not hasattr(fm.metrics, name)} == set()
    functions = {name for name in fm.metrics.__all__ if name[0].islower()}
    twins = {f"mean_{name}" for name in names}  # "each has a twin"
    missing = {name for name in functions - names - twins if f"`{name}`" not in text}
    assert missing == set()


def test_all_public_names_exist_and_have_docstrings():
    for name in fm.__all__:
        assert getattr(fm, name) is not None
        if name != "__version__":
            assert getattr(fm, name).__doc__, name


def test_the_stub_names_what_the_extension_has():
    from fastmcmd import _core

    stub = (ROOT / "fastmcmd" / "_core.pyi").read_text()
    names = set(re.findall(r"^(?:def|class) (\w+)", stub, re.MULTILINE))
    names |= set(re.findall(r"^([A-Z]\w+): ", stub, re.MULTILINE))
    assert names == {name for name in dir(_core) if not name.startswith("__")}
