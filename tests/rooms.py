"""The rooms of the decomposition one after the other, with all settings side by side, public or not."""

from dataclasses import fields

from tensorly_smp.decomposition.problem import SolverOptions, as_problem
from tensorly_smp.decomposition.solver import decompose

OF_PROBLEM = ("modes", "variables", "loss", "weights", "sample_weight", "samples", "form")


def solved(data, rank, **settings):
    """The solution; settings are those of SolverOptions, as_problem and decompose."""
    names = [field.name for field in fields(SolverOptions)]
    options = SolverOptions(**{name: settings.pop(name) for name in names if name in settings})
    of_problem = {name: settings.pop(name) for name in OF_PROBLEM if name in settings}
    return decompose(as_problem(data, rank=rank, options=options, **of_problem), options=options, **settings)


def interrupting_after(n_calls):
    """A callback that raises KeyboardInterrupt at this call."""
    calls = []

    def callback(cp_tensor, loss):
        calls.append(loss)
        if len(calls) == n_calls:
            raise KeyboardInterrupt

    return callback
