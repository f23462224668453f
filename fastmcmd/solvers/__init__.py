"""Solvers of regularised kernel systems. Each returns its solution with a certificate."""

from fastmcmd.solvers.auto import Auto, solver_of
from fastmcmd.solvers.base import Certificate, Goal, Solution, System
from fastmcmd.solvers.cg import BlockCG
from fastmcmd.solvers.cholesky import Cholesky
from fastmcmd.solvers.preconditioned_cg import PreconditionedCG
from fastmcmd.solvers.protocol import Cost, LinearProblem, ProblemSize, Solved, Solver

__all__ = [
    "Auto", "BlockCG", "Certificate", "Cholesky", "Cost", "Goal", "LinearProblem", "PreconditionedCG",
    "ProblemSize", "Solution", "Solved", "Solver", "System", "solver_of",
]  # fmt: skip
