"""The layers of `docs/architecture.md` hold: modules import from their own layer or those below."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastmcmd"

# Imports inside functions may point upwards to these only, for `.plot()` and `.report()`.
PRESENTATION = {"plots", "report"}
LOADERS = ("import_module", "__import__", "require")  # functions that import a module by name


def modules() -> dict[str, Path]:
    """Return dotted names below the package, and their files."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    return files


MODULES = modules()


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the package's modules that a file imports, and whether inside a function."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and (child.module or "").startswith("fastmcmd"):
                base = (child.module or "").removeprefix("fastmcmd").removeprefix(".")
                for alias in child.names:
                    name = f"{base}.{alias.name}".removeprefix(".")
                    if name != "_core":  # the compiled core imports nothing of the package
                        yield (name if name in MODULES else base), lazy
            yield from ((target, lazy) for target in named_modules(child))
            inside = isinstance(child, ast.FunctionDef | ast.Lambda)
            yield from visit(child, lazy or inside)

    yield from visit(ast.parse(path.read_text()), False)


def named_modules(node: ast.AST) -> Iterator[str]:
    """Yield what ``import fastmcmd.x`` and calls such as ``import_module("fastmcmd.x")`` import.

    A name with a variable end belongs to a registry of modules: "cli." is any module of the folder.
    """
    names: list[object] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(LOADERS) and node.args:
        first = node.args[0]
        start = first.values[0] if isinstance(first, ast.JoinedStr) else first
        names = [start.value] if isinstance(start, ast.Constant) else []
    for name in names:
        if isinstance(name, str) and re.match(r"fastmcmd\b", name):
            yield name.removeprefix("fastmcmd").removeprefix(".")


def layer_numbers() -> dict[str, int]:
    """Return the row of the table in which each folder and each file of the package stands."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.split("Each layer imports only")[1].split("\n\n")[1]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {
        name.removeprefix("fastmcmd/").removesuffix("/").removesuffix(".py"): number
        for number, cell in enumerate(rows)
        for name in re.findall(r"`([\w/.]+)`", cell)
    }


LAYERS = layer_numbers()


def layer(module: str) -> str:
    """Return the folder or top-level file of a module; "" for the package itself."""
    return module.split(".")[0]


def test_every_module_has_a_layer():
    names = {layer(module) for module in MODULES} - {"", "__main__", "_version", "data"}
    assert names - set(LAYERS) == set()


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"", "__main__"}))
def test_imports_point_downwards(module):
    """A module imports from its own layer, or from layers further up in the table."""
    own_layer = LAYERS.get(layer(module), 0)
    for target, lazy in imports(MODULES[module]):
        target_layer = layer(target)
        if target_layer in ("", "_version") or LAYERS[target_layer] <= own_layer:
            continue
        if lazy and target_layer in PRESENTATION:
            continue
        pytest.fail(f"fastmcmd.{module} imports fastmcmd.{target}, a layer above its own")


def test_imports_by_name_are_seen(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        "import importlib\nimport fastmcmd.cce\n"
        "def f(n):\n"
        "    importlib.import_module('fastmcmd.distributed.pairs'), require(f'fastmcmd.cli.{n}')\n"
    )
    assert list(imports(source)) == [("cce", False), ("distributed.pairs", True), ("cli.", True)]


@pytest.mark.slow
def test_no_cycle_among_files():
    """Imports form no cycle, including those inside functions."""
    graph = {
        module: {
            target
            for target, lazy in imports(path)
            if target != module and not (lazy and (layer(target) in PRESENTATION or not target))
        }
        for module, path in MODULES.items()
    }
    list(TopologicalSorter(graph).static_order())  # a CycleError names the cycle
