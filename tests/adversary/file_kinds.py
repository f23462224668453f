"""The kinds of files under attack: how to write a good one, and what reading it gives.

A kind is a suffix, a function that writes, one that reads, and whether a checksum seals the contents.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import zipfile
from dataclasses import dataclass

import numpy as np
from damages import N
from in_blocks import interrupt_after

__all__ = ["KINDS"]


def _data():
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N, 2))
    return x, x[:, 0] + rng.normal(size=N)


def _estimator(**options):
    def write(path):
        import fastmcmd as fm

        x, y = _data()
        fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), **options)
        fitted.fit(x, y, fm.Gaussian(x[:, 0], 1.0)).save(path)

    def read(path):
        import fastmcmd as fm

        estimator = fm.load(path)
        return [estimator.score_samples(np.zeros((2, 2))), estimator.result_.values]

    return ".npz", write, read, True


def _dense():
    import fastmcmd as fm

    return _estimator(y_kernel=fm.Laplacian(1.0), draws=2, random_state=1)


def _on_the_line():
    """Return an estimator of heavy-tailed predictions: its features are panels of the line."""

    def write(path):
        import fastmcmd as fm

        x, y = _data()
        fitted = fm.ConditionalCongruence(x_kernel=fm.RBF(0.5), y_kernel=fm.RBF(0.5), lam=1e-2)
        fitted.fit(x, y, fm.StudentT(2.0, x[:, 0], 20.0)).save(path)
        with zipfile.ZipFile(path) as file:
            if not any("panels" in name for name in file.namelist()):
                raise RuntimeError("no panels of the line were saved")

    def read(path):
        import fastmcmd as fm

        estimator = fm.load(path)
        points = np.zeros((2, 2))
        return [
            estimator.score_samples(points),
            estimator.result_.values,
            estimator.witness(points, [0.0, 9.0]),
        ]

    return ".npz", write, read, True


def _accumulator():
    """Return an accumulator of the CCE of two models, with simulated outcomes."""

    def models(x):
        import fastmcmd as fm

        return {"right": fm.Gaussian(x[:, 0], 1.0), "flat": fm.Gaussian(np.zeros(len(x)), 1.5)}

    def write(path):
        import fastmcmd as fm

        x, y = _data()
        options = {"simulations": 19, "most_landmarks": 30, "random_state": 1}
        accumulator = fm.streaming.CCE(fm.RBF(0.5), fm.RBF(0.5), x[:15], 0.1, **options)
        accumulator.update(x, y, models(x)).save(path)

    def read(path):
        import fastmcmd as fm

        accumulator, points = fm.load(path), np.zeros((2, 2))
        parts = (
            accumulator.score_samples,
            accumulator.error_bounds,
            lambda at: accumulator.witness(at, [0.0, 1.0]),
        )
        # A forged name is as valid as any other.
        values = [value for part in parts for value in part(points).values()]
        names = list(accumulator.compute())
        values.append(np.array([accumulator.compute()[name].value for name in names]))
        x, y = _data()
        accumulator.update(x, y, dict(zip(names, models(x).values(), strict=True)))
        accumulator.compute()
        return values

    return ".npz", write, read, True


def _recalibrator(name="IsotonicCDF"):
    def write(path):
        import fastmcmd as fm

        x, y = _data()
        prediction = fm.Gaussian(x[:, 0] / 2, 2.0 + 0.1 * np.abs(x[:, 1]))
        getattr(fm.recalibration, name)().fit(prediction, y).save(path)

    def read(path):
        import fastmcmd as fm

        recalibrator, prediction = fm.load(path), fm.Gaussian([0.0, 1.0], 2.0)
        if name == "ConformalIntervals":
            return [recalibrator.interval(prediction)]
        mended = recalibrator.transform(prediction)
        return [mended.cdf([0.5, 0.5]), mended.quantile([0.1, 0.9])]

    return ".npz", write, read, True


def _monitor():
    """Return a monitor with predictions after two batches; reading updates it with a third."""

    def batch(seed):
        import fastmcmd as fm

        rng = np.random.default_rng(seed)
        x = rng.normal(size=(N + 20, 2))
        return x, x[:, 0] + rng.normal(size=len(x)), fm.Gaussian(x[:, 0], 1.0)

    def write(path):
        import fastmcmd as fm

        monitor = fm.Monitor(*batch(0), simulations=19, window=2)
        for seed in (1, 2):
            monitor.update(*batch(seed))
        monitor.save(path)

    def read(path):
        import fastmcmd as fm

        monitor = fm.load(path)
        monitor.table(), repr(monitor)
        weights = monitor.importance_weights(batch(4)[0])
        update = monitor.update(*batch(3))
        monitor.table(), repr(monitor)
        values = [*update.p_values.values(), *update.evidence.values()]
        if update.cce is not None:  # a forged monitor may have none
            values.append(update.cce.value)
        return [np.array(values), weights]

    return ".npz", write, read, True


def _recalibrator_by_input(name):
    def prediction(x):
        import fastmcmd as fm

        return fm.Gaussian(x[:, 0] / 2, 2.0 + 0.1 * np.abs(x[:, 1]))

    def write(path):
        import fastmcmd as fm

        x, y = _data()
        getattr(fm.recalibration, name)().fit(prediction(x), y, x).save(path)

    def read(path):
        import fastmcmd as fm

        x, _ = _data()
        mended = fm.load(path).transform(prediction(x[:2]), x[:2])
        return [mended.cdf([0.5, 0.5]), mended.quantile([0.1, 0.9]), mended.mean]

    return ".npz", write, read, True


def _published_results():
    """Return the results of the published evaluator of torch models; no checksum seals them."""

    def write(path):
        from fastmcmd.compat.probcal.bootstrap import CCEResults
        from fastmcmd.compat.probcal.evaluator import CalibrationResults, ECEResults

        x, y = _data()
        levels = {"0.1": y, "0.9": y + 1}
        cce = CCEResults(x[:, 0], np.ones(N), levels, 0.5, 0.25)
        CalibrationResults(y, x, cce, ECEResults(0.5, 0.25, {"0.1": 0.25})).save(path)

    def read(path):
        from fastmcmd.compat.probcal.evaluator import CalibrationResults

        results = CalibrationResults.load(path)
        return [results.targets, results.input_grid_2d, results.cce.expected_values]

    return ".npz", write, read, False


def _run_on_blocks(call):
    """Resume ``fm.evaluate`` or ``fm.cce`` of Dask arrays after two of four blocks."""

    def compute(path):
        import dask.array as da

        import fastmcmd as fm
        from fastmcmd.distributed import running
        from fastmcmd.distributed.saving import BlockCheckpoint

        running.GROUP, BlockCheckpoint.every = 1, 0.0
        x, y = _data()
        inputs, outcomes = da.from_array(x, chunks=(10, 2)), da.from_array(y, chunks=10)
        prediction = fm.Gaussian(da.from_array(x[:, 0], chunks=10), 1.0)
        kernels = {"x_kernel": fm.RBF(0.5), "y_kernel": fm.RBF(0.5)}
        if call == "evaluate":
            report = fm.evaluate(outcomes, prediction, checkpoint=path)
            return [np.array(list(report.values()), dtype=float)]
        result = fm.cce(
            inputs, outcomes, prediction, lam=0.1, landmarks=x[:15], checkpoint=path, **kernels
        )
        return [result.values]

    def write(path):
        interrupt_after(2, lambda: compute(path))

    def read(path):
        copy = path.with_suffix(".run")
        shutil.copyfile(path, copy)
        try:
            return compute(copy)
        finally:
            copy.unlink(missing_ok=True)

    return ".ckpt", write, read, True


@dataclass(frozen=True)
class _First:
    values: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class _Second:
    matrix: np.ndarray


def _checkpoint():
    def write(path):
        from fastmcmd.checkpoint import Checkpoint

        store = Checkpoint(path, "f", every=0)
        store.save("one", lambda: _First(np.arange(30.0), np.array([3, 5])))
        store.save("two", lambda: _Second(np.eye(4)))

    def read(path):
        from fastmcmd.checkpoint import Checkpoint

        store = Checkpoint(path, "f")
        # A run recomputes a missing stage.
        first = store.load("one", _First) or _First(np.arange(30.0), np.array([3, 5]))
        second = store.load("two", _Second) or _Second(np.eye(4))
        return [first.values, first.places, second.matrix]

    return ".ckpt", write, read, True


def _laplacian():
    import fastmcmd as fm

    return fm.Laplacian(1.0)


def _run(saves, **options):
    """Resume a run from the state that it had after ``saves`` saves."""

    def compute(path):
        import fastmcmd as fm

        x, y = _data()
        x = np.concatenate([x, x + 0.3, x - 0.3])
        y, z = np.tile(y, 3), np.tile(x[:N, 0], 3)
        arguments = {"lam": 1e-3, "x_kernel": fm.RBF(0.5), **options}
        return fm.mcmd(x[:20], x, y, x, z, checkpoint=path, **arguments).values

    def write(path):
        from fastmcmd.checkpoint import Checkpoint
        from fastmcmd.estimate import resume
        from fastmcmd.solvers import cholesky

        resume._EVERY, cholesky._LONG = 0.0, 0.0
        save, left, copy_path = Checkpoint.save, [saves], path.with_suffix(".held")

        def counting(self, *arguments, **keywords):
            save(self, *arguments, **keywords)
            left[0] -= 1
            if left[0] >= 0:
                shutil.copyfile(self.path, copy_path)

        Checkpoint.save = counting
        try:
            compute(path)
        finally:
            Checkpoint.save = save
        copy_path.rename(path)

    def read(path):
        copy = path.with_suffix(".run")
        shutil.copyfile(path, copy)  # a run removes its file when it ends
        try:
            return [compute(copy)]
        finally:
            copy.unlink(missing_ok=True)

    return ".ckpt", write, read, True


def _cache():
    rows = np.arange(30, dtype=np.float32).reshape(10, 3)

    def write(path):
        from fastmcmd.encoders import cache

        cache.write(path.parent, "m", path.stem, rows)
        cache._path(path.parent, "m", path.stem).rename(path)

    def read(path):
        from fastmcmd.encoders import cache

        cache._path = lambda *_: path
        cached = cache.read(path.parent, "m", path.stem, 10)
        return [rows if cached is None else cached]

    return ".npy", write, read, True


def _rows(suffix, put, inside=""):
    def read(path):
        from fastmcmd.rows import open_rows

        rows = open_rows(f"{path}{inside}", "x")
        return [np.asarray(rows[:])]

    return suffix, put, read, False


def _put_npy(path):
    np.save(path, _data()[0])


def _put_hdf5(path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=_data()[0], chunks=(10, 2), fletcher32=True)


def _put_parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    x, y = _data()
    columns = {"y": y, "mean": x[:, 0], "std": np.ones(N), "x0": x[:, 0], "x1": x[:, 1]}
    pq.write_table(pa.table(columns), path, write_page_checksum=True)


def _put_npz(path):
    x, y = _data()
    np.savez(path, y=y, mean=x[:, 0], std=np.ones(N), x=x)


def _put_csv(path):
    x, y = _data()
    table = np.column_stack([y, x[:, 0], np.ones(N), x])
    np.savetxt(path, table, delimiter=",", header="y,mean,std,x0,x1", comments="")


def _put_zarr(path):
    import zarr

    x, y = _data()
    group = zarr.open_group(str(path), mode="w")
    for name, values in (("y", y), ("mean", x[:, 0]), ("std", np.ones(N)), ("x", x)):
        group[name] = values


def _cli(suffix, put, *command):
    def read(path):
        from fastmcmd.cli import main

        target = path.with_name("target.npz")
        target.unlink(missing_ok=True)
        arguments = [
            command[0],
            str(path),
            *(str(target) if a == "TARGET" else a for a in command[1:]),
        ]
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            code = main(arguments)
        error_text = errors.getvalue()
        if code not in (0, 1, 2) or "Traceback" in error_text or "fastmcmd-" in error_text:
            raise RuntimeError(f"exit code {code}: {error_text}")
        if code and not error_text.startswith("fastmcmd:"):
            raise RuntimeError(f"exit code {code} without a reason: {error_text!r}")
        return []

    return suffix, put, read, False


KINDS = {
    "estimator": _estimator,
    "dense estimator": _dense,
    "low-rank estimator": lambda: _estimator(solver="lowrank", tol=1e-2),
    "estimator on the line": _on_the_line,
    "accumulator of the CCE": _accumulator,
    "recalibrator": _recalibrator,
    "recalibrator of bins": lambda: _recalibrator("HistogramBinningStd"),
    "recalibrator of intervals": lambda: _recalibrator("IntervalRecalibrator"),
    "recalibrator of variances": lambda: _recalibrator("IsotonicStd"),
    "conformal intervals": lambda: _recalibrator("ConformalIntervals"),
    "recalibrator by input": lambda: _recalibrator_by_input("ConditionalRescaling"),
    "tilting by input": lambda: _recalibrator_by_input("WitnessTilting"),
    "monitor": _monitor,
    "published results": _published_results,
    "evaluation of blocks": lambda: _run_on_blocks("evaluate"),
    "CCE of blocks": lambda: _run_on_blocks("cce"),
    "checkpoint": _checkpoint,
    "run by CG": lambda: _run(3, solver="cg"),
    "run by Cholesky": lambda: _run(2, solver="cholesky"),
    "run by Cholesky, two systems": lambda: _run(3, solver="cholesky", lam_prime=3e-3),
    "run of low rank": lambda: _run(2, solver="lowrank", tol=1e-3),
    "run in dense form": lambda: _run(2, y_kernel=_laplacian(), tol=1e-5),
    "cache of encoders": _cache,
    "rows of .npy": lambda: _rows(".npy", _put_npy),
    "rows of HDF5": lambda: _rows(".h5", _put_hdf5, "::x"),
    "rows of Parquet": lambda: _rows(".parquet", _put_parquet),
    "rows of Zarr": lambda: _rows(".zarr", _put_zarr, "::x"),
    "convert .csv": lambda: _cli(".csv", _put_csv, "convert", "TARGET"),
    "convert .npz": lambda: _cli(".npz", _put_npz, "convert", "TARGET"),
    "convert .npy": lambda: _cli(".npy", _put_npy, "convert", "TARGET"),
    "convert .parquet": lambda: _cli(".parquet", _put_parquet, "convert", "TARGET"),
    "convert .zarr": lambda: _cli(".zarr", _put_zarr, "convert", "TARGET"),
    "evaluate .csv": lambda: _cli(".csv", _put_csv, "evaluate", "--nan-policy", "omit"),
    "evaluate .npz": lambda: _cli(".npz", _put_npz, "evaluate"),
    "plan .npz": lambda: _cli(".npz", _put_npz, "plan"),
}
