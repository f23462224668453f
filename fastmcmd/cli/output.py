"""How commands print, and where they may write."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastmcmd._base.tables import printable
from fastmcmd.cli.app import UsageError
from fastmcmd.io import destination, same_file

__all__ = ["BEST_SIGN", "Sheet", "check_target", "show"]

BEST_SIGN = "* "  # before the best of a line, for those who do not see its colour


@dataclass(frozen=True)
class Sheet:
    """The messages of a command to its user.

    Attributes
    ----------
    title : str
    rows : sequence of sequence of str
        Cells, the head first; a row of which only the first cell holds text heads a section. Cells that
        begin with ``BEST_SIGN`` are the best of their line.
    notes : sequence of str
        Lines below.
    words : bool
        Whether the last column holds words; else, as between the first and the last, numbers.
    """

    title: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: bool = True


def show(sheet: Sheet, plain: str) -> None:
    """Print a table with styles on a terminal, where rich is installed; else plain text.

    Parameters
    ----------
    sheet : Sheet
        What a person at a terminal sees.
    plain : str
        What files, pipes and terminals without rich get.
    """
    if sys.stdout.isatty() and importlib.util.find_spec("rich") is not None:
        _print(sheet)
    else:
        print(printable(plain, lines=True))


def _print(sheet: Sheet) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # The console handles NO_COLOR, TERM and characters that the terminal cannot show.
    options: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console = Console(**options)
    head, *rows = sheet.rows
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(head))
    for place, name in enumerate(head):
        to_left = place == 0 or (sheet.words and place == len(head) - 1)
        table.add_column(
            Text(printable(name)),
            justify="left" if to_left else "right",
            style="dim" if place and to_left and len(head) > 2 else "",
            no_wrap=True,
        )
    for row in rows:
        if row[0] and not any(row[1:]):
            table.add_section()
            table.add_row(Text(printable(row[0]), "bold cyan"))
        else:
            table.add_row(
                *(
                    Text(cell, "bold green" if cell.startswith(BEST_SIGN) else "")
                    for cell in map(printable, map(str, row))
                )
            )
    needed = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    if needed > console.width:  # a number is never cut: the terminal wraps the line
        console = Console(**options, width=needed)
    if sheet.title:
        console.print(Text(printable(sheet.title), "bold"), soft_wrap=True)
    console.print(table)
    for note in sheet.notes:
        console.print(Text(printable(note)), soft_wrap=True)


def check_target(
    path: Path, endings: tuple[str, ...], option: str = "--output", inputs: Sequence[str] = ()
) -> None:
    """Refuse a file that cannot be written, or is an input, before anything is computed."""
    message = f"{option} is {str(path)!r}"
    if path.suffix not in endings:
        raise UsageError(f"{message}; a name that ends in {' or '.join(endings)} is needed")
    if path.suffix != ".zarr":
        try:
            destination(path, option)
        except (OSError, ValueError) as error:
            raise UsageError(getattr(error, "strerror", None) or str(error)) from None
    elif os.path.lexists(path):
        raise UsageError(f"{message}, which exists; remove it first")
    for file in inputs:
        if same_file(path, file):
            raise UsageError(f"{message}, which is the input {file!r} itself; name another file")
