"""Checkpointing: save the state of a long computation in one file, without pickle, and resume it.

A `Checkpoint` is one ``.npz`` file. For each stage of a run it holds the state from which the stage
resumes: a frozen dataclass, written by field name (`fastmcmd.io.state`). A fingerprint ties the file to one
computation on one data set; files of other computations raise an error. The file is replaced atomically, so
the last complete state survives any interruption. The module removes no other files, except temporary files
that the package created itself (`fastmcmd.io.temporary`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar

import numpy as np

from fastmcmd._base.annotations import HostArray, Json
from fastmcmd._version import __version__
from fastmcmd.io import AtomicFile, destination
from fastmcmd.io.archive import member_array, write_member
from fastmcmd.io.state import decode, encode
from fastmcmd.io.temporary import remove_stale, tag_of

__all__ = ["Checkpoint", "Stage", "Stages", "fingerprint_of", "stages_of"]

T = TypeVar("T")

_FORMAT = 3  # 2: states by field name; 3: fields renamed
_DOCUMENT = "_document"  # part of a stage that is not arrays; no field has this name
_ABOUT = "about.npy"  # no stage has this name: members of stages contain a "/"
_COPIED = 1 << 22  # bytes per block when stages are copied to the new file
_HASHED = 1 << 24  # bytes of an array hashed at once
_BROKEN = (
    zipfile.BadZipFile,
    KeyError,
    ValueError,
    EOFError,
    OSError,  # a damaged offset points before the beginning of the file
    RuntimeError,  # a damaged flag looks like an encrypted or unknown member
    AttributeError,
    zlib.error,
)


class Checkpoint:
    """The saved state of a run that may be interrupted.

    Parameters
    ----------
    path : str or Path
        The file. It is created by the first save, and loaded if it exists. Only one run at a time may use
        it, see `fastmcmd.locks`.
    fingerprint : str
        Identifier of the computation and its data.
    every : float, default 30.0
        Seconds between two saves; 0 saves whenever there is something new.
    settings : dict, optional
        JSON-safe settings by name. If the fingerprint differs, the error message lists those that differ.
    plan : dict, optional
        JSON-safe values that a resumed run takes over from the run that created the file. They are not
        compared.

    Attributes
    ----------
    plan : dict
        The plan of the run that created the file.

    Raises
    ------
    ValueError
        The file belongs to another computation, has another format, or is damaged.
    OSError
        The folder does not exist or cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum:
    ...     total: float
    ...     rows: int
    >>> path = tempfile.mkdtemp() + "/run.ckpt"
    >>> Checkpoint(path, "lam=0.1", every=0).save("sum", lambda: Sum(4.5, 3))
    >>> later = Checkpoint(path, "lam=0.1")
    >>> later.load("sum", Sum)
    Sum(total=4.5, rows=3)
    >>> later.finish()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: str,
        every: float = 30.0,
        settings: Json | None = None,
        plan: Json | None = None,
    ) -> None:
        self.path = destination(path, "checkpoint")
        self.every = every
        about = {
            "format": _FORMAT,
            "fastmcmd": __version__,
            "fingerprint": fingerprint,
            "settings": settings or {},
            "plan": plan or {},
        }
        self._about = json.loads(json.dumps(about, default=str))
        self._dropped: set[str] = set()
        self._last_save = time.monotonic()
        remove_stale(self.path.parent, tag_of(self.path.name), "part")
        if self.path.exists():
            self._about["plan"] = self._check_file()

    @property
    def plan(self) -> Json:
        """The plan of the run that created the file."""
        return dict(self._about["plan"])

    def load(self, stage: str, kind: type[T]) -> T | None:
        """Return the state of type ``kind`` saved for ``stage``; None if there is none."""
        if stage in self._dropped or not self.path.exists():
            return None
        arrays: dict[str, HostArray] = {}
        try:
            with zipfile.ZipFile(self.path) as file:
                for member in file.namelist():
                    owner, _, name = member.partition("/")
                    if owner == stage and name:
                        arrays[name.removesuffix(".npy")] = member_array(file, file.getinfo(member))
            if not arrays:
                return None
            return decode(kind, arrays, json.loads(arrays.pop(_DOCUMENT).tobytes()))
        except _BROKEN as error:
            raise self.damaged(error) from None

    def save(self, stage: str, state: Callable[[], object], *, force: bool = False) -> None:
        """Write the state that ``state()`` returns, if the last save is old enough or ``force`` is set.

        The states of other stages are preserved. Arrays are written without a copy in memory.

        Parameters
        ----------
        stage : str
            Name of the stage, without "/".
        state : callable
            Returns a frozen dataclass, see `fastmcmd.io.state`. It is called only if the state is written.
        force : bool, default False
            Whether to write even if the last save was recent.

        Raises
        ------
        OSError
            The file cannot be written; an existing file is unchanged.
        """
        if not force and time.monotonic() - self._last_save < self.every:
            return
        arrays, document = encode(state())
        arrays[_DOCUMENT] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)

        def write(stream: BinaryIO) -> None:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as file:
                self._carry_over(file, self._dropped | {stage})
                for name, array in arrays.items():
                    write_member(file, f"{stage}/{name}.npy", array)
                about = json.dumps({**self._about, "members": _members(file)}).encode()
                write_member(file, _ABOUT, np.frombuffer(about, dtype=np.uint8))

        self._dropped.discard(stage)
        with AtomicFile(self.path, "checkpoint") as target, target.naming_errors():
            write(target.stream)
        self._last_save = time.monotonic()

    def drop(self, stage: str) -> None:
        """Discard the state of ``stage``; the next save leaves it out of the file."""
        self._dropped.add(stage)

    def stage(self, name: str) -> Stage:
        """Return the part of the checkpoint that belongs to the stage ``name``."""
        return Stage(self, name)

    def finish(self) -> None:
        """Remove the file of this completed run; leave a file that another computation put in its place."""
        if self._is_own():
            self.path.unlink(missing_ok=True)

    def _carry_over(self, file: zipfile.ZipFile, without: set[str]) -> None:
        if not self.path.exists():
            return
        with zipfile.ZipFile(self.path) as earlier:
            for member in earlier.namelist():
                owner, _, name = member.partition("/")
                if name and owner not in without:
                    with earlier.open(member) as source, _open(file, member) as target:
                        shutil.copyfileobj(source, target, _COPIED)

    def _is_own(self) -> bool:
        """Return whether the existing file belongs to this computation."""
        try:
            with zipfile.ZipFile(self.path) as file:
                about = json.loads(member_array(file, file.getinfo(_ABOUT)).tobytes())
            return bool(about["fingerprint"] == self._about["fingerprint"])
        except (*_BROKEN, TypeError):
            return False

    def _check_file(self) -> Json:
        """Check that the file belongs to this computation, and return its plan."""
        try:
            self.path.open("rb").close()
        except OSError as error:
            raise self._failed("read", error) from error
        try:
            with zipfile.ZipFile(self.path) as file:
                broken = file.testzip()  # first, so that no array is created from a damaged header
                if broken is not None:
                    raise ValueError(f"{broken} does not match its checksum")
                about = json.loads(member_array(file, file.getinfo(_ABOUT)).tobytes())
            theirs, settings = about["fingerprint"], dict(about["settings"])
            version, format_ = about["fastmcmd"], about["format"]
            with zipfile.ZipFile(self.path) as file:
                members = about.get("members")  # earlier versions did not write it
                if members is not None and members != _members(file):
                    raise ValueError("its contents are not those that were saved together")
            plan = {name: int(value) for name, value in dict(about.get("plan", {})).items()}
        except (*_BROKEN, TypeError) as error:
            raise self.damaged(error) from None
        if format_ != _FORMAT:
            raise ValueError(
                f"checkpoint {self.path} has format {format_} (fastmcmd {version}); this is fastmcmd "
                f"{__version__}, which reads format {_FORMAT}. {_AFRESH}"
            )
        if theirs != self._about["fingerprint"]:
            raise ValueError(
                f"checkpoint {self.path} belongs to another computation: "
                f"{_difference(settings, self._about['settings'])}. {_AFRESH}"
            )
        return plan

    def damaged(self, error: object) -> ValueError:
        """Return the error for a damaged file."""
        return ValueError(
            f"checkpoint {self.path} is damaged, or no checkpoint of fastmcmd: {error}. {_AFRESH}"
        )

    def _failed(self, action: str, error: OSError) -> OSError:
        text = f"checkpoint {self.path} cannot be {action}: {error.strerror or error}"
        # The error number gives the new error the same class as the original.
        return OSError(error.errno, text) if error.errno else OSError(text)


class Stage:
    """The part of a `Checkpoint` that belongs to one stage."""

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        if not name or "/" in name:
            raise ValueError(f"stage is {name!r}; a name without '/' is needed")
        self.checkpoint = checkpoint
        self.name = name

    def load(self, kind: type[T]) -> T | None:
        """Return the state of type ``kind`` saved for this stage; None if there is none."""
        return self.checkpoint.load(self.name, kind)

    def check(self, fits: bool) -> None:
        """Raise the error for a damaged file unless the loaded state ``fits`` the computation."""
        if not fits:
            raise self.checkpoint.damaged(f"the arrays of {self.name} do not fit the data")

    def save(self, state: Callable[[], object], *, force: bool = False) -> None:
        """Save ``state()`` if the last save is long enough ago or ``force`` is set."""
        self.checkpoint.save(self.name, state, force=force)

    def drop(self) -> None:
        """Discard the state of this stage."""
        self.checkpoint.drop(self.name)


Stages = Callable[[str], Stage]


def stages_of(checkpoint: Checkpoint | None, name: str) -> Stages | None:
    """Return a function that creates the stage of a part of the run ``name``; None without checkpoint."""
    if checkpoint is None:
        return None
    return lambda part: checkpoint.stage(f"{name} {part}")


def fingerprint_of(*parts: Any) -> str:
    """Return a hash that is equal for equal data and settings and differs for others.

    Parameters
    ----------
    *parts : ndarray, str, bytes, bool, int, float, None, or an object with ``fingerprint()``
        Data and settings. Arrays are identified by dtype, shape and content, not by memory layout. They are
        read in blocks, so arrays on disk are never loaded whole.

    Raises
    ------
    TypeError
        A part is of another type, or an array holds Python objects.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(6.0).reshape(2, 3)
    >>> fingerprint_of(x, 0.1) == fingerprint_of(np.asfortranarray(x), 0.1)
    True
    >>> fingerprint_of(x, 0.1) == fingerprint_of(x, 0.2)
    False
    """
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        if isinstance(part, np.generic):
            part = part.item()  # the repr of NumPy scalars differs between NumPy versions
        if isinstance(part, np.ndarray):
            _hash_array(digest, part)
        elif part is None or isinstance(part, str | bytes | bool | int | float):
            _hash_text(digest, f"{type(part).__name__} {part!r}")
        elif callable(getattr(part, "fingerprint", None)):
            _hash_text(digest, f"rows {part.fingerprint()}")
        else:
            raise TypeError(
                f"a fingerprint cannot be made of {type(part).__name__}; an array, a string, a number, "
                "None or an object with fingerprint() is needed"
            )
    return digest.hexdigest()


def _hash_text(digest: Any, text: str) -> None:
    encoded = text.encode()
    # The length prefix keeps different sequences of parts distinct.
    digest.update(len(encoded).to_bytes(8, "little") + encoded)


def _hash_array(digest: Any, array: HostArray) -> None:
    if array.dtype.hasobject:
        raise TypeError(f"a fingerprint cannot be made of an array of dtype {array.dtype}")
    _hash_text(digest, f"array {array.dtype.str} {array.shape}")
    rows = np.atleast_1d(array)
    step = max(1, _HASHED * len(rows) // max(1, rows.nbytes))
    for start in range(0, len(rows), step):
        block = np.ascontiguousarray(rows[start : start + step])
        digest.update(block.reshape(-1).view(np.uint8))


_AFRESH = "Remove it to start afresh, or name another file"


def _difference(theirs: Json, ours: Json) -> str:
    """Return text that lists which settings differ."""
    nothing = object()
    differences = [
        f"{name} was {_setting_text(theirs, name)}, is {_setting_text(ours, name)}"
        for name in [*theirs, *(name for name in ours if name not in theirs)]
        if theirs.get(name, nothing) != ours.get(name, nothing)
    ]
    return "; ".join(differences) or "the data differ"


def _setting_text(settings: Json, name: str) -> str:
    return repr(settings[name]) if name in settings else "not given"


def _members(file: zipfile.ZipFile) -> dict[str, list[int]]:
    """Return the checksums and sizes of the arrays of all stages."""
    infos = file.infolist()
    return {info.filename: [info.CRC, info.file_size] for info in infos if info.filename != _ABOUT}


def _open(file: zipfile.ZipFile, member: str) -> Any:
    # The size is not known beforehand, and a member may exceed 4 GB.
    return file.open(member, "w", force_zip64=True)
