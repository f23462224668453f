"""Outputs and Gaussian predictions as one set of normal distributions, for the dense form.

An observed output is a normal distribution of standard deviation 0. A Gaussian prediction is one with its
own standard deviation, and a Gaussian mixture is several with weights. Inner products of their embeddings
are ``E k(Y, Y')`` of independent Y and Y', in closed form: nothing is integrated numerically.
"""

from __future__ import annotations

import numpy as np

from fastmcmd._base.annotations import Array
from fastmcmd._base.threads import get_num_threads
from fastmcmd.backends.cpu import core
from fastmcmd.embedding.sample import DrawnOutputs, Outputs
from fastmcmd.gram.cost import entry_cost
from fastmcmd.kernels import Delta, Kernel, Linear
from fastmcmd.predictive.expectation import by_parts, closed_form_rows
from fastmcmd.predictive.gaussian import of_normal_pairs

__all__ = [
    "CLOSED_FORM_ERROR",
    "atom_count",
    "kernel_of_atoms",
    "normal_atoms",
    "pair_cost",
    "products",
    "quadratic_forms",
]

# Cost of an expectation over two normal distributions relative to that of a kernel value.
_ATOM_ENTRY = 3.0
CLOSED_FORM_ERROR = 16  # roundings in a closed form, for each component of outputs
_BLOCK = 1 << 22  # kernel values in memory at once
_ROWS = 128  # rows of a block of a symmetric matrix: few enough for the upper half to save much


def atom_count(outputs: Outputs, kernel: Kernel) -> int | None:
    """Return the number of atoms of all rows, or None if inner products have no closed forms."""
    if isinstance(outputs, DrawnOutputs):
        return outputs.count
    first = outputs.prediction.take(np.zeros(1, dtype=np.intp))
    parts = first.gaussian_parts()
    if parts is None or closed_form_rows(first, kernel, first) is None:
        return None
    return len(outputs.prediction) * len(parts)


def normal_atoms(outputs: Outputs) -> DrawnOutputs:
    """Return outputs as weighted normal distributions (N, l, 2 k): means, then standard deviations."""
    if isinstance(outputs, DrawnOutputs):
        values = np.asarray(outputs.values, dtype=np.float64)
        return DrawnOutputs(
            np.concatenate([values, np.zeros_like(values)], axis=2), outputs.weights
        )
    parts = outputs.prediction.gaussian_parts()
    assert parts is not None
    n = len(outputs.prediction)
    atoms = [
        np.concatenate([g.mean.reshape(n, -1), g.std.reshape(n, -1)], axis=1) for _, g in parts
    ]
    if len(parts) == 1:
        return DrawnOutputs(atoms[0][:, None])
    return DrawnOutputs(np.stack(atoms, axis=1), np.stack([weight for weight, _ in parts], axis=1))


def pair_cost(kernel: Kernel, columns: int, backend: str, *, normal: bool) -> float:
    """Return the cost of a kernel value of two outputs, or of two normal distributions."""
    return entry_cost(kernel, columns, backend) * (_ATOM_ENTRY if normal else 1.0)


def kernel_of_atoms(kernel: Kernel, one: Array, other: Array) -> Array:
    """Return ``E k(Y_i, Y'_j)`` (n, m) for normal distributions (n, 2 k) and (m, 2 k)."""
    columns = one.shape[1] // 2
    mean, std = one[:, :columns], one[:, columns:]
    against, spread = other[:, :columns], other[:, columns:]

    def closed_form(leaf: Kernel) -> Array | None:
        match leaf:
            case Linear():
                return np.asarray(mean @ against.T)
            case Delta():
                same = np.logical_and.reduce(
                    [(one[:, k, None] == other[None, :, k]) for k in range(columns)]
                )
                spread_out, spread_other = std.any(axis=1), spread.any(axis=1)
                points = ~(np.asarray(spread_out)[:, None] | np.asarray(spread_other)[None, :])
                return np.asarray((same & points).astype(np.float64))
        return of_normal_pairs(leaf, mean, std, against, spread)

    values = by_parts(kernel, (len(one), len(other)), closed_form)
    assert values is not None
    return values


def quadratic_forms(kernel: Kernel, atoms: Array, coefficients: Array) -> Array:
    """Return ``c' K c`` (q,) for columns c (u, q), with K over the atoms (u, 2 k), in blocks of rows."""
    total = np.zeros(coefficients.shape[1])
    step = max(1, min(_ROWS, _BLOCK // len(atoms)))
    for start in range(0, len(atoms), step):
        rows = slice(start, start + step)
        # By symmetry: the square of a block, plus twice the part to its right.
        block = kernel_of_atoms(kernel, atoms[rows], atoms[start:])
        right = 2 * coefficients[start:]
        right[: len(block)] = coefficients[rows]
        image = np.empty((len(block), right.shape[1]))
        core().dense_matmul(block, right, image, threads=get_num_threads())
        total += np.einsum("ij,ij->j", coefficients[rows], image)
    return total


def products(kernel: Kernel, one: Array, other: Array, coefficients: Array) -> Array:
    """Return ``K coefficients`` (n, q) with ``K = E k(Y_i, Y'_j)`` for atoms (n, 2 k) and (u, 2 k)."""
    out = np.empty((len(one), coefficients.shape[1]))
    step = max(1, _BLOCK // len(other))
    for start in range(0, len(one), step):
        rows = slice(start, start + step)
        out[rows] = kernel_of_atoms(kernel, one[rows], other) @ coefficients
    return out
