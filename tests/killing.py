"""Runs that end early: a killed and restarted process, and a computation stopped at a save."""

import json
import os
import subprocess
import sys
import time

import numpy as np

from fastmcmd.checkpoint import Checkpoint

_KILLED = 3  # times at most
_STARTS = 20

# Runs the first part of a program once (imports, data), and the second in a process of its own each time.
_FORKS = """
import json, os, signal, sys, time

first_part, second_part, waits, starts = json.loads(sys.argv.pop(1))
scope = {"__name__": "__main__"}
exec(first_part, scope)
for attempt in range(starts):
    begun, begins = os.pipe()
    child = os.fork()
    if not child:
        os.write(begins, b"begun")
        exec(second_part, scope)
        sys.exit()
    assert os.read(begun, 5) == b"begun"
    if attempt < len(waits):
        time.sleep(waits[attempt])
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if not status:
        print(attempt)
        break
    assert attempt < len(waits) and status == signal.SIGKILL, status
"""


def kills_until_done(first_part, second_part, arguments, waits):
    """Return how often a process was killed before it ended: each time after a number of seconds."""
    job = json.dumps([first_part, second_part, list(waits), _STARTS])
    process = subprocess.run(
        [sys.executable, "-c", _FORKS, job, *map(os.fspath, arguments)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


def killed_until_done(first_part, second_part, arguments, longest, first=None):
    """Return how often a process was killed, each time within ``longest`` seconds of its second part.

    The first time after ``first`` seconds where these are given.
    """
    rng = np.random.default_rng(int(time.time()))  # other moments each time
    waits = rng.uniform(0, longest, _KILLED)
    if first is not None:
        waits[0] = first
    return kills_until_done(first_part, second_part, arguments, waits)


class Stopped(Exception):
    pass


def stopping(monkeypatch, after, stages=None):
    """Stop the computation at save number ``after``, which is not written."""
    save, saves_left = Checkpoint.save, [after]

    def counting(self, stage, state, *, force=False):
        saves_left[0] -= 1
        if saves_left[0] < 0:
            raise Stopped
        if stages is not None:
            stages.add(stage)
        save(self, stage, state, force=force)

    monkeypatch.setattr(Checkpoint, "save", counting)
