"""Large problems: seconds, peak memory, certified and true error, as Markdown and JSON.

``python benchmarks/large.py [--quick] [--only NAME ...] [--json FILE] [--data DIR] [--no-check]``

Each case runs in a process of its own. Seconds are those of one call, after a small one that loads
the libraries. Peak memory is the largest anonymous resident size during the call, sampled every 10 ms,
minus that before it (free heap is given back first): inputs on disk are mapped files and do not count.
The true error is the largest difference at 10,000 random inputs from another run: CG in float64
where n is at most 20,000, else the low-rank solver on the rows in another order, so with other
landmarks, and a tolerance 100 times smaller, or twice the landmarks (``reference`` says which, and
``reference_bound`` how exact it is itself).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fastmcmd as fm

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.bench_cce import floor_seconds
from benchmarks.problems import clip_like_blocks, smooth

_SAMPLED = 0.01  # seconds between two looks at the memory
_CHECK_POINTS = 10_000  # points at which the true error is measured
_COMPARED = 2_000  # of the comparison with scikit-learn
_REPEATS, _PATIENCE = 3, 4.0  # of it: runs, and seconds after which there are no more
_GIVEN_UP = 4.0  # times our time or landmarks, where scikit-learn is as exact as ours no more
_EXACT_ROWS = 20_000  # rows up to which the reference is CG in float64
_COPIED = 20_000  # rows of a block read to bring a file into the page cache


# Problems ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Arguments of ``fm.cce``."""

    x: Any
    y: np.ndarray
    draws: np.ndarray
    kernel: fm.Kernel

    def run(self, at: Any = None, **options: Any) -> Any:
        """Return the estimate at the inputs, or at ``at``."""
        gamma = 1 / (2 * np.var(self.y, ddof=1))
        return fm.cce(
            self.x,
            self.y,
            self.draws,
            at=at,
            x_kernel=self.kernel,
            y_kernel=fm.RBF(gamma),
            **options,
            lam=0.1,
        )

    def shuffled(self) -> Problem:
        """Return the same problem with its rows in another order: other candidates for landmarks."""
        order = np.random.default_rng(2).permutation(len(self.y))
        return Problem(self.x[order], self.y[order], self.draws[order], self.kernel)

    def first(self, n: int) -> Problem:
        """Return the problem of the first rows, in memory."""
        return Problem(np.array(self.x[:n]), self.y[:n], self.draws[:n], self.kernel)


def _answered(x: np.ndarray, kernel: fm.Kernel, rng: np.random.Generator) -> Problem:
    """Return heteroscedastic outputs of inputs (n, d), and one draw of a model for each."""
    signal = np.sin(x[:, 0]) + 0.3 * x.sum(axis=1) / np.sqrt(x.shape[1])
    y = signal + 0.3 * (1 + 0.5 * np.cos(2 * signal)) * rng.standard_normal(len(x))
    return Problem(x, y, signal + 0.35 * rng.standard_normal(len(x)), kernel)


def square(n: int, data: Path) -> Problem:
    del data
    rng = np.random.default_rng(0)
    return _answered(rng.uniform(-2, 2, (n, 2)), fm.RBF(0.5), rng)


def normal(n: int, data: Path) -> Problem:
    del data
    rng = np.random.default_rng(0)
    return _answered(rng.standard_normal((n, 2)), fm.RBF(0.25), rng)


def line(n: int, data: Path) -> Problem:
    del data
    rng = np.random.default_rng(0)
    return _answered(rng.uniform(-2, 2, (n, 1)), fm.RBF(1.0), rng)


def gaussian(d: int) -> Callable[[int, Path], Problem]:
    def problem(n: int, data: Path) -> Problem:
        del data
        return Problem(*smooth(n, d), fm.RBF(1 / (2 * d)))

    return problem


def clip_on_disk(n: int, data: Path) -> Problem:
    """Return rows mapped from a .npy file, written in blocks where it is not there yet."""
    paths = {name: data / f"clip-{n}-{name}.npy" for name in ("y", "draws", "x")}
    if not paths["x"].exists():  # renamed last: if it is there, so are the others
        part = paths["x"].with_suffix(".part")
        x = np.lib.format.open_memmap(part, mode="w+", dtype=np.float32, shape=(n, 512))
        y, draws, start = np.empty(n), np.empty(n), 0
        for block, *outputs in clip_like_blocks(n):
            rows = slice(start, start + len(block))
            x[rows], (y[rows], draws[rows]) = block, outputs
            start = rows.stop
        x.flush()
        del x
        np.save(paths["y"], y)
        np.save(paths["draws"], draws)
        os.replace(part, paths["x"])
    y, draws = (np.load(paths[name], allow_pickle=False) for name in ("y", "draws"))
    x = np.load(paths["x"], mmap_mode="r", allow_pickle=False)
    for start in range(0, n, _COPIED):  # into the page cache
        np.asarray(x[start : start + _COPIED]).max()
    return Problem(x, y, draws, fm.Polynomial(3))


# Cases ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Requirements for a full-sized case."""

    seconds: float
    bytes: float
    bound: float
    kind: str | None = None


@dataclass(frozen=True)
class Case:
    """A problem, its sizes and options, and its requirements."""

    make: Callable[[int, Path], Problem]
    n: int
    quick: int
    options: dict[str, Any] = field(default_factory=dict)
    reference: str = "tol"  # "tol": 100 times smaller; "rank": twice the landmarks
    target: Target | None = None
    rate: bool = False  # whether the fraction of the sgemm rate is reported


CASES = {
    "square 2-d": Case(
        square, 1_000_000, 50_000, {"memory_limit": "2GB"}, target=Target(15, 2e9, 1e-6, "rigorous")
    ),
    "normal 2-d": Case(
        normal, 1_000_000, 50_000, {"memory_limit": "2GB"}, target=Target(15, 2e9, 1e-6, "rigorous")
    ),
    "disk 512-d": Case(
        clip_on_disk, 1_000_000, 20_000, {"memory_limit": "4GB", "tol": 1e-4}, "rank",
        Target(90, 4e9, 1e-4),
    ),
    "line": Case(
        line, 10_000_000, 50_000, {"memory_limit": "6GB"}, target=Target(60, 6e9, 1e-6, "rigorous")
    ),
    "streamed 64-d": Case(
        gaussian(64), 100_000, 20_000, {"memory_limit": "2GB", "solver": "cg"}, "none", rate=True
    ),
    "cached 512-d": Case(
        clip_on_disk, 50_000, 20_000, {"memory_limit": "12GB", "solver": "cg"}, "none"
    ),
    "limited 512-d": Case(
        clip_on_disk, 50_000, 20_000, {"memory_limit": "1GB", "solver": "cg"}, "none"
    ),
}  # fmt: skip
# At --quick sizes the stored tiles must not fit either, as they do not at the full ones.
QUICK_LIMITS = {"streamed 64-d": "150MB", "limited 512-d": "300MB"}
# Name -> (problem, n, quick n); ours runs with tol=1e-6.
PEERS = {
    "Nystroem 8-d": (gaussian(8), 100_000, 20_000),
    "Nystroem 2-d": (square, 1_000_000, 50_000),
}


# Measuring --------------------------------------------------------------------------------------------


def anonymous_bytes() -> int:
    """Return the anonymous resident size of this process: no mapped files."""
    for row in Path("/proc/self/status").read_text().splitlines():
        if row.startswith("RssAnon:"):
            return int(row.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status: Linux is needed")


class Peak:
    """Peak anonymous memory within a ``with`` block, beyond the memory in use before it."""

    def __enter__(self) -> Peak:
        # Freed memory that the allocator retains would hide as much of what follows.
        ctypes.CDLL(None).malloc_trim(0)
        self.before = self.largest = anonymous_bytes()
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._is_ended.set()
        self._thread.join()
        self.largest = max(self.largest, anonymous_bytes())

    def _look(self) -> None:
        while not self._is_ended.wait(_SAMPLED):
            self.largest = max(self.largest, anonymous_bytes())

    @property
    def bytes(self) -> int:
        """Return the peak beyond the memory in use before."""
        return self.largest - self.before


def timed(problem: Problem, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Return the result of one call, and its seconds, peak memory, bound, kind and info."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)  # the bound is reported anyway
        with Peak() as peak:
            start = time.perf_counter()
            result = problem.run(**options)
            seconds = time.perf_counter() - start
    info = asdict(result.info)
    return result, {
        "n": len(problem.y),
        "d": int(problem.x.shape[1]),
        "seconds": seconds,
        "peak": peak.bytes,
        "bound": result.error_bound,
        "kind": info["certificate"],
        "solver": info["solver"],
        "landmarks": info["landmarks"],
        "passes": info["passes"],
        "mean": result.mean,
        "info": info,
    }


def reference(problem: Problem, at: Any, how: str, row: dict[str, Any], tol: float) -> Any:
    """Return a more exact answer at some points, and how it was computed."""
    n = row["n"]
    if n <= _EXACT_ROWS:
        options: dict[str, Any] = {"solver": "cg", "dtype": np.float64, "tol": tol / 100}
        description = f"cg, float64, tol {tol / 100:.0e}"
    elif how == "rank":
        rank = min(2 * row["landmarks"], n)
        options = {"solver": "lowrank", "rank": rank, "tol": tol / 100}
        description = f"lowrank, {rank} landmarks"
    else:
        options = {"solver": "lowrank", "tol": tol / 100}
        description = f"lowrank, rows shuffled, tol {tol / 100:.0e}"
        problem = problem.shuffled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        return problem.run(at=at, **options), description


def measure(name: str, quick: bool, data: Path, check: bool = True) -> dict[str, Any]:
    """Return the row of a case; call it in a process of its own."""
    case = CASES[name]
    options = dict(case.options)
    if quick and name in QUICK_LIMITS:
        options["memory_limit"] = QUICK_LIMITS[name]
    problem = case.make(case.quick if quick else case.n, data)
    problem.first(3000).run(**options)
    row: dict[str, Any] = {"case": name, "limit": options["memory_limit"]}
    row_count = len(problem.y)
    rate = floor_seconds(row_count, problem.x.shape[1]) if case.rate else None
    result, timing = timed(problem, **options)
    row |= timing
    if rate is not None:
        rate = min(rate, floor_seconds(row_count, problem.x.shape[1]))  # again: the better of two
        row["floor"] = rate
        row["fraction of sgemm"] = rate * row["info"]["iterations"] / row["seconds"]
    if check and (case.reference != "none" or row_count <= _EXACT_ROWS):
        points = np.random.default_rng(1).choice(
            row_count, min(row_count, _CHECK_POINTS), replace=False
        )
        points.sort()
        exact, row["reference"] = reference(
            problem, np.array(problem.x[points]), case.reference, row, options.get("tol", 1e-6)
        )
        row["reference_bound"] = exact.error_bound
        row["error"] = float(np.abs(exact.values - result.values[points]).max())
        row["within bounds"] = bool(
            (
                np.abs(exact.values - result.values[points])
                <= result.error_bounds[points] + exact.error_bounds
            ).all()
        )
    if case.target is not None and not quick:
        target = case.target
        row["as wanted"] = (
            row["seconds"] <= target.seconds
            and row["peak"] <= target.bytes
            and row["bound"] <= target.bound
            and target.kind in (None, row["kind"])
        )
    return row


# scikit-learn -----------------------------------------------------------------------------------------


def least(run: Callable[[], tuple[Any, dict[str, Any]]]) -> tuple[Any, dict[str, Any]]:
    """Return the result of the fastest of a few runs."""
    start, runs = time.perf_counter(), []
    while len(runs) < _REPEATS and (not runs or time.perf_counter() - start < _PATIENCE):
        runs.append(run())
    return min(runs, key=lambda run: run[1]["seconds"])


def ridge_on_nystroem(problem: Problem, p: np.ndarray, landmarks: int, lam: float) -> np.ndarray:
    """Return the MCMD at all inputs from scikit-learn's features and normal equations."""
    from sklearn.kernel_approximation import Nystroem

    gamma = problem.kernel.gamma  # type: ignore[attr-defined]
    maker = Nystroem(kernel="rbf", gamma=gamma, n_components=landmarks, random_state=0)
    f = maker.fit_transform(problem.x)
    gram = (f.T @ f).astype(np.float64)
    gram[np.diag_indices_from(gram)] += len(f) * lam
    weights = np.linalg.solve(gram, (f.T @ p).astype(np.float64))
    return np.linalg.norm(f @ weights, axis=1)


def compare(name: str, quick: bool, data: Path, check: bool = True) -> dict[str, Any]:
    """Measure ours against Nystroem + ridge: same landmarks, and at equal error both ways.

    The output features are made once, by ours, and not charged to scikit-learn (their time is reported);
    ours is charged for them and for its certificate. Inputs are float64: in float32 scikit-learn reaches
    no 1e-6. Seconds are the least of three runs, both sides.
    """
    del check
    from fastmcmd.backends import get_backend
    from fastmcmd.embedding.features import output_features

    make, n, small = PEERS[name]
    data_of_case = make(small if quick else n, data)
    problem = Problem(
        np.asarray(data_of_case.x, dtype=np.float64),
        data_of_case.y,
        data_of_case.draws,
        data_of_case.kernel,
    )
    lam, pooled = 0.1, np.concatenate([data_of_case.y, data_of_case.draws])[:, None]
    y_kernel = fm.RBF(1 / (2 * np.var(data_of_case.y, ddof=1)))
    start = time.perf_counter()
    features, *_ = output_features(y_kernel, get_backend("cpu", y_kernel), pooled, 5e-15, 256)
    p = features.transform(data_of_case.y[:, None]) - features.transform(
        data_of_case.draws[:, None]
    )
    features_seconds = time.perf_counter() - start
    warm = problem.first(3000)
    warm.run(memory_limit="2GB")
    ridge_on_nystroem(warm, p[:3000], 100, lam)

    points = np.random.default_rng(1).choice(len(p), _COMPARED, replace=False)
    exact_options: dict[str, Any] = (
        {"solver": "cg", "dtype": np.float64, "tol": 1e-9}
        if len(p) <= _EXACT_ROWS
        else {"solver": "cg", "tol": 2e-8}
        if data_of_case.x.shape[1] > 2
        else {"solver": "lowrank", "tol": 1e-9}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fm.ToleranceWarning)
        exact = problem.shuffled().run(at=problem.x[points], **exact_options)

    def ours(**options: Any) -> dict[str, Any]:
        result, row = least(lambda: timed(problem, **options))
        row["error"] = float(np.abs(result.values[points] - exact.values).max())
        return row

    def theirs(landmarks: int) -> dict[str, Any]:
        def run() -> tuple[Any, dict[str, Any]]:
            with Peak() as peak:
                start = time.perf_counter()
                values = ridge_on_nystroem(problem, p, landmarks, lam)
                seconds = time.perf_counter() - start
            return values, {"landmarks": landmarks, "seconds": seconds, "peak": peak.bytes}

        values, row = least(run)
        row["error"] = float(np.abs(values[points] - exact.values).max())
        return row

    first = ours(memory_limit="4GB")
    landmarks = first["landmarks"] or 500  # of CG there are none
    same = theirs(landmarks)
    # Theirs, with more landmarks until it is as exact as ours, or out of proportion.
    grown = [same]
    while (
        grown[-1]["error"] > first["error"]
        and grown[-1]["landmarks"] < _GIVEN_UP * landmarks
        and grown[-1]["seconds"] < _GIVEN_UP * first["seconds"]
    ):
        grown.append(theirs(int(1.5 * grown[-1]["landmarks"])))
    # Ours, with more landmarks until it is as exact as theirs, then with fewer as long as it is.
    shrunk = [ours(memory_limit="4GB", solver="lowrank", rank=landmarks)]
    while shrunk[-1]["error"] > same["error"] and len(shrunk) < 5:
        rank = int(shrunk[-1]["landmarks"] * 1.25)
        shrunk.append(ours(memory_limit="4GB", solver="lowrank", rank=rank))
    while shrunk[0]["error"] <= same["error"] and (
        shrunk[-1]["error"] <= same["error"] and shrunk[-1]["landmarks"] > 8
    ):
        rank = int(shrunk[-1]["landmarks"] / 1.25)
        shrunk.append(ours(memory_limit="4GB", solver="lowrank", rank=rank))
    enough = [row for row in shrunk if row["error"] <= same["error"]]
    best = min(enough, key=lambda row: row["seconds"]) if enough else None
    return {
        "case": name,
        "limit": "4GB",
        **first,
        "reference": f"{exact.info.solver}, {exact.info.dtype}",
        "reference_bound": exact.error_bound,
        "output features seconds": features_seconds,
        "ours": first,
        "theirs, same landmarks": same,
        "theirs, grown": grown,
        "theirs reach our error": grown[-1]["error"] <= first["error"],
        "ours, shrunk": shrunk,
        # At our error theirs takes at least as long as its largest attempt, where it never gets there.
        "times faster at our error": grown[-1]["seconds"] / first["seconds"],
        "times faster at their error": same["seconds"] / best["seconds"] if best else None,
    }


# Table ------------------------------------------------------------------------------------------------


def markdown(rows: list[dict[str, Any]]) -> str:
    """Return the table of all cases, and its notes."""
    lines = [
        "| case | n | d | solver | seconds | peak | limit | certified | true error | landmarks "
        "| passes | as wanted |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['case']} | failed: {row['failed']} |" + " |" * 10)
            continue
        error = f"{row['error']:.1e}" if "error" in row else "not measured"
        verdict = {True: "yes", False: "**no**"}.get(row.get("as wanted"), "")  # type: ignore[arg-type]
        lines.append(
            f"| {row['case']} | {row['n']:,} | {row['d']} | {row['solver']} | {row['seconds']:.3g} "
            f"| {row['peak'] / 1e6:,.0f} MB | {row['limit']} | {row['bound']:.1e}, {row['kind']} "
            f"| {error} | {row['landmarks'] or ''} | {row['passes']} | {verdict} |"
        )
    lines.append("")
    by_case = {row["case"]: row for row in rows if "failed" not in row}
    for name, row in by_case.items():
        if "fraction of sgemm" in row:
            lines.append(
                f"- {name}: {row['info']['iterations']} products of n^2 d operations, "
                f"{row['floor']:.2f} s each at the sgemm rate of the process: "
                f"{row['fraction of sgemm']:.0%} of the time (products with the right-hand sides, the "
                "exponentials and the certificate are work beyond it)."
            )
        if row.get("within bounds") is False:
            lines.append(f"- {name}: **differs from the reference by more than both bounds**.")
        if "theirs, grown" in row:
            grown, same = row["theirs, grown"][-1], row["theirs, same landmarks"]
            verb = "reaches" if row["theirs reach our error"] else "does not reach"
            back = row["times faster at their error"]
            lines.append(
                f"- {name}: with {same['landmarks']} landmarks (ours: {row['landmarks'] or 'none, CG'}) "
                "scikit-learn takes "
                f"{same['seconds']:.2f} s (error {same['error']:.1e}, {same['peak'] / 1e6:,.0f} MB; the "
                f"{row['output features seconds']:.2f} s of output features not counted), ours "
                f"{row['seconds']:.2f} s (error {row['error']:.1e}). With {grown['landmarks']} landmarks "
                f"it {verb} our error ({grown['error']:.1e}): {row['times faster at our error']:.1f} "
                "times our time. Ours at its error: "
                + (f"{back:.1f} times as fast." if back else "not reached.")
            )
    if {"cached 512-d", "limited 512-d"} <= by_case.keys():
        cached, limited = by_case["cached 512-d"], by_case["limited 512-d"]
        ratio = limited["seconds"] / cached["seconds"]
        lines.append(
            f"- n = {cached['n']:,}, d = 512: {limited['limit']} takes {ratio:.2f} times as long as "
            f"{cached['limit']} ({limited['info']['cache']}, {cached['info']['cache']})."
        )
    return "\n".join(lines)


def in_child(name: str, options: argparse.Namespace, data: Path) -> dict[str, Any]:
    """Run a case in a process of its own and return its row."""
    command = [sys.executable, __file__, "--child", name, "--data", str(data)]
    command += ["--quick"] * options.quick + ["--no-check"] * options.no_check
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        last = (process.stderr.strip().splitlines() or [f"status {process.returncode}"])[-1]
        return {"case": name, "failed": last}
    return json.loads(process.stdout.strip().splitlines()[-1])


def write_json(path: Path, content: Any) -> None:
    """Write atomically: a run takes long, and may be interrupted."""
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=2))
    os.replace(part, path)


def main() -> int:
    """Measure and print; return 1 if a case failed or missed its requirements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*CASES, *PEERS]
    parser.add_argument("--quick", action="store_true", help="20,000 to 50,000 rows")
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path, help="folder in which inputs stay between runs")
    parser.add_argument("--no-check", action="store_true", help="leave the true error out")
    parser.add_argument("--child", choices=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        function = compare if options.child in PEERS else measure
        row = function(options.child, options.quick, options.data, not options.no_check)
        print(json.dumps(row))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data = options.data or Path(folder)
        data.mkdir(parents=True, exist_ok=True)
        for name in options.only or names:
            rows.append(in_child(name, options, data))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
            if options.json:
                write_json(options.json, rows)
    print(markdown(rows))
    return int(any("failed" in row or row.get("as wanted") is False for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
