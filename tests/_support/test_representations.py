"""What notebooks and consoles show: short, and safe to show."""

from collections import namedtuple
from dataclasses import dataclass, field, fields, is_dataclass
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tensorly_smp as smp
from tensorly_smp._support.representations import html_summary, html_weights, short_repr
from tensorly_smp.samples.reading import read_samples

NAMES = ["<script>alert(1)</script>", "a & b", '"quoted"', "age"]
DATA = smp.datasets.make_smooth_mixture("gaussian", 400, 4, 2, random_state=1)
FRAME = pd.DataFrame(DATA.X, columns=NAMES)


def results():
    """One of everything that a user gets hold of."""
    binning = smp.choose_binning(FRAME, 6)
    codes = smp.encode_samples(FRAME, binning)
    marginals = smp.count_marginals(codes)
    solution = smp.coupled_simplex_parafac(marginals, 2, random_state=0)
    model = smp.SmoothProductMixture(2, n_bins=6, n_init=1, random_state=0).fit(FRAME)
    return {
        "data": DATA,
        "binning": binning,
        "codes": codes,
        "marginals": marginals,
        "start": smp.gevd_start(codes, 2, random_state=0),
        "solution": solution,
        "refined": smp.refine_em(solution.factors, codes),
        "density": model.density_,
        "sinc": smp.reconstruct_density(solution),
        "report": model.identifiability_,
        "model": model,
        "samples": read_samples(FRAME.to_xarray().to_dataarray().T),
    }


RESULTS = results()
WITH_HTML = ["binning", "codes", "marginals", "start", "solution", "refined", "density", "sinc", "report", "model"]


def parts(value, depth=4):
    """The object, and all that can be reached from it by attributes that dataclasses have."""
    yield value
    if depth and is_dataclass(value):
        for each in fields(value):
            yield from parts(getattr(value, each.name), depth - 1)
    elif depth and isinstance(value, tuple | list):
        for each in value[:3]:
            yield from parts(each, depth - 1)


@pytest.mark.parametrize("name", RESULTS)
def test_text_is_short(name):
    for part in parts(RESULTS[name]):
        if type(part).__module__.startswith("tensorly_smp") and type(part) is not smp.IdentifiabilityReport:
            text = repr(part)
            assert type(part).__name__ in text or isinstance(part, int)  # a k-rank is a number
            assert len(text) < 900, text
            assert "array(" not in text


def tags(page):
    """Of a page in which every tag that opens is closed, in order."""
    return {element.tag for element in ElementTree.fromstring(f"<div>{page}</div>").iter()}


@pytest.mark.parametrize("name", [name for name in WITH_HTML if name != "model"])
def test_html_is_short_escaped_and_well_formed(name):
    page = RESULTS[name]._repr_html_()
    assert len(page) < 6000
    assert ("&lt;script&gt;" in page) or name == "sinc" or "script" not in page
    assert tags(page) <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}


def test_html_says_what_there_is():
    factors = RESULTS["solution"].factors
    for name in ("start", "solution", "refined", "density"):
        page = RESULTS[name]._repr_html_()
        assert "a &amp; b" in page
        weights = RESULTS[name].weights if name in ("start", "density") else RESULTS[name].factors.weights
        assert all(f"<td>{weight:.3g}</td>" in page for weight in weights)
    assert "converged" in RESULTS["solution"]._repr_html_()
    assert f"<td>{factors.n_bins[0]}</td>" in RESULTS["marginals"]._repr_html_()
    assert "<th>samples</th><td>400</td>" in RESULTS["codes"]._repr_html_()
    assert f"{RESULTS['binning'].edges[3][0]:.6g}" in RESULTS["binning"]._repr_html_()
    codes = smp.Codes.from_array([[0, 2, 1], [1, -1, 0], [0, 1, 1], [1, 0, 1]])
    assert repr(codes) == "Codes(4 samples, 3 variables, 2 to 3 bins, 8.3% missing)"


# ---- the estimator ----


def test_html_of_a_fitted_estimator_is_the_diagram_and_the_fit():
    model = RESULTS["model"]
    page = model._repr_html_()
    summary = page[page.rindex("<strong>Fit</strong>") :]
    assert "sk-top-container" in page
    assert "&lt;script&gt;alert" in summary
    assert "<script>alert" not in page
    assert all(f"<td>{weight:.3g}</td>" in summary for weight in model.weights_)
    assert "converged" in summary
    assert model._repr_mimebundle_()["text/html"].endswith(summary)
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


def test_html_of_an_estimator_that_is_not_fitted_is_the_diagram_and_follows_scikit_learns_settings():
    page = smp.SmoothProductMixture(3)._repr_html_()
    assert "sk-top-container" in page
    assert "<strong>Fit</strong>" not in page
    with sklearn.config_context(display="text"):
        assert not hasattr(RESULTS["model"], "_repr_html_")
        assert "text/html" not in RESULTS["model"]._repr_mimebundle_()
    assert "SmoothProductMixture" in make_pipeline(StandardScaler(), smp.SmoothProductMixture())._repr_html_()


# ---- the helpers ----


@dataclass
class Record:
    loss: np.ndarray
    parts: tuple
    name: str = "kl"
    hidden: int = field(default=0, repr=False)

    __repr__ = short_repr


def test_short_repr():
    record = Record(np.zeros((1000, 3)), (np.arange(3), 1), "x" * 100)
    assert repr(record) == "Record(loss=<(1000, 3) float64>, parts=(<(3,) int64>, 1), name=<str>)"
    assert repr(Record(np.float64(0.5), (1,))) == "Record(loss=0.5, parts=(1,), name='kl')"
    assert repr(Record(np.array(2), tuple(range(99)))) == "Record(loss=array(2), parts=<tuple of 99>, name='kl')"
    assert repr(Record([1, "a"], Record(1, ()))).startswith("Record(loss=[1, 'a'], parts=Record(loss=1, parts=()")
    point = namedtuple("Point", "x y")(np.zeros(2), 1)
    assert short_repr(point) == "Point(x=<(2,) float64>, y=1)"


def test_html_summary():
    page = html_summary("<T>", [("<w>", "<v>")], ("<h>",), [("<c>",)] * 15, ["<n>"])
    assert "table" in tags(page)
    assert all(f"&lt;{letter}&gt;" in page for letter in "Twvhcn")
    assert page.count("&lt;c&gt;") == 12
    assert "and 3 more" in page
    assert html_summary("T", [], ("h",), [("c",)] * 15, limit=15).count("<td>c</td>") == 15
    assert "<table>" not in html_summary("T")
    assert html_weights("T", [], np.array([0.25, 0.75])).count("<td>0.") == 2
