"""Processes on a pseudo-terminal, as a person sees them."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time


def opened(columns):
    """Return the two ends of a pseudo-terminal of so many columns."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    return ours, theirs


def until(end, done, limit=60.0):
    """Return pairs (time, text) of what comes, until ``done(text so far)``, or the end or the limit."""
    found, start = [], time.monotonic()
    while time.monotonic() - start < limit:
        ready, _, _ = select.select([end], [], [], 0.1)
        if ready:
            try:
                data = os.read(end, 65536)
            except OSError:  # Linux says so when the other end is closed
                break
            if not data:
                break
            found.append((time.monotonic() - start, data.decode("utf-8", "replace")))
        if done("".join(part for _, part in found)):
            break
    return found


def watched(command, columns=100, both=False, **options):
    """Run a command with stderr on a terminal, or both streams; returns (code, stdout, pairs)."""
    ours, theirs = opened(columns)
    options.setdefault("env", {**os.environ})
    options["env"] = {**options["env"], "TERM": "xterm-256color"}
    options["env"].pop("COLUMNS", None)
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=theirs if both else subprocess.PIPE,
        stderr=theirs, text=True, **options,
    )  # fmt: skip
    os.close(theirs)
    try:
        shown = until(ours, lambda _: False)
        out = "" if both else process.stdout.read()
        return process.wait(timeout=60), out, shown
    finally:
        process.kill()
        os.close(ours)


def screen(text):
    """Return the lines that stay on a terminal, where "\\r" goes back to the begin of a line."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        cells, at = [], 0
        for sign in line:
            if sign == "\r":
                at = 0
                continue
            cells[at : at + 1] = [sign]
            at += 1
        lines.append("".join(cells).rstrip())
    return lines
