"""Calls every public entry point with hostile arguments and checks the result or the error.

Each problem takes a valid call and replaces one argument, sometimes two. What must come back is a right
answer, or a ValueError, a TypeError, or an error of the package, whose message names the argument.
Workers are processes of their own: a crash or a hang costs one of them, and is reported.

    python tests/adversary/calls.py --count 5000 --seed 0 [--entry NAME] [--case NUMBER]
"""

from __future__ import annotations

import argparse
import collections
import copy
import hashlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import call_entries
import hostile

TIMEOUT = 30.0  # seconds of processor time a call may take; the first of a kind compiles loops
PATIENCE = 300.0  # seconds after which a call that waits for something hangs

# Arguments that take any value of the caller, any rows, or any callable.
ANY_VALUE = {"by", "groups", "path", "out", "cache_dir", "checkpoint", "encoder", "function",
             "projection", "x_kernel", "y_kernel", "kernel", "random_state", "recal_model",
             "devices", "described", "index", "models", "predictions", "other", "metric", "predict",
             "inputs", "name", "model", "pretrained"}  # fmt: skip
# Other names of an argument: the parts of a prediction, a group of arguments.
ALIASES = {
    "prediction": ("mean", "std", "draws", "array"), "models": ("prediction", "a"),
    "predictions": ("prediction",), "components": ("component",),
    "ignore_index": ("absent",),  # the rest may lack a class
    "logits": ("labels",), "y_true": ("y",), "optimizer_bounds": ("bounds",), "obs_props": ("exp_props",),
}  # fmt: skip
FLAGS = {"adversarial", "replace", "ordered", "normalize", "scaled", "vectorized", "squared", "sort",
         "draw_with_replacement", "flag", "greater_is_better", "classes"}  # fmt: skip
TAKES_NAN = {"values", "outcome", "limits"}
# Numbers that must be positive, and whole numbers that count something.
POSITIVE = {"lam", "lam_prime", "tol", "lmbda", "sum_tolerance", "length_scale", "gamma", "confidence",
            "accuracy", "phi", "beta"}  # fmt: skip
COUNTS = {"size", "bins", "k", "draws", "repeats", "strata", "features", "rank", "trials", "repetitions",
          "resolution", "num_bins", "num_group_bins", "num_trials", "num_group_draws", "count",
          "points", "degree"}  # fmt: skip
ARRAYS = {"y", "x", "p", "p_in", "p_out", "sample_weight", "weights", "mean", "std", "logits", "y_pred",
          "y_std", "y_true", "grid", "x_prime", "y_prime", "probs", "array", "loc", "scale", "mu",
          "sigma", "a", "b", "df", "x_new", "y_grid", "lower", "upper", "at"}  # fmt: skip


def cases(seed, number, entries):
    """Return the entry of a case, and by argument the name of what replaces it."""
    rng = np.random.default_rng([seed, number])
    name = entries[rng.integers(len(entries))]
    entry = ENTRIES[name]
    names = list(entry.parameters)
    count = min(len(names), 1 if rng.random() < 0.85 else 2)
    selection = rng.choice(len(names), count, replace=False)
    # Required arguments are replaced more often than options: they have more ways of being wrong.
    present = [one for one in names if one in entry.base]
    if present and count == 1 and rng.random() < 0.4:
        selection = [names.index(present[rng.integers(len(present))])]
    pool = list(hostile.POOL)
    return entry, {names[i]: pool[rng.integers(len(pool))] for i in selection}


def digest(value):
    """Return a text that changes when an argument is changed in place."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hashlib.sha1(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, (list, tuple)) and len(value) < 50:
        return repr(value)
    return ""


def as_numbers(value):
    """Return a result as an array of floats, or None if it is not numeric."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            numbers = np.asarray(value)
            return numbers.astype(np.float64) if numbers.dtype.kind in "biuf" else None
    except Exception:
        return None


def never_valid(name, argument, tags):
    """Return why a value cannot be right for an argument, or None."""
    if argument in ANY_VALUE or "harmless" in tags:
        return None
    if argument in FLAGS:
        return None
    if argument == "columns" and name.endswith("verdict"):
        return None  # regions are described by labels, too
    if argument == "dtype" and "dtyped" in tags:
        return None  # NumPy accepts anything that has a dtype
    if name == "plots.fan" and argument == "x" and "dates" in tags:
        return None
    if tags & {"never"}:
        return "it can never be right"
    if "class" in tags and argument != "dtype":
        return "a class is no value"
    if "callable" in tags and argument not in ("score", "predict", "x_kernel", "prediction"):
        return "a function is no value"
    if {"nan", "number"} <= tags and argument not in TAKES_NAN | ARRAYS:
        return "NaN"
    if argument in POSITIVE and tags & {"negative"}:
        return "it must be positive"
    if (
        argument in COUNTS
        and "expected_kernel" not in name
        and (tags & {"negative", "inf", "nan", "text"})
    ):
        return "it counts something"
    metric = name.startswith(
        ("metrics", "classification", "streaming", "compat", "cce", "mcmd", "eval")
    )
    if argument in ARRAYS and metric and tags & {"has"} and tags & {"nan"}:
        return "it holds NaN"
    nonnegative = ("sample_weight", "weights", "std", "scale", "sigma", "y_std")
    if argument in nonnegative and "negatives" in tags:
        return "it is negative"
    return None


def violation_of(name, function, base, replaced):
    """Call, and return (kind of violation or None, details)."""
    arguments = {
        key: copy.deepcopy(value) if key in replaced else value for key, value in base.items()
    }
    tags = {}
    for argument, hostile_name in replaced.items():
        if hostile_name.startswith("harmless") and not isinstance(base.get(argument), np.ndarray):
            return "skip", ""  # there is no array that could take another form
        try:
            arguments[argument] = hostile.POOL[hostile_name](base.get(argument))
        except Exception:
            return "skip", ""
        tags[argument] = hostile.TAGS[hostile_name]
    before = {key: digest(value) for key, value in arguments.items()}
    caught = []
    result = None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function(**arguments)
    except BaseException as error:
        violation = violation_of_error(error, replaced)
        if any(name in CALLABLES and "class" in its for name, its in tags.items()):
            violation = None  # the error is that of the caller's own callable
    else:
        violation = violation_of_answer(name, function, base, replaced, tags, result)
    if violation is None:
        for one in caught:
            huge = any(its & {"huge"} for its in tags.values())
            if huge and "overflow" in str(one.message) and not entry_of_lengths(name):
                continue  # the square of 1e300 is infinite: NumPy says so, and so does the answer
            if issubclass(one.category, (RuntimeWarning, DeprecationWarning, FutureWarning)):
                violation = "warning", f"{one.category.__name__}: {one.message}"
    if violation is None:
        # ``out`` is what results are written to.
        changed = [
            key for key, value in arguments.items() if key != "out" and digest(value) != before[key]
        ]
        if changed:
            violation = "argument changed", ", ".join(changed)
    return violation or (None, "")


def entry_of_lengths(name):
    """Return whether an entry's result has the unit of y or none, so that doubles need not overflow."""
    return name.startswith("metrics.") and name.split(" ")[0].split(".")[-1] in LENGTHS


def violation_of_error(error, replaced):
    import fastmcmd as fm

    message = f"{type(error).__name__}: {error}".split("\n")[0][:300]
    if isinstance(error, MemoryError | fm.MissingDependencyError):
        return None
    kinds = (ValueError, TypeError)
    if any(name in ("path", "cache_dir", "checkpoint", "out") for name in replaced):
        kinds = (*kinds, OSError)
    if not isinstance(error, kinds) or isinstance(error, np.linalg.LinAlgError):
        return "raw error", message
    names = [alias for name in replaced for alias in (name, *ALIASES.get(name, ()))]
    names_argument = any(
        re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", str(error)) for name in names
    )
    return None if names_argument else ("argument not named", message)


def violation_of_answer(name, function, base, replaced, tags, result):
    if entry_of_lengths(name) and set(replaced) & {"y", "prediction", "y_std", "y_pred"}:
        numbers = as_numbers(result)
        if numbers is not None and not np.isfinite(numbers).all():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                usual = as_numbers(function(**base))
            if np.isfinite(usual).all() and not any(its & {"inf", "nan"} for its in tags.values()):
                return "not finite", f"{numbers.ravel()[:3]} where the answer is a number"
    for argument, its in tags.items():
        why = never_valid(name, argument, its)
        if why:
            return "bad input accepted", f"{argument}: {why}"
    if all("harmless" in its for its in tags.values()) and all(key in base for key in tags):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = as_numbers(function(**base))
        numbers = as_numbers(result)
        if expected is not None and numbers is not None:
            same = expected.shape == numbers.shape and np.allclose(
                expected, numbers, rtol=1e-5, atol=1e-5, equal_nan=True
            )
            if not same:
                return "another answer", f"{numbers.ravel()[:3]} for {expected.ravel()[:3]}"
    return None


CALLABLES = ("projection", "chaining", "weight", "encoder", "function")

# Metrics in the unit of y, or in none: no finite outcome and prediction give an infinite or undefined one.
LENGTHS = {
    "mae", "rmse", "median_absolute_error", "marpd", "bias", "sharpness", "crps", "mean_crps",
    "check_score", "mean_check_score", "coverage", "mean_interval_width", "regression_ece",
    "pit_values", "energy_score", "mean_energy_score", "variance_variation",
}  # fmt: skip


ENTRIES = {}


def work(seed, entries):
    """Read numbers of cases, write the violations; files go to a folder that is removed."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        _work(seed, entries)
        os.chdir("/")


def _work(seed, entries):
    for line in sys.stdin:
        number = int(line)
        entry, replaced = cases(seed, number, entries)
        kind, details = violation_of(entry.name, entry.function, entry.base, replaced)
        print(
            json.dumps([number, entry.name, replaced, kind, details]),
            file=sys.__stdout__,
            flush=True,
        )


def processor_seconds(pid):
    """Return the processor time of a process: on a busy machine wall time says little."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    """Worker process that answers one number at a time."""

    def __init__(self, options):
        self.options = options
        self.start()

    def start(self):
        command = [sys.executable, __file__, "--worker", *self.options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        ready, _, entry_count = self.process.stdout.readline().partition(" ")
        if ready.strip() != "ready":
            raise RuntimeError("a worker did not start; run it with --case to see why")
        self.entry_count = int(entry_count or 0)

    def ask(self, number):
        self.process.stdin.write(f"{number}\n")
        self.process.stdin.flush()
        began, processor_start = time.monotonic(), processor_seconds(self.process.pid)
        ready: list = []
        while not ready and time.monotonic() - began < PATIENCE:
            ready, _, _ = select.select([self.process.stdout], [], [], 1.0)
            if processor_seconds(self.process.pid) - processor_start > TIMEOUT:
                break
        line = self.process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)
        kind = "hang" if not ready else "crash"
        self.process.kill()
        details = f"exit status {self.process.wait()}"
        self.start()
        return [number, "", {}, kind, details]

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


def describe(seed, number, entries):
    entry, replaced = cases(seed, number, entries)
    arguments = ", ".join(f"{name}=<{value}>" for name, value in replaced.items())
    return f"{entry.name}({arguments})"


def entry_points(options):
    """Create the entry points and return the names of those to call."""
    ENTRIES.update(call_entries.entries(plots=not options.no_plots))
    return [name for name in sorted(ENTRIES) if not options.entry or options.entry in name]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--entry", help="only entry points whose name contains this")
    parser.add_argument("--case", type=int, help="run one case here, with its traceback")
    parser.add_argument("--no-plots", action="store_true")
    parser.add_argument("--show", type=int, default=3, help="examples of each group")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()

    stdout = sys.stdout
    if options.worker:
        sys.__stdout__, sys.stdout = stdout, sys.stderr
    if options.worker:
        entries = entry_points(options)
        print("ready", len(entries), file=stdout, flush=True)
        return work(options.seed, entries)
    if options.case is not None:
        entries = entry_points(options)
        entry, replaced = cases(options.seed, options.case, entries)
        print(describe(options.seed, options.case, entries))
        print(violation_of(entry.name, entry.function, entry.base, replaced))
        arguments = dict(entry.base)
        arguments |= {
            key: hostile.POOL[value](entry.base.get(key)) for key, value in replaced.items()
        }
        print(repr(entry.function(**arguments))[:500])
        return None

    passed_on = ["--seed", str(options.seed)]
    passed_on += ["--entry", options.entry] if options.entry else []
    passed_on += ["--no-plots"] if options.no_plots else []
    worker, began = Worker(passed_on), time.monotonic()
    groups, calls = collections.defaultdict(list), 0
    for number in range(options.count):
        if time.monotonic() - began > options.seconds:
            break
        _, _, _, kind, details = worker.ask(number)
        calls += kind != "skip"
        if kind and kind != "skip":
            shape = re.sub(r"0x[0-9a-f]+|[-+]?\d[\d.e+-]*|'[^']*'", "#", details)
            groups[kind, shape[:90]].append((number, details))
    total = sum(map(len, groups.values()))
    entries = entry_points(options) if total else []  # seconds, for what the worker knows
    for (kind, _), violations in sorted(groups.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(violations):4d} {kind}: {violations[0][1][:200]}")
        for number, _ in violations[: options.show]:
            description = describe(options.seed, number, entries)
            extra = f" --entry {options.entry!r}" if options.entry else ""
            extra += " --no-plots" if options.no_plots else ""
            print(f"       {description}   # calls.py --seed {options.seed} --case {number}{extra}")
    print(
        f"{calls} calls of {worker.entry_count} entry points: {total} violations in {len(groups)} groups"
    )
    worker.close()
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
