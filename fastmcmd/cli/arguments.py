"""Options that several commands share: columns, kernels, and the computation of the CCE."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import CertificateName, HostArray
from fastmcmd._base.progress import Progress
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.columns import Columns
from fastmcmd.cli.formats import open_columns
from fastmcmd.cli.prediction import IGNORED, class_names, columns_in, guess, numbers_of_classes
from fastmcmd.kernels import RBF, Cosine, Delta, Kernel, Laplacian, Linear, Matern, Polynomial
from fastmcmd.kernels.gamma import Gamma
from fastmcmd.options import DEFAULTS, USUAL_TOL

__all__ = [
    "CONDITIONS",
    "FILES",
    "add_columns",
    "add_computation",
    "add_ignore_index",
    "add_kernels",
    "add_memory_limit",
    "add_nan_policy",
    "add_prediction",
    "add_progress",
    "add_report",
    "add_seed",
    "all_rows",
    "columns_of",
    "computation",
    "ignore_index_of",
    "inputs_named",
    "kernels_of",
    "options_of",
    "progress_of",
    "shows_progress",
    "specs_of",
]

FILES = ".npz, .npy, .csv, .tsv, .parquet or .zarr; - is CSV on standard input"
_KERNELS: dict[str, Callable[[argparse.Namespace, Gamma], Kernel]] = {
    "rbf": lambda _, gamma: RBF(gamma),
    "laplacian": lambda _, gamma: Laplacian(gamma),
    "polynomial": lambda arguments, gamma: Polynomial(arguments.degree, gamma),
    "matern": lambda arguments, _: Matern(arguments.nu, arguments.length_scale),
    "linear": lambda *_: Linear(),
    "cosine": lambda *_: Cosine(),
    "delta": lambda *_: Delta(),
}
_NAMES = ("auto", "paper")  # of choices: from the scales of the data, and the published ones
_TABLES = {"--condition-on": "condition_on", "--regions": "regions"}  # options of words or numbers
CONDITIONS = ("x", "forecast")  # of the exact test; anything else names columns
_BACKENDS = ("auto", "cpu", "cupy", "numba", "numpy")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the file and the names of its columns."""
    parser.add_argument("file", metavar="FILE", help=FILES)
    parser.add_argument("--y", metavar="COLUMN", default="y", help="outcomes (default: y)")
    parser.add_argument(
        "--x",
        metavar="COLUMNS",
        help="inputs, for the CCE: comma-separated names or patterns, such as 'age,income' or 'x*' "
        "(default: x, or x0, x1, ..., if such columns exist)",
    )
    parser.add_argument("--weights", metavar="COLUMN", help="weights of rows")


def add_prediction(parser: argparse.ArgumentParser) -> None:
    """Add the prediction; columns with the usual names need no option."""
    parser.add_argument(
        "--prediction",
        metavar="SPEC",
        help="see below (default: draws:samples or gaussian:mean=mean,std=std, if such columns exist)",
    )


def specs_of(arguments: argparse.Namespace, columns: Columns) -> list[str]:
    """Return the descriptions of the prediction: from the option, or guessed from column names."""
    return [arguments.prediction or guess(columns)]


def add_nan_policy(parser: argparse.ArgumentParser) -> None:
    """Add the option for rows in which a number is missing."""
    parser.add_argument(
        "--nan-policy",
        choices=("raise", "omit", "propagate"),
        default="raise",
        help="rows with missing numbers: refuse the file, leave them out, or return NaN",
    )


def add_ignore_index(parser: argparse.ArgumentParser) -> None:
    """Add the option for labels of rows that are left out."""
    parser.add_argument(
        "--ignore-index",
        metavar="LABEL",
        help="for classes: leave out rows whose outcome is LABEL, such as -1 for rows without a label",
    )


def ignore_index_of(arguments: argparse.Namespace) -> int | None:
    """Return the number that stands for the label of ``--ignore-index`` among the outcomes."""
    return None if getattr(arguments, "ignore_index", None) is None else IGNORED


def all_rows(arguments: argparse.Namespace) -> bool:
    """Return whether no row is left out."""
    return arguments.nan_policy == "raise" and ignore_index_of(arguments) is None


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add the seed of all random numbers."""
    parser.add_argument("--seed", type=_seed, default=0, help="seed of all random numbers")


def _seed(text: str) -> int:
    if not re.fullmatch(r"\s*\+?[0-9]+\s*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed; a whole number >= 0 is needed")
    return int(text)


def add_kernels(
    parser: argparse.ArgumentParser,
    default: str = "auto, chosen from the scales of x and y",
    lam: str = "0.01; 0.1 with --x-kernel paper",
) -> None:
    """Add the options of kernels and regulariser, with their defaults in words."""
    for side in ("x", "y"):
        parser.add_argument(
            f"--{side}-kernel", choices=(*_NAMES, *_KERNELS), help=f"default: {default}"
        )
        parser.add_argument(
            f"--{side}-gamma",
            metavar="G",
            help="a number, 'variance', 'median' or '1/d', for the named kernel, or the published one",
        )
    parser.add_argument("--degree", type=int, default=3, help="degree of polynomial kernels")
    parser.add_argument(
        "--nu", type=float, default=1.5, help="order of Matern kernels: 0.5, 1.5 or 2.5"
    )
    parser.add_argument(
        "--length-scale", type=float, default=1.0, help="length scale of Matern kernels"
    )
    parser.add_argument("--lam", type=_regulariser, help=f"regulariser (default: {lam})")


def _regulariser(text: str) -> float | str:
    """Return the regulariser: a number, or the name of a choice."""
    return text if text in _NAMES else float(text)


def add_computation(
    parser: argparse.ArgumentParser,
    tol: float | None = None,
    tol_help: str = "1e-06, or a hundredth of the noise of more than 10,000 rows",
) -> None:
    """Add the options of the CCE, with ``tol`` as the default tolerance and its meaning in words."""
    parser.add_argument(
        "--tol",
        type=float,
        default=tol,
        help=f"largest allowed error of a value of the CCE (default: {tol_help})",
    )
    parser.add_argument("--solver", choices=("auto", "cholesky", "cg", "lowrank"), default="auto")
    parser.add_argument("--backend", choices=_BACKENDS, default="auto")
    parser.add_argument("--dtype", choices=("float32", "float64"))
    parser.add_argument("--certificate", choices=get_args(CertificateName), default="auto")
    add_memory_limit(parser)
    parser.add_argument(
        "--devices", metavar="N,N", type=_devices, help="devices of --backend cupy (default: 0)"
    )
    parser.add_argument(
        "--device-memory-limit",
        metavar="SIZE",
        help="such as 8GB, for each device of --backend cupy",
    )


def add_memory_limit(parser: argparse.ArgumentParser) -> None:
    """Add the largest number of bytes that may be allocated."""
    parser.add_argument(
        "--memory-limit", metavar="SIZE", help="such as 2GB, in addition to the data"
    )


def _devices(text: str) -> list[int]:
    try:
        return [int(device) for device in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}; device numbers such as 0,1 are needed"
        ) from None


def add_report(parser: argparse.ArgumentParser) -> None:
    """Add the options of the report."""
    parser.add_argument("--report", metavar="FILE", help="write an .html page with all plots")
    parser.add_argument(
        "--projection",
        choices=("pca", "tsne", "umap"),
        default="pca",
        help="projection of inputs onto a plane for --report",
    )


def add_results(parser: argparse.ArgumentParser, values: str = "values by row") -> None:
    """Add the options of files and formats of results."""
    parser.add_argument("--output", metavar="FILE", help=f"write {values}: .csv or .npz")
    add_format(parser)


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add the option of the printed form."""
    parser.add_argument("--format", choices=("table", "json"), default="table")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add the option for progress."""
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show progress (default: on a terminal)",
    )


def shows_progress(arguments: argparse.Namespace) -> bool:
    """Return whether progress is shown."""
    return sys.stderr.isatty() if arguments.progress is None else bool(arguments.progress)


def progress_of(arguments: argparse.Namespace) -> Progress:
    """Return the progress line of a whole command."""
    tol = USUAL_TOL if arguments.tol is None else arguments.tol
    return Progress(shows_progress(arguments), tol, leave=False)


_INPUTS = {"--x": "x", "--weights": "sample_weight", "--y": "y"}


def columns_of(
    arguments: argparse.Namespace, specs: Callable[[Columns], Sequence[str]], progress: Progress
) -> tuple[Columns, dict[str, Any]]:
    """Return the columns of the file, and the outcomes, inputs, weights and groups among them.

    All columns of the command, including those of its predictions, are read together.
    """
    progress.stage(f"reading {Path(arguments.file).name}")
    columns = open_columns(arguments.file)
    if arguments.y is not None:
        columns.find(arguments.y, "--y")  # an error here comes before that of a prediction to guess
    predictions = specs(columns)
    names_of_classes = next(filter(None, map(class_names, predictions)), None)
    column_names = {} if names_of_classes else {"--y": arguments.y}
    column_names |= {"--x": inputs_named(arguments, columns), "--weights": arguments.weights}
    numbers = [
        name
        for option, names in column_names.items()
        if names is not None
        for name in columns.find(names, option)
    ]
    words: dict[str, str] = {}
    for name in ("by", "groups", *(["y"] if names_of_classes else [])):
        argument = getattr(arguments, name, None)
        matching = [] if argument is None else columns.find(argument, f"--{name}")
        if len(matching) > 1:
            raise UsageError(f"--{name}: {argument!r} names {len(matching)} columns; one is needed")
        if matching:
            words[name] = matching[0]
    tables = {option: columns.find(text, option) for option, text in _tables(arguments).items()}
    outcomes = [] if arguments.y is None else columns.find(arguments.y, "--y")
    for option, names in tables.items():
        if both := set(outcomes).intersection(names):
            raise UsageError(f"{option} names {min(both)!r}, which is the outcome (--y)")
    for spec in predictions:
        numbers += columns_in(spec, columns)
    in_tables = [name for names in tables.values() for name in names]
    columns.prepare(numbers, [*words.values(), *in_tables], progress)
    inputs: dict[str, Any] = {
        _INPUTS[option]: None if names is None else columns.select(names, option)
        for option, names in column_names.items()
    }
    labels = {name: columns.labels(word) for name, word in words.items()}
    if names_of_classes:
        ignored = getattr(arguments, "ignore_index", None)
        labels["y"] = numbers_of_classes(labels["y"], names_of_classes, columns, ignored)
    elif getattr(arguments, "ignore_index", None) is not None:
        raise UsageError("--ignore-index needs a prediction of classes: classes:NAME=COLUMN,...")
    inputs.update(labels)
    for option, names in tables.items():
        labels = {name: columns.labels(name) for name in names}
        _check_words(labels, option)
        inputs[_TABLES[option]] = labels
        numbers += [name for name, values in labels.items() if values.dtype.kind == "f"]
    _leave_out(arguments, columns, numbers, inputs)
    return columns, inputs


def _check_words(table: dict[str, HostArray], option: str) -> None:
    """Raise an error if a column has more different words than are taken."""
    from fastmcmd.inference.columns import MOST_LABELS

    for name, values in table.items():
        count = len(np.unique(values.astype(str))) if values.dtype.kind in "OUS" else 0
        if count > MOST_LABELS:
            raise UsageError(
                f"{option}: column {name!r} has {count} different words; at most {MOST_LABELS} are taken"
            )


def _tables(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options for columns of numbers or words, with their texts."""
    texts = {option: getattr(arguments, name, None) for option, name in _TABLES.items()}
    return {
        option: text
        for option, text in texts.items()
        if text is not None and text not in CONDITIONS
    }


def _leave_out(
    arguments: argparse.Namespace, columns: Columns, names: list[str], values: dict[str, Any]
) -> None:
    """Apply ``--nan-policy`` to rows in which a number is missing, and ``--ignore-index``.

    Missing numbers are not valid parameters of predictions. Such a row therefore gets a missing outcome,
    which the evaluation handles, and the other numbers of a complete row. So do rows with an ignored label,
    whose outcome is `IGNORED`.
    """
    names = list(dict.fromkeys(names))
    rows = columns.missing(names)
    if rows is None or len(rows) != len(values["y"]):
        return
    ignored = np.zeros(len(rows), dtype=bool)
    if ignore_index_of(arguments) is not None:
        ignored = np.asarray(values["y"]) == IGNORED
        rows = rows & ~ignored
    if ignored.all():
        raise UsageError(
            f"--ignore-index leaves out all rows: every outcome of {columns.title} is "
            f"{arguments.ignore_index!r}"
        )
    left_out = rows | ignored
    if not left_out.any():
        return
    if rows.any():
        _check_missing(arguments, columns, names, rows, left_out)
    columns.stand_in(left_out)
    y = np.array(values["y"], dtype=np.float64)
    y[rows] = np.nan
    values["y"] = y
    for option in ("x", "sample_weight"):
        column_names = inputs_named(arguments, columns) if option == "x" else arguments.weights
        if column_names is not None:
            values[option] = columns.select(column_names, option)


def _check_missing(
    arguments: argparse.Namespace,
    columns: Columns,
    names: list[str],
    rows: HostArray,
    left_out: HostArray,
) -> None:
    """Raise an error that names the first row with a missing number, unless such rows are left out."""
    count, first = int(rows.sum()), int(np.argmax(rows))
    name = next(n for n in names if _is_missing(columns.values([n])[0][first]))
    place = f"{columns.title}, {columns.place(first)}, column {name!r}"
    where = f"{name} holds NaN: {place}: the value is missing"
    if arguments.nan_policy == "raise":
        count_note = f" ({count:,} such rows)" if count > 1 else ""
        raise UsageError(f"{where}{count_note}; remove them, or pass --nan-policy omit")
    if left_out.all():
        raise UsageError(f"{where}, and no other row is complete")


def _is_missing(value: ArrayLike) -> bool:
    numbers = np.asarray(value)
    return bool(numbers.dtype.kind == "f" and np.isnan(numbers).any())


def inputs_named(arguments: argparse.Namespace, columns: Columns) -> str | None:
    """Return the names of the inputs with commas between, or None if there are none."""
    if arguments.x is not None:
        return str(arguments.x)
    if "x" in columns.places:
        return "x"
    numbered = [name for name in columns.names if name[:1] == "x" and name[1:].isdecimal()]
    return ",".join(numbered) or None


def computation(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return kernels and options as arguments of `fastmcmd.evaluate`."""
    return {**kernels_of(arguments), **options_of(arguments)}


def kernels_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return kernels and regulariser by the names that all functions of the package take."""
    return {
        "x_kernel": kernel(arguments, "x"),
        "y_kernel": kernel(arguments, "y"),
        "lam": arguments.lam,
    }


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the computational options by the names of `Computation`; the command shows progress."""
    return {
        name: value
        for name, value in vars(arguments).items()
        if name in DEFAULTS and name != "progress"
    }


def kernel(arguments: argparse.Namespace, side: str) -> Kernel | str | None:
    """Return the kernel on inputs ("x") or outputs ("y"), or the name of a choice."""
    name = getattr(arguments, f"{side}_kernel")
    choice = getattr(arguments, f"{side}_gamma")
    if choice is not None and name in _NAMES:
        raise UsageError(f"--{side}-gamma needs a kernel such as --{side}-kernel rbf, not {name}")
    if name is None:
        if choice is None:
            return None
        name = "polynomial" if side == "x" else "rbf"
    default = "variance" if side == "y" and name == "rbf" else None
    gamma: Gamma = default
    if choice == "1/d":
        gamma = None
    elif choice in ("variance", "median"):
        gamma = choice
    elif choice is not None:
        try:
            gamma = float(choice)
        except ValueError:
            raise UsageError(
                f"--{side}-gamma is {choice!r}; a number, 'variance', 'median' or '1/d' is needed"
            ) from None
    return str(name) if name in _NAMES else _KERNELS[name](arguments, gamma)
