"""Single products and factorisations of the backends."""

from __future__ import annotations

import numpy as np

import fastmcmd as fm
from fastmcmd.backends import get_backend, tall_skinny

from .problems import clip_like, smooth


def tiled_numpy(x, v, gamma, tile):
    """The best plain NumPy tiling: blocks of rows, one exponential in place."""
    squares = np.einsum("ij,ij->i", x, x)
    out = np.empty_like(v)
    for start in range(0, len(x), tile):
        rows = slice(start, start + tile)
        k = x[rows] @ x.T
        k *= 2
        k -= squares[None, :]
        k -= squares[rows, None]
        k *= gamma
        np.exp(k, out=k)
        out[rows] = k @ v
    return out


class Product:
    """K @ V streamed, n = 20,000, d = 8, RBF, 30 right-hand sides."""

    timeout = 300
    params = ["float32", "float64"]
    param_names = ("dtype",)

    def setup(self, dtype):
        self.x = smooth(20000, 8, dtype=np.dtype(dtype))[0]
        self.v = np.random.default_rng(0).standard_normal((20000, 30))
        self.backend = get_backend("cpu", fm.RBF(1 / 16))
        self.points = self.backend.points(self.x, np.dtype(dtype))

    def time_fastmcmd(self, dtype):
        self.backend.symmetric_matmul(fm.RBF(1 / 16), self.points, self.v)

    def time_numpy_tiles(self, dtype):
        tiled_numpy(self.x, self.v.astype(dtype), 1 / 16, 512)

    def track_relative_error(self, dtype):
        ours = self.backend.symmetric_matmul(fm.RBF(1 / 16), self.points, self.v)
        exact = tiled_numpy(self.x.astype(np.float64), self.v, 1 / 16, 512)
        return float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))


class KeOps:
    """The same product with PyKeOps, if it is installed."""

    timeout = 600

    def setup(self):
        try:
            from pykeops.numpy import LazyTensor
        except ImportError:
            raise NotImplementedError from None
        self.x = smooth(20000, 8)[0]
        self.v = np.random.default_rng(0).standard_normal((20000, 30)).astype(np.float32)
        self.tensor = LazyTensor
        self.time_keops()  # compiles

    def time_keops(self):
        rows, columns = self.tensor(self.x[:, None, :]), self.tensor(self.x[None, :, :])
        (-((rows - columns) ** 2).sum(-1) / 16).exp() @ self.v


class StoredTiles:
    """Products from packed tiles, and their computation and factorisation, n = 12,000, d = 512."""

    timeout = 300
    params = ["float32", "float64"]
    param_names = ("dtype",)

    def setup(self, dtype):
        self.backend = get_backend("cpu", fm.Polynomial(3, gamma=1 / 512))
        self.kernel = fm.Polynomial(3, gamma=1 / 512)
        x = clip_like(12000)[0]
        self.points = self.backend.points(x, np.dtype(dtype))
        self.v = np.random.default_rng(0).standard_normal((12000, 30))
        self.packed = self.backend.pack(self.kernel, self.points)

    def time_pack(self, dtype):
        self.backend.pack(self.kernel, self.points)

    def time_product(self, dtype):
        self.backend.packed_matmul(self.packed, self.v)

    def time_streamed_product(self, dtype):
        self.backend.symmetric_matmul(self.kernel, self.points, self.v)


class Factor:
    """Packed Cholesky, n = 6,000."""

    timeout = 300
    params = ["float32", "float64"]
    param_names = ("dtype",)
    number = 1

    def setup(self, dtype):
        self.backend = get_backend("cpu", fm.RBF(1 / 16))
        points = self.backend.points(smooth(6000, 8)[0], np.dtype(dtype))
        self.packed = self.backend.pack(fm.RBF(1 / 16), points)
        self.backend.packed_add_diagonal(self.packed, np.full(6000, 600.0))

    def time_cholesky(self, dtype):
        self.backend.packed_cholesky(self.packed)


class TallSkinny:
    """The work of CG between two passes: products of blocks (n, 30), and norms of rows, against NumPy."""

    timeout = 300
    params = [12_000, 400_000]
    param_names = ("n",)

    def setup(self, n):
        rng = np.random.default_rng(0)
        self.a, self.b = (rng.standard_normal((n, 30)) for _ in range(2))
        self.small, self.scale = rng.standard_normal((30, 30)), rng.standard_normal(n)
        self.x = rng.standard_normal((n // 10, 512), dtype=np.float32)

    def time_inner(self, n):
        tall_skinny.inner(self.a, self.b)

    def time_inner_numpy(self, n):
        _ = self.a.T @ self.b

    def time_times_subtracted(self, n):
        tall_skinny.times(self.a, self.small, base=self.b, sign=-1.0)

    def time_times_subtracted_numpy(self, n):
        _ = self.b - self.a @ self.small

    def time_scaled(self, n):
        tall_skinny.scaled(self.scale, self.a, base=self.b)

    def time_scaled_numpy(self, n):
        _ = self.scale[:, None] * self.a + self.b

    def time_row_squares(self, n):
        tall_skinny.row_squares(self.x)

    def time_row_squares_numpy(self, n):
        np.einsum("ij,ij->i", self.x, self.x, dtype=np.float64)
