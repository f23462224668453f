"""Common base of the models' encoders: the model is loaded at the first call; results may be cached."""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import check_flag
from fastmcmd.encoders.batched import Batched
from fastmcmd.encoders.cache import file_digest
from fastmcmd.encoders.items import Items, items_of
from fastmcmd.errors import MissingDependencyError

__all__ = ["Loaded", "ModelEncoder", "check_name", "imported", "weights_name"]

Loaded: TypeAlias = Any  # the model, with what prepares its inputs


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
        device: object,
    ) -> None:
        check_flag(progress, "progress")
        self._device = device
        name = None if cache_dir is None else self.name
        if cache_dir is not None and name is None:
            raise ValueError(
                "cache_dir with a model of random weights would store what no other run can repeat; give "
                "pretrained weights, or leave cache_dir=None"
            )
        self._batched = Batched(self._rows, batch_size, progress, cache_dir, name)

    def __call__(self, inputs: Items) -> NDArray[np.float32]:
        """Return the encoded inputs (n, k)."""
        return self._batched(self._preprocess(items_of(inputs)))

    def _preprocess(self, items: Items) -> Items:
        """Return the inputs in the form that identifies their contents."""
        return items

    def _rows(self, batch: Items) -> AnyArray:
        model = self.loaded  # first: if a package is missing it says which
        import torch

        with torch.no_grad():
            return self._encode(model, batch)

    @property
    @abstractmethod
    def name(self) -> str | None:
        """Identifies the model and its weights; None if nothing does."""

    @abstractmethod
    def _load(self) -> Loaded:
        """Return the model and its preprocessing."""

    @abstractmethod
    def _encode(self, loaded: Loaded, batch: Items) -> AnyArray:
        """Return the rows of a batch, computed with the result of `_load`."""

    @cached_property
    def loaded(self) -> Loaded:
        """The model and its preprocessing, loaded on first use."""
        return self._load()

    @cached_property
    def device(self) -> Any:
        """Where the model runs, as a torch.device."""
        import torch

        if self._device is not None:
            return torch.device(cast(str, self._device))
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def imported(module: str, package: str, extra: str) -> Any:
    """Return a module; if it is missing, an error names the command that installs it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise  # a dependency of the module itself
        raise MissingDependencyError(
            f"the package {package} is needed: pip install {package}, or pip install 'fastmcmd[{extra}]'"
        ) from error


def weights_name(weights: str) -> str:
    """Return an identifier of the weights: the digest if the name is the path of a file, else the name."""
    return f"sha256-{file_digest(weights)}" if Path(weights).is_file() else weights


def check_name(value: object, argument: str, optional: bool = False) -> Any:
    """Return the checked name of a model or its weights: text or, of a file, a path.

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
