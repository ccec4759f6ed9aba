"""Whole samples and posteriors, or factors, go in; weights and densities of higher likelihood, by EM, come out."""
