"""Samples in chunks (Dask): larger than memory, or on several machines."""
