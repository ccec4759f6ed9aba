"""The direction in which samples determine a mixture least, and how far models along it are as likely."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tensorly_smp.exceptions import IdentifiabilityWarning
from tensorly_smp.likelihood.steps import CellSamples, Mixture

#: A likelihood is flat if the standard error along its flattest direction is larger. For scale: 0.3 in the direction of
#: the weights is a standard error of 0.15 of a weight of one half. Largest and smallest of 20 to 25 data sets a case
#: (`benchmarks/bench_bootstrap.py flatness`): three or five informative 0/1 items .25 and .33 (200 samples, two and
#: three classes), Gaussian, Gamma, Laplace and bimodal mixtures .2; two informative items and one of noise above .8.
FLAT = 0.3
#: Posteriors are mixed with this share of the weights. Fits on the border of their parameters (probabilities of zero)
#: look determined, because only the way inside is open.
PULL = 0.1
#: Passes of EM from there, and iterations of the power method. After 10 passes a log-spline may still be on its way,
#: one Newton step a pass, and look flat: 5 of 20 Gamma mixtures; after 40 none of them.
N_PASSES, N_POWERS = 40, 30
#: Length of a step by which the EM map is differentiated.
STEP = 1e-3
#: Starts of replicates lie along a flat direction with at most this standard deviation.
MOST = 0.5
#: Components are named if they have this share of the squared length of a direction.
NAMED = 0.2


@dataclass(frozen=True, eq=False)
class FlattestDirection:
    """Direction in which samples determine a mixture least.

    Attributes
    ----------
    samples : CellSamples
    mixture : Mixture
        About as likely as the fit, and off the borders of the parameters.
    direction : ndarray (n_parameters,)
        In the coordinates of ``mixture.pack()``, of length one in the metric of Fisher's information of one sample
        whose component is known.
    information : float
        Share of that information which samples of unknown components have in this direction.
    """

    samples: CellSamples
    mixture: Mixture
    direction: np.ndarray
    information: float

    @property
    def deviation(self) -> float:
        """Standard error along the direction; the farthest distributions are pi apart."""
        return float((self.samples.total_weight * self.information) ** -0.5)

    @property
    def is_flat(self) -> bool:
        """True if models that differ much are about as likely."""
        return self.deviation > FLAT

    def start(self, rng: np.random.Generator) -> Mixture:
        """A mixture that is about as likely as the fit, drawn along the direction."""
        moved = self.mixture.pack() + min(self.deviation, MOST) * rng.standard_normal() * self.direction
        return self.samples.feasible(moved, self.mixture)

    @cached_property
    def components(self) -> list[int]:
        """Components that change most along the direction."""
        lengths = _squared_lengths(self.samples, self.mixture, self.direction)
        return np.flatnonzero(lengths >= NAMED * lengths.sum()).tolist()

    def warning(self) -> IdentifiabilityWarning:
        """The warning of a bootstrap of such a fit."""
        return IdentifiabilityWarning(
            "The likelihood is next to flat: samples hardly tell this model from others with other weights and "
            f"densities, mostly of component(s) {', '.join(map(str, self.components))}, and intervals of the bootstrap "
            f"may be too small (standard error {self.deviation:.2g} along the flattest direction, trusted up to "
            f"{FLAT}). Ask for fewer components, or measure more variables in which the groups differ."
        )


def flattest_direction(
    samples: CellSamples, posterior: np.ndarray, mixture: Mixture, penalty: np.ndarray
) -> FlattestDirection:
    """Direction in which samples determine a mixture least, by the rate of EM.

    Along a direction EM leaves the share of an error that the missing components have of the information (Dempster,
    Laird and Rubin 1977): its slowest direction is that of least information, and the power method on the EM map finds
    it, at the cost of an E-step and an M-step an iteration.

    Parameters
    ----------
    samples : CellSamples
    posterior : ndarray (n_samples, rank)
        Of the fit.
    mixture : Mixture
        The fit.
    penalty : ndarray (n_smooth * rank,)
        Not per sample.

    Returns
    -------
    FlattestDirection
    """

    def pass_of_em(position: Mixture) -> Mixture:
        return samples.maximize(samples.expect(position, penalty)[0], position, penalty)

    pulled = (1.0 - PULL) * posterior + PULL * np.exp(mixture.log_weights)
    mixture = samples.maximize(samples.counts_from_posterior(pulled), mixture, penalty)
    for _ in range(N_PASSES):
        mixture = pass_of_em(mixture)
    here = mixture.pack()
    after = pass_of_em(mixture).pack()
    moved = np.random.default_rng(0).standard_normal(len(here))
    length = np.sqrt(_squared_lengths(samples, mixture, moved).sum())
    for _ in range(N_POWERS):
        direction = moved / max(length, 1e-300)
        moved = (pass_of_em(mixture.unpack(here + STEP * direction)).pack() - after) / STEP
        length = np.sqrt(_squared_lengths(samples, mixture, moved).sum())
    return FlattestDirection(samples, mixture, direction, max(1.0 - float(length), 1e-6))


def _squared_lengths(samples: CellSamples, mixture: Mixture, direction: np.ndarray) -> np.ndarray:
    """Squared length (rank,) of the part that every component has in a direction, in the metric of Fisher."""
    moved = mixture.unpack(mixture.pack() + STEP * direction)
    tables = samples.log_tables(mixture)
    of_tables = (np.exp(tables) * (samples.log_tables(moved) - tables) ** 2).sum(axis=0)
    of_weights = (moved.log_weights - mixture.log_weights) ** 2
    return np.asarray(np.exp(mixture.log_weights) * (of_weights + of_tables) / STEP**2)
