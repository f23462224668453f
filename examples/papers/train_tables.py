"""Train the networks of tables 1 and 2 of the CCE paper, in kind (PyTorch, one minute).

``python -m examples.papers.train_tables`` writes ``predictions/tables_*.npz``: their weights.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from examples.papers.heads import HEADS, size
from examples.papers.losses import loss_of
from examples.papers.networks import Stack, Training, train
from examples.papers.stored import write
from examples.papers.tabular import DATA, MEMBERS, TRIALS, split

TRAINING = {"randhie": Training(30, 64, 3e-3, 1e-2), "diabetes": Training(60, 32, 3e-3, 1e-1)}


def main() -> None:
    """Train all heads, the networks of all trials and ensembles at once, and write their weights."""
    torch.set_num_threads(1)
    for name, sizes in DATA.items():
        parts = [split(name, trial).training for trial in range(TRIALS)]
        x, y = (
            torch.tensor(np.stack(arrays), dtype=torch.float32).repeat_interleave(MEMBERS, 0)
            for arrays in zip(*parts, strict=True)
        )
        centre, scale = y.mean(), y.std()
        arrays = {"moments": np.array([float(centre), float(scale)], np.float32)}
        for head in HEADS:
            torch.manual_seed(0)
            layers = (x.shape[2], sizes.width, sizes.width, size(head))
            stack = Stack(TRIALS * MEMBERS, layers, detached=head == "faithful")
            train(
                stack, x, y, partial(loss_of, head=head, centre=centre, scale=scale),
                TRAINING[name],
            )  # fmt: skip
            arrays |= stack.arrays(head)
        write(f"tables_{name}", arrays)


if __name__ == "__main__":
    main()
