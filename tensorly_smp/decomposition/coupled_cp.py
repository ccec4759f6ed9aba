"""The solver as a class in TensorLy's manner."""

from __future__ import annotations

import inspect
from functools import cached_property
from typing import Any, Self

from tensorly.cp_tensor import CPTensor
from tensorly.decomposition._base_decomposition import DecompositionMixin

from tensorly_smp.decomposition import solver as solver_module

_PARAMETERS = list(inspect.signature(solver_module.coupled_simplex_parafac).parameters.values())[1:]


class CoupledSimplexCP(DecompositionMixin):
    """Coupled, non-negative, simplex-constrained CP decomposition of tensors that share factors and weights.

    Parameters are those of :func:`coupled_simplex_parafac`, `data` excepted.

    Attributes
    ----------
    decomposition_ : CPTensor
    solution_ : CoupledSolution

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> rng = np.random.default_rng(0)
    >>> tensors = [rng.random((3, 4, 5)), rng.random((3, 4, 2))]
    >>> decomposition = smp.CoupledSimplexCP(
    ...     rank=2, modes=[(0, 1, 2), (0, 1, 3)], random_state=0
    ... )
    >>> weights, factors = decomposition.fit_transform(tensors)
    >>> [factor.shape for factor in factors]
    [(3, 2), (4, 2), (5, 2), (2, 2)]
    """

    __signature__ = inspect.Signature(_PARAMETERS)

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        bound = self.__signature__.bind(*arguments, **parameters)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    def fit(self, data: Any) -> Self:
        """Decompose Marginals, Codes, a third-order tensor or a list of these; returns self."""
        self.__dict__.pop("decomposition_", None)  # of an earlier fit
        parameters = {parameter.name: getattr(self, parameter.name) for parameter in _PARAMETERS}
        # By the module, where tensorly.testing puts the function that checks what is passed on.
        self.solution_ = solver_module.coupled_simplex_parafac(data, **parameters)
        return self

    def fit_transform(self, data: Any) -> CPTensor:
        """Decompose as :meth:`fit` does; returns the CPTensor (weights, factors)."""
        return self.fit(data).decomposition_

    @cached_property
    def decomposition_(self) -> CPTensor:
        """Weights and factors of the solution, in the backend's arrays."""
        return self.solution_.to_cp_tensor()
