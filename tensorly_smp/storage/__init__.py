"""The Dataset of a fitted model becomes a file, and a file the Dataset."""
