"""Simulated data of published experiments, with the true conditional distributions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fastmcmd._base.annotations import Array, RandomState
from fastmcmd._base.checks import as_float, check_choice, check_count
from fastmcmd._base.docstrings import entries, with_shared_parameters
from fastmcmd._base.seeds import Purpose, generator
from fastmcmd.predictive import Categorical, Gaussian, NegativeBinomial, Poisson, Predictive

__all__ = [
    "Simulated",
    "boxes",
    "conflated_poissons",
    "cosine",
    "damped_sine",
    "equal_moments",
    "linear",
    "proportional_noise",
    "sine",
    "tokens",
]

_RATES = 5  # Poisson distributions from which a conflation is drawn
_TOP = 30  # the outcome is this number less the count
_MOST = 60  # largest count: the rate is at most 20 and the mass beyond is below 1e-50

_VOCABULARY, _TOKEN_COLUMNS = 20, 6
_LEVELS, _STEP, _BASE = (
    3,
    0.4,
    -1.0,
)  # log odds: steps of 0.4 on a base of -1; effects of a token in -3..3

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
    x : ndarray (n,) or (n, d)
        Inputs.
    y : ndarray (n,) or (n, k)
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
def damped_sine(n: int, random_state: RandomState = None) -> Simulated:
    """Return x ~ N(0, 1) and y ~ N(exp(-x^2 / 2) sin 2x, 0.3^2).

    The first sample in section 5.1 of Park & Muandet, *A Measure-Theoretic Approach to Kernel Conditional
    Mean Embeddings* (arXiv 2002.03689), as in the published code.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> fm.datasets.damped_sine(2, random_state=0).truth.std.tolist()
    [0.3, 0.3]
    """
    rng = generator(random_state, Purpose.DEMO)
    x = rng.normal(size=check_count(n, "n"))
    return _simulated(x, Gaussian(np.exp(-0.5 * x**2) * np.sin(2 * x), 0.3), rng)


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


@_simulator
def boxes(n: int, random_state: RandomState = None) -> Simulated:
    """Return six inputs and the edges of a box (left, top, right, bottom) with independent Gaussian errors.

    A small stand-in for the bounding boxes of Levi et al. (arXiv 1905.11659, section 5). Inputs are
    standard normal: two place the centre, two set width and height, one bends the place, one scales the
    error. Errors grow with the width, and are twice as large on the right and at the bottom.

    Returns
    -------
    Simulated
        ``x`` (n, 6), ``y`` (n, 4), ``truth`` a `Gaussian` with independent coordinates.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> data = fm.datasets.boxes(100, random_state=0)
    >>> bool((data.truth.mean[:, 2] > data.truth.mean[:, 0]).all())
    True
    """
    rng = generator(random_state, Purpose.DEMO)
    x = rng.normal(size=(check_count(n, "n"), 6))
    width = np.exp(0.5 * x[:, 2])
    height = width * np.exp(0.3 * x[:, 3])
    across, down = x[:, 0] + 0.5 * np.sin(2 * x[:, 4]), x[:, 1]
    mean = np.stack(
        [across - width / 2, down - height / 2, across + width / 2, down + height / 2], axis=1
    )
    std = (width * np.exp(0.5 * x[:, 5]))[:, None] * np.array([0.1, 0.1, 0.2, 0.2])
    truth = Gaussian(mean, std)
    return Simulated(x, truth.sample(1, rng)[:, 0], truth)


@_simulator
def tokens(n: int, noise: float = 0.0, random_state: RandomState = None) -> Simulated:
    """Return six columns of tokens and a binary outcome; noise replaces tokens after the outcome is drawn.

    A small stand-in for advertisement clicks, whose categorical features Ovadia et al., *Can You Trust Your
    Model's Uncertainty?* (arXiv 1906.02530, section 4.4), replace at random. A token has one of 20 values
    with frequencies proportional to 1, 1/2, ..., 1/20. The log odds of the outcome are -1 plus an effect of
    each token. The truth is the probability given the tokens *as returned*, exact for every ``noise``:
    effects are multiples of 0.4, so that their sum given noisy tokens has a distribution on few points.

    Parameters
    ----------
    noise : float, default 0.0
        Probability that a token is replaced by one drawn uniformly, in [0, 1].

    Returns
    -------
    Simulated
        ``x`` (n, 6) holds the numbers 0 to 19 of the tokens, ``truth`` a `Categorical` of two outcomes.

    Examples
    --------
    >>> import fastmcmd as fm
    >>> clean, noisy = (fm.datasets.tokens(2_000, share, random_state=0) for share in (0.0, 0.9))
    >>> bool(noisy.truth.probs[:, 1].std() < clean.truth.probs[:, 1].std() / 2)
    True
    """
    from scipy.special import expit

    if not 0 <= as_float(noise, "noise") <= 1:
        raise ValueError(f"noise is {noise:g}; a number in [0, 1] is needed")
    rng = generator(random_state, Purpose.DEMO)
    shape = (check_count(n, "n"), _TOKEN_COLUMNS)
    frequency = 1 / np.arange(1, _VOCABULARY + 1)
    frequency /= frequency.sum()
    clean = rng.choice(_VOCABULARY, shape, p=frequency)
    levels = _token_levels()
    steps = levels[np.arange(_TOKEN_COLUMNS), clean].sum(axis=1)
    y = (rng.random(n) < expit(_BASE + _STEP * steps)).astype(np.float64)
    replaced = rng.random(shape) < noise
    x = np.where(replaced, rng.integers(_VOCABULARY, size=shape), clean)
    # P(clean | noisy), one row for each noisy token.
    posterior = frequency * ((1 - noise) * np.eye(_VOCABULARY) + noise / _VOCABULARY)
    posterior /= posterior.sum(axis=1, keepdims=True)
    width = 2 * _LEVELS + 1
    mass = np.ones((n, 1))  # of the sum of steps
    for column in range(_TOKEN_COLUMNS):
        by_level = posterior @ np.eye(width)[levels[column] + _LEVELS]  # (20, 7)
        grown = np.zeros((n, mass.shape[1] + width - 1))
        for level, weight in enumerate(by_level[x[:, column]].T):
            grown[:, level : level + mass.shape[1]] += weight[:, None] * mass
        mass = grown
    sums = np.arange(mass.shape[1]) - _TOKEN_COLUMNS * _LEVELS
    positive = mass @ expit(_BASE + _STEP * sums)
    truth = Categorical(np.stack([1 - positive, positive], axis=1), np.array([0.0, 1.0]))
    return Simulated(x.astype(np.float64), y, truth)


def _token_levels() -> NDArray[np.intp]:
    """Return the effect of each token in steps, the same in every sample."""
    shape = (_TOKEN_COLUMNS, _VOCABULARY)
    return np.random.default_rng(0).integers(-_LEVELS, _LEVELS + 1, shape)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
