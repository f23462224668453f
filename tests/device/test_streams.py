"""The order of work on a device: streams, events and memory in their worst order (fake_streams.py).

First the stand-in itself: programs with a planted race must go wrong in it. Then work of all kinds: it must
give the bits that it gives where everything happens at once, and must not without any synchronisation.
"""

import functools
import re
import sys
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fake_cupy
import numpy as np
import pytest
from builders import unit_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

import fastmcmd as fm
from fastmcmd.backends.cupy import CupyBackend
from fastmcmd.device import cuda, layout, slots, sweep
from fastmcmd.device.base import DeviceMemoryError
from fastmcmd.rows import open_rows

SEEDS = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def play(patch):
    """Return the function that installs a new module for CuPy, in a mode; tiles are small, so many."""
    patch.setattr(cuda, "_MEASURED", 64)
    patch.setattr(layout, "SMALLEST_TILE", 16)
    patch.setattr(sweep, "SMALLEST_TILE", 16)
    patch.setattr(layout, "_WORTH", 64)
    patch.setattr(sys.modules["fastmcmd.estimate.arguments"], "_TINY", 0)

    def play(mode, seed=0):
        forget()
        module = fake_cupy.module(mode=mode, seed=seed)
        patch.setitem(sys.modules, "cupy", module)
        return module

    yield play
    forget()


def forget():
    cuda.cuda_device_count.cache_clear()
    cuda.cuda_device.cache_clear()


# ------------------------------------------------------------------------------- the stand-in itself


def two_streams(play, mode="late", seed=0):
    cp = play(mode, seed)
    return cp, cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)


def ones(size):
    return np.ones(size, np.float32)


@pytest.mark.parametrize("waits", [True, False])
def test_work_that_does_not_wait_for_a_copy(play, waits):
    cp, work, copies = two_streams(play)
    on_device, event = cp.zeros((100,), np.float32), cp.cuda.Event()
    cp.cuda.get_current_stream().synchronize()
    on_device.set(ones(100), stream=copies)
    event.record(copies)
    if waits:
        work.wait_event(event)
    copied = on_device.get(stream=work)
    assert (copied == (1 if waits else 0)).all()


@pytest.mark.parametrize("waits", [True, False])
def test_pinned_memory_that_is_written_to_too_early(play, waits):
    cp, _, copies = two_streams(play)
    on_device = cp.empty((100,), np.float32)
    cp.cuda.get_current_stream().synchronize()
    pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(400), np.float32, 100)
    pinned[:] = 1
    on_device.set(pinned, stream=copies)
    if waits:
        copies.synchronize()
    pinned[:] = 2
    assert (on_device.get(stream=copies) == (1 if waits else 2)).all()


@pytest.mark.parametrize("resident", [True, False])
def test_pinned_memory_that_is_given_back_too_early(play, resident):
    cp, _, copies = two_streams(play)
    on_device = cp.empty((100,), np.float32)
    cp.cuda.get_current_stream().synchronize()
    pinned_block = cp.cuda.alloc_pinned_memory(400)
    pinned = np.frombuffer(pinned_block, np.float32, 100)
    pinned[:] = 1
    on_device.set(pinned, stream=copies)
    if not resident:
        del pinned_block, pinned
    np.frombuffer(cp.cuda.alloc_pinned_memory(300), np.float32)[:] = 2
    assert (on_device.get(stream=copies) == (1 if resident else 2)).all()


def test_other_memory_of_the_host_is_read_at_the_call(play):
    cp, _, copies = two_streams(play)
    on_device, host = cp.empty((100,), np.float32), ones(100)
    cp.cuda.get_current_stream().synchronize()
    on_device.set(host, stream=copies)
    host[:] = 2
    assert (on_device.get(stream=copies) == 1).all()


@pytest.mark.parametrize("waits", [True, False])
def test_memory_that_is_given_back_while_another_stream_reads_it(play, waits):
    cp, work, copies = two_streams(play)
    with work:
        first = cp.asarray(ones(100))
        out = cp.empty((100,), np.float32)
    work.synchronize()
    with copies:
        out[...] = first
    if waits:
        copies.synchronize()
    place = first.data.ptr
    del first
    with work:
        again = cp.zeros((100,), np.float32)
        assert again.data.ptr == place
        work.synchronize()
    assert (out.get(stream=copies) == (1 if waits else 0)).all()


def test_memory_is_reused_in_the_order_of_its_stream(play):
    """The host never has to wait; another stream gets other memory."""
    cp, work, copies = two_streams(play)
    with work:
        first, out = cp.asarray(ones(100)), cp.empty((100,), np.float32)
        out[...] = first
        place = first.data.ptr
        del first
        assert cp.empty((50,), np.float32).data.ptr == place
    with copies:
        assert cp.empty((100,), np.float32).data.ptr != place
    assert (out.get(stream=work) == 1).all()


def test_memory_handed_out_holds_nothing(play):
    cp = play("late")
    assert np.isnan(cp.empty((100,), np.float32).get()).all()


def test_an_event_is_waited_for_as_it_was_at_the_call(play):
    cp, work, copies = two_streams(play)
    first, second = cp.zeros((9,), np.float32), cp.zeros((9,), np.float32)
    event = cp.cuda.Event()
    work.wait_event(event)  # never recorded: nothing
    event.synchronize()
    cp.cuda.get_current_stream().synchronize()
    first.set(ones(9), stream=copies)
    event.record(copies)
    work.wait_event(event)
    second.set(ones(9), stream=copies)
    event.record(copies)
    assert (second.get(stream=work) == 0).all()
    assert (first.get(stream=work) == 1).all()
    event.synchronize()
    work.synchronize()
    assert (second.get(stream=work) == 1).all()


def test_only_the_requested_work_runs(play):
    cp, work, copies = two_streams(play)
    log = []
    work._queue().issue(lambda: log.append("work"))
    copies._queue().issue(lambda: log.append("copy"))
    event = cp.cuda.Event()
    event.record(copies)
    copies._queue().issue(lambda: log.append("later"))
    cp.cuda.runtime.memGetInfo()
    assert not log
    work.wait_event(event)
    work._queue().issue(lambda: log.append("after"))
    work.synchronize()
    assert log == ["work", "copy", "after"]
    pool = cp.cuda.MemoryPool()
    _ = pool.malloc(100)
    del _
    pool.free_all_blocks()  # by cudaFree, which waits for the device
    assert log[-1] == "later"


def test_devices_and_threads_have_streams_of_their_own(play):
    cp, work, _ = two_streams(play)
    streams = []
    with work:
        assert cp.cuda.get_current_stream() is work
        with cp.cuda.Device(1):
            assert cp.cuda.get_current_stream() is not work
            with pytest.raises(RuntimeError, match="device"):
                work.__enter__()
            event = cp.cuda.Event()
        with pytest.raises(AssertionError, match="another device"):
            event.record(work)
        thread = threading.Thread(target=lambda: streams.append(cp.cuda.get_current_stream()))
        thread.start()
        thread.join()
        assert cp.cuda.get_current_stream() is work
    assert streams[0] is cp.cuda.get_current_stream() is not work


@given(SEEDS)
@settings(max_examples=10)
def test_chance_keeps_the_order_of_streams_and_events(play, seed):
    cp, work, copies = two_streams(play, "random", seed)
    log = []
    for turn in range(20):
        copies._queue().issue(lambda turn=turn: log.append(turn))
        event = cp.cuda.Event()
        event.record(copies)
        work.wait_event(event)
        work._queue().issue(lambda turn=turn: log.append(turn + 0.5))
    work.synchronize()
    assert [v for v in log if v == int(v)] == list(range(20))
    assert [v for v in log if v != int(v)] == [turn + 0.5 for turn in range(20)]
    assert all(log.index(turn) < log.index(turn + 0.5) for turn in range(20))


def test_chance_finds_a_race(play):
    def wrong(seed):
        cp, work, copies = two_streams(play, "random", seed)
        on_device = cp.zeros((9,), np.float32)
        cp.cuda.get_current_stream().synchronize()
        on_device.set(ones(9), stream=copies)
        return (on_device.get(stream=work) != 1).any()

    assert 5 < sum(wrong(seed) for seed in range(40)) < 35


def test_a_pool_splits_and_joins(play):
    cp = play("eager")
    pool = cp.cuda.MemoryPool()
    pool.set_limit(size=4096)
    with cp.cuda.using_allocator(pool.malloc):
        large = cp.empty((4096,), np.uint8)
        del large
        parts = [cp.empty((1000,), np.uint8) for _ in range(4)]
        assert pool.used_bytes() == 4096
        del parts[1], parts[2]  # the second and the fourth: two do not fit together
        with pytest.raises(cp.cuda.memory.OutOfMemoryError):
            cp.empty((2000,), np.uint8)
        del parts[1]
        assert cp.empty((3000,), np.uint8).size == 3000
        parts.clear()
        assert cp.empty((4096,), np.uint8).size == 4096
    pool.free_all_blocks()
    with cp.cuda.Device(1):
        assert pool.used_bytes() == 0


# --------------------------------------------------------------------------------------- whole calls


KERNEL = fm.RBF(0.4)


def backend_of(budget, gpus=1, tile=64):
    return CupyBackend(
        tile=tile, devices=tuple(cuda.CudaDevice(index, budget) for index in range(gpus))
    )


def rows_that_pass_through(cp, tmp_path):
    """Use several blocks of both sides in two precisions: slots of the second are larger."""
    x, z = unit_inputs(420)[0], unit_inputs(420, seed=1)[0].astype(np.float64)
    backend = backend_of(170_000)
    points, other_points = backend.points(x, np.float32), backend.points(z, np.float32)
    v = np.random.default_rng(2).normal(size=(420, 3))
    results = [
        backend.matmul(KERNEL, points, other_points, v),
        backend.matmul(KERNEL, other_points, points, v),
    ]
    results.append(backend.symmetric_matmul(KERNEL, other_points, v))
    assert (
        points.rows.resident(backend.devices[0])
        is other_points.rows.resident(backend.devices[0])
        is None
    )
    exact = [KERNEL(a.astype(float), b.astype(float)) @ v for a, b in ((x, z), (z, x), (z, z))]
    return results, exact


def rows_of_another_device(cp, tmp_path):
    x, z = unit_inputs(420)[0], unit_inputs(420, seed=1)[0]
    with cp.cuda.Device(1):
        on_device = cp.asarray(x)
        cp.cuda.get_current_stream().synchronize()
    backend = backend_of(150_000)
    points, other_points = backend.points(on_device, np.float32), backend.points(z, np.float32)
    results = [backend.gram(KERNEL, points, other_points), backend.gram(KERNEL, points)]
    return results, [KERNEL(x.astype(float), w.astype(float)) for w in (z, x)]


def rows_that_stay(cp, tmp_path):
    x, z = unit_inputs(200)[0], unit_inputs(300, seed=1)[0]
    backend = backend_of(10**7, 2)
    points, other_points = backend.points(x, np.float64), backend.points(z, np.float64)
    results = [backend.gram(KERNEL, points, other_points), backend.gram(KERNEL, points)]
    return results, [KERNEL(x.astype(float), w.astype(float)) for w in (z, x)]


def a_factor(cp, tmp_path, gpus=1):
    x = unit_inputs(300)[0]
    v = np.random.default_rng(2).normal(size=(300, 3))
    backend = backend_of(10**6, gpus)
    packed, product = backend.pack_matmul(KERNEL, backend.points(x, np.float64), v)
    backend.packed_add_diagonal(packed, np.full(300, 0.5))
    backend.packed_cholesky(packed)
    matrix = KERNEL(x.astype(float))
    shifted = matrix + 0.5 * np.eye(300)
    results = [product, packed.tiles.to_host(), backend.packed_solve(packed, v)]
    return results, [matrix @ v, np.linalg.cholesky(shifted), np.linalg.solve(shifted, v)]


def a_factor_on_two_devices(cp, tmp_path):
    return a_factor(cp, tmp_path, 2)


def features(cp, tmp_path):
    x, y, _ = unit_inputs(900, 3)
    rhs, z = np.stack([y, y**2], axis=1), unit_inputs(50, 3, seed=1)[0]
    factor = np.linalg.cholesky(KERNEL(z.astype(float)) + 1e-3 * np.eye(50))
    backend = backend_of(1_000_000, 2)
    marks, points = backend.points(z, np.float64), backend.points(x, np.float64)
    result = backend.features(KERNEL, marks, points, factor, keep=True, sizes=True)
    sums = backend.products(50, 2)
    sums.add(result.values, rhs, np.abs(y))
    again = backend.features(KERNEL, marks, points, factor, keep=False, sizes=False)
    exact = np.linalg.solve(factor, KERNEL(z.astype(float), x.astype(float)))
    weighted = exact * np.abs(y)
    return (
        [backend.to_host(result.values), result.squares, result.sizes, *sums.sums(), again.squares],
        [
            exact, (exact**2).sum(0), np.linalg.norm(np.linalg.solve(factor.T, exact), axis=0),
            weighted @ exact.T, weighted @ rhs, (exact**2).sum(0),
        ],
    )  # fmt: skip


def copies(cp, tmp_path):
    """The result uses the pinned host memory as it was at the call, though it is overwritten at once."""
    gpu, other = cuda.CudaDevice(0, 10**6), cuda.CudaDevice(1, 10**6)
    pinned = np.frombuffer(cp.cuda.alloc_pinned_memory(8000), np.float64, 1000).reshape(20, 50)
    exact = np.random.default_rng(0).normal(size=(20, 50))
    pinned[:] = exact
    on_device = gpu.upload(pinned)
    pinned[:] = 0
    on_other = other.take_from(gpu, gpu.copy(on_device))
    gpu.clear(on_device)  # and reuses the memory of freed arrays
    parts = [other.take_from(gpu, gpu.upload(exact)[:, 3:9])]
    scratch = [gpu.zeros((20, 50), np.float64) for _ in range(4)]
    results = [gpu.download(on_device), other.download(on_other), other.download(parts[0])]
    del scratch
    return results, [np.zeros((20, 50)), exact, exact[:, 3:9]]


CASES = [
    rows_that_pass_through, rows_of_another_device, rows_that_stay, a_factor, a_factor_on_two_devices,
    features, copies,
]  # fmt: skip


def right(results, exact):
    return all(
        np.allclose(one, other, rtol=1e-4, atol=1e-4)
        for one, other in zip(results, exact, strict=True)
    )


@pytest.fixture(scope="module")
def at_once(play, tmp_path_factory):
    """Return the results of the cases when everything happens at once; these are right."""
    cases = {}
    for case in CASES:
        results, exact = case(play("eager"), tmp_path_factory.getbasetemp())
        assert right(results, exact)
        cases[case] = results
    return cases


def same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_work_as_late_as_may_be_gives_the_same_bits(play, at_once, tmp_path, case):
    results, _ = case(play("late"), tmp_path)
    assert same(results, at_once[case])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@given(SEEDS)
@settings(max_examples=3)
def test_work_at_random_gives_the_same_bits(play, at_once, tmp_path_factory, case, seed):
    results, _ = case(play("random", seed), tmp_path_factory.getbasetemp())
    assert same(results, at_once[case])


# The kinds of x, and how each is passed.
def on_host(cp, x, path):
    return x


def in_a_file(cp, x, path):
    np.save(path / "x.npy", x)
    return path / "x.npy"


def on_the_device(cp, x, path, gpu=0):
    """The array is still on its way there, in the caller's current stream."""
    with cp.cuda.Device(gpu):
        return cp.asarray(x)


def on_another_device(cp, x, path):
    return on_the_device(cp, x, path, 1)


BLOCKS = dict(solver="cg", device_memory_limit=400_000)
LOW_RANK = dict(solver="lowrank", tol=1e-3)
TWO = dict(devices=[0, 1])
CALLS = {  # how x is given, its columns, options
    "host": (on_host, 64, BLOCKS),
    "file": (in_a_file, 64, BLOCKS),
    "file, two devices": (in_a_file, 64, BLOCKS | TWO),
    "device": (on_the_device, 64, BLOCKS),
    "another device": (on_another_device, 64, BLOCKS | dict(devices=[0])),
    "Cholesky": (on_host, 64, dict(solver="cholesky")),
    "Cholesky, two devices": (on_host, 64, dict(solver="cholesky") | TWO),
    "low rank": (on_host, 2, LOW_RANK),
    "low rank, two devices": (on_another_device, 2, LOW_RANK | TWO),
}


def called(cp, name, path):
    """Return the result of a whole call."""
    put, columns, options = CALLS[name]
    x, y, draws = unit_inputs(420, d=columns)
    options = dict(x_kernel=KERNEL, tol=1e-5) | options
    return fm.cce(put(cp, x, path), y, draws, backend="cupy", **options)


@pytest.mark.parametrize("name", CALLS)
def test_whole_calls(play, layouts, tmp_path, name):
    _, columns, options = CALLS[name]
    plain = called(play("eager"), name, tmp_path)
    if "device_memory_limit" in options:  # rows pass through
        assert any(not how.held_resident and not how.streamed_resident for how in layouts)
    exact = on_the_cpu(columns)
    bound = plain.error_bound + exact.error_bound
    assert np.abs(np.asarray(plain) - exact.values).max() <= bound
    for mode, seed in (("late", 0), ("random", 1)):
        results = called(play(mode, seed), name, tmp_path)
        np.testing.assert_array_equal(np.asarray(results), np.asarray(plain))
        assert results.error_bound == plain.error_bound


@functools.cache
def on_the_cpu(d):
    return fm.cce(*unit_inputs(420, d=d), x_kernel=KERNEL, tol=1e-9, dtype="float64", backend="cpu")


@pytest.fixture
def layouts(monkeypatch):
    """Record how products are split."""
    layouts_seen = []

    def choose(*arguments):
        layouts_seen.append(layout.choose(*arguments))
        return layouts_seen[-1]

    monkeypatch.setattr("fastmcmd.backends.cupy.choose", choose)
    return layouts_seen


# ------------------------------------------------------------------------------------ regressions


@pytest.fixture(params=["late", "random"])
def gpus(play, request):
    """Two devices work, even if their budgets are not tight."""
    play(request.param, 1)
    return [cuda.CudaDevice(index, 10**6) for index in range(2)]


@pytest.mark.slow
def test_memory_that_another_limit_left_is_given_back(play, monkeypatch):
    """Each limit has its own pool, which did not release free memory; the next call did not fit."""
    module = fake_cupy.module(memory=10**6)
    forget()
    monkeypatch.setitem(sys.modules, "cupy", module)
    cuda.cuda_device(0, 700_000).zeros((600_000,), np.uint8)
    gpu = cuda.cuda_device(0, 800_000)
    assert gpu.download(gpu.zeros((750_000,), np.uint8)).sum() == 0
    assert cuda.cuda_device(0, None).budget > 600_000
    with pytest.raises(DeviceMemoryError):
        gpu.empty((900_000,), np.uint8)
    resident = gpu.zeros((750_000,), np.uint8)
    with pytest.raises(DeviceMemoryError):
        cuda.cuda_device(0, 700_000).empty((600_000,), np.uint8)
    del resident
    forget()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["late", "random"])
def test_small_arrays_that_live_long_do_not_cut_large_pieces(play, mode):
    play(mode, 5)
    gpu = cuda.CudaDevice(0, 10**6)
    tile = gpu.empty((600_000,), np.uint8)
    del tile
    small = [gpu.upload(np.full(64, float(value))) for value in range(20)]
    rows = gpu.empty((900_000,), np.uint8)  # memory suffices: all but the small ones are free
    assert gpu.held < 10**6
    with pytest.raises(DeviceMemoryError):
        gpu.empty((100_000,), np.uint8)
    del rows
    assert [gpu.download(part)[0] for part in small] == list(range(20))


@pytest.mark.slow
def test_pieces_of_many_sizes_are_given_back(play):
    play("eager")
    gpu = cuda.CudaDevice(0, 10**8)
    resident = [gpu.empty((512 * size,), np.uint8) for size in range(1, 700, 7)]
    for size in range(1, 700):
        gpu.empty((512 * size,), np.uint8)
    assert len(gpu._memory._pools) <= 256
    assert gpu.held == sum(array.nbytes for array in resident)


def test_arrays_in_a_cycle_are_an_error(play):
    play("eager")
    gpu = cuda.CudaDevice(0, 10**6)
    cycle = [gpu.empty((600_000,), np.uint8)]
    cycle.append(cycle)
    del cycle
    assert gpu.empty((900_000,), np.uint8).size == 900_000


def block(value, rows=64):
    return np.full((rows, 32), float(value))


def test_each_device_tells_its_own_memory(gpus):
    """CuPy's pools report the current device, which for an outside caller is another one."""
    resident = gpus[1].upload(block(1))
    assert gpus[1].held == resident.nbytes
    assert gpus[0].held == 0
    assert not gpus[1].has_memory(10**6)


def test_a_slot_that_grows_keeps_its_pinned_memory_until_it_is_read(play):
    """Rows of two precisions shared one slot; the other device took the freed memory."""
    play("late")
    gpu, other = (cuda.CudaDevice(index, 10**6) for index in range(2))
    gpu.copy_in(0, block(1))
    first = gpu.copy(gpu.arrived(0))
    gpu.done_with(0)
    gpu.copy_in(0, block(2, 128))
    other.copy_in(0, block(3))
    assert (gpu.download(first) == 1).all()
    assert (gpu.download(gpu.arrived(0)) == 2).all()
    assert (other.download(other.arrived(0)) == 3).all()


def test_a_slot_that_grows_after_an_error_is_not_written_to(play):
    """A copy wrote into memory that had been reused meanwhile."""
    play("late")
    gpu = cuda.CudaDevice(0, 10**6)
    gpu.copy_in(0, block(1))  # and an error before it arrives
    gpu.copy_in(0, block(2, 128))
    mine = gpu.zeros((64, 32), np.float64)
    gpu.copy(mine)
    gpu.stream.synchronize()
    gpu.copies.synchronize()
    assert (gpu.download(mine) == 0).all()


def test_threads_share_a_device(gpus):
    """Two calls run on one device at once, each with its own slots."""
    gpu, turns, results = gpus[0], threading.Barrier(2, timeout=20), {}

    def work(value):
        gpu.copy_in(0, block(value))
        turns.wait()
        first = gpu.copy(gpu.arrived(0))
        gpu.done_with(0)
        gpu.copy_in(1, block(value + 10))
        turns.wait()
        gpu.copy_in(0, block(value + 20))
        results[value] = [gpu.download(v) for v in (first, gpu.arrived(1), gpu.arrived(0))]
        gpu.drop_slots()

    on_threads(work, 1, 2)
    for value in (1, 2):
        for step, part in enumerate(results[value]):
            assert (part == value + 10 * step).all()
    assert gpu.held == 0


def on_threads(work, *values):
    errors = []

    def run(value):
        try:
            work(value)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_a_thread_that_ends_leaves_no_slots(gpus):
    def work(value):
        gpus[0].copy_in(0, block(value))  # and an error before it arrives

    on_threads(work, 1)
    assert gpus[0].held == 0


def test_a_copy_that_fails_leaves_no_thread_at_work():
    """Pinned memory may be refilled at once."""
    start_event, failed, log = threading.Event(), threading.Event(), []

    class Rows:
        def __len__(self):
            return 2

        def __getitem__(self, rows):
            if rows == slice(None, 1):
                return np.empty(slots._PIECE, np.uint8)
            if rows.start == 0:
                start_event.wait(20)
                failed.set()
                raise OSError("the file is gone")
            start_event.set()
            failed.wait(20)
            threading.Event().wait(0.2)
            log.append(rows)
            return np.zeros((1, 3))

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(OSError, match="gone"):
            slots.copy_rows(pool, np.empty((2, 3)), Rows())
        assert log


@pytest.mark.parametrize("error", [KeyboardInterrupt, DeviceMemoryError])
@pytest.mark.parametrize("mode", ["late", "random"])
def test_a_device_is_used_again_after_an_error(play, monkeypatch, mode, error):
    """Slots were full, rows were being copied and sums were incomplete; then the rows got larger."""
    play(mode, 3)
    backend = backend_of(200_000)
    x, v = unit_inputs(420)[0], np.random.default_rng(2).normal(size=(420, 3))
    tiles = []

    def launch(self, source, name, *arguments):
        tiles.extend([name] if name == "pairs" else [])
        if len(tiles) == 7:
            tiles.append("failed")
            raise error(1)
        return plain(self, source, name, *arguments)

    plain = cuda.CudaDevice.launch
    monkeypatch.setattr(cuda.CudaDevice, "launch", launch)
    points = backend.points(x, np.float32)
    exact = KERNEL(x.astype(float)) @ v
    if error is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            backend.symmetric_matmul(KERNEL, points, v)
    else:  # with tiles of half the size
        np.testing.assert_allclose(
            backend.symmetric_matmul(KERNEL, points, v), exact, rtol=1e-4, atol=1e-4
        )
    assert "failed" in tiles
    for rows in (x.astype(np.float64), x):
        product = backend.symmetric_matmul(KERNEL, backend.points(rows, np.float32), v)
        np.testing.assert_allclose(product, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["eager", "late", "random"])
def test_two_calls_at_once_on_one_device(play, mode):
    play(mode, 4)
    backend = backend_of(10**6)
    v = np.random.default_rng(2).normal(size=(420, 3))
    rows = {seed: unit_inputs(420, seed=seed)[0].astype(np.float64) for seed in (1, 2)}

    def work(seed):
        for _ in range(3):
            points = backend.points(rows[seed], np.float32)
            product = backend.matmul(KERNEL, points, backend.points(rows[seed], np.float32), v)
            exact = KERNEL(rows[seed]) @ v
            np.testing.assert_allclose(product, exact, rtol=1e-4, atol=1e-4)

    on_threads(work, 1, 2)


@pytest.mark.parametrize("gpu", [0, 1])
def test_the_callers_own_stream_is_waited_for(play, gpu):
    x, y, draws = unit_inputs(420)
    cp = play("late")
    with cp.cuda.Device(gpu), cp.cuda.Stream(non_blocking=True):
        result = fm.cce(cp.asarray(x), y, draws, x_kernel=KERNEL, tol=1e-5, solver="cg")
        assert result.info.device.endswith(f"cuda:{gpu})")
        values = np.asarray(result)
    exact = on_the_cpu(64)
    assert np.abs(values - exact.values).max() <= float(result.error_bound) + exact.error_bound


class Tensor:
    """Stand-in for the used part of a torch tensor, while a torch stream is still writing to it."""

    is_cuda, dtype = True, types.SimpleNamespace(is_complex=False, is_floating_point=True)

    def __init__(self, array, event, gpu):
        self._array, self.event, self.device = array, event, types.SimpleNamespace(index=gpu)

    def detach(self):
        return self

    def element_size(self):
        return 4

    def numpy(self):
        return self._array._inner


@pytest.mark.parametrize("gpu", [0, 1])
def test_the_stream_of_a_tensor_is_waited_for(play, monkeypatch, gpu):
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(Tensor=Tensor))
    x, cp = unit_inputs(420)[0], play("late")
    device = cuda.CudaDevice(gpu, 10**6)
    with cp.cuda.Device(gpu), cp.cuda.Stream(non_blocking=True) as stream:
        array, event = cp.zeros(x.shape, x.dtype), cp.cuda.Event()
        stream.synchronize()
        array.set(x)
        event.record()
    assert (array._inner == 0).all()  # so far
    rows = open_rows(Tensor(array, event, gpu), "x", stays=True)
    on_device = device.adopted(rows.on_device)
    np.testing.assert_array_equal(device.download(device.copy(on_device)), x)


# -------------------------------------------------------------------------------- without each of them

# A synchronisation, as a statement alone on its line.
_WAITS = re.compile(
    r"^( +)([\w.\[\]]+\.(?:wait_event|record|synchronize|wait_for)\(.*\)) *(?:#.*)?$"
)
_SOURCES = {m: Path(m.__file__).read_text(encoding="utf-8").splitlines() for m in (cuda, slots)}
MUTANTS = {
    f"{Path(module.__file__).name} {line}: {match[2]}": (module, line)
    for module, source in _SOURCES.items()
    for line, text in enumerate(source, 1)
    if (match := _WAITS.match(text))
}


def without(module, line):
    """Return a module without one of its lines."""
    text = [*_SOURCES[module]]
    text[line - 1] = _WAITS.sub(r"\1pass", text[line - 1])
    module_copy = types.ModuleType(module.__name__)
    exec(
        compile("\n".join(text), f"{module.__name__} without a line", "exec"), module_copy.__dict__
    )
    return module_copy


def test_the_list_of_synchronisations_is_complete():
    """Return the synchronisations of events, streams and devices; a new one needs a case that needs it."""
    text = "\n".join(line for source in _SOURCES.values() for line in source)
    calls = re.findall(r"\.(?:wait_event|record|synchronize)\(", text)
    assert len([name for name in MUTANTS if "wait_for(" not in name]) == len(calls) == 15


@pytest.mark.parametrize("name", MUTANTS)
def test_without_it_something_goes_wrong(play, patch, at_once, tmp_path, name):
    with pytest.MonkeyPatch.context() as changed:
        module, line = MUTANTS[name]
        module_copy = without(module, line)
        if module is slots:
            changed.setattr(cuda, "Slot", module_copy.Slot)
        else:
            module_copy._MEASURED = 64
            changed.setattr(cuda, "CudaDevice", module_copy.CudaDevice)
        assert any(
            goes_wrong(case, play(mode, seed), tmp_path, at_once[case])
            for mode, seed in (("late", 0), ("random", 0), ("random", 1))
            for case in reversed(CASES)
        )


def goes_wrong(case, cp, path, exact):
    """Return whether a case fails, or gives other numbers."""
    try:
        return not same(case(cp, path)[0], exact)
    except Exception:
        return True
