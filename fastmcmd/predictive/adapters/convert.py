"""Conversion of every form of prediction that users pass into a `Predictive`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fastmcmd._base.annotations import Array, HostArray
from fastmcmd._base.checks import all_finite, as_array, on_device
from fastmcmd.predictive.adapters.by_methods import MethodsPredictive
from fastmcmd.predictive.adapters.by_name import LIBRARIES, from_library
from fastmcmd.predictive.adapters.by_package import unwrap
from fastmcmd.predictive.adapters.foreign import has_methods, library
from fastmcmd.predictive.adapters.frozen import ScipyPredictive, is_frozen, is_of_scipy
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.beta import Beta
from fastmcmd.predictive.binomial import Binomial
from fastmcmd.predictive.categorical import Categorical
from fastmcmd.predictive.counts import NegativeBinomial, Poisson
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.family import Family
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.lifetimes import Exponential, GeneralizedPareto, Weibull
from fastmcmd.predictive.located import Located
from fastmcmd.predictive.location_scale import Laplace, StudentT, Uniform
from fastmcmd.predictive.log_symmetric import LogLaplace, LogLogistic
from fastmcmd.predictive.logistic import Logistic
from fastmcmd.predictive.positive import Gamma, LogNormal

if TYPE_CHECKING:
    from scipy.stats._distn_infrastructure import rv_frozen

__all__ = [
    "as_predictive",
    "check_column_names",
    "check_order",
    "check_probabilities",
    "from_frozen",
    "row_hint",
]


def as_predictive(
    value: object,
    n: int,
    columns: int = 1,
    name: str = "prediction",
    *,
    y: ArrayLike | None = None,
    x: object = None,
) -> Predictive:
    """Return predicted distributions for n outputs of ``columns`` components.

    Parameters
    ----------
    value : Predictive, array, (mean, std), or distribution object of another library
        The prediction. Accepted from scipy.stats: frozen distributions and the new random variables; from
        PyTorch, NumPyro and TensorFlow Probability: known families and mixtures of them; from NGBoost,
        GPyTorch and statsmodels: what their predict methods return; from any other library: objects with
        ``cdf`` and ``log_prob``.
    n, columns : int
        Rows and components of the outputs.
    name : str
        Name of the argument, for messages.
    y : array_like (n,), optional
        The outcomes. They help to distinguish class probabilities, which are refused, from draws. They
        must be numbers of the classes if a `Categorical` names them.
    x : array_like (n, d), optional
        The inputs, to notice that they were passed in place of the outcomes.

    Raises
    ------
    TypeError
        Any other object; the message lists what is accepted.
    ValueError
        Another number of rows or components, or parameters out of range; a data frame whose columns are
        named like parameters or quantiles; class probabilities, which are not draws.

    Examples
    --------
    >>> from fastmcmd.predictive import as_predictive
    >>> as_predictive(([0.0, 1.0], 2.0), 2).std.tolist()
    [2.0, 2.0]
    """
    if y is not None and on_device(y) is not None:
        y = as_array(y, "y")
    prediction = _convert(value, n, columns, name, y)
    if len(prediction) != n:
        hint = row_hint(value, len(prediction), n)
        raise ValueError(f"{name} has {len(prediction)} rows and y has {n}; they must agree{hint}")
    if prediction.columns != columns:
        raise ValueError(
            f"{name} has {prediction.columns} components and y has {columns}; they must agree"
            + _swap_hint(x, prediction.columns)
        )
    if y is not None and isinstance(prediction, Categorical):
        prediction = prediction.checked_for(np.asarray(y))
    return prediction


def _convert(value: object, n: int, columns: int, name: str, y: ArrayLike | None) -> Predictive:
    if type(value) is np.ndarray:
        return _from_draws(value, columns, name, y)
    value = unwrap(value, name)
    if isinstance(value, Predictive):
        return value
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"{name} is a tuple of {len(value)}; (mean, std) is needed")
        if np.ndim(value[1]) == 3:
            raise ValueError(
                f"{name} is a pair whose second part has shape {np.shape(value[1])}, as the intervals of "
                "MAPIE; pass Quantiles.from_intervals(coverages, intervals), or (mean, std)"
            )
        return _gaussian(*value, n)
    if is_frozen(value):
        return from_frozen(value, n)
    if library(value) in LIBRARIES and hasattr(value, "log_prob"):
        return from_library(value, n, name)
    if has_methods(value):
        return _from_methods(value, n)
    kind = type(value)
    if hasattr(value, "__array__") or isinstance(value, list) or hasattr(value, "__dlpack__"):
        return _from_draws(value, columns, name, y)
    raise TypeError(
        f"{name} is a {kind.__module__}.{kind.__name__}; a fastmcmd distribution such as Gaussian(mean, "
        "std), an array of draws (n,) or (n, l), a pair (mean, std), a frozen scipy.stats distribution "
        "such as scipy.stats.t(df, loc, scale), or an object with cdf and log_prob, as those of PyTorch, "
        "NumPyro and TensorFlow Probability, is needed"
    )


def _gaussian(mean: Any, std: Any, n: int) -> Gaussian:
    return Gaussian(np.full(n, mean) if np.ndim(mean) == 0 else mean, std)


def _from_draws(value: object, columns: int, name: str, y: ArrayLike | None) -> Draws:
    if columns == 1:
        check_column_names(value, name)
    array = as_array(value, name)
    if not all_finite(array):
        problem = "NaN" if np.isnan(array).any() else "infinity"
        raise ValueError(f"{name} holds {problem}; remove such rows first")
    if array.ndim not in (1, 2, 3) or 0 in array.shape:
        raise ValueError(
            f"{name} has shape {array.shape}; draws (n,), (n, m) or (n, m, k), none of them 0, are needed"
        )
    if columns > 1 and array.ndim == 2:  # one draw of a vector per input
        array = array[:, None, :]
    if columns == 1:
        check_probabilities(array, y, name)
    return Draws.of_finite(array)


_RANDOM_VARIABLES: dict[str, tuple[Any, str, str]] = {
    "Normal": (Gaussian, "mu", "sigma"),
    "Uniform": (Uniform, "a", "b"),
    "Binomial": (Binomial, "n", "p"),
}


def _from_methods(value: object, n: int) -> Predictive:
    """Return an adapter by methods; SciPy's new random variables with a class here become that class."""
    parameter_names = _RANDOM_VARIABLES.get(type(value).__name__)
    if library(value) == "scipy" and parameter_names is not None:
        family, *names = parameter_names
        first, second = (np.asarray(getattr(value, part), np.float64) for part in names)
        shape = np.broadcast_shapes(first.shape, second.shape) or (n,)
        return family(np.broadcast_to(first, shape), np.broadcast_to(second, shape))
    return MethodsPredictive(value, n)


# Names of columns that summarise a distribution, in lower case without separators.
_MEANS = frozenset({"mean", "mu", "loc", "location", "median", "yhat", "ypred", "prediction"})
_SPREADS = frozenset(
    {"std", "sd", "stddev", "stdev", "standarddeviation", "sigma", "scale", "var", "variance",
     "stderr", "se"}
)  # fmt: skip
_ENDS = frozenset({"lower", "upper", "yhatlower", "yhatupper", "lo", "hi", "cilower", "ciupper"})
_QUANTILE = re.compile(r"(q|quantile|p|percentile)?[ _]?(0?\.\d+)")
_SUM_OFF = 1e-3  # error of a sum of probabilities that were rounded or computed in single precision
_LEAST_ROWS = 3  # in fewer rows, draws may sum to 1 by accident


def check_column_names(value: object, name: str) -> None:
    """Raise an error for a data frame whose columns are named like parameters or quantiles, not draws."""
    columns = getattr(value, "columns", None)
    if columns is None or not hasattr(value, "shape"):
        return
    names = [str(one) for one in columns]
    plain = [re.sub(r"[\W_]+", "", one.lower()) for one in names]
    name_list = ", ".join(map(repr, names[:6])) + (", ..." if len(names) > 6 else "")
    draws = "an array is read as draws, a column each"
    if {"mean", "meanse"} <= set(plain):
        raise ValueError(
            f"{name} is a frame with the columns {name_list}; {draws}. Pass what statsmodels' "
            "get_prediction returns, not its summary_frame"
        )
    if len(names) > 1 and _MEANS.intersection(plain) and _SPREADS.intersection(plain):
        mean = names[next(i for i, one in enumerate(plain) if one in _MEANS)]
        spread = names[next(i for i, one in enumerate(plain) if one in _SPREADS)]
        raise ValueError(
            f"{name} is a frame with the columns {name_list}; {draws}. Pass the pair (mean, std): "
            f"({name}[{mean!r}], {name}[{spread!r}]), where the second is a standard deviation"
        )
    if len(names) > 1 and _ENDS.intersection(plain):
        raise ValueError(
            f"{name} is a frame with the columns {name_list}; {draws}. The ends of intervals are "
            "quantiles: pass fastmcmd.predictive.Quantiles(levels, values)"
        )
    if len(names) > 1 and all(_QUANTILE.fullmatch(one.lower().strip()) for one in names):
        raise ValueError(
            f"{name} is a frame with the columns {name_list}; {draws}. Pass quantiles as "
            "fastmcmd.predictive.Quantiles(levels, values)"
        )


def check_probabilities(draws: HostArray, y: ArrayLike | None, name: str) -> None:
    """Raise an error for class probabilities (n, C) or (n,) of labels y, which would be read as draws.

    Class probabilities are numbers in [0, 1] whose rows sum to 1, neither all equal nor all whole (draws of
    0 and 1 may sum to 1), with labels from 0 to C - 1 or from 1 to C.
    """
    if y is None or draws.ndim > 2 or len(draws) < _LEAST_ROWS:
        return
    if draws.ndim == 1 or draws.shape[1] == 1:
        _check_second_class(draws.ravel(), np.asarray(y), name)
        return
    labels = np.asarray(y)
    if labels.size != len(draws) or labels.dtype.kind not in "iubf":
        return
    first = draws[: 2 * _LEAST_ROWS]  # these rows decide for nearly all arrays
    if not _is_simplex(first) or not _is_simplex(draws):
        return
    labels = labels.ravel()
    if not (labels == np.floor(labels)).all():
        return
    low, high = labels.min(), labels.max()
    classes = draws.shape[1]
    if not ((low >= 0 and high <= classes - 1) or (low >= 1 and high <= classes)):
        return
    if (draws == np.floor(draws)).all() or (draws == draws.flat[0]).all():
        return
    raise ValueError(
        f"{name} looks like the probabilities of {classes} classes: each row sums to 1 and y holds labels "
        f"from {low:g} to {high:g}. An array is read as draws; for classes pass "
        f"fastmcmd.Categorical({name}, classes=names), or call fastmcmd.classification.evaluate(y, p) for "
        f"their measures only; for counts, fastmcmd.Categorical({name}); for draws, fastmcmd.Draws({name})"
    )


def _check_second_class(p: HostArray, labels: HostArray, name: str) -> None:
    """Raise an error for probabilities (n,) of the second of two classes, with labels 0 and 1."""
    if labels.size != len(p) or labels.dtype.kind not in "iubf":
        return
    if labels.item(0) not in (0, 1):  # the first outcome decides for nearly all arrays
        return
    if not ((p >= 0).all() and (p <= 1).all()) or (p == np.floor(p)).all() or (p == p[0]).all():
        return
    if not ((labels == 0) | (labels == 1)).all() or (labels == labels.flat[0]).all():
        return
    raise ValueError(
        f"{name} looks like the probability of the second of two classes: it holds numbers from 0 to 1, "
        "and y holds 0 and 1. An array is read as draws; for classes pass "
        f"fastmcmd.Categorical({name}, classes=names), or call fastmcmd.classification.evaluate(y, p) for "
        f"their measures only; for one draw of each prediction, fastmcmd.Draws({name})"
    )


def _is_simplex(rows: HostArray) -> bool:
    return bool(
        (rows >= 0).all() and (rows <= 1).all() and (np.abs(rows.sum(axis=1) - 1) <= _SUM_OFF).all()
    )


def check_order(y: ArrayLike, order: str = "(y, prediction)") -> None:
    """Raise an error if a prediction was passed in place of the outcomes."""
    pair = isinstance(y, tuple) and len(y) == 2 and any(np.ndim(part) for part in y)
    if pair or isinstance(y, Predictive):
        description = (
            "a pair of arrays" if pair else f"a predicted distribution, {type(y).__name__}"
        )
        raise TypeError(
            f"y is {description}; outcomes are needed: the order of arguments is {order}"
        )


def _swap_hint(x: object, columns: int) -> str:
    """Return a hint that inputs and outcomes were swapped if the inputs have the prediction's columns."""
    shape = np.shape(x) if isinstance(x, list) else tuple(getattr(x, "shape", ()))
    if shape and (shape[1] if len(shape) == 2 else 1) == columns:
        return f". x has {columns}, as many as the prediction: are x and y in each other's place?"
    return ""


def row_hint(value: object, rows: int, n: int) -> str:
    """Return a hint at the likely mistake if a prediction and y differ in their number of rows."""
    shape = getattr(value, "shape", ())
    shape = shape if isinstance(shape, tuple) else ()  # distributions have methods of that name
    if isinstance(value, list) and value and np.ndim(value[0]) == 1:
        shape = (len(value), len(value[0]))
    if (isinstance(value, list) or len(shape) == 2) and rows == 2:
        return "; means and standard deviations are given as a tuple, (mean, std)"
    if len(shape) == 2 and shape[1] == n:
        return f"; draws have a row for each outcome, ({n}, l): transpose them"
    return ""


def from_frozen(frozen: rv_frozen, n: int) -> Predictive:
    """Return a frozen distribution as our class with closed forms if there is one, else wrapped.

    Parameters
    ----------
    frozen : scipy.stats frozen distribution
        With parameters (m,) it has m rows; with scalar parameters, ``n``.
    n : int
        Rows of the outputs.
    """
    sizes = {np.size(value) for value in (*frozen.args, *frozen.kwds.values())} - {1}
    if len(sizes) == 1:  # its own number of rows; as_predictive reports a mismatch
        n = sizes.pop()
    wrapped = ScipyPredictive(frozen, n)
    equivalent = _our_class(wrapped)
    return wrapped if equivalent is None else equivalent


def _our_class(wrapped: ScipyPredictive) -> Predictive | None:
    family = wrapped.frozen.dist
    if not is_of_scipy(family):
        return None
    names = [] if not family.shapes else [name.strip() for name in family.shapes.split(",")]
    arguments = dict(zip([*names, "loc", "scale"], wrapped.frozen.args, strict=False))
    arguments = {"loc": 0.0, "scale": 1.0} | arguments | wrapped.frozen.kwds

    def one(name: str) -> Any:
        return np.broadcast_to(np.asarray(arguments[name], np.float64).ravel(), wrapped.shape)

    loc, scale = one("loc"), one("scale")
    is_unmoved = not loc.any()
    ours = _at_any_location(family.name, one, loc, scale)
    if ours is None and is_unmoved:
        ours = _at_zero(family.name, one, scale)
    if ours is not None or (standard := _standard(family.name, one, scale)) is None:
        return ours
    inner, factors = standard
    if is_unmoved and (factors == 1).all():
        return inner
    return Located(wrapped.frozen, inner, loc, factors)


def _at_any_location(
    name: str, one: Callable[[str], Array], loc: Array, scale: Array
) -> Predictive | None:
    """Return our class of a family of SciPy, if it has a location, too."""
    match name:
        case "norm":
            return Gaussian(loc, scale)
        case "t":
            return StudentT(one("df"), loc, scale)
        case "cauchy":
            return StudentT(1.0, loc, scale)
        case "laplace":
            return Laplace(loc, scale)
        case "uniform":
            return Uniform(loc, loc + scale)
        case "genpareto":
            return GeneralizedPareto(one("c"), scale, loc)
        case "logistic":
            return Logistic(loc, scale)
    return None


def _at_zero(name: str, one: Callable[[str], Array], scale: Array) -> Predictive | None:
    """Return our class of a family of SciPy at the location 0; moved ones cost SciPy no more."""
    match name:
        case "expon":
            return Exponential(scale=scale)
        case "loglaplace":
            return LogLaplace(scale, one("c"))
        case "fisk":
            return LogLogistic(scale, one("c"))
        case "binom":
            return Binomial(one("n"), one("p"))
        case "poisson":
            return Poisson(one("mu"))
        case "nbinom":
            return NegativeBinomial.from_n_p(one("n"), one("p"))
    return None


def _standard(name: str, one: Callable[[str], Array], scale: Array) -> tuple[Family, Array] | None:
    """Return our class of a family of SciPy at the location 0, and factors (n,) of its outcomes.

    Scores by quadrature, or searches for quantiles, make these families of SciPy slow.
    """
    factors = np.ones(len(scale))
    match name:
        case "lognorm":
            return LogNormal(np.log(scale), one("s")), factors
        case "gamma":
            return Gamma(one("a"), scale=scale), factors
        case "weibull_min":
            return Weibull(one("c"), scale), factors
        case "beta":
            return Beta(one("a"), one("b")), np.array(scale)
    return None
