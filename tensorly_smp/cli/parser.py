"""The command line, ``python -m tensorly_smp``: fit a table, check what can be identified, test it, assign samples.

Results go to the standard output, warnings and errors, one line each, to the standard error stream. Exit status:
0, all is well; 1, there is a result, but it is questionable; 2, no result, because of the arguments, the data or a
file; 130, interrupted. Questionable are a fit that has not converged, has a component of fewer than 5 samples, or
gives an IdentifiabilityWarning, EmptyComponentWarning or RivalSolutionsWarning; in ``check``, sizes or a model that
are not proved to be unique; in ``independence``, dependent variables. Other warnings, a DependenceWarning of a fit
among them, leave the status as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorly_smp.cli import commands
from tensorly_smp.cli.commands import in_words, say_aside
from tensorly_smp.exceptions import (
    EmptyComponentWarning,
    IdentifiabilityWarning,
    RivalSolutionsWarning,
    TensorlySmpError,
    TensorlySmpWarning,
)
from tensorly_smp.selection.n_components import CRITERIA

OK, QUESTIONABLE, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.

    Returns
    -------
    int
        Exit status, see the module.

    Raises
    ------
    SystemExit
        Of argparse, after --help (0) and for arguments that it does not know (2).

    Examples
    --------
    >>> from tensorly_smp.cli.parser import main
    >>> main(["check", "--variables", "10", "--bins", "15"])
    Highest number of components of 10 variables with 15 bins:
       57  found by algebra, for almost every model
       70  unique for almost every model, by Kruskal's condition
      256  unique for almost every model, by Chiantini and Ottaviani
    50736  unique for almost every model if whole samples are fitted, by Allman, Matias and Rhodes
    0
    """
    options = make_parser().parse_args(argv)
    with _plain_warnings() as categories:
        try:
            is_questionable = options.run(options)
            if sys.stdout is not None:
                sys.stdout.flush()  # so that a full disk is an error of ours
        except KeyboardInterrupt:
            say_aside("interrupted")
            return INTERRUPTED
        except BrokenPipeError:  # who reads our output has seen enough; nothing is to be written at exit either
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return QUESTIONABLE
        except (TensorlySmpError, OSError) as error:
            # Columns that are no numbers come to the fit.
            advice = " On the command line: --drop NAME, or --only-numbers." if isinstance(error, TypeError) else ""
            say_aside(f"error: {in_words(str(error))}{advice}")
            return UNUSABLE
    doubts = (IdentifiabilityWarning, EmptyComponentWarning, RivalSolutionsWarning)
    return QUESTIONABLE if is_questionable or any(issubclass(kind, doubts) for kind in categories) else OK


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="tensorly-smp",
        description="Mixtures of smooth product distributions, learned from a table of numbers.",
        epilog=(__doc__ or "").partition("\n\n")[2].replace("`", ""),
        allow_abbrev=False,
    )
    package = sys.modules[__name__.partition(".")[0]]  # not imported: it imports all others
    parser.add_argument("--version", action="version", version=f"%(prog)s {package.__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="command")
    table = _table_options()
    seed, jobs, out, model = (argparse.ArgumentParser(add_help=False) for _ in range(4))
    seed.add_argument("--seed", type=int, default=0, help="of random numbers (default: 0)")
    jobs.add_argument("--jobs", type=int, metavar="N", help="starts, or fits, at a time; -1 for all processors")
    jobs.add_argument("--progress", action="store_true", help="show bars")
    out.add_argument("--out", type=Path, metavar="FILE", help="CSV file to write (- is the standard output)")
    model.add_argument("model", type=Path, help="file of a fitted model")
    words = "learn a mixture from a CSV file"
    _add_fit(_add_command(subparsers, commands.fit, (table, seed, jobs), words, "Keep it with --out."))
    words = "compare a product mixture, one of log-concave densities and an unmixed one on a CSV file"
    more = "Say which to take for densities, and which for groups."
    add = _add_command(subparsers, commands.compare, (table, seed, jobs, out), words, more).add_argument
    add("--components", type=int, metavar="R", required=True, help="number of components")
    add("--folds", type=int, default=5, metavar="N", help="parts held out in turn (default: 5)")
    words = "say whether components can be told apart, from sizes or of a fitted model"
    more = "Sizes alone say how many components there may be."
    add = _add_command(subparsers, commands.check, (), words, more).add_argument
    add("model", type=Path, nargs="?", help="file of a fitted model")
    add("--variables", type=int, metavar="N", help="number of variables")
    add("--bins", type=int, nargs="+", metavar="I", help="bins per variable, one number or one for each")
    add("--components", type=int, metavar="R", help="number of components")
    words = "assign the samples of a CSV file to the components of a fitted model"
    more = "Columns that the model does not have are left out."
    add = _add_command(subparsers, commands.predict, (model, table, out), words, more).add_argument
    add("--probabilities", action="store_true", help="add the probability of every component")
    add("--densities", action="store_true", help="add the logarithm of the density")
    words = "fill the missing entries of a CSV file in by a fitted model"
    more = "Other entries and columns are written as they are."
    add = _add_command(subparsers, commands.impute, (model, table, seed, out), words, more).add_argument
    add("--method", choices=["mean", "draw"], default="mean", help="given the other entries (default: mean)")
    words = "say which variables depend on each other within the components of a fitted model"
    more = "Best by the samples of the fit."
    add = _add_command(subparsers, commands.independence, (model, table, seed, out), words, more).add_argument
    add("--level", type=float, default=0.01, metavar="RATE", help="false discovery rate (default: 0.01)")
    add("--replicates", type=int, default=20, metavar="N", help="sets of draws from the model (default: 20)")
    words = "show share, means and standard deviations of the components of a fitted model"
    _add_command(subparsers, commands.components, (model, out), words, "Of text, show the most probable value.")
    return parser


def _add_command(
    subparsers: Any,
    run: Callable[[argparse.Namespace], bool],
    parents: Sequence[argparse.ArgumentParser],
    summary: str,
    more: str,
) -> argparse.ArgumentParser:
    """The parser of one command, called as its function is, with the options of its parents."""
    texts = {"help": summary, "description": f"{summary[0].upper()}{summary[1:]}. {more}"}
    command: argparse.ArgumentParser = subparsers.add_parser(run.__name__, allow_abbrev=False, parents=parents, **texts)
    command.set_defaults(run=run)
    return command


def _add_fit(command: argparse.ArgumentParser) -> None:
    """Arguments of a fit."""
    number = command.add_mutually_exclusive_group(required=True)
    number.add_argument("--components", type=int, metavar="R", help="number of components")
    number.add_argument("--select", type=_numbers, metavar="A:B", help="choose the number of components, from A to B")
    add = command.add_argument
    add("--criterion", choices=CRITERIA, default="bic", help="what chooses it (default: bic)")
    add("--bins", type=int, metavar="I", help="bins per variable")
    add("--refine", choices=["smooth", "em", "none"], default="smooth", help="none is the paper's algorithm")
    add("--unmix", action="store_true", help="learn a linear map, too, for variables that depend on each other")
    add("--discrete", action="append", metavar="NAME", help="variable with a probability for each value; may repeat")
    add("--out", type=Path, metavar="FILE", help="write the model: .nc")
    add("--figure", type=Path, metavar="FILE", help="draw the densities: .png, .svg or .pdf")
    add("--labels", type=Path, metavar="FILE", help="write the component of every sample: .csv")


def _table_options() -> argparse.ArgumentParser:
    """Arguments that say how to read a table."""
    parser = argparse.ArgumentParser(add_help=False)
    add = parser.add_argument
    kinds = "CSV file with a header, perhaps compressed, as its name says (.gz, .bz2, .xz, .zip); - for standard input"
    add("data", type=Path, help=f"{kinds}; empty fields, NA and NaN are missing; text is a discrete variable")
    add("--sep", type=_separator, metavar="CHAR", help="such as tab (default: the one in the lines)")
    add("--decimal", choices=[".", ","], metavar="POINT", help="decimal point (default: .)")
    add("--thousands", metavar="CHAR", help="what separates thousands")
    add("--comment", metavar="CHAR", help="what a comment begins with, up to the end of the line")
    add("--encoding", metavar="NAME", help="such as latin-1 (default: utf-8)")
    add("--missing", action="append", default=[], metavar="TEXT", help="sign of missing entries, as in --missing=-999")
    add("--skip-rows", type=int, default=0, metavar="N", help="lines before the table")
    add("--skip-footer", type=int, default=0, metavar="N", help="rows at the end that are no samples, such as sums")
    add("--no-header", action="store_true", help="the first line has no names")
    add("--id-column", metavar="NAME", help="column that names the samples")
    add("--labels-column", metavar="NAME", help="column of known classes, to compare with")
    add("--drop", action="append", default=[], metavar="NAME", help="leave a column out; may be repeated")
    add("--only-numbers", action="store_true", help="leave all columns of text out")
    return parser


def _numbers(text: str) -> range:
    """1:10 as the numbers from 1 to 10."""
    found = re.fullmatch(r"(\d{1,6}):(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range of numbers such as 1:10")
    return range(int(found[1]), int(found[2]) + 1)


def _separator(text: str) -> str:
    character = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(character) != 1 or character in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r} is not a single character")
    return character


@contextmanager
def _plain_warnings() -> Iterator[list[type[Warning]]]:
    """Warnings as plain lines, in place of the code that gave them; and their classes."""
    categories: list[type[Warning]] = []
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        categories.append(category)
        text = in_words(str(message))
        # A selection names the numbers that it warns of before what the fit of one of them says again.
        if not any(earlier == text or earlier.endswith(f": {text}") for earlier in said):
            say_aside(f"warning: {text}")
        said.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TensorlySmpWarning)
        warnings.showwarning = show
        yield categories
