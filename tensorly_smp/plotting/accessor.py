"""Pictures of a fitted model as its methods: ``model.plot``."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from tensorly_smp.dependence.check import check_independence
from tensorly_smp.plotting.conditionals import plot_conditionals
from tensorly_smp.plotting.factors import plot_factors, plot_independence, plot_unmixing
from tensorly_smp.plotting.identifiability import plot_identifiability
from tensorly_smp.plotting.pairs import plot_pairs
from tensorly_smp.plotting.rivals import plot_rivals
from tensorly_smp.plotting.traces import plot_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ModelPlots:
    """Pictures of one fitted model; each method is the function of :mod:`tensorly_smp.plotting` of that name.

    ``model.plot(X)`` itself draws the conditional densities.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> data = smp.datasets.make_smooth_mixture("gaussian", 500, 4, 2, random_state=0)
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(data.X)
    >>> model.plot.conditionals(data.X).shape
    (4,)
    >>> model.plot.factors().shape
    (2,)
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._checked = model  # whose dependence within components is looked at

    def __repr__(self) -> str:
        classes = reversed(type(self).__mro__)
        names = dict.fromkeys(name for each in classes for name in vars(each) if not name.startswith("_"))
        return f"Pictures of a fitted {type(self._model).__name__}: {', '.join(names)}"

    def conditionals(
        self,
        X: Any = None,
        variables: Sequence[Hashable] | Hashable | None = None,
        page: int = 0,
        axes: Any = None,
        figsize: tuple[float, float] | None = None,
        bootstrap: xr.Dataset | None = None,
        level: float = 0.95,
    ) -> np.ndarray:
        """Densities of every variable in every component: :func:`~tensorly_smp.plotting.plot_conditionals`."""
        return plot_conditionals(self._model, self._values(X), variables, page, axes, figsize, bootstrap, level)

    __call__ = conditionals  # the picture to begin with

    def factors(
        self,
        variables: Sequence[Hashable] | Hashable | None = None,
        page: int = 0,
        axes: Any = None,
        figsize: tuple[float, float] | None = None,
    ) -> np.ndarray:
        """Heat maps of the factors: :func:`~tensorly_smp.plotting.plot_factors`."""
        return plot_factors(self._model, variables, page, axes, figsize)

    def loss(self, axes: Any = None, figsize: tuple[float, float] | None = None) -> np.ndarray:
        """Record of the fit: :func:`~tensorly_smp.plotting.plot_loss`."""
        return plot_loss(self._model, axes, figsize)

    def pairs(
        self,
        X: Any = None,
        variables: Sequence[Hashable] | None = None,
        axes: Any = None,
        figsize: tuple[float, float] | None = None,
    ) -> np.ndarray:
        """Contours of the components: :func:`~tensorly_smp.plotting.plot_pairs`."""
        return plot_pairs(self._model, self._values(X), variables, axes, figsize)

    def identifiability(self, axes: Any = None, figsize: tuple[float, float] | None = None) -> np.ndarray:
        """Report on uniqueness: :func:`~tensorly_smp.plotting.plot_identifiability`."""
        return plot_identifiability(self._model.identifiability_, axes, figsize)

    def independence(
        self, X: Any, ax: Axes | None = None, figsize: tuple[float, float] | None = None, **options: Any
    ) -> Axes:
        """Dependence of variables within components: :func:`~tensorly_smp.plotting.plot_independence`.

        Options are those of :func:`~tensorly_smp.check_independence`, by default with ``random_state=0``.
        """
        return plot_independence(check_independence(self._checked, X, **({"random_state": 0} | options)), ax, figsize)

    def rivals(
        self,
        X: Any = None,
        rival: int = 0,
        variables: Sequence[Hashable] | Hashable | None = None,
        axes: Any = None,
        figsize: tuple[float, float] | None = None,
    ) -> np.ndarray:
        """Densities beside those of another solution: :func:`~tensorly_smp.plotting.plot_rivals`."""
        return plot_rivals(self._model, self._values(X), rival, variables, axes, figsize)

    def _values(self, X: Any) -> Any:
        """Samples of what is drawn."""
        return X


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
