"""Drop-in modules and adapters for other packages.

``fastmcmd.compat.probcal`` replaces the published code of the CCE paper, and
``fastmcmd.compat.uncertainty_toolbox`` replaces Uncertainty Toolbox: only the import changes. ``sklearn``
has scorers, ``torchmetrics`` has metrics for training loops, and ``skpro`` has a metric and converts
distributions of that library. Each module is loaded on first use.
"""

import importlib

_MODULES = (
    "estimators",
    "flat",
    "probcal",
    "sklearn",
    "skpro",
    "torchmetrics",
    "uncertainty_toolbox",
)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"fastmcmd.compat.{name}")
    raise AttributeError(f"module 'fastmcmd.compat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
