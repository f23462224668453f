"""The page docs/history.md with its picture, from results that asv has stored.

Run the benchmarks at some commits first, then this::

    asv --config benchmarks/history.conf.json run COMMIT^!
    python benchmarks/history_page.py --machine "two cores of ..."
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from asv.results import iter_results

FOLDER = Path(__file__).parent
RESULTS, DOCS = FOLDER.parent / ".asv" / "history", FOLDER.parent / "docs"
CASES = {
    "time_embeddings_12000": "CCE, 12,000 rows of 512 columns",
    "time_embeddings_12000_200MB": "CCE, 12,000 rows of 512 columns, in 200 MB",
    "time_embeddings_3000": "CCE, 3,000 rows of 512 columns",
    "time_small_lam_12000": "CCE, 12,000 rows of 4 columns, lam = 0.001",
    "time_gaussian_100000": "CCE of Gaussians, 100,000 rows of 2 columns",
    "time_evaluate_100000": "evaluate of 100,000 Gaussians without inputs",
}


@dataclass(frozen=True)
class Point:
    """The seconds of each case at one commit; NaN where it does not know the call."""

    commit: str
    date: datetime
    seconds: dict[str, float]


def points() -> list[Point]:
    """Return the results of all commits, by date."""
    out = []
    for result in iter_results(str(RESULTS)):
        values = {key.rpartition(".")[2]: key for key in result.get_all_result_keys()}
        seconds = {}
        for case in CASES:
            value = result.get_result_value(values[case], []) if case in values else None
            seconds[case] = float(value[0]) if value and value[0] is not None else math.nan
        date = datetime.fromtimestamp(result.date / 1000, UTC)
        out.append(Point(result.commit_hash[:8], date, seconds))
    return sorted(out, key=lambda point: point.date)


def time_text(seconds: float) -> str:
    """Return a time with its unit."""
    if math.isnan(seconds):
        return ""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def page(history: list[Point], machine: str) -> str:
    """Return the page as Markdown."""
    head = "| | " + " | ".join(f"{point.date:%d %b %H:%M}" for point in history) + " |"
    lines = [
        "# History of speed",
        "",
        f"Median times of whole calls at {len(history)} commits of this repository, on {machine}.",
        "asv built each commit and ran the calls of `benchmarks/history/` in an environment of its own;",
        "`benchmarks/history_page.py` made this page. A field is empty where a commit lacks the call.",
        "",
        "![Times of six calls against the date of the commit](history.png)",
        "",
        head,
        "|---" * (len(history) + 1) + "|",
        "| commit | " + " | ".join(f"`{point.commit}`" for point in history) + " |",
    ]
    for case, title in CASES.items():
        cells = " | ".join(time_text(point.seconds[case]) for point in history)
        lines.append(f"| {title} | {cells} |")
    return "\n".join(lines) + "\n"


def draw(history: list[Point], path: Path) -> None:
    """Write the picture: one line for each case, its name at the right end."""
    import matplotlib.dates
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.8), layout="constrained")
    dates = [point.date for point in history]
    ends = []
    for case, title in CASES.items():
        seconds = [point.seconds[case] for point in history]
        (line,) = axes.plot(dates, seconds, marker="o", markersize=4)
        ends.append((seconds[-1], title, line.get_color()))
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    apart, below = 0.055 * (high - low), -math.inf
    for seconds, title, colour in sorted(ends):
        below = max(math.log10(seconds), below + apart)  # names do not overlap
        axes.annotate(
            title, (1.01, 10**below), xycoords=("axes fraction", "data"), color=colour, va="center",
            fontsize=8.5, annotation_clip=False,
        )  # fmt: skip
    axes.xaxis.set_major_formatter(matplotlib.dates.DateFormatter("%d %b"))
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Write the page and its picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", required=True, help="what the results were measured on")
    history = points()
    if not history:
        parser.error(f"no results in {RESULTS}: run asv first, see the head of this file")
    (DOCS / "history.md").write_text(page(history, parser.parse_args().machine), encoding="utf-8")
    draw(history, DOCS / "history.png")


if __name__ == "__main__":
    main()
