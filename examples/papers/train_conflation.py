"""Train the networks of figure 2 of the CCE paper, and keep what they predict: needs PyTorch, four minutes.

``python -m examples.papers.train_conflation`` writes ``predictions/conflation.npz``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

import fastmcmd as fm
from fastmcmd.io import write_atomically

TARGET = Path(__file__).parent / "predictions" / "conflation.npz"
TRAINING, TEST = 1_000, 500
WIDTHS = (128, 128, 128, 64)
EPOCHS, BATCH, RATE, DECAY = 200, 32, 1e-3, 1e-5
_LEAST = 1e-6  # of positive parameters


def _poisson(y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    mean = functional.softplus(out[:, 0]) + _LEAST
    return mean - y * mean.log() + torch.lgamma(y + 1)


def _negative_binomial(y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    mean, dispersion = (functional.softplus(out) + _LEAST).T
    size = 1 / dispersion
    log_p = torch.log(size / (size + mean))
    return -(
        torch.lgamma(y + size) - torch.lgamma(size) - torch.lgamma(y + 1)
        + size * log_p + y * torch.log(mean / (size + mean))
    )  # fmt: skip


def _gaussian(y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    variance = functional.softplus(out[:, 1]) + _LEAST
    return 0.5 * (variance.log() + (y - out[:, 0]) ** 2 / variance)


def _double_poisson(y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return the negative log-likelihood of Efron (1986) without its normalising constant, near 1."""
    mean, phi = (functional.softplus(out) + _LEAST).T
    log_y = torch.where(y > 0, y, torch.ones_like(y)).log()
    return -(0.5 * phi.log() - phi * mean + phi * y * (1 + mean.log() - log_y))


HEADS: dict[str, tuple[int, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "poisson": (1, _poisson),
    "negative_binomial": (2, _negative_binomial),
    "gaussian": (2, _gaussian),
    "double_poisson": (2, _double_poisson),
}


def _network(outputs: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    for before, after in zip((1, *WIDTHS), WIDTHS, strict=False):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(WIDTHS[-1], outputs))


def trained(x: np.ndarray, y: np.ndarray, head: str, at: np.ndarray) -> np.ndarray:
    """Return the outputs (m, k) of a trained network at new inputs, before they are made positive."""
    torch.manual_seed(0)
    mean, std = x.mean(), x.std()
    inputs, outcomes, points = (
        torch.tensor(a, dtype=torch.float32) for a in ((x - mean) / std, y, (at - mean) / std)
    )
    outputs, loss = HEADS[head]
    network = _network(outputs)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, EPOCHS)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(inputs)).split(BATCH):
            optimiser.zero_grad()
            loss(outcomes[rows], network(inputs[rows, None])).mean().backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
        schedule.step()
    with torch.no_grad():
        return network(points[:, None]).numpy()


def main() -> None:
    """Train all heads and write their predictions."""
    training = fm.datasets.conflated_poissons(TRAINING, 0)
    test = fm.datasets.conflated_poissons(TEST, 1)
    arrays = {"x": test.x, "y": test.y}
    for head in HEADS:
        out = trained(training.x, training.y, head, test.x).astype(np.float64)
        positive = np.logaddexp(out, 0) + _LEAST
        arrays[f"{head}_mean"] = out[:, 0] if head == "gaussian" else positive[:, 0]
        if out.shape[1] > 1:
            arrays[f"{head}_second"] = positive[:, 1]
        print(head, np.abs(arrays[f"{head}_mean"] - test.truth.mean).mean())
    TARGET.parent.mkdir(exist_ok=True)
    write_atomically(TARGET, lambda stream: np.savez_compressed(stream, **arrays))


if __name__ == "__main__":
    main()
