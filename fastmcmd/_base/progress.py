"""Progress messages: the current work, its share, the certificate so far, and the remaining time."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

from fastmcmd._base.progress_line import open_line

__all__ = ["Progress", "Sweep", "duration"]


def duration(seconds: float) -> str:
    """Return a nonnegative number of seconds as readable text.

    Examples
    --------
    >>> [duration(s) for s in (0.04, 12.3, 200, 8000)]
    ['0.0 s', '12 s', '3 min 20 s', '2 h 13 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole_seconds = round(seconds)
    if whole_seconds < 60:
        return f"{whole_seconds} s"
    if whole_seconds < 3600:
        return f"{whole_seconds // 60} min {whole_seconds % 60} s"
    return f"{whole_seconds // 3600} h {whole_seconds % 3600 // 60} min"


class Progress(contextlib.AbstractContextManager["Progress"]):
    """Progress messages on standard error, which follow the certificate to its target.

    Nested work, such as the CCE within an evaluation, shares the line of the outer work. As a context
    manager, it closes the line at the end of the block.

    Parameters
    ----------
    enabled : bool
        Whether to show anything.
    target : float
        The certificate at which the work ends.
    stream : file, optional
        Destination of messages. Default: standard error.
    leave : bool, default True
        Whether the last message stays on a terminal, unless it is below another bar.

    Notes
    -----
    On a terminal and in a notebook, messages are a `tqdm <https://tqdm.github.io>`_ bar. Elsewhere, and
    without tqdm, they are lines, and a pass over rows writes one line every two seconds.

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
        self, enabled: bool, target: float, stream: TextIO | None = None, *, leave: bool = True
    ) -> None:
        self.target = target
        self._products = 0
        self._before = time.perf_counter()
        self._history: list[tuple[float, float]] = []
        stream = sys.stderr if stream is None else stream
        # Programs without a console have no standard error.
        has_output = enabled and stream is not None and not getattr(stream, "closed", False)
        self._line = open_line(stream, leave) if has_output else None

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def enabled(self) -> bool:
        """Whether messages are shown."""
        return self._line is not None

    @property
    def due(self) -> bool:
        """Whether it is time for another message about the same work."""
        return self._line is not None and self._line.due

    def report(self, name: str, share: float | None = None, details: str = "") -> None:
        """Show the current work, its finished share if known, and further text."""
        if self._line is not None:
            count = self._products
            product_count = f"{count} product{'s' * (count > 1)}, " if count else ""
            self._line.show(product_count + name, share, details)

    def stage(self, name: str) -> None:
        """Show the name of the current work."""
        self._history.clear()
        self.report(name)

    def sweep(self, name: str, rows: int, work: float = 0.0, unit: str = "rows") -> Sweep:
        """Return the progress of a pass over ``rows`` rows of ``work`` operations each."""
        self.report(name)
        return Sweep(self, name, rows, work, unit)

    def product(self, certificate: float, work: float = 0.0) -> None:
        """Report one more product with the Gram matrix, of ``work`` operations."""
        self._products += 1
        if self._line is None:
            return
        now = time.perf_counter()
        speed = f", {work / 1e9 / max(now - self._before, 1e-9):.0f} GFLOP/s" if work else ""
        self._before = now
        self._history.append((now, max(certificate, 1e-300)))
        if len(self._history) == 1 or certificate <= self.target or self.due:
            share, remaining_time = self._forecast()
            message = (
                f"{remaining_time}, certificate {certificate:.1e} (target {self.target:.1e}){speed}"
            )
            self.report("solving", share, message)

    def certified(self, certificate: float) -> None:
        """Show the certificate after a pass."""
        self.report(f"certificate {certificate:.1e} (target {self.target:.1e})")

    def _forecast(self) -> tuple[float | None, str]:
        """Return the finished share, None if unknown, and text with the remaining time.

        The logarithm of the certificate, which falls about linearly, is extrapolated.
        """
        (t0, c0), (t1, c1) = self._history[0], self._history[-1]
        if len(self._history) < 2 or c1 >= c0:
            return None, "time left unknown"
        if c1 <= self.target:
            return 1.0, f"{duration(0.0)} left"
        log_remaining, log_finished = math.log(c1 / self.target), math.log(c0 / c1)
        return log_finished / (
            log_finished + log_remaining
        ), f"{duration((t1 - t0) * log_remaining / log_finished)} left"

    def under(self, heading: str) -> None:
        """Prefix all further messages, including those of nested work, with a heading."""
        if self._line is not None:
            self._line.heading = heading

    def clear(self) -> None:
        """Clear the line, so that other text can be written to the terminal."""
        if self._line is not None:
            self._line.clear()

    def close(self) -> None:
        """End the line if this object opened it."""
        line, self._line = self._line, None
        if line is not None:
            line.users -= 1
            if not line.users:
                line.close()


@dataclass
class Sweep:
    """Progress of a pass over rows: finished rows, rate and remaining time.

    Parameters
    ----------
    progress : Progress
        The progress messages.
    name : str
        Name of the pass.
    rows : int
        Total number of rows.
    work : float
        Operations per row, for the rate; 0 to show rows per second instead.
    unit : str
        Name of what is counted.
    """

    progress: Progress
    name: str
    rows: int
    work: float
    unit: str
    _start: float = field(default_factory=time.perf_counter, init=False)
    _first: int = field(default=0, init=False)
    _is_complete: bool = field(default=False, init=False)

    def advance(self, rows: int) -> None:
        """Report that the first ``rows`` rows are finished."""
        if not self.progress.enabled or self._is_complete:
            return
        now, is_last = time.perf_counter(), rows >= self.rows
        rows = min(rows, self.rows)  # sizes of files are estimates
        if not self._first and not is_last:  # the first block also paid the start-up costs
            self._first, self._start = rows, now
        elif is_last or self.progress.due:
            self._is_complete = is_last
            share = rows / self.rows if self.rows else 1.0
            row_count = f"{rows:,} of {self.rows:,} {self.unit}"
            if rows <= self._first and not is_last:  # no rate yet
                self.progress.report(self.name, share, row_count)
                return
            rate = (rows - self._first) / max(now - self._start, 1e-9)
            work = f"{rate * self.work / 1e9:.0f} GFLOP/s"
            remaining_time = duration((self.rows - rows) / max(rate, 1e-9))
            per_second = f"{rate:.1g}" if 0 < rate < 0.95 else f"{rate:,.0f}"
            speed = work if self.work else f"{per_second} {self.unit}/s"
            self.progress.report(self.name, share, f"{remaining_time} left, {row_count}, {speed}")
