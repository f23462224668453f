"""Random streams: one seed gives a separate stream for each purpose.

A user who writes ``rng = np.random.default_rng(0)`` and passes ``random_state=0`` must not get the numbers
of ``rng`` again: a randomised PIT from the numbers that generated the outcomes is not uniform, and a draw
"from the prediction" would repeat y. Seeds are therefore never used directly. `generator` appends the names
of the package and of the purpose to the seed sequence, so that streams of different purposes are
independent.
"""

from __future__ import annotations

import operator
import zlib
from enum import Enum
from typing import Any

import numpy as np

from fastmcmd._base.checks import quote

__all__ = ["Purpose", "generator", "seed_sequence"]

_PACKAGE = zlib.crc32(b"fastmcmd")


class Purpose(Enum):
    """Purposes of random numbers. The text is hashed into the stream: changing it changes the numbers."""

    PIT = "randomised probability integral transform"
    SAMPLE = "draws from a predicted distribution"
    CCE = "draws for the conditional congruence error"
    SCORE = "draws for a score"
    NULL = "outcomes of a calibrated model"
    BOOTSTRAP = "bootstrap samples of rows"
    COMPARISON = "bootstrap samples of paired rows"
    GROUPS = "random groups of rows"
    DOWNSAMPLING = "random subsets of rows"
    PLOT = "points that are drawn in pictures"
    DEMO = "data of the demonstration"
    PROBE = "rows and vectors that an algorithm looks at"
    LANDMARKS = "landmarks of a low-rank approximation"
    CERTIFICATE = "rows at which a certificate is measured"
    TEST = "outcomes that a test ranks the observed ones among"
    DEFAULTS = "rows from which default kernels are chosen"
    SELECTION = "landmarks and rows with which kernels are compared"
    MONITOR = "permutations of a monitor"
    CHANCE = "outcomes that tell how the noise of the congruence error is spread"
    KERNEL_REPORT = "outcomes with which a kernel is tried"
    HALVES = "rows on which a correction is fitted, and those on which it is tested"
    PLAN = "rows from which the cost of a computation is predicted"


def seed_sequence(random_state: object, name: str = "random_state") -> np.random.SeedSequence:
    """Return the seed sequence of a ``random_state``, from which several streams can be derived.

    Parameters
    ----------
    random_state : None, int, array_like of int, SeedSequence, Generator, BitGenerator or RandomState
        None uses fresh entropy from the system. A generator is advanced: its next numbers become the seed.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    TypeError
        Another type.
    ValueError
        A negative seed.
    """
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    source = _running(random_state)
    if source is not None:
        words = source.integers(0, 2**32, 4, dtype=np.uint32)
        return np.random.SeedSequence(words.tolist())
    return np.random.SeedSequence(_entropy(random_state, name))


def generator(
    random_state: object, purpose: Purpose, name: str = "random_state"
) -> np.random.Generator:
    """Return the generator of a purpose.

    Parameters
    ----------
    random_state, name
        As in `seed_sequence`, except that a generator is used directly, so that successive calls continue
        its stream, as everywhere in NumPy.
    purpose : Purpose
        The purpose. Each has a separate stream, different from ``np.random.default_rng(seed)``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastmcmd._base.seeds import Purpose, generator
    >>> bool(generator(0, Purpose.PIT).random() == np.random.default_rng(0).random())
    False
    >>> rng = np.random.default_rng(0)
    >>> generator(rng, Purpose.PIT) is rng
    True
    """
    source = _running(random_state)
    if source is not None:
        return source
    root = seed_sequence(random_state, name)
    tags = (_PACKAGE, zlib.crc32(purpose.value.encode()))
    child = np.random.SeedSequence(
        root.entropy, spawn_key=(*root.spawn_key, *tags), pool_size=root.pool_size
    )
    return np.random.Generator(np.random.PCG64(child))


def _running(random_state: object) -> np.random.Generator | None:
    """Return the generator that a ``random_state`` holds, or None for seeds."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.BitGenerator):
        return np.random.Generator(random_state)
    if isinstance(random_state, np.random.RandomState):
        return np.random.Generator(random_state._bit_generator)
    return None


def _entropy(random_state: Any, name: str) -> int | list[int] | None:
    """Return a checked seed."""
    if random_state is None:
        return None
    requirement = (
        "None, an integer >= 0, a sequence of such, a numpy.random.SeedSequence or a "
        "numpy.random.Generator is needed"
    )
    is_list = isinstance(random_state, (list, tuple))
    several = is_list or (isinstance(random_state, np.ndarray) and random_state.ndim == 1)
    try:
        seeds = [_integer(one) for one in random_state] if several else [_integer(random_state)]
    except TypeError:
        raise TypeError(f"{name} is {quote(random_state)}; {requirement}") from None
    if not seeds or min(seeds) < 0:
        raise ValueError(f"{name} is {quote(random_state)}; {requirement}")
    return seeds if several else seeds[0]


def _integer(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return operator.index(value)
