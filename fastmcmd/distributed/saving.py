"""Checkpoints of sums over blocks: the sum so far and the number of finished groups, without pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import FilePath
from fastmcmd.checkpoint import Checkpoint

__all__ = ["Saved"]


class Saved:
    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
