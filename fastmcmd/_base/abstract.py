"""Abstract classes whose instance checks are those of ordinary classes."""

from __future__ import annotations

from abc import ABCMeta

__all__ = ["Abstract"]


class _Plain(ABCMeta):
    """The metaclass of `Abstract`.

    `abc.ABCMeta` looks for virtual subclasses, in Python, at each ``isinstance``. Kernels and predictions
    have none, and a small problem asks a hundred times.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


class Abstract(metaclass=_Plain):
    """A class that cannot be instantiated before all its abstract methods are defined."""
