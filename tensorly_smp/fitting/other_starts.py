"""Rivals of a fit on bins: what its other starts end at, where that is as likely and has other clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tensorly_smp.codes.one_hot import one_hot
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.factors.mixture_factors import MixtureFactors
from tensorly_smp.fitting.fit_samples import SamplesInMemory, start_logarithms
from tensorly_smp.fitting.multistart import MOST_RIVALS, NEAR_RIVAL, OTHER_CLUSTERS, is_as_near
from tensorly_smp.likelihood.comparison import deviation_of_difference, distinct_clusterings
from tensorly_smp.likelihood.em import LikelihoodSolution
from tensorly_smp.likelihood.steps import log_joint

#: Starts that are followed to their end, at most.
MOST_FINISHED = 2


@dataclass(frozen=True, eq=False)
class End:
    """Where a start ends.

    Attributes
    ----------
    factors : MixtureFactors
    attrs : dict
        For the Dataset.
    value : float
        Penalized log-likelihood per sample, if EM has raised it.
    solution : CoupledSolution or LikelihoodSolution, optional
    """

    factors: MixtureFactors
    attrs: dict[str, Any]
    value: float = -np.inf
    solution: CoupledSolution | LikelihoodSolution | None = None

    @classmethod
    def of(cls, solution: CoupledSolution | LikelihoodSolution) -> End:
        """From the solution of the last stage."""
        attrs: dict[str, Any] = {"status": solution.status.name.lower()}
        if isinstance(solution, CoupledSolution):
            return cls(solution.factors.to_numpy(), attrs | {"n_sweeps": solution.trace.n_sweeps}, solution=solution)
        attrs["n_passes"] = solution.trace.n_passes
        return cls(solution.factors, attrs, float(solution.trace.penalized[-1]), solution)


@dataclass(frozen=True, eq=False)
class OtherStart:
    """A start beside that of the fit.

    Attributes
    ----------
    number : int
        Of the start, or the candidate of a search.
    end : End
    criterion : float
        Log-likelihood of the bins less that of the fit, in nats.
    deviation : float
        Standard deviation of this difference.
    labels : ndarray of int (n_samples,)
        Most probable component of every sample.
    """

    number: int
    end: End
    criterion: float
    deviation: float
    labels: np.ndarray

    @property
    def numbers(self) -> tuple[float, float, int]:
        """Criterion, deviation and number."""
        return self.criterion, self.deviation, self.number


def labels_of(samples: SamplesInMemory, factors: MixtureFactors) -> np.ndarray:
    """Most probable component (n_samples,) by the bins."""
    return _joint(samples, factors).argmax(axis=1)


def other_starts(
    samples: SamplesInMemory, best: MixtureFactors, ends: Mapping[int, End], slack: float = 0.0
) -> list[OtherStart]:
    """Starts that may be as good as the best one, and have other clusters; the most likely first.

    Parameters
    ----------
    samples : SamplesInMemory
    best : MixtureFactors
    ends : mapping of number to End
    slack : float
        What they may still gain, in nats.

    Returns
    -------
    list of OtherStart
    """
    joint = _joint(samples, best)
    log_densities = logsumexp(joint, axis=1)
    clusters = joint.argmax(axis=1)
    weights = np.ones(len(joint)) if samples.weights is None else samples.weights
    found = []
    for number, end in ends.items():
        joint = _joint(samples, end.factors)
        own = logsumexp(joint, axis=1)
        difference = float(weights @ (own - log_densities))
        deviation = deviation_of_difference(own, log_densities, samples.weights)
        if is_as_near(-difference - slack, deviation):
            found.append(OtherStart(number, end, difference, deviation, joint.argmax(axis=1)))
    found.sort(key=lambda each: (-each.criterion, each.number))
    kept = distinct_clusterings(
        [clusters, *(each.labels for each in found)], best.rank, samples.weights, OTHER_CLUSTERS
    )
    return [found[i - 1] for i in kept[1 : MOST_RIVALS + 1]]


def near_starts(samples: SamplesInMemory, best: MixtureFactors, starts: Mapping[int, MixtureFactors]) -> list[int]:
    """Numbers of the starts that have yet to be followed to their end, and may end as high as the best one."""
    ends = {number: End(factors, {}) for number, factors in starts.items()}
    return [each.number for each in other_starts(samples, best, ends, NEAR_RIVAL)[:MOST_FINISHED]]


def _joint(samples: SamplesInMemory, factors: MixtureFactors) -> np.ndarray:
    """Logarithm of w_r Pr(bins of a sample | r), (n_samples, rank), a little of the uniform distribution mixed in."""
    return log_joint(one_hot(samples.codes), *start_logarithms(factors))
