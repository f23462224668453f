"""Evaluations, comparisons and plans as sheets for a person at a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastmcmd.cli.output import BEST_SIGN, Sheet

if TYPE_CHECKING:
    from fastmcmd.evaluation import Comparison, Evaluation
    from fastmcmd.planning import Plan

__all__ = ["of_comparison", "of_evaluation", "of_plan", "of_records"]


def of_evaluation(found: Evaluation) -> Sheet:
    """Return all numbers, section by section, with intervals and groups beside them."""
    from fastmcmd.evaluation.result import BEST, NULL_HEAD, text

    compared = any(one.null is not None for one in found.measured)
    bounded = any(one.low is not None for one in found.measured)
    share = f"{100 * found.settings['confidence']:g} % interval"
    groups = [
        (f"{label} ({rows:,})", {one.name: one.value for one in numbers})
        for label, (rows, numbers) in (found.by or {}).items()
    ]
    head = ["", "value", *([NULL_HEAD] if compared else []), *([share] if bounded else [])]
    head += [*(name for name, _ in groups), ""]
    lines = []
    for one in found.measured:
        interval = "" if one.low is None else f"{one.low:.4g} to {one.high:.4g}"
        null = "" if one.null is None else f"{one.null:.4g}"
        cells = [text(one.value), *([null] if compared else []), *([interval] if bounded else [])]
        cells += [text(known[one.name]) if one.name in known else "" for _, known in groups]
        lines.append((one.section, [f"  {one.label}", *cells, BEST[one.best]]))
    notes = []
    if found.cce is not None:
        bound, kind = found.cce.error_bound, found.cce.info.certificate
        notes.append(f"CCE: every value right to {bound:.1e} ({kind})")
    notes += [f"note: {note}" for note in found.notes]
    if found.skipped:
        notes.append(f"not applicable: {', '.join(found.skipped)}")
    title = f"Evaluation of {found.prediction} at {found.n:,} rows ({found.seconds:.3g} s)"
    return Sheet(title, [head, *_sections(lines)], notes)


def of_comparison(found: Comparison) -> Sheet:
    """Return a model a column; what is significantly best of a line has a sign."""
    from fastmcmd.evaluation.result import BEST, text

    lines = []
    for one, values in found.lines():
        best = found.starred(one.name)
        cells = [
            "" if value is None else f"{BEST_SIGN if i in best else ''}{text(value)}"
            for i, value in enumerate(values)
        ]
        lines.append((one.section, [f"  {one.label}", *cells, BEST[one.best]]))
    names = list(found.evaluations)
    title = f"Comparison of {len(names)} models"
    notes = [found.legend] if len(names) > 1 else []
    return Sheet(title, [["", *names, ""], *_sections(lines)], notes)


def of_plan(found: Plan) -> Sheet:
    """Return what would be done, a line each, and why."""
    from fastmcmd.memory import format_bytes
    from fastmcmd.progress import duration

    rows = [
        ["", ""],
        ["rows, columns", f"{found.n:,}, {found.d:,}"],
        ["backend", found.backend],
        ["solver", found.solver],
        *([["landmarks", f"{found.landmarks:,}"]] if found.landmarks else []),
        ["kernel matrix", found.cache],
        ["passes", f"{found.passes:,}"],
        ["time", f"about {duration(found.seconds)}"],
        ["memory", format_bytes(found.memory_bytes)],
    ]
    return Sheet("Plan", rows, found.reasons)


def of_records(title: str, names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> Sheet:
    """Return records with the same names, a line each, the first name as the head of lines."""
    rows = [[str(record.get(name, "")) for name in names] for record in records]
    return Sheet(title, [["", *names[1:]], *rows], words=False)


def _sections(lines: Sequence[tuple[str, list[str]]]) -> list[list[str]]:
    """Return the rows of lines, with a row that heads each section."""
    found: list[list[str]] = []
    before = ""
    for section, cells in lines:
        if section != before:
            found.append([section, *[""] * (len(cells) - 1)])
            before = section
        found.append(cells)
    return found
