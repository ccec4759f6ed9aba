"""Histograms to the factors that they share."""
