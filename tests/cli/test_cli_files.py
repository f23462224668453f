"""Files of the command line: bad files of every kind, and the parsing of texts."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from datetime import datetime

import numpy as np
import pytest
from cli_process import environment, run_cli, start_cli

from fastmcmd.cli import main
from fastmcmd.cli.app import UsageError
from fastmcmd.cli.formats import open_columns

N = 20
COLUMNS = {"y": np.arange(N) * 1.0, "mean": np.arange(N) * 1.0 + 0.5, "std": np.ones(N)}
GARBAGE = random.Random(0).randbytes(3000)
HEAD = "y,mean,std\n"


def write_table(path, **changed):
    """Write a valid file except for some columns."""
    columns = {**COLUMNS, **changed}
    if path.suffix == ".npz":
        np.savez(path, **columns)
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)


def truncated(path):
    if path.suffix == ".npy":
        np.save(path, np.column_stack(list(COLUMNS.values())))
    else:
        write_table(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def arrow(path, cells):
    import pyarrow

    write_table(path, y=pyarrow.array(cells))


def twice(path):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_arrays([[1.0], [2.0]], names=["y", "y"]), path)


def group(path, **arrays):
    import zarr

    new_group = zarr.open_group(str(path), mode="w")
    for name, values in arrays.items():
        new_group[name] = values


def single(path):
    import zarr

    zarr.save_array(str(path), np.zeros(3))


def text(content, encoding="utf-8"):
    return lambda path: path.write_bytes((HEAD + content).encode(encoding))


def raw(content):
    return lambda path: path.write_bytes(content)


# A file's name, what writes it, what the line of the error holds.
BAD = [
    *((f"empty.{kind}", raw(b""), message) for kind, message in [
        ("npz", "cannot be read as an .npz"), ("npy", "cannot be read as an .npy"),
        ("csv", "is empty; a first line of names"), ("tsv", "is empty; a first line of names"),
        ("parquet", "cannot be read"),
    ]),
    *((f"garbage.{kind}", raw(GARBAGE), message) for kind, message in [
        ("npz", "cannot be read as an .npz"), ("npy", "Python objects, which are never loaded"),
        ("csv", "cannot be read as text: line 1"), ("tsv", "cannot be read as text: line 1"),
        ("parquet", "cannot be read"), ("zarr", "cannot be read as Zarr"),
    ]),
    *((f"folder.{kind}", lambda path: path.mkdir(), "it is a folder")
      for kind in ("npz", "npy", "csv", "parquet")),
    *((f"cut.{kind}", truncated, "cannot be read") for kind in ("npz", "npy", "parquet")),
    ("objects.npz", lambda p: write_table(p, y=np.array([{}] * N, dtype=object)), "are never loaded"),
    ("pickled.npy", lambda p: p.write_bytes(pickle.dumps([1.0])), "are never loaded"),
    ("unequal.npz", lambda p: write_table(p, mean=np.zeros(3)), "mean"),
    ("nan.npz", lambda p: write_table(p, y=np.full(N, np.nan)), "y holds NaN"),
    ("one_number.npz", lambda p: write_table(p, y=np.array(3.0)), "which is one number"),
    ("no_rows.npz", lambda p: np.savez(p, **dict.fromkeys(COLUMNS, np.empty(0))), "has no rows"),
    ("cube.npy", lambda p: np.save(p, np.zeros((2, 2, 2))), "columns need (n,) or (n, k)"),
    ("words.csv", text("1,2,3\n1,zwei,3\n"), "line 3, column 'mean': 'zwei' is not a number"),
    ("hole.csv", text("1,2,3\n\n1,,3\n"), "line 4, column 'mean': the value is missing"),
    ("short.csv", text("1,2,3\n1,2\n"), "line 3: 2 cells, but line 1 names 3 columns"),
    ("no_rows.csv", text(""), "no_rows.csv has no rows"),
    ("names_alone.csv", raw(b"y,mean,std"), "names_alone.csv has no rows"),
    ("nan.csv", text("nan,1,1\n2,2,1\n"), "y holds NaN"),
    ("twice.csv", raw(b"y,y\n1,2\n"), "two columns named 'y'"),
    ("utf16.csv", text("1,2,3\n", "utf-16"), "names in UTF-8 is needed"),
    ("latin.csv", raw("größe,y\n1,2\n".encode("latin-1")), "names in UTF-8 is needed"),
    ("latin_cell.csv", text("1,2é,3\n", "latin-1"), "line 2, column 'mean': '2?' is not a number"),
    ("nul.csv", text("1,\x002,3\n"), "line 2, column 'mean'"),
    ("quote.csv", text('1,"2,3\n1,2,3\n'), "line 3: 2 cells, but line 1 names 3 columns"),
    ("thousands.csv", text("7,8,1\n7,1,876.5,1\n"), "line 3: 4 cells, but line 1 names 3 columns"),
    ("trailing.csv", text("1,2,3,\n"), "line 2: 4 cells, but line 1 names 3 columns"),
    ("semicolons.csv", raw(b"y;mean;std\n1;2;3\n"), "columns need commas between"),
    ("commas.tsv", raw(b"y,mean\n1,2\n"), "columns need tabs between"),
    ("blank.csv", raw(b"\n\ny,mean\n"), "line 1 is empty"),
    ("long_cell.csv", text(f"1,{'a' * 5000},3\n"), "'...  is not a number"),
    ("nulls.parquet", lambda p: arrow(p, [None] + [1.0] * (N - 1)), "y holds NaN"),
    ("words.parquet", lambda p: arrow(p, ["a"] * N), "y holds"),
    ("dates.parquet", lambda p: arrow(p, [datetime(2020, 1, 1)] * N), "y has dtype datetime"),
    ("ragged.parquet", lambda p: arrow(p, [[1.0], [1.0, 2.0]] * (N // 2)), "different lengths"),
    ("null_lists.parquet", lambda p: arrow(p, [[1.0], None] * (N // 2)), "different lengths"),
    ("structs.parquet", lambda p: arrow(p, [{"a": 1}] * N), "y holds Python objects"),
    ("twice.parquet", twice, "two columns named 'y'"),
    ("nothing.zarr", group, "has no column 'y'; it has none"),
    ("single.zarr", single, "it is a single array"),
    ("folder.zarr", lambda path: path.mkdir(), "cannot be read as Zarr"),
    ("words.zarr", lambda p: group(p, **{**COLUMNS, "y": np.array(["a"] * N)}), "y holds text"),
    ("other.txt", raw(b"y\n1\n"), "ends in '.txt'; one of .npz"),
    ("nowhere.csv", lambda path: None, "No such file"),
]  # fmt: skip
NEEDS = {"parquet": "pyarrow", "zarr": "zarr"}


# Run these as processes as well: streams have an encoding, and imports must print nothing.
IN_A_PROCESS = ("garbage.csv", "pickled.npy", "latin_cell.csv", "words.parquet", "folder.zarr")


def check_refusal(call, folder, name):
    """Call ``evaluate`` with the bad file of this name."""
    if name.rpartition(".")[2] in NEEDS:
        pytest.importorskip(NEEDS[name.rpartition(".")[2]])
    (write,) = (write for other, write, _ in BAD if other == name)
    write(folder / name)
    return call("evaluate", folder / name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "message"), [(name, message) for name, _, message in BAD])
def test_bad_files_are_one_line(tmp_path, name, message):
    process = check_refusal(run_cli, tmp_path, name)
    assert process.returncode == 2, process.stderr
    assert process.stdout == ""
    assert process.stderr.startswith("fastmcmd: error: ")
    assert process.stderr.count("\n") == 1
    assert process.stderr[:-1].isprintable()
    assert " ".join(message.split()) in process.stderr
    assert len(process.stderr) < 500


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_A_PROCESS)
def test_a_process_answers_bad_files_alike(tmp_path, name):
    process = check_refusal(start_cli, tmp_path, name)
    called = run_cli("evaluate", tmp_path / name)
    assert (process.returncode, process.stdout, process.stderr) == (2, "", called.stderr)


@pytest.mark.skipif(os.name != "posix" or not hasattr(os, "geteuid"), reason="rights of POSIX")
def test_unreadable_files(tmp_path):
    path = tmp_path / "secret.csv"
    text("1,2,3\n")(path)
    path.chmod(0)
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    process = run_cli("evaluate", path)
    assert process.returncode == 2
    assert "secret.csv cannot be read: Permission denied" in process.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_output_to_a_full_disk():
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "fastmcmd", "info"],
            stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=60,
        )  # fmt: skip
    assert process.returncode == 1
    assert "No space left" in process.stderr
    assert process.stderr.count("\n") == 1


# ---- texts ----


@pytest.fixture(params=["pyarrow", "numpy"])
def parser(request, monkeypatch):
    """Run with each parser of texts."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
    return request.param


def numbers(rng, count):
    """Return numbers of all sizes, with 17 digits and with few."""
    wide = rng.normal(size=count) * 10.0 ** rng.integers(-300, 300, count)
    bits = rng.integers(0, 2**63, count).view(np.float64)
    values = np.concatenate(
        [wide, bits[np.isfinite(bits)], [0.0, -0.0, 5e-324, 1.7976931348623157e308]]
    )
    return rng.permutation(values)


def test_numbers_are_read_exactly(parser, tmp_path, rng):
    values = numbers(rng, 400)
    path = tmp_path / "a.csv"
    short = [f"{value:.4g}" for value in values]
    lines = [f"{float(v)!r},{s},{'word'!r}" for v, s in zip(values, short, strict=True)]
    path.write_text("\n".join(["a,b,c", *lines, ""]))
    columns = open_columns(str(path))
    columns.prepare(["a", "b"], [])
    np.testing.assert_array_equal(columns.select("a", "--a"), values)
    np.testing.assert_array_equal(columns.select("b", "--b"), [float(one) for one in short])
    assert np.signbit(columns.select("a", "--a")).tolist() == np.signbit(values).tolist()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,b\n1,2\n\n3,4\n", [1, 3]),
        ("a,b\r\n1,2\r\n3,4\r\n", [1, 3]),
        ('\ufeffa,b\n"1",2\n"3",4', [1, 3]),
        (" a , b\n 1 , 2\n3 ,4\n", [1, 3]),
        ("a,b\n+1,2\n-inf,4\n", [1, -np.inf]),
        ("a,b\n1e3,x\nnan,y\n", [1000, np.nan]),
        ('a,"b\nof two lines"\n1,2\n3,4\n', [1, 3]),
        ('a,b\n1,"line\nend"\n3,4\n', [1, 3]),
        ("a\n1\n3\n", [1, 3]),
    ],
)
def test_forms_of_texts(parser, tmp_path, content, expected):
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode())
    np.testing.assert_array_equal(open_columns(str(path)).select("a", "--a"), expected)


def test_both_parsers_refuse_the_same(parser, tmp_path):
    for cell in ("1_0", "0x10", "1,5", "true", "1 2", "--1", "1e"):
        path = tmp_path / "a.csv"
        path.write_text(f'a,b\n1,2\n"{cell}",4\n')
        with pytest.raises(UsageError, match=r"a\.csv"):
            open_columns(str(path)).select("a", "--a")


def test_a_text_is_parsed_once(parser, table_of_words, monkeypatch, capsys):
    """One pass reads all columns of a command, for any number of options."""
    from fastmcmd.cli import text as module

    opened = []

    class CountingFile(module._CountingFile):
        def __init__(self, *arguments):
            opened.append(arguments[0])
            super().__init__(*arguments)

    monkeypatch.setattr(module, "_CountingFile", CountingFile)
    options = ["--y", "visits", "--x", "age,pay*", "--weights", "w", "--format", "json"]
    assert (
        main(["evaluate", str(table_of_words), *options, "--prediction", "gaussian:mean=mu,std=sd"])
        == 0
    )
    capsys.readouterr()
    assert len(opened) == 1
    models = ["--model", "a=gaussian:mean=mu,std=sd", "--model", "b=gaussian:mean=mu,std=2"]
    assert main(["compare", str(table_of_words), *options, *models]) == 0
    assert len(opened) == 2


@pytest.fixture
def table_of_words(tmp_path, rng):
    n = 40
    path = tmp_path / "t.csv"
    regions = np.array(["north", "süd, west"])[np.arange(n) % 2]
    with path.open("w", encoding="utf-8") as stream:
        print("visits,age,pay0,pay1,w,mu,sd,region,code", file=stream)
        for i, line in enumerate(rng.uniform(1, 2, (n, 7)).tolist()):
            print(",".join(map(repr, line)), f'"{regions[i]}"', i % 3, sep=",", file=stream)
    return path


def test_groups_may_be_words(parser, table_of_words, capsys):
    spec = ["--y", "visits", "--prediction", "gaussian:mean=mu,std=sd", "--format", "json"]
    assert main(["evaluate", str(table_of_words), *spec, "--by", "region"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert {name: group["n"] for name, group in numbers["by"].items()} == {
        "north": 20,
        "süd, west": 20,
    }
    assert main(["evaluate", str(table_of_words), *spec, "--by", "code"]) == 0
    assert set(json.loads(capsys.readouterr().out)["by"]) == {"0.0", "1.0", "2.0"}
    assert main(["evaluate", str(table_of_words), *spec, "--by", "age,pay0"]) == 2
    assert "--by: 'age,pay0' names 2 columns; one is needed" in capsys.readouterr().err
    assert (
        main(["evaluate", str(table_of_words), "--y", "region", *spec[2:], "--by", "region"]) == 2
    )
    assert "line 2, column 'region': 'north' is not a number" in capsys.readouterr().err


def test_words_that_are_not_utf8(parser, tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("y,g\n1,ä\n2,b\n".encode("latin-1"))
    columns = open_columns(str(path))
    np.testing.assert_array_equal(columns.select("y", "--y"), [1, 2])  # nobody requests g
    with pytest.raises(UsageError, match="line 2, column 'g': this is not UTF-8"):
        columns.labels("g")


def test_names_with_commas_and_patterns(parser, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"a,b",a,b,c1,c2\n1,2,3,4,5\n6,7,8,9,10\n')
    columns = open_columns(str(path))
    np.testing.assert_array_equal(columns.select("a,b", "--x"), [1, 6])
    np.testing.assert_array_equal(columns.select("b,c*", "--x"), [[3, 4, 5], [8, 9, 10]])


# ---- lists in Parquet, words in what is converted ----


@pytest.mark.parametrize("fixed", [False, True])
def test_lists_of_one_length_are_draws(tmp_path, rng, fixed):
    pyarrow = pytest.importorskip("pyarrow")
    draws = rng.normal(size=(N, 3))
    kind = pyarrow.list_(pyarrow.float64(), 3 if fixed else -1)
    write_table(tmp_path / "a.parquet", samples=pyarrow.array(draws.tolist(), kind))
    columns = open_columns(str(tmp_path / "a.parquet"))
    np.testing.assert_array_equal(columns.select("samples", "--prediction"), draws)


def test_nothing_is_pickled_by_convert(tmp_path, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    source, target = tmp_path / "a.parquet", tmp_path / "a.npz"
    write_table(source, name=pyarrow.array(["a", "bc"] * (N // 2)))
    assert main(["convert", str(source), str(target)]) == 0
    with np.load(target, allow_pickle=False) as archive:
        assert archive["name"].tolist() == ["a", "bc"] * (N // 2)
    write_table(source, name=pyarrow.array(["a", None] * (N // 2)))
    assert main(["convert", str(source), str(target)]) == 2
    assert "column 'name' holds None in row 1" in capsys.readouterr().err
    with np.load(target, allow_pickle=False) as archive:
        assert archive["name"][1] == "bc"  # leaves the existing file unchanged


def test_very_many_columns_are_read_in_one_pass(tmp_path, monkeypatch):
    """Each column read the file again, and searched all names: hours for 300,000 columns."""
    from fastmcmd.cli import text

    path = tmp_path / "wide.csv"
    monkeypatch.setattr(text, "_MANY", 100)
    names = [f"c{i}" for i in range(150)]
    path.write_text(",".join(names) + "\n" + ",".join(["a", "1"] * 75) + "\n")
    opened = []
    plain = text.Text._open
    monkeypatch.setattr(text.Text, "_open", lambda self: opened.append(1) or plain(self))
    columns = open_columns(str(path))
    columns.prepare((), names)
    assert [columns.labels(name)[0] for name in names] == ["a", 1.0] * 75
    assert len(opened) <= 2  # of the names, and of the rows


def test_missing_file_suggests_the_nearest_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("y,mean\n1,2\n")
    assert main(["evaluate", "vists.csv", "--y", "y", "--prediction", "poisson:mean=mean"]) == 2
    assert "did you mean 'visits.csv'?" in capsys.readouterr().err
    assert main(["evaluate", "other.npz", "--y", "y", "--prediction", "poisson:mean=mean"]) == 2
    assert "did you mean" not in capsys.readouterr().err
