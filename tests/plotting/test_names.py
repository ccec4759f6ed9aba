"""Names fit their place, and stay different."""

from hypothesis import given
from hypothesis import strategies as st

from tensorly_smp.plotting.names import axis_names, density_name, short_names

NAMES = st.lists(st.text(max_size=120), min_size=1, max_size=12, unique=True)
UNITS = st.sampled_from(["", "kg", "a very long unit that nobody would ever use per fortnight"])


@given(NAMES, UNITS)
def test_axis_names_fit_and_are_no_mathematics(names, unit):
    for text in axis_names(names, [unit] * len(names)):
        lines = text.replace(r"\$", "$").split("\n")
        assert 1 <= len(lines) <= (2 if len(unit) < 5 else 4)
        assert all(0 < len(line) <= 32 for line in lines)
        assert unit in " ".join(lines)  # never shortened
        assert text.count("$") == text.count(r"\$")


@given(st.text("ab c", max_size=60), st.text("ab c", max_size=60), st.integers(2, 40), st.integers(12, 40))
def test_names_that_differ_anywhere_stay_different(start, end, n_names, width):
    names = [f"{start}<{n}>{end}" for n in range(n_names)]
    short = short_names(names, width)
    assert len(set(short)) == n_names
    assert all(len(name) <= width for name in short)
    if width >= 25:  # what differs is shown, and not a number
        assert all(f"<{n}>" in name for n, name in enumerate(short))


def test_only_names_that_are_the_same_are_numbered():
    same = ["q" * 30 + "a" + "y" * 40, "q" * 30 + "a" + "y" * 40, "pH"]
    assert short_names(same, 28) == ["qqqqqqq…yyyyyyy (variable 0)", "qqqqqqq…yyyyyyy (variable 1)", "pH"]
    assert short_names(same, 13) == ["variable 0", "variable 1", "pH"]


def test_names_that_differ_in_two_places_are_numbered():
    names = [f"{first}{'x' * 80}{last}" for first in "ab" for last in "ab"]
    assert len(set(short_names([name + "y" * 40 for name in ["q" * 40 + name for name in names]], 20))) == 4


def test_long_names_are_broken_where_a_reader_would():
    assert axis_names(["air_temperature_of_the_morning"], [""], 20) == ["air_temperature_of_\nthe_morning"]
    assert axis_names(["concentration_of_carbon"], ["mg/L"], 24) == ["concentration_of_carbon\n(mg/L)"]
    assert axis_names(["A" * 30], [""], 20) == ["A" * 20 + "\n" + "A" * 10]


def test_shortened_names_end_between_words():
    assert short_names(["mean annual household income after taxes and transfers"], 28) == ["mean annual…and transfers"]
    parts = [f"length of the {part} from the tip to the base" for part in ("bill", "wing", "claw")]
    # A name unlike the others does not hide in what they differ.
    assert short_names([*parts, "sex"], 20) == [*(f"length of the {part}…" for part in ("bill", "wing", "claw")), "sex"]
    assert short_names(parts, 16) == [f"…of the {part}…" for part in ("bill", "wing", "claw")]


def test_density_names_have_the_unit():
    assert density_name(True, "kg") == "probability"
    assert density_name(False, "") == "density"
    assert density_name(False, "$/L") == r"density (per \$/L)"
    assert density_name(False, "kg m-2 s-1") == "density\n(per kg m-2 s-1)"
    assert density_name(False, "micromol per kilogram") == "density"  # it would not fit; the axis of values has it


def test_short_names_stay():
    assert axis_names(["mass"], ["kg"]) == ["mass (kg)"]
    assert axis_names([("a", 1), 7], ["", ""]) == ["('a', 1)", "7"]
    assert short_names(["a" * 30 + "b" * 30, "c"], 13) == ["aaaaaa…bbbbbb", "c"]
    assert short_names(["cost in $ of $"], 20) == [r"cost in \$ of \$"]
