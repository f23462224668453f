"""Drop-in modules and adapters: code written for another package changes an import and nothing else.

``fastmcmd.compat.probcal`` stands in for the published code of the CCE paper,
``fastmcmd.compat.uncertainty_toolbox`` for Uncertainty Toolbox; ``sklearn`` has scorers,
``torchmetrics`` metrics for training loops, ``skpro`` a metric and distributions of that library.
Nothing is imported here: each is loaded when it is first used.
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
