"""Arguments have types that say what they take; ``Any`` is left where no type applies."""

from __future__ import annotations

import tokenize
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "fastmcmd"
MOST = 863


@pytest.mark.slow
def test_any_is_rare():
    count = 0
    for path in PACKAGE.rglob("*.py"):
        if "Any" not in path.read_text(encoding="utf-8"):
            continue
        with tokenize.open(path) as stream:
            tokens = tokenize.generate_tokens(stream.readline)
            count += sum(one.type == tokenize.NAME and one.string == "Any" for one in tokens)
    assert count <= MOST
