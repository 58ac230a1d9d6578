"""Libraries for the Poisson binomial distribution: likelihoods of counts, without posteriors."""

from __future__ import annotations

import numpy as np

from benchmarks.engines.contest import Answer, Call
from benchmarks.engines.tasks.inputs import CountInputs


def fast_poibin(inputs: CountInputs) -> Call:
    """fast-poibin: the distribution of each bag by dynamic programming and fast Fourier transforms."""
    from fast_poibin import PoiBin  # type: ignore[import-not-found,import-untyped,unused-ignore]

    bags = inputs.log_one.exp().numpy()

    def call() -> Answer:
        with np.errstate(divide="ignore"):
            return Answer(np.log([PoiBin(bag).pmf[inputs.count] for bag in bags]))

    return call


def scipy_poisson_binomial(inputs: CountInputs) -> Call:
    """scipy.stats.poisson_binom (scipy 1.15 or later)."""
    from scipy.stats import poisson_binom

    bags = inputs.log_one.exp().numpy()

    def call() -> Answer:
        with np.errstate(all="ignore"):
            return Answer(np.log([float(poisson_binom.pmf(inputs.count, bag)) for bag in bags]))

    return call
