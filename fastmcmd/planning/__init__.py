"""What a call would do, without doing it: backend, solver, cache, memory, passes, seconds."""

from __future__ import annotations

from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.question import plan

__all__ = ["Plan", "plan"]
