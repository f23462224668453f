"""Data that several files of tests use; each builder draws the same numbers for the same arguments."""

from __future__ import annotations

import numpy as np


def two_samples(rng, n=60, m=45, q=20, d=2, k=1, dtype=np.float64):
    """Return ``(grid, x, y, x_prime, y_prime)``: two noisy curves at inputs of their own."""
    x = rng.normal(size=(n, d)).astype(dtype)
    x_prime = rng.normal(size=(m, d)).astype(dtype)
    grid = rng.normal(size=(q, d)).astype(dtype)
    y = np.sin(x[:, :1]) + 0.3 * rng.normal(size=(n, k))
    y_prime = 0.8 * np.cos(x_prime[:, :1]) + 0.4 * rng.normal(size=(m, k))
    return grid, x, y, x_prime, y_prime


def unit_inputs(n, d=64, seed=0):
    """Return inputs (n, d) of norm about one in float32, outcomes and draws, each of one column."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, d)) / np.sqrt(d)).astype(np.float32)
    return x, x[:, 0] + 0.3 * rng.normal(size=n), x[:, 0] + 0.4 * rng.normal(size=n)


def class_probabilities(rng, n, classes, tied=False):
    """Return probabilities (n, classes); multiples of 1/8, exact in binary, where they are ``tied``."""
    if tied:
        return rng.multinomial(8, np.ones(classes) / classes, size=n) / 8.0
    return rng.dirichlet(np.full(classes, 0.4), size=n)


def labelled(seed, n, classes, kind=np.float64, tied=False):
    """Return labels, their `class_probabilities` and integer weights from 1 to 3."""
    rng = np.random.default_rng(seed)
    p = class_probabilities(rng, n, classes, tied)
    y = rng.integers(0, classes, size=n)
    return y, p.astype(kind), rng.integers(1, 4, size=n)


def labelled_with_every_class(seed, n, classes, kind=np.float64, tied=False):
    """Return `labelled` of ``n + classes`` rows, of which the first have one label each."""
    y, p, weights = labelled(seed, n + classes, classes, kind, tied)
    y[:classes] = np.arange(classes)
    return y, p, weights
