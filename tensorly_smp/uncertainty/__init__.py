"""A fitted model and its samples, in memory, go in; bootstrap replicates of weights, means and densities come out."""
