"""Pictures of a fitted model as its methods: ``model.plot``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import numpy as np

from tensorly_smp.dependence.check import check_independence
from tensorly_smp.plotting.conditionals import plot_conditionals
from tensorly_smp.plotting.factors import plot_factors, plot_independence, plot_unmixing
from tensorly_smp.plotting.identifiability import plot_identifiability
from tensorly_smp.plotting.pairs import plot_pairs
from tensorly_smp.plotting.rivals import plot_rivals
from tensorly_smp.plotting.traces import plot_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Parameters = ParamSpec("Parameters")


def _like(
    function: Callable[Concatenate[Any, Parameters], np.ndarray],
) -> Callable[[Any], Callable[Concatenate[Any, Parameters], np.ndarray]]:
    """Give a method the parameters and defaults of a function, all but the first, which is the model."""

    def declared(method: Any) -> Any:
        signature = inspect.signature(function)
        (_, *others) = signature.parameters.values()
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        method.__signature__ = signature.replace(parameters=[itself, *others])
        return method

    return declared


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

    @_like(plot_conditionals)
    def conditionals(self, X: Any = None, *args: Any, **options: Any) -> np.ndarray:
        """Densities of every variable in every component: :func:`~tensorly_smp.plotting.plot_conditionals`."""
        return plot_conditionals(self._model, self._values(X), *args, **options)

    __call__ = conditionals  # the picture to begin with

    @_like(plot_factors)
    def factors(self, *args: Any, **options: Any) -> np.ndarray:
        """Heat maps of the factors: :func:`~tensorly_smp.plotting.plot_factors`."""
        return plot_factors(self._model, *args, **options)

    def loss(self, axes: Any = None, figsize: tuple[float, float] | None = None) -> np.ndarray:
        """Record of the fit: :func:`~tensorly_smp.plotting.plot_loss`."""
        return plot_loss(self._model, axes, figsize)

    @_like(plot_pairs)
    def pairs(self, X: Any = None, *args: Any, **options: Any) -> np.ndarray:
        """Contours of the components: :func:`~tensorly_smp.plotting.plot_pairs`."""
        return plot_pairs(self._model, self._values(X), *args, **options)

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

    @_like(plot_rivals)
    def rivals(self, X: Any = None, *args: Any, **options: Any) -> np.ndarray:
        """Densities beside those of another solution: :func:`~tensorly_smp.plotting.plot_rivals`."""
        return plot_rivals(self._model, self._values(X), *args, **options)

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
