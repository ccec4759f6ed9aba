"""Histograms, and weights and factors to start from, go in; the weights and factors that they share come out."""
