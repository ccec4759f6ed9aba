"""Tools of every stage: checks, random streams, threads, progress, compiled kernels, the loop of all iterations."""
