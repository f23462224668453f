"""Predicted distributions."""

# To add a distribution, write a class in the file of its family, and list it here.

from fastmcmd.predictive.adapters.by_methods import MethodsPredictive
from fastmcmd.predictive.adapters.convert import as_predictive
from fastmcmd.predictive.adapters.frozen import ScipyPredictive
from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.beta import Beta
from fastmcmd.predictive.binomial import Binomial
from fastmcmd.predictive.categorical import Categorical
from fastmcmd.predictive.counts import NegativeBinomial, Poisson
from fastmcmd.predictive.double_poisson import DoublePoisson
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.gaussian import Gaussian, Normal
from fastmcmd.predictive.lifetimes import Exponential, GeneralizedPareto, Weibull
from fastmcmd.predictive.location_scale import Laplace, StudentT, Uniform
from fastmcmd.predictive.logistic import Logistic
from fastmcmd.predictive.mixture import Mixture
from fastmcmd.predictive.positive import Gamma, LogNormal
from fastmcmd.predictive.quantiles import Quantiles
from fastmcmd.predictive.truncated import Truncated
from fastmcmd.predictive.two_piece import TwoPieceLaplace, TwoPieceNormal
from fastmcmd.predictive.weighted_draws import WeightedDraws
from fastmcmd.predictive.zero_inflated import ZeroInflated

__all__ = [
    "Beta",
    "Binomial",
    "Categorical",
    "DoublePoisson",
    "Draws",
    "Exponential",
    "Gamma",
    "Gaussian",
    "GeneralizedPareto",
    "Laplace",
    "LogNormal",
    "Logistic",
    "MethodsPredictive",
    "Mixture",
    "NegativeBinomial",
    "Normal",
    "Poisson",
    "Predictive",
    "Quantiles",
    "ScipyPredictive",
    "StudentT",
    "Truncated",
    "TwoPieceLaplace",
    "TwoPieceNormal",
    "Uniform",
    "Weibull",
    "WeightedDraws",
    "ZeroInflated",
    "as_predictive",
]
