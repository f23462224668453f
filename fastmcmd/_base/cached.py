"""A cached property that holds no lock while it computes.

Before Python 3.12, `functools.cached_property` holds one lock per class during the computation. If a
process forks while another thread computes, the child inherits that lock without the thread that holds it,
and waits forever. The lock also blocks threads that work on different objects of one class.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(functools.cached_property):
        """The property of Python 3.12: two threads may compute a value twice, and both see the first.

        Python calls ``__get__`` only as long as the instance has no attribute of that name.
        """

        def __get__(self, instance: object, owner: object = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.attrname, self.func(instance))
