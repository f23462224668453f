"""Rows in every format agree with the plain array they were written from."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import (
    WRITERS,
    D,
    N,
    OldZarr,
    in_hdf5,
    in_npy,
    in_parquet,
    in_zarr,
    map_of,
    same,
    table_of,
)

from fastmcmd.rows import Rows, arrow, as_blocks, open_rows, table
from fastmcmd.rows import source as base


@pytest.fixture(scope="module")
def plain():
    return np.random.default_rng(1).normal(size=(N, D))


@pytest.fixture(scope="module")
def opened(tmp_path_factory, plain):
    def put(name, dtype):
        return open_rows(WRITERS[name](tmp_path_factory.mktemp("rows"), plain.astype(dtype)), "x")

    return {(name, dtype): put(name, dtype) for name in WRITERS for dtype in ("f4", "f8")}


@pytest.fixture(params=WRITERS)
def write(request, tmp_path):
    return lambda x: WRITERS[request.param](tmp_path, x)


# ---------------------------------------------------------------- what is read


def test_every_format_tells_what_it_is(opened, plain):
    for (name, dtype), x in opened.items():
        assert isinstance(x, Rows), name
        assert (x.shape, x.ndim, len(x), x.size) == ((N, D), 2, N, N * D)
        assert x.dtype == np.dtype(dtype)
        assert x.nbytes == plain.astype(dtype).nbytes
        assert x.in_memory == (name in ("arrow", "arrow-chunks", "zarr-duck"))
        x.check_unchanged()
        same(x[:], plain.astype(dtype))


FEW = settings(max_examples=8)  # each looks at every format in both types


@pytest.mark.slow
@FEW
@given(st.integers(1, N + 5))
def test_blocks(opened, plain, step):
    for (_, dtype), x in opened.items():
        expected = plain.astype(dtype)
        ends = 0
        for place, block in x.blocks(step):
            assert place.start == ends
            assert len(block) == min(step, N - ends)
            same(block, expected[place])
            ends = place.stop
        assert ends == N


@FEW
@given(st.slices(N))
def test_slices(opened, plain, place):
    for (_, dtype), x in opened.items():
        same(x[place], plain.astype(dtype)[place])


@FEW
@given(st.lists(st.integers(-N, N - 1), max_size=40), st.sampled_from(["list", "i4", "i8"]))
def test_row_numbers_in_any_order_with_repeats(opened, plain, index, kind):
    index = index if kind == "list" else np.array(index, dtype=kind)
    for (_, dtype), x in opened.items():
        same(x[index], plain.astype(dtype)[np.asarray(index, dtype=int)])


@FEW
@given(st.lists(st.booleans(), min_size=N, max_size=N))
def test_masks(opened, plain, mask):
    for (_, dtype), x in opened.items():
        same(x[np.array(mask)], plain.astype(dtype)[np.array(mask)])


@pytest.mark.slow
@given(
    st.lists(st.integers(0, N - 1), max_size=30),
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(1, 400),
)
def test_any_sizes_of_blocks_gaps_and_batches(tmp_path_factory, plain, index, block, gap, batch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "_BLOCK_BYTES", block)
        patch.setattr(table, "_CHUNK_BYTES", 4 * block)
        patch.setattr(base, "_GAP_BYTES", gap)
        patch.setattr(arrow, "_BATCH_BYTES", batch)
        folder = tmp_path_factory.mktemp("rows")
        for name in ("npy", "npy-fortran", "hdf5-chunked", "parquet-groups"):
            x = open_rows(WRITERS[name](folder, plain), "x")
            same(x[index], plain[np.asarray(index, dtype=int)])
            np.testing.assert_array_equal(np.concatenate([b for _, b in x.blocks()]), plain)


@pytest.mark.parametrize(
    ("stored_type", "expected"),
    [("f2", "f4"), ("i2", "f8"), ("u8", "f8"), ("?", "f8"), (">f4", "f4"), (">i4", "f8")],
)
def test_other_types(tmp_path, stored_type, expected):
    x = np.array([[0, 1], [1, 0], [1, 1]], dtype=stored_type)
    sources = [open_rows(in_npy(tmp_path, x), "x"), open_rows(in_hdf5(tmp_path, x), "x")]
    if x.dtype.isnative:
        sources += [open_rows(table_of(x), "x"), open_rows(in_parquet(tmp_path, x), "x")]
        sources += [open_rows(in_zarr(tmp_path, x, 3), "x")]
    for rows in sources:
        same(rows[:], x.astype(expected))
        same(rows[[2, 0]], x.astype(expected)[[2, 0]])


def test_columns_of_mixed_types_become_float64(tmp_path):
    table = pa.table({"a": np.float32([0.1, 2]), "b": [True, False], "c": np.int8([3, -4])})
    expected = np.array([[np.float32(0.1), 1, 3], [2, 0, -4]])
    same(open_rows(table, "x")[:], expected)
    pq.write_table(table, tmp_path / "t.parquet")
    same(open_rows(tmp_path / "t.parquet", "x")[:], expected)
    same(open_rows(f"{tmp_path}/t.parquet::c, a", "x")[:], expected[:, [2, 0]])
    same(open_rows(f"{tmp_path}/t.parquet::a", "x")[:], expected[:, :1].astype("f4"))


def test_the_index_of_a_frame_is_no_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0]}, index=["one", "two"])
    frame.to_parquet(tmp_path / "t.parquet")
    same(open_rows(tmp_path / "t.parquet", "x")[:], np.array([[1.0], [2.0]]))


def test_one_dimension_is_one_column(tmp_path):
    y = np.arange(N, dtype="f4")
    sources = [
        in_npy(tmp_path, y),
        map_of(tmp_path, y),
        in_hdf5(tmp_path, y, chunks=(10,)),
        in_zarr(tmp_path, y, 3),
    ]
    for source in sources:
        rows = open_rows(source, "y")
        assert rows.shape == (N, 1)
        same(rows[5:9], y[5:9, None])
        same(rows[[9, 5]], y[[9, 5], None])


def test_what_is_in_memory_is_an_array(plain):
    for value in (plain, plain.tolist(), plain.astype(int)):
        assert type(open_rows(value, "x")) is np.ndarray
    with pytest.raises(ValueError, match=r"^x has 3 columns; 2 are needed"):
        open_rows(plain, "x", columns=2)
    with pytest.raises(TypeError, match=r"^x has dtype complex128"):
        open_rows(plain * 1j, "x")


def test_arithmetic_with_a_map_is_in_memory(tmp_path, plain):
    assert type(open_rows(map_of(tmp_path, plain) + 1.0, "x")) is not Rows


def test_rows_are_passed_on(tmp_path, plain):
    rows = open_rows(in_npy(tmp_path, plain), "x")
    assert open_rows(rows, "grid", columns=D) is rows
    with pytest.raises(ValueError, match="has 3 columns; 4 are needed"):
        open_rows(rows, "grid", columns=4)


def test_as_blocks_is_the_same_for_arrays_and_rows(tmp_path, plain):
    rows = open_rows(in_npy(tmp_path, plain), "x")
    for step in (None, 1, 10, 500):
        pairs = list(zip(as_blocks(plain, step), as_blocks(rows, step), strict=True))
        for (place, block), (same_place, read_block) in pairs:
            assert place == same_place
            assert np.shares_memory(block, plain)
            same(read_block, block)


@pytest.mark.parametrize("start", [0, 30, 35, 96, 97, 200])
def test_blocks_begin_at_the_requested_row(plain, start):
    """A resumed pass does not read finished rows again."""
    source = OldZarr(plain)
    pairs = zip(
        as_blocks(plain, 10, start), as_blocks(open_rows(source, "x"), 10, start), strict=True
    )
    starts = []
    for (place, block), (same_place, read_block) in pairs:
        assert place == same_place
        same(block, plain[place])
        same(read_block, block)
        starts.append(place.start)
    assert starts == list(range(start, 97, 10))
    assert [place.start for place in source.reads] == starts


@pytest.mark.parametrize("step", [0, -1])
def test_a_step_is_positive(tmp_path, plain, step):
    for x in (plain, open_rows(in_npy(tmp_path, plain), "x")):
        with pytest.raises(ValueError, match=f"step is {step}"):
            list(as_blocks(x, step))


def test_blocks_are_whole_chunks_of_about_16_mb():
    tall = OldZarr(np.broadcast_to(np.float32(0), (10**8, 4)))
    assert open_rows(tall, "x").block_rows == 1_000_000 - 1_000_000 % 7
    tall.chunks = (3_000_000, 4)  # 48 MB
    assert open_rows(tall, "x").block_rows == 3_000_000
    tall.chunks = (30_000_000, 4)  # 480 MB: read in pieces
    assert open_rows(tall, "x").block_rows == 1_000_000


def test_a_chunk_is_read_once(plain):
    source = OldZarr(plain)
    open_rows(source, "x")[[90, 0, 6, 3, 90, 13]]
    assert source.reads == [slice(0, 7), slice(13, 14), slice(90, 91)]


# ---------------------------------------------------------------- the thread that reads ahead


def test_one_block_is_read_ahead_while_the_caller_works(plain):
    source = OldZarr(plain)
    blocks = open_rows(source, "x").blocks(10)
    next(blocks)
    limit = time.monotonic() + 10
    while len(source.reads) < 2 and time.monotonic() < limit:
        time.sleep(0.001)
    time.sleep(0.02)  # long enough for a third, if one were requested
    assert source.reads == [slice(0, 10), slice(10, 20)]
    blocks.close()


def reading_threads():
    return [t for t in threading.enumerate() if t.name.startswith("fastmcmd-rows")]


def test_closing_early_ends_the_thread(write, plain):
    blocks = open_rows(write(plain), "x").blocks(5)
    next(blocks)
    assert reading_threads()
    blocks.close()
    assert not reading_threads()


def test_errors_of_the_reader_are_raised_in_the_caller(plain):
    class Broken(OldZarr):
        def __getitem__(self, place):
            if place.start >= 40:
                raise RuntimeError("checksum does not match")
            return super().__getitem__(place)

    blocks_seen = []
    with pytest.raises(ValueError, match=r"^x .* in rows 40 to 49: checksum does not match"):
        blocks_seen.extend(place.stop for place, _ in open_rows(Broken(plain), "x").blocks(10))
    assert blocks_seen == [10, 20, 30, 40]
    assert not reading_threads()


def test_rows_are_taken_while_blocks_are_read(write, plain):
    x = open_rows(write(plain), "x")
    for place, block in x.blocks(7):
        same(x[[place.start, 96, 0]], plain[[place.start, 96, 0]])
        same(block, plain[place])


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("source", ["npy", "memmap"])
def test_what_is_read_does_not_stay_in_memory(tmp_path, source):
    path = tmp_path / "long.npy"
    np.lib.format.open_memmap(path, "w+", "f8", (1_000_000, 8)).flush()  # 64 MB of zeros
    x = open_rows(path if source == "npy" else np.load(path, mmap_mode="r"), "x")
    resident = []
    for _ in x.blocks(25_000):  # 1.6 MB
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        resident.append(pages * os.sysconf("SC_PAGE_SIZE"))
    assert max(resident) - resident[0] < 16e6


def test_fingerprints(opened, plain, tmp_path):
    for dtype in ("f4", "f8"):
        assert len({x.fingerprint() for (_, kind), x in opened.items() if kind == dtype}) == 1
    first = opened["npy", "f8"].fingerprint()
    other = plain.copy()
    other[50, 1] = np.nextafter(other[50, 1], 9)
    assert open_rows(in_npy(tmp_path, other), "x").fingerprint() != first
    assert open_rows(in_npy(tmp_path, plain[::-1]), "x").fingerprint() != first
    assert open_rows(in_npy(tmp_path, plain.reshape(-1)), "x").fingerprint() != first
    assert opened["npy", "f4"].fingerprint() != first
