"""Arrays, frames and Datasets become numbers, names, weights and missing entries; labels go back onto results."""
