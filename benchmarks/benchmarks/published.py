"""The peer: the MCMD as published, written plainly (Young et al., arXiv 2405.12412, equation 2).

Gram matrices in full, inverses by Cholesky, matrix products, in the requested precision. Written
from the formula, in NumPy and in torch, to be measured beside fastmcmd in one run.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg


def polynomial(x, z):
    return (x @ z.T / x.shape[1] + 1) ** 3


def rbf(gamma):
    def kernel(x, z):
        squares = (x * x).sum(1)[:, None] + (z * z).sum(1)[None, :] - 2 * x @ z.T
        return np.exp(-gamma * np.maximum(squares, 0))

    return kernel


def mcmd_numpy(x, y, y_prime, x_kernel, y_kernel, lam, dtype):
    """Return MCMD at x for S' drawn at the same inputs; nothing is shared, as published."""
    x, y, y_prime = (np.asarray(a, dtype=dtype) for a in (x, y[:, None], y_prime[:, None]))
    n = len(x)
    shift = np.asarray(n * lam, dtype=dtype) * np.eye(n, dtype=dtype)
    identity = np.eye(n, dtype=dtype)
    k_x = x_kernel(x, x)
    w = linalg.cho_solve(linalg.cho_factor(k_x + shift, lower=True), identity)
    k_x_prime = x_kernel(x, x)
    w_prime = linalg.cho_solve(linalg.cho_factor(k_x_prime + shift, lower=True), identity)
    first = np.einsum("ij,ij->j", k_x, (w @ y_kernel(y, y) @ w.T) @ k_x)
    second = np.einsum("ij,ij->j", k_x, (w @ y_kernel(y, y_prime) @ w_prime.T) @ k_x_prime)
    third = np.einsum(
        "ij,ij->j", k_x_prime, (w_prime @ y_kernel(y_prime, y_prime) @ w_prime.T) @ k_x_prime
    )
    with np.errstate(invalid="ignore"):
        return np.sqrt(first - 2 * second + third)


def mcmd_torch(x, y, y_prime, x_kernel, gamma_y, lam, dtype, device="cpu"):
    """Return the same with torch, on a device."""
    import torch

    kind = torch.float32 if np.dtype(dtype) == np.float32 else torch.float64
    x = torch.as_tensor(np.asarray(x), dtype=kind, device=device)
    y = torch.as_tensor(y[:, None], dtype=kind, device=device)
    y_prime = torch.as_tensor(y_prime[:, None], dtype=kind, device=device)
    n = len(x)
    shift = n * lam * torch.eye(n, dtype=kind, device=device)

    def y_kernel(a, b):
        return torch.exp(-gamma_y * torch.cdist(a, b) ** 2)

    k_x = x_kernel(x, x)
    w = torch.cholesky_inverse(torch.linalg.cholesky(k_x + shift))
    k_x_prime = x_kernel(x, x)
    w_prime = torch.cholesky_inverse(torch.linalg.cholesky(k_x_prime + shift))
    first = (k_x * ((w @ y_kernel(y, y) @ w.T) @ k_x)).sum(0)
    second = (k_x * ((w @ y_kernel(y, y_prime) @ w_prime.T) @ k_x_prime)).sum(0)
    third = (k_x_prime * ((w_prime @ y_kernel(y_prime, y_prime) @ w_prime.T) @ k_x_prime)).sum(0)
    return torch.sqrt(first - 2 * second + third).cpu().numpy()
