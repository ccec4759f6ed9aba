"""Factors to continuous densities."""
