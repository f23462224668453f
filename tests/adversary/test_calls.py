"""A small run of the adversary that calls every entry point with hostile arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import call_entries
import calls
import hostile

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def entries():
    return call_entries.entries(plots=False)


@pytest.mark.slow
def test_every_public_function_is_called():
    pytest.importorskip("matplotlib")
    assert call_entries.unlisted(set(call_entries.entries())) == []


@pytest.mark.slow
def test_no_violations_in_a_short_run():
    # A number of cases, not of seconds: every machine makes the same calls.
    process = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("calls.py")), "--count", "3000", "--no-plots"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr[-2000:]


# The checks themselves must report each kind of violation.


def violation(function, argument, value, **base):
    kind, _ = calls.violation_of("metrics.made_up", function, base, {argument: value})
    return kind


def test_raw_errors_and_messages_without_a_name_are_violations():
    assert violation(lambda y: y.nothing, "y", "None") == "raw error"
    assert violation(lambda y: np.linalg.inv(np.zeros((2, 2))), "y", "None") == "raw error"

    def unnamed(y):
        raise ValueError("operands could not be broadcast together")

    def raises_with_a_name(y):
        raise ValueError("y is of no use")

    assert violation(unnamed, "y", "None") == "argument not named"
    assert violation(raises_with_a_name, "y", "None") is None


def test_accepted_bad_input_is_a_violation():
    assert violation(lambda lam: 1.0, "lam", "NaN") == "bad input accepted"
    assert violation(lambda y: 1.0, "y", "complex") == "bad input accepted"
    assert violation(lambda lam: 1.0, "lam", "0.5") is None


def test_changed_arguments_warnings_and_other_answers_are_violations():
    y = np.linspace(0.1, 0.9, 24)

    def changes(y):
        y += 1

    assert violation(changes, "y", "float32", y=y) == "argument changed"
    assert violation(lambda y: np.log(y - 1e9), "y", "float32", y=y) == "warning"
    assert violation(lambda y: np.asarray(y).strides[0], "y", "harmless reversed strides", y=y) == (
        "another answer"
    )
    assert violation(lambda y: y.sum(), "y", "harmless reversed strides", y=y) is None


def test_every_hostile_value_can_be_made():
    for name, make in hostile.POOL.items():
        if "torch" not in name and "pandas" not in name:
            make(np.linspace(0.1, 0.9, 24))


def test_a_crash_and_a_hang_are_reported(tmp_path, monkeypatch):
    program = tmp_path / "worker.py"
    program.write_text(
        "import os, signal, sys, time\n"
        "print('ready', flush=True)\n"
        "for line in sys.stdin:\n"
        "    os.kill(os.getpid(), signal.SIGSEGV) if line.strip() == '1' else time.sleep(60)\n"
    )
    monkeypatch.setattr(calls, "__file__", str(program))
    monkeypatch.setattr(calls, "PATIENCE", 1.0)
    worker = calls.Worker([])
    assert worker.ask(1)[3] == "crash"
    assert worker.ask(2)[3] == "hang"
    worker.process.kill()
    worker.process.wait()
