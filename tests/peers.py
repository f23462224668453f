"""Reference implementations of other packages."""

from __future__ import annotations

import sys

import pytest


def imported(name):
    """Import a package, or skip the test; disable Numba, which would compile its loops for seconds."""
    with pytest.MonkeyPatch.context() as patch:
        if name not in sys.modules:
            patch.setitem(sys.modules, "numba", None)
        return pytest.importorskip(name)
