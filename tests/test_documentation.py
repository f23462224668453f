"""The pages of docs/: their code runs, they name what is public, and their diffs apply to the code."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of code of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def given() -> dict[str, object]:
    """Return what pages that begin in the middle take for granted."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 2000)
    y = x + 0.3 * rng.normal(size=2000)
    return {"np": np, "fm": fm, "x": x, "y": y, "prediction": fm.Gaussian(x, 0.5)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """One after the other, in a folder of their own."""
    text = "\n".join(blocks(page, "python"))
    if "matplotlib" in text or "plots" in text or ".plot(" in text or ".report(" in text:
        pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    names = given() if page.stem == "downsampling" else {}
    for number, block in enumerate(blocks(page, "python"), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    if "matplotlib" in text or "plots" in text or ".plot(" in text:
        import matplotlib.pyplot as plt

        plt.close("all")
    printed = capsys.readouterr().out
    assert "nan" not in re.findall(r"\w+", printed)


def test_guide_is_complete():
    """Each page hangs in a table of contents, so that a reader can find it."""
    named = set()
    for index in (DOCS / "index.md", DOCS / "api" / "index.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            named |= {index.parent / f"{entry}.md" for entry in entries}
    assert named == set(PAGES) - {DOCS / "index.md"}


def test_api_pages_name_what_is_public():
    text = "\n".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    entries = set(re.findall(r"auto(?:function|class|exception):: fastmcmd\.(\w+)", text))
    for name in re.findall(r"automodule:: (fastmcmd\.[\w.]+)", text):
        module = importlib.import_module(name)
        entries |= {name.split(".")[1], *getattr(module, "__all__", ())}
    assert set(fm.__all__) - {"__version__"} - entries == set()


def test_every_distribution_and_recalibrator_is_in_its_table():
    table = (DOCS / "predictions.md").read_text()
    from fastmcmd.predictive import Predictive

    kinds = [
        name
        for name in fm.__all__
        if isinstance(getattr(fm, name), type)
        and issubclass(getattr(fm, name), Predictive)
        and name != "Predictive"
    ]
    assert len(kinds) > 10
    told = dict(re.findall(r"^\| `fm\.(\w+)` \| `([\w, ]+)`", table, re.MULTILINE))
    assert set(told) == set(kinds)
    for name, parameters in told.items():
        own = list(inspect.signature(getattr(fm, name)).parameters)
        assert parameters.split(", ") == own[: parameters.count(",") + 1], name
    table = (DOCS / "recalibration.md").read_text()
    kinds = [
        name for name in fm.recalibration.__all__ if hasattr(getattr(fm.recalibration, name), "fit")
    ]
    kinds.remove("Recalibrator")
    assert [name for name in kinds if f"`{name}`" not in table] == []


def test_every_command_has_its_help():
    from fastmcmd.cli.app import COMMANDS

    text = (DOCS / "command_line.md").read_text()
    assert set(re.findall(r"^```\{command-help\} (\w+)$", text, re.MULTILINE)) == set(COMMANDS)


def test_gallery_shows_every_plot():
    from fastmcmd import plots

    text = (DOCS / "gallery.md").read_text()
    assert set(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == set(plots.__all__)
    pictures = list((DOCS / "gallery").glob("*.png"))
    assert len(pictures) >= len(plots.__all__)
    assert {p.name for p in pictures if p.stat().st_size > 60_000} == set()


def test_pictures_and_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def _hunks() -> list[tuple[str, str]]:
    """Return file and hunk of each diff shown in the page for contributors."""
    found = []
    for block in blocks(DOCS / "contributing.md", "diff"):
        for part in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            head, _, lines = part.partition("\n")
            assert head.startswith("a/"), head
            found += [(head[2:], hunk) for hunk in re.split(r"^@@.*\n", lines, flags=re.MULTILINE)]
    return [(name, hunk) for name, hunk in found if hunk.strip()]


def test_diffs_apply_to_the_code():
    """Lines of context follow each other in the file, and lines added are not there yet."""
    assert len(_hunks()) >= 8
    for name, hunk in _hunks():
        code = (ROOT / name).read_text()
        lines = hunk.splitlines()
        before = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-") or not line)
        added = [line[1:] for line in lines if line.startswith("+")]
        assert before.strip(), f"{name}: no context"
        assert before in code, f"{name}:\n{before}"
        assert added
        assert not all(line in code.splitlines() for line in added), f"{name}: {added}"
