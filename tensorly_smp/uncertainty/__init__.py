"""A fitted model and its samples go in; replicates of its weights, means and densities, by the bootstrap, come out."""
