"""Inputs of the benchmarks, made anew from a seed: nothing is read from disk."""

from __future__ import annotations

import numpy as np


def clip_like(n, d=512, seed=0):
    """Return inputs that resemble CLIP image embeddings, outputs and one draw of a model.

    Measured on ViT-B-32 embeddings of 1,332 faces: norms 10 to 12, a large common mean, a spectrum
    that falls like a power: the k-th covariance eigenvalue about k^-1.1. A mixture of 40 clusters on
    top makes the density multimodal.
    """
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    scale = np.arange(1, d + 1) ** -0.55
    scale *= np.sqrt(40.0 / (scale**2).sum())
    mean = 9.0 * basis[:, 0] + rng.standard_normal(d) * 0.05
    centres = rng.standard_normal((40, d)) * scale * 0.6
    which = rng.integers(0, 40, n)
    latent = centres[which] + rng.standard_normal((n, d)) * scale * 0.8
    x = (latent @ basis.T + mean).astype(np.float32)
    signal = latent[:, :8].sum(1) / np.sqrt(8)
    signal = signal / signal.std()
    y = signal + 0.3 * (1 + 0.5 * np.sin(2 * signal)) * rng.standard_normal(n)
    y_prime = 0.95 * signal + 0.35 * rng.standard_normal(n)
    return x, y, y_prime


def smooth(n, d, seed=0, dtype=np.float32):
    """Return Gaussian inputs in few dimensions, a heteroscedastic output and one draw of a model."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)).astype(dtype)
    signal = np.sin(x[:, 0].astype(float)) + 0.3 * x.sum(1) / np.sqrt(d)
    y = signal + 0.3 * (1 + 0.5 * np.cos(2 * signal)) * rng.standard_normal(n)
    y_prime = signal + 0.35 * rng.standard_normal(n)
    return x, y, y_prime
