"""Train the networks of figure 2 of the CCE paper and keep what they predict (PyTorch, two minutes).

``python -m examples.papers.train_conflation`` writes ``predictions/conflation.npz``.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

import fastmcmd as fm
from examples.papers.conflation import HEADS, TRIALS, test_sample
from examples.papers.heads import parameters, size
from examples.papers.losses import loss_of
from examples.papers.networks import Stack, Training, train
from examples.papers.stored import write

N = 1_000
WIDTHS = (128, 128, 128, 64)
TRAINING = Training(epochs=200, batch=32, rate=1e-3, decay=1e-5)


def main() -> None:
    """Train all heads, one network for each trial, and write their predictions."""
    torch.set_num_threads(1)
    samples = [fm.datasets.conflated_poissons(N, seed) for seed in range(TRIALS)]
    tests = [test_sample(trial) for trial in range(TRIALS)]

    def tensor(arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.tensor(np.stack(arrays), dtype=torch.float32)

    # Inputs are uniform on (0, 2 pi): mean pi, standard deviation pi / sqrt(3).
    x, at = (
        ((tensor([one.x for one in many]) - np.pi) * 3**0.5 / np.pi)[..., None]
        for many in (samples, tests)
    )
    y = tensor([one.y for one in samples])
    centre, scale = y.mean(), y.std()
    arrays = {"y": np.stack([one.y for one in tests]).astype(np.float32)}
    for head in HEADS:
        torch.manual_seed(0)
        stack = Stack(TRIALS, (1, *WIDTHS, size(head)))
        train(stack, x, y, partial(loss_of, head=head, centre=centre, scale=scale), TRAINING)
        with torch.no_grad():
            out = stack(at).numpy().astype(np.float64)
        mean, second = parameters(head, out, float(centre), float(scale))
        arrays[f"{head}/mean"] = mean.astype(np.float32)
        if second is not None:
            arrays[f"{head}/second"] = second.astype(np.float32)
        truth = np.stack([one.truth.mean for one in tests])
        print(head, np.abs(mean - truth).mean(axis=1).round(3))
    write("conflation", arrays)


if __name__ == "__main__":
    main()
