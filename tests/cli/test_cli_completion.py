"""Completion works in real shells."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import numpy as np
import pytest
from cli_process import environment, run_cli

from fastmcmd.cli.app import COMMANDS, make_parser
from fastmcmd.cli.completion import answer
from fastmcmd.cli.prediction import FAMILIES

pytestmark = pytest.mark.skipif(
    os.name != "posix" or shutil.which("sh") is None, reason="needs a POSIX shell"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write files to complete: the test needs their names and the names of their columns."""
    path = tmp_path_factory.mktemp("files")
    (path / "visits.csv").write_text('\ufeffage,"pay",mu,sd,y\r\n1,2,3,4,5\r\n')
    (path / "visits.tsv").write_text("age\tmu\n1\t2\n")
    (path / "with space.csv").write_text("alpha,beta\n1,2\n")
    (path / "notes.txt").write_text("a,b\n")
    np.savez(path / "data.npz", x=np.zeros(3), y=np.zeros(3), samples=np.zeros(3))
    for name in ("inputs", "outputs"):
        (path / "group.zarr" / name).mkdir(parents=True)
    return path


@pytest.fixture(scope="module")
def scripts():
    by_shell = {}
    for shell in ("bash", "zsh", "fish"):
        process = run_cli("completion", shell)
        assert process.returncode == 0
        assert process.stderr == ""
        by_shell[shell] = process.stdout
    return by_shell


# A line as typed, and what may follow: words, or files.
ALL = {"age", "pay", "mu", "sd", "y"}
FILES = {"visits.csv", "visits.tsv", "data.npz", "group.zarr"}
LINES = [
    ("", set(COMMANDS)),
    ("ev", {"evaluate"}),
    ("--ver", {"--version"}),
    ("nonsense ", set()),
    ("evaluate --solv", {"--solver"}),
    ("evaluate visits.csv --solver ", {"auto", "cholesky", "cg", "lowrank"}),
    ("evaluate visits.csv --solver c", {"cholesky", "cg"}),
    ("evaluate visits.csv --solver=ch", {"--solver=cholesky"}),
    ("evaluate visits.csv --x-kernel po", {"polynomial"}),
    ("evaluate visits.csv --tol ", set()),
    ("evaluate visits.csv --y ", ALL),
    ("evaluate --progress visits.csv --y a", {"age"}),
    ("evaluate --solver cg visits.csv --y m", {"mu"}),
    ("evaluate visits.tsv --x ", {"age", "mu"}),
    ("evaluate data.npz --y ", {"x", "y", "samples"}),
    ("evaluate group.zarr --y ", {"inputs", "outputs"}),
    ("evaluate nowhere.csv --y ", set()),
    ("evaluate visits.csv --x age,", {f"age,{name}" for name in ALL - {"age"}}),
    ("evaluate visits.csv --x age,p", {"age,pay"}),
    ("evaluate visits.csv --x=age,p", {"--x=age,pay"}),
    ("evaluate visits.csv --prediction ga", {"gaussian:", "gamma:"}),
    (
        "evaluate visits.csv --prediction ",
        {f"{one}:" for one in [*FAMILIES, "draws", "quantiles", "sorted-quantiles", "classes"]},
    ),
    ("evaluate visits.csv --prediction gaussian:", {"gaussian:mean=", "gaussian:std="}),
    ("evaluate visits.csv --prediction gaussian:mean=m", {"gaussian:mean=mu"}),
    ("evaluate visits.csv --prediction gaussian:mean=mu,", {"gaussian:mean=mu,std="}),
    ("evaluate visits.csv --prediction gaussian:mean=mu,std=s", {"gaussian:mean=mu,std=sd"}),
    ("evaluate visits.csv --prediction draws:age,m", {"draws:age,mu"}),
    ("evaluate visits.csv --prediction quantiles:0.5=m", {"quantiles:0.5=mu"}),
    ("compare visits.csv --model a", set()),
    ("compare visits.csv --model a=poi", {"a=poisson:"}),
    ("compare visits.csv --model a=poisson:mean=m", {"a=poisson:mean=mu"}),
    ("completion ", {"bash", "zsh", "fish"}),
    ("plan --shape 3,", set()),
]
LINES_OF_FILES = [
    ("evaluate ", FILES | {"with space.csv"}),
    ("evaluate vis", {"visits.csv", "visits.tsv"}),
    ("evaluate d", {"data.npz"}),
    ("evaluate n", set()),
    ("convert data.npz v", {"visits.csv"}),  # .tsv can be read, but not written
    ("demo --output n", {"notes.txt"}),
    ("plan d", {"data.npz"}),
]


def split(line):
    """Split a line as bash does: at blanks, with : and = as words of their own."""
    words = [""]
    for sign in line:
        if sign == " ":
            words.append("")
        elif sign in ":=":
            words += [sign, ""]
        else:
            words[-1] += sign
    entered_words = [word for word in words[:-1] if word] + [words[-1]]
    return entered_words[:-1] if line[-1] in ":=" else entered_words


def ask_bash(script, folder, line):
    """Return the words that bash would show, with the part that it has cut off before them."""
    line = f"fastmcmd {line}"
    words = split(line)
    program = (
        f'{script}\n_fastmcmd 2>/dev/null; for each in "${{COMPREPLY[@]}}"; do echo "$each"; done'
    )
    quoted = " ".join("'" + word + "'" for word in words)
    begin = (
        f"COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_WORDS=({quoted}); "
        f"COMP_CWORD={len(words) - 1}; COMP_WORDBREAKS=$' \\t\\n\"=:;<>|&('\n"
    )
    process = subprocess.run(
        ["bash", "--norc", "-c", begin + program],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=30,
    )
    assert process.returncode == 0, process.stderr
    word = line.rsplit(" ", 1)[1]
    prefix = word[: max(word.rfind(":"), word.rfind("=")) + 1]
    return {prefix + completion for completion in process.stdout.splitlines()}


def ask_fish(script, folder, line):
    program = f"{script}\ncomplete -C 'fastmcmd {line}'"
    process = subprocess.run(
        ["fish", "--no-config", "-c", program],
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=30,
    )
    assert process.returncode == 0, process.stderr
    return {
        completion.split("\t")[0].rstrip("/").replace("\\ ", " ")
        for completion in process.stdout.splitlines()
    }


ASK = {"bash": ask_bash, "fish": ask_fish}


HOSTILE = [
    "my col",
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "plain",
    "q'uote",
    'd"ble',
    "é",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize("prefix", ["", "'", '"'])
def test_names_of_columns_are_quoted(prefix, scripts, tmp_path):
    """A completed line names the column; no text in a file is ever executed."""
    names = [*HOSTILE, "with,comma"]
    cells = ['"' + name.replace('"', '""') + '"' for name in [*names, "esc\x1b[2J"]]
    (tmp_path / "h.csv").write_text(",".join(cells) + "\n", encoding="utf-8")
    line = f"fastmcmd evaluate h.csv --y {prefix}"
    begin = (
        f"COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; COMP_CWORD=4\n"
        f"COMP_WORDS=(fastmcmd evaluate h.csv --y {shlex.quote(prefix)})\n"
        "COMP_WORDBREAKS=$' \\t\\n\"=:;<>|&('\n"
    )
    entered = 'for each in "${COMPREPLY[@]}"; do eval "printf \'%s\\n\' $quote$each$quote"; done'
    process = subprocess.run(
        ["bash", "--norc", "-c", f"{begin}{scripts['bash']}\n_fastmcmd 2>/dev/null\n{entered}"],
        cwd=tmp_path, text=True, capture_output=True, timeout=30, encoding="utf-8",
        env={**os.environ, "quote": prefix},
    )  # fmt: skip
    unsafe = {"": "", "'": "'", '"': '"$`'}[prefix]
    assert process.stdout.splitlines() == [name for name in names if not set(name) & set(unsafe)]
    assert [file.name for file in tmp_path.iterdir()] == ["h.csv"]


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(("line", "expected"), LINES + LINES_OF_FILES)
def test_what_may_follow(scripts, folder, shell, line, expected):
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    if "data.npz --y" in line and shutil.which("unzip") is None:
        pytest.skip("names in .npz files need unzip")
    assert ASK[shell](scripts[shell], folder, line) == expected


TYPED = [
    ("ev\t", "<evaluate>"),
    ("evaluate d\t--solver ch\t", "<evaluate><data.npz><--solver><cholesky>"),
    ("evaluate visits.csv --solver=ch\t", "<evaluate><visits.csv><--solver=cholesky>"),
    ("evaluate visits.csv --prediction gaussian:mean=m\t",
     "<evaluate><visits.csv><--prediction><gaussian:mean=mu>"),
    ("evaluate visits.csv --prediction poi\tm\tm\t",
     "<evaluate><visits.csv><--prediction><poisson:mean=mu>"),
    ("evaluate visits.csv --x 'age,p\t", "<evaluate><visits.csv><--x><age,pay>"),
    ("evaluate with\t--y al\t", "<evaluate><with space.csv><--y><alpha>"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize(("keys", "expected"), TYPED)
def test_keys_typed_into_a_shell(scripts, folder, tmp_path, shell, keys, expected):
    """Tab completes the line, and the command receives it as typed."""
    from terminal import opened, until

    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    script = tmp_path / "script"
    script.write_text(scripts[shell])
    start = {"bash": ["bash", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    prepare = {"bash": "bind 'set bell-style none'", "zsh": "autoload -U compinit; compinit -u -D"}
    ours, theirs = opened(200)
    process = subprocess.Popen(
        start, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, start_new_session=True,
        env={**environment(), "TERM": "dumb", "HOME": str(tmp_path), "HISTFILE": ""},
    )  # fmt: skip
    os.close(theirs)

    def read_until(text, end):
        os.write(ours, text.encode())
        screen_text = "".join(part for _, part in until(ours, lambda so_far: end(so_far), 20))
        assert end(screen_text), screen_text
        return screen_text

    try:
        read_until(
            f"{prepare[shell]}; source {script}; echo re''ady\n", lambda text: "ready" in text
        )
        read_until(
            "fastmcmd() { printf '<%s>' \"$@\"; echo ']''['; }; echo do''ne\n",
            lambda t: "done" in t,
        )
        pieces = keys.split("\t")
        for piece in pieces[:-1]:
            os.write(ours, ("fastmcmd " if piece is pieces[0] else "").encode() + piece.encode())
            until(ours, lambda _: False, 0.15)
            os.write(ours, b"\t")
            until(ours, lambda _: False, 0.7)
        answer_text = read_until("\n", lambda text: "][" in text)
        assert expected in answer_text.replace("\r", "").replace("\n", "")
    finally:
        os.close(ours)
        process.kill()
        process.wait()


def test_options_are_those_of_the_parser():
    """The answers include every option of every command."""
    program = answer(make_parser())
    commands = next(a.choices for a in make_parser()._actions if isinstance(a.choices, dict))
    for name, parser in commands.items():
        process = subprocess.run(
            ["sh", "-c", program, "sh", "--", name], text=True, capture_output=True, timeout=30
        )
        options_offered = {line.split("\t")[0] for line in process.stdout.splitlines()}
        options = {o for a in parser._actions for o in a.option_strings if o.startswith("--")}
        assert options_offered == options, name
        assert all("\t" in line for line in process.stdout.splitlines())


def test_columns_with_hostile_names_run_nothing(tmp_path):
    """Names of columns and files are words, never commands."""
    (tmp_path / "$(touch a).csv").write_text("$(touch b),`touch c`,;touch d\n")
    process = subprocess.run(
        ["sh", "-c", answer(make_parser()), "sh", "", "evaluate", "$(touch a).csv", "--y"],
        cwd=tmp_path, text=True, capture_output=True, timeout=30,
    )  # fmt: skip
    assert process.stdout.splitlines() == ["$(touch b)\t", "`touch c`\t", ";touch d\t"]
    assert [path.name for path in tmp_path.iterdir()] == ["$(touch a).csv"]


def test_an_unknown_shell_is_an_error():
    process = run_cli("completion", "tcsh")
    assert process.returncode == 2
    assert "bash" in process.stderr
