"""How well kernels rank four models and find a wrong one, over twenty kinds of problem, by simulation.

    python tests/simulations/default_kernels.py ranking --repeats 30 --output ranking.json
    python tests/simulations/default_kernels.py power --repeats 30 --output power.json
    python tests/simulations/default_kernels.py cce --repeats 200 --output cce.json
    python tests/simulations/default_kernels.py --table ranking.json power.json cce.json

But in "cce", everything about the CCE is its plain definition in NumPy, only the scales are those of
`fastmcmd.default_kernels`. The tables in docs/decisions/default_kernels.md were made by the commands above.

*Ranking*: four models, the right one, its spread times 1.3, the marginal distribution of the outcomes, and
the right one with its means mirrored at their average; a candidate is right where mean CCE has this order.
*cce*: the ranking by `fastmcmd.cce` itself, with its defaults and with the published kernels; a refusal
counts as a wrong ranking.
*Power*: share of samples in which the exact Monte-Carlo test at 5 % on mean squared CCE (99 simulated
data sets) finds a model wrong.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
from scipy.spatial.distance import pdist, squareform
from scipy.stats import nbinom, norm, poisson
from scipy.stats import t as student

import fastmcmd as fm
from fastmcmd import default_kernels as defaults

Array = np.ndarray
ATOMS = 41  # quantiles that represent a predicted distribution that is not Gaussian
ORDER = ("right", "std x 1.3", "marginal", "mirrored")


# ---- predictions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """Predicted distributions: Gaussians, or equally likely values (n, L) of each row."""

    mean: Array | None = None
    std: Array | None = None
    atoms: Array | None = None

    def sample(self, rng) -> Array:
        if self.atoms is None:
            return self.mean + self.std * rng.normal(size=len(self.mean))
        pick = rng.integers(0, self.atoms.shape[1], len(self.atoms))
        return np.take_along_axis(self.atoms, pick[:, None], 1)[:, 0]

    def prediction(self) -> fm.Predictive:
        if self.atoms is None:
            return fm.Gaussian(self.mean, self.std)
        return fm.Draws(np.broadcast_to(self.atoms, (len(self.atoms), self.atoms.shape[1])))

    def changed_by(self, shift, factor) -> Model:
        if self.atoms is None:
            return Model(self.mean + shift, self.std * factor)
        mean = self.atoms.mean(axis=1, keepdims=True)
        return Model(atoms=mean + np.reshape(shift, (-1, 1)) + factor * (self.atoms - mean))


def gaussian(mean, std) -> Model:
    return Model(mean, np.broadcast_to(np.asarray(std, float), mean.shape).copy())


def quantiles(inverse: Callable[[Array], Array]) -> Model:
    level = (np.arange(ATOMS) + 0.5) / ATOMS
    return Model(atoms=inverse(level[None, :]))


# ---- problems -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Inputs, outcomes and the four models."""

    x: Array
    y: Array
    models: dict[str, Model]


def case(x, y, right: Model, wide: Model, mirrored: Model, pool: Array) -> Case:
    level = (np.arange(ATOMS) + 0.5) / ATOMS
    marginal = Model(atoms=np.tile(np.quantile(pool, level), (len(y), 1)))
    names = dict(zip(ORDER, (right, wide, marginal, mirrored), strict=True))
    return Case(x if x.ndim == 2 else x[:, None], y, names)


def of_mean(
    mean: Callable, std: Callable, draw_x: Callable, noise: Callable | None = None
) -> Callable:
    """Return a problem ``y = mean(x) + std(x) e``, e standard normal or of ``noise(level)``."""

    def make(rng, n):
        x = draw_x(rng, n)
        far = draw_x(rng, 4 * n)
        pool = mean(far) + std(far) * _errors(rng, 4 * n, noise)
        m, s = mean(x), np.broadcast_to(std(x), (n,)).astype(float)
        y = m + s * _errors(rng, n, noise)
        opposite = 2 * mean(far).mean() - m
        if noise is None:
            right, wide, mirrored = gaussian(m, s), gaussian(m, 1.3 * s), gaussian(opposite, s)
        else:
            right = quantiles(lambda u: m[:, None] + s[:, None] * noise(u))
            wide = quantiles(lambda u: m[:, None] + 1.3 * s[:, None] * noise(u))
            mirrored = quantiles(lambda u: opposite[:, None] + s[:, None] * noise(u))
        return case(x, y, right, wide, mirrored, pool)

    return make


def _errors(rng, n, noise) -> Array:
    return rng.normal(size=n) if noise is None else noise(rng.uniform(1e-9, 1 - 1e-9, n))


def counts(
    rate: Callable, draw_x: Callable, dispersion: float = 0.0, zeros: float = 0.0
) -> Callable:
    """Return counts of this rate; the model that is too wide has 1.69 times their variance."""

    def inverse(mean, extra):
        def of_level(u):
            base = np.maximum(u - zeros, 0) / (1 - zeros)
            if extra > 0:
                size = mean / extra
                return np.where(u < zeros, 0, nbinom.ppf(base, size, 1 / (1 + extra)))
            return np.where(u < zeros, 0, poisson.ppf(base, mean))

        return of_level

    def make(rng, n):
        x, far = draw_x(rng, n), draw_x(rng, 4 * n)
        mean, typical = rate(x), rate(far)
        pool = inverse(typical, dispersion)(rng.uniform(size=4 * n))
        y = inverse(mean, dispersion)(rng.uniform(size=n))
        swapped = np.exp(2 * np.log(typical).mean() - np.log(mean))[:, None]
        more = 1.69 * (1 + dispersion) - 1
        right = quantiles(inverse(mean[:, None], dispersion))
        wide = quantiles(inverse(mean[:, None], more))
        return case(x, y, right, wide, quantiles(inverse(swapped, dispersion)), pool)

    return make


def classes(logit: Callable, draw_x: Callable) -> Callable:
    """Return outcomes 0 and 1; "too wide" are logits divided by 1.6."""

    def make(rng, n):
        x, far = draw_x(rng, n), draw_x(rng, 4 * n)
        share = [1 / (1 + np.exp(-logit(x) * f)) for f in (1.0, 1 / 1.6, -1.0)]
        y = (rng.uniform(size=n) < share[0]).astype(float)
        pool = (rng.uniform(size=4 * n) < 1 / (1 + np.exp(-logit(far)))).astype(float)
        models = [quantiles(lambda u, p=p: (u > 1 - p[:, None]).astype(float)) for p in share]
        return case(x, y, *models, pool)

    return make


def two_peaks(rng, n):
    x, far = rng.uniform(-2, 2, n), rng.uniform(-2, 2, 4 * n)
    level = (np.arange(ATOMS) + 0.5) / ATOMS

    def inverse(x, gap, width):
        def of_level(u):
            high = u > 0.5
            inner = np.where(high, 2 * u - 1, 2 * u)
            return x + np.where(high, gap, -gap) + width * norm.ppf(np.clip(inner, 1e-6, 1 - 1e-6))

        return of_level

    y = inverse(x, 1.0, 0.3)(rng.uniform(size=n))
    pool = inverse(far, 1.0, 0.3)(rng.uniform(size=4 * n))
    del level
    column = x[:, None]
    models = [
        quantiles(inverse(c, g, w))
        for c, g, w in ((column, 1, 0.3), (column, 1.3, 0.39), (-column, 1, 0.3))
    ]
    return case(x, y, *models, pool)


def normal(d: int, scales=1.0) -> Callable:
    return lambda rng, n: rng.normal(size=(n, d)) * scales


def uniform(rng, n):
    return rng.uniform(-2, 2, (n, 1))


def lognormal(d: int) -> Callable:
    return lambda rng, n: np.exp(1.5 * rng.normal(size=(n, d)))


def mixed(rng, n):
    return np.column_stack(
        [rng.normal(size=(n, 2)), np.eye(4)[rng.integers(0, 4, n)], rng.uniform(size=(n, 2)) < 0.1]
    )


def embedding(d: int, common: float) -> Callable:
    """Return unit rows: five latent numbers through a fixed map, noise, and a common direction."""
    fixed = np.random.default_rng(11)
    into, mean = fixed.normal(size=(5, d)) / np.sqrt(d), fixed.normal(size=d)
    mean *= common / np.linalg.norm(mean)

    def draw(rng, n):
        rows = (
            rng.normal(size=(n, 5)) @ into / np.sqrt(5)
            + 0.3 * rng.normal(size=(n, d)) / np.sqrt(d)
            + mean
        )
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    return draw


def direction(d: int, draw: Callable) -> Callable:
    """Return a function of embeddings: their position along a latent direction, standardised, bent."""
    into = np.random.default_rng(11).normal(size=(5, d)) / np.sqrt(d)
    far = draw(np.random.default_rng(12), 4_000) @ into[0]
    return lambda x: 1.5 * np.tanh((x @ into[0] - far.mean()) / far.std())


def correlated(d: int) -> Callable:
    into = np.random.default_rng(13).normal(size=(5, d))
    return lambda rng, n: rng.normal(size=(n, 5)) @ into + 0.5 * rng.normal(size=(n, d))


def tabular(x):
    return np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] + 0.4 * x[:, 2] * x[:, 3]


UNITS = 10.0 ** np.array([3, -2, 4, 0, -4, 1, 2, -1])
unit_rows, close_rows = embedding(64, 0.3), embedding(64, 2.0)
half = lambda x: np.full(len(x), 0.5)  # noqa: E731

PROBLEMS: dict[str, Callable] = {
    "line, d = 1": of_mean(lambda x: x[:, 0], lambda x: np.full(len(x), 0.4), uniform),
    "spread varies, d = 1": of_mean(
        lambda x: np.sin(2 * x[:, 0]), lambda x: 0.2 + 0.15 * np.abs(x[:, 0]), uniform
    ),
    "tabular, d = 4": of_mean(tabular, half, normal(4)),
    "tabular, d = 8": of_mean(tabular, half, normal(8)),
    "unscaled columns, d = 8": of_mean(lambda x: tabular(x / UNITS), half, normal(8, UNITS)),
    "noise columns, d = 16": of_mean(
        lambda x: np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1], half, normal(16)
    ),
    "correlated columns, d = 64": of_mean(
        lambda x: np.tanh(x[:, :8].mean(axis=1)) + 0.5 * np.tanh(x[:, 8:16].mean(axis=1)),
        half,
        correlated(64),
    ),
    "one-hot and numbers, d = 8": of_mean(
        lambda x: x[:, 0] + x[:, 2] - x[:, 3] + x[:, 6], half, mixed
    ),
    "lognormal columns, d = 4": of_mean(
        lambda x: np.sin(np.log(x[:, 0])) + 0.5 * np.log(x[:, 1]), half, lognormal(4)
    ),
    "Poisson, d = 3": counts(
        lambda x: np.exp(1.2 + 0.5 * x[:, 0] + 0.3 * np.sin(2 * x[:, 1])), normal(3)
    ),
    "few counts, d = 3": counts(lambda x: np.exp(-0.5 + 0.6 * x[:, 0] + 0.4 * x[:, 1]), normal(3)),
    "negative binomial, d = 3": counts(
        lambda x: np.exp(2 + 0.6 * x[:, 0] + 0.3 * x[:, 1]), normal(3), 2.0
    ),
    "many zeros, d = 3": counts(
        lambda x: np.exp(1.5 + 0.6 * x[:, 0] + 0.3 * x[:, 1]), normal(3), 0.0, 0.5
    ),
    "heavy tails (t, 2.5), d = 2": of_mean(
        lambda x: x[:, 0] + np.sin(2 * x[:, 1]), half, normal(2), lambda u: student.ppf(u, 2.5)
    ),
    "skewed (lognormal), d = 2": of_mean(
        lambda x: x[:, 0] + np.sin(2 * x[:, 1]),
        half,
        normal(2),
        lambda u: np.exp(norm.ppf(u)) - 1.6,
    ),
    "unit embeddings, d = 64": of_mean(direction(64, unit_rows), half, unit_rows),
    "close embeddings, d = 64": of_mean(direction(64, close_rows), half, close_rows),
    "y = 100 x + e": of_mean(lambda x: 100 * x[:, 0], lambda x: np.ones(len(x)), uniform),
    "two peaks": two_peaks,
    "wiggle": of_mean(
        lambda x: x[:, 0] + 0.3 * np.sin(6 * x[:, 0]), lambda x: np.full(len(x), 0.2), uniform
    ),
    "two classes, d = 4": classes(lambda x: 2 * x[:, 0] + np.sin(2 * x[:, 1]), normal(4)),
}


# ---- candidates -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """An input kernel by name, an output kernel by name, a regulariser; None is chosen by leave-one-out."""

    inputs: str
    outputs: str
    lam: float | None


BASE = Candidate("three", "both", 0.01)
CANDIDATES = {
    "paper": Candidate("polynomial", "variance", 0.1),
    "8.9": BASE,
    "lam .003": replace(BASE, lam=0.003),
    "lam .03": replace(BASE, lam=0.03),
    "lam by loo": replace(BASE, lam=None),
    "robust columns": replace(BASE, inputs="robust"),
    "one scale": replace(BASE, inputs="one scale"),
    "2l, l, l/2": replace(BASE, inputs="wider"),
    "one RBF": replace(BASE, inputs="one"),
    "three + linear": replace(BASE, inputs="linear"),
    "y: marginal": replace(BASE, outputs="marginal"),
    "y: residual": replace(BASE, outputs="residual"),
    "y: clip 30": replace(BASE, outputs="clip 30"),
    "y: three": replace(BASE, outputs="three"),
}


def input_kernel(name: str, x: Array) -> Array:
    """Return the kernel matrix (n, n)."""
    if name == "polynomial":
        return (x @ x.T / x.shape[1] + 1) ** 3
    if name == "robust":
        low, high = np.quantile(x, [0.25, 0.75], axis=0)
        z = x / np.where(high > low, (high - low) / 1.349, x.std(axis=0))
    elif name == "one scale":
        z = x
    else:
        z = x * defaults.column_scales(x)
    r = squareform(pdist(z))
    r /= np.median(r[np.triu_indices(len(r), 1)])
    parts = {"wider": (0.5, 1, 2), "one": (1,)}.get(name, (1, 2, 4))
    matrix = np.mean([np.exp(-0.5 * (r * part) ** 2) for part in parts], axis=0)
    if name == "linear":
        z = z - z.mean(axis=0)
        matrix = 0.75 * matrix + 0.25 * (z @ z.T) / z.shape[1]
    return matrix


def spreads(name: str, y: Array, marginal: float, residual: float) -> tuple[float, ...]:
    """Return the widths of the RBFs whose mean is the output kernel."""
    match name:
        case "variance":
            return (float(y.std(ddof=1)),)
        case "marginal":
            return (marginal,)
        case "residual":
            return (residual,)
        case "clip 30":
            return (marginal, max(residual, marginal / 30))
        case "three":
            return (marginal, np.sqrt(marginal * residual), residual)
    return (marginal, residual)


def lattice(width: float, values: Array) -> tuple[float, Array]:
    """Return g and the points of the lattice whose features reproduce the RBF of this width."""
    g = 0.5 / width**2
    step = 0.274 / np.sqrt(g)
    low, high = values.min() - 4 * width, values.max() + 4 * width
    return g, step * np.arange(np.floor(low / step), np.ceil(high / step) + 1)


def lattice_features(g: float, points: Array, y: Array) -> Array:
    size = np.sqrt(0.274 * np.sqrt(4 / np.pi))
    return size * np.exp(-2 * g * np.square(np.subtract.outer(y, points)))


def expected_features(g: float, points: Array, model: Model) -> Array:
    if model.atoms is None:
        size = np.sqrt(0.274 * np.sqrt(4 / np.pi))
        spread = 1 + 4 * g * model.std[:, None] ** 2
        return (
            size
            / np.sqrt(spread)
            * np.exp(-2 * g * np.square(np.subtract.outer(model.mean, points)) / spread)
        )
    total = np.zeros((len(model.atoms), len(points)))
    same = (model.atoms == model.atoms[0]).all()
    for atom in (model.atoms[:1] if same else model.atoms).T:
        total += lattice_features(g, points, atom)
    return total / model.atoms.shape[1]


# ---- the study ------------------------------------------------------------------------------------


class Setting:
    """Values shared by candidates on one data set: spectra of input kernels, features of output kernels."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.kernels = defaults.default_kernels_of(case.x, case.y)
        self._spectra: dict[str, tuple[Array, Array]] = {}
        self._features: dict[tuple, Array] = {}

    def spectrum(self, name: str) -> tuple[Array, Array]:
        if name not in self._spectra:
            values, vectors = np.linalg.eigh(input_kernel(name, self.case.x))
            self._spectra[name] = np.maximum(values, 0), vectors
        return self._spectra[name]

    def widths(self, candidate: Candidate) -> tuple[float, ...]:
        return spreads(
            candidate.outputs,
            self.case.y,
            self.kernels.marginal_spread,
            self.kernels.residual_spread,
        )

    def errors(self, widths: tuple[float, ...], name: str, y: Array, model: Model) -> Array:
        """Return ``p(y) - E p(Y)`` (n, r) for the mean of RBFs of these widths."""
        parts = []
        for width in widths:
            key = (width, name)
            if key not in self._features:
                g, points = lattice(width, self.case.y)
                self._features[key] = g, points, expected_features(g, points, model)
            g, points, expected = self._features[key]
            parts.append((lattice_features(g, points, y) - expected) / np.sqrt(len(widths)))
        return np.concatenate(parts, axis=1)

    def lam(self, candidate: Candidate) -> float:
        if candidate.lam is not None:
            return candidate.lam
        values, vectors = self.spectrum(candidate.inputs)
        n, best = len(values), (np.inf, 0.01)
        widths = self.widths(candidate)
        features = np.concatenate(
            [lattice_features(*lattice(width, self.case.y), self.case.y) for width in widths],
            axis=1,
        )
        projected = vectors.T @ features
        for lam in (0.1, 0.03, 0.01, 0.003, 0.001):
            share = values / (values + n * lam)
            left = 1 - (vectors**2) @ share
            loo = np.mean(
                np.sum((features - vectors @ (share[:, None] * projected)) ** 2, axis=1) / left**2
            )
            best = min(best, (loo, lam))
        return best[1]


def ranking(case: Case, names: list[str]) -> dict[str, list[float]]:
    """Return mean CCE of the four models for each candidate."""
    setting, out = Setting(case), {}
    for name in names:
        candidate = CANDIDATES[name]
        values, vectors = setting.spectrum(candidate.inputs)
        share = values / (values + len(values) * setting.lam(candidate))
        widths = setting.widths(candidate)
        out[name] = []
        for model in ORDER:
            errors = setting.errors(widths, model, case.y, case.models[model])
            smooth = vectors @ (share[:, None] * (vectors.T @ errors))
            out[name].append(float(np.mean(np.linalg.norm(smooth, axis=1))))
    return out


def ranking_by_cce(case: Case) -> dict[str, list[float]]:
    """Return mean CCE of the four models by `fastmcmd.cce`, by the name of its kernels."""
    models = {name: case.models[name].prediction() for name in ORDER}
    out = {}
    for name in ("auto", "paper"):
        estimator = fm.ConditionalCongruence(x_kernel=name, y_kernel=name, tol=1e-4)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", fm.ToleranceWarning)
                estimators = estimator.fit_each(case.x, case.y, models)
            out[name] = [one.result_.mean for one in estimators.values()]
        except fm.errors.NumericalError:
            out[name] = [float("nan")] * len(ORDER)
    return out


def power(case: Case, names: list[str], rng, simulations: int = 99) -> dict[str, dict[str, float]]:
    """Return the p-values of alternatives for each candidate."""
    right = case.models["right"]
    bend = 0.3 * np.std(case.y - (right.mean if right.atoms is None else right.atoms.mean(axis=1)))
    first = np.argsort(np.argsort(case.x[:, 0])) / len(case.y)
    alternatives = {
        "right": right,
        "std x 1.3": case.models["std x 1.3"],
        "std x 0.7": right.changed_by(0.0, 0.7),
        "bent": right.changed_by(2 * bend * np.sin(2 * np.pi * first), 1.0),
        "marginal": case.models["marginal"],
    }
    out: dict[str, dict[str, float]] = {name: {} for name in names}
    setting = Setting(case)
    for label, model in alternatives.items():
        samples = [case.y, *(model.sample(rng) for _ in range(simulations))]
        by_widths: dict[tuple, list[str]] = {}
        for name in names:
            by_widths.setdefault(setting.widths(CANDIDATES[name]), []).append(name)
        for widths, group in by_widths.items():
            statistic = np.zeros((len(group), len(samples)))
            energies = []
            for name in group:
                values, vectors = setting.spectrum(CANDIDATES[name].inputs)
                share = values / (values + len(values) * setting.lam(CANDIDATES[name]))
                energies.append((vectors, share**2))
            for b, y in enumerate(samples):
                errors = setting.errors(widths, label, y, model)
                products: dict[int, Array] = {}
                for k, (vectors, energy) in enumerate(energies):
                    if id(vectors) not in products:
                        products[id(vectors)] = np.square(vectors.T @ errors).sum(axis=1)
                    statistic[k, b] = energy @ products[id(vectors)]
            for k, name in enumerate(group):
                out[name][label] = float(np.mean(statistic[k] >= statistic[k, 0]))
    return out


def run(
    study: str, repeats: int, n: int, seed: int, problems: list[str], names: list[str]
) -> list[dict]:
    rows = []
    for label in problems:
        for repeat in range(repeats):
            rng = np.random.default_rng([seed, repeat, crc32(label.encode())])
            case = PROBLEMS[label](rng, n)
            match study:
                case "ranking":
                    values = ranking(case, names)
                case "cce":
                    values = ranking_by_cce(case)
                case _:
                    values = power(case, names, rng)
            rows.append({"study": study, "problem": label, "n": n, "found": values})
        print(label, flush=True)
    return rows


def table(paths: list[Path]) -> str:
    """Return shares: of right rankings, and of rejections at 5 %."""
    rows = [row for path in paths for row in json.loads(path.read_text())]
    lines = []
    for study in ("ranking", "cce", "power"):
        some = [row for row in rows if row["study"] == study]
        if not some:
            continue
        names = list(some[0]["found"])
        lines += [f"{study}, n = {some[0]['n']}", "| problem | " + " | ".join(names) + " |"]
        lines.append("|---" * (len(names) + 1) + "|")
        means: dict[str, list[float]] = {name: [] for name in names}
        for problem in dict.fromkeys(row["problem"] for row in some):
            cells = []
            for name in names:
                values = [row["found"][name] for row in some if row["problem"] == problem]
                if study != "power":
                    cells.append(f"{np.mean([bool((np.diff(v) > 0).all()) for v in values]):.2f}")
                    means[name].append(float(cells[-1]))
                else:
                    shares = [np.mean([p[label] <= 0.05 for p in values]) for label in values[0]]
                    cells.append(" ".join(f"{share:.2f}"[-3:] for share in shares))
                    means[name].append(float(np.mean(shares[1:])))
            lines.append(f"| {problem} | " + " | ".join(cells) + " |")
        lines.append(
            "| mean | " + " | ".join(f"{np.mean(means[name]):.3f}" for name in names) + " |"
        )
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("study", nargs="?", choices=("ranking", "cce", "power"))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES))
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", nargs="+", type=Path)
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    rows = run(
        options.study,
        options.repeats,
        options.n,
        options.seed,
        options.problems,
        options.candidates,
    )
    if options.output:
        options.output.write_text(json.dumps(rows))
    else:
        print(rows)


if __name__ == "__main__":
    main()
