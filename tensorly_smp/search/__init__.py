"""Samples go in; the best clusterings that a split-and-merge search finds, as starts for the likelihood, come out."""
