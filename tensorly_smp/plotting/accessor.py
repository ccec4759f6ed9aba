"""Pictures of a fitted model as its methods: ``model.plot``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorly_smp.dependence.check import check_independence
from tensorly_smp.plotting.conditionals import plot_conditionals, plot_rivals
from tensorly_smp.plotting.factors import plot_factors, plot_independence, plot_unmixing
from tensorly_smp.plotting.identifiability import plot_identifiability
from tensorly_smp.plotting.pairs import plot_pairs
from tensorly_smp.plotting.traces import plot_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def _method(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The function as a method: its first parameter is the model, its samples X are those of what is drawn."""
    signature = inspect.signature(function)
    (_, *others) = signature.parameters.values()

    def method(self: ModelPlots, *args: Any, **options: Any) -> np.ndarray:
        bound = signature.bind(self._model, *args, **options)
        if bound.arguments.get("X") is not None:
            bound.arguments["X"] = self._values(bound.arguments["X"])
        return function(*bound.args, **bound.kwargs)

    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    method.__signature__ = signature.replace(parameters=[itself, *others])  # type: ignore[attr-defined]
    method.__name__ = function.__name__.removeprefix("plot_")
    summary = str(function.__doc__).partition("\n")[0].rstrip(".")
    method.__doc__ = f"{summary}: :func:`~tensorly_smp.plotting.{function.__name__}`."
    return method


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

    conditionals = _method(plot_conditionals)
    __call__ = conditionals  # the picture to begin with
    factors = _method(plot_factors)
    identifiability = _method(plot_identifiability)
    loss = _method(plot_loss)
    pairs = _method(plot_pairs)
    rivals = _method(plot_rivals)

    def independence(
        self, X: Any, ax: Axes | None = None, figsize: tuple[float, float] | None = None, **options: Any
    ) -> Axes:
        """Dependence of variables within components: :func:`~tensorly_smp.plotting.plot_independence`.

        Options are those of :func:`~tensorly_smp.check_independence`, by default with ``random_state=0``.
        """
        return plot_independence(check_independence(self._checked, X, **({"random_state": 0} | options)), ax, figsize)

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
        return self._checked.unmix(X)
