"""What was learned from, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from glws.data.dataset import WeakDataset
from glws.supervision import AbstractSupervision, ClassCounts, Constraints, Labels

NOUNS = {
    "Labels": "label",
    "PartialLabels": "candidate set",
    "NoisyCandidates": "candidate set",
    "SoftLabels": "soft label",
    "PositiveConfidence": "confidence",
    "NoisyLabels": "noisy label",
    "MultiInstance": "bag",
    "PresentClasses": "bag",
    "Proportions": "bag",
    "ClassCounts": "bag",
    "NoisyProportions": "bag",
    "Unlabeled": "unlabeled group",
    "UnlabeledClasses": "unlabeled group",
    "PairComparison": "pair",
    "PairSimilarity": "pair",
    "SimilarityConfidence": "pair",
    "ConfidenceDifference": "pair",
    "Triplets": "triplet",
    "Constraints": "constraint",
}


def learned_from(data: WeakDataset) -> str:
    """How much of each kind there is, and how many labels were seen.

    >>> import torch
    >>> from glws.supervision import Proportions
    >>> learned_from(WeakDataset(torch.zeros(4, 1), [[0, 1], [2, 3]], Proportions.of([1, 0])))
    '2 bags, no single label seen'
    """
    parts = [counted(len(weak), NOUNS.get(type(weak).__name__, "group")) for weak in data.weak if not _is_labels(weak)]
    labels = sum(int((weak.labels >= 0).sum()) for weak in data.weak if isinstance(weak, Labels))
    return ", ".join([*parts, counted(labels, "label") if labels else "no single label seen"])


def _is_labels(weak: AbstractSupervision) -> bool:
    return isinstance(weak, Labels)


def counted(number: int, noun: str) -> str:
    """A number and what it counts.

    >>> counted(1, "bag"), counted(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def described(weak: AbstractSupervision, group: int, classes: Sequence[str]) -> str:
    """What is known of a group, with classes by their names.

    >>> from glws.supervision import Proportions
    >>> described(Proportions.of([2]), 0, ["benign", "malignant"])
    'exactly 2 of class malignant'
    >>> described(ClassCounts.of([[2, 0, 1]]), 0, ["cat", "dog", "bird"])
    'exactly 2 × cat, 1 × bird'
    """
    if isinstance(weak, ClassCounts):
        pairs = zip(weak.counts[group].tolist(), classes, strict=True)
        return "exactly " + (", ".join(f"{count} × {name}" for count, name in pairs if count) or "nothing")
    text = weak.describe(group)
    return text if isinstance(weak, Constraints) else named(text, classes)


def named(text: str, classes: Sequence[str]) -> str:
    """A text of ours that speaks of classes by number, with their names instead.

    >>> named("at least one of classes {0, 2}", ["cat", "dog", "bird"])
    'at least one of classes {cat, bird}'
    """

    def by_name(found: re.Match[str]) -> str:
        number = int(found[0])
        return classes[number] if number < len(classes) else found[0]

    return re.sub(
        r"\b(?:class|label|observed as) \d+\b|\{[\d, ]+\}", lambda found: re.sub(r"\d+", by_name, found[0]), text
    )
