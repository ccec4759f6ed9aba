"""The stages of the estimator in their order: samples become training data, bins, starts, a fitted Dataset."""
