"""Memory that a call may use: parsing of limits, and the free memory of the machine."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from typing import Any

from fastmcmd._base import cgroups
from fastmcmd._base.checks import quote

__all__ = ["available_memory", "format_bytes", "parse_memory", "power_of_two_within"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_PATTERN = re.compile(
    r"^\s*([0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*([kmgt]?)(i?)b?\s*$", re.IGNORECASE
)


def parse_memory(value: object, name: str = "memory_limit") -> int:
    """Return a number of bytes from an int or a text such as ``"2GB"`` or ``"512 MiB"``.

    None means half of the memory that is free now.
    """
    if value is None:
        return available_memory() // 2
    message = (
        f"{name} is {quote(value)}; a positive number of bytes or a text such as '2GB' is needed"
    )
    if isinstance(value, str):
        match = _PATTERN.match(value)
        if match is None:
            raise ValueError(message)
        number, unit, binary = match.groups()
        scale = (_BINARY if binary and unit else _UNITS)[unit.lower()]
        size = int(min(float(number) * scale, sys.maxsize))
    elif (
        isinstance(value, bool)
        or hasattr(value, "mask")
        or (not hasattr(value, "__index__") and not isinstance(value, float))
    ):
        raise TypeError(message)
    else:
        try:
            size = int(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # NaN, infinity, arrays
            raise ValueError(message) from None
    if size <= 0:
        raise ValueError(message)
    return min(size, sys.maxsize)


def power_of_two_within(size: int) -> int:
    """Return the largest power of two that is at most ``size``; 0 below 1.

    Choices that decide about bits, such as the rows of a block, take it from a budget: the tiles of one
    more thread take off a few megabytes, and seldom change it.
    """
    return 1 << (size.bit_length() - 1) if size >= 1 else 0


def format_bytes(size: float, *, least: bool = False) -> str:
    """Return ``size`` in bytes as a short text; rounded up if it is the ``least`` that is needed."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{math.ceil(size) if least else size:.0f} {unit}"
        size /= 1000
    return f"{math.ceil(100 * size) / 100 if least else size:.2f} GB"


# The free memory is cached for this many seconds, so that calls in a loop do not read system files each
# time.
_SECONDS = 0.05
_last = (-float("inf"), 0)  # time of the last reading, and the bytes that were free


def available_memory() -> int:
    """Return the bytes that can be allocated, as measured at most 50 ms ago.

    Considers the system and the limit of its container.
    """
    global _last
    now = time.monotonic()
    last_time, size = _last
    if now - last_time > _SECONDS:
        size = _free_now()
        _last = now, size
    return size


def _free_now() -> int:
    free = _system_free()
    limit = cgroups.free_memory()
    return min(free, limit) if limit is not None else free


def _system_free() -> int:
    try:
        with open("/proc/meminfo") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # macOS and others do not report free memory: half of all memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return _windows_free()


def _windows_free() -> int:
    import ctypes

    class Status(ctypes.Structure):
        _fields_ = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            ("total", ctypes.c_ulonglong),
            ("free", ctypes.c_ulonglong),
            ("rest", ctypes.c_ulonglong * 5),
        ]

    status = Status()
    status.length = ctypes.sizeof(Status)
    windll: Any = getattr(ctypes, "windll", None)
    if windll is not None and windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return int(status.free)
    return 4 * 10**9  # unknown system: a size that any machine of today has
