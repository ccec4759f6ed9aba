import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from rooms import models_of_all_kinds, random_model

from tensorly_smp.decomposition.solution import factors_to_dataset, solution_to_dataset
from tensorly_smp.decomposition.solver import coupled_simplex_parafac
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError, SizeLimitError
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.identifiability.bounds import KnownMarginals
from tensorly_smp.identifiability.jacobian import local_identifiability
from tensorly_smp.identifiability.likeness import identifiability_issues
from tensorly_smp.identifiability.report import IdentifiabilityReport, check_identifiability
from tensorly_smp.marginals.block_tensor import Partition

UNIQUE, GENERIC, OPEN = "unique", "unique for almost every model", "not guaranteed"


def free(k):
    return f"not identifiable: {k} free direction{'' if k == 1 else 's'}"


def with_equal_columns(model, first, second, variables):
    factors = [a.copy() for a in model.factors]
    for n in variables:
        factors[n][:, second] = factors[n][:, first]
    return MixtureFactors(model.weights, factors, model.binning)


def verdicts(report):
    """What must not depend on any order; which set is which, and so which words a line finds, may."""
    lines = [(line.key, line.verdict) for line in report.lines]
    return report.verdict, lines, report.max_ranks, report.n_free_directions


def test_identifiable_model():
    report = check_identifiability(random_model([5] * 6, 4))
    assert report.verdict == report["leurgans"].verdict == report["kruskal"].verdict == UNIQUE
    assert report["jacobian"].verdict == UNIQUE  # no free direction, and the only one by another line
    assert report["gevd-bound"].verdict == report["kruskal-bound"].verdict == report["generic-bound"].verdict == GENERIC
    assert report["paper-gevd"].verdict == report["paper-generic"].verdict == ""
    assert report.is_unique
    assert report.is_generically_unique
    assert report.is_locally_unique
    assert not report.is_near_degenerate
    assert report.n_free_directions == 0
    assert [stack.rank for stack in report.stacked] == [stack.k_rank for stack in report.stacked] == [4, 4, 4]
    assert all(stack.k_rank.is_exact and stack.condition > 1 for stack in report.stacked)
    assert report.summary().startswith("4 components of 6 variables with 5 bins, all 20 triples known: unique (Leur")
    assert isinstance(report, IdentifiabilityReport)
    with pytest.raises(AttributeError):
        report.verdict = UNIQUE
    with pytest.raises(InvalidInputError, match="no line 'x'"):
        report["x"]


def test_equal_columns_in_every_variable_are_flagged():
    model = with_equal_columns(random_model([4, 5, 3, 4], 3), 0, 2, range(4))
    report = check_identifiability(model)
    # The two share their weight at will, and part in opposite directions in every variable.
    assert report.verdict == report["distinct"].verdict == report["jacobian"].verdict == free(1 + 3 + 4 + 2 + 3)
    assert report["kruskal"].verdict == report["leurgans"].verdict == OPEN
    assert report.pairs[0].components == (0, 2)
    assert report.pairs[0].equal == report.pairs[0].near == (0, 1, 2, 3)
    assert report.is_near_degenerate
    assert not report.is_locally_unique
    assert "Components 0 and 2 are equal in all 4 variables" in str(report)
    assert "special point" in str(report)


@pytest.mark.parametrize("n_apart", [1, 2, 3])
def test_components_that_differ_in_two_variables_or_fewer(n_apart):
    model = with_equal_columns(random_model([5, 4, 3, 6, 3], 3), 0, 1, range(n_apart, 5))
    report = check_identifiability(model)
    # Different in one variable: only the mean of its columns is known. In two: a matrix of rank 2 to be factorized.
    expected = {1: 5, 2: 2, 3: 0}[n_apart]
    assert report["distinct"].verdict == (free(expected) if expected else "")
    known = KnownMarginals.of_triples(model.n_variables)
    assert local_identifiability(model.weights, model.factors, known).n_free_directions == expected
    assert report.verdict == (free(expected) if expected else UNIQUE)
    # Without the Jacobian the same number is a lower bound, or uniqueness is proved by Kruskal's condition.
    assert check_identifiability(model, max_parameters=0).verdict == report.verdict


def test_partition_is_searched_where_components_are_alike():
    # Two components differ in three variables only: every set has to hold one of these.
    model = with_equal_columns(random_model([4] * 6, 5), 0, 1, [1, 3, 4])
    report = check_identifiability(model)
    assert report.verdict == UNIQUE
    assert all(set(group) & {0, 2, 5} for group in report.partition)
    blind = check_identifiability(model, partition=[[0, 2], [5, 1], [3, 4]])
    assert blind["kruskal"].verdict == OPEN


def test_more_components_than_three_variables_allow():
    # 2 weights and 9 columns of one free entry each are 11 parameters; a 2 x 2 x 2 histogram has 7 free cells.
    for report in (
        check_identifiability(random_model([2, 2, 2], 3)),
        check_identifiability(n_variables=3, n_bins=2, rank=3),
    ):
        assert report.verdict == report["counting"].verdict == report["jacobian"].verdict == free(11 - 7)
        assert report.n_free_directions == 4
        assert (report.local.rank, report.local.n_parameters) == (7, 11)
        assert report.is_locally_unique is False
    # Rank 4 in 3 x 3 x 3 is defective: 27 parameters for 26 cells, of which only 25 are reached.
    report = check_identifiability(n_variables=3, n_bins=3, rank=4)
    assert report["counting"].verdict == free(1)
    assert report.verdict == report["jacobian"].verdict == free(2)


@pytest.mark.parametrize(("n_variables", "n_bins"), [(3, 4), (5, 3), (6, 2)])
def test_rank_above_the_bounds(n_variables, n_bins):
    for rank in range(1, 12):
        report = check_identifiability(random_model([n_bins] * n_variables, rank))
        bounds = report.max_ranks
        if rank <= bounds["kruskal"]:
            assert report.verdict == UNIQUE
        elif rank <= bounds["generic"]:
            assert report.verdict == GENERIC
        elif report.n_free_directions:
            assert report.verdict == free(report.n_free_directions)
            assert report["kruskal"].verdict == report["kruskal-bound"].verdict == OPEN
        else:
            assert report.verdict == OPEN
            assert report.is_locally_unique
            assert "further away" in str(report)


def test_special_model_does_not_borrow_from_almost_every_model():
    # Within the generic bound, above Kruskal's, and with columns that repeat in one variable.
    model = random_model([8, 8, 8], 12)
    usual = check_identifiability(model)
    assert usual.verdict == GENERIC
    assert "proves nothing of the model at hand" in " ".join(str(usual).split())
    special = check_identifiability(with_equal_columns(model, 0, 1, [2]))
    assert special.verdict == OPEN or special.n_free_directions
    factors = [a.copy() for a in model.factors]
    factors[0][:, 2] = (factors[0][:, 0] + factors[0][:, 1]) / 2
    special = check_identifiability(MixtureFactors(model.weights, factors))
    assert special.verdict == special["jacobian"].verdict == OPEN
    assert special["generic-bound"].verdict == "withdrawn: special factors"
    assert special["gevd-bound"].verdict == OPEN  # nothing to withdraw: 12 components of 8 bins
    assert "does not speak for this one" in str(special)


@pytest.mark.parametrize("weight", [0.0, 3e-16, 9e-7])
def test_empty_component(weight):
    model = random_model([4, 3, 5], 3)
    report = check_identifiability(MixtureFactors(np.array([0.4, 0.6 - weight, weight]), model.factors))
    assert report.verdict == report["weights"].verdict == report["jacobian"].verdict == free(3 + 2 + 4)
    assert report["kruskal"].verdict == OPEN
    assert "Components without weight (2)" in str(report)


def test_many_components_are_counted_and_not_listed():
    model = random_model([6] * 4, 500)
    weights = np.repeat([0.2, 0.0], [5, 495])
    report = check_identifiability(MixtureFactors(weights, model.factors))
    assert any("13, 14 and 485 more" in note for note in report.notes)
    alike = MixtureFactors(model.weights, [np.repeat(a[:, :5], 100, axis=1) for a in model.factors])
    assert max(len(note) for note in (*report.notes, *identifiability_issues(alike))) <= 300


def test_one_component_is_always_unique_and_the_papers_size_generically():
    for report in (
        check_identifiability(random_model([2, 3, 2], 1)),
        check_identifiability(n_bins=[2, 3, 2], rank=1),
        check_identifiability(random_model([2] * 6, 1), triples=[(0, 1, 2), (3, 4, 5)]),
    ):
        assert (report.verdict, report.is_locally_unique) == (UNIQUE, True)
    report = check_identifiability(n_variables=10, n_bins=15, rank=10)
    assert report.max_ranks == {"gevd": 57, "generic": 256, "kruskal": 70, "paper-gevd": 45, "paper-generic": 132}
    assert report.verdict == GENERIC
    assert (report.is_generically_unique, report.is_unique, report.is_locally_unique) == (True, False, True)


@pytest.mark.parametrize(
    ("n_bins", "rank", "n_free"),
    [
        ([4, 3, 5, 1], 2, 0),
        ([2, 2, 2, 1], 3, 11 - 7),
        ([3, 3, 1, 1], 2, 2),  # a matrix of rank 2 has a two-dimensional family of factorizations
        ([2, 1, 1, 1], 1, 0),
    ],
)
@pytest.mark.parametrize("known", ["triples", "samples"])
def test_constants_tell_nothing(n_bins, rank, n_free, known):
    at_model = check_identifiability(random_model(n_bins, rank), known=known)
    from_sizes = check_identifiability(n_bins=n_bins, rank=rank, known=known)
    assert at_model.n_free_directions == from_sizes.n_free_directions == n_free
    assert at_model.verdict == (free(n_free) if n_free else UNIQUE)


sizes = st.lists(st.integers(2, 4), min_size=3, max_size=6)


def shuffled(model, seed):
    rng = np.random.default_rng(seed)
    components = rng.permutation(model.rank)
    order = rng.permutation(model.n_variables)
    factors = [model.factors[n][rng.permutation(model.n_bins[n])][:, components] for n in order]
    return MixtureFactors(model.weights[components], factors), order


@given(models_of_all_kinds(sizes, 5), st.integers(0, 99), st.data())
def test_no_order_changes_a_verdict(model, seed, data):
    other, order = shuffled(model, seed)
    sets = moved = None
    if data.draw(st.booleans()):
        labels = data.draw(st.permutations(range(model.n_variables)))
        cuts = sorted(data.draw(st.lists(st.integers(1, model.n_variables), min_size=3, max_size=3, unique=True)))
        sets = [labels[: cuts[0]], labels[cuts[0] : cuts[1]], labels[cuts[1] : cuts[2]]]
        moved = [[order.tolist().index(n) for n in group] for group in sets]
    before, after = check_identifiability(model, partition=sets), check_identifiability(other, partition=moved)
    assert verdicts(after) == verdicts(before)


@given(models_of_all_kinds(sizes, 5))
def test_proofs_and_free_directions_exclude_each_other(model):
    report = check_identifiability(model)
    proved = [line.key for line in report.lines if line.verdict == UNIQUE]
    assert not (proved and report.n_free_directions)
    assert report.n_free_directions >= max(line.n_free for line in report.lines)
    # Leurgans' condition is a special case of Kruskal's.
    assert report["leurgans"].verdict != UNIQUE or report["kruskal"].verdict == UNIQUE


@given(sizes, st.integers(1, 9), st.integers(0, 5))
def test_sizes_agree_with_a_random_model(n_bins, rank, seed):
    from_sizes = check_identifiability(n_bins=n_bins, rank=rank)
    at_model = check_identifiability(random_model(n_bins, rank, seed))
    assert from_sizes.from_sizes
    assert not at_model.from_sizes
    assert from_sizes.max_ranks == at_model.max_ranks
    assert from_sizes.n_free_directions == at_model.n_free_directions
    expected = GENERIC if at_model.is_unique and rank > 1 else at_model.verdict
    assert from_sizes.verdict == expected
    assert [stack.k_rank for stack in from_sizes.stacked] == [stack.k_rank for stack in at_model.stacked]


def test_triples_that_do_not_tie_the_variables_together():
    model = random_model([3] * 6, 2)
    # Two groups without a common triple: which component of one is which of the other stays open, but nothing moves.
    report = check_identifiability(model, triples=[(0, 1, 2), (3, 4, 5)])
    assert report.n_triples == 2
    assert report.verdict == report["kruskal"].verdict == OPEN
    assert report.n_free_directions == 0
    assert "do not follow" in str(report)
    # Triples that share variables carry uniqueness on, from three variables to all.
    chain = check_identifiability(model, triples=[(0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5)])
    assert chain.verdict == UNIQUE
    assert chain["gevd-bound"].verdict == GENERIC
    assert check_identifiability(model, triples=20).n_triples == 20
    assert check_identifiability(n_variables=6, n_bins=3, rank=2, triples=12).verdict == GENERIC


def test_given_partition_with_unknown_blocks_or_variables_left_out():
    model = random_model([4] * 6, 3)
    partition = Partition((0, 1), (2, 3), (4, 5))
    report = check_identifiability(model, partition=partition, triples=[(0, 2, 4), (1, 3, 5)])
    assert report.partition == partition
    assert report["kruskal"].verdict == OPEN
    assert report["gevd-bound"].verdict == "withdrawn: not for all variables"
    assert "6 blocks" in str(report)
    left_out = check_identifiability(model, partition=[[0], [1], [2]])
    assert left_out.verdict == UNIQUE
    assert left_out.max_ranks["gevd"] == 4


def test_many_variables():
    report = check_identifiability(random_model([15] * 400, 10))
    assert report.verdict == UNIQUE
    assert report.local is None
    assert report.n_free_directions == 0
    assert report["jacobian"].verdict == ""
    assert "Check some of the variables" in str(report)
    sizes_only = check_identifiability(n_variables=1000, n_bins=15, rank=6900)
    assert sizes_only.verdict == GENERIC
    assert sizes_only.is_locally_unique is None
    # Few parameters, but so many triples that they must not be listed.
    assert check_identifiability(random_model([2] * 1000, 2)).verdict == UNIQUE
    twins = with_equal_columns(random_model([3] * 400, 2), 0, 1, range(400))
    report = check_identifiability(twins)
    assert report.verdict == free(801)
    assert "lower bound" in str(report)


def test_solution_and_dataset():
    model = random_model([4, 3, 5], 2, names=["age", "dose", "weight"])
    report = check_identifiability(model)
    solution = coupled_simplex_parafac(model.to_marginals(), 2, init=model)
    for subject in (factors_to_dataset(model), solution_to_dataset(solution), solution):
        same = check_identifiability(subject)
        assert same.verdict == report.verdict == UNIQUE
        assert same.variables == ("age", "dose", "weight")
    with pytest.raises(InvalidInputError, match="Dataset"):
        check_identifiability(factors_to_dataset(model).rename(bin="level"))


def test_text_and_html():
    model = random_model([4, 3, 5, 3], 2, names=["<b>", "line\nbreak", 7, "x" * 200])
    report = check_identifiability(model)
    lines = str(report).splitlines()
    assert lines[0] == "Identifiability of 2 components of 4 variables with 3 to 5 bins, all 4 triples known"
    assert lines[1] == "Verdict: unique"
    start = lines[3].index("Verdict")
    end = lines.index("", 4)
    assert all(line[start - 2 : start].strip() == "" for line in lines[5:end])
    assert max(map(len, lines)) <= 100
    assert repr(report) == str(report)
    page = report._repr_html_()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "&gt;= 6" in page
    assert page.count("<tr>") == page.count("</tr>") == 2 + len(report.lines)


@pytest.mark.parametrize("known", ["triples", "samples"])
def test_every_line_has_its_reference(known):
    report = check_identifiability(random_model([4, 3, 5, 3], 2), known=known)
    assert all(line.reference for line in report.lines)
    text = str(report)
    assert max(map(len, text.splitlines())) <= 100
    for line in report.lines:
        assert line.reference in " ".join(text.split())
    table = report.to_dataframe()
    assert table.index.tolist() == [line.key for line in report.lines]
    assert (table.reference == [line.reference for line in report.lines]).all()
    rows = report.to_markdown().splitlines()
    assert len(rows) == 2 + len(report.lines)
    assert {row.count("|") for row in rows} == {6}
    assert report.known.name == report.to_dataset().attrs["known"] == known


def test_latex():
    pytest.importorskip("jinja2")
    text = check_identifiability(4, 3, 5, known="samples").to_latex()
    assert r"\begin{tabular}" in text
    assert "Allman, Matias and Rhodes" in text


@pytest.mark.parametrize(
    "arguments",
    [
        {"subject": with_equal_columns(random_model([4, 3, 5], 2, names=["a", 1, "c"]), 0, 1, [0, 2])},
        {"subject": random_model([4] * 5, 1), "partition": [[0], [1], [2]], "max_parameters": 0},
        {"n_variables": 3, "n_bins": 2**29, "rank": 2**31},
        {"subject": random_model([3] * 4, 2, names=[3, 1, 2, 0]), "known": "samples"},
        {"n_variables": 1000, "n_bins": 15, "rank": 6900, "known": "samples"},
    ],
)
def test_dataset_of_the_report(arguments, tmp_path):
    report = check_identifiability(**arguments)
    dataset = report.to_dataset()
    assert dataset.attrs["verdict"] == report.verdict
    assert dataset.verdict.sel(line="kruskal-bound") == report["kruskal-bound"].verdict
    assert dataset.max_rank.sel(criterion="gevd") == report.max_ranks["gevd"]
    assert ("grouping" in dataset) == (report.known.name == "samples")
    for s, group in enumerate(report.partition):
        assert np.flatnonzero(dataset.partition == s).tolist() == sorted(group)
    dataset.to_netcdf(tmp_path / "report.nc", engine="netcdf4")
    with xr.open_dataset(tmp_path / "report.nc", engine="netcdf4") as read:
        xr.testing.assert_equal(read.load(), dataset)
        assert read.attrs["rank"] == report.rank


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidInputError, "n_variables, n_bins and rank"),
        ({"n_variables": 4, "n_bins": 3, "rank": 2, "known": "pairs"}, InvalidInputError, "known is 'pairs'"),
        ({"subject": "fit"}, InvalidTypeError, "subject is str"),
        ({"subject": 5, "n_variables": 5, "n_bins": 3, "rank": 2}, InvalidInputError, "given twice"),
        ({"subject": 5.0, "n_bins": 3, "rank": 2}, InvalidInputError, "has its own sizes"),
        (
            {"n_variables": 4, "n_bins": 3, "rank": 2, "known": "samples", "triples": 3},
            InvalidInputError,
            "triples are",
        ),
        (
            {"n_variables": 4, "n_bins": 3, "rank": 2, "known": "triples", "patterns": np.ones((1, 4), bool)},
            InvalidInputError,
            "patterns are of whole samples",
        ),
        ({"n_variables": 4, "n_bins": 3, "rank": 2, "patterns": np.ones((1, 3), bool)}, InvalidInputError, "3 columns"),
        ({"n_variables": 3, "n_bins": 3, "rank": 2, "patterns": np.eye(3)}, InvalidInputError, "three observed"),
        ({"n_variables": 3, "n_bins": 3, "rank": 2, "patterns": [[1, 1, 0]]}, InvalidInputError, r"\[2\] are in no"),
        ({"n_variables": 3, "n_bins": 3, "rank": 2, "patterns": [[2, 1, 1]]}, InvalidTypeError, "booleans"),
        ({"n_variables": 3, "n_bins": 3, "rank": 2, "patterns": [1, 1, 1]}, InvalidInputError, "patterns has shape"),
        ({"subject": random_model([3] * 2, 2)}, InvalidInputError, "at least 3"),
        ({"subject": xr.Dataset()}, InvalidInputError, "lacks"),
        ({"n_variables": 3, "n_bins": 2}, InvalidInputError, "max_identifiable_rank"),
        ({"n_bins": 3, "rank": 2}, InvalidTypeError, "n_variables is None"),
        ({"n_bins": [3, 3, None], "rank": 2}, InvalidTypeError, "n_bins is None"),
        ({"n_variables": 3, "n_bins": 10**12, "rank": 2}, SizeLimitError, "bins"),
        ({"n_variables": 4, "n_bins": 3, "rank": 2, "triples": [(0, 1, 2)]}, InvalidInputError, "in no triple"),
    ],
)
def test_bad_requests(arguments, error, message):
    with pytest.raises(error, match=message):
        check_identifiability(**arguments)
