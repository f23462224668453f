"""Options that several commands share: columns, kernels, how the CCE is computed."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.columns import Columns, open_columns

__all__ = [
    "add_columns",
    "add_computation",
    "add_kernels",
    "add_progress",
    "columns_of",
    "computation",
    "inputs_of",
    "shown",
]

_KERNELS = ("rbf", "laplacian", "polynomial", "matern", "linear", "cosine", "delta")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the file and the names of its columns."""
    parser.add_argument("file", metavar="FILE", help=".npz, .npy, .csv, .tsv, .parquet or .zarr")
    parser.add_argument("--y", metavar="COLUMN", default="y", help="outcomes (default: y)")
    parser.add_argument(
        "--x",
        metavar="COLUMNS",
        help="inputs, for the CCE: names or patterns with commas between, such as 'age,income' or 'x*' "
        "(default: x, or x0, x1, ..., where there are such columns)",
    )
    parser.add_argument("--weights", metavar="COLUMN", help="weights of rows")


def add_kernels(parser: argparse.ArgumentParser) -> None:
    """Add kernels and regulariser."""
    for side, default in (("x", "polynomial"), ("y", "rbf")):
        parser.add_argument(f"--{side}-kernel", choices=_KERNELS, default=default)
        parser.add_argument(
            f"--{side}-gamma",
            metavar="G",
            help="a number, 'variance', 'median' or '1/d' (default: the paper's)",
        )
    parser.add_argument("--degree", type=int, default=3, help="of polynomial kernels")
    parser.add_argument("--nu", type=float, default=1.5, help="of Matern kernels: 0.5, 1.5 or 2.5")
    parser.add_argument("--length-scale", type=float, default=1.0, help="of Matern kernels")
    parser.add_argument("--lam", type=float, default=0.1, help="regulariser")


def add_computation(parser: argparse.ArgumentParser) -> None:
    """Add how the CCE is computed."""
    parser.add_argument("--tol", type=float, default=1e-6, help="largest error of a value")
    parser.add_argument("--solver", choices=("auto", "cholesky", "cg", "lowrank"), default="auto")
    parser.add_argument("--backend", choices=("auto", "cpu", "numba", "numpy"), default="auto")
    parser.add_argument("--dtype", choices=("float32", "float64"))
    parser.add_argument("--certificate", choices=("auto", "rigorous", "sampled"), default="auto")
    parser.add_argument("--memory-limit", metavar="SIZE", help="such as 2GB; beyond the data")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add whether progress is shown."""
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress (default: on a terminal)",
    )


def shown(arguments: argparse.Namespace) -> bool:
    """Tell whether progress is shown."""
    return sys.stderr.isatty() if arguments.progress is None else bool(arguments.progress)


def columns_of(arguments: argparse.Namespace) -> tuple[Columns, dict[str, Any]]:
    """Return the file's columns, and outcomes, inputs and weights among them."""
    columns = open_columns(arguments.file)
    found = {"y": columns.select(arguments.y, "--y"), "x": inputs_of(arguments, columns)}
    if arguments.weights is not None:
        found["sample_weight"] = columns.select(arguments.weights, "--weights")
    return columns, found


def inputs_of(arguments: argparse.Namespace, columns: Columns) -> Any:
    """Return the inputs, or None where there are none."""
    if arguments.x is not None:
        return columns.select(arguments.x, "--x")
    if "x" in columns.names:
        return columns.select("x", "--x")
    numbered = [name for name in columns.names if name[:1] == "x" and name[1:].isdecimal()]
    return columns.select(",".join(numbered), "--x") if numbered else None


def computation(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return kernels and options as `fastmcmd.evaluate` takes them."""
    return {
        "x_kernel": kernel(arguments, "x"),
        "y_kernel": kernel(arguments, "y"),
        **{
            name: getattr(arguments, name)
            for name in ("lam", "tol", "solver", "backend", "dtype", "certificate", "memory_limit")
        },
    }


def kernel(arguments: argparse.Namespace, side: str) -> Any:
    """Return the kernel on inputs ("x") or outputs ("y")."""
    import fastmcmd as fm

    name = getattr(arguments, f"{side}_kernel")
    told = getattr(arguments, f"{side}_gamma")
    default = "variance" if side == "y" and name == "rbf" else None
    gamma: Any = default
    if told == "1/d":
        gamma = None
    elif told in ("variance", "median"):
        gamma = told
    elif told is not None:
        try:
            gamma = float(told)
        except ValueError:
            raise UsageError(
                f"--{side}-gamma is {told!r}; a number, 'variance', 'median' or '1/d' is needed"
            ) from None
    match name:
        case "rbf":
            return fm.RBF(gamma)
        case "laplacian":
            return fm.Laplacian(gamma)
        case "polynomial":
            return fm.Polynomial(arguments.degree, gamma)
        case "matern":
            return fm.Matern(arguments.nu, arguments.length_scale)
        case "linear":
            return fm.Linear()
        case "cosine":
            return fm.Cosine()
    return fm.Delta()
