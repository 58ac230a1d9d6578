"""Exact inference for counts: "exactly m of these", "between a and b", a noisy total, a class prior."""

from glws.inference._counts._queries import count_entropy as count_entropy
from glws.inference._counts._queries import count_mode as count_mode
from glws.inference._counts._queries import count_sample as count_sample
from glws.inference._counts.posterior import ALGORITHMS as ALGORITHMS
from glws.inference._counts.posterior import CountResult as CountResult
from glws.inference._counts.posterior import count_posterior as count_posterior
from glws.inference._counts.weights import Between as Between
from glws.inference._counts.weights import Exactly as Exactly
from glws.inference._counts.weights import Sampled as Sampled
from glws.inference._counts.weights import Weighted as Weighted
from glws.inference._counts.weights import Weights as Weights
from glws.inference._counts.weights import binomial as binomial
from glws.inference._counts.weights import geometric_noise as geometric_noise
from glws.inference._counts.weights import hypergeometric as hypergeometric
from glws.inference._counts.weights import laplace_noise as laplace_noise
