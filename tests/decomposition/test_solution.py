"""What a solution says about itself."""

import numpy as np
import pytest
from tensorly.cp_tensor import CPTensor

from tensorly_smp._support.iteration import StopReason, SweepTrace
from tensorly_smp.decomposition.solution import CoupledSolution
from tensorly_smp.factors.mixture_factors import MixtureFactors


def make_solution():
    trace = SweepTrace(np.array([3.0, 2.0, 1.5]), np.array([np.nan, 0.5, 0.1]), np.array([0.0, 0.1, 0.2]))
    return CoupledSolution(
        factors=MixtureFactors([0.25, 0.75], [np.eye(2)] * 3),
        trace=trace,
        status=StopReason.CONVERGED,
        start_losses=np.array([1.7, 1.5]),
        start_statuses=(StopReason.MAX_SWEEPS, StopReason.CONVERGED),
        loss_name="kl",
        best_start=1,
    )


@pytest.mark.parametrize("reason", StopReason)
def test_every_reason_has_words_of_its_own(reason):
    assert reason.explanation
    assert reason.remedy
    assert str(reason) == f"{reason.name.lower()}: {reason.explanation}"
    assert reason.is_converged == (reason.name in ("CONVERGED", "EXACT"))


def test_solution():
    solution = make_solution()
    assert solution.loss == 1.5
    assert isinstance(solution.to_cp_tensor(), CPTensor)
    assert (solution.to_cp_tensor().weights == solution.factors.weights).all()
    assert repr(solution).startswith("CoupledSolution(kl loss 1.5 after 2 sweeps, converged, best of 2)\n")
    # Solutions are compared by identity.
    other = make_solution()
    assert solution == solution
    assert solution != other
    assert solution.trace != other.trace
    assert len({solution, other}) == 2
