"""Evaluations, comparisons and plans as sheets for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fastmcmd.cli.output import BEST_SIGN, Sheet

if TYPE_CHECKING:
    from fastmcmd.evaluation import Comparison, Evaluation
    from fastmcmd.inference.congruence_test import CongruenceTest
    from fastmcmd.planning import Plan

__all__ = ["of_comparison", "of_congruence_test", "of_evaluation", "of_plan", "of_records"]


def of_evaluation(evaluation: Evaluation) -> Sheet:
    """Return all numbers, section by section, with intervals and groups beside them."""
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
    notes = []
    if evaluation.cce is not None:
        bound, kind = evaluation.cce.error_bound, evaluation.cce.info.certificate
        notes.append(f"CCE: every value right to {bound:.1e} ({kind})")
    notes += [f"note: {note}" for note in evaluation.notes]
    if evaluation.skipped:
        notes.append(f"not applicable: {', '.join(evaluation.skipped)}")
    title = f"Evaluation of {evaluation.prediction} at {evaluation.n:,} rows ({evaluation.seconds:.3g} s)"
    if evaluation.test is not None:
        title = f"{evaluation.test.sentence}\n\n{title}"
    return Sheet(title, [head, *_sections(lines)], notes)


def of_comparison(comparison: Comparison) -> Sheet:
    """Return a model a column; what is significantly best of a line has a sign."""
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
    title = f"Comparison of {len(names)} models"
    notes = [comparison.legend] if len(names) > 1 else []
    notes += ["", *comparison.differences().splitlines()] if len(names) > 1 else []
    return Sheet(title, [["", *names, ""], *_sections(lines)], notes)


def of_congruence_test(result: CongruenceTest) -> Sheet:
    """Return the statistics of an exact test, below its conclusion."""
    sentence, *notes = repr(result).splitlines()
    rows = [["outcomes", "statistic", "score", "p (alone)"]]
    for one in result.evidence:
        rows.append([one.outcomes, one.statistic, f"{one.score:.2f}", f"{one.p_value:.3g}"])
    return Sheet(sentence, rows, [note.strip() for note in notes], words=False)


def of_plan(plan: Plan) -> Sheet:
    """Return the steps of a plan with their reasons, a line each."""
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
    """Return records with the same names, a line each, the first name as the head of lines."""
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
