"""First steps: two real data sets with known classes, one of them with missing entries.

    python examples/quickstart.py

Prints weights and clustering accuracy beside a Gaussian mixture's and k-means', fills missing entries in, and writes
output/quickstart.nc (the fitted model) and output/quickstart.png (its densities). Needs the extras "plot" and "io" and
the package palmerpenguins; the classes are used to judge the result, never to find it.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from palmerpenguins import load_penguins_raw
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import tensorly_smp as smp

OUTPUT = Path("output")


def main():
    OUTPUT.mkdir(exist_ok=True)

    print("\nBreast cancer: 569 tumors, 30 variables, benign or malignant")
    data = load_breast_cancer(as_frame=True)
    tumors, diagnosis = data.data, data.target.map(dict(enumerate(data.target_names)))
    model = fitted(tumors, 2)
    compare(model, tumors, diagnosis)

    print(
        "\nPenguins: 344 birds of three species, six measurements, some of them missing"
    )
    birds, species = penguins()
    model = fitted(birds, 3)
    compare(model, birds, species)
    show_imputed(model, birds)

    model.save(OUTPUT / "quickstart.nc")
    again = smp.load(OUTPUT / "quickstart.nc")
    assert again.predict(birds).equals(model.predict(birds))
    model.plot.conditionals(birds)[0].figure.savefig(OUTPUT / "quickstart.png", dpi=130)
    print(f"\nWritten: {OUTPUT / 'quickstart.nc'}, {OUTPUT / 'quickstart.png'}")

    print(
        "\nWhere the model does not fit: the four body measurements alone. They are dependent within a species"
    )
    print(
        "(large birds are large in all of them); the best three components split the Gentoo birds by sex instead."
    )
    body = birds.iloc[:, :4]
    compare(fitted(body, 3), body, species)


def fitted(X, n_components):
    """A fitted model; what the fit warns of is printed, the first sentence of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = smp.SmoothProductMixture(n_components, random_state=0).fit(X)
    for each in caught:
        print(f"  {each.category.__name__}: {str(each.message).partition('. ')[0]}.")
    return model


def penguins():
    """Measurements as a DataFrame with NaN where there is none, and the species."""
    raw = load_penguins_raw()
    columns = {
        "Culmen Length (mm)": "bill length (mm)",
        "Culmen Depth (mm)": "bill depth (mm)",
        "Flipper Length (mm)": "flipper length (mm)",
        "Body Mass (g)": "body mass (g)",
        "Delta 15 N (o/oo)": "delta 15 N (‰)",
        "Delta 13 C (o/oo)": "delta 13 C (‰)",
    }
    return raw[list(columns)].rename(columns=columns), raw["Species"].str.split().str[0]


def compare(model, X, classes):
    """Print weights, and the share of samples in the right cluster, beside two other ways of clustering."""
    weights = ", ".join(f"{weight:.2f}" for weight in model.weights_)
    print(f"  weights {weights}")
    complete = X.notna().all(axis=1)
    standardized = StandardScaler().fit_transform(X[complete])
    n_components = model.n_components
    gaussian = GaussianMixture(
        n_components, covariance_type="diag", n_init=5, random_state=0
    )
    labels = {
        "smooth product mixture": model.predict(X)[complete],
        "diagonal Gaussian mixture": gaussian.fit_predict(standardized),
        "k-means": KMeans(n_components, n_init=5, random_state=0).fit_predict(
            standardized
        ),
    }
    if not complete.all():
        everything = smp.metrics.clustering_accuracy(classes, model.predict(X))
        print(f"  all {len(X)} samples: smooth product mixture {everything:.3f}")
        print(
            f"  the others need complete rows and drop {(~complete).sum()}; on the {complete.sum()} left:"
        )
    for method, found in labels.items():
        print(
            f"  {method:<26} accuracy {smp.metrics.clustering_accuracy(classes[complete], found):.3f}"
        )


def show_imputed(model, birds):
    """Fill in one bird's missing entries; and, to see how good that is, the mass of every bird from the rest."""
    bird = birds[birds.isna().any(axis=1) & birds.notna().any(axis=1)].iloc[[0]]
    filled = model.impute(
        bird
    )  # a DataFrame again; method="draw" draws instead of taking the mean
    table = pd.concat([bird, filled.round(2)], keys=["measured", "imputed"]).droplevel(
        1
    )
    print(
        f"  penguin {bird.index[0]}, missing entries replaced by their mean given the others:"
    )
    print(table.T.to_string(na_rep="-"))
    mass = "body mass (g)"
    error = (model.impute(birds.assign(**{mass: np.nan})) - birds)[mass].abs().mean()
    spread = (birds - birds.mean())[mass].abs().mean()
    print(
        f"  body mass from the other five: off by {error:.0f} g on average, the overall mean by {spread:.0f} g"
    )


if __name__ == "__main__":
    main()
