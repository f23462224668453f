"""Output of commands: sheets, tables, and checks of files to write."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastmcmd._base.tables import printable
from fastmcmd.cli.app import UsageError
from fastmcmd.io import destination, same_file

if TYPE_CHECKING:
    from fastmcmd.evaluation import Comparison, Evaluation
    from fastmcmd.inference.congruence_result import CongruenceTest
    from fastmcmd.planning import Plan

__all__ = [
    "BEST_SIGN",
    "Sheet",
    "check_target",
    "of_comparison",
    "of_congruence_test",
    "of_evaluation",
    "of_plan",
    "of_records",
    "print_targets",
    "show",
    "targets_of",
]

BEST_SIGN = "* "  # marks the best value of a line without relying on colour


@dataclass(frozen=True)
class Sheet:
    """A table that a command prints.

    Attributes
    ----------
    title : str
        Title above the table.
    rows : sequence of sequence of str
        Cells, with the header first. A row with text only in its first cell is the heading of a section.
        Cells that begin with ``BEST_SIGN`` are the best of their line.
    notes : sequence of str
        Lines below the table.
    words : bool
        Whether the last column holds words. If False it holds numbers, like all columns but the first.
    """

    title: str
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: bool = True


def show(sheet: Sheet, plain: str) -> None:
    """Print a styled table on a terminal if rich is installed; else plain text.

    Parameters
    ----------
    sheet : Sheet
        Output for terminals with rich.
    plain : str
        Output for files, pipes and terminals without rich.
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
    table_width = console.measure(table, options=console.options.update(max_width=10_000)).maximum
    if table_width > console.width:  # a number is never cut: the terminal wraps the line
        console = Console(**options, width=table_width)
    if sheet.title:
        console.print(Text(printable(sheet.title), "bold"), soft_wrap=True)
    console.print(table)
    for note in sheet.notes:
        console.print(Text(printable(note)), soft_wrap=True)


def check_target(
    path: Path, endings: tuple[str, ...], option: str = "--output", inputs: Sequence[str] = ()
) -> None:
    """Raise an error, before any computation, if a file cannot be written or is an input."""
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


def targets_of(arguments: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """Return the checked files of ``--output`` and ``--report``, if they are given."""
    output, report = arguments.output, getattr(arguments, "report", None)
    output = None if output is None else Path(output)
    report = None if report is None else Path(report)
    if output is not None:
        check_target(output, (".csv", ".npz"), inputs=[arguments.file])
    if report is not None:
        check_target(report, (".html",), "--report", [arguments.file])
    return output, report


def of_evaluation(evaluation: Evaluation) -> Sheet:
    """Return all numbers by section, with columns for intervals and groups."""
    from fastmcmd.evaluation.result import BEST, NULL_HEAD, text

    compared = any(one.null is not None for one in evaluation.measured)
    bounded = any(one.low is not None for one in evaluation.measured)
    share = f"{100 * evaluation.settings['confidence']:g} % interval"
    groups = [
        (f"{label} ({rows:,})", {one.name: one.value for one in numbers})
        for label, (rows, numbers) in (evaluation.by or {}).items()
    ]
    head = ["", "value", *([NULL_HEAD] if compared else []), *([share] if bounded else [])]
    head += [*(name for name, _ in groups), ""]
    lines = []
    for one in evaluation.measured:
        interval = "" if one.low is None else f"{one.low:.4g} to {one.high:.4g}"
        null = "" if one.null is None else f"{one.null:.4g}"
        cells = [text(one.value), *([null] if compared else []), *([interval] if bounded else [])]
        cells += [text(values[one.name]) if one.name in values else "" for _, values in groups]
        lines.append((one.section, [f"  {one.label}", *cells, BEST[one.best]]))
    notes = [evaluation.cce_line] if evaluation.cce_line else []
    notes += evaluation.kernel_lines
    notes += [f"note: {note}" for note in evaluation.notes]
    if evaluation.not_applicable:
        notes.append(f"not applicable: {', '.join(evaluation.not_applicable)}")
    title = evaluation.title
    if evaluation.test is not None:
        title = f"{evaluation.sentence}\n\n{title}"
    return Sheet(title, [head, *_sections(lines)], notes)


def of_comparison(comparison: Comparison) -> Sheet:
    """Return a table with one column per model; a sign marks the significantly best value of a line."""
    from fastmcmd.evaluation.result import BEST, text

    lines = []
    for one, values in comparison.lines():
        best = comparison.starred(one.name)
        cells = [
            "" if value is None else f"{BEST_SIGN if i in best else ''}{text(value)}"
            for i, value in enumerate(values)
        ]
        lines.append((one.section, [f"  {one.label}", *cells, BEST[one.best]]))
    names = list(comparison.evaluations)
    title = "\n".join([*comparison.conclusions(), comparison.title])
    notes = []
    if len(names) > 1:
        notes = [
            comparison.legend,
            *comparison.gaps(),
            *comparison.differences().splitlines(),
        ]
    return Sheet(title, [["", *names, ""], *_sections(lines)], notes)


def print_targets(*paths: Path | None) -> None:
    """Print which files were written, if any."""
    for path in paths:
        if path is not None:
            print(f"written: {printable(str(path))}")


def of_congruence_test(result: CongruenceTest) -> Sheet:
    """Return the statistics of an exact test, with its conclusion as the title."""
    sentence, *notes = repr(result).splitlines()
    rows = [["outcomes", "statistic", "score", "p (alone)"]]
    for one in result.evidence:
        rows.append([one.outcomes, one.statistic, f"{one.score:.2f}", f"{one.p_value:.3g}"])
    return Sheet(sentence, rows, [note.strip() for note in notes], words=False)


def of_plan(plan: Plan) -> Sheet:
    """Return the steps of a plan with their reasons, one per line."""
    from fastmcmd._base.memory import format_bytes
    from fastmcmd._base.progress import duration

    rows = [
        ["", ""],
        ["rows, columns", f"{plan.n:,}, {plan.d:,}"],
        ["backend", plan.backend],
        ["solver", plan.solver],
        *([["landmarks", f"{plan.landmarks:,}"]] if plan.landmarks else []),
        ["kernel matrix", plan.cache],
        ["passes", f"{plan.passes:,}"],
        ["time", f"about {duration(plan.seconds)}"],
        ["memory", format_bytes(plan.memory_bytes)],
    ]
    return Sheet("Plan", rows, plan.reasons)


def of_records(title: str, names: Sequence[str], records: Sequence[Mapping[str, object]]) -> Sheet:
    """Return records with equal names, one per line; the first name labels the lines."""
    rows = [[str(record.get(name, "")) for name in names] for record in records]
    return Sheet(title, [["", *names[1:]], *rows], words=False)


def _sections(lines: Sequence[tuple[str, list[str]]]) -> list[list[str]]:
    """Return the rows of lines, with a row that heads each section."""
    rows: list[list[str]] = []
    before = ""
    for section, cells in lines:
        if section != before:
            rows.append([section, *[""] * (len(cells) - 1)])
            before = section
        rows.append(cells)
    return rows
