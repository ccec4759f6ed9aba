"""Factors, or log-splines of every component, go in; continuous densities come out."""
