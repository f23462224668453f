"""Drop-in modules and adapters for other packages.

``fastmcmd.compat.probcal`` replaces the published code of the CCE paper, and
``fastmcmd.compat.uncertainty_toolbox`` replaces Uncertainty Toolbox: only the import changes. ``sklearn``
has scorers and displays, ``torchmetrics`` has metrics for training loops, and ``skpro`` has a metric and
converts distributions of that library. Each module is loaded on first use.
"""

import importlib

__all__ = ["probcal", "sklearn", "skpro", "torchmetrics", "uncertainty_toolbox"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return importlib.import_module(f"fastmcmd.compat.{name}")
    raise AttributeError(f"module 'fastmcmd.compat' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
