"""What encoders of a model have in common: loaded once, when first called; batched; kept on disk."""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_flag
from fastmcmd.encoders.batched import Batched
from fastmcmd.encoders.cache import file_digest
from fastmcmd.encoders.items import items_of
from fastmcmd.errors import MissingDependencyError

__all__ = ["ModelEncoder", "check_name", "imported", "weights_name"]


class ModelEncoder(ABC):
    """An encoder of a model that is loaded when it is first called.

    Parameters
    ----------
    batch_size, progress, cache_dir
        As of `batched`.
    device : str or torch.device, optional
        Where the model runs; None takes a GPU where torch sees one.
    """

    def __init__(
        self,
        batch_size: int,
        progress: bool,
        cache_dir: str | os.PathLike[str] | None,
        device: Any,
    ) -> None:
        check_flag(progress, "progress")
        self._device = device
        name = None if cache_dir is None else self.name
        if cache_dir is not None and name is None:
            raise ValueError(
                "cache_dir with a model of random weights would keep what no other run can repeat; give "
                "pretrained weights, or leave cache_dir=None"
            )
        self._batched = Batched(self._rows, batch_size, progress, cache_dir, name)

    def __call__(self, inputs: Any) -> NDArray[np.float32]:
        """Return the encoded inputs (n, k)."""
        return self._batched(self._prepared(items_of(inputs)))

    def _prepared(self, items: Any) -> Any:
        """Return the inputs in the form that identifies their contents."""
        return items

    def _rows(self, batch: Any) -> Any:
        model = self.loaded  # first: where a package is missing it says which
        import torch

        with torch.no_grad():
            return self._encode(model, batch)

    @property
    @abstractmethod
    def name(self) -> str | None:
        """What tells the model and its weights; None where nothing does."""

    @abstractmethod
    def _load(self) -> Any:
        """Return the model, and what goes with it."""

    @abstractmethod
    def _encode(self, loaded: Any, batch: Any) -> Any:
        """Return the rows of a batch by what `_load` returned."""

    @cached_property
    def loaded(self) -> Any:
        """The model and what goes with it, loaded now if it is not yet."""
        return self._load()

    @cached_property
    def device(self) -> Any:
        """Where the model runs, as a torch.device."""
        import torch

        if self._device is not None:
            return torch.device(self._device)
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def imported(module: str, package: str, extra: str) -> Any:
    """Return a module; where it is missing, an error names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # something that the module itself needs
        raise MissingDependencyError(
            f"the package {package} is needed: pip install {package}, or pip install 'fastmcmd[{extra}]'"
        ) from error


def weights_name(weights: str) -> str:
    """Return what tells weights: their name, or the digest of the file that the name is a path of."""
    return f"sha256-{file_digest(weights)}" if Path(weights).is_file() else weights


def check_name(value: Any, argument: str, optional: bool = False) -> Any:
    """Return what names a model or its weights: text or, of a file, a path.

    Raises
    ------
    TypeError, ValueError
        Anything else, and text without characters; the message names the argument.
    """
    if optional and value is None:
        return None
    if not isinstance(value, (str, os.PathLike)):
        more = " or None" if optional else ""
        raise TypeError(f"{argument} is a {type(value).__name__}; text{more} is needed")
    if not os.fspath(value):
        raise ValueError(f"{argument} is empty; the name of a model is needed")
    return value
