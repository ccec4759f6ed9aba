"""One reading of ``random_state`` for the whole package."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from tensorly_smp._support.checks import is_integer
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

RandomState: TypeAlias = "int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None"


def seed_sequence(random_state: RandomState) -> np.random.SeedSequence:
    """SeedSequence of any accepted ``random_state``; a Generator or RandomState advances by one draw."""
    if random_state is None or is_integer(random_state) or isinstance(random_state, bool):
        if random_state is not None and random_state < 0:
            raise InvalidInputError(f"random_state is {shown(random_state)}; expected a non-negative integer.")
        return np.random.SeedSequence(None if random_state is None else int(random_state))
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**31, size=4).tolist())
    raise InvalidTypeError(
        f"random_state is {type(random_state).__name__}; expected None, an int, numpy.random.Generator, RandomState or "
        "SeedSequence."
    )


def as_generator(random_state: RandomState) -> np.random.Generator:
    """Generator of any accepted ``random_state``; a Generator is passed through, so that it advances."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_sequence(random_state))


def spawn_generators(
    random_state: RandomState, n_streams: int, purpose: int | None = None
) -> list[np.random.Generator]:
    """Independent child streams: stream 3 is the same whether 4 or 40 are asked for.

    Two purposes have other streams of the same seed. Who draws samples with seed 0 and draws them again with seed 0
    would else draw with the numbers that have made them, and draw some groups of them only.
    """
    root = seed_sequence(random_state)
    # spawn() counts children on the object itself; a fresh copy keeps a caller's SeedSequence unchanged.
    key = root.spawn_key if purpose is None else (*root.spawn_key, purpose)
    fresh = np.random.SeedSequence(entropy=root.entropy, spawn_key=key, pool_size=root.pool_size)
    return [np.random.default_rng(child) for child in fresh.spawn(n_streams)]
