"""Attack every reader of files: flipped, cut, spliced and invented contents, in processes of their own.

``python tests/adversary/files.py --count 20000`` draws problems and prints each violation with a line that
reproduces it. A violation is a crash of the process, a hang, an exception that is neither a ValueError nor
a TypeError (from the command line: any that escapes), or contents that differ from what was written where a
checksum could tell.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from damages import DAMAGES, damage_file
from file_kinds import KINDS

SECONDS = 60.0  # without an answer, after which the reader counts as hung
ADDRESSES = 8 << 30  # bytes that a reader may map; the size that a header declares is not allocated


def work():
    """Read the files named on standard input, line by line, and print the outcome of each."""
    import faulthandler
    import resource

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    warnings.simplefilter("ignore")
    kinds, good = {}, {}
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        task = json.loads(line)
        kind, path = task["kind"], Path(task["path"])
        _, write, reader, sealed = kinds.setdefault(kind, KINDS[kind]())
        try:
            if task["write"]:
                write(path)
                good[kind] = reader(path)
                verdict = "ok"
            else:
                content, verdict = reader(path), "ok"
                if (
                    sealed
                    and not task["forged"]
                    and not all(
                        np.array_equal(a, b) for a, b in zip(content, good[kind], strict=True)
                    )
                ):
                    verdict = "other contents were accepted"
        except (ValueError, TypeError) as error:
            verdict = "refused" if str(error) and not task["write"] else f"empty message: {error!r}"
            if "fastmcmd-" in str(error):
                verdict = f"a temporary name: {error}"
        except BaseException:
            verdict = traceback.format_exc()[-1500:]
        print(json.dumps(verdict), file=answers, flush=True)


class Reader:
    """The reading process, restarted whenever it dies or hangs."""

    def __init__(self):
        self._process = None

    def ask(self, task):
        if self._process is None:
            command = [sys.executable, __file__, "--work"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._answers = queue.Queue()
            threading.Thread(
                target=_pump,
                args=(self._process.stdout, self._answers),
                daemon=True,
            ).start()
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=SECONDS)
        except queue.Empty:
            self.end()
            return f"no answer in {SECONDS:g} s"
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            error_text = self._process.stderr.read()[-1500:]
            code, self._process = self._process.returncode, None
            return f"the process died ({code}): {error_text}"
        return json.loads(line)

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _pump(pipe, answers):
    for line in pipe:
        answers.put(line)
    answers.put("")


def attack(count, seeds, kinds=None, only=None, how=None, tell=print):
    """Damage ``count`` files of each seed, all in the way ``how`` if given, and return the violations."""
    one_way = {way.__name__[1:]: way for way in DAMAGES}.get(how)
    kinds = list(kinds or KINDS)
    violations, reader, ready = [], Reader(), set()
    with tempfile.TemporaryDirectory() as folder:
        cases = range(count) if only is None else [only]
        for seed, case in itertools.product(seeds, cases):
            rng = np.random.default_rng([seed, case])
            kind = kinds[rng.integers(len(kinds))]
            suffix = KINDS[kind]()[0]
            good = Path(folder) / f"{list(KINDS).index(kind)}{suffix}"
            if kind not in ready or reader._process is None:
                ready = set() if reader._process is None else ready
                _remove(good)
                answer = reader.ask({"kind": kind, "path": str(good), "write": True})
                if answer != "ok":
                    raise RuntimeError(f"{kind} cannot be written and read: {answer}")
                ready.add(kind)
            path = Path(folder) / f"damaged{suffix}"
            _remove(path)
            _copy(good, path)
            damage = damage_file(path, rng, one_way)
            task = {"kind": kind, "path": str(path), "write": False, "forged": "_forge" in damage}
            answer = reader.ask(task)
            if answer not in ("ok", "refused"):
                again = f"python tests/adversary/files.py --seed {seed} --only {case}"
                again += "".join(f" --kind {kind!r}" for kind in kinds if len(kinds) < len(KINDS))
                again += f" --how {how}" if how else ""
                violations.append(f"{kind}, {damage}: {answer}\n    {again}")
                tell(violations[-1])
        reader.end()
    return violations


def _remove(path):
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(source, target):
    import shutil

    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, nargs="+", default=[0])
    parser.add_argument("--only", type=int, help="one case")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--how", choices=[way.__name__[1:] for way in DAMAGES])
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
    else:
        violations = attack(options.count, options.seed, options.kind, options.only, options.how)
        count = len(options.seed) * (options.count if options.only is None else 1)
        print(f"{count} files, {len(violations)} violations")
        sys.exit(bool(violations))
