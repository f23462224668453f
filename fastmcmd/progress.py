"""What a waiting person sees: what is done, how far, the certificate so far, time left."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
import weakref
from types import TracebackType
from typing import Any

__all__ = ["Progress", "Sweep", "clear_line", "duration"]

_REFRESH = 0.1  # seconds between two looks of a terminal: more are not seen
_LINES = 2.0  # seconds between two lines of a pass in a file, where each stays
_TICK = 0.5  # seconds after which the clock of a terminal moves on its own
_BARS = (8, 24)  # least and most characters of a bar
_WORDS = 68  # columns for the words beside it, of which the longest names and the time left need about 64


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    Parameters
    ----------
    seconds : float
        At least 0.

    Returns
    -------
    str

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


class _Line:
    """Where work is told: one line of a terminal or notebook that is written anew, or lines of a file.

    On a terminal a thread moves its clock on, so that long work looks alive.
    """

    def __init__(self, stream: Any, leave: bool) -> None:
        self.users = 0
        self.heading = ""
        self._stream, self._leave = stream, leave
        self._terminal = bool(stream.isatty())
        self._live = self._terminal or "ipykernel" in sys.modules  # notebooks know "\r", too
        coded = (getattr(stream, "encoding", None) or "").lower().startswith("utf")
        self._signs = ("━", "╌") if coded else ("#", ".")
        self._begin = time.perf_counter()
        self._text, self._drawn, self._width = "", -math.inf, 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        if self._terminal:
            threading.Thread(
                target=_tick, args=(weakref.ref(self), self._ended), daemon=True
            ).start()
        weakref.finalize(self, self._ended.set)

    def show(self, text: str) -> None:
        """Show a text now."""
        text = f"{self.heading}: {text}" if self.heading else text
        with self._lock:
            if not self._live:
                print(f"fastmcmd: {text}", file=self._stream, flush=True)
                return
            self._text = text
            self._draw()

    def refresh(self) -> None:
        """Draw once more, with the time of now, unless that has just been done."""
        with self._lock:
            if self._text and time.perf_counter() - self._drawn >= _TICK:
                self._draw()

    def bar(self, share: float) -> str:
        """Return a bar of which a share is done; nothing in a file."""
        if not self._live:
            return ""
        least, most = _BARS
        wide = min(max(self._columns() - _WORDS, least), most)
        full = min(max(int(share * wide), 0), wide)
        return f" {self._signs[0] * full}{self._signs[1] * (wide - full)}"

    @property
    def pause(self) -> float:
        """Seconds between two looks."""
        return _REFRESH if self._live else _LINES

    def clear(self) -> None:
        """Make the line empty; the next text is drawn there."""
        with self._lock:
            if self._live and self._width:
                self._write("\r" + " " * self._width + "\r")
                self._width = 0

    def close(self) -> None:
        """End the line."""
        self._ended.set()
        if not self._leave:
            self.clear()
        with self._lock:
            if self._live and self._width:
                self._write("\n")
            self._text, self._width = "", 0

    def _draw(self) -> None:
        self._drawn = time.perf_counter()
        gone = int(self._drawn - self._begin)
        line = f"fastmcmd {gone // 60}:{gone % 60:02d}  {self._text}"
        line = line[: self._columns() - 1]  # a longer one would scroll
        self._write("\r" + line.ljust(self._width))
        self._width = len(line)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError, AttributeError):  # no terminal, as in notebooks
            return 100

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _tick(line: weakref.ref[_Line], ended: threading.Event) -> None:
    while not ended.wait(_TICK):
        found = line()
        if found is None:
            return
        try:
            found.refresh()
        except (OSError, ValueError):  # the terminal has gone, or the stream is closed
            return
        del found


# Work within other work tells on the same line: the open lines by thread and stream.
_OPEN: weakref.WeakValueDictionary[tuple[int, int], _Line] = weakref.WeakValueDictionary()


class Progress:
    """A line on standard error that tells what is done, and follows the certificate to its target.

    Work within other work, such as the CCE within an evaluation, shares the line of the outer one. It
    can be used in ``with``, which closes it.

    Parameters
    ----------
    shown : bool
        Whether anything is printed at all.
    target : float
        The certificate at which the work ends.
    stream : file, optional
        Where to print; standard error by default.
    leave : bool
        Whether the last words stay on a terminal.

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
        self._line = _line(sys.stderr if stream is None else stream, leave) if shown else None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def product(self, certificate: float, work: float = 0.0) -> None:
        """Tell that one more product with the Gram matrix, of ``work`` operations, is done."""
        self._products += 1
        if self._line is None:
            return
        now = time.perf_counter()
        self._history.append((now, max(certificate, 1e-300)))
        share, left = self._outlook()
        told = f"{left}, certificate {certificate:.1e} (target {self.target:.1e})"
        if share is not None:
            told = f"solving{self._line.bar(share)} {share:4.0%}, {told}"
        if work:
            told = f"{told}, {work / 1e9 / max(now - self._before, 1e-9):.0f} GFLOP/s"
        self._before = now
        self.tell(told)

    def sweep(self, name: str, rows: int, work: float = 0.0, unit: str = "rows") -> Sweep:
        """Return what is told of a pass over ``rows`` rows of ``work`` operations each."""
        if self._line is not None:
            self.tell(name)
        return Sweep(self, name, rows, work, unit)

    @property
    def shown(self) -> bool:
        """Whether anything is printed."""
        return self._line is not None

    @property
    def pause(self) -> float:
        """Seconds between two looks at a pass."""
        return math.inf if self._line is None else self._line.pause

    def bar(self, share: float) -> str:
        """Return a bar of which a share is done, where bars can be seen."""
        return "" if self._line is None else self._line.bar(share)

    def certified(self, certificate: float) -> None:
        """Tell the certificate that a pass has led to."""
        self.tell(f"certificate {certificate:.1e} (target {self.target:.1e})")

    def under(self, heading: str) -> None:
        """Begin all that is told from now on, by work within this too, with some words."""
        if self._line is not None:
            self._line.heading = heading

    def stage(self, name: str) -> None:
        """Tell what is being done now."""
        self._history.clear()
        self.tell(name)

    def tell(self, text: str) -> None:
        """Show a line now."""
        if self._line is not None:
            count = self._products
            done = f"{count} product{'s' * (count > 1)}, " if count else ""
            self._line.show(done + text)

    def clear(self) -> None:
        """Make room for other words on the terminal."""
        if self._line is not None:
            self._line.clear()

    def _outlook(self) -> tuple[float | None, str]:
        """Extrapolate the logarithm of the certificate, which falls about linearly.

        Returns the share that is done (None where it is not known), and the time left in words.
        """
        (t0, c0), (t1, c1) = self._history[0], self._history[-1]
        if len(self._history) < 2 or c1 >= c0:
            return None, "time left unknown"
        if c1 <= self.target:
            return 1.0, f"{duration(0.0)} left"
        rest, done = math.log(c1 / self.target), math.log(c0 / c1)
        return done / (done + rest), f"{duration((t1 - t0) * rest / done)} left"

    def close(self) -> None:
        """End the line, where it is this one's own."""
        line, self._line = self._line, None
        if line is not None:
            line.users -= 1
            if not line.users:
                line.close()


def _line(stream: Any, leave: bool) -> _Line:
    """Return the open line of this thread on a stream, or a new one."""
    place = threading.get_ident(), id(stream)
    line = _OPEN.get(place)
    if line is None or not line.users:
        _OPEN[place] = line = _Line(stream, leave)
    line.users += 1
    return line


def clear_line() -> None:
    """Make the open line of this thread on standard error empty, for words that stay."""
    line = _OPEN.get((threading.get_ident(), id(sys.stderr)))
    if line is not None:
        line.clear()


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

    def __init__(self, progress: Progress, name: str, rows: int, work: float, unit: str) -> None:
        self._progress, self._name, self._rows, self._work = progress, name, rows, work
        self._unit = unit
        self._start = self._last = time.perf_counter()
        self._first = 0

    def done(self, rows: int) -> None:
        """Tell that the first ``rows`` rows are done."""
        if not self._progress.shown:
            return
        now = time.perf_counter()
        if not self._first and rows < self._rows:  # the first block also paid for what is made once
            self._first, self._start = rows, now
            return
        if now - self._last < self._progress.pause and rows < self._rows:
            return
        self._last = now
        rate = (rows - self._first) / max(now - self._start, 1e-9)
        speed = (
            f"{rate * self._work / 1e9:.0f} GFLOP/s"
            if self._work
            else f"{rate:,.0f} {self._unit}/s"
        )
        share, left = rows / max(self._rows, 1), (self._rows - rows) / max(rate, 1e-9)
        # What matters least comes last: a narrow terminal cuts it off.
        self._progress.tell(
            f"{self._name}{self._progress.bar(share)} {share:4.0%}, {duration(left)} left, "
            f"{rows:,} of {self._rows:,} {self._unit}, {speed}"
        )
