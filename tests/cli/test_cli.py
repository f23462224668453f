"""The command line: output, files that it writes, and answers to bad files; called and as a process."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from cli_process import environment, run_cli, start_cli

import fastmcmd as fm


@pytest.fixture
def predictions(tmp_path, rng):
    x = rng.normal(size=(80, 2))
    y = x[:, 0] + 0.3 * rng.normal(size=80)
    arrays = {"x": x, "y": y, "mean": x[:, 0], "std": np.full(80, 0.3)}
    np.savez(tmp_path / "p.npz", **arrays)
    return tmp_path / "p.npz", arrays


@pytest.mark.slow
def test_evaluate_writes_what_the_function_returns(predictions):
    path, arrays = predictions
    output = path.with_name("out.csv")
    process = start_cli(
        "evaluate", path, "--x-kernel", "rbf", "--output", output, "--format", "json"
    )
    assert process.returncode == 0, process.stderr
    numbers = json.loads(process.stdout)
    prediction = (arrays["mean"], arrays["std"])
    expected = fm.evaluate(arrays["y"], prediction, arrays["x"], x_kernel=fm.RBF())
    for one in expected.measured:
        assert numbers["metrics"][one.name] == pytest.approx(one.value, abs=1e-9), one.name
    assert numbers["cce"]["mean"] == pytest.approx(expected.cce.mean, abs=1e-9)
    with open(output, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [int(row["row"]) for row in rows] == list(range(80))
    for name, values in expected.rows.items():
        np.testing.assert_allclose([float(row[name]) for row in rows], values, atol=1e-9)
    assert all(float(row["cce_error_bound"]) <= 1e-6 for row in rows)
    assert sorted(p.name for p in path.parent.iterdir()) == ["out.csv", "p.npz"]


def test_evaluate_samples_to_npz(predictions):
    path, arrays = predictions
    np.savez(path, x=arrays["x"], y=arrays["y"], samples=arrays["mean"][:, None] + np.zeros(3))
    output = path.with_name("out.npz")
    process = run_cli("evaluate", path, "--output", output, "--y-gamma", "0.5", "--progress")
    assert process.returncode == 0, process.stderr
    assert "Evaluation of Draws(80, 3) at 80 rows" in process.stdout
    assert "CCE, mean" in process.stdout
    with np.load(output, allow_pickle=False) as archive:
        assert archive["cce"].shape == (80,)
        assert json.loads(archive["summary"].tobytes())["n"] == 80


def write_damaged(path, arrays):
    """Write a compressed file, and change one byte of its first array."""
    np.savez_compressed(path, **arrays)
    data = bytearray(path.read_bytes())
    data[200:210] = bytes(10)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p, a: p.write_bytes(b"not a zip"), "cannot be read as an .npz file"),
        (lambda p, a: p.write_bytes(p.read_bytes()[:200]), "cannot be read as an .npz file"),
        (lambda p, a: p.write_bytes(b""), "cannot be read as an .npz file"),
        (lambda p, a: write_damaged(p, a), "cannot be read as an .npz file"),
        (lambda p, a: p.unlink(), "cannot be read: No such file"),
        (lambda p, a: np.savez(p, x=a["x"], y=a["y"]), "it has x, y"),
        (lambda p, a: (p.unlink(), p.mkdir()), "cannot be read: "),
        (lambda p, a: np.savez(p), "has no column 'y'; it has none"),
        (
            lambda p, a: np.savez(p, x=a["x"], y=a["y"], mean=a["mean"]),
            "--prediction is needed: .* has no columns samples, draws, or mean and std",
        ),
        (lambda p, a: np.savez(p, x=a["x"], y=a["y"], samples=a["y"][:9]), "9 rows and y has 80"),
        (
            lambda p, a: np.savez(p, **{**a, "y": a["y"].astype(str)}),
            "y holds text, .*numbers are needed",
        ),
        (lambda p, a: np.savez(p, x=a["x"]), "has no column 'y'; it has x"),
        (lambda p, a: np.savez(p, **{**a, "y": a["y"][:-1]}), "they must agree"),
        (lambda p, a: np.savez(p, **{**a, "x": a["x"] * np.nan}), "x holds NaN"),
        (lambda p, a: np.savez(p, **{**a, "std": -a["std"]}), "std has values down to -0.3"),
        (
            lambda p, a: np.savez(p, **{**a, "x": np.array([{}] * 80, dtype=object)}),
            "cannot be read as an .npz file",
        ),
    ],
)
def test_bad_files_are_one_line(predictions, make, message):
    path, arrays = predictions
    make(path, arrays)
    process = run_cli("evaluate", path)
    assert process.returncode == 2
    assert process.stdout == ""
    assert re.search(message, process.stderr), process.stderr
    assert process.stderr.startswith("fastmcmd: error: ")
    assert process.stderr.count("\n") == 1


def test_a_plain_array_has_numbered_columns(predictions):
    path, arrays = predictions
    table = np.column_stack([arrays["x"], arrays["y"], arrays["mean"], arrays["std"]])
    np.save(path.with_suffix(".npy"), table)
    process = run_cli("evaluate", path.with_suffix(".npy"))
    assert process.returncode == 2
    assert "has no column 'y'; it has 0, 1, 2, 3, 4" in process.stderr
    spec = ("--y", "2", "--x", "0,1", "--prediction", "gaussian:mean=3,std=4", "--format", "json")
    numbers = json.loads(run_cli("evaluate", path.with_suffix(".npy"), *spec).stdout)
    expected = json.loads(run_cli("evaluate", path, "--format", "json").stdout)
    assert numbers["metrics"] == expected["metrics"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--lam", "0"], 2, "lam is 0"),
        (["--y-gamma", "wide"], 2, "--y-gamma is 'wide'"),
        (["--output", "out.txt"], 2, "ends in .csv or .npz"),
        (["--output", "/nonexistent-folder/out.csv"], 2, "no folder '/nonexistent-folder'"),
        (["--x-kernel", "matern", "--nu", "2"], 2, "nu is 2"),
        (["--lam", "nan"], 2, "lam is nan"),
        (["--memory-limit", "10kB"], 1, "at least"),
        (["--solver", "magic"], 2, "invalid choice"),
        (["--draws", "0"], 2, "draws is 0"),
    ],
)
def test_bad_options(predictions, options, code, message):
    process = run_cli("evaluate", predictions[0], *options)
    assert process.returncode == code
    assert message in process.stderr


@pytest.mark.parametrize(
    ("option", "kernel"),
    [
        ("laplacian", "Laplacian"),
        ("polynomial", "Polynomial"),
        ("linear", "Linear"),
        ("cosine", "Cosine"),
        ("delta", "Delta"),
        ("matern", "Matern"),
    ],
)
def test_kernels_by_name(predictions, option, kernel, capsys):
    """Kernel names select the kernels of the package, in this process."""
    from fastmcmd.cli import main

    path, arrays = predictions
    np.savez(path, x=arrays["x"], y=arrays["y"], samples=arrays["mean"])
    assert main(["evaluate", str(path), "--x-kernel", option, "--format", "json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    expected = fm.cce(arrays["x"], arrays["y"], arrays["mean"], x_kernel=getattr(fm, kernel)())
    assert numbers["cce"]["mean"] == pytest.approx(expected.mean, abs=2e-6)


def test_names_of_choices_of_kernels(predictions, capsys):
    from fastmcmd.cli import main

    path, arrays = predictions
    options = ["--x-kernel", "auto", "--y-kernel", "auto", "--lam", "auto", "--format", "json"]
    assert main(["evaluate", str(path), *options]) == 0
    numbers = json.loads(capsys.readouterr().out)
    prediction = (arrays["mean"], arrays["std"])
    names = {"x_kernel": "auto", "y_kernel": "auto", "lam": "auto"}
    expected = fm.cce(arrays["x"], arrays["y"], prediction, **names)
    assert numbers["cce"]["mean"] == pytest.approx(expected.mean, abs=2e-6)
    assert main(["evaluate", str(path), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["cce"]["mean"] == numbers["cce"]["mean"]
    assert main(["plan", "--shape", "500,2", "--x-kernel", "auto"]) == 0
    assert main(["plan", "--shape", "500,2", "--x-kernel", "auto", "--x-gamma", "1"]) == 2
    assert "--x-gamma needs a kernel" in capsys.readouterr().err


def test_interruption_and_failure(predictions, monkeypatch, capsys):
    from fastmcmd.cli import main

    path, _ = predictions
    output = path.with_name("out.csv")
    output.write_text("kept")
    for error, code, message in (
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("no memory left"), 1, "error: no memory left"),
        (ValueError("two\nlines"), 2, "error: two lines"),
    ):

        def fail(*_, error=error, **__):
            raise error

        monkeypatch.setattr(fm, "evaluate", fail)
        assert main(["evaluate", str(path), "--output", str(output)]) == code
        assert message in capsys.readouterr().err
    assert output.read_text() == "kept"
    assert sorted(p.name for p in path.parent.iterdir()) == ["out.csv", "p.npz"]


def test_output_that_cannot_be_written(predictions):
    path, _ = predictions
    folder = path.with_name("folder.csv")
    folder.mkdir()
    process = run_cli("evaluate", path, "--output", folder)
    assert process.returncode == 2
    assert "which is a folder" in process.stderr
    process = run_cli("demo", "--output", "picture.jpg")
    assert process.returncode == 2
    assert "ends in .png" in process.stderr


@pytest.fixture
def table(tmp_path, rng):
    """Write a file of each format with the same columns."""
    n = 60
    columns = {
        "visits": rng.poisson(3.0, n).astype(float),
        "x0": rng.normal(size=n),
        "x1": rng.normal(size=n),
        "mu": rng.uniform(2, 4, n),
        "group": np.arange(n) % 2.0,
    }

    def write(kind):
        path = tmp_path / f"t.{kind}"
        if kind == "npz":
            np.savez(path, **columns)
        elif kind == "npy":
            kinds = [(name, float) for name in columns]
            np.save(path, np.array(list(zip(*columns.values(), strict=True)), dtype=kinds))
        elif kind in ("csv", "tsv"):
            sign = "," if kind == "csv" else "\t"
            with open(path, "w") as stream:  # a column of words does no harm
                print(sign.join([*columns, "name"]), file=stream)
                for line in zip(*columns.values(), strict=True):
                    print(sign.join([*map(repr, map(float, line)), '"a, b"']), file=stream)
        elif kind == "parquet":
            pandas = pytest.importorskip("pandas")
            pytest.importorskip("pyarrow")
            pandas.DataFrame(columns).to_parquet(path)
        else:
            zarr = pytest.importorskip("zarr")
            group = zarr.open_group(str(path), mode="w")
            for name, values in columns.items():
                group[name] = values
        return path

    return columns, write


KINDS = ("npz", "npy", "csv", "tsv", "parquet", "zarr")


@pytest.mark.parametrize("kind", KINDS)
def test_formats(table, kind, capsys):
    from fastmcmd.cli import main

    columns, write = table
    path = write(kind)
    options = ["--y", "visits", "--prediction", "poisson:mean=mu", "--format", "json"]
    assert main(["evaluate", str(path), *options]) == 0
    numbers = json.loads(capsys.readouterr().out)
    x = np.column_stack([columns["x0"], columns["x1"]])
    expected = fm.evaluate(columns["visits"], fm.Poisson(columns["mu"]), x)
    assert numbers["metrics"]["nll"] == pytest.approx(expected["nll"], rel=1e-12)
    assert numbers["metrics"]["mean_cce"] == pytest.approx(expected["mean_cce"], abs=2e-6)


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet", "zarr"])
def test_convert(table, kind, tmp_path, capsys):
    from fastmcmd.cli import main
    from fastmcmd.cli.formats import open_columns

    columns, write = table
    source, target = write("npz"), tmp_path / f"new.{kind}"
    if kind == "zarr":
        pytest.importorskip("zarr")
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    assert main(["convert", str(source), str(target), "--columns", "visits,x*"]) == 0
    assert "3 columns, 60 rows" in capsys.readouterr().out
    converted_columns = open_columns(str(target))
    assert sorted(converted_columns.names) == ["visits", "x0", "x1"]
    np.testing.assert_array_equal(converted_columns.select("x1", "--x"), columns["x1"])
    assert not [p for p in tmp_path.iterdir() if p.name.startswith("new.") and p != target]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("poisson:mean=nu", "has no column 'nu'; it has visits, x0, x1, mu, group"),
        ("poisson", "poisson:mean=... is needed"),
        ("pois:mu", "poisson:mean=mu is needed"),
        ("normal:x0,mu", "gaussian:mean=x0,std=mu is needed"),
        ("nomal:x0", "gaussian:mean=...,std=... is needed"),
        ("mean=mu", "a family and its columns are needed"),
        ("classes:p_0,p_1", "classes:NAME=COLUMN,... is needed"),
        ("poisson:mu=mu", "poisson:mean=COLUMN is needed"),
        ("poison:mean=mu", "no family 'poison'; did you mean 'poisson'? one of gaussian, "),
        ("gaussian:mean=1,std=2", "at least one parameter must be a column"),
        ("quantiles:half=mu", "'half' is not a level"),
        ("quantiles:0.1=x0,0.9=x1", "sorted-quantiles:0.1=x0,0.9=x1 sorts them"),
        ("draws:y*", "has no column 'y*'"),
    ],
)
def test_bad_predictions(table, spec, message):
    process = run_cli("evaluate", table[1]("npz"), "--y", "visits", "--prediction", spec)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"y,y\n1,2\n", "two columns named 'y'"),
        ("a.csv", b"y,mean,std\n1,2,3\n1,zwei,3\n", "zwei"),
        ("a.csv", b"y,mean,std\n1,2,3\n1,2\n", "a.csv"),
        ("a.csv", b"\xff\xfe\x00\x01,\x80\n", "cannot be read as text"),
        ("a.txt", b"y\n1\n", "ends in '.txt'; one of .npz, .npy"),
        ("a.npy", b"nonsense", "cannot be read as an .npy file"),
        ("a.parquet", b"nonsense", "cannot be read"),
    ],
)
def test_bad_tables(tmp_path, name, content, message):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(content)
    process = run_cli("evaluate", tmp_path / name)
    assert process.returncode == 2
    assert message in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_compare_and_report(table, tmp_path):
    pytest.importorskip("matplotlib")
    path, report = table[1]("csv"), tmp_path / "r.html"
    models = [
        "--model",
        "poisson=poisson:mean=mu",
        "--model",
        "nb=negative-binomial:mean=mu,dispersion=2",
    ]
    process = run_cli("compare", path, "--y", "visits", *models, "--report", report, "--progress")
    assert process.returncode == 0, process.stderr
    assert "Comparison of 2 models" in process.stdout
    assert f"written: {report}" in process.stdout
    assert process.stderr.index("fastmcmd: poisson: ") < process.stderr.index("fastmcmd: nb: ")
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")
    output = run_cli("compare", path, "--y", "visits", *models, "--format", "json").stdout
    assert set(json.loads(output)) == {"poisson", "nb", "pairs", "sentence"}
    for bad in ("poisson", "=poisson:mean=mu"):
        process = run_cli("compare", path, "--y", "visits", "--model", bad)
        assert process.returncode == 2
        assert "NAME=SPEC" in process.stderr


@pytest.mark.slow
def test_groups_intervals_and_report(table, tmp_path):
    pytest.importorskip("matplotlib")
    report = tmp_path / "r.html"
    process = run_cli(
        "evaluate", table[1]("npz"), "--y", "visits", "--prediction", "poisson:mean=mu", "--by", "group",
        "--n-boot", "3", "--report", report,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "95 % interval" in process.stdout
    assert "0.0 (30)" in process.stdout
    assert "Evaluation of t.npz" in report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_plan(table):
    process = run_cli("plan", "--shape", "100000,512", "--memory-limit", "2GB")
    assert process.returncode == 0, process.stderr
    assert "100,000 rows, 512 columns" in process.stdout
    assert "60 rows, 2 columns" in run_cli("plan", table[1]("npz")).stdout
    for options, message in (
        ([], "either FILE or --shape"),
        (["--shape", "many"], "two integers such as"),
        ([table[1]("npz"), "--x", "z"], "has no column 'z'"),
    ):
        process = run_cli("plan", *options)
        assert process.returncode == 2
        assert message in process.stderr


@pytest.mark.parametrize(
    ("options", "origin"),
    [
        (["--y", "visits", "--prediction", "poisson:mean=mu"], "from y and its predictions"),
        (["--y", "visits"], "from y"),
        ([], "are assumed"),
    ],
)
def test_plan_with_outcomes_and_predictions(table, capsys, options, origin):
    from fastmcmd.cli import main

    for kind in ("npz", "csv"):
        assert main(["plan", str(table[1](kind)), "--x", "x*", "--format", "json", *options]) == 0
        reasons = json.loads(capsys.readouterr().out)["reasons"]
        assert any(
            f"features of outputs {origin}".replace("outputs from", "outputs, from") in one
            for one in reasons
        )


def test_plan_takes_columns_of_the_usual_names(tmp_path, capsys, rng):
    """As in `fastmcmd evaluate`: y, and mean and std."""
    from fastmcmd.cli import main

    columns = {
        "x": rng.normal(size=80),
        "y": rng.normal(size=80),
        "mean": np.zeros(80),
        "std": np.ones(80),
    }
    np.savez(tmp_path / "p.npz", **columns)
    assert main(["plan", str(tmp_path / "p.npz"), "--format", "json"]) == 0
    assert "from y and its predictions" in capsys.readouterr().out
    columns.pop("y")
    np.savez(tmp_path / "q.npz", **columns)
    assert main(["plan", str(tmp_path / "q.npz"), "--format", "json"]) == 0
    assert "are assumed" in capsys.readouterr().out
    assert (
        main(["plan", str(tmp_path / "q.npz"), "--prediction", "gaussian:mean=mean,std=std"]) == 2
    )
    assert "--y is needed" in capsys.readouterr().err


def test_plan_of_classes(tmp_path, capsys, rng):
    from fastmcmd.cli import main

    with open(tmp_path / "c.csv", "w") as stream:
        print("x,kind,p,q", file=stream)
        for x, p in rng.uniform(size=(60, 2)):
            print(f"{x},{'cat' if x < p else 'dog'},{p},{1 - p}", file=stream)
    options = ["--y", "kind", "--prediction", "classes:cat=p,dog=q", "--format", "json"]
    assert main(["plan", str(tmp_path / "c.csv"), *options]) == 0
    assert "2 features of outputs" in capsys.readouterr().out


def test_info():
    process = run_cli("info")
    assert process.returncode == 0
    for word in ("fastmcmd", "instruction set", "threads", "backend cpu", "free memory"):
        assert word in process.stdout
    assert json.loads(run_cli("info", "--json").stdout)["backend numpy"] == "available"


@pytest.mark.slow
def test_help_and_version(capsys):
    from fastmcmd.cli import main
    from fastmcmd.cli.app import COMMANDS

    assert "evaluate" in start_cli("--help").stdout
    for command in ([], *([name] for name in COMMANDS)):
        with pytest.raises(SystemExit) as exit_info:
            main([*command, "--help"])
        assert exit_info.value.code == 0
        assert f"\n  {' '.join(['fastmcmd', *command])} " in capsys.readouterr().out, command
    assert run_cli("--version").stdout.strip() == f"fastmcmd {fm.__version__}"
    assert start_cli().returncode == 2


@pytest.mark.slow
def test_demo_on_real_data(tmp_path):
    """The negative binomial is far better than the Poisson model, as is well known for these data."""
    process = run_cli("demo", "--output", tmp_path / "demo.png")
    assert process.returncode == 0, process.stderr
    lines = [line.split() for line in process.stdout.splitlines()]
    poisson = next(line for line in lines if line[:1] == ["Poisson"])
    negbin = next(line for line in lines if line[:2] == ["negative", "binomial"])
    assert poisson[1] == negbin[2] == "6,190"
    assert 0.10 < float(poisson[2]) < 0.15
    assert 0.01 < float(negbin[3]) < 0.025
    picture = (tmp_path / "demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_demo_without_matplotlib(tmp_path, monkeypatch):
    """Without the extra, the table is still printed, and a line says how to install it."""
    from fastmcmd import demo

    all_rows, load = 6190, demo.load

    def fewer():
        return {k: v[:200] if np.shape(v)[:1] == (all_rows,) else v for k, v in load().items()}

    monkeypatch.setattr(demo, "load", fewer)
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    process = run_cli("demo", "--output", tmp_path / "demo.png")
    assert process.returncode == 0, process.stderr
    assert "negative binomial" in process.stdout
    assert "pip install 'fastmcmd[plot]'" in process.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_import_is_quick_and_light():
    """``import fastmcmd`` loads nothing optional or heavy, and evaluations load little."""
    code = (
        "import sys, fastmcmd; "
        "heavy = ('matplotlib', 'numba', 'torch', 'pandas', 'pyarrow', 'rich'); "
        "heavy += ('scipy.special', 'scipy.linalg', 'scipy.stats', 'scipy.optimize'); "
        "print([m for m in heavy if m in sys.modules]); import fastmcmd.evaluation; "
        "heavy = ('scipy.spatial', 'scipy.sparse', 'scipy.stats', 'scipy.optimize'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=environment()
    )
    assert process.stdout.split() == ["[]", "[]"]


# ---- tables for people ----

MODELS = ("--model", "good=gaussian:mean=mean,std=std", "--model", "wide=gaussian:mean=mean,std=9")
RICH = {
    "evaluate": ["evaluate", "P", "--by", "group", "--n-boot", "3"],
    "compare": ["compare", "P", *MODELS],
    "plan": ["plan", "P"],
    "info": ["info"],
}  # fmt: skip


@pytest.fixture
def groups(predictions):
    path, arrays = predictions
    np.savez(path, **arrays, group=np.arange(80) % 2)
    return path


def arguments_of(command, path):
    return [str(path) if one == "P" else one for one in RICH[command]]


def words_on(text):
    """Return what a terminal shows for a styled text, and its words."""
    from terminal import screen

    screen_text = "\n".join(screen(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)))
    return screen_text, set(re.findall(r"[^\s─]+", screen_text))


def numbers_in(plain):
    return {one for one in plain.split() if re.fullmatch(r"-?\d+\.\d{3,}", one)}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_a_process_on_a_terminal(groups):
    """A terminal gets styles; the same command in a pipe gets none."""
    pytest.importorskip("rich")
    from terminal import run_on_terminal

    arguments = arguments_of("evaluate", groups)
    command = [sys.executable, "-m", "fastmcmd", *arguments]
    code, _, screen_text = run_on_terminal(command, both=True, columns=60, env=environment())
    text = "".join(part for _, part in screen_text)
    assert code == 0, text
    assert "\x1b[1" in text
    plain = run_cli(*arguments).stdout
    assert "\x1b" not in plain
    assert numbers_in(plain) <= words_on(text)[1]


@pytest.mark.slow
@pytest.mark.parametrize("command", list(RICH))
def test_tables_on_a_terminal(groups, monkeypatch, command):
    """Output is styled if rich is installed; each word of the plain table is there at any width."""
    pytest.importorskip("rich")
    from terminal import Terminal

    from fastmcmd.cli.output import show

    tables = []
    monkeypatch.setattr(f"fastmcmd.cli.{command}.show", lambda *table: tables.append(table))
    assert run_cli(*arguments_of(command, groups)).returncode == 0
    ((sheet, plain),) = tables
    monkeypatch.setenv("TERM", "xterm-256color")

    def on_a_terminal(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        with contextlib.redirect_stdout(Terminal()) as stream:
            show(sheet, plain)
        return stream.getvalue()

    for columns in (60, 160):
        text = on_a_terminal(columns)
        assert ("\x1b[1" in text) == (command != "info")  # bold
        screen_text, words = words_on(text)
        assert {word for row in sheet.rows for cell in row for word in cell.split()} <= words
        if command != "plan":  # its time is shorter on a terminal
            assert numbers_in(plain) <= words
        if command in ("evaluate", "compare"):
            for section in ("accuracy", "scores", "calibration", "sharpness", "congruence"):
                assert re.search(rf"^ ?{section}$", screen_text, re.M)
    if command == "compare":  # marks the best with a sign as well as a colour
        line = next(one for one in screen_text.splitlines() if one.strip().startswith("CRPS"))
        assert re.match(r" *CRPS +\* [\d.]+ +[\d.]+ ", line)
        assert "* better than each other model: paired test" in screen_text
        colour = r"\x1b\[[0-9;]*3[0-7]m"
        assert re.search(colour, text)
        monkeypatch.setenv("NO_COLOR", "1")
        text = on_a_terminal(160)
        assert not re.search(colour, text)
        assert "* " in text


def test_a_terminal_without_rich_gets_plain_text(groups, monkeypatch, capsys):
    from fastmcmd.cli import main

    arguments = ["info"]
    assert main(arguments) == 0
    plain = capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(arguments) == 0
    output = capsys.readouterr()
    assert output.err == ""
    drop = re.compile("(free memory|optional rich).*")
    assert drop.sub("", output.out) == drop.sub("", plain)


def test_hostile_names_are_words(tmp_path, capsys, monkeypatch):
    """Names of models and groups that contain rich's markup are printed literally."""
    pytest.importorskip("rich")
    from fastmcmd.cli.output import Sheet, show

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(Sheet("[bold]t", [["", "[red]a[/red]", ":smile:"], ["x", "* 1", "[/]"]], ["[b]n"]), "")
    out = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    for word in ("[bold]t", "[red]a[/red]", ":smile:", "* 1", "[/]", "[b]n"):
        assert word in out


def test_plan_as_json(groups):
    numbers = json.loads(run_cli("plan", groups, "--format", "json").stdout)
    assert (numbers["n"], numbers["d"]) == (80, 2)
    assert numbers["solver"] == "cholesky"


@pytest.mark.parametrize("seed", ["-1", "1.5", "1e3", "x"])
def test_seeds_are_refused_by_their_option(capsys, seed):
    """The message named ``random_state``, which is no option of the command line."""
    from fastmcmd.cli import main

    with pytest.raises(SystemExit):
        main(["evaluate", "data.csv", f"--seed={seed}"])
    assert f"argument --seed: '{seed}' is no seed" in capsys.readouterr().err
