"""Peak resident memory of a process, beyond inputs and libraries, stays within ``memory_limit``."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from builders import FORKED, STATUS_FIELD

import fastmcmd as fm
from fastmcmd._base.memory import available_memory, format_bytes, parse_memory

# Memory of a call beyond its plan: heap fragmentation, BLAS buffers, code paged in.
ALLOWANCE = 12_000_000

CODE = (
    STATUS_FIELD
    + FORKED
    + """
import json
import numpy as np
import fastmcmd as fm

fm.set_num_threads(2)
n, d = 4000, 128
rng = np.random.default_rng(0)
x = rng.normal(size=(n, d)).astype(np.float32)
y, p = rng.normal(size=n), rng.normal(size=n)

def measure(limit, options):
    fm.cce(x[:600], y[:600], p[:600], x_kernel=fm.RBF(1 / d), **options)  # libraries, BLAS buffers
    open("/proc/self/clear_refs", "w").write("5")
    before = field("VmRSS:")
    result = fm.cce(x, y, p, x_kernel=fm.RBF(1 / d), memory_limit=limit, **options)
    print(field("VmHWM:") - before, result.info.cache, flush=True)

for limit, options in json.loads(sys.argv[1]):
    forked(measure, limit, options)
"""
)
CASES = [
    ("34MB", {}, "partly packed"),
    ("50MB", {}, "partly packed"),
    ("150MB", {}, "packed"),
    ("200MB", {"dtype": "float64"}, "packed"),
    ("200MB", {"solver": "cholesky"}, "packed"),
    ("60MB", {"dtype": "float64", "solver": "cg"}, "partly packed"),
]


@functools.cache
def measurements():
    """Return peak and cache of each case."""
    job = json.dumps([[parse_memory(limit), options] for limit, options, _ in CASES])
    process = subprocess.run(
        [sys.executable, "-c", CODE, job], capture_output=True, text=True, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return [line.split(maxsplit=1) for line in process.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("case", range(len(CASES)), ids=[str(case[:2]) for case in CASES])
def test_memory_stays_within_the_limit(case):
    limit, _, cache = CASES[case]
    peak, mode = measurements()[case]
    assert mode == cache
    assert int(peak) <= parse_memory(limit) + ALLOWANCE, (format_bytes(int(peak)), limit)


def test_what_is_needed_is_rounded_up():
    """Otherwise a message said that 33 MB are less than the 33 MB that are needed."""
    sizes = [1, 999, 1001, 33_000_001, 1_234_000_001]
    texts = [format_bytes(size, least=True) for size in sizes]
    assert texts == ["1 B", "999 B", "2 kB", "34 MB", "1.24 GB"]
    assert all(parse_memory(text) >= size for text, size in zip(texts, sizes, strict=True))
    assert format_bytes(33_000_001) == "33 MB"


def test_small_and_large_limits_agree(rng):
    x = rng.normal(size=(2500, 80)).astype("float32")
    y, p = rng.normal(size=2500), rng.normal(size=2500)
    options = {"x_kernel": fm.RBF(1 / 80), "y_kernel": fm.RBF(0.5), "solver": "cg"}
    small = fm.cce(x, y, p, memory_limit="25MB", **options)
    large = fm.cce(x, y, p, memory_limit="2GB", **options)
    assert (small.info.cache, large.info.cache) == ("partly packed", "packed")
    assert abs(small.values - large.values).max() <= small.error_bound + large.error_bound


@pytest.mark.parametrize("y_kernel", [fm.RBF(0.5), fm.Laplacian(20.0)], ids=["feature", "dense"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_cholesky_that_does_not_fit_says_at_once_what_it_needs(y_kernel, on_disk, tmp_path, rng):
    x, y = rng.normal(size=(900, 2)), rng.normal(size=900)
    other = rng.normal(size=(1200, 2))  # two systems: the larger factor counts
    options = {"y_kernel": y_kernel, "solver": "cholesky"}
    if on_disk:
        options["cache_dir"] = tmp_path
    part = "block columns of " if on_disk else ""
    message = (
        r"memory_limit is 1 MB; at least (\d+) MB are needed for solver='cholesky', .* of them for "
        rf"{part}the factor of 1,200 distinct inputs; raise memory_limit"
    )
    with pytest.raises(fm.MemoryLimitError, match=message) as caught:
        fm.mcmd(x[:20], x, y, other, other[:, 0], memory_limit="1MB", **options)
    need = 10**6 * int(re.search(message, str(caught.value))[1])
    assert ("cache_dir" in str(caught.value)) != on_disk
    # Rounded to megabytes.
    result = fm.mcmd(x[:20], x, y, other, other[:, 0], memory_limit=need + 10**6, **options)
    assert result.info.form == ("dense" if y_kernel == fm.Laplacian(20.0) else "feature")
    with pytest.raises(fm.MemoryLimitError, match="at least"):
        fm.mcmd(x[:20], x, y, other, other[:, 0], memory_limit=need - 10**6, **options)


def test_limits_too_small_say_the_same(rng):
    """An early refusal knows the rank of the output kernel from some outputs, a later one from all."""
    x = rng.normal(size=(10_000, 16))
    y, p = np.sin(x[:, 0]) + 0.3 * rng.normal(size=(2, 10_000))
    needs = {}
    for limit in ("25MB", "36MB"):
        for call, parts in (fm.cce, (x, y, p)), (fm.plan, (x,)):
            options = {"y": y} if call is fm.plan else {}
            with pytest.raises(fm.MemoryLimitError, match="memory_limit is") as caught:
                call(*parts, memory_limit=limit, **options)
            amount = re.search(r"(about|at least) (\d+) MB are needed", str(caught.value))
            needs[call, limit] = amount[1], int(amount[2])
    assert [needs[fm.cce, limit][0] for limit in ("25MB", "36MB")] == ["about", "at least"]
    least = needs[fm.cce, "36MB"][1]
    for (call, _), (_, need) in needs.items():  # a plan knows less: the observed outcomes only
        assert least <= need <= (1.35 if call is fm.plan else 1.2) * least, needs
    assert fm.cce(x, y, p, memory_limit=f"{least + 1}MB").info.solver == "cg"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("2 GiB", 2 * 2**30),
        ("1.5e3", 1500),
        ("512mb", 512 * 10**6),
        ("10k", 10_000),
        (4096, 4096),
        (2.5e9, 2_500_000_000),
        (10**400, sys.maxsize),
        ("1e400 GB", sys.maxsize),
    ],
)
def test_parse_memory(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "GB", "2 apples", "-1GB", 0, -3, float("nan"), "0"])
def test_parse_memory_refuses(text):
    with pytest.raises(ValueError, match="memory_limit is"):
        parse_memory(text)


@pytest.mark.parametrize("value", [True, [1], {}])
def test_parse_memory_refuses_types(value):
    with pytest.raises(TypeError, match="memory_limit is"):
        parse_memory(value)


def test_available_memory_is_plausible():
    assert 10**7 < available_memory() < 10**14
