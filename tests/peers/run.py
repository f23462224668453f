"""Run the tests of another package against the module of fastmcmd that replaces it.

git clone https://github.com/uncertainty-toolbox/uncertainty-toolbox
python tests/peers/run.py uncertainty_toolbox uncertainty-toolbox/tests

Every import of the other package gives the drop-in module; pytest runs the files as they are.
scoringrules has no drop-in module: `scoringrules_names` maps its names to functions of fastmcmd.

git clone https://github.com/frazane/scoringrules
python tests/peers/run.py scoringrules scoringrules/tests --backend numpy

Tests of torchmetrics need torchmetrics itself. `torchmetrics_names` replaces the metrics under test:

git clone https://github.com/Lightning-AI/torchmetrics
python tests/peers/run.py torchmetrics torchmetrics/tests/unittests/regression/test_crps.py

skpro checks a metric by a function of its own:

python tests/peers/run.py skpro
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
    """Redirect imports of a package and its modules to the drop-in module."""
    module = importlib.import_module(PEERS[peer])
    sys.modules[peer] = module
    for name, part in getattr(module, "MODULES", {}).items():
        sys.modules[f"{peer}.{name}"] = part
    for info in pkgutil.iter_modules(getattr(module, "__path__", [])):
        name = f"{module.__name__}.{info.name}"
        sys.modules[f"{peer}.{info.name}"] = importlib.import_module(name)


def replace_in_torchmetrics() -> None:
    """Put the metrics of `torchmetrics_names` into the modules of torchmetrics."""
    for module, members in importlib.import_module("torchmetrics_names").REPLACED.items():
        for member in members:
            setattr(importlib.import_module(module), member.__name__, member)


def check_skpro() -> int:
    """Run skpro's checks of a metric on `fastmcmd.compat.skpro.Metric`; return the number that fail."""
    from skpro.utils import check_estimator

    from fastmcmd.compat.skpro import Metric

    results = check_estimator(Metric, raise_exceptions=False, verbose=False)
    failures = {name: outcome for name, outcome in results.items() if outcome != "PASSED"}
    for name, outcome in failures.items():
        print(f"FAILED {name}: {outcome}")
    print(f"{len(failures)} failed, {len(results) - len(failures)} passed")
    return len(failures)


def main(peer: str, *arguments: str) -> int:
    """Return the exit code of pytest, or the number of checks that fail."""
    if peer == "skpro":
        return check_skpro()
    if peer == "torchmetrics":
        replace_in_torchmetrics()
        tests = next(
            one for one in Path(arguments[0]).absolute().parents if one.name == "unittests"
        )
        sys.path.insert(0, str(tests.parent))
    elif peer in PEERS:
        replace(peer)
    else:
        raise SystemExit(
            f"no tests for {peer!r}; there are {', '.join((*PEERS, 'skpro', 'torchmetrics'))}"
        )
    # The peer's own configuration would need its plugins.
    options = ["-p", "no:cacheprovider", "-q", "-o", "addopts=", *arguments]
    return int(pytest.main(options))


if __name__ == "__main__":
    if len(sys.argv) < 3 and sys.argv[1:] != ["skpro"]:
        raise SystemExit(__doc__)
    sys.exit(main(*sys.argv[1:]))
