"""NumPy's .npy format. Every number in the header is checked before memory is allocated."""

from __future__ import annotations

import ast
import contextlib
import io
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, BinaryIO

import numpy as np

from fastmcmd._base.annotations import DType, FilePath, HostArray
from fastmcmd._base.memory import available_memory, format_bytes
from fastmcmd.io.paths import source

__all__ = ["Header", "check_memory", "damaged", "read_data", "read_header", "read_npy", "write_npy"]

_LONGEST = 10_000  # bytes of a header, as in NumPy: longer ones may exhaust the parser's stack
_LARGEST = 2**63 - 1  # bytes of an array
_CHUNK_BYTES = 1 << 24  # bytes at a time
_SMALL = 1 << 16  # bytes of an array that is written at once


@dataclass(frozen=True)
class Header:
    """The contents of the header of an array.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        Type without Python objects.
    fortran : bool
        Whether the first index varies fastest.
    offset : int
        Number of bytes of the header.
    """

    shape: tuple[int, ...]
    dtype: DType
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize


@contextlib.contextmanager
def damaged(subject: str) -> Iterator[None]:
    """Convert any error of a parser on a damaged file into a ValueError about ``subject``."""
    try:
        yield
    except MemoryError as error:  # the parser met nonsense: sizes were checked before
        raise ValueError(f"{subject}: {error or 'too deeply nested'}") from None
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ValueError(f"{subject}: {reason or type(error).__name__}") from None


def read_header(stream: BinaryIO) -> Header:
    """Return the header of an array; raise ValueError if it is invalid or declares Python objects."""
    start = _exactly(stream, 8)
    if start[:6] != b"\x93NUMPY":
        raise ValueError("it is something else, or holds Python objects, which are never loaded")
    if tuple(start[6:]) not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {start[6]}.{start[7]} of the format is not known")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(_exactly(stream, width), "little")
    if length > _LONGEST:
        raise ValueError(f"its header has {length:,} bytes; at most {_LONGEST:,} are read")
    text = _exactly(stream, length).decode("utf-8" if start[6] == 3 else "latin-1")
    with damaged("its header cannot be read"):
        header = ast.literal_eval(text.strip())
        if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
            raise ValueError("it needs descr, fortran_order and shape")
        shape, fortran = header["shape"], header["fortran_order"]
        if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"shape is {str(shape)[:60]}")
        if not isinstance(fortran, bool):
            raise ValueError(f"fortran_order is {str(fortran)[:60]}")
        dtype = np.lib.format.descr_to_dtype(header["descr"])
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if dtype.subdtype is not None:
        raise ValueError(f"its elements are arrays themselves ({dtype})")
    # Arrays of size 0, too: NumPy refuses them if the other dimensions exceed the limit.
    if not dtype.itemsize or math.prod(max(n, 1) for n in shape) * dtype.itemsize > _LARGEST:
        raise ValueError(f"its header says shape {str(shape)[:60]} of {dtype.itemsize} bytes each")
    if len(shape) > 32:
        raise ValueError(f"its header says {len(shape)} dimensions")
    return Header(shape, dtype, fortran, 8 + width + length)


def read_data(stream: BinaryIO, header: Header) -> HostArray:
    """Return the data after a header; raise ValueError if data are missing."""
    data = np.empty(header.nbytes, np.uint8)
    view, position = memoryview(data), 0  # type: ignore[arg-type]
    while position < header.nbytes:
        count = stream.readinto(view[position : position + _CHUNK_BYTES])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"it ends after {position:,} of {header.nbytes:,} bytes of data")
        position += count
    array = data.view(header.dtype)
    if header.fortran:
        return array.reshape(header.shape[::-1]).T
    return array.reshape(header.shape)


def check_memory(size: int) -> None:
    """Raise an error if an array declares more bytes than the free memory."""
    free = available_memory()
    if size > free:
        raise ValueError(
            f"it declares {format_bytes(size)}, and {format_bytes(free)} of memory are free"
        )


def read_npy(path: FilePath, name: str) -> HostArray:
    """Return the array in a .npy file, without pickle.

    Raises
    ------
    ValueError
        The file is not a .npy file, is damaged, holds Python objects, or declares more data than it has.
    OSError
        The file cannot be opened.
    """
    where = source(path, name)
    with open(where, "rb") as stream, damaged(f"{name} ({path}) cannot be read as a .npy file"):
        header = read_header(stream)
        has = os.fstat(stream.fileno()).st_size - header.offset
        if header.nbytes > has:
            raise ValueError(f"it has {max(has, 0):,} of {header.nbytes:,} bytes of data")
        check_memory(header.nbytes)
        return read_data(stream, header)


def write_npy(stream: Any, array: Any) -> None:
    """Write an array in the .npy format; Python objects raise an error."""
    array = np.asanyarray(array)
    small = type(array) is np.ndarray and array.nbytes <= _SMALL
    if small and array.dtype.names is None and not array.dtype.hasobject:
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        header = _header(array.dtype, fortran, array.shape)
        stream.write(header + array.tobytes("F" if fortran else "C"))
    else:
        np.lib.format.write_array(stream, array, allow_pickle=False)


@lru_cache(maxsize=64)
def _header(dtype: DType, fortran: bool, shape: tuple[int, ...]) -> bytes:
    """Return the first bytes of a .npy file: arrays of a table share them."""
    stream = io.BytesIO()
    fields = {
        "descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape,
    }  # fmt: skip
    np.lib.format.write_array_header_1_0(stream, fields)
    return stream.getvalue()


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise ValueError("it ends within its header")
    return data
