"""What a waiting person sees: products done, certificate so far, time left."""

from __future__ import annotations

import math
import sys
import time
from typing import Any

__all__ = ["Progress"]


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
        self._history: list[tuple[float, float]] = []
        self._bar = self._make_bar() if shown else None
        self._shown = shown

    def _make_bar(self) -> Any:
        try:
            from tqdm.auto import tqdm
        except ImportError:  # the plain line below says the same
            return None
        return tqdm(unit="product", desc="fastmcmd", file=self._stream, dynamic_ncols=True)

    def product(self, certificate: float) -> None:
        """Tell that one more product with the Gram matrix is done."""
        self._products += 1
        if not self._shown:
            return
        self._history.append((time.perf_counter(), max(certificate, 1e-300)))
        told = f"certificate {certificate:.1e} (target {self.target:.1e}), {self._time_left()}"
        self._tell(told, 1)

    def stage(self, name: str) -> None:
        """Tell what is being done now."""
        if self._shown:
            self._history.clear()
            self._tell(name, 0)

    def _tell(self, text: str, step: int) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(text, refresh=step == 0)
            self._bar.update(step)
        else:
            end = "" if self._stream.isatty() else "\n"
            start = "\r\x1b[K" if self._stream.isatty() else ""
            print(f"{start}fastmcmd: {self._products} products, {text}", end=end, file=self._stream)
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
