"""Acceleration of iterations that converge slowly, in whatever coordinates and arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: An array of any backend.
Tensor = Any


@dataclass
class SquaredExtrapolation:
    """Squared extrapolation (SQUAREM, Varadhan and Roland 2008, scheme 3) over pairs of steps of any iteration.

    From three iterates a, b, c the next start is a + 2 s (b - a) + s^2 (c - 2 b + a) with s = |b - a| / |c - 2 b + a|.
    Which coordinates the iterates are in, and how a point is brought back to where it is feasible, is up to the caller,
    who keeps it only where the objective gets no worse, and says so by ``reject``.
    """

    largest_step: float = 4.0
    history: list[Tensor] = field(default_factory=list)

    def propose(self, before: Tensor, after: Tensor) -> Tensor | None:
        """The next start, or None where it would be no step ahead."""
        self.history.append(before)
        if len(self.history) < 2:
            return None
        a, b = self.history
        c = after
        self.history = []
        first = b - a
        second = c - 2.0 * b + a
        step = (float((first**2).sum()) / max(float((second**2).sum()), 1e-300)) ** 0.5
        if step <= 1.0:
            return None
        if step >= self.largest_step:
            step = self.largest_step
            self.largest_step = 2.0 * self.largest_step
        return a + 2.0 * step * first + step * step * second

    def reject(self) -> None:
        """Take back the last proposal: shorter steps from now on."""
        self.largest_step = max(2.0, self.largest_step / 2.0)
        self.history = []
