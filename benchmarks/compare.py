"""Compare the speed of two builds, on a machine that is also busy otherwise.

``python benchmarks/compare.py HEAD~1 HEAD --select "Estimate|Families"`` measures the ``time_*`` methods
of the asv suite with both builds. asv measures one build after the other: on a machine whose speed
drifts, the drift looks like a change. Here each case has a warm process for each build, and samples are
taken in turns (before, after, after, before, ...). A sample is the CPU time of all threads, so that other
processes count little. A case is a suspect if the median of the paired ratios is above the threshold, and
a signed-rank test says that this is not chance. Suspects are measured again with new processes, and
reported only if they are slower again.

BEFORE and AFTER are folders with a built package, or git revisions, which are built in temporary
worktrees.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy import stats

FOLDER = Path(__file__).parent
SUITE = ("bench_cce", "bench_large", "bench_metrics", "bench_products")
LEAST = 0.06  # seconds of a sample: a call that takes less is repeated
# Chance of such ratios without a change, at most: in the first run, which only chooses the cases to measure
# again, and in the second.
FIRST, SECOND = 0.1, 0.01


@dataclass(frozen=True)
class Case:
    """One ``time_*`` method with one combination of its parameters."""

    module: str
    group: str
    method: str
    params: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.group}.{self.method}({', '.join(map(repr, self.params))})"


@dataclass(frozen=True)
class Verdict:
    """Median of the ratios after / before, and the chance of such ratios without a change (Wilcoxon)."""

    ratio: float
    chance: float

    def slower(self, threshold: float, chance: float) -> bool:
        """Return whether the second build is slower by more than the threshold, and not by chance."""
        return self.ratio > 1 + threshold and self.chance < chance


# ---- in the process of one build ----


def cases(pattern: str) -> Iterator[Case]:
    """Yield the cases whose names match."""
    for module in SUITE:
        for name, group in inspect.getmembers(load(module), inspect.isclass):
            if group.__module__ != f"benchmarks.{module}":
                continue
            params = getattr(group, "params", [])
            lists = params if params and isinstance(params[0], list | tuple) else [params or [None]]
            for method in (method for method in dir(group) if method.startswith("time_")):
                for values in itertools.product(*lists):
                    case = Case(module, name, method, () if values == (None,) else values)
                    if re.search(pattern, str(case)):
                        yield case


def load(module: str) -> Any:
    """Import a module of the suite."""
    sys.path.insert(0, str(FOLDER))
    return importlib.import_module(f"benchmarks.{module}")


def serve(case: Case) -> None:
    """Set a case up, then print the CPU time of as many calls as each line of standard input says."""
    group = getattr(load(case.module), case.group)()
    setup, call = getattr(group, "setup", None), getattr(group, case.method)
    once = (
        getattr(group, "number", 0) == 1
    )  # a call may use up its setup, as a factorisation in place
    if setup is not None:
        setup(*case.params)
    call(*case.params)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = 0.0
        for _ in range(int(line)):
            if once and setup is not None:
                setup(*case.params)
            start = time.process_time()
            call(*case.params)
            seconds += time.process_time() - start
        print(seconds, flush=True)


# ---- in the process that compares ----


class Build:
    """A warm process in which a case runs with one build."""

    def __init__(self, folder: Path, case: Case, threads: int) -> None:
        self._folder, self._case = folder, case
        command = [sys.executable, __file__, "--serve", json.dumps(vars(case))]
        counts = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)
        )
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **counts, "PYTHONPATH": str(folder)},
        )  # fmt: skip
        self.ready = self._answer() == "ready"  # otherwise setup says that it does not apply here

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def seconds(self, calls: int) -> float:
        """Return the CPU time of one call, as the mean of this many."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        answer = self._answer()
        if not answer:
            raise RuntimeError(f"the process of {self._folder} ended in {self._case}")
        return float(answer) / calls

    def __enter__(self) -> Build:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def compared(folders: tuple[Path, Path], case: Case, rounds: int, threads: int) -> Verdict | None:
    """Return how the second build compares with the first, or None if the case does not apply."""
    with Build(folders[0], case, threads) as before, Build(folders[1], case, threads) as after:
        if not (before.ready and after.ready):
            return None
        calls = max(1, math.ceil(LEAST / max(before.seconds(1), 1e-6)))
        after.seconds(calls)
        before.seconds(calls)
        logarithms = []
        for turn in range(rounds):
            builds = (before, after) if turn % 2 == 0 else (after, before)
            seconds = {build: build.seconds(calls) for build in builds}
            logarithms.append(math.log(max(seconds[after], 1e-9) / max(seconds[before], 1e-9)))
    chance = float(stats.wilcoxon(logarithms, alternative="greater").pvalue)
    return Verdict(math.exp(statistics.median(logarithms)), chance)


@contextlib.contextmanager
def built(name: str) -> Iterator[Path]:
    """Yield the folder of a build: the folder itself, or a worktree of a revision that is built first."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    root = FOLDER.parent
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "-q", "--detach", folder, name], cwd=root, check=True
        )
        try:
            command = [sys.executable, "setup.py", "build_ext", "--inplace", "-q"]
            subprocess.run(command, cwd=folder, check=True)
            yield folder
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], cwd=root, check=True)


def main() -> int:
    """Print a line for each case, and the slower ones at the end; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", help="a folder with a built package, or a git revision")
    parser.add_argument("after", help="the same, of the build that must not be slower")
    parser.add_argument(
        "--select", default=".", help="regular expression that names of cases match"
    )
    parser.add_argument("--rounds", type=int, default=21, help="pairs of samples of a case")
    parser.add_argument(
        "--threshold", type=float, default=0.05, help="slower by less is no suspect"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of each process")
    options = parser.parse_args()
    with built(options.before) as before, built(options.after) as after:
        folders = (before, after)
        suspects = []
        for case in cases(options.select):
            verdict = compared(folders, case, options.rounds, options.threads)
            if verdict is None:
                continue
            suspicious = verdict.slower(options.threshold, FIRST)
            suspects += [case] * suspicious
            mark = "  suspect" if suspicious else ""
            print(f"{verdict.ratio:6.3f}  p={verdict.chance:.4f}  {case}{mark}", flush=True)
        slower = []
        for case in suspects:
            verdict = compared(folders, case, 2 * options.rounds, options.threads)
            if verdict is not None and verdict.slower(options.threshold, SECOND):
                slower.append(f"{verdict.ratio:6.3f}  p={verdict.chance:.4f}  {case}")
    print(f"\n{len(suspects)} suspects, {len(slower)} slower in both runs:")
    print("\n".join(slower))
    return 1 if slower else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        document = json.loads(sys.argv[2])
        serve(Case(**{**document, "params": tuple(document["params"])}))
    else:
        sys.exit(main())
