"""Count vectors by the tilt alone: the saddle-point approximation of likelihood and posterior, for any size.

With θ the tilt and D(θ) its dual (see `tilting`), log Z = D(θ) + log P_θ(N = n) exactly, where P_θ is the law of the
counts of independent labels with the tilted probabilities; its mean is n. Two parts are neglected:

- q_j(k) ∝ p_j(k) e^{θ_k}, the derivative of D, leaves out that of log P_θ; see `corrected_posterior`.
- log P_θ(N = n) is taken from the Gaussian law of the same covariance matrix Σ, calibrated on labels all alike:

      log P_θ(n) ≈ min(0, log M(n) + ½ log det Σ_M - ½ log det Σ),   M = Multinomial(L, n / L), Σ_M its covariance.

  With Stirling's formula in place of M this is the textbook -½ log det(2πΣ). Calibrated, it is exact where all
  instances predict the same and where they are certain, and always within log M(n) <= log P_θ(n) <= 0, like the true
  value (van der Waerden's bound for permanents); so the error of log Z never exceeds -log M(n).

Both errors are of the order of 1 over the variances of the counts: they fall in proportion as groups grow. The error of
the corrected posterior falls as their square.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from glws.inference._joint.groups import ENGINES, Estimate, Groups
from glws.inference._joint.tilting import Point, covariance, tilted

RIDGE = 1e-3
"""Added to the variances before inversion: almost certain labels need no correction."""

CAUTION = 1.2
"""Calibrated on random groups, soft, sharp and mixed: `benchmarks.joint_counts --coverage`."""

LEAST_ERROR = 1e-9
"""The remaining error of the search for a tilt."""


def tilted_posterior(groups: Groups, point: Point) -> Estimate:
    """log Z and q_j(k), approximately, of groups whose counts sum to their lengths; Σ_j q_j(k) = n_k holds exactly.

    -inf and 0 where hard zeros leave no labeling with these counts. The error is estimated from the correction, which
    is the leading term of it, and the error of that.
    """
    corrected = corrected_posterior(groups, point)
    change = (corrected.marginals - point.marginals).abs().flatten(1).amax(1)
    return _answer(groups, point, point.marginals, change + corrected.error, "tilt")


def corrected_posterior(groups: Groups, point: Point) -> Estimate:
    """The same log Z, and posteriors that account for the remaining instances.

    If instance j has class k, the others must have the counts n - e_k. Their mean is n - r_j, with r_j the tilted
    probabilities of j, and their law about Gaussian with covariance Σ, so

        q_j(k) ∝ r_j(k) exp(-½ (e_k - r_j)ᵀ Σ^-1 (e_k - r_j)) ∝ r_j(k) exp((Σ^-1 r_j)_k - ½ (Σ^-1)_kk)

    whose last term, the same for all instances, goes into a second tilt, which makes the expected counts fit again.

    This is the second term of an expansion in the leverage of an instance, h = max_jk r_j(k) (e_k - r_j)ᵀ Σ^-1 (e_k -
    r_j). The next one is about h times the correction δ = max_jk |q_j(k) - r_j(k)|, so the error is taken to be
    CAUTION δ min(1, 4 h).
    """
    is_used = (groups.counts > 0).double()
    pinned = covariance(point.marginals) + is_used[:, :, None] * is_used[:, None]  # a common shift changes nothing
    inverse = torch.linalg.inv(pinned + torch.diag_embed(RIDGE + 1.0 - is_used))
    pulls = point.marginals @ inverse
    second = tilted(groups._replace(potentials=groups.potentials + point.theta[:, None] + pulls))
    change = (second.marginals - point.marginals).abs().flatten(1).amax(1)
    ratio = (4.0 * _leverage(point.marginals, pulls, inverse)).clamp_max(1.0)
    return _answer(groups, point, second.marginals, CAUTION * change * ratio + second.error, "corrected tilt")


def _leverage(
    marginals: Float[Tensor, "groups instances columns"],
    pulls: Float[Tensor, "groups instances columns"],
    inverse: Float[Tensor, "groups columns columns"],
) -> Float[Tensor, "groups"]:
    """max_jk r_j(k) (e_k - r_j)ᵀ Σ^-1 (e_k - r_j), with pulls = Σ^-1 r_j."""
    own = (marginals * pulls).sum(2, keepdim=True)
    distances = inverse.diagonal(dim1=1, dim2=2)[:, None] - 2.0 * pulls + own
    return (marginals * distances).flatten(1).amax(1)


def _answer(
    groups: Groups,
    point: Point,
    marginals: Float[Tensor, "groups instances columns"],
    error: Float[Tensor, "groups"],
    engine: str,
) -> Estimate:
    impossible = is_impossible(groups, point)
    log_likelihood = torch.where(impossible, -torch.inf, point.dual + log_mass(point.marginals, groups.counts))
    error = torch.where(impossible, 0.0, error.clamp(LEAST_ERROR, 1.0))
    engines = torch.full_like(groups.lengths, ENGINES.index(engine))
    return Estimate(log_likelihood, torch.where(impossible[:, None, None], 0.0, marginals), error, engines)


def is_impossible(groups: Groups, point: Point) -> Bool[Tensor, "groups"]:
    """Whether no labeling exists: then the search ends with 1 or more misplaced labels."""
    is_zero = (groups.potentials == -torch.inf) & (groups.counts > 0)[:, None] & groups.is_real[:, :, None]
    return is_zero.flatten(1).any(1) & (point.error > 0.5)


def log_mass(
    marginals: Float[Tensor, "groups instances columns"], counts: Num[Tensor, "groups columns"]
) -> Float[Tensor, "groups"]:
    """log P(N = n) for independent labels with these probabilities, whose expected counts are n; see above.

    >>> fair = torch.full((1, 4, 2), 0.5, dtype=torch.float64)
    >>> log_mass(fair, torch.tensor([[2, 2]])).exp()
    tensor([0.3750], dtype=torch.float64)
    """
    is_used, size = counts > 0, counts.sum(1, keepdim=True).double()
    expected = torch.where(is_used, counts, 1.0).double()
    log_alike = torch.lgamma(size + 1)[:, 0] - torch.lgamma(expected + 1).sum(1)
    log_alike = log_alike + (counts * (expected / size.clamp_min(1.0)).log()).sum(1)
    log_det_alike = expected.log().sum(1) - size.clamp_min(1.0).log()[:, 0]
    return (log_alike + 0.5 * (log_det_alike - log_det(covariance(marginals), is_used))).clamp_max(0.0)


def log_det(
    matrices: Float[Tensor, "groups columns columns"], is_used: Bool[Tensor, "groups columns"]
) -> Float[Tensor, "groups"]:
    """log det of the used columns without one, whichever it is; -inf if singular."""
    unused = torch.diag_embed((~is_used).double())
    factor, failed = torch.linalg.cholesky_ex((matrices + unused)[:, 1:, 1:])
    diagonal = factor.diagonal(dim1=1, dim2=2)
    return torch.where(failed == 0, 2.0 * diagonal.log().sum(1), -torch.inf)
