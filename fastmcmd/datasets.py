"""Simulated data of published experiments, with the true conditional distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fastmcmd._base.annotations import Array, RandomState
from fastmcmd._base.checks import check_choice, check_count
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.predictive import Categorical, Gaussian, NegativeBinomial, Poisson, Predictive

__all__ = [
    "Simulated",
    "conflated_poissons",
    "cosine",
    "equal_moments",
    "linear",
    "proportional_noise",
    "sine",
]

_RATES = 5  # Poisson distributions whose conflation is drawn from
_TOP = 30  # the outcome is this number less the count
_MOST = 60  # largest count: the rate is at most 20 and the mass beyond is below 1e-50

_simulator = with_shared_parameters(
    entries("""
n : int
    Number of rows.
random_state : int, Generator or None
    Seed.
""")
)


@dataclass(frozen=True, eq=False)
class Simulated:
    """Inputs and outcomes with the distribution that the outcomes were drawn from.

    Attributes
    ----------
    x : ndarray (n,)
        Inputs.
    y : ndarray (n,)
        Outcomes.
    truth : Predictive
        The true conditional distributions of the outcomes.
    """

    x: Array
    y: Array
    truth: Predictive

    def __len__(self) -> int:
        return len(self.x)


def _simulated(x: Array, truth: Predictive, rng: np.random.Generator) -> Simulated:
    return Simulated(x, truth.sample(1, rng)[:, 0], truth)


def _inputs(
    n: int, random_state: RandomState, low: float, high: float
) -> tuple[Array, np.random.Generator]:
    rng = generator(random_state, Purpose.DEMO)
    return rng.uniform(low, high, check_count(n, "n")), rng


@_simulator
def linear(n: int, slope: float = 3.0, random_state: RandomState = None) -> Simulated:
    """Return x ~ N(0, 1) and y ~ N(slope x, 1).

    The marginal distribution N(0, 1 + slope^2) predicts such outcomes with perfect calibration, and is
    wrong at nearly every input: figure 1 of Young et al., *Assessing the Probabilistic Fit of Neural
    Regressors via Conditional Congruence* (arXiv 2405.12412), with slope 3.

    Parameters
    ----------
    slope : float, default 3
        Slope of the mean.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.datasets.linear(3, random_state=0).truth.std.tolist()
    [1.0, 1.0, 1.0]
    """
    rng = generator(random_state, Purpose.DEMO)
    x = rng.normal(size=check_count(n, "n"))
    return _simulated(x, Gaussian(slope * x, 1.0), rng)


@_simulator
def conflated_poissons(n: int, random_state: RandomState = None) -> Simulated:
    """Return x ~ U(0, 2 pi), and 30 less a count from the conflation of five Poisson distributions.

    The conflation of distributions has the normalised product of their mass functions: for five Poisson
    distributions of rate r the mass at k is proportional to ``(r^k / k!)^5``, here with
    ``r = 10 sin(x) + 10``. Figure 2 of Young et al. (arXiv 2405.12412). Counts are underdispersed.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> data = fm.datasets.conflated_poissons(100, random_state=0)
    >>> bool((data.truth.variance < 5).all())
    True
    """
    from scipy.special import gammaln

    x, rng = _inputs(n, random_state, 0.0, 2 * np.pi)
    count = np.arange(_MOST + 1)
    with np.errstate(divide="ignore"):
        log_rate = np.log(10 * np.sin(x) + 10)
    power = _RATES * (count * log_rate[:, None] - gammaln(count + 1))
    mass = np.exp(power - power.max(axis=1, keepdims=True))
    mass /= mass.sum(axis=1, keepdims=True)
    outcomes = (_TOP - count)[::-1].astype(np.float64)
    return _simulated(x, Categorical(mass[:, ::-1], outcomes), rng)


@_simulator
def cosine(n: int, random_state: RandomState = None) -> Simulated:
    """Return x ~ U(0, 2 pi) and y ~ N(cos x, 1/4): the homoscedastic example of the MCMD.

    Figure "homoscedastic behaviour" of the code published with Young et al. (arXiv 2405.12412).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.datasets.cosine(2, random_state=0).truth.std.tolist()
    [0.5, 0.5]
    """
    x, rng = _inputs(n, random_state, 0.0, 2 * np.pi)
    return _simulated(x, Gaussian(np.cos(x), 0.5), rng)


@_simulator
def sine(n: int, random_state: RandomState = None) -> Simulated:
    """Return x ~ U(-pi, pi) and y ~ N(sin x, max(x, 1/5)): the heteroscedastic example of the MCMD.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> data = fm.datasets.sine(100, random_state=0)
    >>> round(float(data.truth.variance.min()), 12)
    0.2
    """
    x, rng = _inputs(n, random_state, -np.pi, np.pi)
    return _simulated(x, Gaussian(np.sin(x), np.sqrt(np.maximum(x, 0.2))), rng)


@_simulator
def equal_moments(kind: str, n: int, random_state: RandomState = None) -> Simulated:
    """Return x ~ U(1, 10) and outcomes whose mean and variance are x, from a given family.

    Figure 13 of Young et al. (arXiv 2405.12412). The negative binomial has the variance x + 0.1.

    Parameters
    ----------
    kind : {"gaussian", "poisson", "negative binomial"}
        Family of the outcomes.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> data = fm.datasets.equal_moments("poisson", 100, random_state=0)
    >>> bool((data.truth.mean == data.x).all())
    True
    """
    check_choice(kind, "kind", ("gaussian", "poisson", "negative binomial"))
    x, rng = _inputs(n, random_state, 1.0, 10.0)
    truth: Predictive = Poisson(x)
    if kind == "gaussian":
        truth = Gaussian(x, np.sqrt(x))
    elif kind == "negative binomial":
        truth = NegativeBinomial(x, 0.1 / x**2)
    return _simulated(x, truth, rng)


@_simulator
def proportional_noise(n: int, random_state: RandomState = None) -> Simulated:
    """Return x ~ U(0.1, 1) and y ~ N(x, x^2): the noise is proportional to the input.

    Section 3 of Levi, Gispan, Giladi & Fetaya, *Evaluating and Calibrating Uncertainty Prediction in
    Regression Tasks* (Sensors 2022; arXiv 1905.11659).

    Examples
    --------
    >>> import fastmcmd as fm
    >>> data = fm.datasets.proportional_noise(100, random_state=0)
    >>> bool((data.truth.std == data.x).all())
    True
    """
    x, rng = _inputs(n, random_state, 0.1, 1.0)
    return _simulated(x, Gaussian(x, x), rng)
