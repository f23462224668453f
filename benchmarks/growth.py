"""How the time of every public function grows with the number of rows.

``python -m benchmarks.growth [--only WORD] [--rows 4000 32000] [--power 1.3] [--limit 60]``. The cases are
those of `benchmarks.first_calls`, each called warm, in one process. Listed are those whose time grows
faster than rows to the given power, and those stopped at the limit (seconds, of one call).
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import tempfile
import time
import warnings

from benchmarks.first_calls import DATA, cases

# Growth of shorter calls is that of their overhead.
_LEAST = 0.02


def _stop(*_):
    raise TimeoutError


def seconds(prepare, call, rows, limit):
    """Return the least of two times of a call; infinity where the first takes longer than the limit."""
    names = {}
    exec(re.sub(r"^n = \d+$", f"n = {rows}", DATA, flags=re.MULTILINE), names)
    exec(prepare, names)
    code, least = compile(call, "call", "exec"), math.inf
    signal.alarm(limit)
    try:
        for _ in range(2):
            start = time.perf_counter()
            exec(code, names)
            least = min(least, time.perf_counter() - start)
            if least > 1:
                break
    except TimeoutError:
        return math.inf
    finally:
        signal.alarm(0)
    return least


def main():
    """Print the cases that grow too fast, the fastest growth first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--rows", type=int, nargs=2, default=(4000, 32_000))
    parser.add_argument(
        "--power", type=float, default=1.3, help="growth from which cases are listed"
    )
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds after which a call is stopped"
    )
    arguments = parser.parse_args()
    few, many = arguments.rows
    signal.signal(signal.SIGALRM, _stop)
    warnings.simplefilter("ignore")
    fast, failed, count = [], [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, (prepare, call) in cases().items():
            if arguments.only not in name or name.startswith("$"):
                continue
            try:
                short, long = (
                    seconds(prepare, call, rows, arguments.limit) for rows in (few, many)
                )
            except Exception as error:
                failed.append(f"{name}: {error!r}"[:200])
                continue
            count += 1
            power = math.log(long / short) / math.log(many / few)
            print(f"{short:.4f} {long:.4f} {power:.2f} {name}", flush=True)
            if long > _LEAST and power > arguments.power:
                fast.append((power, short, long, name))
    print(f"\n{count} cases; seconds at {few:,} and {many:,} rows, and the power of growth:")
    for power, short, long, name in sorted(fast, reverse=True):
        print(f"{short:8.3f} {long:8.3f}  {power:.2f}  {name}")
    print("\n".join(failed))


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    main()
