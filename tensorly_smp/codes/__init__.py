"""Samples to bin indices."""
