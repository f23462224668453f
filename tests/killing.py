"""A process that is killed at random moments, and started again until it ends by itself."""

import subprocess
import time

import numpy as np

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
