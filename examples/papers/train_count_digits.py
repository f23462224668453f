"""Train networks that predict the digit in an image as a count (PyTorch, one minute).

``python -m examples.papers.train_count_digits`` writes ``predictions/count_digits.npz``: their weights.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from examples.papers.count_digits import HEADS, TRIALS, rows_of, split, standardised
from examples.papers.heads import size
from examples.papers.losses import loss_of
from examples.papers.networks import Stack, Training, train
from examples.papers.stored import write

WIDTHS = (64, 32, 32)
TRAINING = Training(epochs=60, batch=32, rate=3e-3, decay=1e-2)


def main() -> None:
    """Train all heads, one network for each trial, and write their weights."""
    torch.set_num_threads(1)
    rows = [rows_of(split(trial)[0]) for trial in range(TRIALS)]
    x = torch.tensor(np.stack([standardised(one) for one, _ in rows]), dtype=torch.float32)
    y = torch.tensor(np.stack([one for _, one in rows]), dtype=torch.float32)
    centre, scale = y.mean(), y.std()
    arrays = {"moments": np.array([float(centre), float(scale)], np.float32)}
    for head in HEADS:
        torch.manual_seed(0)
        stack = Stack(TRIALS, (*WIDTHS, size(head)), drop={1: 0.1, 2: 0.1})
        train(stack, x, y, partial(loss_of, head=head, centre=centre, scale=scale), TRAINING)
        arrays |= stack.arrays(head)
    write("count_digits", arrays)


if __name__ == "__main__":
    main()
