"""Old names of the package do not return; contributing.md has the glossary."""

from __future__ import annotations

import ast
import functools
import re
import tokenize
from collections import Counter
from pathlib import Path

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
    ("fastmcmd/solvers/residual_sample.py", "seen"): "saved by name",
    ("fastmcmd/streaming/congruence_saved.py", "lost"): "saved by name",
    ("fastmcmd/streaming/congruence_sums.py", "lost"): "saved by name",
    ("tests/device/test_streams.py", "_MEASURED"): "code for GPUs",
    ("tests/host_device.py", "held"): "property of `Device`",
}


@functools.cache
def words(name: str) -> frozenset[str]:
    """Return the words of a name in snake_case or CamelCase, in lower case."""
    return frozenset(word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name))


@functools.cache
def source_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def old_names(path: Path) -> list[str]:
    """Return the names of a file, its own included, that have an old word, with their lines.

    Only files where such a name stands, be it in a text, are split into tokens.
    """
    names = {(path.stem, 0)}
    identifiers = set(re.findall(r"\w+", source_of(path))) - ALLOWED_NAMES
    if any(words(name) & OLD.keys() for name in identifiers):
        with tokenize.open(path) as stream:
            names |= {
                (token.string, token.start[0])
                for token in tokenize.generate_tokens(stream.readline)
                if token.type == tokenize.NAME and token.string not in ALLOWED_NAMES
            }
    return [
        f"{path}:{line}: {name} ({OLD[word]})"
        for name, line in sorted(names, key=lambda item: item[1])
        for word in words(name) & OLD.keys()
    ]


def test_old_names_do_not_occur():
    assert [name for path in PYTHON for name in old_names(path)] == []


def test_old_names_are_recognised(tmp_path):
    path = tmp_path / "card_rows.py"
    path.write_text('"""It was found."""\nx = told\nclass NoRoom: ...\n# the room\n')
    assert [name.removeprefix(f"{path}:").split(" (")[0] for name in old_names(path)] == [
        "0: card_rows", "2: told", "3: NoRoom",
    ]  # fmt: skip


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
        return list(enumerate(source_of(path).splitlines(), 1))
    with tokenize.open(path) as stream:
        return [
            (token.start[0], token.string)
            for token in tokenize.generate_tokens(stream.readline)
            if token.type in TEXTS and not token.string.strip("\"'").isidentifier()
        ]


PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]


def test_old_words_do_not_occur_in_texts():
    assert [
        f"{path}:{line}: {match[0]}"
        for path in [*PROSE, *PAGES]
        if DIALECT.search(source_of(path))  # be it in a name: splitting into tokens takes longest
        for line, text in prose_of(path)
        if (match := DIALECT.search(text))
    ] == []


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


def test_old_names_do_not_occur_in_the_core():
    old = {*OLD, "strip", "thin", "nothing"}
    for path in CORE:
        code = NOT_CODE.sub("", source_of(path))
        names = {path.stem, *re.findall(r"[A-Za-z_]\w*", code)} - {"do_nothing"}
        assert not {name for name in names if words(name) & old}, path


@functools.cache
def bindings(source: str) -> tuple[set[tuple[str, int]], list[str]]:
    """Return names with their lines (variables, parameters, classes, attributes, functions), and classes.

    ``read`` is a verb as the name of a function, and ``left`` is a side beside ``right``.
    """
    names, classes = set(), []
    for node in ast.walk(ast.parse(source)):
        match node:  # most nodes are names that are read
            case ast.Name(id=name) | ast.Attribute(attr=name):
                if isinstance(node.ctx, ast.Store):
                    names.add((name, node.lineno))
            case ast.arg(arg=name) | ast.MatchAs(name=str() as name):
                names.add((name, node.lineno))
            case ast.FunctionDef(name=name) if name != "read":
                names.add((name, node.lineno))
            case ast.ClassDef(name=name):
                names.add((name, node.lineno))
                classes.append(name)
    if re.search(r"\bright", source):
        names = {(name, line) for name, line in names if name.strip("_") != "left"}
    return names, classes


def test_names_say_what_they_hold():
    vague = BARE | {"left"}
    assert [
        f"{file}:{line}: {name}"
        for path in PYTHON
        for file in [path.relative_to(ROOT).as_posix()]
        for name, line in sorted(bindings(source_of(path))[0])
        if name.strip("_").lower() in vague and (file, name) not in ALLOWED_BARE
    ] == []


# Public class names that stand in two namespaces of the package. No name is added here.
ALLOWED_TWICE = {
    "AccuracyAboveConfidence": "`streaming` has the accumulator of the result of `classification`",
    "BrierDecomposition": "`streaming` has the accumulator of the result of `classification`",
    "PITHistogram": "`streaming` has the accumulator of the result of `metrics`",
    "ReliabilityCurve": "results of `metrics` and of `classification`, each with a field per axis",
    "UncertaintyHistogram": "`streaming` has the accumulator of the result of `classification`",
}


def test_class_names_stand_once():
    names = Counter(name for path in FILES for name in bindings(source_of(path))[1])
    assert {name for name, count in names.items() if count > 1} == set(ALLOWED_TWICE)


def test_allowed_names_occur():
    for file, name in ALLOWED_BARE:
        assert name in {bound for bound, _ in bindings(source_of(ROOT / file))[0]}, (file, name)


def test_bindings():
    source = "known = 1\ndef read(own, *, left=0): self.taken: int = own\nclass _Lost: pass\n"
    names, classes = bindings(source)
    assert {name for name, _ in names} == {"known", "own", "left", "taken", "_Lost"}
    assert classes == ["_Lost"]
    assert "left" not in {name for name, _ in bindings(source + "right = 2\n")[0]}


def test_words_of_a_name():
    assert words("_has_room") == {"", "has", "room"}
    assert words("StandingOperator") == {"standing", "operator"}
    assert "card" in words("card_rows")
    assert "card" not in words("discarded")
