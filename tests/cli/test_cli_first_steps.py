"""First steps on the command line: one-line errors that propose a word, and files in a pipe."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from fastmcmd.cli import main


@pytest.fixture
def table(tmp_path):
    """Write a file of counts with a column of words."""
    rng = np.random.default_rng(0)
    mean = rng.uniform(1, 4, 80).round(3)
    lines = ["visits,mean,std,site"]
    for mu, count in zip(mean, rng.poisson(mean), strict=True):
        lines.append(f"{count},{mu},{np.sqrt(mu):.3f},{'north' if count % 2 else 'south'}")
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def refused(capsys, *arguments):
    """Return the single line of an error."""
    try:
        code = main([str(one) for one in arguments])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


def test_errors_propose_the_nearest_word(table, capsys):
    """argparse printed twenty lines of usage, and proposed nothing."""
    assert "did you mean 'evaluate'?" in refused(capsys, "evalute", table)
    error = refused(capsys, "evaluate", table, "--predicton", "poisson:mean=mean")
    assert "did you mean '--prediction'?" in error
    assert "fastmcmd evaluate --help" in error
    assert "did you mean 'visits'?" in refused(capsys, "evaluate", table, "--y", "visit")
    arguments = ("evaluate", table, "--y", "visits", "--prediction")
    assert "did you mean 'poisson'?" in refused(capsys, *arguments, "poison:mean=mean")
    assert "did you mean 'cholesky'?" in refused(capsys, "evaluate", table, "--solver", "choleski")


def test_words_as_inputs_say_what_to_do(table, capsys):
    arguments = ("evaluate", table, "--y", "visits", "--prediction", "poisson:mean=mean")
    assert "get_dummies" in refused(capsys, *arguments, "--x", "site")


def test_no_arguments_show_the_commands(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fastmcmd"])
    assert main() == 2
    assert "evaluate" in capsys.readouterr().err


def test_a_pipe_gives_what_the_file_gives(table, capsys, monkeypatch):
    options = ["--y", "visits", "--prediction", "normal:mean=mean,std=std"]
    assert main(["evaluate", str(table), *options]) == 0
    of_file = capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table.read_bytes())))
    assert main(["evaluate", "-", *options]) == 0
    assert capsys.readouterr().out == of_file
