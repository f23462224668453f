"""Run the test files of another package against the module of fastmcmd that replaces it.

git clone https://github.com/uncertainty-toolbox/uncertainty-toolbox
python tests/peers/run.py uncertainty_toolbox uncertainty-toolbox/tests

Every import of the other package gives the drop-in module; pytest runs the files as they are.
scoringrules has no drop-in module: `scoringrules_names` maps its names to functions of fastmcmd.

git clone https://github.com/frazane/scoringrules
python tests/peers/run.py scoringrules scoringrules/tests --backend numpy
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # the fastmcmd of this checkout

PEERS = {
    "scoringrules": "scoringrules_names",
    "uncertainty_toolbox": "fastmcmd.compat.uncertainty_toolbox",
}


def replace(peer: str) -> None:
    """Let imports of a package and its modules give those of the drop-in module."""
    module = importlib.import_module(PEERS[peer])
    sys.modules[peer] = module
    for part in pkgutil.iter_modules(getattr(module, "__path__", [])):
        name = f"{module.__name__}.{part.name}"
        sys.modules[f"{peer}.{part.name}"] = importlib.import_module(name)


def main(peer: str, *arguments: str) -> int:
    """Return the exit code of pytest."""
    if peer not in PEERS:
        raise SystemExit(f"no drop-in module for {peer!r}; there are {', '.join(PEERS)}")
    replace(peer)
    return int(pytest.main(["-p", "no:cacheprovider", "-q", *arguments]))


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
