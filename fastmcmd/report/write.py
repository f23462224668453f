"""Write the page of one or several evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, BinaryIO

from fastmcmd._base.annotations import FilePath
from fastmcmd._version import __version__
from fastmcmd.plots.projection import Projection
from fastmcmd.report.material import Material
from fastmcmd.report.page import page
from fastmcmd.report.sections import SECTIONS

if TYPE_CHECKING:
    from fastmcmd.evaluation.result import Evaluation

__all__ = ["write_report"]


def write_report(
    evaluations: Mapping[str, Evaluation],
    path: FilePath,
    title: str | None = None,
    projection: Projection = "pca",
) -> None:
    """Write the page atomically; see `Evaluation.report`."""
    from fastmcmd.io import as_path, destination, write_atomically

    target = as_path(path, "path")
    if target.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"path is {str(path)!r}; a name that ends in .html is needed")
    destination(target, "path")  # before pictures are drawn
    rows = next(iter(evaluations.values())).n
    models = ", ".join(evaluations)
    lead = f"{models}: predicted distributions judged at {rows:,} outcomes"
    material = Material(evaluations, projection)
    parts = [part for make in SECTIONS for part in [make(material)] if part is not None]
    text = page(title or "Evaluation of predictions", lead, parts, f"fastmcmd {__version__}")

    def write(stream: BinaryIO) -> None:
        stream.write(text.encode())

    write_atomically(target, write)
