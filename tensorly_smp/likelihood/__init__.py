"""The coupled factors as a start for the likelihood of the samples."""
