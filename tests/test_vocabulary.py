"""Old names of the package do not return; contributing.md has the glossary."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fastmcmd"
# The replacement of each old word.
OLD = {
    "abreast": "stacked",
    "asked": "what was asked for, by its name: a setting, an argument",
    "audit": "certify",
    "card": "device",
    "found": "what the value is",
    "hopeless": "cannot converge",
    "judge": "switch policy",
    "kept": "resident, stored, significant: why it stays",
    "led": "preconditioned",
    "missed": "residual, residual diagonal",
    "outlook": "forecast",
    "pilot": "candidate problem",
    "promising": "cannot converge, negated",
    "room": "budget, available",
    "rowwise": "row means, elementwise",
    "spoil": "damage",
    "spoiled": "NaN result",
    "spoils": "damages",
    "spoilt": "damaged",
    "standing": "subsample",
    "strips": "block columns",
    "survey": "row statistics",
    "told": "message, report",
    "watched": "preconditioned CG",
}
# Formats of earlier versions have these names in files; `FileNotFoundError` is Python's.
ALLOWED_NAMES = {"FileNotFoundError", "ModuleNotFoundError"}
FILES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = [ROOT / name for name in ("tests", "benchmarks", "examples")]
PYTHON = [
    *FILES,
    *(path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))),
    ROOT / "setup.py",
]

# A bare participle or pronoun does not say what a name holds: `row_count`, `draws`, `is_settled` do.
BARE = {
    "allowed", "begun", "believed", "checked", "chosen", "counted", "cut", "done", "drawn", "ended",
    "gained", "given", "gone", "got", "guessed", "happened", "held", "judged", "known", "listed",
    "looked", "lost", "made", "mapped", "measured", "met", "moved", "named", "needed", "ordered",
    "own", "passed", "prepared", "reached", "read", "said", "saved", "seen", "shared", "shown",
    "skipped", "spent", "started", "stored", "taken", "tried", "turned", "used", "wanted", "written",
    "each", "everything",
    "here", "others", "rest", "there", "together", "what", "which", "whole",
}  # fmt: skip
# Names in saved files or in the public interface, and those of a device.
ALLOWED_BARE = {
    ("examples/papers/claims.py", "measured"): "attribute of `Claim`",
    ("fastmcmd/classification/evaluation.py", "ordered"): "public argument",
    ("fastmcmd/device/cuda.py", "_MEASURED"): "code for GPUs",
    ("fastmcmd/device/cuda.py", "reached"): "code for GPUs",
    ("fastmcmd/distributed/parts.py", "skipped"): "saved by name",
    ("fastmcmd/distributed/saving.py", "skipped"): "saved by name",
    ("fastmcmd/evaluation/result.py", "Measured"): "public class",
    ("fastmcmd/evaluation/result.py", "measured"): "public attribute of `Evaluation`",
    ("fastmcmd/evaluation/result.py", "skipped"): "public attribute of `Evaluation`",
    ("fastmcmd/evaluation/verdict.py", "skipped"): "public attribute of `Verdict`",
    ("fastmcmd/kernels/base.py", "prepared"): "public method of `Kernel`",
    ("fastmcmd/kernels/combined.py", "prepared"): "public method of `Kernel`",
    ("fastmcmd/kernels/inner.py", "prepared"): "public method of `Kernel`",
    ("fastmcmd/kernels/scaled.py", "prepared"): "public method of `Kernel`",
    ("fastmcmd/device/base.py", "held"): "property of `Device`",
    ("fastmcmd/device/base.py", "wanted"): "attribute of `DeviceMemoryError`",
    ("fastmcmd/device/cuda.py", "held"): "property of `Device`",
    ("fastmcmd/device/memory.py", "held"): "property of `Device`",
    ("fastmcmd/estimate/states.py", "given"): "saved by name",
    ("fastmcmd/streaming/monitor.py", "moved"): "public property of `MonitorUpdate`",
    ("fastmcmd/solvers/residual_sample.py", "own"): "saved by name",
    ("fastmcmd/solvers/residual_sample.py", "seen"): "saved by name",
    ("fastmcmd/streaming/congruence_saved.py", "lost"): "saved by name",
    ("fastmcmd/streaming/congruence_sums.py", "lost"): "saved by name",
    ("tests/device/test_streams.py", "_MEASURED"): "code for GPUs",
    ("tests/host_device.py", "held"): "property of `Device`",
}


def words(name: str) -> set[str]:
    """Return the words of a name in snake_case or CamelCase, in lower case."""
    return {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_old_names_do_not_occur(path):
    with tokenize.open(path) as stream:
        names = {
            (token.string, token.start[0])
            for token in tokenize.generate_tokens(stream.readline)
            if token.type == tokenize.NAME and token.string not in ALLOWED_NAMES
        }
    names.add((path.stem, 0))
    old = [
        f"line {line}: {name} ({OLD[word]})"
        for name, line in sorted(names, key=lambda item: item[1])
        for word in words(name) & set(OLD)
    ]
    assert not old


# Words and phrases of the dialect in comments, docstrings and messages. A string that is one identifier is
# a name in a saved file; the code for GPUs has texts of its own.
DIALECT = re.compile(
    r"\b(abreast|audits?|cards?|hopeless|outlook|promising|room|spoiled|standing|survey|watched)\b"
    r"|\btold\b(?! apart)|\b(goes|going|gone|went) on\b",
    re.IGNORECASE,
)
TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
PROSE = [
    path
    for path in PYTHON
    if path.name not in ("cupy.py", Path(__file__).name) and path.parent.name != "device"
]


def prose_of(path: Path) -> list[tuple[int, str]]:
    """Return the comments and strings of a file with their lines, or the lines of a page."""
    if path.suffix == ".md":
        return list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    with tokenize.open(path) as stream:
        return [
            (token.start[0], token.string)
            for token in tokenize.generate_tokens(stream.readline)
            if token.type in TEXTS and not token.string.strip("\"'").isidentifier()
        ]


PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


@pytest.mark.parametrize("path", [*PROSE, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_old_words_do_not_occur_in_texts(path):
    assert not [
        f"line {line}: {match[0]}"
        for line, text in prose_of(path)
        if (match := DIALECT.search(text))
    ]


def test_old_words_are_recognised(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('value = "room"  # no room\n"""It went on."""\nx = f"{value} told"\n')
    words_by_line = [(line, DIALECT.search(text)) for line, text in prose_of(path)]
    assert [(line, match[0]) for line, match in words_by_line if match] == [
        (1, "room"), (2, "went on"), (3, "told"),
    ]  # fmt: skip
    assert not DIALECT.search("told apart, discarded, rooms")


CORE = [path for suffix in ("*.h", "*.cpp") for path in sorted((ROOT / "csrc").rglob(suffix))]
NOT_CODE = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(ROOT)))
def test_old_names_do_not_occur_in_the_core(path):
    code = NOT_CODE.sub("", path.read_text(encoding="utf-8"))
    names = {path.stem, *re.findall(r"[A-Za-z_]\w*", code)}
    assert not {name for name in names if words(name) & {*OLD, "strip", "thin", "nothing"}} - {
        "do_nothing"
    }


def bindings(source: str) -> set[tuple[str, int]]:
    """Return names with their lines: variables, parameters, classes, attributes and functions.

    ``read`` is a verb as the name of a function, and ``left`` is a side beside ``right``.
    """
    nodes = list(ast.walk(ast.parse(source)))
    names = set()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add((name, node.lineno))
            case ast.arg(arg=name) | ast.ClassDef(name=name) | ast.MatchAs(name=str() as name):
                names.add((name, node.lineno))
            case ast.FunctionDef(name=name) if name != "read":
                names.add((name, node.lineno))
    if not re.search(r"\bright", source):
        return names
    return {(name, line) for name, line in names if name.strip("_") != "left"}


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_say_what_they_hold(path):
    file = path.relative_to(ROOT).as_posix()
    bare = sorted(
        f"line {line}: {name}"
        for name, line in bindings(path.read_text(encoding="utf-8"))
        if name.strip("_").lower() in BARE | {"left"} and (file, name) not in ALLOWED_BARE
    )
    assert not bare


# Public class names that stand in two namespaces of the package. No name is added here.
ALLOWED_TWICE = {
    "AccuracyAboveConfidence": "`streaming` has the accumulator of the result of `classification`",
    "BrierDecomposition": "`streaming` has the accumulator of the result of `classification`",
    "PITHistogram": "`streaming` has the accumulator of the result of `metrics`",
    "ReliabilityCurve": "results of `metrics` and of `classification`, each with a field per axis",
    "UncertaintyHistogram": "`streaming` has the accumulator of the result of `classification`",
}


def test_class_names_stand_once():
    names = Counter(
        node.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == set(ALLOWED_TWICE)


def test_allowed_names_occur():
    for file, name in ALLOWED_BARE:
        source = (ROOT / file).read_text(encoding="utf-8")
        assert name in {bound for bound, _ in bindings(source)}, (file, name)


def test_bindings():
    source = "known = 1\ndef read(own, *, left=0): self.taken: int = own\nclass _Lost: pass\n"
    assert {name for name, _ in bindings(source)} == {"known", "own", "left", "taken", "_Lost"}
    assert "left" not in {name for name, _ in bindings(source + "right = 2\n")}


def test_words_of_a_name():
    assert words("_has_room") == {"", "has", "room"}
    assert words("StandingOperator") == {"standing", "operator"}
    assert "card" in words("card_rows")
    assert "card" not in words("discarded")
