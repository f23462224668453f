"""The layers of `docs/architecture.md` hold: modules import from their own layer or those below."""

from __future__ import annotations

import ast
import functools
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


@functools.cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Return the package's modules that a file imports, and whether inside a function."""
    targets: list[tuple[str, bool]] = []
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text()), False)]
    while pending:
        node, lazy = pending.pop()
        match node:
            case ast.Name() | ast.Constant():
                continue  # most nodes
            case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
                continue
            case ast.ImportFrom() if (node.module or "").startswith("fastmcmd"):
                base = (node.module or "").removeprefix("fastmcmd").removeprefix(".")
                names = [f"{base}.{alias.name}".removeprefix(".") for alias in node.names]
                targets += [  # the compiled core imports nothing of the package
                    (name if name in MODULES else base, lazy) for name in names if name != "_core"
                ]
            case ast.Import() | ast.Call():
                targets += [(target, lazy) for target in named_modules(node)]
        inside = lazy or isinstance(node, ast.FunctionDef | ast.Lambda)
        pending += [(child, inside) for child in ast.iter_child_nodes(node)][::-1]
    return targets


def named_modules(node: ast.AST) -> Iterator[str]:
    """Yield what ``import fastmcmd.x`` and calls such as ``import_module("fastmcmd.x")`` import.

    A name with a variable end belongs to a registry of modules: "cli." is any module of the folder.
    """
    names: list[object] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Call) and node.args and name_of(node.func).endswith(LOADERS):
        first = node.args[0]
        start = first.values[0] if isinstance(first, ast.JoinedStr) else first
        names = [start.value] if isinstance(start, ast.Constant) else []
    for name in names:
        if isinstance(name, str) and re.match(r"fastmcmd\b", name):
            yield name.removeprefix("fastmcmd").removeprefix(".")


def name_of(function: ast.expr) -> str:
    """Return the last name of the expression of a function; "" if it is none."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


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


def upward_imports(module: str) -> list[str]:
    """Return what a module imports from layers above its own, further down in the table."""
    own_layer = LAYERS.get(layer(module), 0)
    targets = [
        target
        for target, lazy in imports(MODULES[module])
        if layer(target) not in ("", "_version")
        and LAYERS[layer(target)] > own_layer
        and not (lazy and layer(target) in PRESENTATION)
    ]
    return [f"fastmcmd.{module} imports fastmcmd.{target}" for target in targets]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({layer(module) for module in MODULES} - {"", "__main__"}))
def test_imports_point_downwards(name):
    """The modules of a folder import from their own layer, or from layers further up in the table."""
    assert [
        text for module in MODULES if layer(module) == name for text in upward_imports(module)
    ] == []


def test_imports_by_name_are_seen(tmp_path):
    source = tmp_path / "module.py"
    source.write_text(
        "import importlib\nimport fastmcmd.cce\n"
        "def f(n):\n"
        "    importlib.import_module('fastmcmd.distributed.pairs'), require(f'fastmcmd.cli.{n}')\n"
    )
    assert imports(source) == [("cce", False), ("distributed.pairs", True), ("cli.", True)]


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
