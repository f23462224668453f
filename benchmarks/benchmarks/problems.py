"""Inputs of the benchmarks, drawn from a seed: nothing is read from disk."""

from __future__ import annotations

import numpy as np


def clip_like(n, d=512, seed=0):
    """Return inputs that resemble CLIP image embeddings, outputs and one draw of a model.

    Measured on ViT-B-32 embeddings of 1,332 faces: norms 10.9 on average, at most 12.0; a common mean of
    norm 8.5; total variance 48; covariance eigenvalues 5.2, 4.1, 3.2, ..., 0.8 (11th), 0.3 (31st), 0.06
    (101st), 0.007 (301st). Here: a mixture of 40 clusters with such a spectrum, the mean in a direction
    of small variance.
    """
    (x, y, p), *draws_left = clip_like_blocks(n, d, seed, n)
    assert not draws_left
    return x, y, p


def clip_like_blocks(n, d=512, seed=0, block=50000):
    """Yield the same mixture in blocks of rows, for more rows than fit in memory."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
    scale = 1 / np.sqrt(np.arange(1, d + 1) + 5.0) * np.exp(-np.arange(d) / 180)
    scale *= np.sqrt(48.0 / (scale**2).sum())
    centres = rng.standard_normal((40, d)) * scale * 0.6
    spread = None
    for start in range(0, n, block):
        rows = min(block, n - start)
        cluster = rng.integers(0, 40, rows)
        latent = centres[cluster] + rng.standard_normal((rows, d)) * scale * 0.8
        signal = latent[:, :8].sum(1)
        spread = signal.std() if spread is None else spread
        signal /= spread
        latent[:, d // 2] += 8.5
        latent *= np.clip(11.0 / np.linalg.norm(latent, axis=1), 0.92, 1.08)[:, None]
        x = (latent @ basis.T).astype(np.float32)
        y = signal + 0.3 * (1 + 0.5 * np.sin(2 * signal)) * rng.standard_normal(rows)
        yield x, y, 0.95 * signal + 0.35 * rng.standard_normal(rows)


def smooth(n, d, seed=0, dtype=np.float32):
    """Return Gaussian inputs in few dimensions, a heteroscedastic output and one draw of a model."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)).astype(dtype)
    signal = np.sin(x[:, 0].astype(float)) + 0.3 * x.sum(1) / np.sqrt(d)
    y = signal + 0.3 * (1 + 0.5 * np.cos(2 * signal)) * rng.standard_normal(n)
    y_prime = signal + 0.35 * rng.standard_normal(n)
    return x, y, y_prime
