"""Projections of inputs onto a line or a plane. To add one, list a function in `PROJECTIONS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastmcmd._base.annotations import HostArray, InputsLike, Projection
from fastmcmd._base.cached import cached_property
from fastmcmd._base.checks import as_rows, check_callable, check_same_length
from fastmcmd.errors import require
from fastmcmd.plots.hexagons import Hexagons
from fastmcmd.plots.inputs import FEW, Inputs, some

__all__ = ["PROJECTIONS", "Plane", "Projection", "line", "principal", "project"]

Array = NDArray[np.float64]

_AXES = 20_000  # rows from which principal axes are computed,
_LARGEST = 2_000  # and the largest matrix whose eigenvectors are computed: a second
_SMALL = 100  # matrices of which all eigenvectors are computed: a millisecond
_BLOCK = 1 << 22  # elements converted together
_WIDE = 50  # columns that t-SNE receives at most, as its authors do (van der Maaten & Hinton, 2008)
_SEED = 0


@dataclass(frozen=True, eq=False)
class Plane:
    """Positions of rows on a plane, computed by `project` and plotted by `over_plane`.

    Attributes
    ----------
    places : ndarray (m, 2)
        Coordinates of the rows.
    rows : ndarray (m,)
        Indices of these rows among the inputs, ascending.
    n : int
        Number of rows of the inputs.
    names : (str, str)
        Names of the coordinates.
    """

    places: Array
    rows: NDArray[np.intp]
    n: int
    names: tuple[str, str]

    @cached_property
    def hexagons(self) -> Hexagons:
        """The hexagons that hold the rows."""
        return Hexagons.of(self.places)


@dataclass(frozen=True)
class _Projector:
    """A projection of rows (m, d), with the names of its coordinates and its largest number of rows."""

    make: Callable[[HostArray], ArrayLike]
    names: tuple[str, str]
    most: int | None = FEW


def principal(rows: HostArray, count: int) -> Array:
    """Return the first principal components (n, count) of rows (n, d), unscaled.

    With more than 20,000 rows (2,000 for more than 2,000 columns), the axes are computed from that many
    random rows. The largest loading of an axis is positive.
    """
    most = _AXES if rows.shape[1] <= _LARGEST else _LARGEST
    part = rows[some(len(rows), most)].astype(np.float64)
    centre = part.mean(axis=0)
    part -= centre
    m, d = part.shape
    # The smaller of the two matrices of products has the same directions.
    products = part.T @ part if d <= m else part @ part.T
    axes = _last_eigenvectors(products, count)[:, ::-1]
    if d > m:
        axes = part.T @ axes
        axes /= np.maximum(np.linalg.norm(axes, axis=0), np.finfo(np.float64).tiny)
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])])
    scores = np.zeros((len(rows), count))  # coordinates along missing axes are 0
    step = max(1, _BLOCK // d)
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        scores[block, : axes.shape[1]] = (rows[block].astype(np.float64) - centre) @ axes
    return scores


def _last_eigenvectors(products: Array, count: int) -> Array:
    """Return the eigenvectors of the largest eigenvalues, in ascending order."""
    size = len(products)
    if size <= _SMALL:  # to load SciPy's takes longer
        return np.asarray(np.linalg.eigh(products)[1][:, max(0, size - count) :])
    from scipy import linalg

    ends = (max(0, size - count), size - 1)
    return np.asarray(linalg.eigh(products, subset_by_index=ends)[1])


def _pca(rows: HostArray) -> Array:
    return principal(rows, 2)


def _library(module: str, package: str, projection: str, rows: HostArray) -> Any:
    """Return the module of a projection; raise an error if it is not installed or rows are too few."""
    name = f"projection={projection!r}"
    imported = require(module, f"{name} needs {package}: pip install 'fastmcmd[projection]'")
    if len(rows) < 4:
        raise ValueError(f"x has {len(rows)} rows; {name} needs at least 4")
    return imported


def _tsne(rows: HostArray) -> Array:
    """Return t-SNE of rows (m, d), from scikit-learn."""
    manifold = _library("sklearn.manifold", "scikit-learn", "tsne", rows)
    from threadpoolctl import threadpool_limits  # which scikit-learn needs, too

    wide = rows.astype(np.float64) if rows.shape[1] <= _WIDE else principal(rows, _WIDE)
    perplexity = min(30.0, (len(rows) - 1) / 3)  # its default; three times as many neighbours
    # One thread: on a busy machine several wait for each other at each of 1,000 steps, 10 times as long.
    with threadpool_limits(1):
        return manifold.TSNE(init="pca", perplexity=perplexity, random_state=_SEED).fit_transform(
            wide
        )


def _umap(rows: HostArray) -> Array:
    """Return UMAP of rows (m, d), from umap-learn."""
    umap = _library("umap", "umap-learn", "umap", rows)
    neighbours = min(15, len(rows) - 1)  # its default
    # One thread: more are not used with a random_state, and it would warn.
    return umap.UMAP(n_neighbors=neighbours, random_state=_SEED, n_jobs=1).fit_transform(rows)


PROJECTIONS = {
    "pca": _Projector(_pca, ("first principal component", "second"), None),
    "tsne": _Projector(_tsne, ("t-SNE, first coordinate", "second")),
    "umap": _Projector(_umap, ("UMAP, first coordinate", "second")),
}


def project(x: InputsLike | Inputs, projection: Projection = "pca") -> Plane:
    """Return the positions of inputs on a plane, for plots with `over_plane`.

    Parameters
    ----------
    x : array_like (n, d), or rows on disk
        Inputs.
    projection : {"pca", "tsne", "umap"}, array_like (n, 2) or callable
        Principal components (for two columns, the columns themselves), t-SNE (from scikit-learn), UMAP
        (from umap-learn), an array of positions, or a function from rows (m, d) to positions (m, 2).
        Principal components and arrays use at most 100,000 rows, the others at most 3,000, drawn at random
        with a fixed seed.

    Returns
    -------
    Plane

    Raises
    ------
    ValueError, TypeError
        If x has one column, or ``projection`` is none of these or returns something else.
    MissingDependencyError
        If a package is not installed; the message contains the command that installs it.

    Notes
    -----
    Columns are not scaled, because the kernel does not scale them. t-SNE (van der Maaten & Hinton, 2008)
    starts from at most 50 principal components and has perplexity 30. UMAP (McInnes et al., 2018) uses 15
    neighbours. Both numbers are smaller for few rows, and both methods have a fixed seed.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd import plots
    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> plots.project(x).places.shape
    (200, 2)
    >>> plots.project(x, lambda rows: rows[:, 3:]).names
    ('first coordinate', 'second')
    """
    inputs = Inputs.of(x)
    if isinstance(projection, str):
        if projection not in PROJECTIONS:
            raise ValueError(
                f"projection is {projection!r}; {', '.join(map(repr, PROJECTIONS))}, an (n, 2) array or "
                "a callable is needed"
            )
        projector = PROJECTIONS[projection]
    elif callable(projection):
        check_callable(projection, "projection", 1, "a callable that maps rows of x to (n, 2)")
        projector = _Projector(projection, ("first coordinate", "second"))
    else:
        places = as_rows(projection, "projection", columns=2)
        check_same_length(x=inputs, projection=places)
        rows = some(len(inputs), inputs.most)
        return Plane(
            places[rows].astype(np.float64), rows, len(inputs), ("first coordinate", "second")
        )
    make, names = projector.make, projector.names
    rows, part = inputs.sample
    if projector.most is not None and len(rows) > projector.most:
        rows = some(len(inputs), projector.most)
        part = inputs.take(rows)
    if not callable(projection) and part.shape[1] == 1:
        raise ValueError(
            f"x has 1 column; projection={projection!r} needs at least two: use over_inputs"
        )
    if projection == "pca" and part.shape[1] == 2:
        make, names = np.asarray, ("x, column 1", "x, column 2")
    places = as_rows(make(part), "the projection of x")
    if places.shape != (len(rows), 2):
        raise ValueError(
            f"the projection made an array {places.shape} of {len(rows)} rows; ({len(rows)}, 2) is needed"
        )
    return Plane(places.astype(np.float64), rows, len(inputs), names)


def line(rows: HostArray) -> tuple[Array, str]:
    """Return the positions of rows (n, d) on a line, x itself or its first component, and its name."""
    if rows.shape[1] == 1:
        return rows[:, 0].astype(np.float64), "x"
    return principal(rows, 1)[:, 0], "first principal component of x"
