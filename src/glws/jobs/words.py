"""What was learned from, in one line."""

from __future__ import annotations

from glws.data.dataset import WeakDataset
from glws.supervision import Labels

NOUNS = {
    "Labels": "labels",
    "PartialLabels": "candidate sets",
    "NoisyCandidates": "candidate sets",
    "SoftLabels": "soft labels",
    "PositiveConfidence": "confidences",
    "NoisyLabels": "noisy labels",
    "MultiInstance": "bags",
    "PresentClasses": "bags",
    "Proportions": "bags",
    "ClassCounts": "bags",
    "NoisyProportions": "bags",
    "Unlabeled": "unlabeled groups",
    "UnlabeledClasses": "unlabeled groups",
    "Triplets": "triplets",
    "Constraints": "constraints",
}


def learned_from(data: WeakDataset) -> str:
    """How much of each kind there is, and how many labels were seen.

    >>> import torch
    >>> from glws.supervision import Proportions
    >>> learned_from(WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], Proportions.of([1, 0])))
    '2 bags, no single label seen'
    """
    parts = [
        f"{len(weak):,} {NOUNS.get(type(weak).__name__, 'pairs')}" for weak in data.weak if not isinstance(weak, Labels)
    ]
    labels = sum(int((weak.labels >= 0).sum()) for weak in data.weak if isinstance(weak, Labels))
    seen = f"{labels:,} labels" if labels else "no single label seen"
    return ", ".join([*parts, seen])
