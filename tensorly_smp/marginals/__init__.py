"""Bin indices to histograms of variable triples."""
