"""Limits of memory and processor time that Linux control groups set for this process.

Groups are nested, and the limits of all ancestors apply. A container often mounts only its own subtree of
the hierarchy, so the path in ``/proc/self/cgroup`` may not exist below the mount point. The part of the
path that exists is examined, from the mount point down.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

__all__ = ["free_memory", "processors"]

_ROOT = Path("/")  # replaced by tests
_UNLIMITED = 1 << 60  # version 1 writes the largest multiple of a page for "no limit"


def free_memory() -> int | None:
    """Return the bytes that the groups of this process still allow, or None without a limit.

    The kernel counts cached pages of files (``inactive_file``) as usage but releases them when memory is
    short, so they are treated as free.
    """
    free: list[int] = []
    for folder, version in _folders("memory", _ROOT):
        names = (
            ("memory.max", "memory.current", "inactive_file")
            if version == 2
            else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        )
        limits = [_number(folder / names[0])]
        if version == 2:
            limits.append(_number(folder / "memory.high"))  # beyond it processes are slowed down
        finite_limits = [limit for limit in limits if limit is not None and limit < _UNLIMITED]
        usage = _number(folder / names[1]) if finite_limits else None
        if usage is not None:
            working_set = max(0, usage - _field(folder / "memory.stat", names[2]))
            free.append(max(0, min(finite_limits) - working_set))
    return min(free) if free else None


def processors() -> float | None:
    """Return the number of processors allowed by the groups of this process, or None without a quota."""
    quotas: list[float] = []
    for folder, version in _folders("cpu", _ROOT):
        if version == 2:
            text = _text(folder / "cpu.max").split()
            quota, period = [*text, "", ""][:2]
        else:
            quota = _text(folder / "cpu.cfs_quota_us").strip()
            period = _text(folder / "cpu.cfs_period_us").strip()
        if quota.isdecimal() and period.isdecimal() and int(quota) > 0 and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas) if quotas else None


@lru_cache(maxsize=4)
def _folders(controller: str, root: Path) -> tuple[tuple[Path, int], ...]:
    """Return the cached folders of groups: a process seldom moves, and the table of mounts is long."""
    del root  # only so that tests with another one find others
    return tuple(_search(controller))


def _search(controller: str) -> Iterator[tuple[Path, int]]:
    """Yield the folders of the groups of this process, ancestors included, and the version of each."""
    for line in _text(_ROOT / "proc/self/cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and controller not in controllers.split(","):
            continue
        version = 1 if controllers else 2
        for mount, inside in _mounts(version, controller):
            folder = _ROOT / mount.lstrip("/")
            if not folder.is_dir():
                continue
            yield folder, version
            parts = [part for part in _below(path, inside).split("/") if part not in ("", "..")]
            for part in parts:
                folder = folder / part
                if not folder.is_dir():
                    break
                yield folder, version


def _mounts(version: int, controller: str) -> list[tuple[str, str]]:
    """Return the mount points of a hierarchy, each with the group that is its root."""
    mounts = []
    for line in _text(_ROOT / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or not kind:
            continue
        options = kind[2].split(",") if len(kind) > 2 else []
        if kind[0] == "cgroup2" if version == 2 else kind[0] == "cgroup" and controller in options:
            mounts.append((_unescaped(fields[4]), _unescaped(fields[3])))
    return mounts


def _below(path: str, inside: str) -> str:
    """Return the path of a group relative to the mounted group."""
    inside = inside.rstrip("/")
    if inside and (path == inside or path.startswith(inside + "/")):
        return path[len(inside) :]
    return path


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def _text(path: Path) -> str:
    """Return a small file as text, without a stream, because every call of the package reads several."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    parts = []
    try:
        while part := os.read(handle, 1 << 16):
            parts.append(part)
    except OSError:  # a folder, or a group that has gone
        return ""
    finally:
        os.close(handle)
    return b"".join(parts).decode("utf-8", errors="replace")


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None


def _field(path: Path, name: str) -> int:
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdecimal():
            return int(value)
    return 0
