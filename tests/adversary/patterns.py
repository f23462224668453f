"""Problems drawn towards past defects of certificates: each pattern is one way to be wrong unseen.

`problems.draw` takes a fifth of its problems from here; ``--pattern NAME`` takes all of them.
"""

from __future__ import annotations

import families
import numpy as np
from families import MadeDraws
from measures import LD, Measure

import fastmcmd as fm

SHARE = 0.2


def choose(seed, pattern=None):
    """Return (name or None, random stream) of a seed; the stream is not that of the other problems."""
    rng = np.random.default_rng([20261123, seed])
    name = str(rng.choice(list(PATTERNS)))
    is_pattern = rng.random() < SHARE
    return (pattern or (name if is_pattern else None)), rng


def fill(p, name, rng, size):
    """Fill a problem from a pattern."""
    most = 2000 if size is None else size
    least = 600 if name == "gross failures" else 40
    n = int(np.exp(rng.uniform(np.log(min(least, most)), np.log(most))))
    p.function = "cce"
    p.threads = 1
    p.options = {}
    p.tame = True
    if name == "no kernel":
        n = min(n, 200)  # checked pair by pair
    PATTERNS[name](p, rng, n)
    p.x = np.asarray(p.x)
    if p.prediction is not None:
        p.x_prime = p.x
        p.weights_prime = p.weights
    p.y = np.asarray(p.y, dtype=float).reshape(n, p.columns)
    p.nature = families.of_draws(p.y[:, None, :])
    if rng.random() < 0.2 and p.function == "cce":
        p.function = "estimator"
    p.at_x = bool(rng.random() < 0.7)
    other_rows = p.x[rng.integers(n, size=4)]
    p.grid = p.x if p.at_x else np.concatenate([p.x[list(p.rare)], other_rows])
    p.label = f"[{name}] {p.label}"


def _smooth(rng, n, d):
    """Return inputs, and means that are smooth functions of them."""
    x = rng.normal(size=(n, d)) if rng.random() < 0.5 else rng.uniform(-2, 2, (n, d))
    return x, np.sin(x[:, :1]) + 0.3 * x


def _isolate(rng, x, rare, reach):
    """Put rows far from all others, each in a different place."""
    for i, row in enumerate(rare):
        x[row] = 0
        x[row, rng.integers(x.shape[1])] = (i + 2) * reach * rng.choice([-1, 1])


def wrong_rows(p, rng, n):
    """Draw Gaussian vectors of a model that is right in bulk and wrong in few rows."""
    p.columns = int(rng.choice([2, 2, 2, 3]))
    d = p.columns + int(rng.integers(0, 2))
    p.x, mean = _smooth(rng, n, d)
    mean = mean[:, : p.columns]
    std = np.full_like(mean, 10 ** rng.uniform(-1.0, 0.0))
    p.y = mean + std * rng.normal(size=mean.shape)
    p.rare = tuple(rng.choice(n, int(rng.integers(1, min(11, n))), replace=False))
    mean[list(p.rare)] += rng.uniform(1, 4) * np.arange(1, len(p.rare) + 1)[:, None]
    if rng.random() < 0.5:
        _isolate(rng, p.x, p.rare, 10.0)
    p.x_spec = ("rbf", float(10 ** rng.uniform(-1.5, 0.5))) if rng.random() < 0.7 else (
        "polynomial", 3, None, 1.0)  # fmt: skip
    p.y_spec = ("rbf", "variance") if rng.random() < 0.5 else ("rbf", float(rng.uniform(0.1, 1)))
    p.lam = p.lam_prime = float(10 ** rng.uniform(-4, -1))
    one = np.ones(n, dtype=LD)
    p.prediction, p.label = fm.Gaussian(mean, std), "Gaussian"
    p.model = Measure(n, gaussians=[(np.arange(n), mean, std, one)])


def wide_row(p, rng, n):
    """Put one wide prediction among narrow ones, at a random row with its own inputs."""
    p.x = rng.uniform(-1, 1, (n, 1))
    row = int(rng.integers(n))
    p.rare = (row,)
    p.x[row] = 10.0
    p.x_spec = ("rbf", float(10 ** rng.uniform(-0.5, 1)))
    p.lam = p.lam_prime = float(10 ** rng.uniform(-4, -1))
    spread = float(10 ** rng.uniform(-1, 0))
    gamma = float(10 ** rng.uniform(-1, 1) / spread**2 * 0.05)
    p.y_spec = ("rbf", gamma) if rng.random() < 0.8 else ("laplacian", float(np.sqrt(gamma)))
    family = str(rng.choice([
        "Gaussian", "Gaussian", "Mixture", "Truncated", "LogNormal", "Gamma", "Uniform", "StudentT",
        "Quantiles",
    ]))  # fmt: skip
    group = np.zeros(n, dtype=int)
    group[row] = 1
    scales = np.array([spread, spread * 10 ** rng.uniform(0.5, 3)])
    palette = families.Palette(group, np.array([0.0, rng.normal()]), scales)
    closed = p.y_spec[0] == "rbf"
    if family in ("Gaussian", "Mixture") and closed:
        outputs = _gaussians(rng, palette, n, mixed=family == "Mixture")
    else:
        outputs = getattr(families, f"_{family.lower()}")(
            rng, palette, n, 1, False, p.rare, spread, None
        )
    p.prediction, p.y, p.model, p.label = (
        outputs.prediction,
        outputs.y,
        outputs.measure,
        outputs.label,
    )


def _gaussians(rng, palette, n, mixed):
    mean, std = palette.loc[palette.group][:, None], palette.scale[palette.group][:, None]
    y = 0.3 * palette.scale[0] * rng.normal(size=(n, 1))
    rows, one = np.arange(n), np.ones(n, dtype=LD)
    measure = Measure(n, gaussians=[(rows, mean, std, one)])
    if not mixed:
        return MadeDraws(fm.Gaussian(mean[:, 0], std[:, 0]), measure, y, "Gaussian")
    other = mean + palette.scale[0]
    measure = measure.scaled(0.5 * one).plus(Measure(n, gaussians=[(rows, other, std, 0.5 * one)]))
    predictions = [fm.Gaussian(m[:, 0], std[:, 0]) for m in (mean, other)]
    return MadeDraws(fm.Mixture(predictions, [0.5, 0.5]), measure, y, "Mixture")


def near_duplicates(p, rng, n):
    """Draw inputs that are equal in float32, and a Delta in the kernel."""
    offset = float(rng.choice([1e3, 45000.0, 1e6]))
    d = int(rng.choice([1, 1, 2, 40]))
    p.x = offset + offset * 7e-4 * rng.uniform(0, 1, (n, d))
    some = rng.choice(n, min(17, n // 2), replace=False)
    p.x[some] = p.x[some[0]] + offset * 10 ** rng.uniform(-13.5, -8) * rng.uniform(
        0, 1, (len(some), d)
    )
    p.rare = tuple(some[:4])
    width = float(np.std(p.x)) * 10 ** rng.uniform(-1, 0.5)
    smooth = ("product", ("rbf", 0.5 / width**2), ("constant", float(10 ** rng.uniform(-1, 0))))
    p.x_spec = ("sum", smooth, ("delta",)) if rng.random() < 0.8 else ("delta",)
    p.y_spec = ("rbf", float(10 ** rng.uniform(-1, 1)))
    p.lam = p.lam_prime = float(10 ** rng.uniform(-6, -1))
    _pairs(p, rng, n, 1.0, wrong=some if rng.random() < 0.7 else ())
    if rng.random() < 0.4:
        p.function, p.lam_prime = "mcmd", float(10 ** rng.uniform(-6, -1))
        p.x_prime, p.y_prime = p.x, p.model.atoms[0][1]
        p.prediction = None
    if rng.random() < 0.4:
        p.options["dtype"] = "float32"
    if rng.random() < 0.4:
        p.options["solver"] = str(rng.choice(["cg", "cholesky", "lowrank"]))
    p.options["tol"] = float(10 ** rng.uniform(-6, -2))


def underflow(p, rng, n):
    """Draw inputs whose squares underflow; the kernel's length follows them."""
    scale = float(10 ** rng.uniform(-200, -150))
    p.tame = False  # an error that names the cause is a right answer
    p.x = rng.normal(size=(n, int(rng.integers(1, 4)))) * scale
    p.rare = (int(rng.integers(n)),)
    leaf = [
        ("cosine",), ("matern", float(rng.choice([0.5, 1.5, 2.5])), scale), ("laplacian", 1 / scale),
        ("sum", ("cosine",), ("rbf", 1.0)),
    ]  # fmt: skip
    p.x_spec = leaf[rng.integers(len(leaf))]
    p.y_spec = ("rbf", 0.5)
    p.lam = p.lam_prime = float(10 ** rng.uniform(-4, -1))
    _pairs(p, rng, n, 1.0)


def gross_failures(p, rng, n):
    """Draw sharp, right predictions in bulk, gross failures in isolated rows, a loose tolerance."""
    d = int(rng.choice([1, 2, 2, 2]))
    gamma = float(10 ** rng.uniform(-0.6, 0.3))
    p.x = rng.uniform(-1, 1, (n, d)) * 10 ** rng.uniform(1.0, 2)
    p.rare = tuple(rng.choice(n, int(rng.integers(1, min(6, n))), replace=False))
    _isolate(rng, p.x, p.rare, 200.0)
    y = 0.1 * p.x[:, :1] / np.abs(p.x).max()
    mean, std = y.copy(), np.full_like(y, 10 ** rng.uniform(-2, -1))
    mean[list(p.rare)] += rng.uniform(1, 4)
    p.y = y + (std * rng.normal(size=y.shape) if rng.random() < 0.3 else 0)
    p.x_spec, p.y_spec = ("rbf", gamma), ("rbf", 0.5)
    p.lam = p.lam_prime = float(10 ** rng.uniform(-2, 0))
    one = np.ones(n, dtype=LD)
    p.prediction, p.label = fm.Gaussian(mean[:, 0], std[:, 0]), "Gaussian"
    p.model = Measure(n, gaussians=[(np.arange(n), mean, std, one)])
    p.options = {"tol": float(10 ** rng.uniform(-3, -1.5))}
    solver = str(rng.choice(["lowrank", "lowrank", "nystrom", "cg", "auto"]))
    if solver != "auto":
        p.options["solver"] = solver
    if solver == "cg" and rng.random() < 0.5:
        p.options["certificate"] = "sampled"
    if rng.random() < 0.3:
        p.weights = np.ones(n)
        p.weights[list(p.rare)] = 10 ** rng.uniform(0, 6)


def no_kernel(p, rng, n):
    """Use a function that is not symmetric, or not positive semi-definite."""
    p.x = rng.normal(size=(n, 2))
    p.rare = (0,)
    p.x_spec, p.y_spec = ("rbf", 0.5), ("rbf", 0.5)
    p.lam = p.lam_prime = float(10 ** rng.uniform(-4, -1))
    _pairs(p, rng, n, 1.0)
    p.hostile = str(rng.choice(["lopsided", "indefinite"]))
    p.tame = False


def _pairs(p, rng, n, scale, wrong=()):
    """Draw one number for each outcome; those of some rows are wrong alike."""
    y = scale * rng.normal(size=(n, 1))
    draws = y + 10 ** rng.uniform(-2, 0.5) * scale * rng.normal(size=(n, 1))
    draws[list(wrong)] += 2
    p.y, p.prediction, p.label = y, draws, "Draws(1)"
    p.model = families.of_draws(draws[:, None, :])


PATTERNS = {
    "wrong rows": wrong_rows,
    "wide row": wide_row,
    "near-duplicates": near_duplicates,
    "underflow": underflow,
    "gross failures": gross_failures,
    "no kernel": no_kernel,
}
