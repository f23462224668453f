"""Seconds of the first call of every public function, each in a new process.

``python -m benchmarks.first_calls [--only WORD] [--from SECONDS] [--part 1/8]``. Caches of Numba and
matplotlib are empty, n = 1,000. Bytecode is compiled, as pip does when it installs a package. What a call
needs is prepared before, in the same process, and timed apart, and so is the import. `uncovered` lists
public functions without a case.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile

DATA = """
import time
start = time.perf_counter()
import numpy as np
import fastmcmd as fm
imported = time.perf_counter() - start
from pathlib import Path
from fastmcmd import classification, datasets, metrics, plots, recalibration, streaming
rng = np.random.default_rng(0)
n = 1000
x = rng.normal(size=(n, 2))
y = x[:, 0] + rng.normal(size=n)
std = rng.uniform(0.8, 1.5, n)
g = fm.Gaussian(x[:, 0], std)
late = fm.Gaussian(x[:, 0] + 0.3, std)
draws = fm.Draws(x[:, :1] + rng.normal(size=(n, 20)))
y2 = x + rng.normal(size=(n, 2))
vectors = fm.Draws(x[:, None, :] + rng.normal(size=(n, 10, 2)))
times = rng.exponential(size=n) + 0.01
event = rng.random(n) < 0.7
lifetime = fm.Exponential(rng.uniform(0.5, 2, n))
count = rng.poisson(4, n)
p = rng.dirichlet(np.ones(4), n)
q = rng.dirichlet(np.ones(4), n)
labels = (p.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
p1 = rng.random(n)
y1 = (rng.random(n) < p1).astype(int)
"""

# Arguments after (y, prediction) or in their place, of the functions that need some.
_METRICS = {
    "concordance_index": "times, lifetime, event=event",
    "discrimination": "y, g, threshold=0.5",
    "energy_score": "y2, vectors",
    "ensemble_log_score": "y, draws",
    "error_spread_score": "y, draws",
    "exceedance_reliability": "y, g, 0.5",
    "integrated_ipcw_brier_score": "times, lifetime, event=event, times=[0.3, 0.5, 1.0]",
    "interval_score_from": "y, y - 1, y + 1",
    "ipcw_brier_score": "times, lifetime, event=event, times=[0.3, 0.5]",
    "kaplan_meier": "times, event",
    "kernel_density": "draws.array",
    "linearized_log_score": "y, g",
    "murphy_difference": "y, g, late",
    "rank_histogram": "y, draws",
    "roc_curve": "y, g, threshold=0.5",
    "survival_crps": "times, lifetime, event=event",
    "survival_log_score": "times, lifetime, event=event",
    "threshold_brier_score": "y, draws, thresholds=[0.0, 0.5]",
    "variogram_score": "y2, vectors",
    "weighted_crps": "y, g, lower=0.0",
    "weighted_energy_score": "y2, vectors, chaining=np.abs",
    "weighted_gaussian_kernel_score": "y, draws, lower=0.0",
    "weighted_variogram_score": "y2, vectors, chaining=np.abs",
    "gaussian_kernel_score": "y, draws",
    "censored_likelihood_score": "y, g, lower=0.0",
}
_CLASSIFICATION = {
    "confidence": "p",
    "entropy": "p",
    "isotonic_reliability": "y1, p1",
    "murphy_curve": "y1, p1",
    "murphy_difference": "y1, p1, 1 - p1",
    "ood_auroc": "p, q",
    "top_k_accuracy": "labels, p, k=2",
    "uncertainty_histogram": "p, q",
}
_FAMILIES = {
    "Beta": ("fm.Beta(rng.uniform(0.5, 5, n), rng.uniform(0.5, 5, n))", "rng.random(n)"),
    "Binomial": ("fm.Binomial(10, rng.random(n))", "count"),
    "Categorical": ("fm.Categorical(p)", "labels"),
    "DoublePoisson": ("fm.DoublePoisson(rng.uniform(2, 6, n), rng.uniform(0.5, 2, n))", "count"),
    "Draws": ("draws", "y"),
    "Exponential": ("lifetime", "times"),
    "Gamma": ("fm.Gamma(rng.uniform(0.5, 5, n), rng.uniform(0.5, 2, n))", "times"),
    "Gaussian": ("g", "y"),
    "GeneralizedPareto": ("fm.GeneralizedPareto(rng.uniform(0, 0.3, n), std)", "times"),
    "Laplace": ("fm.Laplace(x[:, 0], std)", "y"),
    "LogNormal": ("fm.LogNormal(x[:, 0], std)", "times"),
    "Logistic": ("fm.Logistic(x[:, 0], std)", "y"),
    "Mixture": ("fm.Mixture([g, late], np.full((n, 2), 0.5))", "y"),
    "NegativeBinomial": (
        "fm.NegativeBinomial(rng.uniform(2, 6, n), rng.uniform(0.3, 0.8, n))",
        "count",
    ),
    "Poisson": ("fm.Poisson(rng.uniform(2, 6, n))", "count"),
    "Quantiles": (
        "fm.Quantiles(np.arange(1, 20) / 20, g.quantile(np.arange(1, 20) / 20))",
        "y",
    ),
    "StudentT": ("fm.StudentT(rng.uniform(2.5, 8, n), x[:, 0], std)", "y"),
    "Truncated": ("fm.Truncated(g, low=-5.0, high=5.0)", "y"),
    "Uniform": ("fm.Uniform(x[:, 0] - 4, x[:, 0] + 4)", "y"),
    "Weibull": ("fm.Weibull(rng.uniform(0.8, 2, n), std)", "times"),
    "WeightedDraws": ("fm.WeightedDraws(rng.normal(size=(n, 20)), rng.random((n, 20)))", "y"),
    "ZeroInflated": ("fm.ZeroInflated(fm.Poisson(rng.uniform(2, 6, n)), 0.2)", "count"),
}
_WITHOUT_DENSITY = ("Quantiles", "Draws", "WeightedDraws")
_METHODS = {
    "cdf": "cdf({y})",
    "log_prob": "log_prob({y})",
    "crps": "crps({y})",
    "quantile": "quantile([0.1, 0.9])",
    "sample": "sample(10, 0)",
    "expected_kernel": "expected_kernel(fm.RBF(1.0), np.linspace(0, 1, 50))",
}
_RECALIBRATORS = {
    "BetaCalibration": "p1, y1",
    "PlattScaling": "p1, y1",
    "VennAbers": "p1, y1",
    "BayesianBinning": "p1, y1",
    "NearIsotonicEnsemble": "p1, y1",
    "TemperatureScaling": "np.log(p), labels",
    "VectorScaling": "np.log(p), labels",
    "ConformalIntervals": "g, y",
    "MondrianIntervals": "g, y, y1",
}
_STREAMS = {
    "AUROC": "y1, p1",
    "EnergyScore": "y2, vectors",
    "VariogramScore": "y2, vectors",
    "UncertaintyHistogram": "p, q",
}
_OF_CLASSES = ("Accuracy", "Brier", "Classification", "Classwise", "Confusion", "Ranked", "TopK")
_LATER = {"CCE", "Accumulator", "MeanOf", "SlidingWindow", "CongruenceEstimate"}
# Results with `table`, `plot` and perhaps more: how to get one.
_RESULTS = {
    "Comparison": "fm.compare({'a': g, 'b': late}, y, x)",
    "CongruenceTest": "fm.congruence_test(x, y, g)",
    "Diagnosis": "fm.diagnose(x, y, g)",
    "DifferenceMap": "fm.compare({'a': g, 'b': late}, y, x).map()",
    "DownsampledResult": "fm.downsampled_cce(x, y, g, 200)",
    "Evaluation": "fm.evaluate(y, g, x=x)",
    "KernelChoice": "fm.select_kernel(x, y)",
    "KernelReport": "fm.kernel_report(x, y, g)",
    "Monitor": "fm.Monitor(x, y, g)",
    "RejectionCurve": "fm.rejection_curve(std, np.abs(y - x[:, 0]), std=std)",
    "Result": "fm.cce(x, y, g)",
    "Verdict": "fm.verdict(x, y, late)",
    "WeakRegions": "fm.weak_regions(x, x, y, late)",
    "GroupCalibration": "metrics.adversarial_group_calibration(y, g)",
    "IsotonicReliability": "metrics.exceedance_reliability(y, g, 0.5)",
    "MurphyCurve": "metrics.murphy_curve(y, g)",
    "MurphyDifference": "metrics.murphy_difference(y, g, late)",
    "PITEcdf": "metrics.pit_ecdf(y, g)",
    "PITHistogram": "metrics.pit_histogram(y, g)",
    "RankHistogram": "metrics.rank_histogram(y, draws)",
    "ReliabilityCurve": "metrics.reliability_curve(y, g)",
    "VarianceCurve": "metrics.ence_curve(y, g)",
    "classification.ReliabilityCurve": "classification.reliability_curve(labels, p)",
    "classification.BrierDecomposition": "classification.brier_decomposition(y1, p1)",
    "classification.ClassificationEvaluation": "classification.evaluate(labels, p)",
}
_PLOTS = {
    "cce_histogram": "plots.cce_histogram(std)",
    "cce_over_inputs": "plots.cce_over_inputs(x[:, 0], std)",
    "cce_projection": "plots.cce_projection(x, std)",
    "cumulative": "plots.cumulative(std)",
    "fan": "plots.fan(y, g, x[:, 0])",
    "histogram": "plots.histogram(std)",
    "ordered_intervals": "plots.ordered_intervals(y, g)",
    "over_inputs": "plots.over_inputs(x[:, 0], std)",
    "over_plane": "plots.over_plane(x, std)",
    "project": "plots.project(x)",
    "residuals": "plots.residuals(y, g)",
    "sharpness": "plots.sharpness(y, g)",
    "witness": "plots.witness(np.linspace(-1, 1, 50), np.linspace(-1, 1, 50))",
}
_FILE = (
    "fm.evaluate(y, g, x=x); np.savez('f.npz', x=x, y=y, mean=x[:, 0], std=std, b=x[:, 0] + 0.3)"
)
_GAUSSIAN = "'--y', 'y', '--x', 'x', '--prediction', 'gaussian:mean=mean,std=std'"
_COMMANDS = {
    "evaluate": f"'f.npz', {_GAUSSIAN}",
    "evaluate --report": f"'f.npz', {_GAUSSIAN}, '--report', 'r.html'",
    "compare": "'f.npz', '--y', 'y', '--x', 'x', '--model', 'a=gaussian:mean=mean,std=std',"
    " '--model', 'b=gaussian:mean=b,std=std'",
    "test": f"'f.npz', {_GAUSSIAN}",
    "diagnose": f"'f.npz', {_GAUSSIAN}",
    "select": "'f.npz', '--y', 'y', '--x', 'x'",
    "recalibrate": f"'f.npz', {_GAUSSIAN}, '--save', 'r.npz'",
    "plan": "'--shape', '1000,2'",
    "convert": "'f.npz', 'f.csv'",
    "info": "",
    "demo": "'--output', 'd.png'",
    "completion": "'bash'",
}


def cases():
    """Return, by name, the preparation and the call."""
    table = {
        "cce": ("", "fm.cce(x, y, g)"),
        "cce, at": ("", "fm.cce(x, y, g, at=x[:100])"),
        "cce, lowrank": ("", "fm.cce(x, y, g, solver='lowrank')"),
        "cce, cg": ("", "fm.cce(x, y, g, solver='cg')"),
        "cce, classes": ("", "fm.cce(x, labels, fm.Categorical(p))"),
        "mcmd": ("", "fm.mcmd(x, x, y, x, y + 1)"),
        "plan": ("", "fm.plan(x, y=y)"),
        "load": ("fm.ConditionalCongruence().fit(x, y, g).save('c.npz')", "fm.load('c.npz')"),
        "set_num_threads": ("", "fm.set_num_threads(2)"),
        "get_num_threads": ("", "fm.get_num_threads()"),
        "ConditionalCongruence.fit": ("", "fm.ConditionalCongruence().fit(x, y, g)"),
        "Monitor.update": ("m = fm.Monitor(x, y, g)", "m.update(x, y, g)"),
        "evaluate, n_boot": ("", "fm.evaluate(y, g, x=x, n_boot=100)"),
        "evaluate, no x": ("", "fm.evaluate(y, g)"),
        "streaming.CCE": (
            "",
            "streaming.CCE(fm.RBF(1.0), fm.RBF(1.0)).update(x, y, g).compute()",
        ),
        "streaming.MeanOf": ("", "streaming.MeanOf(metrics.crps).update(y, g).compute()"),
    }
    table["ConditionalCongruence.evaluate"] = (
        "c = fm.ConditionalCongruence().fit(x, y, g)",
        "c.evaluate(x)",
    )
    for name in ("crps", "ece", "ence", "nll", "pit_values", "regression_ece"):
        table[name] = "", f"fm.{name}(y, g)"
    for name in (
        "Constant(1.0) + fm.RBF(1.0)", "Cosine()", "CustomKernel(lambda u, v: u[0] * v[0])", "Delta()",
        "Laplacian(1.0)", "Linear()", "Matern()", "Polynomial()",
    ):  # fmt: skip
        table[f"cce, x_kernel={name.split('(')[0]}"] = "", f"fm.cce(x, y, g, x_kernel=fm.{name})"
    for module, special, usual in (
        ("metrics", _METRICS, "y, g"),
        ("classification", _CLASSIFICATION, "labels, p"),
    ):
        for name in _functions(module):
            arguments = special.get(name) or special.get(name.removeprefix("mean_"), usual)
            table[f"{module}.{name}"] = "", f"{module}.{name}({arguments})"
    for name in _functions("datasets"):
        extra = "'gaussian', n" if name == "equal_moments" else "n"
        table[f"datasets.{name}"] = "", f"datasets.{name}({extra})"
    for name, (source, outcomes) in _FAMILIES.items():
        prepare = f"d = {source}; z = {outcomes}"
        for method, call in _METHODS.items():
            if method == "log_prob" and name in _WITHOUT_DENSITY:
                continue
            table[f"{name}.{method}"] = prepare, "d." + call.format(y="z")
        table[f"cce, {name}"] = prepare, "fm.cce(x, z, d)"
        table[f"evaluate, {name}"] = prepare, "fm.evaluate(z, d, x=x)"
    for name in _classes("recalibration", "fit"):
        if name == "Recalibrator":
            continue
        arguments = _RECALIBRATORS.get(name, "g, y, x")
        source = f"recalibration.{name}()"
        table[f"recalibration.{name}.fit"] = "", f"{source}.fit({arguments})"
        if name not in ("ConformalIntervals", "MondrianIntervals"):
            first = arguments.split(", ")[0]
            also = ", x" if first == "g" else ""
            fitted = f"r = {source}.fit({arguments})"
            table[f"recalibration.{name}.transform"] = fitted, f"r.transform({first}{also})"
    for name in _classes("streaming", "update"):
        if name not in _LATER:
            usual = "labels, p" if name.startswith(_OF_CLASSES) else "y, g"
            arguments = _STREAMS.get(name, usual)
            options = "k=2" if name == "TopKAccuracy" else ""
            table[f"streaming.{name}"] = (
                "",
                f"streaming.{name}({options}).update({arguments}).compute()",
            )
    for name, source in _RESULTS.items():
        table[name] = "", source
        owner = _owner(name)
        for method, call in (
            ("table", "table()"),
            ("to_frame", "to_frame()"),
            ("plot", "plot()"),
            ("report", "report('r.html')"),
        ):
            if hasattr(owner, method):
                more = "; r.update(x, y, g)" if name == "Monitor" else ""
                table[f"{name}.{method}"] = f"r = {source}{more}", f"r.{call}"
    for name, call in _PLOTS.items():
        table[f"plots.{name}"] = "", call
    for name, arguments in _COMMANDS.items():
        command = repr(name.split()[0]) + (f", {arguments}" if arguments else "")
        run = (
            f"subprocess.run([sys.executable, '-m', 'fastmcmd', {command}], check=True, stdout=-3)"
        )
        table[f"$ {name}"] = f"import subprocess, sys; {_FILE}", run
    return table


def _public(module):
    return [
        (name, getattr(module, name)) for name in sorted(module.__all__) if not name.startswith("_")
    ]


def _functions(name):
    module = importlib.import_module(f"fastmcmd.{name}")
    return [one for one, value in _public(module) if inspect.isfunction(value)]


def _classes(name, method):
    module = importlib.import_module(f"fastmcmd.{name}")
    return [
        one
        for one, value in _public(module)
        if inspect.isclass(value) and hasattr(value, method) and not inspect.isabstract(value)
    ]


def _owner(name):
    import fastmcmd as fm

    if "." in name:
        module, name = name.split(".")
        return getattr(getattr(fm, module), name)
    return getattr(fm, name) if hasattr(fm, name) else getattr(fm.metrics, name)


def uncovered(table):
    """Return public functions that no case calls."""
    called = "\n".join(call for _, call in table.values())
    missing = []
    for module in ("", "metrics", "classification", "datasets"):
        place = importlib.import_module(f"fastmcmd.{module}".rstrip("."))
        for name, value in _public(place):
            if inspect.isfunction(value) and f"{module or 'fm'}.{name}(" not in called:
                missing.append(f"{module or 'fm'}.{name}")
    return missing


def measure(prepare, call):
    """Return seconds of the import, of the preparation and of the call in a new process."""
    lines = (
        DATA,
        "start = time.perf_counter()",
        prepare,
        "prepared = time.perf_counter() - start",
        "start = time.perf_counter()",
        call,
        "called = time.perf_counter() - start",
        "print('\\n' + repr([imported, prepared, called]))",
    )
    with tempfile.TemporaryDirectory() as folder:
        caches = {"NUMBA_CACHE_DIR": f"{folder}/numba", "MPLCONFIGDIR": f"{folder}/matplotlib"}
        for path in caches.values():
            os.mkdir(path)
        path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", "\n".join(lines)],
            env={**os.environ, **caches, "MPLBACKEND": "agg", "PYTHONPATH": path},
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if process.returncode:
        return process.stderr.strip().splitlines()[-1]
    return json.loads(process.stdout.strip().splitlines()[-1])


def main():
    """Print the seconds of all cases, slowest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--from", dest="least", type=float, default=0.5, help="seconds to list")
    parser.add_argument("--part", default="1/1", help="i/k: every k-th case, from the i-th on")
    parser.add_argument("--repeats", type=int, default=1, help="take the least of several")
    arguments = parser.parse_args()
    first, step = map(int, arguments.part.split("/"))
    # Also where PYTHONDONTWRITEBYTECODE is set: a quarter of a second of each import would be compilation.
    compileall.compile_dir(os.path.dirname(importlib.import_module("fastmcmd").__file__), quiet=1)
    table = cases()
    print("no case:", ", ".join(uncovered(table)) or "none")
    names = [name for name in table if arguments.only in name][first - 1 :: step]
    rows, imports = [], []
    for name in names:
        runs = [measure(*table[name]) for _ in range(arguments.repeats)]
        failed = next((run for run in runs if isinstance(run, str)), None)
        if failed:
            print(f"{name}: {failed}", flush=True)
            continue
        imported, preparation, called = min(runs, key=lambda run: run[2])
        imports.append(imported)
        rows.append((called, preparation, name))
    print(f"{len(rows)} cases; import {min(imports, default=0):.2f} s (least)")
    for called, preparation, name in sorted(rows, reverse=True):
        if called >= arguments.least:
            print(f"{called:6.2f} s  {name}  (prepared in {preparation:.2f} s)")


if __name__ == "__main__":
    main()
