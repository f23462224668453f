"""What a fit in low-rank form takes: the account that ``info.peak_bytes`` tells."""

from __future__ import annotations

from fastmcmd.estimate.budget import TILE_BYTES
from fastmcmd.threads import get_num_threads

__all__ = ["low_rank_peak"]

_BLOCK = 128  # landmarks proposed together, as in `LandmarkSearch`


def low_rank_peak(
    *,
    rows: int,
    points: int,
    dim: int,
    models: int,
    columns: int,
    rank: int,
    outputs: int,
    searched: int,
    block: int,
    whole: int,
) -> int:
    """Return the bytes that a fit took at its peak.

    Measured peaks of resident memory are between 0.6 and 1.1 times that (a factor of two is asserted in
    ``tests/estimate/test_peak_bytes.py``): the allocator keeps some of what one stage freed, so that
    output features count beside the stages that follow them.

    Parameters
    ----------
    rows, points, dim : int
        Rows of the sample, points of evaluation, input columns.
    models, columns, rank : int
        Models fitted together, their right-hand sides, landmarks.
    outputs : int
        Outputs among which output features were looked for.
    searched : int
        Candidates for landmarks.
    block : int
        Rows of a block of a pass.
    whole : int
        What the residuals of all rows took; 0 where they were not formed.
    """
    threads = get_num_threads()
    block, per_model = min(block, rows), columns // max(1, models)
    features = 8 * outputs * (3 * per_model + 6)
    proposed = min(_BLOCK, max(8, rank // 2))
    search = 8 * searched * (rank + 2 * proposed + 6 * columns + dim + 4)
    passes = 8 * block * (2 * rank + 4 * (1 + threads) * columns + 3 * dim) + 48 * rank**2
    kept = 8 * (5 * rows + 2 * points) + 8 * models * rows
    return threads * TILE_BYTES + kept + features + max(search, passes, whole + 24 * rank**2)
