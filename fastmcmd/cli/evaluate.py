"""Compute the conditional congruence error of your own predictions.

FILE.npz holds the arrays x (n, d), y (n,) and either samples (n, l) or mean and std (n,).
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

from fastmcmd.cli.app import UsageError
from fastmcmd.cli.output import check_target

HELP = "CCE of predictions in an .npz file"
EPILOG = """examples:
  fastmcmd evaluate predictions.npz
  fastmcmd evaluate predictions.npz --x-kernel rbf --x-gamma median --output cce.csv
  fastmcmd evaluate predictions.npz --lam 0.01 --tol 1e-8 --memory-limit 2GB --format json
"""

_KERNELS = ("rbf", "laplacian", "polynomial", "matern", "linear", "cosine", "delta")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("file", metavar="FILE.npz")
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
    parser.add_argument("--tol", type=float, default=1e-6, help="largest error of a value")
    parser.add_argument("--draws", type=int, help="draws an input (default: exact expectations)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--solver", choices=("auto", "cholesky", "cg"), default="auto")
    parser.add_argument("--backend", choices=("auto", "cpu", "numba", "numpy"), default="auto")
    parser.add_argument("--dtype", choices=("float32", "float64"))
    parser.add_argument("--certificate", choices=("auto", "rigorous", "sampled"), default="auto")
    parser.add_argument("--memory-limit", metavar="SIZE", help="such as 2GB; beyond the data")
    parser.add_argument("--output", metavar="FILE", help=".csv or .npz of point-wise values")
    parser.add_argument("--format", choices=("table", "json"), default="table")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress (default: on a terminal)",
    )


def run(arguments: argparse.Namespace) -> None:
    """Read, compute, write, print."""
    import fastmcmd as fm

    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        check_target(output, (".csv", ".npz"))
    arrays = _read(arguments.file)
    prediction = arrays["samples"] if "samples" in arrays else (arrays["mean"], arrays["std"])
    progress = sys.stderr.isatty() if arguments.progress is None else arguments.progress
    result = fm.cce(
        arrays["x"],
        arrays["y"],
        prediction,
        x_kernel=_kernel(arguments, "x"),
        y_kernel=_kernel(arguments, "y"),
        lam=arguments.lam,
        draws=arguments.draws,
        random_state=arguments.seed,
        tol=arguments.tol,
        solver=arguments.solver,
        backend=arguments.backend,
        dtype=arguments.dtype,
        memory_limit=arguments.memory_limit,
        certificate=arguments.certificate,
        progress=progress,
    )
    if output is not None:
        _write(output, result)
    if arguments.format == "json":
        print(json.dumps(result.to_dict(), indent=2))
        return
    print(result)
    for note in result.info.notes:
        print(f"  note: {note}")
    if output is not None:
        print(f"  written: {output}")


def _read(name: str) -> dict[str, Any]:
    import numpy as np

    try:
        stored = np.load(name, allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise UsageError(f"{name} holds a single array; an .npz file with names is needed")
        with stored:
            return {one: stored[one] for one in _wanted(name, stored.files)}
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, MemoryError) as error:
        raise UsageError(f"{name} cannot be read as an .npz file: {error}") from None


def _wanted(name: str, known: list[str]) -> list[str]:
    """Return the names of the arrays to read, or say which are missing."""
    wanted = ["x", "y", *(["samples"] if "samples" in known else ["mean", "std"])]
    missing = [one for one in wanted if one not in known]
    if missing:
        has = ", ".join(sorted(known)) or "nothing"
        raise UsageError(
            f"{name} lacks {', '.join(missing)}: it needs x, y and either samples or mean and std, "
            f"and holds {has}"
        )
    return wanted


def _kernel(arguments: argparse.Namespace, side: str) -> Any:
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


def _write(path: Path, result: Any) -> None:
    import io

    import numpy as np

    from fastmcmd.storage import write_atomically

    def write(stream: Any) -> None:
        if path.suffix == ".npz":
            summary = np.frombuffer(json.dumps(result.to_dict()).encode(), dtype=np.uint8)
            np.savez(stream, cce=result.values, error_bound=result.error_bounds, summary=summary)
            return
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        text.write("row,cce,error_bound\n")
        for row, (value, bound) in enumerate(
            zip(result.values.tolist(), result.error_bounds.tolist(), strict=True)
        ):
            text.write(f"{row},{value!r},{bound!r}\n")
        text.flush()
        text.detach()

    write_atomically(path, write)
