"""Entry points that other packages call: compatible interfaces, scorers, metrics, encoders."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
from typing import Any

import numpy as np
from call_bases import (
    LABELS,
    LEVELS,
    MEAN,
    PROBS,
    SETS,
    SHARES,
    STD,
    WEIGHTS,
    Entry,
    X,
    Y,
    entry,
    parameters_of,
    required,
)

__all__ = ["entries"]


def entries(fm: Any) -> list[Entry]:
    """Return the entry points of the packages that are installed."""
    all_entries = [*_toolbox(), *_probcal(fm), *_sklearn(fm), *_encoders(fm)]
    for name, make in (("skpro", _skpro), ("torchmetrics", _torchmetrics)):
        if importlib.util.find_spec(name) is not None:
            all_entries += make(fm)
    return all_entries


def _toolbox() -> list[Entry]:
    defaults = {
        "y_pred": MEAN, "y_mean": MEAN, "y_std": STD, "y_true": Y, "num_bins": 10, "resolution": 9,
        "scaled": True, "quantile": 0.9, "exp_props": SHARES, "obs_props": SHARES,
        "cali_type": "mean_abs", "x": X[:, 0].copy(),
    }  # fmt: skip
    module = importlib.import_module("fastmcmd.compat.uncertainty_toolbox")
    all_entries = []
    for name in module.__all__:
        function = getattr(module, name)
        if inspect.isfunction(function):

            def quiet(*, _function: Any = function, **options: Any) -> Any:
                try:
                    with contextlib.redirect_stdout(None):
                        return _function(**options)
                finally:  # pictures
                    if "matplotlib.pyplot" in sys.modules:
                        sys.modules["matplotlib.pyplot"].close("all")

            all_entries.append(
                Entry(
                    f"compat.uncertainty_toolbox.{name}", quiet, required(function, defaults),
                    tuple(parameters_of(function)),
                )
            )  # fmt: skip
    return all_entries


def _probcal(fm: Any) -> list[Entry]:
    module = importlib.import_module("fastmcmd.compat.probcal")
    defaults = {
        "grid": X[:5], "x": X, "y": Y, "x_prime": X, "y_prime": -Y, "x_kernel": module.rbf_kernel,
        "y_kernel": module.rbf_kernel, "y_true": Y, "posterior_predictive": fm.Gaussian(MEAN, STD),
    }  # fmt: skip
    defaults["prediction"] = fm.Gaussian(MEAN, STD)
    # compute_mcmd_torch takes tensors and returns tensors; a class holds settings or results.
    names = [name for name in module.__all__ if name[0].islower() and name != "compute_mcmd_torch"]
    return [
        entry(f"compat.probcal.{name}", getattr(module, name), **required(getattr(module, name), defaults))
        for name in names
    ]  # fmt: skip


class _Model:
    """A fitted estimator in the style of scikit-learn."""

    classes_ = np.arange(3)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        return (MEAN, STD) if return_std else SETS[:, :3]

    def predict_proba(self, X: Any) -> Any:
        return PROBS


def _sklearn(fm: Any) -> list[Entry]:
    module = importlib.import_module("fastmcmd.compat.sklearn")
    crps, brier = (
        module.scorer(metric)
        for metric in (fm.metrics.mean_crps, fm.classification.mean_brier_score)
    )
    guarded = ("y", "sample_weight")  # the estimator decides what to do with X
    model = {"estimator": _Model(), "X": X, "sample_weight": WEIGHTS}
    quantiles = module.QuantilePredictions
    return [
        entry("compat.sklearn.scorer", module.scorer, metric=fm.metrics.mean_crps),
        Entry("compat.sklearn.Scorer", crps.__call__, {**model, "y": Y}, guarded),
        Entry("compat.sklearn.Scorer of classes", brier.__call__, {**model, "y": LABELS}, guarded),
        entry("compat.sklearn.QuantilePredictions", quantiles, levels=LEVELS),
    ]


def _encoders(fm: Any) -> list[Entry]:
    module = importlib.import_module("fastmcmd.encoders")
    all_entries = [
        entry(f"encoders.{name}", getattr(module, name), function=_columns)
        for name in ("batched", "Batched")
    ]
    encoder = module.batched(_columns, batch_size=5)
    all_entries.append(Entry("encoders.batched of inputs", encoder, {"inputs": X}, ("inputs",)))
    for name in ("OpenCLIP", "SentenceTransformer", "Torchvision"):  # models are loaded when called
        kind = getattr(module, name)
        names = tuple(one for one in inspect.signature(kind).parameters if one != "device")
        all_entries.append(Entry(f"encoders.{name}", kind, {}, names))
    return all_entries


def _columns(batch: Any) -> Any:
    return np.ones((len(batch), 2))  # its values do not concern the package


def _skpro(fm: Any) -> list[Entry]:
    from skpro.distributions import Normal

    module = importlib.import_module("fastmcmd.compat.skpro")
    right = Normal(MEAN[:, None], STD[:, None])
    metric = module.Metric(fm.metrics.mean_crps)
    return [
        entry("compat.skpro.from_skpro", module.from_skpro, distribution=right),
        entry("compat.skpro.Metric", module.Metric, metric=fm.metrics.mean_crps),
        Entry("compat.skpro.Metric.evaluate", metric.evaluate,
              {"y_true": Y[:, None], "y_pred": right}, ("y_true",)),
    ]  # fmt: skip


def _torchmetrics(fm: Any) -> list[Entry]:
    import torch

    module = importlib.import_module("fastmcmd.compat.torchmetrics")
    pair = (torch.tensor(MEAN), torch.tensor(STD))
    all_entries = []
    for name in ("CRPS", "NLL", "RegressionECE"):
        kind = getattr(module, name, None)
        if kind is None:
            continue

        def update(*, _kind: Any = kind, **batch: Any) -> Any:
            metric = _kind()
            metric.update(**batch)
            return metric.compute()

        arguments = {"preds": pair, "target": torch.tensor(Y)}
        all_entries.append(
            Entry(f"compat.torchmetrics.{name}", update, arguments, ("target", "sample_weight"))
        )
    return all_entries
