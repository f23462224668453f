"""The result of `plan`."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from fastmcmd._base.annotations import Json
from fastmcmd._base.memory import format_bytes
from fastmcmd._base.tables import Notebook

__all__ = ["Plan"]


@dataclass(frozen=True, repr=False)
class Plan(Notebook):
    """The expected course of a call.

    Attributes
    ----------
    n, d : int
        Rows and columns of the inputs.
    backend : str
        Backend that would compute the tiles.
    solver : str
        "lowrank", "cg" or "cholesky".
    landmarks : int
        Landmarks of the low-rank solver (0 with others).
    cache : str
        "packed" (tiles of K are stored), "quantized" (stored in 16 bits), "partly packed" or "partly
        quantized" (some of them), "streamed" (recomputed in every pass) or "disk" (a Cholesky factor).
    memory_bytes : int
        Approximate memory beyond the inputs, in bytes.
    passes : int
        Passes over the rows, or products with K, including those for certificates.
    seconds : float
        Estimated wall time on this machine, from rates measured on some rows.
    reasons : tuple of str
        Reasons for the choices, one sentence each.
    """

    n: int
    d: int
    backend: str
    solver: str
    landmarks: int
    cache: str
    memory_bytes: int
    passes: int
    seconds: float
    reasons: tuple[str, ...]

    def to_dict(self) -> Json:
        """Return the plan as a JSON-safe dictionary."""
        return {**asdict(self), "reasons": list(self.reasons)}

    def __repr__(self) -> str:
        with_landmarks = f" with {self.landmarks} landmarks" if self.landmarks else ""
        times = f"{self.passes} pass{'es' * (self.passes > 1)}"
        lines = [
            f"{self.n:,} rows, {self.d} columns: {self.solver}{with_landmarks}, {self.cache}, "
            f"{self.backend}",
            f"  about {self.seconds:.2g} s in {times}, {format_bytes(self.memory_bytes)}",
            *(f"  {reason}" for reason in self.reasons),
        ]
        return "\n".join(lines)
