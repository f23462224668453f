"""Exact and approximate solvers of other packages for the CCE, from features of the outputs.

They receive the features ``p`` of the output kernel, compute the coefficients of the kernel matrix of ``x``
and return the norms of its products. An RBF kernel with `GAMMA` and the regulariser `LAM` are fixed.
"""

from __future__ import annotations

import numpy as np

from fastmcmd.backends import get_backend
from fastmcmd.embedding.features import output_features

D, LAM = 8, 0.1
GAMMA = 1 / (2 * D)


def feature_differences(y_kernel, y, draws):
    """Return the features of outcomes minus those of draws."""
    pooled = np.concatenate([y, draws])[:, None]
    features, *_ = output_features(y_kernel, get_backend("cpu", y_kernel), pooled, 5e-15, 256)
    return features.transform(y[:, None]) - features.transform(draws[:, None])


def norms(values):
    """Return the lengths of rows."""
    return np.linalg.norm(values, axis=1)


def torch_direct(x, p):
    """Return values from a Cholesky factor in float32."""
    import torch

    x, p = torch.from_numpy(x), torch.from_numpy(p)
    kernel = torch.cdist(x, x).square_().mul_(-GAMMA).exp_()
    shifted = kernel.clone()
    shifted.diagonal().add_(len(x) * LAM)
    factor = torch.linalg.cholesky(shifted)
    return norms((kernel @ torch.cholesky_solve(p, factor)).numpy())


def kernel_ridge(x, p):
    """Return values from scikit-learn's KernelRidge, in float64."""
    from sklearn.kernel_ridge import KernelRidge

    model = KernelRidge(alpha=len(x) * LAM, kernel="rbf", gamma=GAMMA)
    return norms(model.fit(x, p).predict(x))


def gpytorch_cg(x, p):
    """Return values from GPyTorch's CG."""
    import gpytorch
    import linear_operator
    import torch

    x, p = torch.from_numpy(x), torch.from_numpy(p)
    kernel = gpytorch.kernels.RBFKernel()
    kernel.lengthscale = (2 * GAMMA) ** -0.5
    settings = linear_operator.settings
    with torch.no_grad(), settings.cg_tolerance(1e-3), settings.max_cholesky_size(0):
        matrix = kernel(x).evaluate_kernel()
        solution = matrix.add_diagonal(torch.tensor(len(x) * LAM)).solve(p)
        return norms((matrix @ solution).numpy())


def keops_cg(x, p):
    """Return values from KeOps' CG, whose kernel matrix is never stored."""
    from pykeops.numpy import LazyTensor

    kernel = (-((LazyTensor(x[:, None, :]) - LazyTensor(x[None, :, :])) ** 2).sum(-1) * GAMMA).exp()
    solution = kernel.solve(p, alpha=len(x) * LAM, eps=1e-5 * np.sqrt(np.mean(p * p)))
    return norms(kernel @ np.ascontiguousarray(solution))


def nystroem(count):
    """Return a function that returns values from scikit-learn's Nystroem and normal equations."""

    def values(x, p):
        from sklearn.kernel_approximation import Nystroem

        maker = Nystroem(kernel="rbf", gamma=GAMMA, n_components=count, random_state=0)
        features = maker.fit_transform(x)
        gram = (features.T @ features).astype(np.float64)
        gram[np.diag_indices_from(gram)] += len(x) * LAM
        weights = np.linalg.solve(gram, (features.T @ p).astype(np.float64))
        return norms(features @ weights.astype(features.dtype))

    return values


# Functions, and the precision that they take, by name.
SOLVERS = {
    "torch, Cholesky float32": (torch_direct, np.float32),
    "scikit-learn KernelRidge": (kernel_ridge, np.float64),
    "GPyTorch CG": (gpytorch_cg, np.float32),
    "KeOps CG": (keops_cg, np.float32),
}
