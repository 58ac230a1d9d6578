"""Weak labels from confidences of a model: of pairs, and of positives."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.data._groups import Groups
from glws.data.weaken._pools import Replacement, binary_pools, checked_number, checked_prior, down, draw, shuffled
from glws.data.weaken._record import Weakened
from glws.errors import DataError
from glws.kinds import (
    ConfidenceDifference,
    Convention,
    Numbers,
    PositiveConfidence,
    Reading,
    SimilarityConfidence,
    SimilarityReading,
    shifted_prior,
)
from glws.kinds._arrays import same_length, shares


def similarity_confidence(
    labels: Numbers,
    confidence: Numbers,
    num_pairs: int,
    prior: float,
    *,
    generator: torch.Generator,
    confidence_prior: float | None = None,
    reading: SimilarityReading = "evidence",
    replacement: Replacement = "auto",
    tolerance: float = 0.1,
) -> Weakened:
    """Pairs of independent instances, and the confidence s = r r' + (1-r)(1-r') that their labels are the same.

    `confidence` are probabilities of being positive, for all instances. Pairs, the shift to `prior`, and `tolerance`
    are those of `confidence_difference`. s is clipped to [1e-4, 1 - 1e-4]. The classes are not identifiable.

    >>> confidence = [0.1, 0.9] * 20
    >>> draw = dict(confidence_prior=0.5, generator=torch.Generator().manual_seed(0))
    >>> record = similarity_confidence([0, 1] * 20, confidence, 10, 0.5, **draw)
    >>> sorted({round(value, 2) for value in record.weak.confidence.tolist()})
    [0.18, 0.82]
    """
    pairs, scores, statistics = _scored_pairs(
        labels, confidence, num_pairs, prior, confidence_prior, replacement, tolerance, generator
    )
    first, second = scores[pairs].unbind(1)
    similar = first * second + (1 - first) * (1 - second)
    statistics |= {"mean_similarity": float(similar.mean()), "expected_similarity": prior**2 + (1 - prior) ** 2}
    return Weakened(Groups.of(pairs), SimilarityConfidence.of(similar, reading=reading), statistics)


def confidence_difference(
    labels: Numbers,
    confidence: Numbers,
    num_pairs: int,
    prior: float,
    *,
    generator: torch.Generator,
    confidence_prior: float | None = None,
    convention: Convention = "signed",
    replacement: Replacement = "auto",
    tolerance: float = 0.1,
) -> Weakened:
    """Pairs of independent instances, and the signed confidence difference c = r' - r, not clipped.

    ⌊2nπ⌋ positives and as many negatives as are missing to 2n are shuffled and paired. `confidence` are probabilities
    of being positive for all instances, from a model whose training data had the prior `confidence_prior` (default: the
    mean of the confidences, which is correct for a calibrated model). The weak label needs the probability under the
    prior of the pairs, so they are shifted: r ∝ r₀ π/π₀. Pass `confidence_prior=prior` to leave them unchanged, as
    published code does, which is biased if the two priors differ. If the mean confidence of the drawn instances still
    misses the prior by more than `tolerance`, the confidences are not probabilities: an error.

    `convention="code"` keeps the same numbers but interprets them as the released code does.

    >>> draw = dict(confidence_prior=0.5, generator=torch.Generator().manual_seed(0))
    >>> record = confidence_difference([0, 1] * 20, [0.1, 0.9] * 20, 10, 0.5, **draw)
    >>> sorted({round(value, 2) for value in record.weak.difference.tolist()})
    [-0.8, 0.0, 0.8]
    """
    pairs, scores, statistics = _scored_pairs(
        labels, confidence, num_pairs, prior, confidence_prior, replacement, tolerance, generator
    )
    difference = scores[pairs[:, 1]] - scores[pairs[:, 0]]
    statistics |= {"mean_difference": float(difference.mean())}
    return Weakened(Groups.of(pairs), ConfidenceDifference.of(difference, convention), statistics)


def positive_confidence(
    labels: Numbers,
    confidence: Numbers,
    num_instances: int,
    *,
    generator: torch.Generator,
    positives_only: bool = True,
    reading: Reading = "evidence",
    replacement: Replacement = "auto",
) -> Weakened:
    """Positives with their confidence, or a balanced sample with confidences.

    `positives_only=True` is the original setting: only positives are drawn. Their confidences alone raise every
    prediction, so the loss must correct for the missing negatives (the Pconf risk does, by the weights 1 / r).
    `positives_only=False` is what the released code draws: half positives, half negatives (one positive less for an
    odd number), each with its confidence; that is soft labels for a balanced sample.

    >>> draw = dict(positives_only=False, generator=torch.Generator().manual_seed(0))
    >>> record = positive_confidence([0, 0, 1, 1], [0.2, 0.2, 0.7, 0.7], 4, **draw)
    >>> sorted(record.weak.confidence.tolist())
    [0.2, 0.2, 0.7, 0.7]
    """
    true, pools = binary_pools(labels)
    scores = _checked_scores(confidence, true)
    num_positives = num_instances if positives_only else num_instances // 2
    checked_number(num_instances, "num_instances")
    positives = draw(pools.positives, num_positives, replacement, generator)
    negatives = draw(pools.negatives, num_instances - num_positives, replacement, generator)
    chosen = shuffled(torch.cat([positives, negatives]), generator)
    statistics = {
        "positives": float(true[chosen].sum()),
        "negatives": float((1 - true[chosen]).sum()),
        "mean_confidence": float(scores[chosen].mean()),
        "agreement": float(((scores[chosen] > 0.5) == (true[chosen] == 1)).double().mean()),
    }
    return Weakened(Groups.of(chosen[:, None]), PositiveConfidence.of(scores[chosen], reading), statistics)


def at_prior(confidence: Numbers, prior: float, confidence_prior: float | None = None) -> Float[Tensor, "instances"]:
    """Confidences r₀ under one prior π₀ (default: their mean), converted to another prior:

        r = (π/π₀) r₀ / [(π/π₀) r₀ + ((1-π)/(1-π₀)) (1-r₀)]

    >>> at_prior([0.9, 0.5, 0.1], prior=0.6, confidence_prior=0.4)
    tensor([0.9529, 0.6923, 0.2000], dtype=torch.float64)
    """
    scores = shares(confidence, "confidence")
    old = float(scores.mean()) if confidence_prior is None else confidence_prior
    if not (0 < prior < 1 and 0 < old < 1):
        raise DataError(f"a prior of confidences must lie between 0 and 1, found {prior:g} and {old:g}")
    both = torch.stack([1 - scores, scores], 1)
    return shifted_prior(both, [1 - old, old], [1 - prior, prior])[:, 1]


def _scored_pairs(
    labels: Numbers,
    confidence: Numbers,
    num_pairs: int,
    prior: float,
    confidence_prior: float | None,
    replacement: Replacement,
    tolerance: float,
    generator: torch.Generator,
) -> tuple[Int[Tensor, "pairs 2"], Float[Tensor, "instances"], dict[str, float]]:
    """Independent pairs, the confidence of every instance under their prior, and statistics of the draw."""
    true, pools = binary_pools(labels)
    scores = at_prior(_checked_scores(confidence, true), prior, confidence_prior)
    num_positives = down(2 * checked_number(num_pairs, "num_pairs") * checked_prior(prior))
    positives = draw(pools.positives, num_positives, replacement, generator)
    negatives = draw(pools.negatives, 2 * num_pairs - num_positives, replacement, generator)
    pairs = shuffled(torch.cat([positives, negatives]), generator).view(2, num_pairs).T
    mean = float(scores[pairs].mean())
    if abs(mean - prior) > tolerance:
        message = f"the mean confidence of the drawn instances is {mean:.3f}, but their share of positives is {prior}"
        raise DataError(f"{message}; give the confidence_prior of the model, or a larger tolerance")
    assert int(true[pairs].sum()) == num_positives
    statistics = {"pairs": float(num_pairs), "positives": float(num_positives), "mean_confidence": mean}
    return pairs, scores, statistics


def _checked_scores(confidence: Numbers, true: Int[Tensor, "instances"]) -> Float[Tensor, "instances"]:
    scores = shares(confidence, "confidence")
    same_length("labels and confidence", true, scores)
    return scores
