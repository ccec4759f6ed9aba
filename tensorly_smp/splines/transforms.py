"""Transform of a variable after which its cells are equally wide: none, or one that draws far values in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# The hyperbolic sine of this is finite.
_FARTHEST = 709.0


@dataclass(frozen=True)
class ArcsinhTransform:
    """u(x) = arsinh((x - center) / scale): like x near the center, like its logarithm far away; or x itself.

    Equally wide cells in u are widest far out, in proportion to the distance from the center. With them a single grid
    follows a density that is narrow at one place and has values a million times as far as it is wide, as those of
    prices, of incomes, or with errors among them.

    Attributes
    ----------
    center, scale : float
        In the unit of the variable; `scale` is infinite for x itself.

    Examples
    --------
    >>> import numpy as np
    >>> from tensorly_smp.splines.transforms import ArcsinhTransform
    >>> ArcsinhTransform(0.0, 1.0).forward(np.array([0.01, 1e3, 1e6])).round(2).tolist()
    [0.01, 7.6, 14.51]
    >>> ArcsinhTransform().forward(np.array([0.01, 1e3, 1e6])).tolist()
    [0.01, 1000.0, 1000000.0]
    """

    center: float = 0.0
    scale: float = np.inf

    @property
    def is_linear(self) -> bool:
        """True if u is x."""
        return not np.isfinite(self.scale)

    def forward(self, x: np.ndarray) -> np.ndarray:
        """Transformed values u of values x."""
        if self.is_linear:
            return x
        with np.errstate(over="ignore"):  # beyond all floats, and in the outermost cell with that
            return np.asarray(np.clip(np.arcsinh((x - self.center) / self.scale), -_FARTHEST, _FARTHEST))

    def inverse(self, u: np.ndarray) -> np.ndarray:
        """Values x of transformed values u."""
        if self.is_linear:
            return u
        with np.errstate(over="ignore"):
            return np.asarray(self.center + self.scale * np.sinh(u))

    def knots(self, low: float, high: float, n_cells: int) -> np.ndarray:
        """Edges (n_cells + 1,) of equally wide cells of u from one value to another, as (x - center) / scale.

        Not for x itself, which has no scale to count in.
        """
        ends = self.forward(np.array([low, high]))
        knots = np.sinh(ends[0] + (ends[1] - ends[0]) / n_cells * np.arange(n_cells + 1.0))
        # The ends to the last digit: a value at a bound is not beyond it.
        if max(-ends[0], ends[1]) < _FARTHEST:
            knots[[0, -1]] = (low - self.center) / self.scale, (high - self.center) / self.scale
        return np.asarray(knots)


#: The variable itself.
LINEAR = ArcsinhTransform()
