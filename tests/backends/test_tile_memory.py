"""Memory of packed tiles that the next call uses again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd.backends.tile_memory import TILE_MEMORY, TileMemory

N, LIMIT = 2600, 4_000_000_000


@pytest.fixture
def memory() -> TileMemory:
    """No block waits for tiles."""
    TILE_MEMORY.trim(0)
    return TILE_MEMORY


def problem(n: int = N) -> tuple[np.ndarray, np.ndarray, fm.Gaussian]:
    """Rows of many columns, whose tiles are stored."""
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, 256)) * 0.1
    y = 10 * x[:, 0] + rng.normal(size=n)
    return x, y, fm.Gaussian(10 * x[:, 0], np.full(n, 1.2))


def values(n: int = N, limit: int = LIMIT) -> np.ndarray:
    """Exact values with tiles in memory."""
    result = fm.cce(*problem(n), x_kernel=fm.Polynomial(3), solver="cg", memory_limit=limit)
    assert result.info.cache in ("packed", "quantized")
    return np.asarray(result.values)


def test_the_next_call_uses_the_memory_again_whatever_it_holds(memory):
    first = values()
    waiting = memory.nbytes
    assert waiting >= 4 * N * (N + 1) // 2
    block = memory.take((waiting,), np.uint8)
    owner = block.base
    block.fill(255)  # NaN in float32 and float64
    memory.give(block, LIMIT)
    del block
    np.testing.assert_array_equal(values(), first)
    assert memory.take((waiting // 2, 2), np.uint8).base is owner


def test_no_more_waits_than_a_small_part_of_the_limit(memory):
    values(limit=32 * 13_000_000)
    assert memory.nbytes == 0
    values()
    assert memory.nbytes > 0
    fm.cce(*problem(200), memory_limit=100_000_000)
    assert memory.nbytes == 0


def test_memory_of_another_size_is_freed(memory):
    values()
    large = memory.nbytes
    values(1700)
    assert 0 < memory.nbytes < large / 2
    assert memory.take((5, 3), np.float32).shape == (5, 3)  # too small to take it
    assert memory.nbytes > 0
    array = memory.take((large,), np.uint8)
    assert array.nbytes == large
    assert memory.nbytes == 0


def test_calls_at_the_same_time_do_not_share_memory(memory):
    sizes = [2600, 2500, 2600, 2400]
    expected = [values(n) for n in sizes]
    with ThreadPoolExecutor(4) as pool:
        for result, value in zip(pool.map(values, sizes), expected, strict=True):
            np.testing.assert_array_equal(result, value)
