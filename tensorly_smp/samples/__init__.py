"""What a user hands in becomes numbers, names, weights and missing entries; labels go back onto results."""
