"""Many small networks of one shape, trained at once with PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

__all__ = ["Stack", "Training", "train"]

_PRIOR_STD = 0.1  # of the weights of a variational layer
_STARTING_LOG_STD = -4.0


class Stack(torch.nn.Module):
    """Fully connected networks side by side: each layer is one batched product.

    Parameters
    ----------
    members : int
        Number of networks.
    sizes : sequence of int
        Inputs, hidden units, outputs.
    drop : dict of int to float
        Shares of the inputs of a layer that dropout sets to 0, by the number of the layer.
    variational : bool
        Whether the last layer has independent Gaussian weights (Blundell et al. 2015).
    detached : bool
        Whether the second output leaves the hidden layers to the first (Stirn et al. 2023).
    """

    def __init__(
        self,
        members: int,
        sizes: Sequence[int],
        *,
        drop: dict[int, float] | None = None,
        variational: bool = False,
        detached: bool = False,
    ) -> None:
        super().__init__()
        self.drop, self.variational, self.detached = drop or {}, variational, detached
        self.weights, self.biases = torch.nn.ParameterList(), torch.nn.ParameterList()
        for before, after in pairwise(sizes):
            bound = before**-0.5
            for values, shape in (
                (self.weights, (members, before, after)),
                (self.biases, (members, 1, after)),
            ):
                values.append(torch.nn.Parameter(bound * (2 * torch.rand(shape) - 1)))
        if variational:
            self.log_std = torch.nn.Parameter(
                torch.full_like(self.weights[-1], _STARTING_LOG_STD).detach()
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs (members, rows, k) of inputs (members, rows, d)."""
        last = len(self.weights) - 1
        for layer in range(last):
            x = torch.relu(self._product(x, layer))
        if not self.detached:
            return self._product(x, last)
        first, second = self._product(x, last), self._product(x.detach(), last)
        return torch.cat((first[..., :1], second[..., 1:]), -1)

    def _product(self, x: torch.Tensor, layer: int) -> torch.Tensor:
        if layer in self.drop:
            x = torch.nn.functional.dropout(x, self.drop[layer])
        weight = self.weights[layer]
        if self.variational and layer == len(self.weights) - 1:
            weight = weight + self.log_std.exp() * torch.randn_like(weight)
        return torch.baddbmm(self.biases[layer], x, weight)

    def divergence(self) -> torch.Tensor:
        """Return the Kullback-Leibler divergence of the last layers from the prior, summed over members."""
        mean, ratio = self.weights[-1], (2 * self.log_std).exp() / _PRIOR_STD**2
        return 0.5 * (ratio + (mean / _PRIOR_STD) ** 2 - 1 - ratio.log()).sum()

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """Return the parameters in half precision, by the name and the number of the layer."""
        weights = {}
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            weights[f"{name}/{layer}/weight"] = weight.detach().numpy().astype(np.float16)
            weights[f"{name}/{layer}/bias"] = bias.detach().numpy().astype(np.float16)
        if self.variational:
            weights[f"{name}/std"] = self.log_std.exp().detach().numpy().astype(np.float16)
        return weights


@dataclass(frozen=True)
class Training:
    """Settings of AdamW with a cosine schedule."""

    epochs: int
    batch: int = 32
    rate: float = 1e-3
    decay: float = 1e-5


def train(
    stack: Stack,
    x: torch.Tensor,
    y: torch.Tensor,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    training: Training,
) -> None:
    """Train the networks of a stack, each on its own rows (members, n, d) and (members, n, ...).

    Gradients are clipped to norm 1 for each network on its own, so that none depends on the others.
    """
    members, n = x.shape[:2]
    optimiser = torch.optim.AdamW(stack.parameters(), lr=training.rate, weight_decay=training.decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, training.epochs)
    rank = torch.arange(members)[:, None]
    for _ in range(training.epochs):
        order = torch.rand(members, n).argsort(1)
        for rows in order.split(training.batch, 1):
            optimiser.zero_grad()
            total = loss(y[rank, rows], stack(x[rank, rows])).mean(1).sum()
            if stack.variational:
                total = total + stack.divergence() / n
            total.backward()
            _clip(stack)
            optimiser.step()
        schedule.step()


def _clip(stack: Stack) -> None:
    gradients = [one.grad for one in stack.parameters() if one.grad is not None]
    norm = torch.stack([one.square().sum((1, 2)) for one in gradients]).sum(0).sqrt()
    factor = (1 / norm.clamp(min=1.0))[:, None, None]
    for one in gradients:
        one.mul_(factor)
