"""One reading of random_state: what is accepted, what advances, which streams are the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp._support.randomness import as_generator, seed_sequence, spawn_generators
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError

SEEDED = {
    "int": lambda: 7,
    "numpy int": lambda: np.int64(7),
    "SeedSequence": lambda: np.random.SeedSequence(7),
    "Generator": lambda: np.random.default_rng(7),
    "RandomState": lambda: np.random.RandomState(7),
}


def draws(generator):
    return generator.random(4).tolist()


@pytest.mark.parametrize("make", SEEDED.values(), ids=SEEDED)
def test_same_state_same_numbers(make):
    assert draws(as_generator(make())) == draws(as_generator(make()))
    assert [draws(g) for g in spawn_generators(make(), 3)] == [draws(g) for g in spawn_generators(make(), 3)]


def test_int_and_its_seed_sequence_are_the_same():
    assert draws(as_generator(7)) == draws(as_generator(np.random.SeedSequence(7)))
    assert draws(as_generator(7)) == draws(np.random.default_rng(7))


def test_none_is_different_every_time():
    assert draws(as_generator(None)) != draws(as_generator(None))


def test_generator_is_passed_through():
    generator = np.random.default_rng(7)
    assert as_generator(generator) is generator


@pytest.mark.parametrize("name", ["Generator", "RandomState"])
def test_stateful_kinds_advance_so_that_a_second_call_differs(name):
    state = SEEDED[name]()
    first = [draws(g) for g in spawn_generators(state, 2)]
    assert first != [draws(g) for g in spawn_generators(state, 2)]
    assert draws(as_generator(state)) != draws(as_generator(state))


def test_seed_sequence_of_the_caller_is_unchanged():
    root = np.random.SeedSequence(7)
    first = [draws(g) for g in spawn_generators(root, 2)]
    assert root.n_children_spawned == 0
    assert first == [draws(g) for g in spawn_generators(root, 2)]


@given(seed=st.integers(0, 2**40), few=st.integers(0, 5), more=st.integers(0, 5))
def test_a_stream_does_not_depend_on_how_many_are_asked_for(seed, few, more):
    start = spawn_generators(seed, few)
    longer = spawn_generators(seed, few + more)
    assert [draws(g) for g in start] == [draws(g) for g in longer[:few]]


def test_streams_differ_from_each_other_and_from_their_root():
    streams = [draws(as_generator(7)), *(draws(g) for g in spawn_generators(7, 20))]
    assert len({tuple(stream) for stream in streams}) == 21


def test_children_of_children_differ():
    first, second = np.random.SeedSequence(7).spawn(2)
    assert draws(spawn_generators(first, 1)[0]) != draws(spawn_generators(second, 1)[0])


@pytest.mark.parametrize("read", [seed_sequence, as_generator, lambda state: spawn_generators(state, 2)])
def test_errors(read):
    with pytest.raises(InvalidInputError, match="non-negative"):
        read(-1)
    for wrong in (1.0, "seed", [1, 2], np.random):
        with pytest.raises(InvalidTypeError, match="random_state is"):
            read(wrong)
