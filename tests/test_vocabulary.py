"""Names of the dialect that the package once had do not come back; contributing.md has the glossary."""

from __future__ import annotations

import re
import tokenize
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fastmcmd"
# What each old word gave way to.
OLD = {
    "abreast": "stacked",
    "asked": "what was asked for, by its name: a setting, an argument",
    "audit": "certify",
    "card": "device",
    "found": "what the value is",
    "hopeless": "cannot converge",
    "judge": "switch policy",
    "kept": "resident, stored, significant: why it stays",
    "missed": "residual, residual diagonal",
    "outlook": "forecast",
    "pilot": "candidate problem",
    "promising": "cannot converge, negated",
    "room": "budget, available",
    "spoiled": "NaN result",
    "standing": "subsample",
    "strips": "block columns",
    "survey": "row statistics",
    "told": "message, report",
    "watched": "preconditioned CG",
}
# Formats of earlier versions have these names in files; `FileNotFoundError` is Python's.
ALLOWED = {"FileNotFoundError", "ModuleNotFoundError"}
FILES = sorted(PACKAGE.rglob("*.py"))


def words(name: str) -> set[str]:
    """Return the words of a name in snake_case or CamelCase, in lower case."""
    return {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_old_names_do_not_occur(path):
    with tokenize.open(path) as stream:
        names = {
            (token.string, token.start[0])
            for token in tokenize.generate_tokens(stream.readline)
            if token.type == tokenize.NAME and token.string not in ALLOWED
        }
    names.add((path.stem, 0))
    old = [
        f"line {line}: {name} ({OLD[word]})"
        for name, line in sorted(names, key=lambda item: item[1])
        for word in words(name) & set(OLD)
    ]
    assert not old


def test_words_of_a_name():
    assert words("_has_room") == {"", "has", "room"}
    assert words("StandingOperator") == {"standing", "operator"}
    assert "card" in words("card_rows")
    assert "card" not in words("discarded")
