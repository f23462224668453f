"""Processes on a pseudo-terminal, as a user sees them."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import struct
import subprocess
import time


class Terminal(io.StringIO):
    """A stream that claims to be a terminal of unknown width."""

    def isatty(self):
        return True


def opened(columns):
    """Return the two ends of a pseudo-terminal with this many columns."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    return ours, theirs


def until(end, is_done, limit=60.0):
    """Yield pairs (time, text) of the output, until ``done(text so far)``, the end or the limit."""
    parts, start = [], time.monotonic()
    while time.monotonic() - start < limit:
        ready, _, _ = select.select([end], [], [], 0.1)
        if ready:
            try:
                data = os.read(end, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not data:
                break
            parts.append((time.monotonic() - start, data.decode("utf-8", "replace")))
        if is_done("".join(part for _, part in parts)):
            break
    return parts


def run_on_terminal(command, columns=100, both=False, interrupt=None, **options):
    """Run a command with stderr on a terminal, or both streams; returns (code, stdout, pairs).

    Ctrl-C is sent to it as soon as the words ``interrupt`` are shown.
    """
    ours, theirs = opened(columns)
    options.setdefault("env", {**os.environ})
    options["env"] = {**options["env"], "TERM": "xterm-256color"}
    options["env"].pop("COLUMNS", None)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs if both else subprocess.PIPE,
        stderr=theirs, text=True, **options,
    )  # fmt: skip
    os.close(theirs)
    screen = []
    try:
        if interrupt is not None:
            screen = until(ours, lambda text: interrupt in text)
            process.send_signal(signal.SIGINT)
        screen += until(ours, lambda _: False)
        out = "" if both else process.stdout.read()
        return process.wait(timeout=60), out, screen
    finally:
        process.kill()
        os.close(ours)


def screen(text, columns=1000):
    """Return the lines that a terminal with this many columns shows after a text.

    Of sequences that begin with ESC it knows "[A", a line up; others, such as colours, show nothing.
    """
    lines, row, at = [[]], 0, 0
    for sign in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", text, re.DOTALL):
        if sign == "\r":
            at = 0
        elif sign == "\x1b[A":
            row -= 1
        elif sign == "\n":
            row, at = row + 1, 0
        elif not sign.startswith("\x1b"):
            if at == columns:
                row, at = row + 1, 0
            lines.extend([] for _ in range(row + 1 - len(lines)))
            lines[row].extend(" " * (at + 1 - len(lines[row])))
            lines[row][at] = sign
            at += 1
    lines.extend([] for _ in range(row + 1 - len(lines)))
    return ["".join(line).rstrip() for line in lines]
