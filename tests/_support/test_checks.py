"""Arguments that functions of all folders check alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp._support import checks
from tensorly_smp._support.checks import as_generator, seed_sequence, spawn_generators
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError

SPAN = np.timedelta64(3, "s")  # NumPy calls it a signed integer
NO_INTEGERS = [2.0, np.float64(2), "2", None, True, np.True_, SPAN, [2], np.array([1, 2]), np.nan]
NO_REALS = ["a", None, True, np.False_, SPAN, 1j, [0.5], np.array([0.5])]


def test_integers():
    for value in NO_INTEGERS:
        with pytest.raises(InvalidTypeError, match=r"^rank is .*; expected an integer\.$"):
            checks.checked_integer(value, "rank")
    for value in (3, np.int8(3), np.uint64(3)):
        found = checks.checked_integer(value, "rank", 3)
        assert (found, type(found)) == (3, int)
    with pytest.raises(InvalidInputError, match=r"^rank is 2; expected at least 3\.$"):
        checks.checked_integer(2, "rank", 3)
    with pytest.raises(SizeLimitError, match="expected at most"):
        checks.checked_integer(10**400, "rank", 3)
    assert [checks.checked_n_jobs(n) for n in (None, 2, -1)] == [None, 2, -1]
    with pytest.raises(InvalidInputError, match="n_jobs is 0; expected a positive number"):
        checks.checked_n_jobs(0)


@pytest.mark.parametrize("ends", ["[)", "(]", "[]", "()"])
def test_numbers_between_ends(ends):
    for value, is_inside in ((0.5, True), (0, ends[0] == "["), (1, ends[1] == "]"), (-1e-9, False), (np.nan, False)):
        if is_inside:
            assert checks.checked_real(np.float64(value), "share", 0.0, 1.0, ends) == value
        else:
            with pytest.raises(InvalidInputError, match=r"share is .*; expected a number in .0, 1"):
                checks.checked_real(value, "share", 0.0, 1.0, ends)
    for value in (np.inf, 10**400):
        with pytest.raises(InvalidInputError, match="share is"):
            checks.checked_real(value, "share")
    for value in NO_REALS:
        with pytest.raises(InvalidTypeError, match=r"^share is .*; expected a number\.$"):
            checks.checked_real(value, "share", 0.0, 1.0, ends)


def test_words_flags_and_callbacks():
    assert checks.checked_choice("kl", "loss", ["kl", None]) == "kl"
    assert checks.checked_choice(None, "loss", ["kl", None]) is None
    for value in ("KL", "", 5, ["kl"], np.array("kl"), np.ones(2)):
        with pytest.raises(InvalidInputError, match=r"loss is .*; expected one of \['kl', None\]"):
            checks.checked_choice(value, "loss", ["kl", None])
    assert checks.checked_flag(np.True_, "warn") is True
    for value in (1, "no", None, np.ones(1, dtype=bool)):
        with pytest.raises(InvalidTypeError, match=r"warn is .*; expected True or False"):
            checks.checked_flag(value, "warn")
    assert checks.checked_callback(None, "()") is None
    assert checks.checked_callback(print, "()") is print
    for value in (3, True, [print]):
        with pytest.raises(InvalidTypeError, match=r"callback is .*; expected a function of \(loss\), or None"):
            checks.checked_callback(value, "(loss)")


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones((3, 1)), InvalidInputError, r"sample_weight has shape \(3, 1\); expected \(3,\)"),
        ([1.0], InvalidInputError, "shape"),
        (2.0, InvalidInputError, "shape"),
        (np.zeros(3), InvalidInputError, "not all zero"),
        ([1.0, -1.0, 3.0], InvalidInputError, "non-negative"),
        ([1.0, np.nan, 3.0], InvalidInputError, "finite"),
        ([1e308, 1e308, 1e308], InvalidInputError, "finite"),
        (np.ma.array(np.ones(3), mask=[0, 1, 0]), InvalidInputError, "masked"),
        (["a", "b", "c"], InvalidTypeError, "numbers"),
        ([1j, 1, 1], InvalidTypeError, "numbers"),
    ],
)
def test_sample_weights(weights, error, message):
    assert checks.checked_sample_weight([1, 2, 0], 3).dtype == np.float64
    with pytest.raises(error, match=message):
        checks.checked_sample_weight(weights, 3)


SEEDED = {
    "int": lambda: 7,
    "numpy int": lambda: np.int64(7),
    "SeedSequence": lambda: np.random.SeedSequence(7),
    "Generator": lambda: np.random.default_rng(7),
    "RandomState": lambda: np.random.RandomState(7),
}


def draws(generator):
    return generator.random(4).tolist()


@pytest.mark.parametrize("name", SEEDED)
def test_same_state_same_numbers_and_states_that_advance(name):
    make = SEEDED[name]
    assert draws(as_generator(make())) == draws(as_generator(make()))
    assert [draws(g) for g in spawn_generators(make(), 3)] == [draws(g) for g in spawn_generators(make(), 3)]
    state, advances = make(), name in ("Generator", "RandomState")
    first = [draws(g) for g in spawn_generators(state, 2)]
    assert (first != [draws(g) for g in spawn_generators(state, 2)]) == advances
    assert (draws(as_generator(state)) != draws(as_generator(state))) == advances


def test_seeds_that_are_the_same_and_those_that_differ():
    root = np.random.SeedSequence(7)
    assert draws(as_generator(7)) == draws(as_generator(root)) == draws(np.random.default_rng(7))
    assert [draws(g) for g in spawn_generators(root, 2)] == [draws(g) for g in spawn_generators(root, 2)]
    assert root.n_children_spawned == 0  # the caller's is left alone
    generator = np.random.default_rng(7)
    assert as_generator(generator) is generator
    roots = [7, None, None, *np.random.SeedSequence(7).spawn(2)]
    streams = [draws(each) for root in roots for each in (as_generator(root), *spawn_generators(root, 20))]
    # A child that is spawned by its parent and one that is spawned here are the same.
    assert len({tuple(stream) for stream in streams}) == 5 * 21 - 2


@given(seed=st.integers(0, 2**40), few=st.integers(0, 5), more=st.integers(0, 5))
def test_a_stream_does_not_depend_on_how_many_are_asked_for(seed, few, more):
    start = spawn_generators(seed, few)
    longer = spawn_generators(seed, few + more)
    assert [draws(g) for g in start] == [draws(g) for g in longer[:few]]


@pytest.mark.parametrize("read", [seed_sequence, as_generator, lambda state: spawn_generators(state, 2)])
def test_errors(read):
    with pytest.raises(InvalidInputError, match="non-negative"):
        read(-1)
    for wrong in (1.0, "seed", [1, 2], np.random):
        with pytest.raises(InvalidTypeError, match="random_state is"):
            read(wrong)
