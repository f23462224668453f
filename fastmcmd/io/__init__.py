"""Files: atomic writing, exclusive temporary files, locks, and reading that trusts no file.

Everything that the package writes goes through `write_atomically` or `AtomicFile`; everything of NumPy's
formats that it reads goes through `read_npy` and `Archive`.
"""

from fastmcmd.io.archive import Archive, write_npz
from fastmcmd.io.atomic import AtomicFile, AtomicFolder, write_atomically
from fastmcmd.io.locks import alone_with
from fastmcmd.io.npy import read_npy, write_npy
from fastmcmd.io.paths import as_path, destination, same_file, source

__all__ = [
    "Archive",
    "AtomicFile",
    "AtomicFolder",
    "alone_with",
    "as_path",
    "destination",
    "read_npy",
    "same_file",
    "source",
    "write_atomically",
    "write_npy",
    "write_npz",
]
