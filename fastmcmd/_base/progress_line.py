"""The progress line on a terminal, in a notebook or in a file."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
import weakref
from typing import Any, TextIO

__all__ = ["Line", "clear_line", "open_line"]

_LOOK = 0.1  # seconds between two updates of a pass on a terminal: more would not be noticed
_LINE = 2.0  # seconds between two lines of a pass in a file, where each line stays
_TICK = 0.5  # seconds without updates after which a terminal is redrawn: its clock shows seconds
# tqdm cuts formats with a "{bar}" to the width of the terminal, so the least important part comes last.
_WORDS = "fastmcmd {elapsed}{bar}{desc}{postfix}"
_PASS = "fastmcmd {elapsed} {percentage:3.0f}%|{bar}| {desc}{postfix}"
_STREAM_ERRORS = (OSError, ValueError)  # terminal lost, or stream closed: the work continues


class Line:
    """The output of progress messages: a tqdm bar on a terminal or in a notebook, else permanent lines."""

    def __init__(self, stream: TextIO, leave: bool) -> None:
        self.users, self.heading = 0, ""
        self._stream, self._leave = stream, leave
        self._terminal, self._tqdm = _how(stream)
        self._bar: Any = None  # made with the first words
        self._last = -math.inf

    @property
    def due(self) -> bool:
        """Whether it is time for another message about the same work."""
        return time.perf_counter() - self._last >= (_LINE if self._tqdm is None else _LOOK)

    def show(self, name: str, share: float | None, details: str) -> None:
        """Show the current work, its finished share if known, and further text."""
        name = f"{self.heading}: {name}" if self.heading else name
        self._last = time.perf_counter()
        with contextlib.suppress(*_STREAM_ERRORS):
            if self._tqdm is not None:
                self._draw(name, share, details)
                return
            percentage = "" if share is None else f" {share:.0%}"
            # A single write, which Ctrl-C cannot split.
            self._stream.write(f"fastmcmd: {name}{percentage}{', ' * bool(details)}{details}\n")
            self._stream.flush()

    def _draw(self, name: str, share: float | None, details: str) -> None:
        shape, cells = (_WORDS, 1) if share is None else (_PASS, 12)  # 12: words fit in 80 columns
        if self._terminal:  # notebooks draw their own bar for a literal "{bar}"
            shape = shape.replace("{bar}", f"{{bar:{cells}}}")
        if self._bar is None:
            # None: stay, but not below another program's bar. Notebooks know True only.
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
            self._bar.set_postfix_str(details, refresh=False)
            self._bar.refresh(nolock=True)

    def tick(self) -> bool:
        """Redraw the clock unless something has just been drawn, and return False after `close`."""
        if time.perf_counter() - self._last >= _TICK:
            with self._bar.get_lock():
                self._bar.refresh(nolock=True)
        return not self._bar.disable

    def clear(self) -> None:
        """Clear the line; the next message or tick redraws it."""
        self._last = time.perf_counter()
        with contextlib.suppress(*_STREAM_ERRORS):
            if self._bar is not None:
                with self._bar.get_lock():  # which tqdm would keep if writing fails
                    self._bar.clear(nolock=True)

    def close(self) -> None:
        """End the line."""
        with contextlib.suppress(*_STREAM_ERRORS):
            if self._bar is not None:
                self._bar.close()


def _how(stream: Any) -> tuple[bool, Any]:
    """Return whether a stream is a terminal, and the class of tqdm if a line can be drawn, else None."""
    isatty = getattr(stream, "isatty", None)
    terminal = isatty is not None and bool(isatty())
    # Notebooks are detected as tqdm does; they show only standard error.
    if not terminal and not ("ipykernel.zmqshell" in sys.modules and stream is sys.stderr):
        return False, None
    try:
        from tqdm.auto import tqdm
    except ImportError:  # lines say the same
        return terminal, None
    return terminal, tqdm


def _tick(reference: weakref.ref[Line]) -> None:
    """Advance the clock of a line during long work; tqdm itself redraws only on updates."""
    with contextlib.suppress(*_STREAM_ERRORS):
        while (line := reference()) is not None and line.tick():
            del line  # so that a forgotten line ends
            time.sleep(_TICK)


# Open lines by thread and stream, so that nested work uses the same line.
_OPEN: weakref.WeakValueDictionary[tuple[int, int], Line] = weakref.WeakValueDictionary()


def open_line(stream: TextIO, leave: bool) -> Line:
    """Return the open line of this thread on a stream, or a new one."""
    place = threading.get_ident(), id(stream)
    line = _OPEN.get(place)
    if line is None or not line.users:
        _OPEN[place] = line = Line(stream, leave)
    line.users += 1
    return line


def clear_line() -> None:
    """Clear the open line of this thread on standard error, for text that stays."""
    line = _OPEN.get((threading.get_ident(), id(sys.stderr)))
    if line is not None:
        line.clear()
