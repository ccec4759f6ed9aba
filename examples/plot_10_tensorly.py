"""
For users of TensorLy: tensors that share factors
=================================================

No samples here, and no densities: several third-order tensors, each of three of the same variables, are decomposed
together. Factors come back as a CPTensor, of whatever backend the tensors were of, and go on to tensorly-viz.
"""

from importlib.util import find_spec
from itertools import combinations

import numpy as np
import pandas as pd
import tensorly as tl
from tlviz.factor_tools import factor_match_score
from tlviz.visualisation import component_comparison_plot

import tensorly_smp as smp

# %%
# Four tables of counts
# ---------------------
# Four variables were asked for in four surveys, three of them in each. Nobody answered everything, so that there is no
# table of all four. Behind all of them are the same three groups of people.

VARIABLES, SIZES, RANK, N_PEOPLE = (
    ["age", "income", "region", "party"],
    (8, 7, 5, 6),
    3,
    800,
)
rng = np.random.default_rng(2)
weights = np.array([0.5, 0.3, 0.2])
factors = [rng.dirichlet(np.full(size, 0.7), RANK).T for size in SIZES]
truth = tl.cp_tensor.CPTensor((weights, factors))

modes = list(combinations(range(4), 3))


def survey(triple):
    """Answers of some people to three of the questions, as a table of counts."""
    exact = tl.cp_to_tensor((weights, [factors[n] for n in triple]))
    return (
        rng.multinomial(N_PEOPLE, exact.ravel() / exact.sum())
        .reshape(exact.shape)
        .astype(float)
    )


counts = [survey(triple) for triple in modes]
for triple, table in zip(modes, counts, strict=True):
    print(
        table.shape,
        [VARIABLES[n] for n in triple],
        f"{table.mean():.1f} people per cell",
    )

# %%
# Decomposed together
# -------------------
# ``modes`` says which variables the modes of each tensor are. Columns of the factors, and the weights, are
# probabilities. Any backend of TensorLy will do; here it is PyTorch, if that is installed.

backend = "pytorch" if find_spec("torch") else "numpy"
with tl.backend_context(backend):
    tensors = [tl.tensor(table) for table in counts]
    solution = smp.coupled_simplex_parafac(
        tensors, RANK, modes=modes, loss="kl", n_init=3, random_state=0
    )
    cp_tensor = solution.to_cp_tensor()
    print(f"{backend}: {type(cp_tensor).__name__} of shape {cp_tensor.shape}")
    print("weights are a", type(cp_tensor.weights))
    arrays = solution.factors.to_numpy()
    result = solution.to_dataset()

found = arrays.to_cp_tensor()  # the same, of NumPy's arrays
print("weights:", found.weights.round(2), "true:", weights)
print("stopped because", solution.status.explanation)

# %%
# The factors as heat maps, named:

axes = smp.plotting.plot_factors(result.assign_coords(variable=VARIABLES))

# %%
# What one table says
# -------------------
# TensorLy's own decompositions are of one tensor at a time. The first table alone, of a quarter of the people, gives
# three of the four factors. The factor match score is one for equal components.

single = smp.coupled_simplex_parafac(
    counts[:1], RANK, modes=[(0, 1, 2)], loss="kl", n_init=3, random_state=0
)
alone = single.to_cp_tensor()
of_three = [
    tl.cp_tensor.CPTensor((cp.weights, cp.factors[:3])) for cp in (truth, found)
]
one_table = factor_match_score(of_three[0], alone, consider_weights=False)
four_tables = factor_match_score(*of_three, consider_weights=False)
print(f"match with the truth, one table:   {one_table:.3f}")
print(f"match with the truth, four tables: {four_tables:.3f}")

# %%
# The same as a picture of tensorly-viz, which matches the components. It takes the names of its axes from data frames.


def labelled(cp):
    """Weights, and factors as data frames."""
    frames = zip(cp.factors, VARIABLES, strict=False)
    return cp.weights, [
        pd.DataFrame(factor).rename_axis(index=f"group of {name}")
        for factor, name in frames
    ]


comparison = {"true": of_three[0], "four tables": of_three[1], "one table": alone}
figure, axes = component_comparison_plot(
    {name: labelled(cp) for name, cp in comparison.items()},
    row="component",
    weight_behaviour="ignore",
)
figure.set_size_inches(10, 6)
figure.set_layout_engine("constrained")
figure.legends[0].remove()
for panel in axes.flat:
    for line, color, style in zip(
        panel.lines, ("black", "#0072B2", "#E69F00"), ("-", "--", ":"), strict=True
    ):
        line.set(color=color, linestyle=style, linewidth=2)
legend = figure.legend(
    panel.lines, comparison, loc="outside upper center", ncols=3, frameon=False
)

# %%
# A table that nobody has
# -----------------------
# Factors predict the table of all four variables, which no survey has asked for together. ``cp_to_tensor`` will do
# here; of many variables the tensor is too large for any memory.

joint, exact = tl.cp_to_tensor(found), tl.cp_to_tensor(truth)
independent = np.einsum("a,i,r,p->airp", *(factor @ weights for factor in factors))
print(f"{joint.size} cells; share of the people that is in a wrong cell")
for name, table in {
    "the decomposition": joint,
    "variables taken for independent": independent,
}.items():
    print(f"  {name}: {np.abs(table - exact).sum() / 2:.1%}")

# %%
# What is not seen here: tables that contradict each other, since other people were asked. Then no factors fit them all,
# and the common ones are a compromise; ``solution.trace.loss[-1]`` tells how far off it is.
