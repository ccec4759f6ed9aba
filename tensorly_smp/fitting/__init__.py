"""The stages of the estimator in their order: samples become training data, bins, starts, a fitted Dataset.

``SmoothProductMixture._fit`` goes through them:

1. `fit_samples.ReadSamples`: numbers and weights in parts (in memory there is one), a subsample if they are many;
2. `fit_samples.Variables`: bounds, and which variables are discrete;
3. `fit_samples.choose_bins`: bins, in which ``ReadSamples.encode`` puts the samples;
4. `stages.Refinement.result`: the Dataset, by way of `stages.Starts` (candidates, of a search or of the coupled
   decomposition) and, with ``refine="smooth"``, of `candidates.refine_candidates` (smoothed EM from the candidates, and
   which one wins; of many samples `stages` compares the winner and its rivals once more, fitted to all of them); rivals
   of the winner are those of ``likelihood.comparison.find_rivals``;
5. `results`: what else is recorded in the Dataset.

From the Dataset alone, ``FittedMixture._set_fitted`` makes ``density_``.
"""
