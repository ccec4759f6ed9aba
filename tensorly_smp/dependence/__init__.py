"""Dependence within components: posteriors come in; tests for it, and linear maps that remove it, go out."""
