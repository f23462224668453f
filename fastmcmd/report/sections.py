"""The parts of the page, in order: each takes the material and returns a `Section`, or None."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import scipy

from fastmcmd._base.annotations import FilePath
from fastmcmd._version import __version__
from fastmcmd.evaluation.comparison import Comparison
from fastmcmd.plots.projection import Projection
from fastmcmd.report.explorer import explorer
from fastmcmd.report.material import Material
from fastmcmd.report.numbers import all_numbers, groups, headline, reading
from fastmcmd.report.page import Cell, Section, page, paragraph, table
from fastmcmd.report.pictures import over_plane, picture_section
from fastmcmd.report.points import points

if TYPE_CHECKING:
    from pathlib import Path

    from fastmcmd.evaluation.result import Evaluation

__all__ = ["SECTIONS", "write_report"]


def _settings(material: Material) -> Section:
    body = ""
    for name, evaluation in material.evaluations.items():
        rows: list[Sequence[Cell]] = [
            [Cell("predictions"), Cell(repr(evaluation.prediction), kind="text")]
        ]
        for key, value in evaluation.settings.items():
            rows.append([Cell(key), Cell(str(value), kind="text")])
        if evaluation.congruence is not None and evaluation.cce is not None:
            info = evaluation.cce.info
            congruence = evaluation.congruence
            rows.append([Cell("kernel on x"), Cell(repr(congruence.x_kernel_), kind="text")])
            rows.append([Cell("kernel on y"), Cell(repr(congruence.y_kernel_), kind="text")])
            rows.append([Cell("lam"), Cell(f"{congruence.lam_:g}", kind="text")])
            rows.append([Cell("certificate of CCE"), Cell(evaluation.cce_accuracy, kind="text")])
            how = f"{info.solver}, {info.backend}, {info.dtype}, {info.seconds:.3g} s"
            rows.append([Cell("how CCE was computed"), Cell(how, kind="text")])
        for metric in evaluation.not_applicable:
            reason = evaluation.skipped[metric]
            rows.append([Cell(f"{metric}: not computed"), Cell(reason, kind="text")])
        rows.append([Cell("seconds"), Cell(f"{evaluation.seconds:.3g}", kind="text")])
        body += table([name, ""], rows)
    versions = {
        "fastmcmd": __version__, "Python": platform.python_version(), "NumPy": np.__version__,
        "SciPy": scipy.__version__,
    }  # fmt: skip
    body += paragraph(", ".join(f"{name} {version}" for name, version in versions.items()), "how")
    return Section("settings", "Settings and versions", body)


SECTIONS: tuple[Callable[[Material], Section | None], ...] = (
    headline,
    explorer,
    picture_section,
    over_plane,
    points,
    groups,
    all_numbers,
    reading,
    _settings,
)


def write_report(
    evaluations: Mapping[str, Evaluation] | Comparison,
    path: FilePath,
    title: str | None = None,
    projection: Projection = "pca",
) -> Path:
    """Write the page atomically and return its path; see `Evaluation.report`."""
    from fastmcmd.io import as_path, destination, write_atomically

    target = as_path(path, "path")
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path is {str(path)!r}; a name that ends in .html is needed")
    destination(target, "path")  # before pictures are drawn
    comparison = evaluations if isinstance(evaluations, Comparison) else Comparison(evaluations)
    rows = next(iter(comparison.evaluations.values())).n
    models = ", ".join(comparison)
    lead = f"{models}: predicted distributions evaluated on {rows:,} outcomes"
    material = Material(comparison, projection)
    parts = [part for make in SECTIONS for part in [make(material)] if part is not None]
    text = page(title or "Evaluation of predictions", lead, parts, f"fastmcmd {__version__}")

    def write(stream: BinaryIO) -> None:
        stream.write(text.encode())

    write_atomically(target, write)
    return target
