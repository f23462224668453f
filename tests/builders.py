"""Data that several files of tests use; each builder draws the same numbers for the same arguments."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm

# For programs that measure themselves: a field of the process's status, in bytes.
STATUS_FIELD = """
def field(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1]) * 1024
"""

# For programs that measure several calls, each in a process of its own: these share imports and data.
FORKED = """
import os, sys

def forked(function, *arguments):
    child = os.fork()
    if not child:
        function(*arguments)
        sys.exit()
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{function.__name__}{arguments} failed")
"""


class Opaque(fm.Predictive):
    """A distribution with the abstract members only: no quantiles by row, no survival function."""

    def __init__(self, inner):
        self.inner, self.discrete = inner, inner.discrete

    mean = property(lambda self: self.inner.mean)
    variance = property(lambda self: self.inner.variance)
    std = property(lambda self: self.inner.std)
    shape = property(lambda self: self.inner.shape)

    def cdf(self, y):
        return self.inner.cdf(y)

    def cdf_below(self, y):
        return self.inner.cdf_below(y)

    def log_prob(self, y):
        return self.inner.log_prob(y)

    def quantile(self, level):
        return self.inner.quantile(level)

    def sample(self, size, random_state=None):
        return self.inner.sample(size, random_state)

    def take(self, rows):
        return Opaque(self.inner.take(rows))

    def nodes(self, splits=1):
        return self.inner.nodes(splits)


def same_in_threads_and_blocks(results, module, block, monkeypatch):
    """Assert that arrays are the same on one thread and on three, in small blocks of rows."""
    threads = fm.get_num_threads()
    try:
        fm.set_num_threads(1)
        expected = results()
        monkeypatch.setattr(module, "_BLOCK", block)
        fm.set_num_threads(3)
        for one, other in zip(expected, results(), strict=True):
            np.testing.assert_array_equal(one, other)
    finally:
        fm.set_num_threads(threads)


def noisy_sine(rng, x):
    """Return ``sin(x) + 0.3 e`` (n,) of the first column of x, with standard normal e."""
    mean = np.sin(x if x.ndim == 1 else x[:, 0])
    return mean + 0.3 * rng.standard_normal(len(mean))


def sine_model(rng, n=300, shift=0.0, std=0.3):
    """Return x (n,), a `noisy_sine` raised by ``shift``, and the Gaussian prediction around the sine."""
    x = rng.uniform(-2, 2, n)
    return x, noisy_sine(rng, x) + shift, fm.Gaussian(np.sin(x), std)


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
