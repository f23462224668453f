"""Work over rows on threads: its order, its errors, and results independent of their number."""

import threading
import time

import numpy as np
import pytest

import fastmcmd as fm
from fastmcmd._base.blocks import ahead, over_rows, row_blocks
from fastmcmd.estimate import part_problem
from fastmcmd.rows import open_rows, table


@pytest.fixture
def threads():
    """Set the number of threads for the test."""
    yield fm.set_num_threads
    fm.set_num_threads(None)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_what_is_made_ahead_comes_in_order(count):
    def work(rows):
        time.sleep(0.002 * (rows.start % 3))  # later ones may be ready first
        return rows.start, rows.stop

    blocks = row_blocks(23, 4)
    assert list(ahead(work, blocks, count)) == [(b.start, b.stop) for b in blocks]
    assert list(ahead(work, [], count)) == []


def test_no_more_blocks_are_made_ahead_than_requested():
    starts = []
    blocks = ahead(lambda rows: starts.append(rows.start), row_blocks(100, 1), 3)
    for count in range(5):
        next(blocks)
        time.sleep(0.02)
        assert count < len(starts) <= count + 1 + 3
    blocks.close()
    time.sleep(0.02)
    assert len(starts) <= 8


def test_errors_come_at_their_place():
    def work(rows):
        if rows.start == 2:
            raise KeyError("third")
        return rows.start

    blocks = ahead(work, row_blocks(10, 1), 4)
    assert [next(blocks), next(blocks)] == [0, 1]
    with pytest.raises(KeyError, match="third"):
        next(blocks)
    assert threading.active_count() < 30


def test_threads_that_share_work_get_no_more(threads):
    """Otherwise 16 threads would each use 16."""
    threads(4)

    def work(rows):
        inner = over_rows(lambda _: threading.get_ident(), 8, 1)
        return fm.get_num_threads(), len(set(inner)), inner[0] == threading.get_ident()

    assert over_rows(work, 6, 1) == [(1, 1, True)] * 6
    assert list(ahead(work, row_blocks(6, 1), 2)) == [(1, 1, True)] * 6
    assert fm.get_num_threads() == 4


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("memory_order", ["C", "F"])
def test_files_are_read_in_pieces(tmp_path, threads, rng, monkeypatch, count, memory_order):
    monkeypatch.setattr(table, "_PIECE_BYTES", 1000)
    threads(count)
    values = np.asarray(rng.normal(size=(700, 9)), order=memory_order)
    np.save(tmp_path / "x.npy", values)
    rows = open_rows(tmp_path / "x.npy", "x")
    for step in (None, 100, 333):
        pieces = [(place, block) for place, block in rows.blocks(step)]
        np.testing.assert_array_equal(np.concatenate([block for _, block in pieces]), values)
        assert pieces[0][0].start == 0
        assert pieces[-1][0].stop == 700
    values[[130, 555], 3] = np.nan, np.inf
    np.save(tmp_path / "bad.npy", values)
    with pytest.raises(ValueError, match=r"bad.npy\) holds NaN \(first in row 130;"):
        open_rows(tmp_path / "bad.npy", "x")[:]


def test_a_file_that_is_cut_while_it_is_read(tmp_path, threads, rng):
    threads(3)
    path = tmp_path / "x.npy"
    np.save(path, rng.normal(size=(5000, 9)))
    rows = open_rows(path, "x")
    with open(path, "r+b") as file:
        file.truncate(200_000)
    with pytest.raises(RuntimeError, match="x changed on disk while it was being read"):
        rows[:]


def test_large_numbers_are_finite_though_their_sum_is_not(tmp_path):
    x = np.full((40, 3), 3e38, np.float32)
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(open_rows(tmp_path / "x.npy", "x")[:], x)


@pytest.mark.parametrize("memory_order", [False, True])
def test_passes_do_not_depend_on_threads(tmp_path, threads, rng, monkeypatch, memory_order):
    """Blocks that several threads prepare give the sums, and the bounds, of one thread."""
    monkeypatch.setattr(part_problem, "_MOST_ROWS", 300)
    x = rng.normal(size=(2500, 2))
    y, draws = (
        np.sin(x[:, 0]) + rng.normal(size=2500),
        np.sin(x[:, 0]) + rng.normal(size=(2500, 2)).T[0],
    )
    weights = rng.uniform(0.5, 2, 2500)
    source = x
    if memory_order:
        source = tmp_path / "x.npy"
        np.save(source, x)
    results = []
    for count in (1, 4):
        threads(count)
        results.append(
            fm.cce(
                source, y, draws, weights=weights, x_kernel=fm.RBF(0.5), solver="lowrank", tol=1e-5
            )
        )
    assert results[0].info.passes >= 1
    np.testing.assert_array_equal(results[0].values, results[1].values)
    assert results[0].error_bound == results[1].error_bound


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_block_that_fails_is_the_error(threads):
    def work(rows):
        if rows.start in (5, 11, 12):
            raise IndexError(f"row {rows.start}")

    fm.set_num_threads(threads)
    try:
        with pytest.raises(IndexError, match="row 5"):
            over_rows(work, 40, 1)
    finally:
        fm.set_num_threads(None)
