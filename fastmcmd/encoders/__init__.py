"""Encoders: what turns inputs into the rows that a kernel on inputs sees.

``encoder=`` of `fastmcmd.cce` takes any callable. `batched` makes one that works through its inputs in
batches and may keep results on disk; `OpenCLIP`, `SentenceTransformer` and `Torchvision` load a model when
they are first called.
"""

from fastmcmd.encoders.batched import Batched, batched
from fastmcmd.encoders.open_clip import OpenCLIP
from fastmcmd.encoders.sentence import SentenceTransformer
from fastmcmd.encoders.vision import Torchvision

__all__ = ["Batched", "OpenCLIP", "SentenceTransformer", "Torchvision", "batched"]
