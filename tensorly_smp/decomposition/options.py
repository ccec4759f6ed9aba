"""Options of a coupled decomposition that are rarely set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorly_smp._support.checks import checked_flag, checked_integer, checked_n_jobs
from tensorly_smp._support.representations import shown
from tensorly_smp.exceptions import InvalidInputError, InvalidTypeError
from tensorly_smp.factors.updates import BLOCK_SOLVERS


@dataclass(frozen=True)
class SolverOptions:
    """Options of :func:`coupled_simplex_parafac` that hardly anybody has to set.

    Parameters
    ----------
    solver : {"auto", "multiplicative", "projected-gradient", "mirror"}
        Block solver. "auto" is "multiplicative" for KL and "projected-gradient" for Frobenius; "mirror" is the paper's
        exponentiated gradient with Armijo steps, for both, slower.
    n_inner : int, optional
        Steps of the block solver per block and sweep; by default 2 (multiplicative), 5 (mirror; 1 for the weights), 8
        (projected-gradient).
    extrapolate : bool, default True
        Extrapolate over pairs of sweeps (SQUAREM), kept only where the loss does not rise; never with "mirror", which
        stays the paper's algorithm.
    n_screen : int or None, default 20
        With ``init="gevd"``: after this many sweeps only the two lowest starts go on. None runs all to their end, as
        the other kinds of start always do.
    n_jobs : int, optional
        Starts run at a time, in threads, as in joblib; the result does not depend on it.
    dtype : {"float32", "float64"} or a dtype of NumPy, PyTorch or JAX, optional
        Precision of the sweeps; by default that of the first tensor, and float64 for Marginals and Codes.
    device : str, torch.device or jax.Device, optional
        Where the sweeps are done, with PyTorch or JAX, such as "cuda" or "cpu"; by default where the first tensor is,
        and for Marginals and Codes the backend's own choice. See ``docs/backends.md``.
    warn : bool, default True
        Whether to warn where the result has not converged or has empty components; its ``status`` and weights say so in
        any case.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        A number out of range, or no number. Names are checked where the loss and the backend are known.

    Examples
    --------
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> tensor = np.random.default_rng(0).random((3, 4, 5))
    >>> options = smp.SolverOptions(solver="mirror", extrapolate=False)
    >>> smp.coupled_simplex_parafac(
    ...     tensor, 2, random_state=0, tol=1e-4, options=options
    ... ).status.is_converged
    True
    """

    solver: str = "auto"
    n_inner: int | None = None
    extrapolate: bool = True
    n_screen: int | None = 20
    n_jobs: int | None = None
    dtype: Any = None
    device: Any = None
    warn: bool = True

    def __post_init__(self) -> None:
        for name in ("n_inner", "n_screen"):
            value = getattr(self, name)
            if value is not None:
                checked_integer(value, name, 1)
        for name in ("extrapolate", "warn"):
            checked_flag(getattr(self, name), name)
        checked_n_jobs(self.n_jobs)

    def solver_name(self, loss: str) -> str:
        """Name of the block solver for a loss."""
        known = BLOCK_SOLVERS[loss]
        if self.solver == "auto":
            return next(iter(known))
        return checked_name(self.solver, known, f'solver for loss="{loss}"')


def checked_options(options: Any) -> SolverOptions:
    """The options, by default all of them as they are by default."""
    if options is None:
        return SolverOptions()
    if not isinstance(options, SolverOptions):
        raise InvalidTypeError(f"options is {type(options).__name__}; expected SolverOptions, or None.")
    return options


def checked_name(name: Any, known: Any, what: str) -> str:
    """The name, if it is one of those that are known."""
    if not isinstance(name, str) or name not in known:
        raise InvalidInputError(f"{what} is {shown(name)}; expected one of {list(known)}.")
    return name
