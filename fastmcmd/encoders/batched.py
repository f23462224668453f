"""An encoder that works through its inputs in batches, and may cache the results on disk."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray, Encoder, HostArray
from fastmcmd._base.checks import as_array, check_callable, check_count, check_flag
from fastmcmd._base.progress import Progress
from fastmcmd.encoders.cache import check_folder, digest_of, read, write
from fastmcmd.encoders.items import Items, items_of

__all__ = ["Batched", "batched"]


class Batched:
    """An encoder in batches; made by `batched`, which says what its parameters are."""

    def __init__(
        self,
        function: Encoder,
        batch_size: int = 256,
        progress: bool = False,
        cache_dir: str | os.PathLike[str] | None = None,
        name: str | None = None,
    ) -> None:
        check_callable(function, "function", 1, "a callable that maps a batch to rows")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name is {name!r}; a string or None is needed")
        if cache_dir is not None and not name:
            raise ValueError(
                "name is needed with cache_dir: files are named by the inputs' contents and the name, "
                "which should identify the model and its version"
            )
        self.function = function
        self.batch_size = check_count(batch_size, "batch_size")
        self.progress = check_flag(progress, "progress")
        self.cache_dir: Path | None = None if cache_dir is None else check_folder(cache_dir)
        self.name = name

    def __call__(self, inputs: Items) -> NDArray[np.float32]:
        """Return the encoded inputs (n, k)."""
        items = items_of(inputs)
        if self.cache_dir is None:
            return self._encode(items)
        assert self.name is not None
        digest = digest_of(self.name, items)
        rows = read(self.cache_dir, self.name, digest, len(items))
        if rows is None:
            rows = self._encode(items)
            write(self.cache_dir, self.name, digest, rows)
        return rows

    def _encode(self, items: Items) -> NDArray[np.float32]:
        out: NDArray[np.float32] | None = None
        progress = Progress(self.progress, 0.0)
        sweep = progress.sweep("encoding", len(items))
        try:
            for start in range(0, len(items), self.batch_size):
                try:
                    batch = items[start : start + self.batch_size]
                except (NotImplementedError, RuntimeError) as error:  # sparse tensors of torch
                    raise TypeError(
                        f"inputs is a {type(items).__name__} that cannot be sliced: {error}"
                    ) from None
                with _no_gradients():
                    rows = _rows_of(self.function(batch), len(batch), start)
                if out is None:
                    out = np.empty((len(items), rows.shape[1]), dtype=np.float32)
                elif rows.shape[1] != out.shape[1]:
                    raise ValueError(
                        f"the encoder returned {rows.shape[1]} columns for the batch from row {start}, and "
                        f"{out.shape[1]} before; they must agree"
                    )
                out[start : start + len(rows)] = rows
                sweep.advance(start + len(rows))
        finally:
            progress.close()
        assert out is not None  # there is at least one item
        return out

    def __repr__(self) -> str:
        name = self.name or getattr(self.function, "__name__", repr(self.function))
        return f"Batched({name}, batch_size={self.batch_size})"


def batched(
    function: Encoder,
    batch_size: int = 256,
    progress: bool = False,
    cache_dir: str | os.PathLike[str] | None = None,
    name: str | None = None,
) -> Batched:
    """Return an encoder that calls ``function`` on batches and returns one float32 array (n, k).

    Parameters
    ----------
    function : callable
        Maps a batch of b inputs to an array or a tensor, (b, k) or (b,), on any device. Batches are slices
        of what the encoder is called with: an array, a tensor, or a list. Called without gradients.
    batch_size : int
        Inputs a batch.
    progress : bool
        Show rows done, their rate, and the time left.
    cache_dir : str or Path, optional
        Existing folder for results, as ``.npy``; a second call with the same inputs and name
        reads them. Files appear when they are complete.
    name : str, optional
        Identifies the model and its version; needed with ``cache_dir``: the function itself is not read.

    Returns
    -------
    Batched
        A callable for ``encoder=``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described, or what ``function`` returned is not.

    Notes
    -----
    Files are named by SHA-256 of the name and the inputs' contents: dtype, shape and bytes of arrays and
    tensors, text of strings, pixels of PIL images, and of ``pathlib.Path`` the bytes of the file.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd import encoders
    >>> encoder = encoders.batched(lambda batch: batch.mean(axis=(1, 2)), batch_size=4)
    >>> encoder(np.ones((10, 8, 8))).shape
    (10, 1)
    """
    return Batched(function, batch_size, progress, cache_dir, name)


def _no_gradients() -> AbstractContextManager[object]:
    """Return a context without gradients if torch is loaded, so that batches hold no graph."""
    torch = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.no_grad()


def _rows_of(encoded: AnyArray, count: int, start: int) -> HostArray:
    """Return the result of a function for a batch as checked rows (b, k)."""
    rows = as_array(encoded, "what the encoder returned")
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
        raise ValueError(
            f"the encoder returned shape {rows.shape} for {count} inputs; ({count}, k) is needed: a row an "
            "input"
        )
    with np.errstate(over="ignore"):  # an overflow is found below
        rows = rows.astype(np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise ValueError(
            "the encoder returned NaN or infinity in float32 (first for input "
            f"{start + int(finite.argmin())})"
        )
    return rows
