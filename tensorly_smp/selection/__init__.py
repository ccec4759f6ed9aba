"""Samples and candidate models -> a table of figures that says which to take: the number of components, the model."""
