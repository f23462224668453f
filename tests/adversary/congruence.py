"""Attack the guarantees of fastmcmd.cce, mcmd and ConditionalCongruence with random problems.

    python tests/adversary/congruence.py --count 300 --seed 0
    python tests/adversary/congruence.py --only 1234 --verbose
    python tests/adversary/congruence.py --count 1000 --seed 200000 --record FILE
    python tests/adversary/congruence.py --sum FILE FILE ...

With ``--record`` each outcome is appended to a file, and a run that is started again leaves out the seeds
that the file has. ``--sum`` adds up the files of several runs.

Every problem is drawn from its seed, computed by fastmcmd, and computed again by a reference that shares no
code with it (`truth.py`). A violation is claimed only where the excess over the certified bound is larger
than the error that the reference gives itself. Violations are printed with the command that repeats them.
"""

from __future__ import annotations

import argparse
import json
import linecache
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import patterns
import problems
import record
import truth
from formulas import diagonal
from measures import LD

import fastmcmd as fm

SECONDS = 5.0  # of processor time, after which a call is stopped and counted as slow
_REMINDER = 0.5  # seconds between two signals that a call took too long
MOST_POINTS = 12  # of the grid that are compared
_WIDE = (1e-70, 1e70)  # sizes of numbers with which float64 does not overflow


@dataclass
class Outcome:
    """The outcome of one problem."""

    seed: int
    violations: list = field(default_factory=list)  # (kind, message)
    refusal: str = ""
    certificate: str = ""
    decided: bool = True
    oracle: float = np.nan  # error of the reference relative to the bound
    slow: str = ""
    useless: bool = False
    seconds: tuple = (0.0, 0.0)
    line: str = ""


class TooSlow(BaseException):
    """A call exceeded its time; not an Exception, which tested code may catch."""


def _alarm(signum, frame):
    # Numba's compiler ends first: it loses exceptions in its callbacks, and then has no code of a function.
    while frame is not None:
        if not {"numba", "llvmlite"}.isdisjoint(Path(frame.f_code.co_filename).parts):
            return
        frame = frame.f_back
    raise TooSlow


@contextmanager
def _stopped_after(seconds):
    """Raise TooSlow in the block after this many seconds of processor time; None never does."""
    # Repeatedly: callbacks of the garbage collector and of ctypes lose exceptions.
    signal.setitimer(signal.ITIMER_PROF, seconds or 0, _REMINDER)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def call(p):
    """Return (result, fitted or None) of the problem's call."""
    fm.set_num_threads(p.threads)
    kernels = {"x_kernel": p.x_kernel, "y_kernel": p.y_kernel}
    kernel_options = {
        name: "paper" if kernel is None else kernel for name, kernel in kernels.items()
    }
    common = {**kernel_options, "lam": p.lam, **p.options}
    y = p.y[:, 0] if p.columns == 1 and p.seed % 2 else p.y
    if p.function == "mcmd":
        result = fm.mcmd(
            p.grid, p.x, y, p.x_prime, p.y_prime if y.ndim == 2 else p.y_prime[:, 0],
            lam_prime=p.lam_prime, weights=p.weights, weights_prime=p.weights_prime, **common,
        )  # fmt: skip
        return result, None
    common |= {"draws": p.draws, "random_state": np.random.default_rng(p.seed)}
    if p.function == "cce":
        at = None if p.at_x else p.grid
        return fm.cce(p.x, y, p.prediction, at=at, weights=p.weights, **common), None
    fitted = fm.ConditionalCongruence(**common).fit(p.x, y, p.prediction, weights=p.weights)
    return (fitted.result_ if p.at_x else fitted.evaluate(p.grid)), fitted


def check(seed, size=None, limit=SECONDS, pattern=None, reference_limit=None):
    """Return the outcome of one problem; fastmcmd and the reference each have this many seconds."""
    out = Outcome(seed)
    start = time.process_time()
    p = problems.draw(seed, size, pattern)
    out.line = p.describe()
    began = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _stopped_after(limit):
                result, fitted = call(p)
        except TooSlow as stopped:
            frames = traceback.extract_tb(stopped.__traceback__)
            ours = [f for f in frames if "fastmcmd" in Path(f.filename).parts]
            place = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(ours[-4:]))
            out.slow = f"no answer in {limit} seconds, in {place}"
            return out
        except Exception as error:
            _check_refusal(out, p, error)
            return out
    took = time.process_time() - began
    _check_result(out, p, result, fitted, caught)
    if p.hostile:
        if not _harmless(p):
            out.violations.append(("no kernel", f"{p.hostile} was accepted: {result.values[:2]}"))
        return out
    if not out.violations:
        try:
            with _stopped_after(reference_limit):
                _check_values(out, p, result, fitted)
        except TooSlow:
            out.decided = False
    out.seconds = (took, time.process_time() - start - took)
    return out


def _harmless(p):
    """Return whether the function that is no kernel is one on these data: tiny inputs make it constant."""
    for kernel, values in ((p.x_kernel, p.x), (p.y_kernel, p.y)):
        if isinstance(kernel, fm.CustomKernel):
            some = np.asarray(values, dtype=np.float64)[:100]
            gram = kernel(some, some)
            if np.array_equal(gram, gram.T) and np.linalg.eigvalsh(gram)[0] >= -1e-12 * gram.max():
                return True
    return False


def _check_refusal(out, p, error):
    """Require a ValueError or MemoryError of the package, with a message."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    is_ours = "fastmcmd" in Path(frames[-1].filename).parts and _raises(frames[-1])
    if not isinstance(error, (ValueError, MemoryError)) or not is_ours or len(str(error)) < 20:
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
        ours = [f for f in frames if "fastmcmd" in Path(f.filename).parts]
        place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else place
        out.violations.append((f"raw {type(error).__name__}", f"{text} at {place}"))
        return
    out.refusal = text
    try:
        problems.settle(p)
    except ValueError:
        return  # no kernel, by its own rule
    if p.tame and not isinstance(error, MemoryError) and not _needs_digits(p, text):
        out.violations.append(("refused", text))


def _raises(frame):
    """Return whether a frame stands in a raise statement, possibly of several lines."""
    lines = [linecache.getline(frame.filename, frame.lineno - i) for i in range(6)]
    return any("raise " in line for line in lines)


def _needs_digits(p, text):
    """Return whether an error for lack of digits, or of a method, is right."""
    # An error that names what is not offered breaks no guarantee.
    if "no closed form here" in text or "too long" in text or "is zero at all outputs" in text:
        return True
    if "no finite moment" in text:
        return True
    if "weights whose largest lies in" in text:  # sums of their squares would overflow
        largest = [float(w.max()) for w in (p.weights, p.weights_prime) if w is not None]
        return any(not 1e-100 <= one <= 1e100 for one in largest)
    if "positive definite" not in text:
        return False
    sides = [(p.x, p.weights, p.lam), (p.x_prime, p.weights_prime, p.lam_prime)]
    ratios = []
    for x, w, lam in sides:
        w = np.ones(len(x)) if w is None else w
        sizes = diagonal(p.x_spec, x[w > 0], LD)
        ratios.append(float((sizes * w[w > 0]).sum() / (w.sum() * LD(lam))))
    return max(ratios) > 1e12


def _check_result(out, p, result, fitted, caught):
    out.certificate = result.info.certificate
    values, bounds = result.values, result.error_bounds
    if not np.isfinite(values).all() or (values < 0).any():
        out.violations.append(("bad value", f"values hold {values[~np.isfinite(values)][:1]}"))
    if np.isnan(bounds).any() or (bounds < 0).any():
        out.violations.append(("bad bound", "a bound is NaN or negative"))
    if len(values) != len(p.grid):
        out.violations.append(("shape", f"{len(values)} values for {len(p.grid)} points"))
    is_warned = any(issubclass(w.category, fm.ToleranceWarning) for w in caught)
    worst = max(bounds.max(), 0 if fitted is None else fitted.result_.error_bound)
    if (worst > result.tol) != is_warned:
        out.violations.append(
            ("tolerance", f"bound {worst:.2e}, tol {result.tol:.1e}, warned: {is_warned}")
        )
    for w in caught:
        if not issubclass(w.category, fm.ToleranceWarning):
            place = f"{Path(w.filename).name}:{w.lineno}"
            out.violations.append((f"raw {w.category.__name__}", f"{w.message} at {place}"))
            break
    out.useless = bool(bounds.max() > max(values.max(), 0, result.tol))


def points_of(p):
    """Return the rows of the grid to compare: rare ones first, the rest at random."""
    q = len(p.grid)
    if q <= MOST_POINTS:
        return np.arange(q)
    order = np.random.default_rng(p.seed).permutation(q)
    first = [row for row in p.rare if p.at_x]
    return np.unique(np.concatenate([np.array(first, dtype=int), order])[
        np.sort(np.unique(np.concatenate([np.array(first, dtype=int), order]), return_index=True)[1])
    ][:MOST_POINTS])  # fmt: skip


def reference(p, rows, values, bounds):
    """Return the truth at some rows: in float64, and in long double if that does not decide."""
    nonzero = [np.abs(a[np.nonzero(a)]) for a in (p.x, p.x_prime, p.grid, p.y)]
    sizes = np.concatenate([[a.min(), a.max()] for a in nonzero if a.size] or [[1.0]])
    if _WIDE[0] < sizes.min() and sizes.max() < _WIDE[1] and truth.of_nodes(p) < 1e-10:
        try:
            with np.errstate(all="ignore"):
                exact = truth.mcmd(p, rows, np.float64)
            if (np.abs(values - exact.values) + exact.errors <= bounds).all():
                return exact
        except (truth.Undecided, FloatingPointError):
            pass
    with np.errstate(all="ignore"):
        return truth.mcmd(p, rows, LD)


def _check_values(out, p, result, fitted):
    rows = points_of(p)
    values, bounds = result.values[rows], result.error_bounds[rows]
    try:
        problems.settle(p)
        exact = reference(p, rows, values, bounds)
    except truth.Undecided as why:
        out.decided, out.refusal = False, ""
        del why
        return
    except AssertionError as wrong:
        out.violations.append(("resolved", str(wrong)))
        return
    with np.errstate(all="ignore"):
        excess = np.abs(values - exact.values) - bounds
        # Rounding of the value itself to float64.
        slack = exact.errors + 4e-16 * np.abs(values)
        bad = excess > slack
        out.oracle = float(np.median(exact.errors / np.maximum(bounds, LD(1e-300))))
        if bad.any():
            worst = int(np.argmax(np.where(bad, excess - slack, -np.inf)))
            kind = "sampled bound" if result.info.certificate == "sampled" else "rigorous bound"
            out.violations.append((kind, (
                f"row {rows[worst]}: value {values[worst]:.10g}, truth {float(exact.values[worst]):.10g} "
                f"+- {float(slack[worst]):.1e}, bound {bounds[worst]:.2e}: too small by "
                f"{float(abs(values[worst] - exact.values[worst]) / max(bounds[worst], 1e-300)):.3g}; "
                f"{int(bad.sum())} of {len(rows)} points; {result.info.solver}, {result.info.form}, "
                f"{result.info.dtype}"
            )))  # fmt: skip
    if fitted is not None and not out.violations:
        _check_estimator(out, p, result, fitted, exact, rows)


def _check_estimator(out, p, result, fitted, exact, rows):
    """Repeated scores are within both bounds; the witness is the embedding's inner product."""
    grid = p.grid[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = fitted.score_samples(grid)
        again = fitted.evaluate(grid)
        y = np.concatenate([p.y[:2], p.y[-1:] * 0.5])
        witness = fitted.witness(grid, y)
    if not np.array_equal(scores, again.values):
        out.violations.append(("score_samples", "other values than evaluate"))
    with np.errstate(all="ignore"):
        excess = np.abs(again.values - exact.values) - again.error_bounds
        if (excess > exact.errors + 4e-16 * scores).any():
            kind = "sampled bound" if again.info.certificate == "sampled" else "rigorous bound"
            out.violations.append((kind,
                                   f"evaluate again: excess {float(excess.max()):.2e}"))  # fmt: skip
        true_witness = exact.embedding.at(y)
        size = np.sqrt(np.asarray(diagonal(p.y_spec, y, LD)))
        e = again.error_bounds + exact.errors
        limit = np.sqrt(e * (2 * again.values + e))[:, None] * size + 1e-14 * np.abs(true_witness)
        off = np.abs(witness - true_witness)
        if not np.isfinite(witness).all() or (off > limit).any():
            i, j = np.unravel_index(
                np.argmax(np.where(np.isfinite(off), off - limit, np.inf)), off.shape
            )
            out.violations.append(("witness", (
                f"{witness[i, j]:.8g}, truth {float(true_witness[i, j]):.8g}, "
                f"allowed {float(limit[i, j]):.1e}"
            )))  # fmt: skip


def run(
    seeds, size=None, limit=SECONDS, report=print, every=0, pattern=None, path=None,
    reference_limit=None,
):  # fmt: skip
    """Check problems in turn; return their outcomes, which a file at ``path`` records."""
    outcomes = []
    past_seeds = {one["seed"] for one in record.read([path])} if path else set()
    seeds = [seed for seed in seeds if seed not in past_seeds]
    signal.signal(signal.SIGPROF, _alarm)
    more = (f" --size {size}" if size else "") + (f" --pattern '{pattern}'" if pattern else "")
    for count, seed in enumerate(seeds, 1):
        try:
            out = check(int(seed), size, limit, pattern, reference_limit)
        except Exception as error:  # the adversary's own fault
            place = traceback.extract_tb(error.__traceback__)[-1]
            out = Outcome(int(seed), [("adversary", (
                f"{type(error).__name__}: {error} at {Path(place.filename).name}:{place.lineno}"
            ))])  # fmt: skip
        outcomes.append(out)
        if path:
            with open(path, "a") as file:
                file.write(record.line(out))
        for kind, message in out.violations:
            report(f"seed {seed}: {kind}: {message}")
            report(f"    {out.line}")
            report(f"    python tests/adversary/congruence.py --only {seed}{more}")
        if out.slow:
            report(f"seed {seed}: slow: {out.slow}\n    {out.line}")
        if every and count % every == 0:
            report(summary(outcomes))
    return outcomes


def summary(outcomes):
    """Return the counts as text."""
    return record.summary([json.loads(record.line(out)) for out in outcomes])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300, help="problems to draw")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--only", type=int, help="check the problem of this seed alone")
    parser.add_argument("--size", type=int, help="most rows")
    parser.add_argument(
        "--pattern", choices=list(patterns.PATTERNS), help="problems of this one only"
    )
    parser.add_argument("--limit", type=float, default=SECONDS, help="seconds a call may take")
    parser.add_argument("--record", help="file that outcomes are added to; its seeds are left out")
    parser.add_argument("--sum", nargs="+", help="add up these files, and do nothing else")
    parser.add_argument("--every", type=int, default=500, help="problems between two summaries")
    parser.add_argument("--verbose", action="store_true", help="print what was computed")
    options = parser.parse_args(arguments)
    if options.sum:
        records = record.read(options.sum)
        _print(record.summary(records))
        return 1 if any(one["kinds"] for one in records) else 0
    seeds = (
        range(options.seed, options.seed + options.count)
        if options.only is None
        else [options.only]
    )
    outcomes = run(
        seeds, options.size, options.limit, _print, options.every, options.pattern, options.record
    )
    if options.only is not None or options.verbose:
        for out in outcomes:
            _print(f"seed {out.seed}: {out.line}\n  {out}")
    _print(record.summary(record.read([options.record])) if options.record else summary(outcomes))
    return 1 if any(out.violations for out in outcomes) else 0


def _print(text):
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
