"""Time and memory against the number of points: docs/performance_scaling.png.

``python benchmarks/large_picture.py [--json FILE] [--draw] [--most N] [--seconds S] [--data DIR]``

Each measurement goes into a JSON file at once: an interrupted run resumes, and ``--draw`` draws the
finished points. Every point is one call with defaults (``tol=1e-6``, polynomial 1e-4)
within ``memory_limit``, in a process of its own, measured as in ``large.py``. A series ends
where the next point would take longer than ``--seconds``, extrapolated from the last two.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import large

FOLDER = Path(__file__).parent
_SIZES = (1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7)
_LIMIT = "6GB"

# Name -> problem, largest n, options.
SERIES: dict[str, tuple[Any, float, dict[str, Any]]] = {
    "d = 1, RBF": (large.line, 1e7, {}),
    "d = 2, RBF": (large.square, 1e7, {}),
    "d = 8, RBF": (large.gaussian(8), 1e7, {}),
    "d = 512, polynomial": (large.clip_on_disk, 1e6, {"tol": 1e-4}),
}
MARKERS = {"cholesky": "^", "cg": "s", "lowrank": "o"}


def measure(name: str, n: int, data: Path) -> dict[str, Any]:
    """Return one point; call it in a process of its own."""
    make, _, options = SERIES[name]
    problem = make(n, data)
    problem.first(600).run(**options)
    _, row = large.timed(problem, memory_limit=_LIMIT, **options)
    return {"series": name, **row}


def in_child(name: str, n: int, data: Path) -> dict[str, Any] | None:
    """Measure in a process of its own; if that fails, print why and return None."""
    command = [sys.executable, __file__, "--child", name, "--n", str(n), "--data", str(data)]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        print(f"{name}, n = {n:,}: {process.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return json.loads(process.stdout.strip().splitlines()[-1])


def next_seconds(rows: list[dict[str, Any]], n: int) -> float:
    """Return the seconds expected at n from the growth of the last two points, at least linear."""
    if not rows:
        return 0.0
    last = rows[-1]
    power = 1.0
    if len(rows) > 1 and rows[-2]["solver"] == last["solver"]:
        before = rows[-2]
        grown, wider = last["seconds"] / before["seconds"], last["n"] / before["n"]
        power = max(power, float(large.np.log(grown) / large.np.log(wider)))
    return last["seconds"] * (n / last["n"]) ** power


def gather(rows: list[dict[str, Any]], options: argparse.Namespace, data: Path) -> bool:
    """Measure the missing points, and save after each; return False if one failed."""
    good = True
    for name, (_, most, _) in SERIES.items():
        for size in _SIZES:
            n = int(size)
            mine = sorted((row for row in rows if row["series"] == name), key=lambda row: row["n"])
            if any(row["n"] == n for row in mine) or n > min(most, options.most):
                continue
            if next_seconds([row for row in mine if row["n"] < n], n) > options.seconds:
                break
            row = in_child(name, n, data)
            if row is None:
                good = False
                break
            rows.append(row)
            print(f"{name}, n = {n:,}: {row['seconds']:.3g} s, {row['solver']}", flush=True)
            large.write_json(options.json, rows)
    return good


def draw(rows: list[dict[str, Any]], target: Path) -> None:
    """Draw seconds and memory against n, the solver as marker."""
    from matplotlib.lines import Line2D

    from fastmcmd.plots.style import COLOURS, matplotlib, tidy

    plt = matplotlib()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for colour, name in zip(COLOURS, SERIES, strict=False):
        mine = sorted((row for row in rows if row["series"] == name), key=lambda row: row["n"])
        if not mine:
            continue
        sizes = [row["n"] for row in mine]
        for ax, values in (
            (left, [row["seconds"] for row in mine]),
            # A page at least: small calls fit in what the warm-up left.
            (right, [max(row["peak"] / 1e6, 0.1) for row in mine]),
        ):
            ax.plot(sizes, values, color=colour, zorder=2)
            for n, value, row in zip(sizes, values, mine, strict=True):
                marker = MARKERS[row["solver"]]
                # Hollow where the bound rests on sampled rows.
                face = colour if row["kind"] == "rigorous" else "white"
                ax.plot(
                    n, value, marker, color=colour, markerfacecolor=face, markersize=6, zorder=3
                )
    colours = [
        Line2D([], [], color=colour, label=name)
        for colour, name in zip(COLOURS, SERIES, strict=False)
    ]
    names = {row["solver"] for row in rows}
    solvers = [
        Line2D([], [], color="0.3", marker=marker, linestyle="", label=solver)
        for solver, marker in MARKERS.items()
        if solver in names
    ]
    sampled = Line2D(
        [], [], color="0.3", marker="o", linestyle="", markerfacecolor="white", label="sampled bound"
    )  # fmt: skip
    left.legend(handles=colours, frameon=False, loc="lower right")
    right.legend(handles=[*solvers, sampled], frameon=False, loc="lower right", title="solver")
    left.set(title="Time of one call", ylabel="seconds")
    right.set(title="Peak memory beyond inputs", ylabel="MB")
    largest = max(row["n"] for row in rows)
    for ax in (left, right):
        ax.set(xscale="log", yscale="log", xlabel="points n", xlim=(700, 1.5 * max(largest, 1e5)))
        ax.grid(color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        tidy(ax)
    part = target.with_name(target.name + ".part")
    figure.savefig(part, format="png", dpi=130)
    plt.close(figure)
    part.replace(target)


def main() -> int:
    """Measure what is missing, then draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=FOLDER / "large_picture.json")
    parser.add_argument(
        "--out", type=Path, default=FOLDER.parent / "docs" / "performance_scaling.png"
    )
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--most", type=float, default=1e7, help="largest n")
    parser.add_argument("--seconds", type=float, default=150.0, help="of a call, at most about")
    parser.add_argument("--data", type=Path, help="folder in which inputs stay between runs")
    parser.add_argument("--child", choices=list(SERIES), help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.child, options.n, options.data)))
        return 0
    rows = json.loads(options.json.read_text()) if options.json.exists() else []
    good = True
    if not options.draw:
        with tempfile.TemporaryDirectory() as folder:
            data = options.data or Path(folder)
            data.mkdir(parents=True, exist_ok=True)
            good = gather(rows, options, data)
    if not rows:
        print(f"no measurements in {options.json}: run without --draw", file=sys.stderr)
        return 1
    draw(rows, options.out)
    print(options.out)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
