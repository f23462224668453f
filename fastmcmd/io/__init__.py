"""Files: atomic writing, exclusive temporary files, locks, and safe reading of untrusted files.

The package writes files only through `write_atomically` or `AtomicFile`, and reads NumPy's formats only
through `read_npy` and `Archive`.
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
