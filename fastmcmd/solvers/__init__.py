"""Solvers of regularised kernel systems; each returns its solution with a certificate."""

from fastmcmd.solvers.auto import LinearProblem, Solved, solve
from fastmcmd.solvers.base import Certificate, Solution, System

__all__ = ["Certificate", "LinearProblem", "Solution", "Solved", "System", "solve"]
