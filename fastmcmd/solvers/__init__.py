"""Solvers of regularised kernel systems; each returns its solution with a certificate."""

from fastmcmd.solvers.auto import LinearProblem, Solved, solve
from fastmcmd.solvers.base import Certificate, Goal, Solution, System

__all__ = ["Certificate", "Goal", "LinearProblem", "Solution", "Solved", "System", "solve"]
