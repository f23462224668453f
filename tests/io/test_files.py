"""Files are written whole, never overwrite a user's other files, and are not trusted when read."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings
import zipfile

import numpy as np
import pytest
from cli_process import environment
from killing import killed_until_done

import fastmcmd as fm
from fastmcmd.io import (
    Archive,
    AtomicFile,
    archive,
    destination,
    read_npy,
    temporary,
    write_atomically,
    write_npz,
)
from fastmcmd.io.seeds import seed_from_json, seed_to_json

posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


# ---- where may be written ----


@posix
def test_only_regular_files_are_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(tmp_path)  # the path of a socket must be short
        server.bind("socket")
        for path, error, message in (
            ("/dev/null", ValueError, "out is '/dev/null', a device"),
            ("link", ValueError, "a device"),
            ("pipe", ValueError, "a FIFO"),
            ("socket", ValueError, "a socket"),
            (".", IsADirectoryError, "which is a folder"),
            ("new/", IsADirectoryError, "a folder"),
            ("no/file", FileNotFoundError, "out: there is no folder '.*no'"),
            ("loop", OSError, "out"),
            ("", ValueError, "out is ''"),
            ("a\0b", ValueError, "out is"),
            (3, TypeError, "out is 3"),
            ("n" * 300, OSError, "out .* cannot be written: File name too long"),
        ):
            with pytest.raises(error, match=message):
                write_atomically(path, lambda stream: stream.write(b"x"), "out")
    assert names(tmp_path) == ["link", "loop", "pipe", "socket"]


@posix
def test_save_refuses_a_device_and_names_the_path(tmp_path, rng):
    x = rng.normal(size=30)
    fitted = fm.ConditionalCongruence().fit(x, x, fm.Gaussian(x, 1.0))
    with pytest.raises(ValueError, match="path is '/dev/null', a device"):
        fitted.save("/dev/null")
    for path in (tmp_path / "no" / "a.npz", tmp_path):
        with pytest.raises(OSError, match=str(path.parent if path != tmp_path else path)) as caught:
            fitted.save(path)
        assert "fastmcmd-" not in str(caught.value)


@posix
def test_an_error_of_the_disk_names_the_path_not_the_temporary_file(tmp_path, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("fastmcmd.io.atomic.os.replace", refuse)
    with pytest.raises(PermissionError) as caught:
        write_atomically(tmp_path / "a.npz", lambda stream: stream.write(b"x"))
    assert (
        str(caught.value)
        == f"[Errno 13] path ({tmp_path}/a.npz) cannot be written: Permission denied"
    )
    assert names(tmp_path) == []


@posix
def test_modes(tmp_path):
    """The file is private during the write; then it has the old file's mode, or that of the umask."""
    modes = []

    def write(stream):
        (part,) = (entry for entry in tmp_path.iterdir() if entry.name.startswith(".fastmcmd-"))
        modes.append(stat.S_IMODE(part.stat().st_mode))
        stream.write(b"x")

    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "new", write)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(tmp_path / "new", write)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604
    assert modes == [0o600, 0o600]


@posix
def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "file").write_text("old")
    (tmp_path / "link").symlink_to("to/file")
    write_atomically(tmp_path / "link", lambda stream: stream.write(b"new"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "to" / "file").read_text() == "new"
    assert names(tmp_path / "to") == ["file"]


@posix
def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """The file is safe even if somebody guesses the random name."""
    (tmp_path / "precious").write_text("mine")
    monkeypatch.setattr(temporary.secrets, "token_hex", lambda count: "0" * 2 * count)
    name = temporary._new_name(temporary.tag_of("a"), "part")
    (tmp_path / name).symlink_to("precious")
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "a", lambda stream: stream.write(b"x"))
    assert (tmp_path / "precious").read_text() == "mine"


# ---- what killed runs leave ----

HOLD = """
import sys, time
from fastmcmd.io import AtomicFile
file = AtomicFile(sys.argv[1], "path")
file.stream.write(b"half")
file.stream.flush()
print("begun", flush=True)
time.sleep(100)
"""


@posix
def test_the_file_of_a_live_run_stays_and_that_of_a_killed_one_goes(tmp_path):
    target = tmp_path / "a.bin"
    lookalikes = ["a.bin.part", ".fastmcmd-a.part", ".a.bin", "a.bin.x.part"]
    lookalikes.append(f".fastmcmd-{temporary.tag_of('a.bin')}-{'0' * 16}-{'0' * 8}.part")
    for name in lookalikes:
        (tmp_path / name).write_text("mine")
    command = [sys.executable, "-c", HOLD, target]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout.readline() == "begun\n"
        (own_file,) = set(names(tmp_path)) - set(lookalikes)
        write_atomically(target, lambda stream: stream.write(b"whole"))
        assert set(names(tmp_path)) == {own_file, "a.bin", *lookalikes}
        process.kill()
    write_atomically(tmp_path / "b.bin", lambda stream: stream.write(b"other"))
    assert own_file in names(tmp_path)  # it is not of this target
    write_atomically(target, lambda stream: stream.write(b"again"))
    assert set(names(tmp_path)) == {"a.bin", "b.bin", *lookalikes}
    assert target.read_bytes() == b"again"


SAVING = """
import os
import sys
import numpy as np
from fastmcmd.storage import write_file
def write_forever():
    for turn in range(10**9):
        write_file(sys.argv[1], {"a": np.full(20_000, float(turn))}, {"turn": turn})
for _ in sys.stdin:  # a process for each line
    child = os.fork()
    if not child:
        write_forever()
    print(child, flush=True)
    print(os.waitpid(child, 0), flush=True)
"""


@pytest.mark.slow
@posix
def test_killed_at_random_moments(tmp_path):
    """The file is always whole, and one later run removes all leftovers."""
    from fastmcmd.storage import read_file, write_file

    target = tmp_path / "a.npz"
    rng = np.random.default_rng(int(time.time()))
    command = [sys.executable, "-c", SAVING, target]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, bufsize=1, env=environment()) as run:
        for _ in range(6):
            print(file=run.stdin)
            child = int(run.stdout.readline())
            time.sleep(rng.uniform(0.01, 0.3))
            os.kill(child, signal.SIGKILL)
            assert run.stdout.readline() == f"({child}, {int(signal.SIGKILL)})\n"
            if target.exists():
                arrays, settings, _ = read_file(target, "array")
                assert set(arrays["a"]) == {float(settings["turn"])}
        run.stdin.close()
    write_file(target, {"a": np.zeros(1)}, {})
    assert names(tmp_path) == ["a.npz"]


def test_an_interrupt_leaves_nothing(tmp_path):
    def stopped(stream):
        stream.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a", stopped)
    file = AtomicFile(tmp_path / "a", "path")
    del file
    assert names(tmp_path) == []


# ---- what is the user's ----


@posix
def test_out_is_never_an_input(tmp_path, rng):
    x = rng.normal(size=(50, 1))
    y, draws = x[:, 0] + rng.normal(size=50), rng.normal(size=50)
    np.save(tmp_path / "x.npy", x)
    before = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "soft.npy").symlink_to("x.npy")
    os.link(tmp_path / "x.npy", tmp_path / "hard.npy")
    file, memory_map = tmp_path / "x.npy", np.load(tmp_path / "x.npy", mmap_mode="r")
    for source in (file, str(file), memory_map):
        for out in (file, tmp_path / "soft.npy", tmp_path / "hard.npy"):
            with pytest.raises(ValueError, match=r"out .* is x itself; name another file"):
                fm.cce(source, y, draws, out=out)
    with pytest.raises(ValueError, match=r"out .* is grid itself"):
        fm.mcmd(file, x, y, x, draws, out=file)
    with pytest.raises(ValueError, match="out shares memory with y"):
        fm.cce(x, y, draws, out=y)
    with pytest.raises(ValueError, match=r"checkpoint .* is x itself"):
        fm.cce(file, y, draws, checkpoint=file)
    with pytest.raises(ValueError, match=r"checkpoint .* is out itself"):
        fm.cce(x, y, draws, checkpoint=tmp_path / "new.npy", out=tmp_path / "new.npy")
    assert file.read_bytes() == before
    table = np.zeros((50, 2))
    table[:, 0] = y
    fm.cce(x, table[:, 0], draws, out=table[:, 1])  # beside it, not the same
    assert (table[:, 1] > 0).all()
    assert not (tmp_path / "new.npy").exists()


def test_a_checkpoint_and_its_out_and_a_users_parts(tmp_path, rng):
    """`checkpoint="run"` removed ``run.*.part``, its own unfinished ``out="run.npy"`` among them."""
    x = rng.normal(size=60)
    (tmp_path / "run.draft.part").write_text("mine")
    result = fm.cce(
        x, x, fm.Gaussian(x, 1.0), checkpoint=tmp_path / "run", out=tmp_path / "run.npy"
    )
    assert names(tmp_path) == ["run.draft.part", "run.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "run.npy"), result.values)
    assert (tmp_path / "run.draft.part").read_text() == "mine"


@posix
def test_a_checkpoint_that_is_no_file_is_refused_at_once(tmp_path, rng):
    x = rng.normal(size=20)
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/null", tmp_path / "pipe"):
        with pytest.raises(ValueError, match=r"checkpoint is .*a (device|FIFO)"):
            fm.cce(x, x, fm.Gaussian(x, 1.0), checkpoint=path)


# ---- .npz and .npy ----


def test_arrays_of_any_name(tmp_path):
    """`numpy.savez` takes names as keywords: one named file failed, one named allow_pickle vanished."""
    arrays = {
        name: np.arange(3.0) + i for i, name in enumerate(["file", "allow_pickle", "a/b", "é,", ""])
    }
    write_atomically(tmp_path / "a.npz", lambda stream: write_npz(stream, arrays))
    with Archive(tmp_path / "a.npz", "path") as opened:
        assert opened.names == list(arrays)
        stored_arrays = opened.arrays()
    for name, array in arrays.items():
        np.testing.assert_array_equal(stored_arrays[name], array)
    with np.load(tmp_path / "a.npz") as plain:
        assert plain.files == list(arrays)


def test_many_small_arrays_take_few_writes(monkeypatch):
    """Each of 300,000 columns cost four system calls and a new header."""
    arrays = {f"c{i}": np.arange(3.0) + i for i in range(300)}
    arrays |= {
        "words": np.array(["a", "bcd"]),
        "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "every other": np.arange(10)[::2],
        "fields": np.array([(1, 2.0)], dtype=[("é", "i4"), ("b", "f8")]),
        "none": np.empty((0, 3), np.float32),
        "one": np.float64(3.5),
        "large": np.arange(20_000.0),
    }
    writes = []

    class CountingStream(io.BytesIO):
        def write(self, data):
            writes.append(len(data))
            return super().write(data)

    stream, plain = CountingStream(), io.BytesIO()
    write_npz(stream, arrays)
    assert len(writes) == 1
    monkeypatch.setattr(archive, "_IN_MEMORY", 0)
    write_npz(plain, arrays)
    for target in (stream, plain):
        with np.load(io.BytesIO(target.getvalue()), allow_pickle=False) as opened:
            assert opened.files == list(arrays)
            for name, array in arrays.items():
                assert opened[name].dtype == array.dtype
                np.testing.assert_array_equal(opened[name], array)
                assert opened[name].flags.f_contiguous == np.asarray(array).flags.f_contiguous or (
                    name == "every other"
                )
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(io.BytesIO(), {"objects": np.array([None])})


def npy(array=None, header=None):
    stream = io.BytesIO()
    if header is None:
        np.lib.format.write_array(stream, array, allow_pickle=True)
        return stream.getvalue()
    text = header.encode()
    return b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text


def head(shape="(3,)", descr="'<f8'", fortran="False"):
    return npy(header=f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}")


BAD_NPY = {
    "empty": b"",
    "magic only": b"\x93NUMPY",
    "other magic": b"PK\x03\x04" + bytes(50),
    "version": b"\x93NUMPY\x09\x00" + bytes(50),
    "cut header": npy(np.zeros(3))[:40],
    "cut data": npy(np.zeros(3))[:-1],
    "object": npy(np.array([{}], dtype=object)),
    "object field": head(descr="[('a', '|O')]"),
    "huge header": b"\x93NUMPY\x02\x00" + (2**31).to_bytes(4, "little") + b"{",
    "nested header": npy(header="(" * 5000),
    "operators": npy(header="-" * 9000 + "1"),
    "no dict": npy(header="[1, 2]"),
    "more keys": npy(header="{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'x': 1}"),
    "negative": head("(-3,)") + bytes(24),
    "bool shape": head("(True,)") + bytes(24),
    "float shape": head("(3.0,)") + bytes(24),
    "larger": head("(4,)") + bytes(24),
    "overflow": head("(2**70,)") + bytes(24),
    "product": head(f"({2**62}, 4)") + bytes(24),
    "huge": head(f"({2**40},)") + bytes(24),
    "empty but wide": head(f"(0, {2**62})"),
    "many": head("(" + "1," * 70 + ")") + bytes(8),
    "descr": head(descr="'spam'") + bytes(24),
    "descr number": head(descr="7") + bytes(24),
    "no size": head(descr="'<U0'"),
    "subarray": head(descr="('<f8', (3,))") + bytes(72),
    "fortran": head(fortran="1") + bytes(24),
}


@pytest.mark.parametrize("kind", BAD_NPY)
def test_bad_npy(kind, tmp_path):
    """Each raises a ValueError that names the file, alone and within an .npz."""
    (tmp_path / "x.npy").write_bytes(BAD_NPY[kind])
    with pytest.raises(ValueError, match=r"x\.npy") as caught:
        read_npy(tmp_path / "x.npy", "x")
    assert "allow_pickle" not in str(caught.value)
    with pytest.raises(ValueError, match=r"x\.npy"):
        fm.cce(tmp_path / "x.npy", [1.0, 2, 3], [1.0, 2, 3])
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("a.npy", BAD_NPY[kind])
    with Archive(tmp_path / "x.npz", "x") as opened, pytest.raises(ValueError, match=r"x\.npz"):
        opened.array("a")


def made_twice(path, content):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", content)
        file.writestr("a.npy", content)
    return path.read_bytes()


def bad_archives(path):
    def archive_of(**members):
        with zipfile.ZipFile(path, "w") as file:
            for name, content in members.items():
                file.writestr(name.replace("_npy", ".npy"), content)
        return bytearray(path.read_bytes())

    good = npy(np.arange(100.0))
    yield "no zip", b"not a zip"
    yield "text", bytes(archive_of(a_npy=good, **{"readme.txt": b"hello"}))
    yield "cut", bytes(archive_of(a_npy=good)[:-30])
    encrypted = archive_of(a_npy=good)
    encrypted[6] |= 1
    encrypted[encrypted.rindex(b"PK\x01\x02") + 8] |= 1
    yield "encrypted", bytes(encrypted)
    declared = archive_of(a_npy=good)
    at = declared.rindex(b"PK\x01\x02")
    declared[at + 24 : at + 28] = (2**31).to_bytes(4, "little")
    yield "declares more", bytes(declared)
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = made_twice(path, good)
    yield "twice", twice
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as file:
        file.writestr("a.npy", good)
    yield "bzip2", path.read_bytes()
    flipped = archive_of(a_npy=good)
    flipped[flipped.index(good) + 300] ^= 4
    yield "flipped", bytes(flipped)


def test_bad_archives(tmp_path):
    path = tmp_path / "x.npz"
    for kind, content in list(bad_archives(path)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.npz"):  # noqa: PT012 (the loop is the point)
            with Archive(path, "x") as opened:
                opened.arrays()
            pytest.fail(kind)
        with pytest.raises(ValueError, match=r"x\.npz"):
            fm.load(path)


def test_a_bomb_is_refused_before_memory_is_taken(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", npy(np.zeros(3_000_000)))
    monkeypatch.setattr("fastmcmd.io.npy.available_memory", lambda: 10**6)
    with (
        Archive(path, "x") as opened,
        pytest.raises(ValueError, match="it declares 24 MB, and 1 MB"),
    ):
        opened.array("a")


# ---- saved estimators ----


def changed(path, arrays=None, state=None, checksum=False):
    """Rewrite a saved object with other contents, with a new checksum or the old one."""
    from fastmcmd.storage import write_file

    with np.load(path) as opened:
        contents = {name: opened[name] for name in opened.files}
    settings = json.loads(contents.pop("settings").tobytes())
    old = contents.pop("checksum")
    contents |= arrays or {}
    settings["state"] |= state or {}
    if checksum:
        text = np.frombuffer(json.dumps(settings).encode(), np.uint8)
        np.savez(path, **contents, settings=text, checksum=old)
    else:
        del settings["format"], settings["fastmcmd"]
        write_file(path, contents, settings)


@pytest.fixture(params=["feature", "dense", "lowrank", "line"])
def saved_file(request, tmp_path, rng):
    x, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    prediction = fm.Gaussian(x[:, 0], 1.0)
    if request.param == "line":
        x, y = x[:30], y[:30]
        prediction = fm.StudentT(2.0, x[:, 0], 20.0)
    options = {
        "feature": {"y_kernel": fm.RBF(1.0)},
        "dense": {"y_kernel": fm.Laplacian(1.0), "draws": 3, "random_state": 5},
        "lowrank": {"solver": "lowrank", "tol": 1e-2},
        "line": {"y_kernel": fm.RBF(0.5)},
    }[request.param]
    fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), **options)
    fitted.fit(x, y, prediction)
    fitted.save(tmp_path / "a.npz")
    return fitted, tmp_path / "a.npz"


@pytest.mark.slow
def test_every_array_that_is_not_what_it_must_be(saved_file):
    """Out-of-range indices of a sparse matrix ended the process; so could other shapes."""
    fitted, path = saved_file
    content = path.read_bytes()
    new = np.zeros((3, 2))
    np.testing.assert_array_equal(fm.load(path).score_samples(new), fitted.score_samples(new))
    with np.load(path) as opened:
        arrays = {n: opened[n] for n in opened.files if n not in ("settings", "checksum")}
    for name, array in arrays.items():
        bad_arrays = [
            array[:-1] if "panels" not in name else array[::-1],  # features may lack the last panel
            np.concatenate([array, array]),
            array[None],
            array.astype(object).astype("U8"),
        ]
        if array.dtype.kind == "i":
            bad_arrays += [array + 10**6, array - 10**6, array.astype(float)]
        elif name not in ("values", "error_bounds"):
            bad_arrays += [np.full_like(array, np.nan), array.astype(int)]
        for other in bad_arrays:
            changed(path, {name: other})
            with pytest.raises(ValueError, match=r"a\.npz is damaged"):
                fm.load(path)
            path.write_bytes(content)
        without = {n: a for n, a in arrays.items() if n != name}
        with np.load(path) as opened:
            text = opened["settings"]
        np.savez(path, **without, settings=text)
        with pytest.raises(ValueError, match=r"a\.npz is damaged"):
            fm.load(path)
        path.write_bytes(content)


@pytest.mark.parametrize("saved_file", ["line"], indirect=True)
def test_panels_that_are_none(saved_file):
    _, path = saved_file
    name = "form.features.panels.0"
    with np.load(path) as opened:
        panels, selected = opened[name], opened["form.features.selected"]
    count = len(panels)
    forged = [
        panels[::-1],
        panels[:, ::-1],
        np.repeat(panels[:1], count, axis=0),
        np.where(np.arange(2 * count).reshape(-1, 2) == 2, panels[1, 1], panels),  # no length
        np.where(np.arange(2 * count).reshape(-1, 2) == 3, panels[1, 1] + 1e-3, panels),  # overlap
        np.array([[-1.5e308, 1.5e308]]),  # of infinite length
        panels[:, :1],
        np.empty((0, 2)),
    ]
    for other in forged:
        with pytest.raises(ValueError, match=r"a\.npz is damaged"):
            reread(path, {name: np.ascontiguousarray(other)})
    for other in (selected[::-1], np.maximum(selected, selected[1]), selected[:0]):
        with pytest.raises(ValueError, match=r"a\.npz is damaged"):
            reread(path, {"form.features.selected": np.ascontiguousarray(other)})


def reread(path, arrays):
    """Load a file after replacing some arrays, and restore it."""
    content = path.read_bytes()
    try:
        changed(path, arrays)
        fm.load(path)
    finally:
        path.write_bytes(content)


def test_exchanged_contents_do_not_match_the_checksum(saved_file):
    _, path = saved_file
    with np.load(path) as opened:
        values = opened["values"]
    changed(path, {"values": values[::-1].copy()}, checksum=True)
    with pytest.raises(ValueError, match="do not match their checksum"):
        fm.load(path)


WRONG = (-3, "spam", [], {}, [[]], 1e300, None, [None], {"kernel": "RBF"}, True)


def replaced(document):
    """Yield copies of a document with one value, at any depth, replaced."""
    if isinstance(document, dict | list):
        for name in list(document if isinstance(document, dict) else range(len(document))):
            for other in replaced(document[name]):
                copy = document.copy()
                copy[name] = other
                yield copy
    for value in WRONG:
        if value != document:
            yield value


@pytest.mark.slow
def test_settings_that_are_not_what_they_must_be(saved_file, rng):
    """Each is rejected with the name of the file, or does no harm."""
    _, path = saved_file
    content = path.read_bytes()
    with np.load(path) as opened:
        state = json.loads(opened["settings"].tobytes())["state"]
    refused = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad_states = [other for other in replaced(state) if isinstance(other, dict) and other]
        for place in rng.choice(len(bad_states), 150, replace=False):
            other = bad_states[place]
            changed(path, state=other)
            try:
                loaded_object = fm.load(path)
            except ValueError as error:
                assert "a.npz is damaged" in str(error)  # noqa: PT017
                refused += 1
            else:
                with contextlib.suppress(ValueError):
                    loaded_object.score_samples(np.zeros((2, 2)))
            path.write_bytes(content)
    assert refused > 75


@pytest.mark.parametrize(
    "state",
    [None, 7, [1, 2, 3], np.random.SeedSequence(5, spawn_key=(2,)), np.random.default_rng(3),
     np.random.Generator(np.random.MT19937(3)), np.random.Philox(4),
     np.random.Generator(np.random.SFC64(1))],
)  # fmt: skip
def test_what_was_given_comes_back(state, tmp_path, rng):
    """Refitted on other data, the copy equals the original."""
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    estimator = fm.ConditionalCongruence(
        x_kernel=fm.RBF("median") + 0.5,
        y_kernel=fm.RBF("variance"),
        draws=2,
        random_state=state,
        rank=None,
    )
    estimator.fit(x, y, fm.Gaussian(y, 1.0))
    estimator.save(tmp_path / "a.npz")
    again = fm.load(tmp_path / "a.npz")
    ours, theirs = estimator.get_params(), again.get_params()
    assert ours.keys() == theirs.keys()
    assert all(theirs[name] == ours[name] for name in ours if name != "random_state")
    wide = 100 * y
    ours = (
        estimator.fit(x, wide, fm.Gaussian(wide, 30.0)).result_.values if state is not None else 0
    )
    theirs = again.fit(x, wide, fm.Gaussian(wide, 30.0)).result_.values if state is not None else 0
    np.testing.assert_array_equal(ours, theirs)


def test_default_kernels_stay_defaults(tmp_path, rng):
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    fitted = fm.ConditionalCongruence().fit(x, y, fm.Gaussian(y, 1.0))
    fitted.save(tmp_path / "a.npz")
    params = fm.load(tmp_path / "a.npz").get_params()
    assert params["x_kernel"] is None
    assert params["y_kernel"] is None


def test_random_states():
    for state in (np.random.RandomState(3), np.random.default_rng(1), np.random.MT19937(2)):
        as_json = json.loads(json.dumps(seed_to_json(state, "random_state")))
        copy = seed_from_json(as_json)
        draw = (
            (lambda s: s.normal(size=3))
            if hasattr(state, "normal")
            else (lambda s: s.random_raw(3))
        )
        np.testing.assert_array_equal(draw(copy), draw(state))
    children = [
        seed_from_json(seed_to_json(rng, "r")).spawn(1)[0] for rng in [np.random.default_rng(1)]
    ]
    assert children[0].random() == np.random.default_rng(1).spawn(1)[0].random()
    for bad in ("spam", 1.5, True, object()):
        with pytest.raises(TypeError, match="random_state is"):
            seed_to_json(bad, "random_state")
    as_json = seed_to_json(np.random.MT19937(2), "r")
    as_json["state"]["state"]["pos"] = 10**6  # the generator's C code would read there
    with pytest.raises(ValueError, match="pos"):
        seed_from_json(as_json)


def test_destination_changes_nothing(tmp_path):
    assert destination(tmp_path / "a", "out") == tmp_path / "a"
    assert names(tmp_path) == []


DATA = """
import sys
import numpy as np
import fastmcmd as fm
from fastmcmd.estimate import resume
resume._EVERY = 0.0
rng = np.random.default_rng(0)
x = rng.normal(size=(1200, 2))
y = x[:, 0] + rng.normal(size=1200)
"""
ESTIMATE = """
fm.cce(x, y, fm.Gaussian(x[:, 0], 1.0), x_kernel=fm.RBF(2.0), lam=1e-4, solver="cg", dtype="float64",
       checkpoint=sys.argv[1] + "/run", out=sys.argv[1] + "/run.npy")
"""


@pytest.mark.slow
@posix
def test_a_killed_estimate_leaves_nothing_once_it_is_done(tmp_path):
    """The next run uses or removes its checkpoint, unfinished output and lock."""
    (tmp_path / "run.part").write_text("mine")
    (tmp_path / "run.lock").write_text("mine")
    killed_until_done(DATA, ESTIMATE, [tmp_path], 1.0)
    assert names(tmp_path) == ["run.lock", "run.npy", "run.part"]
    assert np.load(tmp_path / "run.npy").shape == (1200,)
    assert {(tmp_path / name).read_text() for name in ("run.lock", "run.part")} == {"mine"}
