"""Losses of the output distributions in PyTorch."""

from __future__ import annotations

import torch
from torch.nn import functional

from examples.papers.heads import GAUSSIANS, parameters

__all__ = ["loss_of"]

_BETA = 0.5  # of Seitzer et al. (2022)


def loss_of(
    y: torch.Tensor, out: torch.Tensor, head: str, centre: torch.Tensor, scale: torch.Tensor
) -> torch.Tensor:
    """Return the loss of every row, without terms that depend on the outcome alone.

    The negative log-likelihood, but for two: "beta-NLL" weighs it by the square root of the variance
    (Seitzer et al., arXiv 2203.09168), "faithful" adds the squared error of the mean, which is a constant
    in its likelihood (Stirn et al., arXiv 2212.09184). "natural" predicts natural parameters (Immer et al.,
    *Effective Bayesian Heteroscedastic Regression*, 2023).
    """
    mean, second = parameters(head, out, centre, scale, functional.softplus)
    if head == "poisson":
        return mean - y * mean.log()
    if head == "negative binomial":
        trials = 1 / second
        return (
            torch.lgamma(trials) - torch.lgamma(y + trials)
            - trials * torch.log(trials / (trials + mean)) - y * torch.log(mean / (trials + mean))
        )  # fmt: skip
    if head == "double poisson":  # Efron (1986), without its normalising constant, near 1
        log_y = torch.where(y > 0, y, torch.ones_like(y)).log()
        return -(0.5 * second.log() - second * mean + second * y * (1 + mean.log() - log_y))
    if head not in GAUSSIANS:
        raise ValueError(f"no head {head!r}")
    square = (y - mean) ** 2
    if head == "faithful":
        likelihood = 0.5 * (second.log() + (y - mean.detach()) ** 2 / second)
        return likelihood + 0.5 * square / scale**2
    likelihood = 0.5 * (second.log() + square / second)
    return (second / scale**2).detach() ** _BETA * likelihood if head == "beta-NLL" else likelihood
