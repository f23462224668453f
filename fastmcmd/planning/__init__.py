"""Plans: the backend, solver, cache, memory, passes and seconds of a call, without running it."""

from __future__ import annotations

from fastmcmd.planning.outcome import Plan
from fastmcmd.planning.question import plan

__all__ = ["Plan", "plan"]
