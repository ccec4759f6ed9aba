"""The commands of the command line; each returns whether its result is questionable."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tensorly_smp._support.checks import import_extra
from tensorly_smp._support.representations import number_range, number_text
from tensorly_smp.cli.tables import STANDARD, Table, read_table
from tensorly_smp.dependence.check import check_independence
from tensorly_smp.estimators.fitted import FittedMixture
from tensorly_smp.estimators.smooth_product import SmoothProductMixture
from tensorly_smp.estimators.unmixed import UnmixedProductMixture
from tensorly_smp.exceptions import FileFormatError, InvalidInputError
from tensorly_smp.fitting.results import fit_summary
from tensorly_smp.identifiability.bounds import max_identifiable_rank
from tensorly_smp.identifiability.report import check_identifiability
from tensorly_smp.metrics import clustering_accuracy
from tensorly_smp.selection.models import compare_models
from tensorly_smp.selection.n_components import select_n_components
from tensorly_smp.storage import MODEL_SUFFIX, load, require_writable, write_whole

#: Attribute of the models of the command line: how their table was written, as JSON; new tables are read alike.
TABLE_WAYS = "table_ways"
_TABLE_WAYS = ("skip_rows", "skip_footer", "no_header", "id_column", "labels_column", "drop", "only_numbers")
_KEPT_WAYS = ("sep", "decimal", "thousands", "comment", "encoding", "missing")
#: What is known of a model up to each bound of the number of components.
BOUNDS = {
    "gevd": "found by algebra, for almost every model",
    "kruskal": "unique for almost every model, by Kruskal's condition",
    "generic": "unique for almost every model, by Chiantini and Ottaviani",
    "joint": "unique for almost every model if whole samples are fitted, by Allman, Matias and Rhodes",
}
#: A component of fewer samples has no density to speak of.
FEWEST_SAMPLES = 5


def fit(options: argparse.Namespace) -> bool:
    """Learn a mixture from a table; questionable if it has not converged, or has components of next to no samples."""
    _check_outputs(options)
    if options.unmix and options.refine != "smooth":
        words = f"--unmix with --refine {options.refine}; it needs the smooth densities of the default."
        raise InvalidInputError(words)
    table = _read(options)
    number = _selected(table, options) if options.components is None else options.components
    model = _estimator(options, number).fit(table.X)
    missing = table.X.isna().to_numpy().mean()
    lines = [*fit_summary(model.result_), ("missing", f"{missing:.1%} of the entries")]
    if table.labels is not None:
        lines.append(("accuracy", _accuracy(table.labels, model.labels_)))
    width = max(len(word) for word, _ in lines)
    for word, text in lines:
        say(f"{word:<{width}}  {text}")
    if options.out is not None:
        if ways := {name: getattr(options, name) for name in _KEPT_WAYS if getattr(options, name)}:
            model.result_.attrs[TABLE_WAYS] = json.dumps(ways)
        model.save(options.out)
    if options.labels is not None:
        _write_csv(_assigned(model, table), options.labels)
    if options.figure is not None:
        _draw(model, table, options.figure)
    if written := [str(path) for path in (options.out, options.labels, options.figure) if path is not None]:
        say(f"{'written':<{width}}  {', '.join(written)}")
    else:
        say_aside("note: Nothing was written; --out FILE keeps the model.")
    if concern := small_components(model.weights_, len(table.X)):
        say_aside(f"warning: {concern}")
    return bool(concern) or not model.converged_


def _estimator(options: argparse.Namespace, n_components: int, **others: Any) -> FittedMixture:
    """An unfitted model, with some parameters of a product mixture in place of those of the command."""
    bins = {} if options.bins is None else {"n_bins": options.bins}
    refine = None if options.refine == "none" else options.refine
    parameters = {"refine": refine, "discrete": options.discrete, "n_jobs": options.jobs, **bins, **others}
    shared = {"n_components": n_components, "random_state": options.seed, "verbose": int(options.progress)}
    if not options.unmix:
        return SmoothProductMixture(**shared, **parameters)
    return UnmixedProductMixture(**shared, mixture=SmoothProductMixture(**parameters))


def small_components(weights: np.ndarray, n_samples: int) -> str:
    """Message that names components with next to no samples and says what to do; empty if there are none."""
    held = np.asarray(weights) * n_samples * (1 + 1e-9)  # 5 samples are 5, whatever the rounding
    small = [str(r) for r in np.flatnonzero(held < FEWEST_SAMPLES)]
    if not small:
        return ""
    words = f"Of {len(weights)} components these have fewer than {FEWEST_SAMPLES} samples: {', '.join(small)}."
    return f"{words} Fewer components, or --select 1:{max(len(weights) - len(small), 1)}."


def _selected(table: Table, options: argparse.Namespace) -> int:
    """Number of components, with the table that it was chosen from."""
    estimator = _estimator(options, 1, n_jobs=None).set_params(verbose=0)
    how = _how_to_run(options)
    found = select_n_components(table.X, options.select, options.criterion, estimator=estimator, **how)
    best = int(found.attrs["best"])
    say(f"components  {options.criterion}")
    for number, row in found[["criterion", "failure"]].to_dataframe().iterrows():
        say(f"{number:>10}  {row.failure or f'{row.criterion:.1f}'}{'  <- chosen' if number == best else ''}")
    say("")
    return best


def check(options: argparse.Namespace) -> bool:
    """Report on uniqueness; questionable if it is not proved."""
    if options.model is not None:
        if (options.variables, options.bins, options.components) != (None, None, None):
            raise InvalidInputError("A model has its own sizes; leave --variables, --bins and --components out.")
        report = _load(options.model, "").identifiability_
    else:
        if options.bins is None or (options.variables is None and len(options.bins) == 1):
            sizes = "--variables 10 --bins 15, or --bins with one number for each variable"
            raise InvalidInputError(f"Give a model, or sizes: {sizes}, and perhaps --components 5.")
        n_bins = options.bins[0] if len(options.bins) == 1 else options.bins
        n_variables = len(options.bins) if options.variables is None else options.variables
        if options.components is None:
            bounds = {name: max_identifiable_rank(n_variables, n_bins, name) for name in BOUNDS}  # type: ignore[arg-type]
            sizes = number_range([n_bins] if isinstance(n_bins, int) else n_bins)
            say(f"Highest number of components of {n_variables} variables with {sizes} bins:")
            for name, bound in bounds.items():
                say(f"{number_text(bound):>5}  {BOUNDS[name]}")
            return False
        report = check_identifiability(n_variables=n_variables, n_bins=n_bins, rank=options.components)
    say(repr(report))
    return not report.is_generically_unique


def independence(options: argparse.Namespace) -> bool:
    """Report on dependence within components; questionable if any pair of variables is dependent."""
    model, table = _read_both(options)
    report = check_independence(
        model, table.X, n_replicates=options.replicates, level=options.level, random_state=options.seed
    )
    if options.out is not None:
        _write_csv(report.to_dataframe(), options.out)
    say(with_commands(repr(report)))
    return report.n_dependent > 0


def compare(options: argparse.Namespace) -> bool:
    """Compare the models of a table; questionable if one of them has no figures."""
    X = _read(options).X
    found = compare_models(X, options.components, n_folds=options.folds, **_how_to_run(options))
    frame = found.to_dataframe()
    if options.out is not None:
        _write_csv(frame.reset_index(), options.out)
    figures = frame.drop(columns=["heldout_gap", "heldout_gap_error", "failure"]).reset_index()
    say(figures.to_string(index=False, float_format="{:.4g}".format, na_rep="nan"))
    for name, failure in frame["failure"][frame["failure"] != ""].items():
        say(f"{name}: {in_words(failure)}")
    say(with_commands(found.attrs["advice"]))
    return bool((frame["failure"] != "").any())


def predict(options: argparse.Namespace) -> bool:
    """Assign the samples of a table to components."""
    model, table = _read_both(options)
    assigned = _assigned(model, table, options.probabilities, options.densities)
    _write_csv(assigned, options.out)
    if table.labels is not None:
        say_aside(f"accuracy: {_accuracy(table.labels, assigned['component'].to_numpy())}")
    return False


def impute(options: argparse.Namespace) -> bool:
    """Fill the missing entries of a table in."""
    model, table = _read_both(options)
    filled = pd.DataFrame(model.impute(table.X, options.method, options.seed))
    frame = table.frame.copy()
    for name in table.X.columns[table.X.isna().any()]:
        frame[str(name)] = filled[name].to_numpy()
    _write_csv(frame, options.out)
    return False


def components(options: argparse.Namespace) -> bool:
    """Show share, means and standard deviations of every component; of text the most probable value."""
    _check_targets([options.model], {"--out": options.out})
    model = _load(options.model, "")
    density = model.density_
    means = np.asarray(density.mean("all"))
    spreads = np.sqrt(np.asarray(density.var("all")))
    rows = []
    lines = [[f"{share:.1%}" for share in model.weights_]]
    for n, name in enumerate(density.variables):
        own = density.value_labels.get(name)
        lines.append([f"{mean:.4g} ({spread:.3g})" for mean, spread in zip(means[n], spreads[n], strict=True)])
        for r, share in enumerate(model.weights_):
            row = {"component": r, "share": share, "variable": name, "mean": means[n, r], "spread": spreads[n, r]}
            if own is not None:
                shares = np.asarray(density.pdf_1d(np.arange(float(len(own.labels))), name, r))
                best = own.labels[shares.argmax()]
                row |= {"mean": None, "spread": None, "value": best, "probability": shares.max()}
                lines[-1][r] = f"{best} ({shares.max():.0%})"
            rows.append(row)
    if options.out is not None:
        _write_csv(pd.DataFrame(rows), options.out)
    say("Mean (standard deviation); of text the most probable value (its share).")
    say(pd.DataFrame(lines, index=["share", *map(str, density.variables)]).to_string())
    return False


# ---- parts ----


def _how_to_run(options: argparse.Namespace) -> dict[str, Any]:
    return {"n_jobs": options.jobs, "random_state": options.seed, "verbose": int(options.progress)}


def _read_both(options: argparse.Namespace) -> tuple[FittedMixture, Table]:
    """The model and the table of a command that writes at most one file."""
    _check_targets([options.model, options.data], {"--out": options.out})
    model = _load(options.model, f", and the table after it: {options.run.__name__} MODEL DATA")
    return model, _read(options, model)


def _load(path: Path, where: str) -> FittedMixture:
    """The model of a file; a text file in its place is most likely the table, given first."""
    try:
        return load(path)
    except FileFormatError as error:
        raise FileFormatError(f"{error} Expected a file that fit --out has written{where}.") from error


def _read(options: argparse.Namespace, model: FittedMixture | None = None) -> Table:
    """The table; what stood for a missing entry where the model is from does so here too."""
    kept = {} if model is None else json.loads(str(model.result_.attrs.get(TABLE_WAYS, "{}")))
    ways: dict[str, Any] = {name: getattr(options, name) for name in _TABLE_WAYS}
    ways |= {name: getattr(options, name) or kept.get(name) for name in _KEPT_WAYS}
    ways["missing"] = [*options.missing, *kept.get("missing", [])]
    table = read_table(options.data, variables=None if model is None else model.binning_.variables, **ways)
    for note in table.notes:
        say_aside(f"note: {note}")
    return table


def _assigned(model: FittedMixture, table: Table, probabilities: bool = False, densities: bool = False) -> pd.DataFrame:
    """Component of every sample, with what else was asked for."""
    posterior = np.asarray(model.predict_proba(table.X))
    columns: dict[str, Any] = {"component": posterior.argmax(axis=1)}
    if probabilities:
        columns |= {f"probability_{r}": share for r, share in enumerate(posterior.T)}
    if densities:
        columns["log_density"] = np.asarray(model.score_samples(table.X))
    name = str(table.identifiers.name)
    while name in columns:  # a column of the table may be called so
        name += "_"
    return pd.DataFrame({name: table.identifiers.to_numpy(), **columns})


def _accuracy(labels: pd.Series, components: np.ndarray) -> str:
    """Agreement of components with known classes, over the samples whose class is known, as a sentence."""
    known = labels.notna().to_numpy()
    if not known.any():
        return "no class is known"
    share = clustering_accuracy(labels[known].to_numpy(), components[known])
    return f"{share:.1%} of {known.sum()} samples are in the component of their class in {labels.name!r}"


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse what could not be written, before the work is done."""
    outputs = {"--out": options.out, "--labels": options.labels, "--figure": options.figure}
    if STANDARD in outputs.values():
        raise InvalidInputError("The standard output has the report of a fit; give files to --out, --labels, --figure.")
    _check_targets([options.data], outputs)
    if options.out is not None and (kind := options.out.suffix.lower()) != MODEL_SUFFIX:
        hint = f" The component of every sample is written by --labels {options.out}." if kind == ".csv" else ""
        expected = f"expected a name that ends in {MODEL_SUFFIX}"
        raise InvalidInputError(f"--out is {options.out}, for the model; {expected}.{hint}")
    if options.figure is not None:
        import_extra("matplotlib", "plot", "A figure").use("agg")  # no window
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        kinds = sorted(FigureCanvasAgg.get_supported_filetypes())
        if options.figure.suffix.lower().lstrip(".") not in kinds:
            raise InvalidInputError(f"--figure is {options.figure}; expected a name that ends in .{', .'.join(kinds)}.")


def _check_targets(inputs: Sequence[Path], outputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs that cannot be written, or that would take the place of an input or of each other."""
    taken = [(path.resolve(), f"the input {path}") for path in inputs]
    for option, path in outputs.items():
        if path is None or path == STANDARD:
            continue
        require_writable(path)
        real = path.resolve()
        is_special = real.exists() and not real.is_file() and not real.is_dir()
        for other, what in [] if is_special else taken:
            if real == other or (real.exists() and other.exists() and real.samefile(other)):
                raise InvalidInputError(f"{option} is {path}, which would overwrite {what}; choose another name.")
        taken.append((real, f"what {option} writes"))


def _draw(model: FittedMixture, table: Table, path: Path) -> None:
    """Densities of all variables; a dozen fit on a picture, and only .pdf has more pages than one."""
    from matplotlib import pyplot
    from matplotlib.backends.backend_pdf import PdfPages

    from tensorly_smp.plotting.style import PER_PAGE

    n_variables = model.n_features_in_
    is_pdf = path.suffix.lower() == ".pdf"
    pages = range(-(-n_variables // PER_PAGE) if is_pdf else 1)
    if n_variables > PER_PAGE and not is_pdf:
        say_aside(f"note: {path} shows the first {PER_PAGE} of {n_variables} variables; a .pdf has them all.")
    content = io.BytesIO()
    with PdfPages(content) if is_pdf else nullcontext(content) as file:
        for page in pages:
            figure = model.plot.conditionals(table.X, page=page)[0].figure
            try:
                figure.savefig(file, format=path.suffix.lower().lstrip("."), dpi=150)
            finally:
                pyplot.close(figure)
    write_whole(path, content.getvalue())


def _write_csv(frame: pd.DataFrame, path: Path | None) -> None:
    """Write a table to a file, or to the standard output."""
    if path is not None and path != STANDARD:
        write_whole(path, frame.to_csv(index=False, lineterminator=os.linesep).encode())
    elif sys.stdout is None:
        raise OSError("The standard output is closed; give --out FILE.")
    else:
        sys.stdout.write(frame.to_csv(index=False, lineterminator="\n"))


def say(text: str) -> None:
    """A line to the standard output; nothing where that is closed."""
    if sys.stdout is not None:
        sys.stdout.write(f"{text}\n")


def say_aside(text: str) -> None:
    """A line to the standard error stream; nothing where that is closed."""
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


#: Words of the library in Python, and those of the command line; other sentences with code are left out.
_WORDS = {
    r"^\w+Error: ": "",
    r"^All fits: ": "",  # of a selection, whose last fit warns alike
    r", with NaN or None for missing,": ",",
    r"\bUnmixedProductMixture\b": "fit --unmix",
    r"\bcompare_models\(X, n_components\)": "tensorly-smp compare",
    r"\bcheck_independence\(model, X\)": "tensorly-smp independence",
    r"\bset (it|them) to NaN\b": r"leave \1 empty",
    r"`failure` says why": "see above",
    r" \(NaN\)": "",
    r"\bin discrete\b": "by --discrete",
}
_CODE = re.compile(r"\w\((?!s\))|\w=\S|\bmodel\.\w|_\b|\bNaN\b|\b[A-Z][a-z]+[A-Z]\w+")


def with_commands(text: str) -> str:
    """A text of the library with commands and options in place of classes, functions and parameters."""
    for python, words in _WORDS.items():
        text = re.sub(python, words, text)
    return text


def in_words(message: str) -> str:
    """A message of the library for people who do not write Python; its first sentence always stays."""
    first, *others = re.split(r"(?<=\.) ", " ".join(with_commands(message).split()))
    return " ".join([first, *(sentence for sentence in others if not _CODE.search(sentence))])
