"""What a waiting person sees: products done, certificate so far, time left."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

__all__ = ["Progress", "Sweep"]

_REFRESH = 0.2  # seconds between two lines of a pass


class Progress:
    """A line on standard error that follows the certificate down to its target.

    Parameters
    ----------
    shown : bool
        Whether anything is printed at all.
    target : float
        The certificate at which the work ends.
    stream : file, optional
        Where to print; standard error by default.
    """

    def __init__(self, shown: bool, target: float, stream: Any = None) -> None:
        self.target = target
        self._stream = stream or sys.stderr
        self._products = 0
        self._before = time.perf_counter()
        self._history: list[tuple[float, float]] = []
        self._bar = self._make_bar() if shown else None
        self._shown = shown

    def _make_bar(self) -> Any:
        try:
            from tqdm.auto import tqdm
        except ImportError:  # the plain line below says the same
            return None
        return tqdm(
            desc="fastmcmd",
            file=self._stream,
            dynamic_ncols=True,
            bar_format="{desc} {elapsed}{postfix}",
        )

    def product(self, certificate: float, work: float = 0.0) -> None:
        """Tell that one more product with the Gram matrix, of ``work`` operations, is done."""
        self._products += 1
        if not self._shown:
            return
        now = time.perf_counter()
        self._history.append((now, max(certificate, 1e-300)))
        told = f"certificate {certificate:.1e} (target {self.target:.1e}), {self._time_left()}"
        if work:
            told = f"{work / 1e9 / max(now - self._before, 1e-9):.0f} GFLOP/s, {told}"
        self._before = now
        self._tell(told, 1)

    def sweep(self, name: str, rows: int, work: float = 0.0) -> Sweep:
        """Return what is told of a pass over ``rows`` rows of ``work`` operations each."""
        return Sweep(self, name, rows, work)

    @property
    def shown(self) -> bool:
        """Whether anything is printed."""
        return self._shown

    def certified(self, certificate: float) -> None:
        """Tell the certificate that a pass has led to."""
        if self._shown:
            self._tell(f"certificate {certificate:.1e} (target {self.target:.1e})", 0)

    def stage(self, name: str) -> None:
        """Tell what is being done now."""
        if self._shown:
            self._history.clear()
            self._tell(name, 0)

    def tell(self, text: str) -> None:
        """Show a line now."""
        if self._shown:
            self._tell(text, 0)

    def _tell(self, text: str, step: int) -> None:
        text = f"{self._products} products, {text}" if self._products else text
        if self._bar is not None:
            self._bar.set_postfix_str(text)
            self._bar.n += step
        else:
            end = "" if self._stream.isatty() else "\n"
            start = "\r\x1b[K" if self._stream.isatty() else ""
            print(f"{start}fastmcmd: {text}", end=end, file=self._stream)
            self._stream.flush()

    def _time_left(self) -> str:
        """Extrapolate the logarithm of the certificate, which falls about linearly."""
        if len(self._history) < 2:
            return "time left unknown"
        (t0, c0), (t1, c1) = self._history[0], self._history[-1]
        if c1 >= c0:
            return "time left unknown"
        rest = math.log(c1 / self.target) if c1 > self.target else 0.0
        return f"{(t1 - t0) * rest / math.log(c0 / c1):.1f} s left"

    def close(self) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()
        elif self._shown and self._stream.isatty():
            print(file=self._stream)


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
    """

    def __init__(self, progress: Progress, name: str, rows: int, work: float) -> None:
        self._progress, self._name, self._rows, self._work = progress, name, rows, work
        self._start = self._last = time.perf_counter()
        self._first: int | None = None

    def done(self, rows: int) -> None:
        """Tell that the first ``rows`` rows are done."""
        if not self._progress.shown:
            return
        now = time.perf_counter()
        if self._first is None:  # the first block also paid for what is made once
            self._first, self._start = rows, now
            return
        if now - self._last < _REFRESH and rows < self._rows:
            return
        self._last = now
        rate = (rows - self._first) / max(now - self._start, 1e-9)
        told = f"{rate * self._work / 1e9:.0f} GFLOP/s" if self._work else f"{rate:,.0f} rows/s"
        left = (self._rows - rows) / max(rate, 1e-9)
        self._progress.tell(
            f"{self._name}: {rows:,} of {self._rows:,} rows, {told}, {left:.1f} s left"
        )
