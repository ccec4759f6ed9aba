"""Pictures of results, with matplotlib (extra ``plot``).

Every function takes Axes, or makes a figure, and returns the Axes; none shows or saves anything. A fitted model has
them as methods, ``model.plot.conditionals(X)`` and so on.
"""

from tensorly_smp.plotting.conditionals import plot_conditionals, plot_rivals
from tensorly_smp.plotting.factors import plot_factors, plot_independence, plot_unmixing
from tensorly_smp.plotting.identifiability import plot_identifiability
from tensorly_smp.plotting.pairs import plot_pairs
from tensorly_smp.plotting.traces import plot_loss, plot_selection

__all__ = [
    "plot_conditionals",
    "plot_factors",
    "plot_identifiability",
    "plot_independence",
    "plot_loss",
    "plot_pairs",
    "plot_rivals",
    "plot_selection",
    "plot_unmixing",
]
