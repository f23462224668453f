"""One run, one machine: the table of docs/performance.md, as Markdown and JSON.

``python benchmarks/report.py [--quick] [--json FILE]``. The published form takes minutes at
n = 12,000; ``--quick`` leaves those cases out. Each peak of memory is measured in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import fastmcmd as fm

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.bench_cce import floor_seconds
from benchmarks.bench_products import tiled_numpy
from benchmarks.problems import clip_like, smooth
from benchmarks.published import mcmd_numpy, mcmd_torch, polynomial, rbf

CASES = {
    "n = 12,000, d = 512, polynomial": (12000, 512),
    "n = 12,000, d = 8, RBF": (12000, 8),
    "n = 3,000, d = 512, polynomial": (3000, 512),
}


def best_of(function, times=5, seconds=30.0):
    """Return the least and the median wall time of a few runs."""
    timings = []
    start = time.perf_counter()
    while len(timings) < times and (not timings or time.perf_counter() - start < seconds):
        before = time.perf_counter()
        function()
        timings.append(time.perf_counter() - before)
    return min(timings), float(np.median(timings))


def problem(n, d):
    """Return data, our kernels, the peer's kernels."""
    if d == 512:
        x, y, p = clip_like(n)
        gamma = 1 / (2 * np.var(y, ddof=1))
        return (x, y, p), (fm.Polynomial(3), fm.RBF(gamma)), (polynomial, rbf(gamma))
    x, y, p = smooth(n, d)
    gamma = 1 / (2 * np.var(y, ddof=1))
    return (x, y, p), (fm.RBF(1 / (2 * d)), fm.RBF(gamma)), (rbf(1 / (2 * d)), rbf(gamma))


def peak_beyond_inputs(n, d, limit):
    """Return peak bytes of a call beyond inputs and libraries, measured in its own process."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import report\n"
        f"data, kernels, _ = report.problem({n}, {d})\n"
        "import fastmcmd as fm\n"
        "small = [a[:400] for a in data]\n"
        "fm.cce(*small, x_kernel=kernels[0], y_kernel=kernels[1], lam=0.1)\n"
        "before = report.memory('VmRSS:', reset=True)\n"
        f"fm.cce(*data, x_kernel=kernels[0], y_kernel=kernels[1], lam=0.1, memory_limit={limit!r})\n"
        "print(report.memory('VmHWM:') - before)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(process.stdout)


def memory(field, reset=False):
    """Return resident bytes (VmRSS) or their peak (VmHWM), the peak reset on request."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def estimates(quick):
    """Measure the whole estimates against the published form."""
    rows = []
    for name, (n, d) in CASES.items():
        data, kernels, plain = problem(n, d)

        def run(data=data, kernels=kernels, **options):
            return fm.cce(*data, x_kernel=kernels[0], y_kernel=kernels[1], **options, lam=0.1)

        exact = run(dtype=np.float64, tol=1e-9, certificate="rigorous")
        result = run()
        row = {"case": name, "seconds": best_of(run)}
        row["times floor"] = row["seconds"][0] / floor_seconds(n, d)
        row["error"] = float(np.abs(result.values - exact.values).max())
        row["bound"] = result.error_bound
        row["ratio"] = float(
            np.median(result.error_bounds / np.maximum(np.abs(result.values - exact.values), 1e-16))
        )
        row["kind"] = result.info.certificate
        row["rigorous seconds"] = best_of(lambda run=run: run(certificate="rigorous"))
        row["limited seconds"] = best_of(lambda run=run: run(memory_limit="200MB"))
        row["peak"] = peak_beyond_inputs(n, d, "1GB")
        row["limited peak"] = peak_beyond_inputs(n, d, "200MB")
        if not (quick and n > 5000):
            start = time.perf_counter()
            theirs = mcmd_numpy(*data, *plain, 0.1, np.float32)
            row["published"] = time.perf_counter() - start
            row["published error"] = float(np.nanmax(np.abs(theirs - exact.values)))
            row["published NaN"] = int(np.isnan(theirs).sum())
            row["speedup"] = row["published"] / row["seconds"][0]
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def torch_published():
    """Measure the published form with torch at n = 3,000, where torch is installed."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return None
    (x, y, p), kernels, plain = problem(3000, 512)
    gamma = kernels[1].gamma
    mcmd_torch(x[:100], y[:100], p[:100], plain[0], gamma, 0.1, np.float32)
    theirs = best_of(lambda: mcmd_torch(x, y, p, plain[0], gamma, 0.1, np.float32), 3)
    ours = best_of(lambda: fm.cce(x, y, p, x_kernel=kernels[0], y_kernel=kernels[1], lam=0.1))
    return {"torch n=3000": theirs, "ours": ours, "speedup": theirs[0] / ours[0]}


def product():
    """Measure one product K @ V, n = 20,000, d = 8, 30 right-hand sides, float32."""
    from fastmcmd.backends import get_backend

    x = smooth(20000, 8)[0]
    v = np.random.default_rng(0).standard_normal((20000, 30))
    kernel, backend = fm.RBF(1 / 16), get_backend("cpu", fm.RBF(1 / 16))
    points = backend.points(x, np.float32)
    row = {"ours": best_of(lambda: backend.symmetric_matmul(kernel, points, v), 9)}
    exact = tiled_numpy(x.astype(np.float64), v, 1 / 16, 512)
    ours = backend.symmetric_matmul(kernel, points, v)
    row["relative error"] = float(np.linalg.norm(ours - exact) / np.linalg.norm(exact))
    v32 = v.astype(np.float32)
    row["numpy"] = min(
        best_of(lambda tile=tile: tiled_numpy(x, v32, 1 / 16, tile), 3)[0]
        for tile in (128, 256, 512, 1024)
    )
    row["numpy / ours"] = row["numpy"] / row["ours"][0]
    try:
        from pykeops.numpy import LazyTensor
    except Exception:
        return row
    left, right = LazyTensor(x[:, None, :].copy()), LazyTensor(x[None, :, :].copy())

    def keops():
        return (-((left - right) ** 2).sum(-1) / 16).exp() @ v32

    keops()
    row["keops"] = best_of(keops, 3)[0]
    row["keops / ours"] = row["keops"] / row["ours"][0]
    return row


def small_user():
    """Measure n = 300, d = 2 against the definition, and what tol=1e-9 gives."""
    x, y, p = smooth(300, 2, dtype=np.float64)

    def ours():
        return fm.cce(x, y, p, x_kernel=fm.RBF(0.25), y_kernel=fm.RBF(0.5), tol=1e-9, lam=0.1)

    def theirs():
        return mcmd_numpy(x, y, p, rbf(0.25), rbf(0.5), 0.1, np.float64)

    ours(), theirs()
    return {
        "ours": best_of(ours, 30),
        "published float64": best_of(theirs, 30),
        "error": float(np.abs(ours().values - theirs()).max()),
        "bound": ours().error_bound,
    }


def many_draws():
    """Measure n = 2,000 with 100 draws against 1, and the features of the draws alone."""
    from fastmcmd.backends import get_backend
    from fastmcmd.embedding.features import output_features

    backend = get_backend("cpu", fm.RBF(0.5))

    x, y, p = smooth(2000, 8)
    draws = p[:, None] + 0.35 * np.random.default_rng(1).standard_normal((2000, 100))
    options = {"x_kernel": fm.RBF(1 / 16), "y_kernel": fm.RBF(0.5), "lam": 0.1, "tol": 1e-9}
    one = best_of(lambda: fm.cce(x, y, draws[:, :1], **options), 9)
    many = best_of(lambda: fm.cce(x, y, draws, **options), 9)
    pool = np.unique(np.concatenate([y, draws.ravel()]))[:, None]
    features = best_of(lambda: output_features(fm.RBF(0.5), backend, pool, 5e-15, 256), 5)
    return {
        "l=1": one,
        "l=100": many,
        "features": features,
        "ratio": (many[0] - features[0]) / one[0],
        "bound": fm.cce(x, y, draws, **options).error_bound,
    }


def growth():
    """Measure d = 64 within 8 GB up to n = 50,000 and the exponent of time."""
    rows = {}
    for n in (12000, 25000, 50000):
        x, y, p = smooth(n, 64)

        def run(x=x, y=y, p=p):
            return fm.cce(
                x, y, p, x_kernel=fm.RBF(1 / 128), y_kernel=fm.RBF(0.5), memory_limit="8GB", lam=0.1
            )

        result = run()
        rows[n] = {
            "seconds": best_of(run, 3),
            "bound": result.error_bound,
            "info": repr(result.info),
        }
    first, last = rows[12000]["seconds"][0], rows[50000]["seconds"][0]
    rows["exponent"] = float(np.log(last / first) / np.log(50000 / 12000))
    return rows


def main():
    """Run all and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*")
    options = parser.parse_args()
    from threadpoolctl import threadpool_info

    from fastmcmd import _core

    record = {
        "machine": platform.platform(),
        "threads": fm.get_num_threads(),
        "isa": _core.isa(),
        "blas": [
            f"{p['internal_api']} {p.get('architecture')} {p['num_threads']}"
            for p in threadpool_info()
        ],
        "sgemm GFLOP/s": 12000.0**2 * 512 / floor_seconds(12000, 512) / 1e9,
    }
    print(json.dumps(record), flush=True)
    jobs = {
        "product": product,
        "small user": small_user,
        "many draws": many_draws,
        "growth": growth,
        "torch": torch_published,
        "estimates": lambda: estimates(options.quick),
    }
    for name, job in jobs.items():
        if options.only and name not in options.only:
            continue
        record[name] = job()
        print(name, json.dumps(record[name]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
