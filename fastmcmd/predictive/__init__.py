"""Predicted distributions. A new one is a class beside its siblings and a line here."""

from fastmcmd.predictive.base import Predictive
from fastmcmd.predictive.convert import as_predictive
from fastmcmd.predictive.counts import NegativeBinomial, Poisson
from fastmcmd.predictive.draws import Draws
from fastmcmd.predictive.frozen import ScipyPredictive
from fastmcmd.predictive.gaussian import Gaussian

__all__ = [
    "Draws",
    "Gaussian",
    "NegativeBinomial",
    "Poisson",
    "Predictive",
    "ScipyPredictive",
    "as_predictive",
]
