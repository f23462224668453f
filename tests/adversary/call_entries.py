"""One valid call of every public entry point, listed by introspection."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import call_integrations
import numpy as np
from call_bases import (
    COUNTS,
    LABELS,
    LEVELS,
    MEAN,
    PROBS,
    SETS,
    SHARES,
    STD,
    WEIGHTS,
    Entry,
    N,
    R,
    X,
    Y,
    entry,
    method,
    parameters_of,
    path_of,
    required,
)

__all__ = ["entries", "unlisted"]


def families(fm: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    positive = np.linspace(0.5, 2.0, N)
    return {
        "Beta": (fm.Beta, {"a": positive, "b": positive + 1}),
        "Categorical": (fm.Categorical, {"probs": PROBS}),
        "DoublePoisson": (fm.DoublePoisson, {"mean": positive, "phi": positive}),
        "Draws": (fm.Draws, {"array": SETS}),
        "Gamma": (fm.Gamma, {"shape": positive, "rate": positive}),
        "Gaussian": (fm.Gaussian, {"mean": MEAN, "std": STD}),
        "Laplace": (fm.Laplace, {"loc": MEAN, "scale": STD}),
        "LogNormal": (fm.LogNormal, {"mu": MEAN, "sigma": STD}),
        "Mixture": (fm.Mixture, {"components": (fm.Gaussian(MEAN, STD), fm.Gaussian(-MEAN, STD))}),
        "NegativeBinomial": (fm.NegativeBinomial, {"mean": positive, "dispersion": positive}),
        "Poisson": (fm.Poisson, {"mean": positive}),
        "Quantiles": (fm.Quantiles, {"levels": LEVELS, "values": np.sort(SETS[:, :3], axis=1)}),
        "StudentT": (fm.StudentT, {"df": positive + 3, "loc": MEAN, "scale": STD}),
        "Truncated": (fm.Truncated, {"base": fm.Gaussian(MEAN, STD), "low": -2.0, "high": 2.0}),
        "TwoPieceLaplace": (
            fm.TwoPieceLaplace, {"loc": MEAN, "lower_scale": STD, "upper_scale": positive},
        ),
        "TwoPieceNormal": (
            fm.TwoPieceNormal, {"loc": MEAN, "lower_scale": STD, "upper_scale": positive},
        ),
        "Uniform": (fm.Uniform, {"low": MEAN - 1, "high": MEAN + 1}),
        "Binomial": (fm.Binomial, {"n": np.full(N, 9.0), "p": positive / 4}),
        "Exponential": (fm.Exponential, {"rate": positive}),
        "GeneralizedPareto": (
            fm.GeneralizedPareto, {"shape": positive / 9, "scale": positive, "loc": MEAN},
        ),
        "Logistic": (fm.Logistic, {"loc": MEAN, "scale": STD}),
        "Weibull": (fm.Weibull, {"shape": positive, "scale": positive}),
        "WeightedDraws": (fm.WeightedDraws, {"array": SETS, "weights": np.abs(SETS)}),
        "ZeroInflated": (
            fm.ZeroInflated, {"base": fm.Poisson(positive), "probability": np.full(N, 0.2)},
        ),
    }  # fmt: skip


def _predictive(fm: Any) -> list[Entry]:
    entries = []
    for name, (kind, base) in families(fm).items():
        entries.append(entry(name, kind, **base))

        def make(kind: Any = kind, base: Any = base) -> Any:
            return kind(**base)

        y = {"Categorical": LABELS, "Beta": SHARES, "Gamma": SHARES + 1, "LogNormal": SHARES + 1}
        y = y.get(name, COUNTS if make().discrete else Y)
        for attribute in ("cdf", "sf", "log_prob", "crps", "cdf_below"):
            if attribute == "log_prob" and name in ("Draws", "Quantiles", "WeightedDraws"):
                continue  # no density
            entries.append(method(f"{name}.{attribute}", make, attribute, y=y))
        entries.append(method(f"{name}.quantile", make, "quantile", level=LEVELS))
        entries.append(method(f"{name}.sample", make, "sample", size=4, random_state=0))
        entries.append(
            method(
                f"{name}.expected_kernel", make, "expected_kernel",
                kernel=fm.RBF(0.5), points=np.linspace(-1, 1, 4)[:, None],
            )
        )  # fmt: skip
    entries.append(entry("Gamma.from_mean", fm.Gamma.from_mean, mean=STD, dispersion=STD))
    return entries


def _map(fm: Any) -> Any:
    return fm.compare({"a": fm.Gaussian(MEAN, STD), "b": fm.Gaussian(MEAN, 2 * STD)}, Y, X).map(
        simulations=19
    )


def _regions(fm: Any) -> Any:
    region = {"spread": "", "p_value": 0.01, "p_adjusted": 0.01, "rows": 40, "tested": 20}
    one = fm.inference.regions.WeakRegion("x > 0", cce=0.3, null_cce=0.1, **region)
    return fm.inference.regions.WeakRegions((one,), 0.05, (((0, True, 0.0),),), ("x",))


def _monitored(fm: Any) -> Any:
    monitor = _monitor(fm)
    monitor.update(X, Y)
    return monitor


def _monitor(fm: Any) -> Any:
    return fm.Monitor(np.tile(X, (2, 1)), np.tile(Y, 2), simulations=19)


def _kernels(fm: Any) -> list[Entry]:
    base = {"value": 1.0, "left": fm.RBF(0.5), "right": fm.Linear(), "function": _product}
    kinds = "RBF Constant Cosine CustomKernel Delta Laplacian Linear Matern Polynomial Product Sum"
    entries = []
    for name in kinds.split():
        kind = getattr(fm, name)
        entries.append(entry(name, kind, **required(kind, base)))
    entries.append(
        entry("kernels.kernel_from_dict", fm.kernels.kernel_from_dict, described=fm.RBF(0.5).to_dict())
    )  # fmt: skip
    return entries


def _product(a: Any, b: Any) -> Any:
    return (a * b).sum()


def _core(fm: Any) -> list[Entry]:
    right = fm.Gaussian(MEAN, STD)
    data = {"x": X, "y": Y, "prediction": right}
    fitted = fm.ConditionalCongruence().fit(X, Y, right)
    estimator = fm.ConditionalCongruence
    cases = [
        entry("cce", fm.cce, **data),
        entry("mcmd", fm.mcmd, grid=X[:5], x=X, y=Y, x_prime=X, y_prime=-Y),
        entry("plan", fm.plan, x=X),
        entry("evaluate", fm.evaluate, y=Y, prediction=right),
        entry("evaluate with x", fm.evaluate, y=Y, prediction=right, x=X),
        entry("compare", fm.compare, models={"a": right}, y=Y),
        entry("downsampled_cce", fm.downsampled_cce, **data, size=12, repeats=2, random_state=0),
        entry("ConditionalCongruence", lambda **o: estimator(**o).fit(X, Y, right).result_.values),
        method("ConditionalCongruence.fit", estimator, "fit", **data),
        method("ConditionalCongruence.fit_each", estimator, "fit_each", x=X, y=Y,
               predictions={"a": right}),
        method("ConditionalCongruence.evaluate", lambda: fitted, "evaluate", x_new=X),
        method("ConditionalCongruence.score_samples", lambda: fitted, "score_samples", x_new=X),
        method("ConditionalCongruence.witness", lambda: fitted, "witness", x_new=X,
               y_grid=np.linspace(-1, 1, 4)),
        method("ConditionalCongruence.save", lambda: fitted, "save", path=path_of("saved.npz")),
        method("Result.quantile", lambda: fitted.result_, "quantile", level=LEVELS),
        method("Result.to_frame", lambda: fitted.result_, "to_frame"),
        entry("congruence_test", fm.congruence_test, **data, simulations=19, random_state=0),
        entry("diagnose", fm.diagnose, **data, random_state=0),
        entry("weak_regions", fm.weak_regions, columns=np.tile(X, (2, 1)), x=np.tile(X, (2, 1)),
              y=np.tile(Y, 2), prediction=fm.Gaussian(np.tile(MEAN, 2), np.tile(STD, 2)),
              simulations=19),
        entry("verdict", fm.verdict, **data, random_state=0),
        entry("rejection_curve", fm.rejection_curve, score=STD, loss=Y**2),
        entry("Monitor", fm.Monitor, x=np.tile(X, (2, 1)), y=np.tile(Y, 2), simulations=19),
        method("Monitor.update", lambda: _monitor(fm), "update", x=X, y=Y),
        method("Monitor.importance_weights", lambda: _monitor(fm), "importance_weights", x=X),
        entry("select_kernel", fm.select_kernel, x=X, y=Y),
        entry("kernel_report", fm.kernel_report, **data),
        entry("Scaled", fm.Scaled, inner=fm.RBF(0.5), scales=(1.0, 2.0)),
        entry("set_num_threads", _threads, count=1),
        entry("load", fm.load, path=path_of("saved.npz")),
    ]  # fmt: skip
    fitted.save(path_of("saved.npz"))
    cases[7] = Entry(cases[7].name, cases[7].function, {}, tuple(parameters_of(estimator)))
    return cases


def _threads(count: Any) -> None:
    import fastmcmd as fm

    try:
        fm.set_num_threads(count)
    finally:
        fm.set_num_threads(1)


def _metrics(fm: Any) -> list[Entry]:
    pairs = np.stack([Y, -Y], axis=1)
    draws = R.normal(size=(N, 6, 2))
    entries = []
    for name in fm.metrics.__all__:
        function = getattr(fm.metrics, name)
        if inspect.isclass(function):
            continue
        vector = "energy" in name or "variogram" in name
        base = {
            "y": pairs if vector else Y,
            "prediction": fm.Draws(draws) if vector else fm.Gaussian(MEAN, STD),
            "lower": Y - 1,
            "upper": Y + 0.5,
            "event": (LABELS > 0) + 0.0,
            "times": [0.0, 0.5],
            "thresholds": [0.0, 0.5],
            "threshold": 0.0,
            "draws": SETS,
            "first": fm.Gaussian(MEAN, STD),
            "second": fm.Gaussian(-MEAN, STD),
        }
        if any(word in name for word in ("ensemble", "error_spread", "rank_histogram")):
            entries.append(
                entry(
                    f"metrics.{name}", function, **required(function, base | {"prediction": SETS})
                )
            )
            continue
        entries.append(entry(f"metrics.{name}", function, **required(function, base)))
        if not vector and "prediction" in entries[-1].base and "lower" not in entries[-1].base:
            base["prediction"] = (MEAN, STD)
            entries.append(entry(f"metrics.{name} of arrays", function, **required(function, base)))
    entries += [entry(name, getattr(fm, name), y=Y, prediction=(MEAN, STD))
              for name in ("crps", "ece", "ence", "nll", "pit_values", "regression_ece")]  # fmt: skip
    return entries


def _classification(fm: Any) -> list[Entry]:
    base = {"y": LABELS, "p": PROBS, "p_in": PROBS, "p_out": PROBS[::2].copy()}
    base |= {"first": PROBS, "second": PROBS[::-1].copy()}
    binary = {"y": (LABELS > 0) + 0.0} | dict.fromkeys(
        ("p", "p_in", "p_out", "first", "second"), SHARES
    )
    entries = []
    for name in fm.classification.__all__:
        function = getattr(fm.classification, name)
        if inspect.isclass(function):
            continue
        for label, label_arguments in (("", base), (" binary", binary)):
            if name == "murphy_difference" and not label:
                continue  # for two classes only
            arguments = required(function, label_arguments)
            if "k" in parameters_of(function):
                arguments["k"] = 2
            entries.append(entry(f"classification.{name}{label}", function, **arguments))
    return entries


def _recalibration(fm: Any) -> list[Entry]:
    right = fm.Gaussian(MEAN, STD)
    entries = []
    for name in fm.recalibration.__all__:
        kind = getattr(fm.recalibration, name)
        if not hasattr(kind, "fit") or name == "Recalibrator":
            continue
        labels, first = np.arange(N) % 5 < 5 * SHARES, next(iter(parameters_of(kind.fit)))
        data = {
            "TemperatureScaling": {"logits": np.log(PROBS), "y": LABELS},
            "VectorScaling": {"logits": np.log(PROBS), "y": LABELS},
            "PlattScaling": {"logits": SHARES, "y": labels},
            "BayesianBinning": {"p": SHARES, "y": labels},
            "BetaCalibration": {"p": SHARES, "y": labels},
            "NearIsotonicEnsemble": {"p": SHARES, "y": labels},
            "VennAbers": {"scores": SHARES, "y": labels},
            "MondrianIntervals": {"prediction": right, "y": Y, "groups": LABELS},
        }.get(name, {"prediction": right, "y": Y})
        inputs = {"x": X} if getattr(kind, "needs_inputs", False) else {}

        def run(
            *, _kind: Any = kind, _data: Any = data, _inputs: Any = inputs, **options: Any
        ) -> Any:
            return _kind(**options).fit(**_data, **_inputs)

        entries.append(
            Entry(f"recalibration.{name}", run, {}, tuple(parameters_of(kind.__init__)))
        )  # fmt: skip
        entries.append(method(f"recalibration.{name}.fit", kind, "fit", **data, **inputs))
        fitted = kind().fit(**data, **inputs)
        if "groups" in data:
            inputs = {"groups": LABELS}
        for attribute in ("transform", "interval"):
            if hasattr(fitted, attribute):
                entries.append(
                    method(
                        f"recalibration.{name}.{attribute}",
                        lambda f=fitted: f, attribute, **{first: data[first]}, **inputs,
                    )
                )  # fmt: skip
        path = path_of(f"{name}.npz")
        entries.append(method(f"recalibration.{name}.save", lambda f=fitted: f, "save", path=path))
    fm.recalibration.StdScaling().fit(right, Y).save(path_of("recalibrator.npz"))
    entries.append(
        entry("recalibration.load", fm.recalibration.load, path=path_of("recalibrator.npz"))
    )
    mapping = fm.recalibration.IsotonicCDF().fit(right, Y).transform(right)
    for attribute in ("cdf", "crps"):
        entries.append(method(f"Recalibrated.{attribute}", lambda: mapping, attribute, y=Y))
    entries.append(method("Recalibrated.quantile", lambda: mapping, "quantile", level=LEVELS))
    return entries


def _streaming(fm: Any) -> list[Entry]:
    entries = []
    for name in fm.streaming.__all__:
        kind = getattr(fm.streaming, name)
        if name in ("Accumulator", "MeanOf", "CCE", "CongruenceEstimate", "SlidingWindow"):
            continue
        gather = parameters_of(kind.gather)
        vector = name in ("EnergyScore", "VariogramScore")
        candidates = {
            "y": LABELS if "p" in gather else np.stack([Y, -Y], axis=1) if vector else Y,
            "prediction": fm.Draws(R.normal(size=(N, 6, 2))) if vector else fm.Gaussian(MEAN, STD),
            "p": PROBS, "p_in": PROBS, "p_out": PROBS,
        }  # fmt: skip
        arguments = required(kind.gather, candidates)
        options = {"limits": (0.1, 1.0)} if name in ("ENCE", "UCE", "ENCECurve") else {}
        options |= {"binning": "width"} if options else {}
        options |= {"k": 2} if name == "TopKAccuracy" else {}
        options |= {"binning": "width", "limits": (0.1, 4.0)} if name == "QCE" else {}

        def make(kind: Any = kind, options: Any = options) -> Any:
            return kind(**options)

        def run(*, _kind: Any = kind, _arguments: Any = arguments, **options: Any) -> Any:
            return _kind(**options).update(**_arguments).compute()

        names = tuple(parameters_of(kind.__init__))
        options = {key: value for key, value in options.items() if key in names}
        entries.append(Entry(f"streaming.{name}", run, options, names))

        def update(*, _kind: Any = kind, _options: Any = options, **batch: Any) -> Any:
            return _kind(**_options).update(**batch).compute()

        entries.append(Entry(f"streaming.{name}.update", update, arguments, tuple(gather)))
    entries.append(
        method("streaming.CRPS.merge", fm.streaming.CRPS, "merge", other=fm.streaming.CRPS())
    )
    return entries + _congruence(fm)


def _congruence(fm: Any) -> list[Entry]:
    """Entries of the accumulator of the CCE: constructor, batches, points, merging and windows."""
    kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5)}
    batch = {"x": X, "y": Y, "prediction": fm.Gaussian(MEAN, STD)}
    kind = fm.streaming.CCE

    def make(**options: Any) -> Any:
        return kind(**{**kernels, "landmarks": 20, "random_state": 0, **options})

    def filled() -> Any:
        return make().update(**batch)

    def run(**options: Any) -> Any:
        return kind(**options).update(**batch).compute()

    def update(**batch: Any) -> Any:
        return make().update(**batch).compute()

    def window(**options: Any) -> Any:
        return fm.streaming.SlidingWindow(**options).update(**batch).compute()

    names = tuple(parameters_of(kind.__init__))
    return [
        Entry("streaming.CCE", run, kernels, names),
        Entry("streaming.CCE.update", update, batch, tuple(parameters_of(kind.update))),
        method("streaming.CCE.score_samples", filled, "score_samples", x=X),
        method("streaming.CCE.error_bounds", filled, "error_bounds", x=X),
        method("streaming.CCE.witness", filled, "witness", x=X, y=Y[:5]),
        method("streaming.CCE.merge", filled, "merge", other=make()),
        method("streaming.CCE.subtract", filled, "subtract", other=make()),
        Entry(
            "streaming.SlidingWindow", window, {"accumulator": make(), "batches": 2},
            tuple(parameters_of(fm.streaming.SlidingWindow.__init__)),
        ),
    ]  # fmt: skip


def _plots(fm: Any) -> list[Entry]:
    import matplotlib

    from fastmcmd.inference.missing_mass import missing_mass

    matplotlib.use("Agg")
    plots = importlib.import_module("fastmcmd.plots")
    right = fm.Gaussian(MEAN, STD)
    candidates = {
        "values": np.abs(Y), "x": X, "y": Y, "histogram": fm.metrics.pit_histogram(Y, right),
        "curve": fm.metrics.reliability_curve(Y, right), "evaluations": fm.evaluate(Y, right, X),
        "result": fm.downsampled_cce(X, Y, right, 12, repeats=2),
        "test": fm.congruence_test(X, Y, right, simulations=19, random_state=0),
        "diagnosed": fm.diagnose(X, Y, right, random_state=0),
        "choice": fm.select_kernel(X, Y), "report": fm.kernel_report(X, Y, right),
        "monitor": _monitored(fm), "conclusion": None, "difference": None, "regions": None,
        "prediction": right, "groups": fm.metrics.adversarial_group_calibration(
            Y, right, draws=3, random_state=0
        ),
    }  # fmt: skip
    special = {
        "cce_over_inputs": {"x": X[:, 0].copy()},
        "isotonic_reliability": {
            "curve": fm.metrics.exceedance_reliability(Y, right, 0.0, resamples=19)
        },
        "murphy": {"curve": fm.metrics.murphy_curve(Y, right)},
        "pit_ecdf": {"curve": fm.metrics.pit_ecdf(Y, right)},
        "rank_histogram": {"histogram": fm.metrics.rank_histogram(Y, SETS)},
        "missing_mass": {"curve": missing_mass(X, Y, right, X[0], np.linspace(-2, 2, 9))},
        "over_inputs": {"x": X[:, 0].copy()},
        "rejection": {"curve": fm.rejection_curve(STD, Y**2)},
        "variance": {"curve": fm.metrics.ence_curve(Y, right)},
        "verdict": {"conclusion": fm.verdict(X, Y, right, random_state=0)},
        "difference_map": {"difference": _map(fm)},
        "weak_regions": {"regions": _regions(fm)},
    }
    entries = []
    for name in plots.__all__:
        function = getattr(plots, name)
        arguments = required(function, candidates) | special.get(name, {})

        entries.append(
            Entry(f"plots.{name}", _closed(function), arguments, tuple(parameters_of(function)))
        )
    return entries + _displays(right)


def _closed(function: Any) -> Any:
    """Return the function, wrapped so that all figures are closed after it."""

    def closed(**options: Any) -> None:
        import matplotlib.pyplot as plt

        try:
            function(**options)
        finally:
            plt.close("all")

    return closed


def _displays(right: Any) -> list[Entry]:
    module = importlib.import_module("fastmcmd.compat.displays")
    entries = []
    for name in module.__all__:
        kind = getattr(module, name)
        if kind is not module.Display:
            outcomes = (
                {"y": LABELS, "prediction": PROBS}
                if kind.of_classes
                else {"y": Y, "prediction": right}
            )
            weighted = "sample_weight" in inspect.signature(kind.compute).parameters
            base = {**outcomes, **({"sample_weight": WEIGHTS} if weighted else {})}
            # Messages on probabilities name p, as the function of the curve does.
            replaced = (
                tuple(one for one in base if one != "prediction")
                if kind.of_classes
                else tuple(base)
            )
            entries.append(
                Entry(f"compat.sklearn.{name}", _closed(kind.from_predictions), base, replaced)
            )
    return entries


def entries(plots: bool = True) -> dict[str, Entry]:
    """Return all entry points by name."""
    import fastmcmd as fm

    importlib.import_module("fastmcmd.kernels")
    groups = [
        _core(fm), _predictive(fm), _kernels(fm), _metrics(fm), _classification(fm),
        _recalibration(fm), _streaming(fm), call_integrations.entries(fm),
    ]  # fmt: skip
    if plots:
        groups.append(_plots(fm))
    return {one.name: one for group in groups for one in group if one.parameters}


def unlisted(names: set[str]) -> list[str]:
    """Return public names without an entry that are no result, error or module."""
    import fastmcmd as fm

    no_calls = {
        "Comparison", "DownsampledResult", "Evaluation", "Info", "Kernel", "Plan", "Predictive",
        "Result", "Accumulator", "MeanOf", "MonotoneMap", "RecalibratedAtoms", "RecalibratedCDF",
        "Recalibrator", "Rescaled", "GroupCalibration", "PITHistogram", "ReliabilityCurve",
        "VarianceCurve", "AccuracyAboveConfidence", "AreaEstimate", "BrierDecomposition",
        "ClassificationEvaluation", "UncertaintyHistogram", "get_num_threads", "Cosine", "Delta",
        "Linear", "Normal", "StdScaling", "TemperatureScaling", "VectorScaling", "BayesianBinning",
        "BetaCalibration", "NearIsotonicEnsemble", "VennAbers", "compute_mcmd_torch",
        "CongruenceTest", "Diagnosis", "WeakRegion", "WeakRegions", "RejectionCurve", "KernelChoice",
        "CCEResults", "CCESettings", "CalibrationEvaluator", "CalibrationEvaluatorSettings",
        "CalibrationResults", "DatasetType", "ECEResults", "ECESettings",
        "KernelReport", "MonitorUpdate", "DifferenceMap", "TiltedCDF", "TiltedCounts",
        "RegionVerdict", "Remedy", "Verdict", "CongruenceEstimate", "Discrimination",
        "Display", "IsotonicReliability", "MurphyCurve", "MurphyDifference", "PITEcdf", "ROCCurve",
        "RankHistogram",
    }  # fmt: skip
    entry_names = {name.split(" ")[0] for name in names}
    missing = []
    modules = [fm, fm.metrics, fm.classification, fm.recalibration, fm.streaming]
    compat = ("uncertainty_toolbox", "probcal", "sklearn")
    modules += [importlib.import_module(f"fastmcmd.compat.{name}") for name in compat]
    if any(name.startswith("plots.") for name in names):
        modules.append(importlib.import_module("fastmcmd.plots"))
    modules.append(importlib.import_module("fastmcmd.encoders"))
    for module in modules:
        prefix = module.__name__.removeprefix("fastmcmd").lstrip(".")
        for name in module.__all__:
            value = getattr(module, name)
            full_name = f"{prefix}.{name}" if prefix else name
            is_call = callable(value) and not (
                isinstance(value, type) and issubclass(value, (Exception, Warning))
            )
            if is_call and full_name not in entry_names and name not in no_calls:
                missing.append(full_name)
    return missing
