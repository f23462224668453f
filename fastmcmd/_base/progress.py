"""What a waiting person sees: what is done, how far, the certificate so far, time left."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from fastmcmd._base.progress_line import open_line

__all__ = ["Progress", "Sweep", "duration"]


def duration(seconds: float) -> str:
    """Return seconds, at least 0, as people say them.

    Examples
    --------
    >>> [duration(s) for s in (0.04, 12.3, 200, 8000)]
    ['0.0 s', '12 s', '3 min 20 s', '2 h 13 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Progress(contextlib.AbstractContextManager["Progress"]):
    """Words on standard error that tell what is done, and follow the certificate to its target.

    Work within other work, such as the CCE within an evaluation, shares the line of the outer one. It
    can be used in ``with``, which closes it.

    Parameters
    ----------
    shown : bool
        Whether anything is shown.
    target : float
        The certificate at which the work ends.
    stream : file, optional
        Where to tell; default standard error.
    leave : bool, default True
        Whether the last words stay on a terminal, unless they stand below another bar.

    Notes
    -----
    On a terminal and in a notebook it is a bar of `tqdm <https://tqdm.github.io>`_; elsewhere, and
    without tqdm, lines, of which a pass over rows has one every two seconds.

    Examples
    --------
    >>> import io
    >>> stream = io.StringIO()
    >>> with Progress(True, 1e-6, stream) as progress:
    ...     progress.stage("Cholesky factorisation")
    >>> print(stream.getvalue(), end="")
    fastmcmd: Cholesky factorisation
    """

    def __init__(
        self, shown: bool, target: float, stream: Any = None, *, leave: bool = True
    ) -> None:
        self.target = target
        self._products = 0
        self._before = time.perf_counter()
        self._history: list[tuple[float, float]] = []
        stream = sys.stderr if stream is None else stream
        # Programs without a console have no standard error.
        seen = shown and stream is not None and not getattr(stream, "closed", False)
        self._line = open_line(stream, leave) if seen else None

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def shown(self) -> bool:
        """Whether anything is told."""
        return self._line is not None

    @property
    def due(self) -> bool:
        """Whether it is time for another look at the same work."""
        return self._line is not None and self._line.due

    def report(self, name: str, share: float | None = None, rest: str = "") -> None:
        """Show now what is being done, the share that is done if it is known, and more words."""
        if self._line is not None:
            count = self._products
            done = f"{count} product{'s' * (count > 1)}, " if count else ""
            self._line.show(done + name, share, rest)

    def stage(self, name: str) -> None:
        """Tell what is being done now."""
        self._history.clear()
        self.report(name)

    def sweep(self, name: str, rows: int, work: float = 0.0, unit: str = "rows") -> Sweep:
        """Return what is told of a pass over ``rows`` rows of ``work`` operations each."""
        self.report(name)
        return Sweep(self, name, rows, work, unit)

    def product(self, certificate: float, work: float = 0.0) -> None:
        """Tell that one more product with the Gram matrix, of ``work`` operations, is done."""
        self._products += 1
        if self._line is None:
            return
        now = time.perf_counter()
        speed = f", {work / 1e9 / max(now - self._before, 1e-9):.0f} GFLOP/s" if work else ""
        self._before = now
        self._history.append((now, max(certificate, 1e-300)))
        if len(self._history) == 1 or certificate <= self.target or self.due:
            share, left = self._forecast()
            message = f"{left}, certificate {certificate:.1e} (target {self.target:.1e}){speed}"
            self.report("solving", share, message)

    def certified(self, certificate: float) -> None:
        """Tell the certificate that a pass has led to."""
        self.report(f"certificate {certificate:.1e} (target {self.target:.1e})")

    def _forecast(self) -> tuple[float | None, str]:
        """Return the share that is done, None where it is not known, and the time left in words.

        The logarithm of the certificate, which falls about linearly, is extrapolated.
        """
        (t0, c0), (t1, c1) = self._history[0], self._history[-1]
        if len(self._history) < 2 or c1 >= c0:
            return None, "time left unknown"
        if c1 <= self.target:
            return 1.0, f"{duration(0.0)} left"
        rest, done = math.log(c1 / self.target), math.log(c0 / c1)
        return done / (done + rest), f"{duration((t1 - t0) * rest / done)} left"

    def under(self, heading: str) -> None:
        """Begin all that is told from now on, by work within this too, with some words."""
        if self._line is not None:
            self._line.heading = heading

    def clear(self) -> None:
        """Make room for other words on the terminal."""
        if self._line is not None:
            self._line.clear()

    def close(self) -> None:
        """End the line, where it is this one's own."""
        line, self._line = self._line, None
        if line is not None:
            line.users -= 1
            if not line.users:
                line.close()


@dataclass
class Sweep:
    """A pass over rows: rows done, their rate, time left.

    Parameters
    ----------
    progress : Progress
        Where it is told.
    name : str
        What the pass is for.
    rows : int
        All rows.
    work : float
        Operations a row, for the rate; 0 where rows a second say more.
    unit : str
        What is counted.
    """

    progress: Progress
    name: str
    rows: int
    work: float
    unit: str
    _start: float = field(default_factory=time.perf_counter, init=False)
    _first: int = field(default=0, init=False)

    def done(self, rows: int) -> None:
        """Tell that the first ``rows`` rows are done."""
        if not self.progress.shown:
            return
        now, ended = time.perf_counter(), rows >= self.rows
        rows = min(rows, self.rows)  # sizes of files are estimates
        if not self._first and not ended:  # the first block also paid for what is made once
            self._first, self._start = rows, now
        elif ended or self.progress.due:
            rate = (rows - self._first) / max(now - self._start, 1e-9)
            work = f"{rate * self.work / 1e9:.0f} GFLOP/s"
            left = duration((self.rows - rows) / max(rate, 1e-9))
            done = f"{rows:,} of {self.rows:,} {self.unit}"
            speed = work if self.work else f"{rate:,.0f} {self.unit}/s"
            share = rows / self.rows if self.rows else 1.0
            self.progress.report(self.name, share, f"{left} left, {done}, {speed}")
