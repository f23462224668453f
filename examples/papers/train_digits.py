"""Train classifiers of handwritten digits and keep their probabilities under shift (PyTorch, two minutes).

``python -m examples.papers.train_digits`` writes ``predictions/digits.npz``.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch
from scipy import ndimage
from torch.nn import functional

from fastmcmd.io import write_atomically

TARGET = Path(__file__).parent / "predictions" / "digits.npz"
TEST, CALIBRATION = 400, 300  # rows; the rest trains
ROTATIONS = (0, 15, 30, 45, 60, 90)  # degrees
TRANSLATIONS = (1, 2, 3)  # pixels to the right, rolled around
MEMBERS, PASSES = 10, 30  # of the ensemble; of dropout and of the variational layer
_WIDTH, _EPOCHS, _BATCH, _RATE, _DROP = 100, 60, 32, 1e-3, 0.2
_PRIOR_STD = 0.1  # of the weights of the variational layer


class _VariationalLinear(torch.nn.Module):
    """A linear layer with independent Gaussian weights (Blundell et al. 2015)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.randn(outputs, inputs) / inputs**0.5)
        self.log_std = torch.nn.Parameter(torch.full((outputs, inputs), -4.0))
        self.bias = torch.nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.mean + self.log_std.exp() * torch.randn_like(self.mean)
        return functional.linear(x, weight, self.bias)

    def divergence(self) -> torch.Tensor:
        """Return the Kullback-Leibler divergence from the prior."""
        ratio = (2 * self.log_std).exp() / _PRIOR_STD**2
        return 0.5 * (ratio + (self.mean / _PRIOR_STD) ** 2 - 1 - ratio.log()).sum()


def _network(kind: str, seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    drop = torch.nn.Dropout(_DROP)
    hidden = [drop] if kind == "dropout" else []
    last = [drop] if kind in ("dropout", "last-layer dropout") else []
    head = _VariationalLinear(_WIDTH, 10) if kind == "variational" else torch.nn.Linear(_WIDTH, 10)
    return torch.nn.Sequential(
        torch.nn.Linear(64, _WIDTH), torch.nn.ReLU(), *hidden,
        torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ReLU(), *last, head,
    )  # fmt: skip


def trained(kind: str, x: torch.Tensor, y: torch.Tensor, seed: int) -> torch.nn.Sequential:
    """Return a trained network, left in training mode so that dropout goes on drawing."""
    network = _network(kind, seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    for _ in range(_EPOCHS):
        for rows in torch.randperm(len(x)).split(_BATCH):
            optimiser.zero_grad()
            loss = functional.cross_entropy(network(x[rows]), y[rows])
            if kind == "variational":
                loss = loss + network[-1].divergence() / len(x)
            loss.backward()
            optimiser.step()
    return network


def averaged(networks: list[torch.nn.Sequential], x: torch.Tensor, passes: int) -> np.ndarray:
    """Return the mean probabilities (n, 10) over networks and stochastic passes."""
    with torch.no_grad():
        runs = [functional.softmax(one(x), 1) for one in networks for _ in range(passes)]
    return torch.stack(runs).mean(0).numpy()


def shifted(images: np.ndarray) -> dict[str, np.ndarray]:
    """Return the images (n, 8, 8) rotated, translated and with shuffled pixels, as rows of 64 numbers."""
    images_by_shift = {
        f"rotated {angle}": ndimage.rotate(images, angle, axes=(2, 1), reshape=False, order=1)
        for angle in ROTATIONS
    }
    images_by_shift |= {f"moved {by}": np.roll(images, by, axis=2) for by in TRANSLATIONS}
    rng = np.random.default_rng(0)
    images_by_shift["shuffled"] = rng.permuted(images.reshape(len(images), 64), axis=1).reshape(
        images.shape
    )
    return {name: one.reshape(len(one), 64) for name, one in images_by_shift.items()}


def main() -> None:
    """Train all models and write their probabilities."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order].reshape(-1, 8, 8) / 16, labels[order]
    test, calibration = slice(0, TEST), slice(TEST, TEST + CALIBRATION)
    training = slice(TEST + CALIBRATION, None)

    def tensor(rows: np.ndarray) -> torch.Tensor:
        return torch.tensor(rows.reshape(len(rows), 64), dtype=torch.float32)

    x, y = tensor(images[training]), torch.tensor(labels[training])
    inputs = shifted(images[test]) | {"calibration": images[calibration]}
    arrays = {"labels": labels[test], "calibration labels": labels[calibration]}
    models = {
        "vanilla": ("vanilla", 1, 1), "ensemble": ("vanilla", MEMBERS, 1),
        "dropout": ("dropout", 1, PASSES), "last-layer dropout": ("last-layer dropout", 1, PASSES),
        "variational": ("variational", 1, PASSES),
    }  # fmt: skip
    for name, (kind, members, passes) in models.items():
        start = time.process_time()
        networks = [trained(kind, x, y, seed) for seed in range(members)]
        middle = time.process_time()
        for shift, rows in inputs.items():
            arrays[f"{name}/{shift}"] = averaged(networks, tensor(rows), passes).astype(np.float16)
        arrays[f"{name}/seconds"] = np.array([middle - start, time.process_time() - middle])
        print(
            name, arrays[f"{name}/rotated 0"].argmax(1).__eq__(labels[test]).mean(), middle - start
        )
        if name == "ensemble":  # members apart: what more of them bring
            single = [averaged([one], tensor(inputs["rotated 15"]), 1) for one in networks]
            arrays["members/rotated 15"] = np.stack(single).astype(np.float16)
    TARGET.parent.mkdir(exist_ok=True)
    write_atomically(TARGET, lambda stream: np.savez_compressed(stream, **arrays))


if __name__ == "__main__":
    main()
