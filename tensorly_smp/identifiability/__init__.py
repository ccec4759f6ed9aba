"""Sizes or a model, and the distributions that are known, go in; a report on uniqueness comes out."""
