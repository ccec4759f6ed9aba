"""Every error and warning class of the package.

Errors derive from :class:`TensorlySmpError` *and* from the built-in class that a caller would expect, so that both
``except tensorly_smp.exceptions.TensorlySmpError`` and ``except ValueError`` work. Messages say what was received, what
was expected and what to try.
"""

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning

__all__ = [
    "AlgebraicStartError",
    "AlgebraicStartWarning",
    "ClippedMassWarning",
    "ConstantVariableWarning",
    "ConvergenceWarning",
    "EmptyComponentWarning",
    "FileFormatError",
    "IdentifiabilityWarning",
    "InvalidInputError",
    "InvalidTypeError",
    "MissingDependencyError",
    "NonUniformBinsError",
    "NyquistWarning",
    "OutlierWarning",
    "SizeLimitError",
    "SparseHistogramWarning",
    "TensorlySmpError",
    "TensorlySmpWarning",
]


class TensorlySmpError(Exception):
    """Base of all errors raised by this package."""


class InvalidInputError(TensorlySmpError, ValueError):
    """A value that the computation cannot use: wrong size, wrong range, not finite, nothing to learn from."""


class InvalidTypeError(TensorlySmpError, TypeError):
    """An object of a kind that the function does not take."""


class SizeLimitError(InvalidInputError):
    """The result would need more memory than the stated limit; raised before anything is allocated."""


class NonUniformBinsError(InvalidInputError):
    """Sinc reconstruction was asked of bins of unequal width."""


class AlgebraicStartError(InvalidInputError):
    """The algebraic decomposition does not exist or is too ill-conditioned; the message names the failed condition."""


class FileFormatError(InvalidInputError):
    """A file that this package did not write, or that is damaged."""


class MissingDependencyError(TensorlySmpError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class TensorlySmpWarning(UserWarning):
    """Base of all warnings given by this package."""


class ConvergenceWarning(TensorlySmpWarning, _SklearnConvergenceWarning):
    """The iteration stopped before its tolerance was met."""


class EmptyComponentWarning(TensorlySmpWarning):
    """A component has (almost) no weight, so its densities are arbitrary."""


class AlgebraicStartWarning(TensorlySmpWarning):
    """The algebraic start failed; the message says why, and a random start took its place."""


class IdentifiabilityWarning(TensorlySmpWarning):
    """The rank is above what the sizes allow, or the fitted factors are close to a model that is not unique."""


class SparseHistogramWarning(TensorlySmpWarning):
    """Histograms with so few samples that they carry little information, or none."""


class ConstantVariableWarning(TensorlySmpWarning):
    """A variable takes a single value, so it cannot tell components apart."""


class OutlierWarning(TensorlySmpWarning):
    """A few far values set the range of a variable, so that nearly all others share a few of its bins."""


class ClippedMassWarning(TensorlySmpWarning):
    """A noticeable share of a reconstructed density was negative and was clipped."""


class NyquistWarning(TensorlySmpWarning):
    """Bins that are too coarse for sinc reconstruction: a noticeable share of a spectrum lies beyond pi / width."""
