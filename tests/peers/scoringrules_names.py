"""The names of scoringrules, computed by fastmcmd, for scoringrules' own test files.

Arrays of any shape become rows.
Importing this module changes nothing outside it; `run.py` puts it in the place of scoringrules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fastmcmd as fm
from fastmcmd.predictive import as_predictive
from fastmcmd.predictive.clipped import Clipped
from fastmcmd.predictive.end_masses import EndMasses
from fastmcmd.predictive.log_symmetric import LogLaplace, LogLogistic

Array = np.ndarray


class _Rows:
    """Return outcomes (n,) or (n, k) and members (n, m) or (n, m, k), with weights (n, m)."""

    def __init__(
        self, obs: Any, fct: Any, m_axis: int = -1, v_axis: int | None = None,
        ens_w: Any = None, nan_policy: str = "propagate",
    ) -> None:  # fmt: skip
        obs, fct = np.asarray(obs, float), np.asarray(fct, float)
        if v_axis is not None:
            obs = np.moveaxis(obs, v_axis, -1)
            fct = np.moveaxis(fct, (m_axis, v_axis), (-2, -1))
        else:
            fct = np.moveaxis(fct, m_axis, -1)
        vector = 1 if v_axis is not None else 0
        self.shape = obs.shape[: obs.ndim - vector]
        members = fct.shape[fct.ndim - 1 - vector]
        tail = fct.shape[fct.ndim - vector :] if vector else ()
        self.y = obs.reshape(-1, *obs.shape[obs.ndim - vector :])
        self.fct = fct.reshape(-1, members, *tail)
        self.weights: Array | None = None
        if ens_w is not None:
            ens_w = np.asarray(ens_w, float)
            if ens_w.ndim > 1 and not vector:
                ens_w = np.moveaxis(ens_w, m_axis, -1)
            self.weights = np.broadcast_to(ens_w, (*self.shape, members)).reshape(-1, members)
        missing = np.isnan(self.fct).reshape(*self.fct.shape[:2], -1).any(axis=2)
        if self.weights is not None:
            missing = missing | np.isnan(self.weights)
        self.missing = missing
        self.hidden = np.zeros(len(self.fct), bool)
        if missing.any():
            if nan_policy == "raise":
                raise ValueError("NaN members")
            if nan_policy == "propagate":
                self.hidden = missing.any(axis=1)
            if nan_policy == "omit" or self.weights is not None:
                one = np.ones(missing.shape) if self.weights is None else self.weights
                self.weights = np.where(missing, 0.0, one)
                self.weights[self.hidden] = 1.0
            hole = missing.reshape(*missing.shape, *[1] * vector)
            self.fct = np.where(hole, 0.0, self.fct)

    @property
    def prediction(self) -> Any:
        if self.weights is None or self.fct.ndim == 3:
            return fm.Draws(self.fct)
        return fm.WeightedDraws(self.fct, self.weights)

    @property
    def options(self) -> dict[str, Any]:
        """Return the weights of members, for scores of vectors."""
        return {} if self.weights is None or self.fct.ndim == 2 else {"ens_weight": self.weights}

    def back(self, values: Array) -> Any:
        values = np.where(self.hidden, np.nan, values).reshape(self.shape)
        return values if values.ndim else np.float64(values)


def crps_ensemble(
    obs: Any, fct: Any, m_axis: int = -1, *, ens_w: Any = None, estimator: str = "qd",
    sorted_ensemble: bool = False, nan_policy: str = "propagate", backend: Any = None,
) -> Any:  # fmt: skip
    rows = _Rows(obs, fct, m_axis, None, ens_w, nan_policy)
    if nan_policy == "omit" and estimator in ("int", "akr", "akr_circperm") and rows.missing.any():
        raise NotImplementedError("estimators of pairs have no missing members")
    return rows.back(fm.metrics.crps(rows.y, rows.prediction, estimator=estimator))


def _weighted_crps(weighting: str) -> Callable[..., Any]:
    def score(
        obs: Any, fct: Any, a: float = -np.inf, b: float = np.inf, m_axis: int = -1, *,
        ens_w: Any = None, v_func: Any = None, w_func: Any = None, estimator: str = "qd",
        sorted_ensemble: bool = False, nan_policy: str = "propagate", backend: Any = None,
    ) -> Any:  # fmt: skip
        rows = _Rows(obs, fct, m_axis, None, ens_w, nan_policy)
        if weighting == "threshold" and estimator not in ("qd", "nrg", "int"):
            chained = v_func or (lambda x: np.clip(x, a, b))
            rows.y, rows.fct = chained(rows.y), chained(rows.fct)
            return rows.back(fm.metrics.crps(rows.y, rows.prediction, estimator=estimator))
        how = {"weight": w_func, "chaining": v_func}
        options = {name: one for name, one in how.items() if one is not None}
        if not options:
            options = {"lower": a, "upper": b}
        return rows.back(
            fm.metrics.weighted_crps(rows.y, rows.prediction, weighting=weighting, **options)
        )

    return score


twcrps_ensemble = _weighted_crps("threshold")
owcrps_ensemble = _weighted_crps("outcome")
vrcrps_ensemble = _weighted_crps("vertical")


def _vector(score: Callable[..., Array], weighting: str | None = None) -> Callable[..., Any]:
    def result(
        obs: Any, fct: Any, w_func: Any = None, m_axis: int = -2, v_axis: int = -1, *,
        v_func: Any = None, ens_w: Any = None, estimator: str | None = None, w: Any = None,
        p: float | None = None, nan_policy: str = "propagate", backend: Any = None,
    ) -> Any:  # fmt: skip
        if weighting == "threshold":
            v_func, w_func = w_func or v_func, None
        rows = _Rows(obs, fct, m_axis, v_axis, ens_w, nan_policy)
        if w_func is not None:  # theirs takes one vector
            one_vector = w_func
            w_func = lambda vectors: np.apply_along_axis(one_vector, -1, vectors)  # noqa: E731
        how = {"weight": w_func, "chaining": v_func, "estimator": estimator, "p": p, "weights": w}
        options = {name: one for name, one in how.items() if one is not None}
        if weighting is not None:
            options["weighting"] = weighting
        return rows.back(score(rows.y, rows.prediction, **options, **rows.options))

    return result


es_ensemble = _vector(fm.metrics.energy_score)
vs_ensemble = _vector(fm.metrics.variogram_score)
twes_ensemble, owes_ensemble, vres_ensemble = (
    _vector(fm.metrics.weighted_energy_score, kind) for kind in ("threshold", "outcome", "vertical")
)
twvs_ensemble, owvs_ensemble, vrvs_ensemble = (
    _vector(fm.metrics.weighted_variogram_score, kind)
    for kind in ("threshold", "outcome", "vertical")
)
gksmv_ensemble = _vector(fm.metrics.gaussian_kernel_score)
twgksmv_ensemble, owgksmv_ensemble, vrgksmv_ensemble = (
    _vector(fm.metrics.weighted_gaussian_kernel_score, kind)
    for kind in ("threshold", "outcome", "vertical")
)


def _weighted_kernel_score(weighting: str) -> Callable[..., Any]:
    def score(
        obs: Any, fct: Any, a: float = -np.inf, b: float = np.inf, m_axis: int = -1, *,
        ens_w: Any = None, v_func: Any = None, w_func: Any = None, estimator: str = "nrg",
        backend: Any = None,
    ) -> Any:  # fmt: skip
        rows = _Rows(obs, fct, m_axis, None, ens_w)
        if weighting == "threshold" and estimator != "nrg":
            chained = v_func or (lambda x: np.clip(x, a, b))
            rows.y, rows.fct = chained(rows.y), chained(rows.fct)
            scores = fm.metrics.gaussian_kernel_score(rows.y, rows.prediction, estimator=estimator)
            return rows.back(scores)
        how = {"weight": w_func, "chaining": v_func}
        options = {name: one for name, one in how.items() if one is not None}
        if not options:
            options = {"lower": a, "upper": b}
        return rows.back(
            fm.metrics.weighted_gaussian_kernel_score(
                rows.y, rows.prediction, weighting=weighting, **options
            )
        )

    return score


twgksuv_ensemble = _weighted_kernel_score("threshold")
owgksuv_ensemble = _weighted_kernel_score("outcome")
vrgksuv_ensemble = _weighted_kernel_score("vertical")


def dssuv_ensemble(
    obs: Any, fct: Any, m_axis: int = -1, *, bias: bool = False, backend: Any = None
) -> Any:
    rows = _Rows(obs, fct, m_axis)
    return rows.back(fm.metrics.dawid_sebastiani(rows.y, rows.prediction, ddof=0 if bias else 1))


def dssmv_ensemble(
    obs: Any, fct: Any, m_axis: int = -2, v_axis: int = -1, *, bias: bool = False,
    backend: Any = None,
) -> Any:  # fmt: skip
    rows = _Rows(obs, fct, m_axis, v_axis)
    return rows.back(fm.metrics.dawid_sebastiani(rows.y, rows.prediction, ddof=0 if bias else 1))


def _ensemble(score: Callable[..., Array]) -> Callable[..., Any]:
    def result(
        obs: Any, fct: Any, m_axis: int = -1, *, ens_w: Any = None, bw: Any = None,
        nan_policy: str = "propagate", backend: Any = None, **options: Any,
    ) -> Any:  # fmt: skip
        rows = _Rows(obs, fct, m_axis, None, ens_w, nan_policy)
        if bw is not None:
            options["bandwidth"] = bw
        return rows.back(score(rows.y, rows.prediction, **options))

    return result


gksuv_ensemble = _ensemble(fm.metrics.gaussian_kernel_score)
error_spread_score = _ensemble(fm.metrics.error_spread_score)
logs_ensemble = _ensemble(fm.metrics.ensemble_log_score)


def clogs_ensemble(
    obs: Any, fct: Any, a: float = -np.inf, b: float = np.inf, m_axis: int = -1, *, bw: Any = None,
    cens: bool = True, backend: Any = None,
) -> Any:  # fmt: skip
    rows = _Rows(obs, fct, m_axis)
    smooth = fm.metrics.kernel_density(rows.fct, bw)
    scores = fm.metrics.censored_likelihood_score(
        rows.y, smooth, lower=a, upper=b, conditional=not cens
    )
    return rows.back(scores)


def interval_score(obs: Any, lower: Any, upper: Any, alpha: Any, *, backend: Any = None) -> Any:
    obs, lower, upper, alpha = (np.asarray(one, float) for one in (obs, lower, upper, alpha))
    if alpha.ndim == 1 and lower.shape[-1:] == upper.shape[-1:] == alpha.shape:
        scores = [
            interval_score(obs, lower[..., j], upper[..., j], level)
            for j, level in enumerate(alpha)
        ]
        return np.stack(scores, axis=-1)
    if alpha.ndim:
        raise ValueError("lower, upper and alpha differ in their last axes")
    obs, lower, upper = np.atleast_1d(obs, lower, upper)
    return fm.metrics.interval_score_from(obs, lower, upper, level=1 - alpha)


def weighted_interval_score(
    obs: Any, median: Any, lower: Any, upper: Any, alpha: Any, *, backend: Any = None
) -> Any:
    """Score intervals by their ends, which are quantiles of a prediction."""
    alpha = np.asarray(alpha, float)
    order = np.argsort(alpha)
    levels = np.concatenate([alpha[order] / 2, [0.5], 1 - alpha[order][::-1] / 2])
    lower, upper = (np.asarray(one, float)[:, order] for one in (lower, upper))
    values = np.concatenate([lower, np.asarray(median)[:, None], upper[:, ::-1]], axis=1)
    prediction = fm.Quantiles(levels, values, sort=True)
    return fm.metrics.weighted_interval_score(obs, prediction, levels=1 - alpha)


def quantile_score(obs: Any, fct: Any, alpha: Any, *, backend: Any = None) -> Any:
    obs, fct, alpha = np.broadcast_arrays(*np.atleast_1d(obs, fct, alpha))
    return np.array([
        fm.metrics.check_score([y], fm.Quantiles([a], [[q]], tails="flat"), levels=[a])[0]
        for y, q, a in zip(obs, fct, alpha, strict=True)
    ])  # fmt: skip


def brier_score(obs: Any, fct: Any, *, backend: Any = None) -> Any:
    return fm.classification.brier_score(np.atleast_1d(obs), np.atleast_1d(fct))


def log_score(obs: Any, fct: Any, *, backend: Any = None) -> Any:
    return fm.classification.log_score(np.atleast_1d(obs), np.atleast_1d(fct))


def rls_score(obs: Any, fct: Any, k_axis: int = -1, *, backend: Any = None) -> Any:
    """Sum the log scores of the events y <= k."""
    fct = np.asarray(fct, float)
    if (fct < 0).any() or (fct > 1).any():
        raise ValueError("probabilities outside [0, 1]")
    fct = np.atleast_2d(np.moveaxis(fct, k_axis, -1) if fct.ndim else fct)
    obs, total = np.atleast_1d(obs), 0.0
    for k, below in enumerate(np.cumsum(fct, axis=1).T[:-1], start=1):
        total = total + fm.classification.log_score((obs <= k).astype(int), np.minimum(below, 1.0))
    return total


def rps_score(obs: Any, fct: Any, k_axis: int = -1, *, backend: Any = None) -> Any:
    fct = np.atleast_2d(np.moveaxis(np.asarray(fct, float), k_axis, -1)) if np.ndim(fct) else fct
    return fm.classification.ranked_probability_score(np.atleast_1d(obs) - 1, fct)


def crps_quantile(obs: Any, fct: Any, alpha: Any, m_axis: int = -1, *, backend: Any = None) -> Any:
    rows = _Rows(obs, fct, m_axis)
    prediction = fm.Quantiles(alpha, rows.fct, sort=True)
    return rows.back(2 * fm.metrics.check_score(rows.y, prediction, levels=alpha))


def _t(df: Any, location: Any = 0.0, scale: Any = 1.0) -> Any:
    return fm.StudentT(df, location, scale)


def _gamma(shape: Any, rate: Any = None, *, scale: Any = None) -> Any:
    if (rate is None) == (scale is None):
        raise ValueError("either rate or scale")
    return fm.Gamma(shape, 1 / np.asarray(scale) if rate is None else rate)


def _negbinom(n: Any, prob: Any = None, *, mu: Any = None) -> Any:
    if (prob is None) == (mu is None):
        raise ValueError("either prob or mu")
    n = np.asarray(n, float)
    mu = n * (1 - prob) / prob if mu is None else mu
    return fm.NegativeBinomial(mu, 1 / n)


def _tlogistic(location: Any, scale: Any, lower: Any = -np.inf, upper: Any = np.inf) -> Any:
    return fm.Truncated(fm.Logistic(location, scale), lower, upper)


def _tnormal(location: Any, scale: Any, lower: Any = -np.inf, upper: Any = np.inf) -> Any:
    return fm.Truncated(fm.Gaussian(location, scale), lower, upper)


def _tt(
    df: Any, location: Any = 0.0, scale: Any = 1.0, lower: Any = -np.inf, upper: Any = np.inf
) -> Any:
    return fm.Truncated(fm.StudentT(df, location, scale), lower, upper)


def _beta(a: Any, b: Any, lower: Any = 0.0, upper: Any = 1.0) -> Any:
    if np.all(np.equal(lower, 0)) and np.all(np.equal(upper, 1)):
        return fm.Beta(a, b)
    return stats.beta(a, b, lower, np.subtract(upper, lower))


def _mixture(m: Any, s: Any, w: Any = None, m_axis: int = -1, mc_axis: int | None = None) -> Any:
    m_axis = m_axis if mc_axis is None else mc_axis
    m, s = (np.moveaxis(np.asarray(one, float), m_axis, -1) for one in (m, s))
    w = np.ones_like(m) if w is None else np.moveaxis(np.asarray(w, float), m_axis, -1)
    rows = [one.reshape(-1, m.shape[-1]) for one in (m, s, w)]
    parts = [fm.Gaussian(rows[0][:, j], rows[1][:, j]) for j in range(m.shape[-1])]
    return fm.Mixture(parts, rows[2] / np.einsum("nk->n", rows[2])[:, None])


def _with_masses(inner: Any, lmass: Array, umass: Array) -> Any:
    """Return a distribution on an interval with further masses at its ends, if there are any."""
    return EndMasses(inner, lmass, umass) if np.any(lmass) or np.any(umass) else inner


def _truncated_with_masses(base: Callable[..., Any]) -> Callable[..., Any]:
    def family(location: Any, scale: Any, lower: Any = -np.inf, upper: Any = np.inf,
               lmass: Any = 0.0, umass: Any = 0.0) -> Any:  # fmt: skip
        return _with_masses(fm.Truncated(base(location, scale), lower, upper), lmass, umass)

    return family


def _gtct(df: Any, location: Any = 0.0, scale: Any = 1.0, lower: Any = -np.inf,
          upper: Any = np.inf, lmass: Any = 0.0, umass: Any = 0.0) -> Any:  # fmt: skip
    return _with_masses(fm.Truncated(fm.StudentT(df, location, scale), lower, upper), lmass, umass)


def _censored(base: Callable[..., Any]) -> Callable[..., Any]:
    def family(location: Any, scale: Any, lower: Any = -np.inf, upper: Any = np.inf) -> Any:
        return Clipped(base(location, scale), lower, upper)

    return family


def _ct(
    df: Any, location: Any = 0.0, scale: Any = 1.0, lower: Any = -np.inf, upper: Any = np.inf
) -> Any:
    return Clipped(fm.StudentT(df, location, scale), lower, upper)


def _csg0(shape: Any, rate: Any = None, *, scale: Any = None, shift: Any = 0.0) -> Any:
    """Return a shifted gamma distribution, censored at 0."""
    if (rate is None) == (scale is None):
        raise ValueError("either rate or scale")
    shape, shift = np.asarray(shape, float), np.asarray(shift, float)
    scale = 1 / np.asarray(rate) if scale is None else np.asarray(scale)
    inner = as_predictive(stats.gamma(shape, -shift, scale), len(shape))
    return Clipped(inner, np.zeros(len(shape)), np.full(len(shape), np.inf))


class _Shifted(NamedTuple):
    """A prediction of the outcomes minus a location."""

    prediction: Any
    location: Array


def _shifted_exponential(location: Any = 0.0, scale: Any = 1.0) -> Any:
    return _Shifted(fm.Exponential(scale=scale), location)


def _exponential_m(mass: Any = 0.0, location: Any = 0.0, scale: Any = 1.0) -> Any:
    return _Shifted(fm.ZeroInflated(fm.Exponential(scale=scale), mass), location)


def _two_piece_exponential(scale1: Any, scale2: Any, location: Any = 0.0) -> Any:
    return fm.TwoPieceLaplace(location, scale1, scale2)


def _two_piece_normal(scale1: Any, scale2: Any, location: Any = 0.0) -> Any:
    return fm.TwoPieceNormal(location, scale1, scale2)


def _gpd(shape: Any, location: Any = 0.0, scale: Any = 1.0, mass: Any = 0.0) -> Any:
    if not np.any(mass):
        return fm.GeneralizedPareto(shape, scale, location)
    return _Shifted(fm.ZeroInflated(fm.GeneralizedPareto(shape, scale), mass), location)


def _uniform(min: Any, max: Any, lmass: Any = 0.0, umass: Any = 0.0) -> Any:
    return _with_masses(fm.Uniform(min, max), lmass, umass)


FAMILIES: dict[str, Callable[..., Any]] = {
    "beta": _beta,
    "binomial": lambda n, prob: fm.Binomial(n, prob),
    "exponential2": _shifted_exponential,
    "exponential": lambda rate: fm.Exponential(rate),
    "gamma": _gamma,
    "gev": lambda shape, location=0.0, scale=1.0: stats.genextreme(
        -np.asarray(shape), location, scale
    ),
    "gpd": _gpd,
    "hypergeometric": lambda m, n, k: stats.hypergeom(np.add(m, n), m, k),
    "laplace": lambda location=0.0, scale=1.0: fm.Laplace(location, scale),
    "logistic": lambda mu, sigma: fm.Logistic(mu, sigma),
    "loglaplace": lambda locationlog, scalelog: LogLaplace(
        np.exp(locationlog), 1 / np.asarray(scalelog)
    ),
    "loglogistic": lambda mulog, sigmalog: LogLogistic(np.exp(mulog), 1 / np.asarray(sigmalog)),
    "lognormal": lambda mulog, sigmalog: fm.LogNormal(mulog, sigmalog),
    "mixnorm": _mixture,
    "negbinom": _negbinom,
    "normal": lambda mu, sigma: fm.Gaussian(mu, sigma),
    "poisson": lambda mean: fm.Poisson(mean),
    "t": _t,
    "tlogistic": _tlogistic,
    "tnormal": _tnormal,
    "tt": _tt,
    "uniform": _uniform,
    "2pexponential": _two_piece_exponential,
    "2pnormal": _two_piece_normal,
    "clogistic": _censored(fm.Logistic),
    "cnormal": _censored(fm.Gaussian),
    "csg0": _csg0,
    "ct": _ct,
    "exponentialM": _exponential_m,
    "gtclogistic": _truncated_with_masses(fm.Logistic),
    "gtcnormal": _truncated_with_masses(fm.Gaussian),
    "gtct": _gtct,
}


def score_of(
    family: Callable[..., Any], score: Callable[..., Array], y: Array, *values: Any, **keywords: Any
) -> Array:
    """Return scores (n,) of outcomes (n,), from the parameters of a family for each row."""
    prediction = family(*values, **keywords)
    if isinstance(prediction, _Shifted):
        y, prediction = y - prediction.location, prediction.prediction
    return score(y, prediction)


def _parametric(family: Callable[..., Any], score: Callable[..., Array]) -> Callable[..., Any]:
    def result(obs: Any, *parameters: Any, backend: Any = None, **keyword_parameters: Any) -> Any:
        obs = np.asarray(obs, float)
        if family is _mixture:
            shape = obs.shape
            return np.reshape(
                score(obs.reshape(-1), family(*parameters, **keyword_parameters)), shape
            )[()]
        bound = inspect.signature(family).bind(*parameters, **keyword_parameters)
        bound.apply_defaults()
        parameters = ()
        keyword_parameters = {k: v for k, v in bound.arguments.items() if v is not None}
        positional = [np.asarray(one, float) for one in parameters]
        keywords = {name: np.asarray(one, float) for name, one in keyword_parameters.items()}
        values = (*positional, *keywords.values())
        shape = np.broadcast_shapes(obs.shape, *(one.shape for one in values))
        obs = np.broadcast_to(obs, shape).reshape(-1)
        # Numbers for all rows remain numbers if another parameter has a value for each row.
        keep = shape != () and any(one.shape == shape for one in values)
        flat = [
            one if keep and one.ndim == 0 else np.broadcast_to(one, shape).reshape(-1)
            for one in values
        ]
        split = len(positional)
        by_name = dict(zip(keywords, flat[split:], strict=True))
        return np.reshape(score_of(family, score, obs, *flat[:split], **by_name), shape)[()]

    return result


for _name, _family in FAMILIES.items():
    globals()[f"crps_{_name}"] = _parametric(_family, fm.metrics.crps)
    globals()[f"logs_{_name}"] = _parametric(_family, fm.metrics.log_score)


class _Backends(dict):  # type: ignore[type-arg]
    """Backends of the test files, which run with --backend numpy."""

    available_backends = ("numpy",)

    def register_backend(self, name: str) -> None:
        """Do nothing: NumPy needs no registration."""


backend = ModuleType("scoringrules.backend")
backend.backends = _Backends(numpy=np)  # type: ignore[attr-defined]
MODULES = {"backend": backend}
