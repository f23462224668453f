"""The plain backend: tiles by the kernels' own definitions, for tests and small data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastmcmd.backends.base import Array
from fastmcmd.backends.tiled import TiledBackend
from fastmcmd.kernels import Kernel

__all__ = ["NumpyBackend"]


@dataclass(frozen=True)
class NumpyBackend(TiledBackend):
    """Tiles by ``kernel(x, z)``; it supports every kernel, including a user's own functions."""

    @property
    def name(self) -> str:
        """Name in the registry."""
        return "numpy"

    def tile_of(self, kernel: Kernel) -> Callable[[Array, Array], Array]:
        """Return the kernel itself."""
        return kernel
