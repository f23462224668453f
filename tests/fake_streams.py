"""Streams, events and memory of CUDA devices, as CUDA and CuPy say that they behave, for `fake_cupy`.

What is issued to a stream waits in a queue until something must have it done. Three modes:

``eager``
    At once, in the order of the program.
``late``
    When a synchronisation asks for it, and then no more than it asks for: a stream's queue up to there, and
    what that waits for.
``random``
    Besides, now and then: some streams run ahead, others hardly move.

Work holds the addresses that it reads and writes, never the object whose end gives the memory back: what is
handed out again too early is overwritten. Memory handed out is filled with NaN in the order of its stream,
as by the one who had it before. Pinned memory is read when a copy runs, other memory of the host when the
copy is issued (CUDA: "API synchronization behavior").
"""

import gc
import random
import threading
import types
import weakref
from collections import deque

import numpy as np

_UNIT = 512  # CuPy rounds up to this, pinned memory further to a power of two
_NOW = []  # the machine of the module that was made last
_CURRENT = threading.local()  # each thread has a current device, and each device a current stream


class OutOfMemoryError(MemoryError):
    pass


class Machine:
    """Devices with queues of work, and memory."""

    def __init__(self, devices=2, mode="eager", seed=0, memory=10**10):
        assert mode in ("eager", "late", "random")
        self.memory, self.allocated = memory, [0] * devices
        self.mode, self.lock = mode, threading.RLock()
        self.dice = random.Random(seed)
        self.queues, self.handles = [], {}
        self.null = [Queue(self, device) for device in range(devices)]
        self.pinned, self._free_pinned = [], {}
        self._memory_at, self._given_up = (
            {},
            [],
        )  # work has only addresses: the arrays behind them must stay
        _NOW[:] = [self]

    def issued(self):
        """Run something at random, and forget memory that no work can reach any more."""
        if self.mode == "random":
            for queue in self.queues:
                while queue.items and self.dice.random() < queue.haste and queue.ready():
                    queue.reach(queue.position + 1)
        if self._given_up and not any(queue.items for queue in self.queues):
            self._given_up.clear()

    def synchronize(self, device):
        for queue in self.queues:
            if queue.device == device:
                queue.reach(queue.count)

    def malloc(self, device, size):
        """Return memory of a device, or None where it has no more."""
        if self.allocated[device] + size > self.memory:
            return None
        self.allocated[device] += size
        raw = np.empty(size, np.uint8)
        self._memory_at[raw.ctypes.data] = raw
        return raw

    def free(self, device, raw):
        """Free memory as `cudaFree` does: wait for the device, then fill the memory with NaN."""
        self.synchronize(device)
        self.allocated[device] -= raw.nbytes
        raw[...] = 0xFF
        self._given_up.append(self._memory_at.pop(raw.ctypes.data))

    def alloc_pinned_memory(self, size):
        """Return memory that a copy reads when it runs; freed memory is reused at once."""
        size = max(_UNIT, 1 << (size - 1).bit_length())
        with self.lock:
            free = self._free_pinned.setdefault(size, [])
            if not free:
                free.append(np.zeros(size, np.uint8))
                self.pinned.append(free[-1])
            raw = free.pop()
        handed = raw[:]
        weakref.finalize(handed, free.append, raw).atexit = False
        return handed

    def read_later(self, host):
        """Return the memory that a copy from the host reads: pinned memory itself, otherwise a copy."""
        start = host.ctypes.data
        for raw in self.pinned:
            offset = start - raw.ctypes.data
            if 0 <= offset < raw.nbytes:
                return raw[offset : offset + host.nbytes].view(host.dtype).reshape(host.shape)
        return host.copy()


class Queue:
    """The work of a stream, in order; a mark (queue, place) says how far another must be."""

    def __init__(self, machine, device):
        self.machine, self.device = machine, device
        self.items, self.count, self.position = deque(), 0, 0
        with machine.lock:
            self.haste = machine.dice.choice((0.0, 0.1, 0.5, 1.0))
            machine.queues.append(self)

    def issue(self, work=None, mark=None):
        with self.machine.lock:
            self.items.append((work, mark))
            self.count += 1
            if self.machine.mode == "eager":
                self.reach(self.count)
            self.machine.issued()

    def mark(self):
        return self, self.count

    def ready(self):
        mark = self.items[0][1]
        return mark is None or mark[0].position >= mark[1]

    def reach(self, place):
        """Run what is needed until the first ``place`` items are finished, and no more."""
        with self.machine.lock:
            collects = gc.isenabled()
            gc.disable()  # collected objects may synchronise, in the middle of an item
            try:
                while self.position < place:
                    work, mark = self.items[0]
                    if mark is not None:
                        mark[0].reach(mark[1])
                    self.items.popleft()
                    try:
                        if work is not None:
                            work()
                    finally:
                        self.position += 1
            finally:
                if collects:
                    gc.enable()


def machine():
    return _NOW[-1]


def current_device():
    return getattr(_CURRENT, "devices", [0])[-1]


def current_queue():
    """The queue of the calling thread's current stream."""
    return get_current_stream()._queue()


def get_current_stream():
    streams = getattr(_CURRENT, "streams", {}).get(current_device())
    return streams[-1] if streams else _NULL


class Device:
    def __init__(self, index):
        self.id = index

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __enter__(self):
        _CURRENT.devices = [*getattr(_CURRENT, "devices", [0]), self.id]
        return self

    def __exit__(self, *_):
        _CURRENT.devices = _CURRENT.devices[:-1]


class Stream:
    """A stream of the current device; it and the null stream do not wait for each other."""

    def __init__(self, non_blocking=False):
        assert non_blocking, "other streams wait for the null stream, which is not played here"
        self._new_queue = Queue(machine(), current_device())
        self.device_id = self._new_queue.device
        handles = machine().handles
        self.ptr = 7 + len(handles)
        handles[self.ptr] = self._new_queue

    def _queue(self):
        return self._new_queue

    def __enter__(self):
        if self.device_id not in (-1, current_device()):
            raise RuntimeError("the stream's device is not the current one")
        if not hasattr(_CURRENT, "streams"):
            _CURRENT.streams, _CURRENT.outer_devices = {}, []
        _CURRENT.streams.setdefault(current_device(), []).append(self)
        _CURRENT.outer_devices.append(current_device())
        return self

    def __exit__(self, *_):
        _CURRENT.streams[_CURRENT.outer_devices.pop()].pop()

    def synchronize(self):
        queue = self._queue()
        queue.reach(queue.count)

    def wait_event(self, event):
        assert isinstance(event, Event)
        if event._mark is not None:  # as of its last record: later records do not matter
            self._queue().issue(mark=event._mark)


class _Null(Stream):
    ptr, device_id = 0, -1

    def __init__(self):
        pass

    def _queue(self):
        return machine().null[current_device()]


_NULL = _Null()


def queue_of(pointer):
    return machine().handles[pointer] if pointer else machine().null[current_device()]


class Event:
    def __init__(self, disable_timing=False):
        self._timed, self._device, self._mark = not disable_timing, current_device(), None

    def record(self, stream=None):
        queue = (get_current_stream() if stream is None else stream)._queue()
        assert queue.device == self._device, "the event is of another device"
        queue.issue()
        self._mark = queue.mark()

    def synchronize(self):
        if self._mark is not None:
            self._mark[0].reach(self._mark[1])


def get_elapsed_time(start, stop):
    for event in (start, stop):
        assert event._timed, "an event without timing"
        queue, place = event._mark
        assert queue.position >= place, "an event that is not reached yet"
    return 1.0


class Chunk:
    """A piece of an allocation, with its neighbours."""

    def __init__(self, raw, free, before=None, after=None):
        self.raw, self.free, self.before, self.after = raw, free, before, after

    @property
    def size(self):
        return self.raw.nbytes

    def split(self, size):
        if size < self.size:
            remainder = Chunk(self.raw[size:], self.free, self, self.after)
            if self.after is not None:
                self.after.before = remainder
            self.raw, self.after = self.raw[:size], remainder
            self.free.append(remainder)

    def joined(self, raw):
        """Join the free piece that follows."""
        self.free.remove(self.after)
        after = self.after.after
        start = self.raw.ctypes.data - raw.ctypes.data
        self.raw = raw[start : start + self.size + self.after.size]
        self.after = after
        if after is not None:
            after.before = self


class Memory:
    """Bytes that return to the pool when nothing refers to them."""

    def __init__(self, chunk, back):
        self.inner, self._chunk, self._back = chunk.raw, chunk, back

    def __del__(self):
        self._back.append(self._chunk)


class DevicePool:
    """CuPy's pool of one device: a list of free chunks per stream; the best one is split."""

    def __init__(self, owner, device):
        self.limit, self.total, self._allocated = None, 0, 0
        self._machine, self._device, self._back, self._free = owner, device, deque(), {}

    def _take_back(self):
        while self._back:
            chunk = self._back.popleft()
            self._allocated -= chunk.size
            raw = chunk.raw if chunk.raw.base is None else chunk.raw.base
            while chunk.after is not None and chunk.after in chunk.free:
                chunk.joined(raw)
            while chunk.before is not None and chunk.before in chunk.free:
                chunk = chunk.before
                chunk.free.remove(chunk)
                chunk.free.append(chunk.after)
                chunk.joined(raw)
            chunk.free.append(chunk)

    def malloc(self, size):
        if not size:
            return types.SimpleNamespace(inner=np.empty(1, np.uint8))
        queue, size = current_queue(), -(-size // _UNIT) * _UNIT
        with self._machine.lock:
            self._take_back()
            free = self._free.setdefault(queue, [])
            fitting = [chunk for chunk in free if chunk.size >= size]
            if fitting:
                chunk = min(fitting, key=lambda chunk: chunk.size)
                free.remove(chunk)
                chunk.split(size)
            else:
                raw = self._malloc(size)
                if raw is None:
                    self.free_all_blocks()
                    raw = self._malloc(size)
                if raw is None:
                    raise OutOfMemoryError(size)
                self.total += size
                chunk = Chunk(raw, free)
            self._allocated += chunk.size
            raw = chunk.raw
            queue.issue(lambda: raw.fill(0xFF))  # NaN, read as floats
        return Memory(chunk, self._back)

    def _malloc(self, size):
        if self.limit is not None and self.total + size > self.limit:
            return None
        return self._machine.malloc(self._device, size)

    def used_bytes(self):
        with self._machine.lock:
            self._take_back()
            return self._allocated

    def free_all_blocks(self):
        with self._machine.lock:
            self._take_back()
            for free in self._free.values():
                for chunk in [c for c in free if c.before is None and c.after is None]:
                    free.remove(chunk)
                    self.total -= chunk.size
                    self._machine.free(self._device, chunk.raw)


class MemoryPool:
    """One pool per device; its methods act on that of the current device."""

    def __init__(self):
        self._pools = {}
        weakref.finalize(self, _give_up, self._pools).atexit = False

    def _pool(self):
        with machine().lock:
            if current_device() not in self._pools:
                self._pools[current_device()] = DevicePool(machine(), current_device())
            return self._pools[current_device()]

    def set_limit(self, size):
        self._pool().limit = size

    def malloc(self, size):
        return self._pool().malloc(size)

    def used_bytes(self):
        return self._pool().used_bytes()

    def total_bytes(self):
        return self._pool().total

    def free_bytes(self):
        return self.total_bytes() - self.used_bytes()

    def free_all_blocks(self):
        self._pool().free_all_blocks()


def _give_up(pools):
    for pool in pools.values():
        pool.free_all_blocks()
