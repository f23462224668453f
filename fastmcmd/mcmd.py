"""The maximum conditional mean discrepancy of two samples."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from numpy.typing import ArrayLike, DTypeLike

from fastmcmd._base.annotations import (
    CertificateName,
    FilePath,
    HostArray,
    InputsLike,
    Landmarks,
    MemoryLimit,
    SolverName,
)
from fastmcmd._base.blockwise import is_blockwise, on_blocks
from fastmcmd._base.checks import as_rows, as_weights, check_lam, check_same_length
from fastmcmd._base.progress import Progress
from fastmcmd.default_kernels import chosen_kernels
from fastmcmd.embedding.sample import DrawnOutputs, Sample
from fastmcmd.estimate.arguments import (
    check_files,
    common_dtype,
    inputs,
    prepared_inputs,
    resolved_kernels,
    scaled_inputs,
)
from fastmcmd.estimate.fit import Fit, fit
from fastmcmd.estimate.resume import begin
from fastmcmd.frames import check_row_order
from fastmcmd.gram import check_sizes, shared_row_statistics
from fastmcmd.io import alone_with
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options, where_data_are
from fastmcmd.planning.choice import settled
from fastmcmd.result import NoiseSource, Result, on_device_of
from fastmcmd.rows import Rows, open_out

__all__ = ["evaluate_at", "mcmd"]


def mcmd(
    grid: InputsLike,
    x: InputsLike,
    y: ArrayLike,
    x_prime: InputsLike,
    y_prime: ArrayLike,
    x_kernel: Kernel | str | None = None,
    y_kernel: Kernel | str | None = None,
    lam: float | str | None = 0.1,
    lam_prime: float | None = None,
    weights: ArrayLike | None = None,
    weights_prime: ArrayLike | None = None,
    tol: float = 1e-6,
    solver: SolverName = "auto",
    backend: str = "auto",
    dtype: DTypeLike | None = None,
    memory_limit: MemoryLimit = None,
    progress: bool = False,
    certificate: CertificateName = "auto",
    rank: int | None = None,
    landmarks: Landmarks = None,
    out: FilePath | None = None,
    cache_dir: FilePath | None = None,
    checkpoint: FilePath | None = None,
    devices: Sequence[int] | None = None,
    device_memory_limit: int | str | None = None,
    client: object = None,
) -> Result:
    """Return the MCMD between two conditional distributions at the points of ``grid``, with error bounds.

    Parameters
    ----------
    grid : array_like (q, d) or (q,), or rows on disk
        Points at which the MCMD is evaluated.
    x, y : array_like (n, d) or (n,), (n, k) or (n,)
        Sample of the first distribution: inputs and outputs.
    x_prime, y_prime : array_like (m, d) or (m,), (m, k) or (m,)
        Sample of the second distribution. Inputs (``grid``, ``x``, ``x_prime``) may lie on disk: a memmap,
        a Zarr array, an HDF5 dataset, an Arrow table, or a path such as ``"x.npy"``, ``"x.zarr"``,
        ``"x.h5::/name"`` or ``"x.parquet::a,b"``. Large inputs are read in blocks of rows, never whole.
        CuPy arrays and CUDA tensors of torch stay on their device with backend "cupy", which "auto" then
        selects.
    x_kernel : Kernel, "auto" or "paper", optional
        Kernel on inputs. Default, unlike in `cce`: the published ("paper")
        ``Polynomial(degree=3, gamma=None, coef0=1)``, that is ``(x.z / d + 1)^3``. Parameters that depend
        on the data are resolved on ``x``. "auto": the default of `cce`, chosen from ``x`` and ``y``.
    y_kernel : Kernel, "auto" or "paper", optional
        Kernel on outputs. Default: the published ``RBF("variance")``, resolved on ``y``.
    lam, lam_prime : float, "auto" or "paper"
        Regularisers, positive. The system of the first sample is ``K_X + n lam I``. ``lam=None`` is 0.01
        with ``x_kernel="auto"``, else 0.1; ``lam_prime=None`` uses ``lam``.
    weights, weights_prime : array_like (n,), (m,), optional
        Nonnegative weights of the rows: counts or importance weights. Only ratios matter.
    tol : float
        Largest allowed error of a returned value relative to the exact estimate, as an absolute number.
    solver : {"auto", "cholesky", "cg", "lowrank", "nystrom"}
        How the systems are solved: exactly ("cholesky", "cg"), or with landmarks in one pass over any
        number of rows ("lowrank"; "nystrom" is "lowrank" with uniformly drawn landmarks).
    backend : {"auto", "cpu", "cupy", "numba", "numpy"}
        Implementation that computes the tiles: "cpu" (the compiled core), "numba", "numpy", or "cupy" (CUDA
        devices). "auto" uses the device that holds ``x``; otherwise the core, or Numba for a
        `CustomKernel`. If the work takes longer than starting a device, "auto" uses the first device,
        provided that it has enough memory and its plan is clearly faster (``info.notes`` says so). "cpu"
        and ``checkpoint`` disable this.
    dtype : {None, float32, float64}
        Precision of the tiles. None starts in float32 if its result can be certified, and continues in
        float64 if not; ``info.notes`` says so.
    memory_limit : int or str, optional
        Bytes (for example "2GB") that the call may allocate beyond its inputs. Default: half of the free
        memory.
    progress : bool
        Whether to show the completed products, the certificate and the remaining time.
    certificate : {"auto", "rigorous", "sampled"}
        How float32 results are certified: by a float64 pass over all rows, or over randomly drawn rows.
        "auto" samples if the full pass would cost more than 0.45 of the work before it. Low-rank results
        are certified by the part of the kernel that landmarks do not explain, or by residuals of some rows.
    rank : int, optional
        Number of landmarks of the low-rank solver. Default: as many as ``tol`` needs.
    landmarks : {"rpcholesky", "uniform"} or array_like (p, d), optional
        How the low-rank solver chooses its landmarks (default "rpcholesky"; "uniform" with "nystrom"), or
        the landmarks themselves.
    out : str, Path or array of shape (q,), optional
        Destination of the values: a path that ends in ``.npy``, or a memmap, Zarr array, HDF5 dataset or
        array. A file appears only when it is complete.
    cache_dir : str or Path, optional
        Existing folder on disk for a Cholesky factor that does not fit into ``memory_limit``: at most about
        ``n^2 / 2`` numbers, in a file that is deleted when the call ends, even if it fails.
    checkpoint : str or Path, optional
        File to which a long computation saves its state every 30 seconds and at Ctrl-C. The same call
        resumes from it, even after the process was killed, and returns the same values bit for bit. A call
        with other data or options raises an error, and so does a second call at the same time (except on
        Windows). The file is removed when the call succeeds. Saved are iterations of CG, passes of the
        low-rank solver, blocks of the dense form, and the finished part of a Cholesky factor if computing
        it takes longer than about half a minute on one core (n > 14,000 in float64). The factor is a file
        of at most about ``n^2 / 2`` numbers in ``cache_dir``, or else beside the checkpoint, until the call
        succeeds or fails. Values agree with those of a call without checkpoint within their error bounds,
        not in the last bits. A factor on a device restarts from the beginning.
    devices : sequence of int, optional
        CUDA devices that share the work of ``backend="cupy"``. Default: the first, ``[0]``.
    device_memory_limit : int or str, optional
        Bytes (for example "8GB") that ``backend="cupy"`` may use on each device. Default: 0.8 of the free
        memory. Rows that do not fit are streamed in blocks.
    client : distributed.Client, optional
        The cluster that computes if arguments are Dask collections; see `fastmcmd.distributed`. Default:
        the current client, or this process without one.

    Returns
    -------
    Result
        ``values`` (q,), ``error_bounds`` (q,), ``mean``, ``error_bound``, ``info``.

    Raises
    ------
    ValueError, TypeError
        An argument is not as described; the message names it.
    MemoryLimitError
        ``memory_limit`` is too small for every method of computing the result.
    BlockingIOError
        Another run is using ``checkpoint``.

    Warns
    -----
    ToleranceWarning
        The certified error is larger than ``tol``.

    Notes
    -----
    ``MCMD^2(x) = k_X(x)' W_X K_Y W_X' k_X(x) - 2 k_X(x)' W_X K_YY' W_X'' k_X'(x) + k_X'(x)' W_X' K_Y'
    W_X'' k_X'(x)`` with ``W_X = (K_X + n lam I)^-1`` (Park & Muandet, *A Measure-Theoretic Approach to
    Kernel Conditional Mean Embeddings*, 2020, section 5.1; Young et al., *Beyond Calibration*,
    arXiv 2405.12412, equation 2). It is computed in feature form; see ``docs/theory.md``.

    If the second sample consists of draws from a prediction, the MCMD is the CCE; `cce` takes the
    prediction itself. The published kernels are the default here, so that this function computes the
    published MCMD.

    Examples
    --------
    Two samples from the same conditional distribution, and a third one whose outcomes ignore x:

    >>> import numpy as np, fastmcmd as fm
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-1, 1, 300)
    >>> y, same = x + rng.normal(size=300), x + rng.normal(size=300)
    >>> other = 2 + rng.normal(size=300)
    >>> round(fm.mcmd(x, x, y, x, same).mean, 2), round(fm.mcmd(x, x, y, x, other).mean, 2)
    (0.05, 0.64)
    """
    if is_blockwise(grid, x, y, x_prime, y_prime, weights, weights_prime, client=client):
        return on_blocks("mcmd", locals())
    backend, devices = where_data_are(backend, devices, x)
    options = Options.of(
        tol=tol, solver=solver, backend=backend, dtype=dtype, memory_limit=memory_limit,
        progress=progress, certificate=certificate, rank=rank, landmarks=landmarks,
        cache_dir=cache_dir, checkpoint=checkpoint, devices=devices,
        device_memory_limit=device_memory_limit,
    )  # fmt: skip
    check_row_order(x=x, y=y, weights=weights)
    check_row_order(x_prime=x_prime, y_prime=y_prime, weights_prime=weights_prime)
    check_files(
        out, options.checkpoint, grid=grid, x=x, y=y, x_prime=x_prime, y_prime=y_prime,
        weights=weights, weights_prime=weights_prime,
    )  # fmt: skip
    first = inputs(x, "x", options)
    second = first if x_prime is x else inputs(x_prime, "x_prime", options, first.shape[1])
    if grid is x or grid is x_prime:
        points = first if grid is x else second
    else:
        points = inputs(grid, "grid", options, first.shape[1])
    outputs = as_rows(y, "y")
    outputs_prime = as_rows(y_prime, "y_prime", columns=outputs.shape[1])
    check_same_length(x=first, y=outputs)
    check_same_length(x_prime=second, y_prime=outputs_prime)
    first, second, points = common_dtype(first, second, points)
    masses = as_weights(weights, "weights", len(first))
    masses_prime = as_weights(weights_prime, "weights_prime", len(second))
    x_kernel, y_kernel, lam = chosen_kernels(
        first, outputs, x_kernel, y_kernel, lam, weights=masses, none="paper",
        memory_limit=options.memory_limit,
    )  # fmt: skip
    x_kernel, options, (first, second, points) = scaled_inputs(
        x_kernel, options, x=first, x_prime=second, grid=points
    )
    first, second, points = prepared_inputs(x_kernel, x=first, x_prime=second, grid=points)
    outputs, outputs_prime = prepared_inputs(y_kernel, y=outputs, y_prime=outputs_prime)
    lam_prime = lam if lam_prime is None else check_lam(lam_prime, "lam_prime")
    kernels = resolved_kernels(x_kernel, y_kernel, first, outputs, second, outputs_prime)
    nature = Sample(first, DrawnOutputs(outputs[:, None, :]), masses, lam)
    model = Sample(second, DrawnOutputs(outputs_prime[:, None, :]), masses_prime, lam_prime)
    result = evaluate_at(nature, model, *kernels, options, points, "MCMD", out)[1]
    return result if out is not None else on_device_of(result, x)


def evaluate_at(
    nature: Sample,
    model: Sample,
    x_kernel: Kernel,
    y_kernel: Kernel,
    options: Options,
    grid: HostArray | Rows,
    name: str,
    out: FilePath | None = None,
    points: str = "grid",
    *,
    stays: bool = False,
    source: NoiseSource | None = None,
) -> tuple[Fit, Result]:
    """Return the fit of two checked samples and its values at ``grid``.

    ``points`` is the name of the grid in messages; ``stays`` says that the fit stays for other points.
    ``source`` gives the result its noise.
    """
    path = options.checkpoint
    with nullcontext() if path is None else alone_with(path, "checkpoint"):
        with nullcontext() if out is None else open_out(out, (len(grid),)) as target:
            # Opened before any work is done; the checkpoint stays until the values are written.
            with shared_row_statistics():
                check_sizes(x_kernel, x=nature.x, x_prime=model.x, **{points: grid})
                options, checkpoint = begin((nature, model), (x_kernel, y_kernel), options, grid)
                options = settled(options, (x_kernel, y_kernel), nature.x, nature.lam)
                with Progress(options.progress, options.tol) as progress:
                    (fitted,) = fit(
                        nature, [model], x_kernel, y_kernel, options, grid, progress, checkpoint,
                        stays=stays,
                    )  # fmt: skip
                    values, errors, info = fitted.evaluate(grid, progress, checkpoint)
                result = Result.of(values, errors, options.tol, info, name, source=source)
            if target is not None:
                target.write(slice(0, len(grid)), result.values)
        if target is not None:
            result = replace(result, values=target.array)
        if checkpoint is not None:
            checkpoint.finish()
        return fitted, result
