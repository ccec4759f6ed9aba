"""Every error and warning class of the package.

Errors derive from :class:`TensorlySmpError` *and* from the built-in class that a caller would expect, so that both
``except tensorly_smp.exceptions.TensorlySmpError`` and ``except ValueError`` work. Messages say what was received, what
was expected and what to try.
"""

from collections.abc import Hashable, Iterable

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning


class TensorlySmpError(Exception):
    """Base of all errors raised by this package.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> try:
    ...     smp.default_partition(2)
    ... except smp.exceptions.TensorlySmpError as error:
    ...     isinstance(error, ValueError)
    True
    """


class InvalidInputError(TensorlySmpError, ValueError):
    """A value that the computation cannot use: wrong size, wrong range, not finite, nothing to learn from.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.default_partition(2)
    Traceback (most recent call last):
        ...
    tensorly_smp.exceptions.InvalidInputError: n_variables is 2; expected at least 3.
    """


class InvalidTypeError(TensorlySmpError, TypeError):
    """An object of a kind that the function does not take.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.choose_binning([["a"], ["b"]])
    Traceback (most recent call last):
        ...
    tensorly_smp.exceptions.InvalidTypeError: Variable(s) 'x0' hold ...; expected real ...
    """


class SizeLimitError(InvalidInputError):
    """The result would need more memory than the stated limit; raised before anything is allocated.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> codes = smp.Codes.from_array([[14] * 200])
    >>> smp.count_marginals(codes)
    Traceback (most recent call last):
        ...
    tensorly_smp.exceptions.SizeLimitError: The histograms would take 35.8 GB, over ...
    """


class NonUniformBinsError(InvalidInputError):
    """Sinc reconstruction was asked of bins of unequal width.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> smp.Binning(([0, 1, 3],)).require_uniform()
    Traceback (most recent call last):
        ...
    tensorly_smp.exceptions.NonUniformBinsError: Sinc reconstruction needs bins of ...
    """


class AlgebraicStartError(InvalidInputError):
    """The algebraic decomposition does not exist or is too ill-conditioned; the message names the failed condition.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> import numpy as np
    >>> smp.gevd_parafac(np.zeros((3, 3, 3)), rank=2)
    Traceback (most recent call last):
        ...
    tensorly_smp.exceptions.AlgebraicStartError: Singular values: all are zero, ...
    """


class FileFormatError(InvalidInputError):
    """A file that this package did not write, or that is damaged.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> with open("notes.nc", "w") as file:
    ...     _ = file.write("not a model")
    >>> smp.load("notes.nc")
    Traceback (most recent call last):
        ...
    tensorly_smp.exceptions.FileFormatError: ...
    """


class MissingDependencyError(TensorlySmpError, ImportError):
    """An optional package is not installed; the message names the extra that brings it.

    Examples
    --------
    >>> import tensorly_smp as smp
    >>> X = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=0).X
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> try:
    ...     axes = model.plot(X)
    ... except smp.exceptions.MissingDependencyError as error:
    ...     print(error)  # names the extra
    """


class TensorlySmpWarning(UserWarning):
    """Base of all warnings given by this package.

    Attributes
    ----------
    variables : tuple of hashable
        Names of all variables that it concerns, where its message names the first few of them; may be empty.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     binning = smp.choose_binning([[1.0, 2.0], [1.0, 3.0]])
    >>> (
    ...     isinstance(caught[0].message, smp.exceptions.TensorlySmpWarning),
    ...     caught[0].message.variables,
    ... )
    (True, ('x0',))
    """

    def __init__(self, *args: object, variables: Iterable[Hashable] = ()) -> None:
        super().__init__(*args)
        self.variables = tuple(variables)


class ConvergenceWarning(TensorlySmpWarning, _SklearnConvergenceWarning):
    """The iteration stopped before its tolerance was met.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.SmoothProductMixture(2, max_iter=1, random_state=0).fit(X)
    >>> caught[0].category.__name__
    'ConvergenceWarning'
    """


class EmptyComponentWarning(TensorlySmpWarning):
    """A component has (almost) no weight, so its densities are arbitrary.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> factors = smp.MixtureFactors([1.0, 0.0], [[[0.5, 1.0], [0.5, 0.0]]] * 3)
    >>> codes = smp.Codes.from_array([[0, 0, 0], [1, 1, 1]], n_bins=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.refine_em(factors, codes, mixing=0.0)
    >>> caught[0].category.__name__
    'EmptyComponentWarning'
    """


class AlgebraicStartWarning(TensorlySmpWarning):
    """The algebraic start failed; the message says why, and a random start took its place.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> codes = smp.Codes.from_array(np.eye(3, dtype=int), n_bins=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.coupled_simplex_parafac(smp.count_marginals(codes), 3, random_state=0)
    >>> caught[0].category.__name__
    'AlgebraicStartWarning'
    """


class NearDegenerateWarning(TensorlySmpWarning):
    """Two components of an algebraic decomposition nearly cancel each other, so that neither means much alone.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.gevd_parafac(
    ...         np.random.default_rng(2).standard_normal((3, 3, 3)), 3, random_state=0
    ...     )
    >>> caught[0].category.__name__
    'NearDegenerateWarning'
    """


class IdentifiabilityWarning(TensorlySmpWarning):
    """The rank is above what the sizes allow, or the fitted factors are close to a model that is not unique.

    :meth:`tensorly_smp.SmoothProductMixture.bootstrap` gives it where samples hardly determine the model.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.SmoothProductMixture(
    ...         5, n_bins=3, refine="em", density="histogram", random_state=0
    ...     ).fit(X[:, :3])
    >>> caught[0].category.__name__
    'IdentifiabilityWarning'
    """


class DependenceWarning(TensorlySmpWarning):
    """Variables depend on each other within components, which the model takes for independent.

    The message is the same for all fits: Python's default filter shows it once for many fits from one line.

    Attributes
    ----------
    variables : tuple of hashable
        Names of all variables that depend on others.
    pairs : tuple of (hashable, hashable)
        Their pairs, the strongest first; of more than thirty variables only some are looked at.
    advice : str
        What to try.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 3, 2, random_state=0)
    >>> X[:, 1] += X[:, 0]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> caught[0].category.__name__, caught[0].message.pairs
    ('DependenceWarning', (('x0', 'x1'),))
    >>> caught[0].message.advice.partition(",")[0]
    'Try UnmixedProductMixture'
    """

    def __init__(
        self,
        *args: object,
        variables: Iterable[Hashable] = (),
        pairs: Iterable[tuple[Hashable, Hashable]] = (),
        advice: str = "",
    ) -> None:
        super().__init__(*args, variables=variables)
        self.pairs = tuple(pairs)
        self.advice = advice


class SparseHistogramWarning(TensorlySmpWarning):
    """Histograms with so few samples that they carry little information, or none.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> codes = smp.Codes.from_array([[0, 0, -1, 0], [-1, 1, 1, 1]], n_bins=2)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.count_marginals(codes)
    >>> caught[0].category.__name__
    'SparseHistogramWarning'
    """


class ConstantVariableWarning(TensorlySmpWarning):
    """A variable takes a single value, so it cannot tell components apart.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.choose_binning([[1.0, 2.0], [1.0, 3.0]])
    >>> caught[0].category.__name__
    'ConstantVariableWarning'
    """


class OutlierWarning(TensorlySmpWarning):
    """Far values, or a long tail, set the range of a variable, so that nearly all values share a few of its bins.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.choose_binning(np.append(np.arange(100.0), 1e6)[:, np.newaxis])
    >>> caught[0].category.__name__
    'OutlierWarning'
    """


class MergedBinsWarning(TensorlySmpWarning):
    """A variable got fewer quantile bins than asked for, because many samples share a value.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     binning = smp.choose_binning(
    ...         [[0.0], [0.0], [0.0], [1.0], [2.0]], n_bins=4, strategy="quantile"
    ...     )
    >>> caught[0].category.__name__, binning.n_bins
    ('MergedBinsWarning', (3,))
    """


class ClippedMassWarning(TensorlySmpWarning):
    """A noticeable share of a reconstructed density was negative and was clipped.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> binning = smp.Binning.from_n_bins(8, ["a"])
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.reconstruct_density(
    ...         smp.MixtureFactors([1.0], [[[1.0]] + [[0.0]] * 7]), binning=binning
    ...     )
    >>> caught[0].category.__name__
    'ClippedMassWarning'
    """


class RepeatedValueWarning(TensorlySmpWarning):
    """Many samples share one value of a variable that is not discrete, or some share one far from all others.

    No smooth density explains that: such a value stands for something else, or deserves a variable of its own.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 4, 2, random_state=0)
    >>> X[::3, 0] = 0.0
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.SmoothProductMixture(2, random_state=0).fit(X)
    >>> caught[0].category.__name__
    'RepeatedValueWarning'
    """


class RivalSolutionsWarning(TensorlySmpWarning):
    """Other solutions, with other clusters, are so near to the one of the fit that samples do not tell which is right.

    Its attribute `variables` has those in which components differ that are one in another solution.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> centers = np.array(
    ...     [[0, 0, 0, 0, 0], [0, 0, 7, 0, 0], [6, 5, 3, 4, 5]]
    ... )  # two groups differ in one variable
    >>> X = np.random.default_rng(2).normal(size=(600, 5)) + centers[np.arange(600) % 3]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = smp.SmoothProductMixture(3, random_state=0).fit(X)
    >>> caught[0].category.__name__
    'RivalSolutionsWarning'
    """


class SampleWeightWarning(TensorlySmpWarning):
    """Weights of samples that are no numbers of samples, by their size, such as expansion weights of a survey.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import tensorly_smp as smp
    >>> X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 3, 2, random_state=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = smp.SmoothProductMixture(2, random_state=0).fit(
    ...         X, sample_weight=np.full(300, 10.5)
    ...     )
    >>> caught[0].category.__name__
    'SampleWeightWarning'
    """


class UnitsWarning(TensorlySmpWarning):
    """Samples are in other units than those that the model was fitted to, by their attributes.

    Examples
    --------
    >>> import warnings
    >>> import tensorly_smp as smp
    >>> import xarray as xr
    >>> X, _, _ = smp.datasets.make_smooth_mixture("gaussian", 300, 3, 2, random_state=0)
    >>> samples = xr.DataArray(X, dims=("sample", "variable"))
    >>> model = smp.SmoothProductMixture(2, random_state=0).fit(
    ...     samples.assign_attrs(units="mm")
    ... )
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = model.predict(samples.assign_attrs(units="m"))
    >>> caught[0].category.__name__
    'UnitsWarning'
    """


class CompiledKernelWarning(TensorlySmpWarning):
    """Compiled kernels cannot be used: a damaged file of Numba's cache, or no memory to compile. Plain code runs.

    Examples
    --------
    >>> import warnings
    >>> from types import SimpleNamespace
    >>> from tensorly_smp._support.kernels import KernelError, Kernels
    >>> def expect():
    ...     raise EOFError("Ran out of input")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     try:
    ...         Kernels(SimpleNamespace(expect=expect)).expect()
    ...     except KernelError:
    ...         pass
    >>> caught[0].category.__name__
    'CompiledKernelWarning'
    """


__all__ = sorted(name for name, each in globals().items() if getattr(each, "__module__", "") == __name__)
