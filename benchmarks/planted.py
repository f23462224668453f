"""Does `compare.py` find planted slowdowns? Three functions take 15 % longer.

``python benchmarks/planted.py [--share 0.15] [--rounds 21]``

A copy of the package holds the three functions with extra CPU time, in proportion to their own.
`compare.py` compares it with the package itself, on the three cases of these functions and on five others.
Only the three may be reported.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
# File, function, and the case that it takes nearly all the time of.
PLANTED = (
    ("predictive/draws.py", "Draws.crps", "Families.time_crps('draws')"),
    ("predictive/count_base.py", "Counts.log_prob", "Families.time_log_score('poisson')"),
    ("backends/tall_skinny.py", "row_squares", "TallSkinny.time_row_squares(400000)"),
)
OTHER_CASES = (
    "Families.time_crps('poisson')",
    "Families.time_pit('draws')",
    "Families.time_pit('poisson')",
    "TallSkinny.time_inner(400000)",
    "TallSkinny.time_scaled(400000)",
)
SLOWED = """

def _slowed(function):
    import functools
    import time

    @functools.wraps(function)
    def slow(*args, **kwargs):
        start = time.process_time()
        result = function(*args, **kwargs)
        now = time.process_time()
        end = now + {share} * (now - start)
        while now < end:
            now = time.process_time()
        return result

    return slow


{name} = _slowed({name})
"""


def plant(folder: Path, share: float) -> None:
    """Write a copy of the package whose three functions take longer by this share."""
    skip = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "fastmcmd", folder / "fastmcmd", ignore=skip)
    for file, name, _ in PLANTED:
        with (folder / "fastmcmd" / file).open("a", encoding="utf-8") as stream:
            stream.write(SLOWED.format(share=share, name=name))


def reported(folder: Path, rounds: int) -> set[str]:
    """Return the cases that `compare.py` reports as slower."""
    names = [case for *_, case in PLANTED] + list(OTHER_CASES)
    pattern = "|".join(f"^{re.escape(name)}$" for name in names)
    command = [sys.executable, str(FOLDER / "compare.py"), str(ROOT), str(folder)]
    command += ["--select", pattern, "--rounds", str(rounds)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    print(process.stdout, process.stderr, flush=True)
    *_, last = process.stdout.partition("slower in both runs:")
    return {line.split(maxsplit=2)[2] for line in last.splitlines() if line.strip()}


def main() -> int:
    """Print what was planted and what was reported; return 1 unless these agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--share", type=float, default=0.15, help="further share of the time")
    parser.add_argument("--rounds", type=int, default=21, help="pairs of samples of a case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        plant(Path(temporary), options.share)
        slower = reported(Path(temporary), options.rounds)
    expected = {case for *_, case in PLANTED}
    print(f"missed: {sorted(expected - slower)}; wrongly reported: {sorted(slower - expected)}")
    return int(slower != expected)


if __name__ == "__main__":
    sys.exit(main())
