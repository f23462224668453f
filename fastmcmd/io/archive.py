"""NumPy's .npz format: written with arbitrary array names, and read as if from an adversary.

`numpy.savez` takes array names as keywords, so arrays named ``file`` or ``allow_pickle`` fail or vanish.
`numpy.load` allocates whatever memory a header declares. Neither is used.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from types import TracebackType
from typing import BinaryIO, cast

import numpy as np

from fastmcmd._base.annotations import FilePath, HostArray
from fastmcmd.io.npy import check_memory, damaged, read_data, read_header, write_npy
from fastmcmd.io.paths import source

__all__ = ["Archive", "member_array", "write_member", "write_npz"]

_ENCRYPTED = 0x1
_LEAST_RATIO = 1100  # deflate compresses by a factor of at most 1032
_MANY = 100  # number of arrays from which a file is assembled in memory
_HEADERS = 400  # about how many bytes the formats add per array
_IN_MEMORY = 1 << 28  # largest file in bytes that is assembled in memory


class Archive:
    """The arrays of an .npz file; a context manager.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    name : str
        Name of the argument, for messages.

    Attributes
    ----------
    names : list of str
        Names of the arrays.

    Raises
    ------
    ValueError
        The file is not an .npz file or is damaged; names occur twice; members are encrypted. `array` raises
        it for members that are not arrays, hold Python objects, do not match their checksums, or declare
        more than the free memory. The message begins with the name and the path.
    OSError
        The file cannot be opened.
    """

    def __init__(self, path: FilePath, name: str) -> None:
        self._failed = f"{name} ({path}) cannot be read as an .npz file"
        self._stream = open(source(path, name), "rb")  # noqa: SIM115 (closed by `close`)
        try:
            with damaged(self._failed):
                self._zip = zipfile.ZipFile(self._stream)
                self._members: dict[str, zipfile.ZipInfo] = {}
                for member in self._zip.infolist():
                    key = member.filename.removesuffix(".npy")
                    if key in self._members:
                        raise ValueError(f"two of its arrays are named {key!r}")
                    self._members[key] = member
        except BaseException:
            self._stream.close()
            raise
        self.names = list(self._members)

    def array(self, name: str) -> HostArray:
        """Return the array of a name in ``names``."""
        with damaged(f"{self._failed}: {name!r}"):
            return member_array(self._zip, self._members[name])

    def arrays(self) -> dict[str, HostArray]:
        """Return all arrays by name."""
        with damaged(self._failed):
            check_memory(sum(member.file_size for member in self._members.values()))
        return {name: self.array(name) for name in self.names}

    def close(self) -> None:
        """Close the file."""
        self._zip.close()
        self._stream.close()

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def member_array(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> HostArray:
    """Return the array in a member of a zip file, after comparing its checksum."""
    if not member.filename.endswith(".npy"):
        raise ValueError("it is no array")
    if member.flag_bits & _ENCRYPTED:
        raise ValueError("it is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(
            f"it is compressed in a way that NumPy does not use ({member.compress_type})"
        )
    if member.file_size > _LEAST_RATIO * (member.compress_size + 1):
        raise ValueError(
            f"it declares {member.file_size:,} bytes, which {member.compress_size:,} cannot hold"
        )
    check_memory(member.file_size)
    with file.open(member) as opened:
        stream = cast(BinaryIO, opened)
        header = read_header(stream)
        if header.offset + header.nbytes != member.file_size:
            raise ValueError(
                f"its header says {header.nbytes:,} bytes of data, and it has "
                f"{member.file_size - header.offset:,}"
            )
        array = read_data(stream, header)
        if stream.read(1):  # at its end the checksum is compared
            raise ValueError("it is longer than it says")
    return array


def write_member(file: zipfile.ZipFile, member: str, array: object) -> None:
    """Write an array as a member of a zip file."""
    if "\0" in member:
        raise ValueError(f"an array is named {member!r}; a name without null characters is needed")
    # The size is not known beforehand, and a member may have more than 4 GB.
    with file.open(member, "w", force_zip64=True) as target:
        write_npy(target, array)


def write_npz(stream: BinaryIO, arrays: Mapping[str, object]) -> None:
    """Write arrays under arbitrary names, readable by `numpy.load`."""
    # A member's header is written again once its size is known. In a file that takes four system calls for
    # each; a table of 300,000 short columns is put together in memory instead.
    size = sum(np.asanyarray(array).nbytes for array in arrays.values())
    in_memory = len(arrays) > _MANY and size + len(arrays) * _HEADERS <= _IN_MEMORY
    target: BinaryIO = io.BytesIO() if in_memory else stream
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as file:
        for name, array in arrays.items():
            write_member(file, f"{name}.npy", array)
    if isinstance(target, io.BytesIO) and in_memory:
        stream.write(target.getbuffer())
