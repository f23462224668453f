"""Attack every reader of files: flipped, cut, spliced and invented contents, in processes of their own.

``python tests/adversary/files.py --count 20000`` draws problems and prints each violation with a line that
reproduces it. A violation is a crash of the process, a hang, an exception that is neither a ValueError nor
a TypeError (from the command line: any that escapes), or contents that differ from what was written where a
checksum could tell.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import zipfile
from pathlib import Path

import numpy as np

N = 40
SECONDS = 60.0  # without an answer: a hang
ADDRESSES = 8 << 30  # bytes that a reader may map: what a header declares is not taken


# ---- good files, and what reading them gives ----


def _data():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N, 2))
    return x, x[:, 0] + rng.normal(size=N)


def _estimator(**options):
    def write(path):
        import fastmcmd as fm

        x, y = _data()
        fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), **options)
        fitted.fit(x, y, fm.Gaussian(x[:, 0], 1.0)).save(path)

    def read(path):
        import fastmcmd as fm

        found = fm.load(path)
        return [found.score_samples(np.zeros((2, 2))), found.result_.values]

    return ".npz", write, read, True


def _dense():
    import fastmcmd as fm

    return _estimator(y_kernel=fm.Laplacian(1.0), draws=2, random_state=1)


def _recalibrator():
    def write(path):
        import fastmcmd as fm

        x, y = _data()
        fm.recalibration.IsotonicCDF().fit(fm.Gaussian(x[:, 0], 2.0), y).save(path)

    def read(path):
        import fastmcmd as fm

        mended = fm.load(path).transform(fm.Gaussian([0.0, 1.0], 1.0))
        return [mended.cdf([0.5, 0.5]), mended.quantile([0.1, 0.9])]

    return ".npz", write, read, True


def _checkpoint():
    def write(path):
        from fastmcmd.checkpoint import Checkpoint

        keep = Checkpoint(path, "f", every=0)
        keep.save("one", lambda: {"a": np.arange(30.0), "b": np.array(["text"])})
        keep.save("two", lambda: {"c": np.eye(4)})

    def read(path):
        from fastmcmd.checkpoint import Checkpoint

        keep = Checkpoint(path, "f")
        found = {**(keep.load("one") or {}), **(keep.load("two") or {})}
        good = {"a": np.arange(30.0), "b": np.array(["text"]), "c": np.eye(4)}
        # A stage that is not found is computed again.
        return [found.get(name, good[name]) for name in good]

    return ".ckpt", write, read, True


def _cache():
    rows = np.arange(30, dtype=np.float32).reshape(10, 3)

    def write(path):
        from fastmcmd.encoders import cache

        cache.write(path.parent, "m", path.stem, rows)
        cache._path(path.parent, "m", path.stem).rename(path)

    def read(path):
        from fastmcmd.encoders import cache

        cache._path = lambda *_: path
        found = cache.read(path.parent, "m", path.stem, 10)
        return [rows if found is None else found]

    return ".npy", write, read, True


def _rows(suffix, put, inside=""):
    def read(path):
        from fastmcmd.rows import open_rows

        found = open_rows(f"{path}{inside}", "x")
        return [np.asarray(found[:])]

    return suffix, put, read, False


def _put_npy(path):
    np.save(path, _data()[0])


def _put_hdf5(path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=_data()[0], chunks=(10, 2), fletcher32=True)


def _put_parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, y = _data()
    columns = {"y": y, "mean": x[:, 0], "std": np.ones(N), "x0": x[:, 0], "x1": x[:, 1]}
    pq.write_table(pa.table(columns), path, write_page_checksum=True)


def _put_npz(path):
    x, y = _data()
    np.savez(path, y=y, mean=x[:, 0], std=np.ones(N), x=x)


def _put_csv(path):
    x, y = _data()
    table = np.column_stack([y, x[:, 0], np.ones(N), x])
    np.savetxt(path, table, delimiter=",", header="y,mean,std,x0,x1", comments="")


def _put_zarr(path):
    import zarr

    x, y = _data()
    group = zarr.open_group(str(path), mode="w")
    for name, values in (("y", y), ("mean", x[:, 0]), ("std", np.ones(N)), ("x", x)):
        group[name] = values


def _cli(suffix, put, *command):
    def read(path):
        from fastmcmd.cli import main

        target = path.with_name("target.npz")
        target.unlink(missing_ok=True)
        arguments = [
            command[0],
            str(path),
            *(str(target) if a == "TARGET" else a for a in command[1:]),
        ]
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            code = main(arguments)
        told = errors.getvalue()
        if code not in (0, 1, 2) or "Traceback" in told or "fastmcmd-" in told:
            raise RuntimeError(f"exit code {code}: {told}")
        if code and not told.startswith("fastmcmd:"):
            raise RuntimeError(f"exit code {code} without a reason: {told!r}")
        return []

    return suffix, put, read, False


KINDS = {
    "estimator": _estimator,
    "dense estimator": _dense,
    "low-rank estimator": lambda: _estimator(solver="lowrank", tol=1e-2),
    "recalibrator": _recalibrator,
    "checkpoint": _checkpoint,
    "cache of encoders": _cache,
    "rows of .npy": lambda: _rows(".npy", _put_npy),
    "rows of HDF5": lambda: _rows(".h5", _put_hdf5, "::x"),
    "rows of Parquet": lambda: _rows(".parquet", _put_parquet),
    "rows of Zarr": lambda: _rows(".zarr", _put_zarr, "::x"),
    "convert .csv": lambda: _cli(".csv", _put_csv, "convert", "TARGET"),
    "convert .npz": lambda: _cli(".npz", _put_npz, "convert", "TARGET"),
    "convert .npy": lambda: _cli(".npy", _put_npy, "convert", "TARGET"),
    "convert .parquet": lambda: _cli(".parquet", _put_parquet, "convert", "TARGET"),
    "convert .zarr": lambda: _cli(".zarr", _put_zarr, "convert", "TARGET"),
    "evaluate .csv": lambda: _cli(".csv", _put_csv, "evaluate", "--nan-policy", "omit"),
    "evaluate .npz": lambda: _cli(".npz", _put_npz, "evaluate"),
    "plan .npz": lambda: _cli(".npz", _put_npz, "plan"),
}


# ---- how they are spoilt ----


def _flip(content, rng):
    out = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 8])):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def _cut(content, rng):
    return content[: rng.integers(len(content))]


def _drop(content, rng):
    start = rng.integers(len(content))
    return content[:start] + content[start + rng.integers(1, 64) :]


def _insert(content, rng):
    start = rng.integers(len(content))
    return content[:start] + rng.bytes(int(rng.integers(1, 64))) + content[start:]


def _overwrite(content, rng):
    start, what = rng.integers(len(content)), rng.integers(4)
    count = int(rng.integers(1, 16))
    put = [bytes(count), b"\xff" * count, rng.bytes(count), b"\x7f" + b"\xff" * 7][what]
    return content[:start] + put + content[start + len(put) :]


def _splice(content, rng):
    start, stop, at = (int(rng.integers(len(content))) for _ in range(3))
    return content[:at] + content[min(start, stop) : max(start, stop)] + content[at:]


def _text(content, rng):
    """Put something that a reader of texts or of JSON may stumble over where a number or a word is."""
    odd = [b",", b'"', b"\n", b"\r", b"\0", b"NA", b"nan", b"inf", b"1e999", b"-", b"[[", b"{", b"9" * 30,
           b"1_0", b"\xff", b"\xef\xbb\xbf", b"true", b"null", b"-1", b"1,234"]  # fmt: skip
    start = rng.integers(len(content))
    return content[:start] + odd[rng.integers(len(odd))] + content[start + rng.integers(0, 6) :]


def _member(content, rng):
    """Exchange the array of a member, with right checksums, or invent, double or rename members."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        members = [(name, file.read(name)) for name in file.namelist()]
    at, what = int(rng.integers(len(members))), rng.integers(6)
    name, inside = members[at]
    if what == 0:
        members[at] = (name, _array(rng))
    elif what == 1:
        members[at] = (name, _overwrite(inside, rng))
    elif what == 2:
        members[at] = (
            str(rng.choice(["file.npy", "../up.npy", "x", "settings.npy", "é.npy"])),
            inside,
        )
    elif what == 3:
        members.append((name, inside))
    elif what == 4:
        del members[at]
    else:
        other = int(rng.integers(len(members)))
        members[at], members[other] = (name, members[other][1]), (members[other][0], inside)
    stream = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if rng.random() < 0.3 else zipfile.ZIP_STORED
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(stream, "w", how) as file:
            for name, inside in members:
                file.writestr(name, inside)
    return stream.getvalue()


def _array(rng):
    dtype = rng.choice(
        ["f8", "f4", "i8", "i4", "?", "c16", "U3", "S2", "M8[s]", "V4", "f2", "O", ">f8"]
    )
    shape = tuple(int(n) for n in rng.choice([0, 1, 2, 3, N, 81], size=rng.integers(0, 4)))
    array = np.zeros(shape, dtype)
    if array.dtype.kind in "fi" and array.size:
        array.reshape(-1)[rng.integers(array.size)] = rng.choice([-1, 7, 10**4, 1])
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


SPOILS = (_flip, _cut, _drop, _insert, _overwrite, _splice, _text, _member)


def spoil(path, rng):
    """Spoil a file, or one of a folder."""
    if path.is_dir():
        inner = sorted(file for file in path.rglob("*") if file.is_file())
        path = inner[rng.integers(len(inner))]
        if rng.random() < 0.05:
            path.unlink()
            return "unlink"
    content = path.read_bytes()
    for _ in range(rng.choice([1, 1, 1, 2])):
        how = SPOILS[rng.integers(len(SPOILS))]
        if how is _member and not zipfile.is_zipfile(io.BytesIO(content)):
            how = _flip
        try:
            content = how(content, rng) or b"\0"
        except (
            zipfile.BadZipFile,
            ValueError,
            IndexError,
            OSError,
            NotImplementedError,
            RuntimeError,
        ):
            content = _flip(content, rng)
    path.write_bytes(content)
    return how.__name__


# ---- the process that reads ----


def work():
    """Read what is named on standard input, line by line, and say how it went."""
    import faulthandler
    import resource

    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    warnings.simplefilter("ignore")
    made, good = {}, {}
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        task = json.loads(line)
        kind, path = task["kind"], Path(task["path"])
        _, write, read, sealed = made.setdefault(kind, KINDS[kind]())
        try:
            if task["write"]:
                write(path)
                good[kind] = read(path)
                told = "ok"
            else:
                found, told = read(path), "ok"
                if sealed and not all(
                    np.array_equal(a, b) for a, b in zip(found, good[kind], strict=True)
                ):
                    told = "other contents were accepted"
        except (ValueError, TypeError) as error:
            told = "refused" if str(error) and not task["write"] else f"empty message: {error!r}"
            if "fastmcmd-" in str(error):
                told = f"a temporary name: {error}"
        except BaseException:
            told = traceback.format_exc()[-1500:]
        print(json.dumps(told), file=answers, flush=True)


class Reader:
    """The reading process, started again whenever it dies or hangs."""

    def __init__(self):
        self._process = None

    def ask(self, task):
        if self._process is None:
            command = [sys.executable, __file__, "--work"]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._answers = queue.Queue()
            threading.Thread(
                target=_pump,
                args=(self._process.stdout, self._answers),
                daemon=True,
            ).start()
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            line = self._answers.get(timeout=SECONDS)
        except queue.Empty:
            self.end()
            return f"no answer in {SECONDS:g} s"
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            told = self._process.stderr.read()[-1500:]
            code, self._process = self._process.returncode, None
            return f"the process died ({code}): {told}"
        return json.loads(line)

    def end(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _pump(pipe, answers):
    for line in pipe:
        answers.put(line)
    answers.put("")


def attack(count, seed, kinds=None, only=None, tell=print):
    """Spoil ``count`` files, and return the violations."""
    kinds = list(kinds or KINDS)
    violations, reader, ready = [], Reader(), set()
    with tempfile.TemporaryDirectory() as folder:
        for case in range(count) if only is None else [only]:
            rng = np.random.default_rng([seed, case])
            kind = kinds[rng.integers(len(kinds))]
            suffix = KINDS[kind]()[0]
            good = Path(folder) / f"{list(KINDS).index(kind)}{suffix}"
            if kind not in ready or reader._process is None:
                ready = set() if reader._process is None else ready
                _remove(good)
                told = reader.ask({"kind": kind, "path": str(good), "write": True})
                if told != "ok":
                    raise RuntimeError(f"{kind} cannot be written and read: {told}")
                ready.add(kind)
            path = Path(folder) / f"spoilt{suffix}"
            _remove(path)
            _copy(good, path)
            how = spoil(path, rng)
            told = reader.ask({"kind": kind, "path": str(path), "write": False})
            if told not in ("ok", "refused"):
                again = f"python tests/adversary/files.py --seed {seed} --only {case}"
                violations.append(f"{kind}, {how}: {told}\n    {again}")
                tell(violations[-1])
        reader.end()
    return violations


def _remove(path):
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(source, target):
    import shutil

    (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="one case")
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work()
    else:
        found = attack(given.count, given.seed, given.kind, given.only)
        print(f"{given.count if given.only is None else 1} files, {len(found)} violations")
        sys.exit(bool(found))
