"""Samples -> a fitted model, an estimator of scikit-learn's kind: of the variables themselves, or of sources."""
