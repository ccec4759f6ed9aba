"""The solver as a class in TensorLy's manner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

from tensorly.cp_tensor import CPTensor
from tensorly.decomposition._base_decomposition import DecompositionMixin

from tensorly_smp.codes.encoding import Codes
from tensorly_smp.factors import solver as solver_module
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.factors.sweeps import Callback
from tensorly_smp.marginals.histograms import Marginals
from tensorly_smp.randomness import RandomState


class CoupledSimplexCP(DecompositionMixin):
    """Coupled, non-negative, simplex-constrained CP decomposition of tensors that share factors.

    Parameters are those of :func:`coupled_simplex_parafac`.

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
    >>> decomposition = smp.CoupledSimplexCP(rank=2, modes=[(0, 1, 2), (0, 1, 3)], random_state=0)
    >>> weights, factors = decomposition.fit_transform(tensors)
    >>> [factor.shape for factor in factors]
    [(3, 2), (4, 2), (5, 2), (2, 2)]
    """

    def __init__(
        self,
        rank: int,
        *,
        modes: Sequence[Sequence[int]] | None = None,
        loss: str = "kl",
        solver: str = "auto",
        init: str | MixtureFactors | CPTensor = "gevd",
        n_init: int = 1,
        n_screen: int | None = 20,
        agree: Callable[..., MixtureFactors | None] | None = None,
        weights: str = "count",
        histograms: str = "auto",
        sample_weight: Any = None,
        n_iter_max: int = 1000,
        tol: float = 1e-6,
        n_inner: int | None = None,
        extrapolate: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
        callback: Callback | None = None,
        codes: Codes | None = None,
        verbose: int = 0,
        dtype: Any = None,
        device: Any = None,
        warn: bool = True,
    ) -> None:
        self.rank = rank
        self.modes = modes
        self.loss = loss
        self.solver = solver
        self.init = init
        self.n_init = n_init
        self.n_screen = n_screen
        self.agree = agree
        self.weights = weights
        self.histograms = histograms
        self.sample_weight = sample_weight
        self.n_iter_max = n_iter_max
        self.tol = tol
        self.n_inner = n_inner
        self.extrapolate = extrapolate
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.codes = codes
        self.verbose = verbose
        self.dtype = dtype
        self.device = device
        self.warn = warn

    def fit(self, data: Marginals | Codes | Sequence[Any]) -> Self:
        """Decompose Marginals, Codes or a list of third-order tensors; returns self."""
        self.__dict__.pop("decomposition_", None)  # of an earlier fit
        parameters = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        # By the module, where tensorly.testing puts the function that checks what is passed on.
        self.solution_ = solver_module.coupled_simplex_parafac(data, **parameters)
        return self

    def fit_transform(self, data: Marginals | Codes | Sequence[Any]) -> CPTensor:
        """The same; returns the CPTensor (weights, factors)."""
        return self.fit(data).decomposition_

    @cached_property
    def decomposition_(self) -> CPTensor:
        """Weights and factors of the solution, in the backend's arrays."""
        return self.solution_.to_cp_tensor()
