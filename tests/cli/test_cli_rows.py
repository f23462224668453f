"""Malformed files on the command line: row widths, missing numbers, odd names."""

from __future__ import annotations

import argparse
import json
import os
import sys

import numpy as np
import pytest

from fastmcmd.cli import main
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.arguments import inputs_named
from fastmcmd.cli.formats import open_columns
from fastmcmd.cli.text import MISSING

posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


@pytest.fixture(params=["pyarrow", "numpy"])
def parser(request, monkeypatch):
    """Run with each of the two parsers of texts."""
    if request.param == "numpy":
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    return request.param


def test_missing_numbers(parser, tmp_path):
    path = tmp_path / "a.csv"
    for cell in MISSING:
        path.write_text(f"a,b,c\n1,2,x\n{cell},4,y\n")
        columns = open_columns(str(path))
        np.testing.assert_array_equal(columns.select("a", "--a"), [1, np.nan])
        np.testing.assert_array_equal(open_columns(str(path)).labels("a"), [1, np.nan])
        assert columns.labels("c").tolist() == ["x", "y"]
    path.write_text("a,b\nNA,2\nnorth,4\n")  # has a word where the other rows have words
    assert open_columns(str(path)).labels("a").tolist() == ["NA", "north"]


def test_identifiers_that_float64_would_make_equal(parser, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,y\n9007199254740992,1\n9007199254740993,2\n1e300,3\n")
    with pytest.raises(UsageError, match="line 3, column 'id': 9007199254740993 is beyond 2"):
        open_columns(str(path)).select("id", "--x")
    path.write_text("id,y\n9007199254740992,1\n9007199254740993,2\n")
    assert len(set(open_columns(str(path)).labels("id").tolist())) == 2
    path.write_text("id,y\n9007199254740992,1\n1e22,2\n1.5,3\n")
    assert open_columns(str(path)).select("id", "--x").tolist() == [2.0**53, 1e22, 1.5]


def test_rows_of_other_widths(parser, tmp_path):
    """For any requested columns: an unquoted thousands separator shifted the numbers behind it."""
    path = tmp_path / "a.csv"
    for row, cells in (("7,1,876.5,1", 4), ("7,1", 2), ("7,1,2,", 4), ('"7,1",2', 2)):
        path.write_text(f"y,mean,std\n1,2,3\n{row}\n")
        for ask in (lambda c: c.select("y", "--y"), lambda c: c.labels("y")):
            with pytest.raises(UsageError, match=f"line 3: {cells} cells, but line 1 names 3 col"):
                ask(open_columns(str(path)))


@pytest.mark.slow
def test_as_many_columns_as_somebody_has(parser, tmp_path):
    """Each name was looked up in a list: hours with ten times as many names."""
    path, count = tmp_path / "wide.csv", 30_000
    with path.open("w") as file:
        file.write("y," + ",".join(f"x{j}" for j in range(count)) + "\n")
        for row in range(2):
            file.write(f"{row}," + ",".join(["1"] * count) + "\n")
    columns = open_columns(str(path))
    names = inputs_named(argparse.Namespace(x=None), columns)
    columns.prepare(columns.find(names, "--x"), ())
    assert columns.select(names, "--x").shape == (2, count)
    assert columns.select("x*", "--x").shape == (2, count)
    path.write_text("a," * count + "a\n")
    with pytest.raises(UsageError, match="two columns named 'a'"):
        open_columns(str(path))


ROWS = [
    "y,mean,std,x,g",
    "1,2,3,0,a",
    "5,,7,1,b",
    "3,NA,1,2,a",
    "2,3,1,3,a",
    "1,1,1,3,b",
    ",1,1,3,b",
]
ROWS += ["1,1,1,null,b"]


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_the_policy_holds_for_every_column(policy, tmp_path, capsys):
    path, out, whole_path = (tmp_path / name for name in ("a.csv", "rows.csv", "whole.csv"))
    path.write_text("\n".join(ROWS) + "\n")
    command = ["evaluate", str(path), "--nan-policy", policy, "--format", "json"]
    assert main([*command, "--output", str(out)]) == 0
    numbers = json.loads(capsys.readouterr().out)
    lines = out.read_text().splitlines()[1:]
    assert [",nan," in line for line in lines] == [False, True, True, False, False, True, True]
    if policy == "propagate":
        assert numbers["metrics"]["mean_crps"] == "nan"
        return
    whole_path.write_text("\n".join(ROWS[i] for i in (0, 1, 4, 5)) + "\n")
    assert main(["evaluate", str(whole_path), "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert numbers["metrics"]["mean_crps"] == expected["metrics"]["mean_crps"]
    assert numbers["cce"]["mean"] == pytest.approx(expected["cce"]["mean"], abs=1e-6)


def test_the_title_counts_the_rows_that_were_used(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(ROWS) + "\n")
    assert main(["evaluate", str(path), "--nan-policy", "omit"]) == 0
    assert "at 3 of 7 rows" in capsys.readouterr().out


@pytest.mark.parametrize("policy", ["omit", "propagate"])
def test_compare_leaves_out_what_evaluate_does(policy, tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(ROWS) + "\n")
    options = ["--nan-policy", policy, "--format", "json"]
    assert main(["compare", str(path), "--model", "a=gaussian:mean=mean,std=std", *options]) == 0
    compared = json.loads(capsys.readouterr().out)["a"]
    assert main(["evaluate", str(path), *options]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert compared["metrics"] == alone["metrics"]
    assert compared["notes"] == alone["notes"]


def test_a_missing_number_is_named_with_its_line(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("\n".join(ROWS) + "\n")
    assert main(["evaluate", str(path)]) == 2
    message = capsys.readouterr().err
    assert "line 3, column 'mean': the value is missing (4 such rows)" in message
    assert "--nan-policy omit" in message
    assert main(["compare", str(path), "--model", "a=gaussian:mean=mean,std=std"]) == 2
    assert "line 3, column 'mean': the value is missing" in capsys.readouterr().err
    path.write_text("y,mean,std\n1,,1\n,2,1\n")
    assert main(["evaluate", str(path), "--nan-policy", "omit"]) == 2
    assert "no other row is complete" in capsys.readouterr().err


@posix
def test_files_that_would_keep_us_waiting(tmp_path, capsys):
    for ending in (".csv", ".tsv", ".npz", ".npy", ".parquet", ".zarr"):
        pipe = tmp_path / f"pipe{ending}"
        os.mkfifo(pipe)
        assert main(["evaluate", str(pipe)]) == 2
        assert "FIFO" in capsys.readouterr().err
    os.mkfifo(tmp_path / "pipe.png")
    for command in (["demo", "--output", "pipe.png"], ["convert", "nothing.csv", "pipe.npz"]):
        pipe = tmp_path / command.pop()
        assert main([*command, str(pipe)]) == 2
        assert "a FIFO (named pipe)" in capsys.readouterr().err
        assert pipe.is_fifo()


def test_a_target_is_never_the_input(tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("y,mean,std\n1,2,3\n2,1,1\n")
    before = path.read_bytes()
    (tmp_path / "link.csv").symlink_to(path)
    os.link(path, tmp_path / "hard.csv")
    for target in (path, tmp_path / "link.csv", tmp_path / "hard.csv", tmp_path / "." / "d.csv"):
        for command in (["convert", path, target], ["evaluate", path, "--output", target]):
            assert main(list(map(str, command))) == 2
            assert "is the input" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_columns_of_any_name(tmp_path, capsys):
    """One named file failed in NumPy's savez, and one named allow_pickle vanished."""
    path, target = tmp_path / "d.csv", tmp_path / "d.npz"
    path.write_text("file,allow_pickle,y\n1,2,3\n4,5,6\n")
    assert main(["convert", str(path), str(target)]) == 0
    with np.load(target) as archive:
        columns = {name: archive[name].tolist() for name in archive.files}
    assert columns == {"file": [1, 4], "allow_pickle": [2, 5], "y": [3, 6]}
    assert main(["convert", str(target), str(tmp_path / "e.csv")]) == 0
    assert (tmp_path / "e.csv").read_text().splitlines()[0] == "file,allow_pickle,y"
    path.write_text("a/b,y\n1,2\n")
    capsys.readouterr()
    assert main(["convert", str(path), str(tmp_path / "d.zarr")]) == 2
    assert "column 'a/b' cannot be the name of an array of Zarr" in capsys.readouterr().err
    assert not (tmp_path / "d.zarr").exists()
    np.savez(tmp_path / "w.npz", a=np.ones((3, 2)), a_0=np.zeros(3))
    assert main(["convert", str(tmp_path / "w.npz"), str(tmp_path / "w.csv")]) == 2
    assert "'a_0', which exists already" in capsys.readouterr().err


@pytest.mark.slow
def test_data_command_no_terminal(tmp_path, capsys):
    """Group labels, names and cells print terminal escapes visibly instead of obeying them."""
    path, report = tmp_path / "d.csv", tmp_path / "r.html"
    rows = "".join(f"{i},{i},1,{'ab'[i % 2]}\x1b[2J\u202e\n" for i in range(12))
    path.write_text(f"y,mean,std,g\n{rows}", encoding="utf-8")
    assert main(["evaluate", str(path), "--by", "g", "--report", str(report)]) == 0
    output = capsys.readouterr().out
    assert "a\\x1b[2J\\u202e" in output
    for text in (output, report.read_text(encoding="utf-8")):
        assert "\x1b" not in text
        assert "\u202e" not in text
    path.write_text("y,mean,std\n\x1b[31m,1,2\n")
    assert main(["evaluate", str(path)]) == 2
    assert "\x1b" not in capsys.readouterr().err
