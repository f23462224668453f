"""`cce` and `mcmd` of Dask collections, by landmarks: sums of blocks, then values at points."""

from __future__ import annotations

import contextlib
import inspect
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fastmcmd._base.annotations import FilePath, MemoryLimit
from fastmcmd._base.blockwise import Deferred, is_blockwise
from fastmcmd._base.checks import (
    as_rows,
    check_callable,
    check_lam,
    check_path,
    check_positive,
    quote,
)
from fastmcmd._base.memory import parse_memory
from fastmcmd._base.progress import Progress
from fastmcmd._base.seeds import seed_sequence
from fastmcmd.distributed.blocks import Arguments, Blocks, identity_of
from fastmcmd.distributed.pairs import MOST_ROWS, exact
from fastmcmd.distributed.result import BlockResult, in_blocks
from fastmcmd.distributed.running import Run
from fastmcmd.distributed.saving import BlockCheckpoint
from fastmcmd.distributed.setting import Setting, rows_per_step, setting_of
from fastmcmd.distributed.sums import (
    BlockPointValues,
    CongruenceJob,
    Embedded,
    Summary,
    SummaryJob,
)
from fastmcmd.io import alone_with
from fastmcmd.result import Info, Result
from fastmcmd.streaming import CCE
from fastmcmd.streaming.congruence_sums import CongruenceSums, Ridge

__all__ = ["cce", "check_defaults", "congruence_of", "encoded", "mcmd", "result_at", "running"]

# Arguments of the function for data in memory that have a meaning for blocks.
_COMMON_NAMES = (
    "x_kernel", "y_kernel", "lam", "tol", "solver", "memory_limit", "progress", "rank", "landmarks",
    "checkpoint", "client", "certificate",
)  # fmt: skip
_SOLVERS = ("auto", "lowrank", "nystrom", "cg")


def cce(**arguments: Any) -> Result:
    """Return the CCE of predictions at each input, as `fastmcmd.cce`, from arguments in blocks."""
    from fastmcmd.cce import cce as whole

    supported = ("x", "y", "prediction", "at", "encoder", "weights", "random_state", *_COMMON_NAMES)
    options = check_defaults(whole, arguments, supported)
    start = time.perf_counter()
    rows = {name: options[name] for name in ("x", "y", "prediction", "weights")}
    rows["x"] = encoded(rows["x"], options["encoder"])
    blocks = Blocks.of(**{name: value for name, value in rows.items() if value is not None})
    seed = seed_sequence(0 if options["random_state"] is None else options["random_state"])
    with running(options, "cce", blocks) as run:
        setting = _setting(run, blocks, seed, options)
        state = congruence_of(run, blocks, setting, options["memory_limit"])
        if options["solver"] == "cg":
            if state.rows <= MOST_ROWS:
                return exact(run, blocks, setting, options, start, state)
            note = f"low rank: solver 'cg' is for at most {MOST_ROWS:,} rows"
            setting = replace(setting, notes=(*setting.notes, note))
        ridge = Ridge(state, state.models[""], setting.lam)
        grid = encoded(options["at"], options["encoder"])
        return result_at(
            run,
            (blocks if grid is None else grid),
            (ridge,),
            setting,
            options["tol"],
            "CCE",
            start,
            state,
        )


def mcmd(**arguments: Any) -> Result:
    """Return the MCMD of two samples at the points of a grid, as `fastmcmd.mcmd`, from blocks."""
    from fastmcmd.mcmd import mcmd as whole

    supported = (
        "grid", "x", "y", "x_prime", "y_prime", "lam_prime", "weights", "weights_prime", *_COMMON_NAMES,
    )  # fmt: skip
    options = check_defaults(whole, arguments, supported)
    start = time.perf_counter()
    samples = []
    for mark in ("", "_prime"):
        rows = {name: options[name + mark] for name in ("x", "y", "weights")}
        samples.append(_in_blocks({k: v for k, v in rows.items() if v is not None}))
    seed = seed_sequence(0)
    none = "paper" if options["x_kernel"] is None else "auto"
    with running(options, "mcmd", *samples) as run:
        setting = _setting(
            run, samples[0], seed, options, none=none, more=samples[1], kind=Embedded
        )
        lams = setting.lam, options["lam_prime"]
        lams = lams[0], lams[0] if lams[1] is None else check_lam(lams[1], "lam_prime")
        states = [
            congruence_of(run, one, setting, options["memory_limit"], f"sums of {name}", place)
            for place, (name, one) in enumerate(zip(("x", "x_prime"), samples, strict=True))
        ]
        ridges = [Ridge(one, one.models[""], lam) for one, lam in zip(states, lams, strict=True)]
        grid = options["grid"]
        at = next(
            (b for b, x in zip(samples, ("x", "x_prime"), strict=True) if grid is options[x]), grid
        )
        return result_at(run, at, tuple(ridges), setting, options["tol"], "MCMD", start, states[0])


def check_defaults(
    function: Callable[..., Any], arguments: Arguments, supported: Collection[str]
) -> Arguments:
    """Return the arguments that have a meaning for blocks; the others must have their defaults."""
    for name, parameter in inspect.signature(function).parameters.items():
        if name in supported or name not in arguments:
            continue
        value = arguments[name]
        if value is not parameter.default and not _equal(value, parameter.default):
            raise ValueError(
                f"{name} is {quote(value)}, which is not available for Dask collections; leave it out"
            )
    if arguments.get("solver", "auto") not in _SOLVERS:
        raise ValueError(
            f"solver is {arguments['solver']!r}; for Dask collections, {', '.join(_SOLVERS)} are available"
        )
    return {name: arguments.get(name) for name in supported}


def _equal(value: Any, default: object) -> bool:
    """Tell whether an argument equals its default; arrays do not."""
    return np.ndim(value) == 0 and not is_blockwise(value) and bool(value == default)


def encoded(x: Any, encoder: Any) -> Any:
    """Return inputs that are encoded block by block."""
    if encoder is None or x is None:
        return x
    check_callable(encoder, "encoder", 1, "a callable that maps inputs to an array")
    return Deferred(encoder, (x,), {})


@contextlib.contextmanager
def running(options: Arguments, name: str, *blocks: Blocks) -> Iterator[Run]:
    """Yield the run of a call: its client, its progress and its checkpoint."""
    client = options.get("client")
    if client is None:
        client = _current_client()
    path: FilePath | None = options.get("checkpoint")
    if path is not None:
        path = check_path(path, "checkpoint")
    with contextlib.ExitStack() as stack:
        progress = stack.enter_context(Progress(bool(options.get("progress")), 0.0))
        if name == "congruence_test":  # `evaluate` makes the same passes before it
            progress.under("exact test")
        saved_run = None
        if path is not None:
            stack.enter_context(alone_with(Path(path), "checkpoint"))
            saved_run = BlockCheckpoint.of(
                path, name, options, [*(one.token for one in blocks), *_points(options)]
            )
        yield Run(client, progress, saved_run)
        if saved_run is not None:
            saved_run.finish()


def _points(options: Arguments) -> list[str]:
    """Return the identities of points and landmarks, whose text may leave out most of them."""
    from dask.base import tokenize

    names = ("at", "grid", "landmarks")
    return [
        tokenize(name, identity_of(options[name]))
        for name in names
        if options.get(name) is not None
    ]


def congruence_of(
    run: Run,
    blocks: Blocks,
    setting: Setting,
    limit: MemoryLimit,
    name: str = "sums",
    place: int = 0,
) -> CongruenceSums:
    """Return the sums of the CCE over all blocks."""
    accumulator = setting.accumulators[place]
    bytes_each = None if limit is None else parse_memory(limit)
    smoother = accumulator._smoother
    assert smoother is not None
    step = rows_per_step(bytes_each, smoother.rank, accumulator.settings["simulations"])
    state: CongruenceSums | None = run.reduce(
        CongruenceJob(accumulator, setting.seed, step, name), blocks
    )
    if state is None or not state.weight > 0:
        raise ValueError("there are no rows with a positive weight; at least one is needed")
    return state


def result_at(
    run: Run,
    at: Any,
    ridges: tuple[Ridge, ...],
    setting: Setting,
    tol: float,
    name: str,
    start: float,
    state: CongruenceSums,
) -> Result:
    """Return the values at points: those of `Blocks`, of a collection, or of an array in memory."""
    tol = check_positive(tol, "tol")
    values = BlockPointValues.of(*ridges)
    accumulator, estimate = setting.accumulator, None
    if name == "CCE":
        accumulator = accumulator.fresh()
        accumulator.add(state)
        estimate = accumulator.compute()
    proven = all(one.model.proven and one.sums.probes is None for one in ridges)
    notes = (*setting.notes, "low rank: values are those of landmarks, within the error bounds")
    info = Info(
        "lowrank", "feature", "cpu", "float64", "streamed", "rigorous" if proven else "sampled",
        ridges[0].sums.rows, ridges[-1].sums.rows, len(ridges[0].sums.columns), 0, 0, 0.0, 0, notes,
        values.smoother.rank,
    )  # fmt: skip
    rows = name == "CCE" and isinstance(at, Blocks)
    return finished(run, at, values, info, tol, name, start, estimate, accumulator, rows)


def finished(
    run: Run,
    at: Any,
    values: Any,
    info: Info,
    tol: float,
    name: str,
    start: float,
    estimate: Any = None,
    accumulator: CCE | None = None,
    at_rows: bool = False,
) -> Result:
    """Return the result of ``values`` at points, with warnings as those of `Result`."""
    blocks = at if isinstance(at, Blocks) else None
    if blocks is None and is_blockwise(at):
        blocks = Blocks.of(x=at)
    if blocks is None:
        x = as_rows(at, "at").astype(np.float64)
        results = values.at(x)
        summary = Summary.of(results["value"], results["error_bound"], None)
        arrays: tuple[Any, Any] = results["value"], results["error_bound"]
    else:
        summary = run.reduce(SummaryJob(values), blocks)
        arrays = tuple(
            in_blocks(blocks, _Column(values, name)) for name in ("value", "error_bound")
        )
    seconds = time.perf_counter() - start
    info = replace(info, seconds=seconds, passes=run.counters.passes)
    Result.of(
        np.array([summary.largest]), np.array([summary.bound]), tol, info, name
    )  # raises and warns
    return BlockResult(
        *arrays, tol, info, name, None, estimate, accumulator if name == "CCE" else None, summary, values,
        blocks, at_rows,
    )  # fmt: skip


class _Column:
    """One column of the values at points."""

    def __init__(self, values: Any, name: str) -> None:
        self.values, self.name = values, name

    def __call__(self, arguments: Arguments, number: int) -> Any:
        """Return the column of a block."""
        return self.values.at(as_rows(arguments["x"], "x").astype(np.float64))[self.name]


def _in_blocks(rows: Arguments) -> Blocks:
    """Return a sample in blocks; one that is in memory is one block."""
    if is_blockwise(*rows.values()):
        return Blocks.of(**rows)
    import dask.array as da

    return Blocks.of(
        **{name: da.from_array(np.asarray(value), chunks=-1) for name, value in rows.items()}
    )


def _setting(
    run: Run, blocks: Blocks, seed: np.random.SeedSequence, options: Arguments, **more: Any
) -> Setting:
    names = ("x_kernel", "y_kernel", "lam", "rank", "landmarks", "certificate")
    return setting_of(
        run, blocks, seed, **{name: options[name] for name in names},
        uniform=options["solver"] == "nystrom", **more,
    )  # fmt: skip


def _current_client() -> Any:
    """Return the current client of `distributed`, if its user has one; its module is not imported."""
    import sys

    module = sys.modules.get("distributed")
    if module is None:
        return None
    try:
        return module.get_client()
    except (AttributeError, ValueError):
        return None
