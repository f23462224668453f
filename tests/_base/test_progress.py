"""Progress for a user: one line on a terminal, few lines in a file, nothing elsewhere."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
import threading
import time
import types

import numpy as np
import pytest
from cli_process import environment, run_cli
from terminal import Terminal, opened, run_on_terminal, screen, until

from fastmcmd._base import progress_line
from fastmcmd._base.progress import Progress, duration
from fastmcmd._base.progress_line import clear_line

posix = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")


@pytest.fixture
def quiet(monkeypatch):
    """Stop the line's own ticks, so that the output is known."""
    pytest.importorskip("tqdm")
    monkeypatch.setattr(progress_line.Line, "tick", lambda _: False)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves; separate from tqdm's."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


@pytest.fixture
def without_tqdm(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tqdm", None)


def last(stream):
    return stream.getvalue().rsplit("\r", 1)[-1].rstrip()


def soon(true, limit=20.0):
    """Wait until a condition holds."""
    end = time.monotonic() + limit
    while not true() and time.monotonic() < end:
        time.sleep(0.01)
    return true()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"),
     (90061, "25 h 1 min")],
)  # fmt: skip
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("stream", [None, Terminal()])
def test_no_output_without_a_request(stream, capsys):
    with Progress(False, 1e-6, stream) as progress:
        progress.stage("a")
        progress.under("heading")
        progress.product(1.0)
        progress.sweep("b", 10).advance(10)
        progress.certified(1e-7)
        progress.clear()
        assert not progress.enabled
        assert not progress.due
    assert stream is None or stream.getvalue() == ""
    assert capsys.readouterr().err == ""


def test_nothing_without_standard_error(monkeypatch):
    for stream in (None, io.StringIO()):
        if stream is not None:
            stream.close()
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress(True, 1e-6) as progress:
            progress.stage("a")
            clear_line()
            assert not progress.enabled


def test_a_stream_may_only_write():
    class WriteOnly:
        text = ""

        def write(self, text):
            self.text += text

        def flush(self):
            pass

    stream = WriteOnly()
    with Progress(True, 1e-6, stream) as progress:
        progress.stage("a")
    assert stream.text == "fastmcmd: a\n"


# ---- lines of a file ----


def test_lines_of_a_pass_are_two_seconds_apart(clock):
    stream = io.StringIO()
    with Progress(True, 1e-6, stream) as progress:
        sweep = progress.sweep("rows", 640)
        for row in range(1, 641):
            clock[0] += 1 / 64
            sweep.advance(row)
    assert stream.getvalue().splitlines() == [
        "fastmcmd: rows",
        "fastmcmd: rows 20%, 8.0 s left, 128 of 640 rows, 64 rows/s",
        "fastmcmd: rows 40%, 6.0 s left, 256 of 640 rows, 64 rows/s",
        "fastmcmd: rows 60%, 4.0 s left, 384 of 640 rows, 64 rows/s",
        "fastmcmd: rows 80%, 2.0 s left, 512 of 640 rows, 64 rows/s",
        "fastmcmd: rows 100%, 0.0 s left, 640 of 640 rows, 64 rows/s",
    ]


def test_lines_of_products_are_two_seconds_apart(clock):
    stream = io.StringIO()
    with Progress(True, 1e-8, stream) as progress:
        for product in range(1, 31):
            progress.product(0.99 * 10 ** (-8 * product / 30), 6e8)
            clock[0] += 0.25
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["1", "9", "17", "25", "30"]
    assert lines[0].startswith(
        "fastmcmd: 1 product, solving, time left unknown, certificate 5.4e-01"
    )
    # 8 products in 2 s, 21 to go; of 29 after the first.
    assert re.fullmatch(
        r"fastmcmd: 9 products, solving 28%, 5.[23] s left, "
        r"certificate 3.9e-03 \(target 1.0e-08\), 2 GFLOP/s",
        lines[1],
    )
    assert "solving 100%, 0.0 s left, certificate 9.9e-09" in lines[-1]


def test_a_terminal_without_tqdm_gets_lines(without_tqdm):
    stream = Terminal()
    with Progress(True, 1e-6, stream, leave=False) as progress:
        progress.stage("reading")
        progress.clear()
        progress.sweep("rows", 10).advance(10)
    first, second, third = stream.getvalue().splitlines()
    assert (first, second) == ("fastmcmd: reading", "fastmcmd: rows")
    assert third.startswith("fastmcmd: rows 100%, 0.0 s left, 10 of 10 rows, ")
    assert "\r" not in stream.getvalue()


def test_tqdm_is_imported_for_terminals_only():
    code = (
        "import io, sys, fastmcmd\n"
        "from fastmcmd._base.progress import Progress\n"
        "with Progress(True, 1e-6) as progress: progress.stage('words')\n"
        "print([name for name in sys.modules if name.startswith('tqdm')])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True
    )
    assert (process.stdout, process.stderr) == ("[]\n", "fastmcmd: words\n")


# ---- the bar of a terminal ----


def test_a_bar_follows_the_rows(quiet, clock):
    stream = Terminal()
    with Progress(True, 1e-6, stream) as progress:
        sweep = progress.sweep("pass", 100, unit="blocks")
        for row in range(10, 101, 10):
            clock[0] += 2.0
            sweep.advance(row)
            if row == 60:
                line = last(stream)
    # After the first block: 50 rows in 10 s, so 40 more take 8 s.
    assert line.endswith("| pass, 8.0 s left, 60 of 100 blocks, 5 blocks/s")
    assert line.startswith("fastmcmd 00:0")
    assert "  60%|#######2    |" in line  # 7.2 of 12
    assert "100%|############| pass, 0.0 s left, 100 of 100 blocks" in last(stream)


def test_slow_blocks_have_no_time_left_before_a_rate_and_one_last_line(clock):
    """Blocks that take a minute: no "1388888 h left", no "0 blocks/s", and 100 % once."""
    stream = io.StringIO()
    with Progress(True, 1e-6, stream) as progress:
        sweep = progress.sweep("sums", 6, unit="blocks")
        for finished in (0, 1, 1, 2, 6, 6, 6):
            clock[0] += 30.0
            sweep.advance(finished)
    assert stream.getvalue().splitlines() == [
        "fastmcmd: sums",
        "fastmcmd: sums 17%, 1 of 6 blocks",
        "fastmcmd: sums 33%, 4 min 0 s left, 2 of 6 blocks, 0.02 blocks/s",
        "fastmcmd: sums 100%, 0.0 s left, 6 of 6 blocks, 0.06 blocks/s",
    ]


def test_a_terminal_is_drawn_ten_times_a_second(quiet, clock):
    stream = Terminal()
    with Progress(True, 1e-6, stream) as progress:
        sweep = progress.sweep("pass", 10_000)
        sweep.advance(1)
        before = stream.getvalue().count("\r")
        for row in range(2, 10_000):
            clock[0] += 0.001
            sweep.advance(row)
        assert stream.getvalue().count("\r") - before in (98, 99, 100)


def test_operations_are_reported_where_they_are_known(quiet, clock):
    stream = Terminal()
    with Progress(True, 1e-6, stream) as progress:
        sweep = progress.sweep("pass", 100, work=3e9)
        sweep.advance(10)
        clock[0] = 2.0
        sweep.advance(30)
        assert last(stream).endswith("7.0 s left, 30 of 100 rows, 30 GFLOP/s")
        progress.sweep("nothing", 0).advance(0)
        assert "100%|############| nothing, 0.0 s left, 0 of 0 rows" in last(stream)
        progress.sweep("more than thought", 7, unit="MB").advance(9)
        assert "100%|############| more than thought, 0.0 s left, 7 of 7 MB" in last(stream)


def test_the_time_left_follows_the_certificate(quiet, clock):
    stream = Terminal()
    with Progress(True, 1e-8, stream) as progress:
        progress.product(1e-2)
        assert "1 product, solving, time left unknown" in last(stream)
        clock[0] = 10.0
        progress.product(1e-4, work=2e10)  # two digits in 10 s, four to go
        assert "  33%|####        | 2 products, solving, 20 s left, certificate 1.0e-04" in last(
            stream
        )
        assert last(stream).endswith("(target 1.0e-08), 2 GFLOP/s")
        clock[0] = 20.0
        progress.product(1e-2)
        assert "%" not in last(stream)
        assert "solving, time left unknown" in last(stream)
        progress.product(1e-9)
        assert " 100%|" in last(stream)
        assert "0.0 s left" in last(stream)
        progress.certified(1e-9)
        assert last(stream).endswith("certificate 1.0e-09 (target 1.0e-08)")
        progress.stage("next")  # what it took says nothing about other work
        progress.product(1e-3)
        assert "time left unknown" in last(stream)


def test_work_within_work_shares_the_line(quiet):
    stream = Terminal()
    with Progress(True, 1e-6, stream, leave=False) as outer:
        outer.stage("reading")
        with Progress(True, 1e-3, stream) as inner:
            inner.stage("within")
        outer.stage("writing")
        assert "\n" not in stream.getvalue()
    assert screen(stream.getvalue()) == [""]
    with Progress(True, 1e-6, stream) as outer_progress:
        outer_progress.stage("more")
    first, second = screen(stream.getvalue())
    assert first.endswith("more")
    assert second == ""


def test_words_before_every_report(quiet):
    for stream in (Terminal(), io.StringIO()):
        with Progress(True, 1e-6, stream) as outer:
            outer.under("first")
            with Progress(True, 1e-3, stream) as inner:
                inner.stage("within")
            assert re.search(
                r"fastmcmd(: | 00:00 )first: within\n?$", stream.getvalue().rstrip(" ")
            )
            outer.under("")
            outer.stage("writing")
            assert re.search(r"fastmcmd(: | 00:00 )writing\n?$", stream.getvalue().rstrip(" "))


def test_words_are_not_formats(quiet):
    stream = Terminal()
    with Progress(True, 1e-6, stream) as progress:
        progress.stage("reading {bar} {0} %s.csv")
        assert last(stream).endswith("reading {bar} {0} %s.csv")


def test_a_notebook_draws_the_bar(quiet, monkeypatch):
    """Stand-in for the notebook, which finds its bar as `tqdm.notebook` does."""
    import tqdm

    bars = []

    class Widget(tqdm.tqdm):
        def display(self, *_, **__):
            format_values = self.format_dict
            format_values["bar_format"] = format_values["bar_format"].replace("{bar}", "<bar/>")
            bars.append(self.format_meter(**format_values).split("<bar/>"))

    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", types.ModuleType("zmqshell"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Widget))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress(True, 1e-6) as progress:
        progress.stage("reading")
        assert bars[-1] == ["fastmcmd 00:00", "reading"]
        assert progress._line._bar.total is None  # a total that is not reached turns red at the end
        progress.sweep("rows", 10).advance(10)
        assert bars[-1][0] == "fastmcmd 00:00 100%|"
        assert bars[-1][1].startswith("| rows, 0.0 s left, 10 of 10 rows")
        assert progress._line._bar.leave is True  # a notebook takes None for False
    count, stream = len(bars), io.StringIO()
    with Progress(True, 1e-6, stream) as progress:
        progress.stage("elsewhere")
    assert (len(bars), stream.getvalue()) == (count, "fastmcmd: elsewhere\n")


def test_threads_have_lines_of_their_own():
    pytest.importorskip("tqdm")
    stream, turn = Terminal(), threading.Barrier(2, timeout=20)

    def work():
        with Progress(True, 1e-6, stream) as inner:
            inner.stage("inner")
            turn.wait()
            turn.wait()
            sweep = inner.sweep("pass", 1000)
            for row in range(1000):
                sweep.advance(row + 1)

    with Progress(True, 1e-6, stream) as outer:
        outer.stage("outer")
        thread = threading.Thread(target=work)
        thread.start()
        turn.wait()
        assert [line.split()[-1] for line in screen(stream.getvalue())] == ["outer", "inner"]
        turn.wait()
        for number in range(200):
            outer.stage(f"outer {number}")
        thread.join()
        assert "1,000 of 1,000 rows" in stream.getvalue()
    line, below = screen(stream.getvalue())
    assert line.split()[2:] == ["outer", "199"]
    assert below == ""


def test_nothing_is_drawn_while_others_draw(quiet):
    """Drawing takes tqdm's lock, so that lines of several threads do not mix."""
    tqdm = pytest.importorskip("tqdm").tqdm
    stream = Terminal()

    def work():
        with Progress(True, 1e-6, stream) as progress:
            progress.stage("first")
            draw_event.set()
            go.wait(20)
            progress.stage("second")

    draw_event, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert draw_event.wait(20)
    with tqdm.get_lock():
        go.set()
        thread.join(0.2)
        assert "second" not in stream.getvalue()
    thread.join()
    assert "second" in stream.getvalue()


def test_a_bar_of_others_stays_above():
    tqdm = pytest.importorskip("tqdm")
    stream = Terminal()
    for _ in tqdm.tqdm(range(3), desc="models", file=stream, mininterval=0):
        with Progress(True, 1e-6, stream) as progress:
            progress.stage("ours")
            above, below = screen(stream.getvalue())
            assert above.startswith("models:")
            assert below.endswith("ours")
    above, below = screen(stream.getvalue())
    assert above.startswith("models: 100%")
    assert below == ""


def test_the_clock_of_a_terminal_moves_on_and_stops(monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(progress_line, "_TICK", 0.01)
    stream = Terminal()

    def ticking():
        return [
            one
            for one in threading.enumerate()
            if getattr(one, "_target", 0) is progress_line._tick
        ]

    assert soon(lambda: not ticking())  # those of other tests
    with Progress(True, 1e-6, stream) as progress:
        progress.stage("long work")
        assert len(ticking()) == 1
        assert soon(lambda: stream.getvalue().count("long work") >= 4)
        line = progress._line  # its thread ends when it is closed, even if a reference to it stays
    assert soon(lambda: not ticking())
    assert line is not None
    progress = Progress(True, 1e-6, stream)  # forgotten: its thread ends, too
    progress.stage("more")
    assert len(ticking()) == 1
    del progress
    assert soon(lambda: not ticking())


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_work_goes_on_where_the_stream_is_closed(monkeypatch, kind):
    monkeypatch.setattr(progress_line, "_TICK", 0.01)
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    stream = kind()
    with Progress(True, 1e-6, stream) as progress:
        progress.stage("work")
        stream.close()
        progress.stage("more work")
        progress.sweep("rows", 10).advance(10)
        progress.clear()
        time.sleep(0.1)  # some ticks
    assert not raised


class Broken(Terminal):
    """A terminal whose writes fail from some time on."""

    error = None

    def write(self, text):
        if self.error is not None:
            raise self.error
        return super().write(text)


@pytest.mark.parametrize("number", [errno.EIO, errno.EPIPE, errno.ENOSPC])
def test_work_goes_on_where_the_terminal_has_gone(monkeypatch, number):
    monkeypatch.setattr(progress_line, "_TICK", 0.01)
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    stream = Broken()
    with Progress(True, 1e-6, stream) as progress:
        progress.stage("work")
        stream.error = OSError(number, "gone")
        progress.stage("more work")
        progress.clear()
        time.sleep(0.1)
    assert not raised


def test_an_interrupt_while_drawing_blocks_nobody(quiet):
    """If tqdm's lock stayed taken, no other thread could draw a bar."""
    tqdm = pytest.importorskip("tqdm").tqdm
    stream, free = Broken(), []

    def other():
        with tqdm.get_lock():
            free.append(True)

    progress = Progress(True, 1e-6, stream)
    progress.stage("work")
    stream.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        progress.stage("more work")
    stream.error = None
    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    thread.join(20)
    assert free
    progress.close()


def test_words_that_stay_get_a_line_of_their_own(quiet, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    clear_line()  # without any line: nothing
    assert stream.getvalue() == ""
    with Progress(True, 1e-6) as progress:
        clear_line()  # nor before the first words
        assert stream.getvalue() == ""
        progress.stage("work, of which the words are longer than those that follow")
        clear_line()
        print("words that stay", file=stream)
        progress.stage("more")
    stays, line, _ = screen(stream.getvalue())
    assert stays == "words that stay"
    assert line.endswith("more")


@posix
@pytest.mark.parametrize("columns", [12, 40, 80, 120, 200])
def test_a_line_never_wraps(quiet, columns):
    ours, theirs = opened(columns)
    with (
        os.fdopen(theirs, "w", encoding="utf-8") as stream,
        Progress(True, 1e-6, stream) as progress,
    ):
        progress.stage("words " * 50)
        sweep = progress.sweep("normal equations, 305 landmarks", 1_000_000, 1e6)
        sweep.advance(1)
        sweep.advance(1_000_000)
        progress.close()
        screen_text = until(ours, lambda text: "\n" in text)
    text = "".join(part for _, part in screen_text)
    os.close(ours)
    assert all(len(part.rstrip("\n")) <= columns for part in text.split("\r"))
    line, below = screen(text, columns)
    assert below == ""
    assert line.startswith("fastmcmd 00")
    assert ("100%|████████████| norma" in line) == (columns > 12)
    assert ("0.0 s left" in line) == (columns >= 80)
    assert ("1,000,000 of 1,000,000 rows, " in line) == (columns >= 120)


# ---- a command on a terminal ----


def write_table(folder, rng, n):
    x = rng.normal(size=(n, 2))
    np.savez(
        folder / "p.npz", x=x, y=x[:, 0] + 0.3 * rng.normal(size=n), mean=x[:, 0],
        std=np.full(n, 0.3),
    )  # fmt: skip
    return folder / "p.npz"


@pytest.fixture
def predictions(tmp_path, rng):
    """Enough rows to leave some seconds of work."""
    return write_table(tmp_path, rng, 1200)


@pytest.fixture
def few(tmp_path, rng):
    return write_table(tmp_path, rng, 100)


COMMAND = [sys.executable, "-m", "fastmcmd"]
KERNEL = ["--x-kernel", "rbf", "--x-gamma", "0.5"]


@pytest.fixture
def no_tqdm(tmp_path):
    """Return the environment of processes that find no tqdm."""
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "tqdm.py").write_text("raise ModuleNotFoundError(__name__)")
    return environment(folder)


@pytest.mark.slow
@posix
def test_an_evaluation_is_one_line_that_goes(predictions):
    pytest.importorskip("tqdm")
    output = str(predictions.with_name("rows.csv"))
    command = [*COMMAND, "evaluate", str(predictions), *KERNEL, "--n-boot", "5", "--output", output]
    code, out, screen_text = run_on_terminal(command, 80, env=environment())
    text = "".join(part for _, part in screen_text)
    assert code == 0, text
    assert "\n" not in text
    assert screen(text, 80) == [""]  # at the end nothing is left
    assert all(len(part) <= 80 for part in text.split("\r"))
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


def shown_by(path, *options):
    """Return exit status, standard output and the lines that a terminal shows of standard error."""
    process = run_cli("evaluate", path, *KERNEL, *options, stderr=Terminal())
    return process.returncode, process.stdout, screen(process.stderr, 1000)


def test_an_evaluation_on_a_terminal_without_tqdm(few, without_tqdm):
    code, out, lines = shown_by(few, "--n-boot", "5")
    assert code == 0, lines
    assert lines[0] == "fastmcmd: reading p.npz"
    assert lines[-1] == ""
    assert all(line.startswith("fastmcmd: ") for line in lines[:-1])
    assert "mean absolute error" in out


@pytest.mark.slow
@posix
@pytest.mark.parametrize("tqdm", [True, False])
def test_an_interrupt_leaves_one_line(predictions, no_tqdm, tqdm):
    if tqdm:
        pytest.importorskip("tqdm")
    options = ["--n-boot", "1000000", *KERNEL]
    code, out, screen_text = run_on_terminal(
        [*COMMAND, "evaluate", str(predictions), *options],
        interrupt="bootstrap",
        env=environment() if tqdm else no_tqdm,
    )
    lines = [line for line in screen("".join(part for _, part in screen_text), 100) if line]
    assert code == 130
    assert out == ""
    assert lines[-1] == "fastmcmd: interrupted; no file is half written"
    assert len(lines) == 1 or not tqdm


def test_warnings_and_errors_have_lines_of_their_own(few):
    _, _, lines = shown_by(few, "--tol", "1e-300")
    (line,) = filter(None, lines)
    assert line.startswith("fastmcmd: warning: ")
    code, _, lines = shown_by(few, "--lam", "-1")
    (line,) = filter(None, lines)
    assert code == 2
    assert line.startswith("fastmcmd: error: lam is -1")


def test_no_terminal_no_progress(few):
    process = run_cli("evaluate", few, *KERNEL)
    assert process.returncode == 0
    assert process.stderr == ""
    process = run_cli("evaluate", few, *KERNEL, "--progress")
    assert "fastmcmd: reading p.npz" in process.stderr
    assert "\r" not in process.stderr


def test_no_progress_on_a_terminal(few):
    for options, silent in (([], False), (["--no-progress"], True)):
        process = run_cli("evaluate", few, *KERNEL, *options, stderr=Terminal())
        assert process.returncode == 0
        assert (process.stderr == "") == silent
