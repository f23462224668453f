"""Train the classifiers of the dataset-shift experiments (PyTorch, one minute).

``python -m examples.papers.train_classifiers`` writes the weights: ``predictions/digits.npz`` and
``predictions/tokens.npz``.
"""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from examples.papers import shifted_digits, shifted_tokens
from examples.papers.classifiers import DROP, TRAINED, members_of
from examples.papers.networks import Stack, Training, train
from examples.papers.stored import write


def _train(
    name: str,
    rows: list[tuple[np.ndarray, np.ndarray]],
    layers: tuple[int, ...],
    training: Training,
) -> None:
    x = torch.tensor(np.stack([one for one, _ in rows]), dtype=torch.float32)
    y = torch.tensor(np.stack([one for _, one in rows]).astype(np.int64))

    def loss(labels: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(out.movedim(2, 1), labels, reduction="none")

    arrays: dict[str, np.ndarray] = {}
    for kind in TRAINED:
        torch.manual_seed(0)
        members = members_of(kind)
        stack = Stack(
            len(rows) * members, layers, drop=DROP.get(kind), variational=kind == "variational"
        )
        train(
            stack, x.repeat_interleave(members, 0), y.repeat_interleave(members, 0), loss, training
        )
        arrays |= stack.arrays(kind)
    write(name, arrays)


def main() -> None:
    """Train all kinds of networks for digits and for tokens."""
    torch.set_num_threads(1)
    digits = [shifted_digits.training_rows(trial) for trial in range(shifted_digits.TRIALS)]
    _train("digits", digits, (64, 64, 64, 10), Training(epochs=60, decay=0.0))
    tokens = [shifted_tokens.training_rows(trial) for trial in range(shifted_tokens.TRIALS)]
    _train("tokens", tokens, (tokens[0][0].shape[1], 16, 16, 2), Training(epochs=15, decay=1e-3))


if __name__ == "__main__":
    main()
