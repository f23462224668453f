"""Train the standard deviations of the ENCE paper's experiments, in kind (PyTorch, half a minute).

``python -m examples.papers.train_uncertainties`` writes the weights: ``predictions/noise.npz`` and
``predictions/boxes.npz``.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

import fastmcmd as fm
from examples.papers.losses import loss_of
from examples.papers.networks import Stack, Training, train
from examples.papers.stored import write

TRIALS = 5
NOISE_N, BOXES_N = 2_000, 600  # training rows


def main() -> None:
    """Train both kinds of networks, one for each trial, and write their weights."""
    torch.set_num_threads(1)
    one = torch.tensor(1.0)

    noise = [fm.datasets.proportional_noise(NOISE_N, seed) for seed in range(TRIALS)]
    x, y = (
        torch.tensor(np.stack(arrays), dtype=torch.float32)
        for arrays in ([data.x for data in noise], [data.y for data in noise])
    )
    torch.manual_seed(0)
    stack = Stack(TRIALS, (1, 32, 32, 2))
    x = ((x - 0.55) / 0.26)[..., None]
    train(
        stack, x, y, partial(loss_of, head="gaussian", centre=0 * one, scale=one),
        Training(epochs=60, batch=64, rate=3e-3),
    )  # fmt: skip
    write("noise", stack.arrays("gaussian"))

    boxes = [fm.datasets.boxes(BOXES_N, seed) for seed in range(TRIALS)]
    x, y = (
        torch.tensor(np.stack(arrays), dtype=torch.float32)
        for arrays in ([data.x for data in boxes], [data.y for data in boxes])
    )

    def loss(y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        edges = out.unflatten(-1, (4, 2))
        return loss_of(y, edges, "gaussian", 0 * one, one).mean(-1)

    torch.manual_seed(0)
    stack = Stack(TRIALS, (6, 48, 48, 8))
    train(stack, x, y, loss, Training(epochs=80, batch=32, rate=3e-3))
    write("boxes", stack.arrays("gaussian"))


if __name__ == "__main__":
    main()
