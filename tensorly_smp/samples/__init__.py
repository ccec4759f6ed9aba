"""Samples of any container, in memory or in chunks -> numbers, weights, names; labels go back onto results."""
