"""The pages of docs/: their code runs, their names are public, and their diffs apply to the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
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


def example_names() -> dict[str, object]:
    """Return the variables that pages which begin in the middle assume."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 2000)
    y = x + 0.3 * rng.normal(size=2000)
    return {"np": np, "fm": fm, "x": x, "y": y, "prediction": fm.Gaussian(x, 0.5)}


# Rows of a page, and of its test. Ends of parts of the same rows shrink with these.
ROWS = {
    "20_000": "2_000", "5_000": "1_000", "4000": "800", "3000": "600", "2000": "400", "1500": "400",
    "1000": "200", "800": "200",
}  # fmt: skip


def with_fewer_rows(page: Path) -> list[str]:
    """Return the blocks of a page with fewer rows: any sample size shows whether they run."""
    code = blocks(page, "python")
    halves = {"500": "100"} if any(re.search(r"\b1000\b", one) for one in code) else {}
    rows = ROWS | halves
    return [
        re.sub(r"(?<![\w.])[\d_]+(?![\w.])", lambda number: rows.get(number[0], number[0]), one)
        for one in code
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_code_of_a_page_runs(page, tmp_path, monkeypatch, capsys, request):
    """Pages run in order, each in its own folder; with fewer rows if there are many."""
    text = "\n".join(blocks(page, "python"))
    if "matplotlib" in text or "plots" in text or ".plot(" in text or ".report(" in text:
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        # A page may draw many figures: they are closed at its end.
        monkeypatch.setitem(matplotlib.rcParams, "figure.max_open_warning", 0)
        if page.stem != "gallery":
            request.getfixturevalue("unpainted")
    monkeypatch.chdir(tmp_path)
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(variable, os.environ.get(variable, ""))  # which Dask sets to 1 for good
    names = example_names() if page.stem == "downsampling" else {}
    for number, block in enumerate(with_fewer_rows(page), start=1):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    if "matplotlib" in text or "plots" in text or ".plot(" in text:
        import matplotlib.pyplot as plt

        plt.close("all")
    printed = capsys.readouterr().out
    assert "nan" not in re.findall(r"\w+", printed)


def test_guide_is_complete():
    """Each page is in a table of contents, so that a reader can find it."""
    listed_pages = set()
    for index in (DOCS / "index.md", DOCS / "api" / "index.md", DOCS / "decisions" / "index.md"):
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index.read_text(), re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed_pages |= {index.parent / f"{entry}.md" for entry in entries}
    assert listed_pages == set(PAGES) - {DOCS / "index.md"}


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
    table_rows = dict(re.findall(r"^\| `fm\.(\w+)` \| `([\w, ]+)`", table, re.MULTILINE))
    assert set(table_rows) == set(kinds)
    for name, parameters in table_rows.items():
        signature_names = list(inspect.signature(getattr(fm, name)).parameters)
        assert parameters.split(", ") == signature_names[: parameters.count(",") + 1], name
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
    results = []
    for block in blocks(DOCS / "contributing.md", "diff"):
        for part in re.split(r"^--- ", block, flags=re.MULTILINE)[1:]:
            head, _, lines = part.partition("\n")
            assert head.startswith("a/"), head
            results += [
                (head[2:], hunk) for hunk in re.split(r"^@@.*\n", lines, flags=re.MULTILINE)
            ]
    return [(name, hunk) for name, hunk in results if hunk.strip()]


def test_diffs_apply_to_the_code():
    """Lines of context follow each other in the file, and added lines are new."""
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


def test_the_table_of_new_things_names_the_files_of_each_recipe():
    page = (DOCS / "architecture.md").read_text().split("## Where each new thing goes")[1]
    table = dict(re.findall(r"^\| (\w+)[^|]* (\|.*)\|$", page.split("## Layers")[0], re.MULTILINE))
    parts = re.split(r"^## An? ", (DOCS / "contributing.md").read_text(), flags=re.MULTILINE)[1:]
    recipes = {
        part.split("\n")[0]: re.findall(r"^--- a/(\S+)$", part, re.MULTILINE) for part in parts
    }
    assert set(recipes) == set(table) - {"a"}
    for kind, files in recipes.items():
        row_places = re.findall(r"`([\w/.]+)`", table[kind])
        for file in files:
            short = file.removeprefix("fastmcmd/")
            places = {file, short, f"{Path(short).parent}/", Path(file).name}
            assert places & set(row_places), f"{kind}: {file}"


# ---- the recipes for contributors, applied to a copy of the package ----

USE_OF_RECIPES = """
import numpy as np
import fastmcmd as fm
from fastmcmd import cli

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 2))
y = x[:, 0] + rng.normal(size=200)
gaussian = fm.Gaussian(x[:, 0], 2.0)
plain = fm.cce(x, y, gaussian, x_kernel=fm.RBF(0.5))
assert fm.cce(x, y, gaussian, x_kernel=fm.Cauchy(0.5)).mean > 0
assert fm.kernels.kernel_from_dict(fm.Cauchy(0.5).to_dict()) == fm.Cauchy(0.5)
for options in ({"backend": "cdist"}, {"solver": "minres"}):
    again = fm.cce(x, y, gaussian, x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(0.5), **options)
    name, value = options.popitem()
    assert getattr(again.info, name) == value, again.info
assert np.isclose(fm.metrics.mse(y, gaussian), fm.metrics.rmse(y, gaussian) ** 2)
assert np.isclose(fm.streaming.MSE().update(y, gaussian).compute(), fm.metrics.mse(y, gaussian))
gumbel = fm.Gumbel(x[:, 0] - np.euler_gamma / 2, 0.5)
assert np.isclose(fm.evaluate(y, gumbel)["mse"], fm.metrics.mse(y, gaussian))
wide = fm.Gaussian(x[:, 1], 2.0)
(pair,) = fm.compare({"a": gaussian, "b": wide}, y).pairs.of("mse")
assert pair.low < pair.difference < pair.high
fitted = fm.recalibration.RobustScaling().fit(gaussian, y)
fitted.save("fitted.npz")
assert fm.load("fitted.npz").scale_ == fitted.scale_
np.save("x.npy", x)
assert cli.main(["count", "x.npy"]) == 0
try:
    import matplotlib
except ImportError:
    pass
else:
    matplotlib.use("Agg")
    from fastmcmd import plots

    assert plots.spread_of_errors(y, gaussian).get_ylabel() == "|error|"
"""


def _definitions(text: str) -> dict[str, str]:
    """Return the definitions of a page for contributors, with the imports that each needs."""
    imports: dict[str, str] = {}
    sources = {}
    for code in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        for node in ast.parse(code).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for one in node.names:
                    alone = ast.copy_location(
                        ast.Import([one])
                        if isinstance(node, ast.Import)
                        else ast.ImportFrom(node.module, [one], 0),
                        node,
                    )
                    imports[one.asname or one.name.partition(".")[0]] = ast.unparse(alone)
            elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node
                name = getattr(target, "id", None) or getattr(target, "name", "")
                names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                import_lines = [line for bound, line in imports.items() if bound in names]
                sources.setdefault(name, "\n".join([*import_lines, "", "", ast.unparse(node), ""]))
    return sources


@pytest.mark.slow
def test_recipes_for_contributors_work(tmp_path):
    """Each class goes into the file that its page names, each diff applies, and the result works."""
    copy = tmp_path / "copy"
    # With the bytecode: modules that no recipe changes are not compiled again.
    for folder in ("fastmcmd", "docs", "csrc"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("_build"))
    text = (DOCS / "contributing.md").read_text()
    sources = _definitions(text)
    places = re.findall(r"`(\w+)` goes to `(fastmcmd/[\w/]+\.py)`", text)
    assert len(places) >= 10
    for name, place in places:
        path = copy / place
        head = path.read_text() if path.exists() else "from __future__ import annotations\n"
        path.write_text(f"{head}\n\n{sources[name]}")
    for name, hunk in _hunks():
        lines = hunk.splitlines()
        before = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-") or not line)
        after = "\n".join(line[1:] for line in lines if line[:1] in (" ", "+") or not line)
        code = (copy / name).read_text()
        assert before in code, f"{name}:\n{before}"
        (copy / name).write_text(code.replace(before, after, 1))
    process = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE_OF_RECIPES], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(copy)},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert process.stdout == "200\n"
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is not None:  # the leaf in the core, for one instruction set
        process = subprocess.run(
            [
                compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-Icsrc",
                "-Ifastmcmd/device", "-DFASTMCMD_ISA_NAMESPACE=isa_baseline",
                '-DFASTMCMD_ISA_NAME="baseline"', "csrc/kernels.cpp",
            ],
            cwd=copy, capture_output=True, text=True,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
