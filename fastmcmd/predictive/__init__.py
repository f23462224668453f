"""Predicted distributions. A new one is a class beside its siblings and a line here."""

from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.beta import Beta
from fastmcmd.predictive.by_methods import MethodsPredictive
from fastmcmd.predictive.convert import as_predictive
from fastmcmd.predictive.counts import NegativeBinomial, Poisson
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.frozen import ScipyPredictive
from fastmcmd.predictive.gaussian import Gaussian
from fastmcmd.predictive.location_scale import Laplace, StudentT, Uniform
from fastmcmd.predictive.positive import Gamma, LogNormal

__all__ = [
    "Beta",
    "Draws",
    "Gamma",
    "Gaussian",
    "Laplace",
    "LogNormal",
    "MethodsPredictive",
    "NegativeBinomial",
    "Poisson",
    "Predictive",
    "ScipyPredictive",
    "StudentT",
    "Uniform",
    "as_predictive",
]
