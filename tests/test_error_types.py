"""Types and attributes of errors decide, never their texts; memory limits are checked beforehand."""

from __future__ import annotations

import ast
import functools
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.errors import RowError

PACKAGE = Path(__file__).parents[1] / "fastmcmd"
SEARCHES = {"search", "match", "fullmatch", "startswith", "endswith", "find", "index", "count"}


def nodes_of_files(text: str) -> Iterator[tuple[Path, ast.AST]]:
    """Yield all nodes of the package's files that contain a text."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if text in source:
            yield from ((path, node) for node in ast.walk(ast.parse(source)))


@functools.cache
def handlers() -> list[tuple[Path, ast.ExceptHandler]]:
    """Return all handlers of errors in the package, with their files."""
    return [
        (path, node)
        for path, node in nodes_of_files("except")
        if isinstance(node, ast.ExceptHandler)
    ]


def is_text(node: ast.AST, name: str | None) -> bool:
    """Return whether an expression is the text of the error that a handler calls ``name``."""
    return name is not None and ast.unparse(node) in (
        f"str({name})",
        f"repr({name})",
        f"{name}.args[0]",
    )


def test_no_text_of_an_error_decides():
    decisions = []
    for path, handler in handlers():
        for node in ast.walk(handler):
            parts = []
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in SEARCHES:
                parts = [node.func.value, *node.args]
            if any(is_text(part, handler.name) for part in parts):
                decisions.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert decisions == []


def test_the_search_finds_such_a_decision():
    handler = ast.parse("try: f()\nexcept E as e:\n    if 'x' in str(e): raise").body[0].handlers[0]
    assert is_text(handler.body[0].test.comparators[0], handler.name)


def reads_note(node: ast.AST) -> bool:
    """Whether an expression searches the text of a note, or compares it with a text."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in SEARCHES:
        parts = [node.func.value, *node.args]
    elif isinstance(node, ast.Compare):
        of_text = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
        parts = [*node.comparators, *([] if of_text else [node.left])]
    return any(re.search(r"(^|\.)(note|notes\[\S+\])$", ast.unparse(part)) for part in parts)


def test_no_text_of_a_note_decides():
    decisions = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path, node in nodes_of_files("note")
        if reads_note(node)
    ]
    assert decisions == []


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("note.startswith(A)", True), ("A in note", True), ("info.notes[0] == A", True),
        ("re.match(A, one.note)", True), ("note not in notes", False), ("cause.kind == A", False),
    ],
)  # fmt: skip
def test_the_search_finds_texts_of_notes(code, reads):
    assert reads_note(ast.parse(code, mode="eval").body) is reads


@pytest.mark.parametrize("folder", ["estimate", "planning", "solvers"])
def test_no_refusal_for_memory_decides(folder):
    names = [
        f"{path.relative_to(PACKAGE)}:{handler.lineno}"
        for path, handler in handlers()
        if path.parent.name == folder and handler.type and "Memory" in ast.unparse(handler.type)
    ]
    assert names == []


def test_errors_of_a_row_have_its_number():
    with pytest.raises(RowError, match="first in row 2") as caught:
        fm.metrics.mean_crps([0.0, 1.0, np.inf], fm.Gaussian([0.0, 0.0, 0.0], 1.0))
    assert caught.value.row == 2
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.row, str(copy)) == (2, str(caught.value))
    with pytest.raises(RowError, match="first: std") as caught:
        fm.Gaussian([0.0, 1.0], [1.0, -1.0])
    assert caught.value.row == 1
