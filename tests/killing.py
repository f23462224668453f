"""Runs that end early: a killed and restarted process, and a computation stopped at a save."""

import subprocess
import time

import numpy as np

from fastmcmd.checkpoint import Checkpoint

_KILLED = 3  # times at most
_STARTS = 20


def killed_until_done(command, longest, first=None):
    """Return how often a process that prints "begun" was killed, each time within ``longest`` seconds.

    The first time after ``first`` seconds where these are given.
    """
    rng = np.random.default_rng(int(time.time()))  # other moments each time
    killed = 0
    for attempt in range(_STARTS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "begun\n"
            if attempt < _KILLED:
                wait = rng.uniform(0, longest)
                time.sleep(first if first is not None and not attempt else wait)
                process.kill()
            process.wait()
        if process.returncode == 0:
            break
        killed += 1
    return killed


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
