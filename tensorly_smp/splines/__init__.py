"""Penalized log-splines: values or bins of one variable become its smooth density in every component."""
