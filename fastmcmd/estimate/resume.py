"""The identity of a computation, so that only the same computation resumes from a checkpoint."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from fastmcmd._base.annotations import HostArray, Json
from fastmcmd.checkpoint import Checkpoint, fingerprint_of
from fastmcmd.embedding.sample import DrawnOutputs, Outputs, Sample
from fastmcmd.kernels import Kernel
from fastmcmd.options import Options
from fastmcmd.rows import Rows

__all__ = ["begin"]

_EVERY = 30.0  # seconds between two saves


def begin(
    samples: tuple[Sample, Sample],
    kernels: tuple[Kernel, Kernel],
    options: Options,
    grid: HostArray | Rows,
) -> tuple[Options, Checkpoint | None]:
    """Return the options for the run, and the checkpoint that they name.

    Parameters
    ----------
    samples, kernels, grid
        Data and kernels of the computation. All data and every option that can change a value count.
    options : Options
        Options of the call. If the memory limit is the default from free memory, the limit of the
        interrupted run replaces it, as far as memory allows: blocks and landmarks depend on it.

    Raises
    ------
    ValueError
        The file belongs to another computation, or is damaged.
    """
    if options.checkpoint is None:
        return options, None
    settings: Json = {
        "x_kernel": repr(kernels[0]),
        "y_kernel": repr(kernels[1]),
        "lam": samples[0].lam,
        "lam_prime": samples[1].lam,
        **{
            name: getattr(options, name)
            for name in ("tol", "solver", "backend", "certificate", "rank")
        },
        "dtype": None if options.dtype is None else str(options.dtype),
    }
    fingerprints: dict[int, str] = {}

    def of_once(data: object) -> str:  # grid, x and x_prime are often the same object
        if id(data) not in fingerprints:
            fingerprints[id(data)] = fingerprint_of(data)
        return fingerprints[id(data)]

    marks = options.landmarks
    settings["landmarks"] = marks if isinstance(marks, str) else fingerprint_of(np.asarray(marks))
    data = {
        "grid" if grid is not samples[0].x else "x": of_once(grid),
        "x": of_once(samples[0].x),
        "x_prime": of_once(samples[1].x),
        "y": fingerprint_of(*_parts(samples[0].all_outputs)),
        "prediction": fingerprint_of(*_parts(samples[1].all_outputs)),
        "weights": of_once(samples[0].weights),
        "weights_prime": of_once(samples[1].weights),
    }
    for name, kernel, rows in (
        ("x_kernel", kernels[0], samples[0].x[:4]),
        ("y_kernel", kernels[1], _first(samples[0].all_outputs)),
    ):
        if not kernel.compiled:  # a function is identified by its values
            data[f"values of {name}"] = fingerprint_of(np.asarray(kernel(rows)))
    fingerprint = fingerprint_of(
        *(f"{name}={value!r}" for name, value in {**settings, **data}.items())
    )
    limit = options.memory_limit
    checkpoint = Checkpoint(
        options.checkpoint, fingerprint, _EVERY, {**settings, **data}, {"memory_limit": limit}
    )
    began = int(checkpoint.plan.get("memory_limit", limit))
    if not options.limit_given and began <= 2 * limit:  # the default is half of the free memory
        options = replace(options, memory_limit=began)
    return options, checkpoint


def _first(outputs: Outputs) -> HostArray:
    assert isinstance(outputs, DrawnOutputs)  # observed outcomes
    return np.asarray(outputs.flat[:4])


def _parts(value: object) -> list[Any]:
    """Return arrays, numbers and texts that identify a value."""
    if isinstance(value, DrawnOutputs):
        return ["drawn", value.values, value.weights]
    if value is None or isinstance(value, np.ndarray | np.generic | str | bool | int | float):
        return [value]
    if isinstance(value, list | tuple):
        return [len(value), *(part for member in value for part in _parts(member))]
    if isinstance(value, dict):
        return [len(value), *(p for name, member in value.items() for p in (name, *_parts(member)))]
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value):
        members = {member.name: getattr(value, member.name) for member in fields(value)}
    else:
        members = dict(getattr(value, "__dict__", {}))
    if not members:
        return [name, repr(value)]
    return [name, *_parts({key: members[key] for key in sorted(members)})]
