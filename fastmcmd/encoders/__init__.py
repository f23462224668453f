"""Encoders turn images, texts and other inputs into the rows of numbers that kernels compare.

``encoder=`` of `fastmcmd.cce` takes any callable. `batched` returns one that encodes its inputs in batches
and can cache results on disk. `OpenCLIP`, `SentenceTransformer` and `Torchvision` load a model when they
are first called.
"""

from fastmcmd.encoders.batched import Batched, batched
from fastmcmd.encoders.open_clip import OpenCLIP
from fastmcmd.encoders.sentence import SentenceTransformer
from fastmcmd.encoders.vision import Torchvision

__all__ = ["Batched", "OpenCLIP", "SentenceTransformer", "Torchvision", "batched"]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
