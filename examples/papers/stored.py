"""Networks kept in files, evaluated with NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

__all__ = ["FOLDER", "StoredStack", "arrays_of", "stacks_of", "write"]

FOLDER = Path(__file__).parent / "predictions"


@lru_cache(maxsize=8)
def arrays_of(name: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file in the folder of predictions."""
    with np.load(FOLDER / f"{name}.npz", allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def write(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write a file into the folder of predictions."""
    from fastmcmd.io import write_atomically

    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{name}.npz"
    write_atomically(target, lambda stream: np.savez_compressed(stream, **arrays))
    print(f"{target.name}: {target.stat().st_size:,} bytes")


@dataclass(frozen=True, eq=False)
class StoredStack:
    """Networks of one shape: weights (members, d, k) and biases (members, 1, k) of each layer."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    std: np.ndarray | None = None  # of the weights of a variational last layer

    def __len__(self) -> int:
        return len(self.weights[0])

    def __call__(
        self,
        member: int,
        x: np.ndarray,
        drop: dict[int, float] | None = None,
        rng: np.random.Generator | None = None,
    ) -> np.ndarray:
        """Return the outputs (n, k) of one network at x (n, d), random if ``rng`` is given."""
        last = len(self.weights) - 1
        for layer, (weights, biases) in enumerate(zip(self.weights, self.biases, strict=True)):
            weight = weights[member]
            if rng is not None and drop and layer in drop:
                x = x * (rng.random(x.shape) >= drop[layer]) / (1 - drop[layer])
            if rng is not None and self.std is not None and layer == last:
                weight = weight + self.std[member] * rng.normal(size=weight.shape)
            x = x @ weight + biases[member]
            if layer < last:
                x = np.maximum(x, 0)
        return x


def stacks_of(name: str) -> dict[str, StoredStack]:
    """Return the networks of a file, by their names."""
    arrays = arrays_of(name)
    stacks = {}
    for one in {key.split("/")[0] for key in arrays if key.endswith("/0/weight")}:
        layers = sum(key.startswith(f"{one}/") and key.endswith("weight") for key in arrays)
        weights, biases = (
            tuple(arrays[f"{one}/{k}/{part}"].astype(np.float64) for k in range(layers))
            for part in ("weight", "bias")
        )
        std = arrays.get(f"{one}/std")
        stacks[one] = StoredStack(weights, biases, None if std is None else std.astype(np.float64))
    return stacks
