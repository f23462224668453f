"""Inputs of an encoder: an array or a tensor, or a list of anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fastmcmd._base.annotations import AnyArray
from fastmcmd._base.checks import is_tensor

__all__ = ["Item", "Items", "image_of", "is_image", "items_of", "paths_of"]


Item: TypeAlias = Any  # text, a path, an image, an array: whatever the encoder takes
Items: TypeAlias = Any  # an array or a tensor, or an iterable of items


def items_of(inputs: Items) -> Any:
    """Return inputs in a form that can be sliced: an array, a tensor or a list; at least one.

    Columns of data frames and arrays of strings or objects become lists.
    """
    if isinstance(inputs, str | bytes | os.PathLike | Mapping) or is_image(inputs):
        raise TypeError(
            f"inputs is a {type(inputs).__name__}; a list, an array or a tensor is needed"
        )
    items = inputs
    if not (isinstance(inputs, np.ndarray | list) or is_tensor(inputs)):
        if hasattr(inputs, "__array__"):
            items = np.asarray(inputs)
        else:
            try:
                items = list(inputs)
            except TypeError:
                raise TypeError(
                    f"inputs is a {type(inputs).__name__}; a list, an array or a tensor is needed"
                ) from None
    if isinstance(items, np.ndarray) and items.ndim and items.dtype.kind in "OUT":
        items = items.tolist()
    if not isinstance(items, list) and not items.ndim:
        raise ValueError("inputs has no dimension; a row an input is needed")
    if len(items) == 0:
        raise ValueError("inputs is empty; at least one is needed")
    return items


def paths_of(items: Items) -> Items:
    """Return images with strings as the paths that they are, so that contents identify files."""
    if not isinstance(items, list):
        return items
    return [Path(item) if isinstance(item, str) else item for item in items]


def is_image(value: object) -> bool:
    """Return whether a value is a PIL image, without importing PIL."""
    image = sys.modules.get("PIL.Image")
    return image is not None and isinstance(value, image.Image)


def image_of(item: Item) -> AnyArray:
    """Return an RGB PIL image of an image, an array (h, w, 3) or (h, w) of bytes, or a path."""
    from PIL import Image

    if is_image(item):
        return item.convert("RGB")
    if isinstance(item, np.ndarray):
        if item.dtype != np.uint8 or item.ndim not in (2, 3):
            raise ValueError(
                f"an image is an array of dtype {item.dtype} and shape {item.shape}; uint8 and (h, w, 3) "
                "or (h, w) are needed"
            )
        return Image.fromarray(item).convert("RGB")
    if isinstance(item, str | os.PathLike):
        path = Path(item)
        if not path.is_file():
            raise FileNotFoundError(f"an image is {str(path)!r}; the path of a file is needed")
        with Image.open(path) as image:
            return image.convert("RGB")
    raise TypeError(
        f"an image is a {type(item).__name__}; a path, a PIL image, an array of bytes or a tensor is needed"
    )
