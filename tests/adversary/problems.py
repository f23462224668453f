"""Random problems: kernels, inputs, outputs, predictions, options; each from its seed alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import families
import numpy as np
import patterns
from formulas import CUSTOM, flatten, matrix
from measures import LD, Measure

import fastmcmd as fm


@dataclass
class Problem:
    """One call, and what the reference needs to know about it."""

    seed: int
    function: str
    x: Any = None
    y: Any = None
    prediction: Any = None
    x_prime: Any = None
    y_prime: Any = None
    grid: Any = None
    at_x: bool = False
    x_spec: tuple = ()
    y_spec: tuple = ()
    lam: float = 0.1
    lam_prime: float = 0.1
    weights: Any = None
    weights_prime: Any = None
    draws: int | None = None
    options: dict = field(default_factory=dict)
    threads: int = 1
    nature: Measure | None = None
    model: Measure | None = None
    columns: int = 1
    rare: tuple = ()
    label: str = ""
    tame: bool = True
    hostile: str = ""
    x_kernel: Any = None
    y_kernel: Any = None

    def describe(self):
        """Return the problem in one line."""
        parts = [
            f"{self.function}(n={len(self.x)}"
            + (f", m={len(self.x_prime)}" if self.function == "mcmd" else ""),
            f"d={self.x.shape[1]}", f"k={self.columns}", self.label,
            f"x_kernel={self.x_kernel!r}", f"y_kernel={self.y_kernel!r}", f"lam={self.lam:.3g}",
        ]  # fmt: skip
        if self.lam_prime != self.lam:
            parts.append(f"lam_prime={self.lam_prime:.3g}")
        if self.weights is not None:
            parts.append(f"weights in [{self.weights.min():.1e}, {self.weights.max():.1e}]")
        if self.draws:
            parts.append(f"draws={self.draws}")
        parts += [f"{key}={value!r}" for key, value in self.options.items()]
        if self.threads != 1:
            parts.append(f"threads={self.threads}")
        parts.append(f"rare={list(map(int, self.rare))}")
        parts.append(f"|x| in [{np.abs(self.x).min():.1e}, {np.abs(self.x).max():.1e}]")
        return ", ".join(map(str, parts)) + ")"


def build(spec):
    """Return fastmcmd's kernel of a tuple."""
    kind = spec[0]
    if kind == "sum":
        return build(spec[1]) + build(spec[2])
    if kind == "product":
        return build(spec[1]) * build(spec[2])
    return {
        "rbf": lambda: fm.RBF(spec[1]),
        "laplacian": lambda: fm.Laplacian(spec[1]),
        "matern": lambda: fm.Matern(spec[1], spec[2]),
        "delta": fm.Delta,
        "linear": fm.Linear,
        "polynomial": lambda: fm.Polynomial(spec[1], spec[2], spec[3]),
        "cosine": fm.Cosine,
        "constant": lambda: fm.Constant(spec[1]),
        "custom": lambda: fm.CustomKernel(CUSTOM[spec[1]]),
    }[kind]()


def resolved(spec, data):
    """Return the tuple with rules for gamma replaced by the numbers that they mean (long double inside)."""
    kind = spec[0]
    if kind in ("sum", "product"):
        return (kind, resolved(spec[1], data), resolved(spec[2], data))
    place = {"rbf": 1, "laplacian": 1, "polynomial": 2}.get(kind)
    if place is None or isinstance(spec[place], float):
        return spec
    rule = spec[place]
    if rule is None:
        value = LD(1) / data.shape[1]
    elif rule == "variance":
        exact = data.astype(LD) - data[0].astype(LD)  # possibly small beside the mean
        value = 1 / (2 * exact.var(axis=0, ddof=1).sum())
    else:
        some = np.unique(np.linspace(0, len(data) - 1, min(len(data), 1000)).astype(int))
        exact = data[some].astype(LD)
        gaps = np.abs(exact[:, None, :] - exact[None, :, :])[np.triu_indices(len(some), 1)]
        if kind == "laplacian":
            value = 1 / np.median(gaps.sum(axis=1))
        else:
            value = 1 / (2 * np.median(np.sqrt((gaps * gaps).sum(axis=1))) ** 2)
    value = float(value)
    if not (0 < value < np.inf):
        raise ValueError("the rule gives no number")
    return (*spec[:place], value, *spec[place + 1 :])


def same_parameters(kernel, spec):
    """Check that fastmcmd resolved a rule to the same number, and adopt its last digits."""
    kind = spec[0]
    if kind in ("sum", "product"):
        return (kind, same_parameters(kernel.left, spec[1]), same_parameters(kernel.right, spec[2]))
    if kind in ("rbf", "laplacian", "polynomial"):
        place = 2 if kind == "polynomial" else 1
        theirs = float(kernel.gamma)
        if abs(theirs - spec[place]) > 1e-11 * spec[place]:
            raise AssertionError(f"gamma is {theirs!r}, by definition {spec[place]!r}")
        return (*spec[:place], theirs, *spec[place + 1 :])
    return spec


def _leaf(rng, scale, columns, role, n):
    kinds = [
        "rbf",
        "laplacian",
        "matern",
        "linear",
        "polynomial",
        "cosine",
        "delta",
        "constant",
        "custom",
    ]
    odds = (
        [0.42, 0.12, 0.14, 0.05, 0.11, 0.05, 0.04, 0.02, 0.05]
        if role == "x"
        else [0.50, 0.11, 0.11, 0.06, 0.08, 0.04, 0.05, 0.02, 0.03]
    )
    kind = str(rng.choice(kinds, p=odds))
    if kind == "custom" and (n > 300 or rng.random() < 0.7):
        kind = "rbf"
    reach = scale * np.sqrt(columns) * 10 ** rng.uniform(-1.3, 1.0)
    if rng.random() < 0.04:
        reach *= 10 ** rng.uniform(-12, 12)
    rule = rng.random()
    if kind == "rbf":
        return ("rbf", "variance") if rule < 0.15 else ("rbf", "median") if rule < 0.25 else (
            "rbf", _positive(0.5, reach, 2))  # fmt: skip
    if kind == "laplacian":
        return ("laplacian", "median" if rule < 0.15 else _positive(1, reach, 1))
    if kind == "matern":
        return ("matern", float(rng.choice([0.5, 1.5, 2.5])), _positive(1, reach, -1))
    if kind == "polynomial":
        gamma = None if rule < 0.4 else "variance" if rule < 0.5 else _positive(1, reach, 2)
        return ("polynomial", int(rng.integers(1, 4)), gamma, float(rng.choice([0, 1, 0.3])))
    if kind == "constant":
        return ("constant", float(10 ** rng.uniform(-3, 1)))
    if kind == "custom":
        return ("custom", str(rng.choice(["overlap", "cauchy"])))
    return (kind,)


def _positive(number, reach, power):
    """Return ``number / reach^power``, in the range of a double."""
    return float(10.0 ** np.clip(np.log10(number) - power * np.log10(reach), -300, 300))


def kernel_spec(rng, scale, columns, role, n):
    first = _leaf(rng, scale, columns, role, n)
    kind = rng.random()
    if kind < 0.75:
        return first
    second = _leaf(rng, scale, columns, role, n)
    if first[0] == "custom" and second[0] == "custom":
        return first
    if kind < 0.88:
        if rng.random() < 0.5:
            first = ("product", first, ("constant", float(10 ** rng.uniform(-2, 2))))
        return ("sum", first, second)
    if kind < 0.97:
        return ("product", first, second)
    return ("sum", first, ("product", second, _leaf(rng, scale, columns, role, n)))


def _size(rng):
    if rng.random() < 0.015:
        return int(np.exp(rng.uniform(np.log(2000), np.log(5000))))
    n = int(np.exp(rng.uniform(np.log(20), np.log(2000))))
    return n if rng.random() > 0.03 else int(rng.integers(1, 20))


def _inputs(rng, n, d, scale):
    """Return inputs (n, d) and rare rows."""
    kind = rng.integers(6)
    if kind == 0:
        x = rng.uniform(-2, 2, (n, d))
    elif kind == 1:
        x = rng.integers(-3, 4, (n, d)).astype(float)
    elif kind == 2:
        x = rng.normal(size=(max(1, n // 10), d))[rng.integers(max(1, n // 10), size=n)]
        x = x + 10 ** rng.uniform(-12, -2) * rng.normal(size=(n, d))
    elif kind == 3 and d == 1:
        x = np.linspace(-2, 2, n)[:, None].copy()
    else:
        x = rng.normal(size=(n, d))
    if rng.random() < 0.25:  # duplicates
        some = rng.random(n) < rng.uniform(0, 0.5)
        x[some] = x[rng.integers(n, size=int(some.sum()))]
    if rng.random() < 0.15:  # near-duplicates
        some = np.flatnonzero(rng.random(n) < 0.2)
        x[some] = x[rng.integers(n, size=len(some))] * (1 + 10 ** rng.uniform(-16, -6))
    rare = np.array([], dtype=int)
    if rng.random() < 0.6 and n > 3:
        rare = rng.choice(n, int(rng.integers(1, 4)), replace=False)
        if rng.random() < 0.6:
            for row in rare:
                x[row] = rng.normal(size=d) * 10 ** rng.uniform(0.5, 3)
    if rng.random() < 0.06:
        x += 10 ** rng.uniform(2, 5)
    return x * scale, rare


def _weights(rng, n):
    kind = rng.random()
    if kind < 0.65:
        return None
    if kind < 0.75:
        w = rng.integers(0, 5, n).astype(float)
    elif kind < 0.85:
        w = np.exp(rng.normal(size=n))
    elif kind < 0.95:
        w = 10 ** rng.uniform(-6, 6, n)
    else:
        w = np.ones(n)
        w[rng.integers(n)] = 10 ** rng.uniform(3, 6)
    if rng.random() < 0.2:
        w = w * 10 ** rng.uniform(-100, 100)
    if not (w > 0).any():
        w[0] = 1.0
    return w


def _grid(rng, x, rare):
    q = int(rng.integers(1, 13))
    d = x.shape[1]
    scale = np.median(np.abs(x)) or 1.0
    rows = []
    for _ in range(q):
        kind = rng.random()
        if kind < 0.4:
            rows.append(x[rng.integers(len(x))])
        elif kind < 0.6 and len(rare):
            rows.append(x[rng.choice(rare)])
        elif kind < 0.9:
            rows.append(scale * rng.normal(size=d) * 1.5)
        else:
            rows.append(scale * rng.normal(size=d) * 10 ** rng.uniform(0, 6))
    return np.array(rows)


def _options(rng, n):
    o = {}
    solver = str(
        rng.choice(
            ["auto", "cholesky", "cg", "lowrank", "nystrom"], p=[0.5, 0.12, 0.14, 0.14, 0.10]
        )
    )
    if solver != "auto":
        o["solver"] = solver
    if solver in ("lowrank", "nystrom") and rng.random() < 0.4:
        o["rank"] = int(rng.integers(1, max(2, n)))
    if solver == "lowrank" and rng.random() < 0.2:
        o["landmarks"] = "uniform"
    if rng.random() < 0.35:
        o["certificate"] = str(rng.choice(["rigorous", "sampled"]))
    if rng.random() < 0.35:
        o["dtype"] = str(rng.choice(["float32", "float64"]))
    if rng.random() < 0.12:
        o["memory_limit"] = str(rng.choice(["1kB", "300kB", "2MB", "10MB", "50MB"]))
    if rng.random() < 0.4:
        o["tol"] = float(10 ** rng.uniform(-12, -1))
    if rng.random() < 0.08 and n <= 1000:
        o["backend"] = str(rng.choice(["numpy", "numba", "cpu"]))
    return o


def draw(seed, size=None, pattern=None):
    """Return the problem of a seed, from the pattern of that name (see `patterns`) if one is given."""
    name, stream = patterns.choose(seed, pattern)
    if name is not None:
        p = Problem(seed, "cce")
        patterns.fill(p, name, stream, size)
        p.x_kernel, p.y_kernel = build(p.x_spec), build(p.y_spec)
        if p.hostile:
            kernel = fm.CustomKernel(CUSTOM[p.hostile])
            if stream.random() < 0.5:
                p.x_kernel = kernel
            else:
                p.y_kernel = kernel
        return p
    rng = np.random.default_rng([20261122, seed])
    p = Problem(seed, str(rng.choice(["cce", "mcmd", "estimator"], p=[0.6, 0.25, 0.15])))
    n = _size(rng)
    if size is not None:
        n = min(n, size)
    d = int(rng.choice([1, 1, 1, 2, 2, 3, 5, 8, 20, 40]))
    if n > 600:
        d = min(d, 5)
    p.columns = int(rng.choice([1, 1, 1, 1, 2, 3]))
    wild_x, wild_y = rng.random() < 0.07, rng.random() < 0.05
    x_scale = (
        10 ** rng.uniform(-200, 200)
        if wild_x
        else 10 ** rng.uniform(-3, 3)
        if rng.random() < 0.3
        else 1.0
    )
    y_scale = (
        10 ** rng.uniform(-200, 200)
        if wild_y
        else 10 ** rng.uniform(-3, 3)
        if rng.random() < 0.3
        else 1.0
    )
    p.x, rare = _inputs(rng, n, d, x_scale)
    if rng.random() < 0.05 and not wild_x:
        p.x = p.x.astype(np.float32)
    if len(rare) == 0 and rng.random() < 0.5 and n > 3:
        rare = rng.choice(n, 1)
    p.rare = tuple(rare)
    p.x_spec = kernel_spec(rng, x_scale, d, "x", n)
    default_x = rng.random() < 0.08
    if default_x:
        p.x_spec = ("polynomial", 3, None, 1.0)
    p.lam = float(10 ** rng.uniform(-8, 2)) if rng.random() < 0.7 else 0.1
    p.weights = _weights(rng, n)
    p.options = _options(rng, n)
    if p.options.get("solver") == "cg":
        p.lam = max(p.lam, 1e-9 * n)  # thousands of iterations are valid, but take minutes
    p.lam_prime = p.lam
    p.threads = int(rng.choice([1, 1, 1, 1, 2, 3]))
    _outputs(rng, p, n, y_scale, rare)
    leaves = flatten(p.x_spec) + flatten(p.y_spec)
    if p.options.get("backend") == "cpu" and any(leaf[0] == "custom" for leaf in leaves):
        del p.options["backend"]
    p.x_kernel = None if default_x else build(p.x_spec)
    p.at_x = bool(rng.random() < 0.5)
    p.grid = p.x if p.at_x else _grid(rng, p.x, rare).astype(p.x.dtype)
    p.hostile = _hostile(rng, p) if n <= 400 else ""
    p.tame = (
        not (wild_x or wild_y or p.hostile)
        and "memory_limit" not in p.options
        and (p.options.get("dtype") != "float32")
    )
    return p


def _hostile(rng, p):
    """Put a function that is no kernel in a few problems; return its name."""
    if rng.random() > 0.01:
        return ""
    name = str(rng.choice(["lopsided", "indefinite"]))
    if rng.random() < 0.5:
        p.x_kernel = fm.CustomKernel(CUSTOM[name])
    else:
        p.y_kernel = fm.CustomKernel(CUSTOM[name])
    return name


def _outputs(rng, p, n, scale, rare):
    k = p.columns
    if p.function == "mcmd":
        outputs = families.make(rng, "Draws", n, k, ("linear",), rare, scale, None)
        p.y = outputs.y
        same = rng.random() < 0.3
        m = n if same else int(min(_size(rng), 1500)) if n < 1500 else n // 2
        p.x_prime = (
            p.x
            if same
            else _inputs(rng, m, p.x.shape[1], np.abs(p.x).mean() or 1.0)[0].astype(p.x.dtype)
        )
        p.y_prime = scale * rng.normal(size=(m, k)) * 10 ** rng.uniform(-1, 1)
        if rng.random() < 0.5:
            p.y_prime[rng.integers(m)] *= 10 ** rng.uniform(0, 3)
        if rng.random() < 0.5:
            p.lam_prime = float(10 ** rng.uniform(-8, 2))
        p.weights_prime = p.weights if same and rng.random() < 0.5 else _weights(rng, m)
        p.model = families.of_draws(p.y_prime[:, None, :])
        p.y_spec = kernel_spec(rng, scale, k, "y", n)
        p.label = "draws"
    else:
        p.draws = int(rng.integers(1, 4)) if rng.random() < 0.2 else None
        numbers = (*families.CONTINUOUS, *families.COUNTS, "Draws", "Gaussian", "Gaussian")
        names = families.VECTORS if k > 1 else numbers
        family = str(rng.choice(names))
        if family in families.COUNTS or family == "Beta":
            scale = 1.0
        size = {"Poisson": 5.0}.get(family, scale) if family not in families.COUNTS else 4.0
        for _ in range(50):
            p.y_spec = kernel_spec(rng, size, k, "y", n)
            if p.draws or families.can_integrate(family, p.y_spec, k):
                break
        outputs = families.make(rng, family, n, k, p.y_spec, rare, scale, p.draws)
        p.prediction, p.y, p.model, p.label = (
            outputs.prediction,
            outputs.y,
            outputs.measure,
            outputs.label,
        )
        p.x_prime, p.weights_prime = p.x, p.weights
    p.y = np.asarray(p.y, dtype=float).reshape(n, k)
    default_y = rng.random() < 0.08
    if default_y:
        p.y_spec = ("rbf", "variance")
    p.y_kernel = None if default_y else build(p.y_spec)
    p.nature = families.of_draws(p.y[:, None, :])


def settle(p):
    """Resolve data-dependent kernels in both worlds; draw what the call will draw."""
    p.x_spec = same_parameters(build(p.x_spec).resolve(p.x), resolved(p.x_spec, p.x))
    p.y_spec = same_parameters(build(p.y_spec).resolve(p.y), resolved(p.y_spec, p.y))
    if p.draws:
        predictive = fm.predictive.as_predictive(p.prediction, len(p.x), p.columns)
        draws = predictive.sample(p.draws, np.random.default_rng(p.seed))
        p.model = families.of_draws(np.asarray(draws, dtype=float).reshape(len(p.x), -1, p.columns))


def largest_value(spec, rows):
    """Return the largest kernel value of some rows."""
    return float(np.max(np.diag(matrix(spec, rows[:50], rows[:50], LD))))
