"""What a waiting person sees: one line on a terminal, few lines in a file, nothing elsewhere."""

from __future__ import annotations

import io
import os
import sys
import threading
import time

import numpy as np
import pytest
from cli_process import environment, run_cli

from fastmcmd import progress
from fastmcmd.progress import Progress, clear_line, duration

posix = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")


class Terminal(io.StringIO):
    """A stream that says it is a terminal; its width is not known."""

    def isatty(self):
        return True


@pytest.fixture
def quiet(monkeypatch):
    """No clock that moves on its own, so that what is shown is known."""
    monkeypatch.setattr(progress, "_TICK", 3600.0)


def last(stream):
    return stream.getvalue().rsplit("\r", 1)[-1].rstrip()


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"),
     (90061, "25 h 1 min")],
)  # fmt: skip
def test_durations(seconds, told):
    assert duration(seconds) == told


def test_nothing_where_nothing_is_asked_for():
    stream = Terminal()
    with Progress(False, 1e-6, stream) as told:
        told.stage("a")
        told.product(1.0)
        told.sweep("b", 10).done(10)
        told.certified(1e-7)
        told.clear()
        assert not told.shown
    assert stream.getvalue() == ""


def test_lines_of_a_file_are_few():
    stream = io.StringIO()
    with Progress(True, 1e-6, stream) as told:
        sweep = told.sweep("rows", 1000)
        for row in range(1, 1001):
            sweep.done(row)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0] == "fastmcmd: rows"
    assert lines[1].startswith("fastmcmd: rows 100%, 0.0 s left, 1,000 of 1,000 rows, ")


def test_a_bar_follows_the_rows(quiet, monkeypatch):
    stream, now = Terminal(), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with Progress(True, 1e-6, stream) as told:
        sweep = told.sweep("pass", 100, unit="blocks")
        for row in range(10, 101, 10):
            now[0] += 2.0
            sweep.done(row)
            if row == 60:
                line = last(stream)
    # After the first block: 50 rows in 10 s, so 40 more take 8 s.
    assert line.startswith("fastmcmd 0:12  pass ")
    assert " 60%, 8.0 s left, 60 of 100 blocks, 5 blocks/s" in line
    bar = line.split()[3]
    assert (bar.count("#"), bar.count(".")) == (14, 10)  # of 24


def test_the_time_left_follows_the_certificate(quiet, monkeypatch):
    stream, now = Terminal(), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    with Progress(True, 1e-8, stream) as told:
        told.product(1e-2)
        assert "time left unknown" in last(stream)
        now[0] = 10.0
        told.product(1e-4, work=2e10)  # two digits in 10 s, four to go
        assert " 33%, 20 s left, certificate 1.0e-04" in last(stream)
        assert "2 products, solving" in last(stream)
        told.product(1e-3)
        told.product(1e-2)
        assert "time left unknown" in last(stream)
        told.product(1e-9)
        assert "0.0 s left" in last(stream)
        told.certified(1e-9)
        assert last(stream).endswith("certificate 1.0e-09 (target 1.0e-08)")


def test_work_within_work_shares_the_line(quiet):
    stream = Terminal()
    with Progress(True, 1e-6, stream, leave=False) as outer:
        outer.stage("reading")
        with Progress(True, 1e-3, stream) as inner:
            inner.stage("within")
        outer.stage("writing")
        assert "\n" not in stream.getvalue()
    assert "\n" not in stream.getvalue()
    assert last(stream) == ""
    with Progress(True, 1e-6, stream) as kept:
        kept.stage("more")
    assert stream.getvalue().endswith("more\n")


def test_words_before_all_that_is_told(quiet):
    stream = Terminal()
    with Progress(True, 1e-6, stream) as outer:
        outer.under("first")
        with Progress(True, 1e-3, stream) as inner:
            inner.stage("within")
        assert last(stream) == "fastmcmd 0:00  first: within"
        outer.under("")
        outer.stage("writing")
        assert last(stream) == "fastmcmd 0:00  writing"


def test_other_threads_have_lines_of_their_own(quiet):
    stream = Terminal()
    with Progress(True, 1e-6, stream) as outer:
        outer.stage("outer")

        def work():
            with Progress(True, 1e-6, stream) as inner:
                inner.stage("inner")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert stream.getvalue().endswith("inner\n")


def test_the_clock_of_a_terminal_moves_on_and_stops(monkeypatch):
    monkeypatch.setattr(progress, "_TICK", 0.01)
    stream = Terminal()
    before = threading.active_count()
    with Progress(True, 1e-6, stream) as told:
        told.stage("long work")
        end = time.monotonic() + 20
        while stream.getvalue().count("long work") < 4 and time.monotonic() < end:
            time.sleep(0.01)
    assert stream.getvalue().count("long work") >= 4
    end = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before
    told = Progress(True, 1e-6, stream)  # forgotten: its thread ends, too
    del told
    end = time.monotonic() + 20
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_a_clock_survives_a_closed_stream(monkeypatch):
    monkeypatch.setattr(progress, "_TICK", 0.01)
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    stream = Terminal()
    told = Progress(True, 1e-6, stream)
    told.stage("work")
    stream.close()
    time.sleep(0.1)
    assert not raised
    del told


def test_words_that_stay_get_a_line_of_their_own(quiet, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    clear_line()  # without any line: nothing
    assert stream.getvalue() == ""
    with Progress(True, 1e-6) as told:
        told.stage("work")
        clear_line()
        assert last(stream) == ""


@posix
@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_line_never_wraps(quiet, columns):
    from terminal import opened, screen, until

    ours, theirs = opened(columns)
    with os.fdopen(theirs, "w", encoding="utf-8") as stream, Progress(True, 1e-6, stream) as told:
        sweep = told.sweep("normal equations, 305 landmarks", 1_000_000, 1e6)
        sweep.done(1)
        sweep.done(1_000_000)
        found = until(ours, lambda text: text.count("\r") == 2)
    text = "".join(part for _, part in found)
    os.close(ours)
    assert all(len(part) < columns for part in text.split("\r"))
    (line,) = screen(text)
    assert ("0.0 s left" in line) == (columns >= 80)
    assert ("━" in line) == (columns >= 80)


# ---- a command, watched ----


@pytest.fixture
def predictions(tmp_path, rng):
    n = 4000
    x = rng.normal(size=(n, 2))
    np.savez(
        tmp_path / "p.npz", x=x, y=x[:, 0] + 0.3 * rng.normal(size=n), mean=x[:, 0],
        std=np.full(n, 0.5),
    )  # fmt: skip
    return tmp_path / "p.npz"


COMMAND = [sys.executable, "-m", "fastmcmd"]
KERNEL = ["--x-kernel", "rbf", "--x-gamma", "0.5"]


@posix
def test_an_evaluation_is_one_line_that_goes(predictions):
    from terminal import screen, watched

    output = str(predictions.with_name("rows.csv"))
    command = [*COMMAND, "evaluate", str(predictions), *KERNEL, "--n-boot", "5", "--output", output]
    code, out, shown = watched(command, 80, env=environment())
    text = "".join(part for _, part in shown)
    assert code == 0, text
    assert "\n" not in text
    assert screen(text) == [""]  # at the end nothing is left
    assert all(len(part) < 80 for part in text.split("\r"))
    for words in (
        "reading p.npz",
        "certificate",
        "bootstrap",
        "CRPS",
        "writing rows.csv",
        "s left",
    ):
        assert words in text, words
    assert "mean absolute error" in out
    assert "\r" not in out


@posix
def test_warnings_and_errors_have_lines_of_their_own(predictions):
    from terminal import screen, watched

    tight = [*KERNEL, "--tol", "1e-300"]
    _, _, shown = watched([*COMMAND, "evaluate", str(predictions), *tight], env=environment())
    lines = [line for line in screen("".join(part for _, part in shown)) if line]
    assert len(lines) == 1
    assert lines[0].startswith("fastmcmd: ")
    code, _, shown = watched(
        [*COMMAND, "evaluate", str(predictions), "--lam", "-1"], env=environment()
    )
    lines = [line for line in screen("".join(part for _, part in shown)) if line]
    assert code == 2
    assert lines == ["fastmcmd: error: lam is -1; a positive number is needed"] or (
        len(lines) == 1 and lines[0].startswith("fastmcmd: error: lam is -1")
    )


def test_no_terminal_no_progress(predictions):
    done = run_cli("evaluate", predictions, *KERNEL)
    assert done.returncode == 0
    assert done.stderr == ""
    done = run_cli("evaluate", predictions, *KERNEL, "--progress")
    assert "fastmcmd: reading p.npz" in done.stderr
    assert "\r" not in done.stderr


@posix
def test_no_progress_on_a_terminal(predictions):
    from terminal import watched

    command = [*COMMAND, "evaluate", str(predictions), *KERNEL, "--no-progress"]
    code, _, shown = watched(command, env=environment())
    assert code == 0
    assert shown == []
