"""Measurements on a CUDA device: rates, seconds, errors, memory; one table, and JSON.

``python benchmarks/gpu.py [--quick] [--only NAME ...] [--json FILE] [--data DIR] [--device 0]``

Rates are those of square products by cuBLAS and of copies from pinned memory, measured first, by events on
the device. *Seconds* are the least of up to seven runs, *median* their median; both include all work of the
host. *Fraction* is the operations of a case's tile products (two a coordinate and pair of rows, each pair
once, and each pass once) in its seconds, over the rate of the precision that made them. *Error* is the
largest difference from CG in float64 on the CPU, where n is small enough; the certified bound stands beside
it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastmcmd as fm
from fastmcmd.device.cuda import CudaDevice, cuda_device, cuda_device_count, cupy

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.problems import clip_like
from benchmarks.published import mcmd_torch, polynomial
from large import clip_on_disk

_COPIED = 1 << 29  # bytes of the copy by which its rate is measured
_CHECK_ROWS = 4_000  # rows of the check against float64
_REPEATS, _PATIENCE = 7, 2.0  # runs of a case, and seconds after which there are no more


@dataclass
class Row:
    """One line of the table."""

    case: str
    n: int
    seconds: float  # the least of all runs
    median: float
    passes: int
    fraction: float | None
    error: float | None
    bound: float
    device_bytes: int
    note: str


def versions(gpu: int) -> dict[str, Any]:
    """Return a description of the machine."""
    cp = cupy()
    runtime = cp.cuda.runtime
    properties = runtime.getDeviceProperties(gpu)
    return {
        "device": properties["name"].decode(),
        "memory": int(properties["totalGlobalMem"]),
        "driver": runtime.driverGetVersion(),
        "CUDA": runtime.runtimeGetVersion(),
        "CuPy": cp.__version__,
        "NumPy": np.__version__,
        "fastmcmd": fm.__version__,
    }


def copy_rate(device: CudaDevice) -> float:
    """Return bytes a second from pinned memory to the device, by events."""
    cp = cupy()
    with device.gpu, device.stream:
        pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(_COPIED), np.uint8, _COPIED)
        on_device = cp.empty(_COPIED, np.uint8)
        best = 0.0
        for _ in range(4):
            start, stop = cp.cuda.Event(), cp.cuda.Event()
            start.record()
            on_device.set(pinned, stream=device.stream)
            stop.record()
            stop.synchronize()
            best = max(best, 1e3 * _COPIED / cp.cuda.get_elapsed_time(start, stop))
    return best


def product_seconds(device: CudaDevice, work: Callable[[], Any]) -> float:
    """Return the seconds of some work by events on the device, the best of three."""
    cp = cupy()
    best = float("inf")
    for _ in range(3):
        with device.gpu:
            start, stop = cp.cuda.Event(), cp.cuda.Event()
            start.record(device.stream)
            work()
            stop.record(device.stream)
            stop.synchronize()
        best = min(best, cp.cuda.get_elapsed_time(start, stop) / 1e3)
    return best


class Bench:
    """The cases, on one device."""

    def __init__(self, gpu: int, data: Path, quick: bool) -> None:
        self.gpu, self.data, self.quick = gpu, data, quick
        self.device = cuda_device(gpu, None)
        self.rates = {**self.device.rates, "copy": copy_rate(self.device)}
        self.rows: list[Row] = []

    def size(self, n: int) -> int:
        return n // 20 if self.quick else n

    def _rate(self, label: str, dtype: str) -> float:
        if "split" in label:
            return self.rates["float16"] / 3
        return self.rates[dtype]

    def _run(
        self,
        case: str,
        problem: Any,
        error: Callable[[Any], float] | None = None,
        beside: Callable[[], None] | None = None,
        **options: Any,
    ) -> Any:
        """Run a case several times, in turns with what it is compared with."""
        x, y, draws, kernel = problem
        options = {"backend": "cupy", "devices": [self.gpu], **options}
        fm.cce(
            x[:600], y[:600], draws[:600], x_kernel=kernel, **options, y_kernel="paper", lam=0.1
        )  # compiles, loads
        gpus = [cuda_device(self.gpu, _bytes(options.get("device_memory_limit")))]
        times: list[float] = []
        while not times or (len(times) < _REPEATS and sum(times) < _PATIENCE):
            start = time.perf_counter()
            result = fm.cce(x, y, draws, x_kernel=kernel, **options, y_kernel="paper", lam=0.1)
            times.append(time.perf_counter() - start)
            if beside is not None:
                beside()
        seconds, median = min(times), float(np.median(times))
        n, d = x.shape
        fraction = None
        if result.info.solver == "cg":
            rate = self._rate(result.info.device, result.info.dtype)
            products = 1 if result.info.cache == "packed" else result.info.iterations
            fraction = products * float(n) ** 2 * d / seconds / rate
        self.rows.append(
            Row(
                case, n, seconds, median, result.info.passes, fraction,
                None if error is None else error(result), result.error_bound, gpus[0].peak,
                f"{result.info.solver}, {result.info.cache}, {result.info.dtype}",
            )
        )  # fmt: skip
        return result

    def products(self) -> None:
        """Single products with K, by events: the kernels alone."""
        from fastmcmd.backends.cupy import CupyBackend

        for n, d, kernel in (
            (40_000, 512, fm.Polynomial(3, 1 / 512, 1.0)),
            (40_000, 64, fm.RBF(1 / 64)),
            (40_000, 8, fm.RBF(1 / 8)),
            (40_000, 8, fm.Laplacian(1 / 8)),
        ):
            n = self.size(n)
            rng = np.random.default_rng(0)
            x, v = rng.standard_normal((n, d), dtype=np.float32), rng.standard_normal((n, 30))
            some = slice(0, 300)
            exact = kernel(x[some].astype(float), x.astype(float)) @ v
            for precision, dtype in (("float32", "f4"), ("split", "f4"), ("float32", "f8")):
                backend = CupyBackend(devices=(self.device,), precision=precision)
                if precision == "split" and not backend.splits(np.dtype(dtype), d):
                    continue
                points = backend.points(x, np.dtype(dtype))
                product = backend.symmetric_matmul(kernel, points, v)
                seconds = product_seconds(
                    self.device,
                    lambda b=backend, k=kernel, p=points, v=v: b.symmetric_matmul(k, p, v),
                )
                name = "float64" if dtype == "f8" else precision
                rate = self._rate(precision, "float64" if dtype == "f8" else "float32")
                error = float(np.abs(product[some] - exact).max() / np.abs(exact).max())
                self.rows.append(
                    Row(
                        f"one product, {type(kernel).__name__}, d = {d}, {name}", n, seconds, seconds, 1,
                        float(n) ** 2 * d / seconds / rate, error, float("nan"), self.device.peak,
                        "30 right-hand sides",
                    )
                )  # fmt: skip

    def exact(self) -> None:
        """Values at a few rows against CG in float64 on the CPU."""
        problem = (*clip_like(_CHECK_ROWS), fm.Polynomial(3))
        x, y, draws, kernel = problem
        oracle = fm.cce(
            x,
            y,
            draws,
            x_kernel=kernel,
            backend="cpu",
            dtype="float64",
            tol=1e-10,
            y_kernel="paper",
            lam=0.1,
        )
        self._run(
            "against float64", problem, lambda r: float(np.abs(r.values - oracle.values).max())
        )

    def published(self) -> None:
        """The published protocol, n = 12,000, and the published formula in torch on the same device."""
        n = self.size(12_000)
        problem = (*clip_like(n), fm.Polynomial(3))
        try:
            import torch
        except ImportError:
            self._run("published protocol", problem, tol=1e-6)
            return
        x, y, draws, _ = problem
        place, gamma = torch.device("cuda", self.gpu), 1 / (2 * np.var(y, ddof=1))
        forms = {
            "the same, published form in torch": lambda: mcmd_torch(
                x, y, draws, polynomial, gamma, 0.1, np.float32, place
            ),
            "the same, in torch with one inverse for both samples": lambda: _one_inverse(
                torch, place, x, y, draws
            ),
        }
        times: dict[str, list[float]] = {name: [] for name in forms}
        values, peaks = {}, {}

        def peers() -> None:
            for name, form in forms.items():
                torch.cuda.synchronize(place)
                torch.cuda.reset_peak_memory_stats(place)
                start = time.perf_counter()
                values[name] = form()
                times[name].append(time.perf_counter() - start)
                peaks[name] = torch.cuda.max_memory_allocated(place)

        torch.zeros(1, device=place)  # statistics of memory need a context
        peers()
        for name in forms:
            times[name].clear()
        result = self._run("published protocol", problem, beside=peers, tol=1e-6)
        ours = self.rows[-1]
        for name, seconds in times.items():
            median = float(np.median(seconds))
            error = float(np.nanmax(np.abs(values[name] - result.values)))
            ratio = min(seconds) / ours.seconds, median / ours.median
            note = "{:.1f} times our time, {:.1f} by medians".format(*ratio)
            self.rows.append(
                Row(
                    name, n, min(seconds), median, 0, None, error, float("nan"), peaks[name], note
                )
            )  # fmt: skip

    def hundred_thousand(self) -> None:
        """n = 100,000, d = 512, exact, in all of the memory and streamed within a limit."""
        problem = (*clip_like(self.size(100_000)), fm.Polynomial(3))
        self._run("exact", problem, tol=1e-6)
        self._run("exact, 8 GB", problem, tol=1e-6, solver="cg", device_memory_limit="8GB")

    def million(self) -> None:
        """n = 1,000,000, d = 512, exact."""
        problem = (*clip_like(self.size(1_000_000)), fm.Polynomial(3))
        self._run("exact", problem, tol=1e-6, solver="cg", device_memory_limit="16GB")

    def disk(self) -> None:
        """n = 10,000,000, d = 512 from disk, low rank."""
        rows_on_disk = clip_on_disk(self.size(10_000_000), self.data)
        problem = (rows_on_disk.x, rows_on_disk.y, rows_on_disk.draws, rows_on_disk.kernel)
        start = time.perf_counter()
        self._run(
            "low rank from disk", problem, tol=1e-4, solver="lowrank", certificate="sampled",
            device_memory_limit="16GB",
        )  # fmt: skip
        seconds = time.perf_counter() - start
        read_bytes = self.rows[-1].passes * rows_on_disk.x.nbytes
        self.rows[
            -1
        ].note += f"; {read_bytes / seconds / self.rates['copy']:.2f} of the copy's rate"


def _bytes(limit: Any) -> int | None:
    from fastmcmd._base.memory import parse_memory

    return None if limit is None else parse_memory(limit)


def _one_inverse(
    torch: Any, place: Any, x: Any, y: Any, draws: Any, lam: float = 0.1
) -> np.ndarray:
    """Return CCE by the definition in float32, where both samples share their inputs and the inverse."""
    with torch.no_grad():
        x = torch.as_tensor(x, device=place)
        y, z = (torch.as_tensor(v, device=place, dtype=x.dtype)[:, None] for v in (y, draws))
        gamma = 1 / (2 * y.var())
        n, d = x.shape

        def k_y(a: Any, b: Any) -> Any:
            return torch.exp(-gamma * (a - b.T) ** 2)

        k_x = (x @ x.T / d + 1) ** 3
        w = torch.linalg.inv(k_x + n * lam * torch.eye(n, device=place, dtype=x.dtype))
        a = w @ k_x
        first = (a * (k_y(y, y) @ a)).sum(0)
        second = (a * (k_y(y, z) @ a)).sum(0)
        third = (a * (k_y(z, z) @ a)).sum(0)
        return (
            torch.sqrt(torch.clamp(first - 2 * second + third, min=0)).cpu().numpy().astype(float)
        )


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| case | n | seconds | median | passes | fraction | error | certified | GB on the device | |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        fraction = "" if r.fraction is None else f"{r.fraction:.2f}"
        error = "" if r.error is None else f"{r.error:.1e}"
        bound = "" if r.bound != r.bound else f"{r.bound:.1e}"
        lines.append(
            f"| {r.case} | {r.n:,} | {r.seconds:.3g} | {r.median:.3g} | {r.passes} | {fraction} | {error} "
            f"| {bound} | {r.device_bytes / 1e9:.2f} | {r.note} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the cases, print the table, write JSON."""
    cases = ("exact", "products", "published", "hundred_thousand", "million", "disk")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a twentieth of the rows")
    parser.add_argument("--only", nargs="+", choices=cases, default=cases)
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--data", default=tempfile.gettempdir(), help="folder for the rows on disk")
    parser.add_argument("--device", type=int, default=0)
    options = parser.parse_args()
    count, why = cuda_device_count()
    if not count:
        raise SystemExit(f"benchmarks/gpu.py: {why}")
    bench = Bench(options.device, Path(options.data), options.quick)
    record = {"versions": versions(options.device), "rates": bench.rates}
    print(json.dumps(record, indent=1), flush=True)
    for name in options.only:
        getattr(bench, name)()
        print(table(bench.rows[-8:]), flush=True)
        if options.json:  # after each case, so that a run that ends early keeps its results
            record["rows"] = [asdict(row) for row in bench.rows]
            Path(options.json).write_text(json.dumps(record, indent=1))
    print("\n" + table(bench.rows))


if __name__ == "__main__":
    main()
