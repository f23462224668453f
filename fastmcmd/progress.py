"""What a waiting person sees: what is done, how far, the certificate so far, time left."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Progress", "Sweep", "clear_line", "duration"]

_LOOK = 0.1  # seconds between two looks at a pass on a terminal: more are not seen
_LINE = 2.0  # seconds between two lines of a pass in a file, where each stays
_TICK = 0.5  # seconds without news after which a terminal is drawn again: its clock shows seconds
# tqdm cuts formats with a "{bar}" to the width of the terminal: what matters least comes last.
_WORDS = "fastmcmd {elapsed}{bar}{desc}{postfix}"
_PASS = "fastmcmd {elapsed} {percentage:3.0f}%|{bar}| {desc}{postfix}"
_GONE = (OSError, ValueError)  # of a terminal that has gone, of a closed stream: the work goes on


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


class _Line:
    """Where work is told: a bar of tqdm on a terminal or in a notebook, else lines that stay."""

    def __init__(self, stream: Any, leave: bool) -> None:
        self.users, self.heading = 0, ""
        self._stream, self._leave = stream, leave
        self._terminal, self._tqdm = _how(stream)
        self._bar: Any = None  # made with the first words
        self._last = -math.inf

    @property
    def due(self) -> bool:
        """Whether it is time for another look at the same work."""
        return time.perf_counter() - self._last >= (_LINE if self._tqdm is None else _LOOK)

    def show(self, name: str, share: float | None, rest: str) -> None:
        """Show now what is being done, the share that is done if it is known, and the rest."""
        name = f"{self.heading}: {name}" if self.heading else name
        self._last = time.perf_counter()
        with contextlib.suppress(*_GONE):
            if self._tqdm is not None:
                self._draw(name, share, rest)
                return
            done = "" if share is None else f" {share:.0%}"
            # One write, which Ctrl-C does not part.
            self._stream.write(f"fastmcmd: {name}{done}{', ' * bool(rest)}{rest}\n")
            self._stream.flush()

    def _draw(self, name: str, share: float | None, rest: str) -> None:
        shape, cells = (_WORDS, 1) if share is None else (_PASS, 12)  # 12: words have room at 80
        if self._terminal:  # notebooks draw a bar of their own, for "{bar}" as it is
            shape = shape.replace("{bar}", f"{{bar:{cells}}}")
        if self._bar is None:
            # None: stay, but not below a bar of somebody else. Notebooks know True only.
            leave = None if self._leave and self._terminal else self._leave
            self._bar = self._tqdm(
                desc=name, total=1.0, bar_format=shape, file=self._stream, leave=leave,
                dynamic_ncols=True,
            )  # fmt: skip
            threading.Thread(target=_tick, args=(weakref.ref(self),), daemon=True).start()
        with self._bar.get_lock():
            # The total is one, not the rows: with another total tqdm begins its clock anew.
            self._bar.total, self._bar.n = (None, 0.0) if share is None else (1.0, share)
            self._bar.bar_format = shape
            self._bar.set_description_str(name, refresh=False)
            self._bar.set_postfix_str(rest, refresh=False)
            self._bar.refresh(nolock=True)

    def tick(self) -> bool:
        """Draw the time of now unless something has just been drawn; returns False after `close`."""
        if time.perf_counter() - self._last >= _TICK:
            with self._bar.get_lock():
                self._bar.refresh(nolock=True)
        return not self._bar.disable

    def clear(self) -> None:
        """Make the line empty; it comes back with the next words or tick."""
        self._last = time.perf_counter()
        with contextlib.suppress(*_GONE):
            if self._bar is not None:
                with self._bar.get_lock():  # which tqdm would keep where writing fails
                    self._bar.clear(nolock=True)

    def close(self) -> None:
        """End the line."""
        with contextlib.suppress(*_GONE):
            if self._bar is not None:
                self._bar.close()


def _how(stream: Any) -> tuple[bool, Any]:
    """Return whether a stream is a terminal, and tqdm's class where a line can be drawn, else None."""
    asked = getattr(stream, "isatty", None)
    terminal = asked is not None and bool(asked())
    # As tqdm itself tells notebooks, where only standard error is shown.
    if not terminal and not ("ipykernel.zmqshell" in sys.modules and stream is sys.stderr):
        return False, None
    try:
        from tqdm.auto import tqdm
    except ImportError:  # lines say the same
        return terminal, None
    return terminal, tqdm


def _tick(found: weakref.ref[_Line]) -> None:
    """Move the clock of a line on, so that long work looks alive: tqdm draws with news only."""
    with contextlib.suppress(*_GONE):
        while (line := found()) is not None and line.tick():
            del line  # so that a forgotten line ends
            time.sleep(_TICK)


# Work within other work tells on the same line: the open lines by thread and stream.
_OPEN: weakref.WeakValueDictionary[tuple[int, int], _Line] = weakref.WeakValueDictionary()


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


class Progress(contextlib.AbstractContextManager["Progress"]):
    """Words on standard error that tell what is done, and follow the certificate to its target.

    Work within other work, such as the CCE within an evaluation, shares the line of the outer one. It
    can be used in ``with``, which closes it.

    Parameters
    ----------
    shown : bool
        Whether anything is told at all.
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
        self._line = _line(stream, leave) if seen else None

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

    def tell(self, name: str, share: float | None = None, rest: str = "") -> None:
        """Show now what is being done, the share that is done if it is known, and more words."""
        if self._line is not None:
            count = self._products
            done = f"{count} product{'s' * (count > 1)}, " if count else ""
            self._line.show(done + name, share, rest)

    def stage(self, name: str) -> None:
        """Tell what is being done now."""
        self._history.clear()
        self.tell(name)

    def sweep(self, name: str, rows: int, work: float = 0.0, unit: str = "rows") -> Sweep:
        """Return what is told of a pass over ``rows`` rows of ``work`` operations each."""
        self.tell(name)
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
            share, left = self._outlook()
            told = f"{left}, certificate {certificate:.1e} (target {self.target:.1e}){speed}"
            self.tell("solving", share, told)

    def certified(self, certificate: float) -> None:
        """Tell the certificate that a pass has led to."""
        self.tell(f"certificate {certificate:.1e} (target {self.target:.1e})")

    def _outlook(self) -> tuple[float | None, str]:
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
            self.progress.tell(self.name, share, f"{left} left, {done}, {speed}")
