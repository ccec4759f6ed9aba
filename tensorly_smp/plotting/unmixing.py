"""Pictures of a model whose variables are linear mixtures of independent sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.exceptions import InvalidTypeError
from tensorly_smp.plotting.accessor import ModelPlots
from tensorly_smp.plotting.names import short_names
from tensorly_smp.plotting.style import heat_map_of_variables, single_axes, variable_map_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: More variables than this, and no numbers are written into the cells.
MOST_WRITTEN = 12


def plot_unmixing(model: Any, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Axes:
    """Draw the map from variables to sources as a heat map: every source in a row, every variable in a column.

    Entries are what a variable contributes to a source per standard deviation within components, divided by the largest
    of the row. A map that leaves the variables alone is a diagonal.

    Parameters
    ----------
    model : UnmixedProductMixture
        Fitted.
    ax : Axes, optional
        By default those of a new figure.
    figsize : (float, float), optional
        Width and height of a new figure, in inches.

    Returns
    -------
    Axes

    Raises
    ------
    InvalidTypeError
        Another kind of object.
    MissingDependencyError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gmm", 1000, 3, 2, random_state=0).X
    >>> X[:, 1] += X[:, 0]
    >>> ax = smp.plotting.plot_unmixing(smp.UnmixedProductMixture(2, random_state=0).fit(X))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('variable', 'source')
    """
    unmixing = getattr(model, "unmixing_", None)
    if unmixing is None:
        raise InvalidTypeError(f"model is {type(model).__name__}; expected a fitted UnmixedProductMixture.")
    density = model.density_
    mixed = list(model.density_.mixed)
    within = np.sqrt(np.asarray(density.var("all"))[mixed] @ density.weights)
    shown = unmixing.values * within
    shown = shown / np.abs(shown).max(axis=1, keepdims=True)
    n = len(shown)
    ax = single_axes(ax, variable_map_size(n) if figsize is None else figsize)
    names = short_names([str(density.variables[j]) for j in mixed], 16)
    heat_map_of_variables(ax, shown, names, names, MOST_WRITTEN, "share of the largest")
    ax.set_xlabel("variable")
    ax.set_ylabel("source")
    return ax


class UnmixedPlots(ModelPlots):
    """Pictures of one fitted model: of its sources, and of the map to them.

    Samples X are given as the variables that the model was fitted to; the pictures show the sources, each under the
    name of the variable that it is nearest to.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gmm", 1000, 3, 2, random_state=0).X
    >>> X[:, 1] += X[:, 0]
    >>> model = smp.UnmixedProductMixture(2, random_state=0).fit(X)
    >>> model.plot.conditionals(X).shape
    (3,)
    """

    def __init__(self, model: Any) -> None:
        super().__init__(model.mixture_)
        self._checked = model

    def unmixing(self, ax: Axes | None = None, figsize: tuple[float, float] | None = None) -> Axes:
        """Map from variables to sources: :func:`~tensorly_smp.plotting.plot_unmixing`."""
        return plot_unmixing(self._checked, ax, figsize)

    def _values(self, X: Any) -> Any:
        return None if X is None else self._checked.unmix(X)
