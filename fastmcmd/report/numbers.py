"""The parts of the page with numbers: headline, table, groups, and explanations of each number."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastmcmd.evaluation.differences import Pairs, shown_p
from fastmcmd.evaluation.result import BEST
from fastmcmd.report.material import Material
from fastmcmd.report.page import Cell, Section, note, paragraph, table

__all__ = ["READING", "all_numbers", "groups", "headline", "reading"]

READING = {
    "mae": "Typical size of an error of the predicted mean, in units of y.",
    "rmse": "As the mean absolute error, with large errors counting more; in units of y.",
    "median_absolute_error": "Half of the errors are smaller. A few large errors do not change it.",
    "marpd": "Error as a percentage of the mean size of outcome and prediction, from 0 to 200.",
    "bias": "Mean of prediction minus outcome: above 0, predictions are too high on average.",
    "r2": "Share of the variance of y that the predicted means explain: 1 is all; below 0 the mean of "
    "y would predict better.",
    "pearson": "1: outcomes rise with predicted means along a line; 0: no linear relation. Blind to "
    "bias and scale.",
    "nll": "Minus the log of the density or probability predicted for the outcome. Compares models of "
    "the same outcomes; for continuous ones it depends on the unit of y. A single surprise can "
    "dominate it, and an outcome predicted to be impossible makes it infinite.",
    "accuracy": "Share of rows in which the outcome is the most likely class.",
    "auroc": "Chance that a row of a class gets a higher probability of that class than a row of "
    "another; 0.5 is guessing. Averaged over classes.",
    "mean_brier_score": "Squared distance between probabilities and outcome: from 0 to 1 for two classes, "
    "from 0 to 2 for more. Less sensitive to single surprises than the likelihood.",
    "ece": "Mean gap between the probability of the most likely class and how often it is right, in "
    "15 bins of probability. Compare it with that of a right model.",
    "classwise_ece": "The same gap for the probability of each class, averaged over classes.",
    "confidence": "Mean probability of the most likely class: compare it with the accuracy.",
    "entropy": "How uncertain predictions are: 0 if one class is certain.",
    "mean_crps": "Distance between predicted distribution and outcome, in units of y; the mean absolute "
    "error of a prediction without spread. Less sensitive to single surprises than the likelihood.",
    "mean_check_score": "Pinball loss of predicted quantiles, averaged over levels: about half "
    "of the CRPS.",
    "mean_interval_score": "Width of the central interval, plus a penalty for outcomes outside it; in "
    "units of y.",
    "mean_weighted_interval_score": "Interval scores of several levels and the error of the median, "
    "weighted to approximate the CRPS.",
    "mean_dawid_sebastiani": "A score of mean and variance only: the log variance plus the squared error "
    "in predicted standard deviations.",
    "mean_energy_score": "The CRPS for vector outputs.",
    "mean_variogram_score": "Whether the outputs of a row differ from each other as predicted; it detects "
    "wrong correlations.",
    "mean_gaussian_kernel_score": "Half the squared distance between prediction and outcome through a "
    "Gaussian kernel of bandwidth 1: from 0 to 1, so no outcome dominates it.",
    "mean_quadratic_score": "Squared distance of the predicted density from the outcome; in one over "
    "the unit of y, and usually below 0.",
    "mean_linearized_log_score": "The likelihood score, continued linearly below a density of 1, so that "
    "no outcome makes it infinite. Not proper.",
    "mean_error_spread_score": "Whether spread and skewness of draws match the error of their mean.",
    "mean_ensemble_log_score": "The likelihood score of draws, smoothed by Gaussian kernels.",
    "regression_ece": "Mean absolute difference between stated shares of quantiles and the shares of "
    "outcomes below them.",
    "rms_calibration_error": "Typical difference between the stated share of a central interval and the "
    "share of outcomes inside.",
    "mean_absolute_calibration_error": "The same as a mean of absolute differences.",
    "miscalibration_area": "Area between the curve of these shares and the diagonal: 0 to 0.5.",
    "coverage": "Share of outcomes inside the central interval. Above its stated level: too wide. "
    "Below: too narrow.",
    "ence": "Relative difference between predicted spread and actual error in bins of predicted "
    "variance. Compare it with the value expected of a calibrated model.",
    "null_ence": "What a calibrated model would have on average in a sample of this size.",
    "uce": "Difference between predicted variance and squared error in bins; in squared units of y.",
    "sharpness": "How wide predictions are, in units of y. Small is good only if calibration is, too.",
    "mean_interval_width": "How wide central intervals are, in units of y. Narrow is good only if "
    "coverage is right.",
    "variance_variation": "Spread of predicted standard deviations relative to their mean. If it is 0, all "
    "predictions are equally wide, and ENCE says little.",
    "mean_cce": "Distance between predicted and true distribution, averaged over inputs. It has no "
    "unit; compare only models of the same data, kernels and lam.",
    "max_cce": "The same at the input where it is largest.",
}


# A score or two, whether stated uncertainty is right, how large it is, and CCE.
_HEADLINE = (
    "rmse", "accuracy", "nll", "mean_crps", "mean_energy_score", "mean_brier_score", "coverage", "ece",
    "ence", "null_ence", "confidence", "sharpness", "mean_cce", "max_cce",
)  # fmt: skip

_HOW = (
    "Scores (lower is better) say which model is better, not whether one is good. Calibration says "
    "whether stated uncertainty is right on average over all inputs: a model that ignores its inputs "
    "can be calibrated. The conditional congruence error (CCE) says how far the predicted "
    "distribution is from the true one at each input, so it covers both.",
    "In a finite sample no number of a perfect model is exactly 0. Calibration errors are shown next to "
    "the average of a right model of the same sharpness (if right), and curves with a band.",
)


def headline(material: Material) -> Section:
    """Return the most important numbers, with a short guide to scores, calibration and CCE."""
    body = ""
    if material.several and material.comparison.sentence:
        body += note(material.comparison.sentence)
    for name, evaluation in material.evaluations.items():
        if evaluation.test is not None:
            body += note(material.of(name, evaluation.sentence))
    body += _table(material, lambda name: name in _HEADLINE, sections=False)
    if material.several:
        legend = material.comparison.legend.removeprefix("* ")
        body += paragraph(f"Bold: {legend}.", "how")
        for gap in material.comparison.gaps():
            body += paragraph(f"{gap[0].upper()}{gap[1:]}.", "how")
        body += _differences(material)
    first = next(iter(material.evaluations.values()))
    if any(one.low is not None for one in first.measured):
        share = 100 * first.settings["confidence"]
        body += paragraph(f"In brackets: bootstrap intervals of level {share:g} %.", "how")
    for name, evaluation in material.evaluations.items():
        notes = list(evaluation.notes)
        if evaluation.cce is not None:
            body += paragraph(material.of(name, f"{evaluation.cce_line}."), "how")
            notes += [note for note in evaluation.cce.info.notes if note not in notes]
            body += "".join(
                paragraph(material.of(name, one), "how") for one in evaluation.kernel_lines
            )
        if evaluation.test is not None:
            test, kind = evaluation.test, "Exact test"
            if not test.exact:
                kind = f"Approximate test of rows in {test.clusters:,} clusters"
            body += paragraph(
                material.of(name, f"{kind}: {test.simulations:,} simulations."), "how"
            )
        body += "".join(note(material.of(name, one)) for one in notes)
    return Section(
        "summary", "Summary", body + "".join(paragraph(notes, "how guide") for notes in _HOW)
    )


def all_numbers(material: Material) -> Section:
    """Return all numbers, one column per model."""
    body = _table(material, lambda _: True, sections=True)
    return Section("numbers", "All numbers", body)


def _differences(material: Material) -> str:
    """Return the differences of proper scores and of the CCE, one line per pair, with intervals."""
    pairs = material.comparison.shown_pairs
    if not len(pairs):
        return ""
    rows: list[Sequence[Cell]] = []
    for one in pairs:
        p = shown_p(one.p_adjusted)
        tie = "tie" if one.p_adjusted > material.comparison.level else ""
        cells = [
            Cell(Pairs.label(one.measure)),
            Cell(one.first, kind="word"),
            Cell(one.second, kind="word"),
        ]
        cells += [
            Cell(f"{one.difference:.4g}", one.difference),
            Cell(one.uncertainty),
            Cell(p),
            Cell(tie, kind="word"),
        ]
        rows.append(cells)
    share = 100 * (1 - material.comparison.level)
    head = ["", "first", "second", "first less second", f"{share:g} % interval", "p (Holm)", ""]
    title = paragraph("Paired differences between models, on the same rows:", "how")
    lines = filter(None, [*pairs.notes(), material.comparison.may_be_best])
    notes = [paragraph(f"{line[0].upper()}{line[1:]}.", "how") for line in lines]
    return title + table(head, rows) + "".join(notes)


def _table(material: Material, in_table: Callable[[str], bool], sections: bool) -> str:
    compared = material.comparison
    rows: list[Sequence[Cell]] = []
    section = ""
    for one, values in compared.lines():
        if not in_table(one.name):
            continue
        if sections and one.section != section:
            section = one.section
            rows.append(section)
        best = compared.starred(one.name)
        cells = [Cell(one.label)]
        for place, (value, number) in enumerate(
            zip(values, material.evaluations.values(), strict=True)
        ):
            cell = "" if value is None else f"{value:.4g}"
            bounds = next((m for m in number.measured if m.name == one.name), None)
            if bounds is not None and bounds.low is not None:
                cell += f" ({bounds.low:.3g} to {bounds.high:.3g})"
            if bounds is not None and bounds.null is not None:
                cell += f"; {bounds.null:.3g} if right"
            cells.append(Cell(cell, value, "best" if place in best else ""))
        rows.append([*cells, Cell(BEST[one.best], kind="word")])
    head = ["", *(material.evaluations if material.several else ["value"]), ""]
    return table(head, rows)


def groups(material: Material) -> Section | None:
    """Return all numbers of each group of rows, one column per group, and the worst of random groups."""
    body = ""
    for name, evaluation in material.evaluations.items():
        parts = dict(evaluation.by or {})
        if not parts:
            continue
        head = [name if material.several else ""]
        head += [f"{label} ({rows:,} rows)" for label, (rows, _) in parts.items()]
        rows: list[Sequence[Cell]] = []
        for one in evaluation.measured:
            values = [
                next((m.value for m in numbers if m.name == one.name), None)
                for _, numbers in parts.values()
            ]
            cells = [Cell("" if v is None else f"{v:.4g}", v) for v in values]
            rows.append([Cell(one.label), *cells])
        body += table(head, rows)
    body += _random_groups(material)
    return Section("groups", "Groups", body) if body else None


def _random_groups(material: Material) -> str:
    body = ""
    for name, evaluation in material.evaluations.items():
        if "groups" not in evaluation.curves:
            continue
        curve = evaluation.curves["groups"]
        columns = (curve.sizes, curve.fractions, curve.mean, curve.std)
        rows = [
            [Cell(f"{size:,}"), Cell(f"{share:.3g}"), Cell(f"{mean:.4g}"), Cell(f"{std:.2g}")]
            for size, share, mean, std in zip(*columns, strict=True)
        ]
        caption = "Calibration error of the worst random group, by group size. "
        body += paragraph(
            material.of(name, f"{caption}In small groups chance alone makes it high.")
        )
        body += table(["rows", "share of all", "error of the worst", "std over trials"], rows)
    return body


def reading(material: Material) -> Section:
    """Return an explanation of each number in the report."""
    rows: list[Sequence[Cell]] = []
    section = ""
    for one, _ in material.comparison.lines():
        if one.section != section:
            section = one.section
            rows.append(section)
        label = one.label
        rows.append([Cell(label), Cell(READING[one.name], kind="text")])
    return Section("reading", "How to read each number", table(["", ""], rows))
