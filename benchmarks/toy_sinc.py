"""The toy example of the paper: sinc reconstruction of two Gaussians from exact samples of their CDF.

0.5 N(-6, 5^2) + 0.5 N(10, 5^2), first edge at -58. Prints the largest error of the density over its peak for the raw
band-limited function and for the proper density, and what it costs to stop at the paper's ten intervals on [-18, 22].
"""

import numpy as np
from scipy.stats import norm

from tensorly_smp.densities.band_limited import sinc_conditionals
from tensorly_smp.densities.sinc import sinc_pdf

LOCATIONS, SCALE, FIRST_EDGE, LAST_EDGE = (-6.0, 10.0), 5.0, -58.0, 62.0
POINTS = np.linspace(-40.0, 45.0, 4251)


def cdf(x):
    return np.mean([norm.cdf(x, location, SCALE) for location in LOCATIONS], axis=0)


def pdf(x):
    return np.mean([norm.pdf(x, location, SCALE) for location in LOCATIONS], axis=0)


def edges_of_width(width):
    return FIRST_EDGE + width * np.arange(np.ceil((LAST_EDGE - FIRST_EDGE) / width) + 1)


def bin_masses(edges):
    """Exact CDF at the edges as bin probabilities; what lies outside the edges goes to the outermost bins."""
    samples = cdf(edges)
    samples[[0, -1]] = 0.0, 1.0
    return np.diff(samples)


def relative_error(values):
    return np.abs(values - pdf(POINTS)).max() / pdf(POINTS).max()


def raw_error(edges):
    """Of the paper's formula, with its infinite tail."""
    return relative_error(sinc_pdf(POINTS, edges, bin_masses(edges)))


def proper_error(edges):
    """Of the density that is positive and integrates to one."""
    conditionals, _ = sinc_conditionals(edges, bin_masses(edges)[:, None])
    return relative_error(conditionals.pdf(POINTS)[:, 0])


def finite_error(edges):
    """Of the formula summed over these edges only, the infinite tail left out, on [-18, 22]."""
    spacing = edges[1] - edges[0]
    t = (POINTS[:, None] - edges) / spacing
    t[t == 0] = 1e-9
    slopes = (np.cos(np.pi * t) - np.sinc(t)) / t  # derivative of the sinc
    error = np.abs(slopes @ cdf(edges) / spacing - pdf(POINTS))
    return error[(edges[0] <= POINTS) & (edges[-1] >= POINTS)].max() / pdf(POINTS).max()


def main():
    print("largest error of the density over its peak\nT     raw function   proper density")
    for width in (5.0, 4.0, 3.0, 2.0):
        edges = edges_of_width(width)
        print(f"{width:<5g} {raw_error(edges):12.1e} {proper_error(edges):16.1e}")
    ten = np.arange(-18.0, 23.0, 4.0)
    print(f"ten intervals of 4 on [-18, 22], F set to 0 and 1 at the ends: {raw_error(ten):.1e} raw", end=", ")
    print(f"{proper_error(ten):.1e} proper\nthe same eleven samples of F, sum stopped there: {finite_error(ten):.1e}")


if __name__ == "__main__":
    main()
