"""The paper's binary problems: the positive classes of each data set and setting."""

from __future__ import annotations

from dataclasses import dataclass

from glws.data.sources._class_names import CIFAR100, CIFAR100_SUPERCLASSES
from glws.errors import DataError

AGGREGATE = ("multi_instance", "proportions")
OTHERS = (
    "pair_comparison",
    "pair_similarity",
    "similarity_confidence",
    "confidence_difference",
    "positive_confidence",
    "positive_unlabeled",
    "unlabeled_unlabeled",
    "similar_dissimilar_unlabeled",
)
ANIMALS = (
    "aquatic mammals",
    "fish",
    "large carnivores",
    "large omnivores and herbivores",
    "medium-sized mammals",
    "non-insect invertebrates",
    "reptiles",
    "small mammals",
)


@dataclass(frozen=True)
class ClassSplit:
    """Positive classes by number; `released_code` are those of the authors' code if different, `note` explains."""

    positive: tuple[int, ...]
    released_code: tuple[int, ...]
    note: str = ""


def _split(positive: tuple[int, ...], released_code: tuple[int, ...] | None = None, note: str = "") -> ClassSplit:
    return ClassSplit(positive, positive if released_code is None else released_code, note)


_CAT_NOT_BIRD = 'the paper says "bird, i.e., class 3"; class 3, which its code uses, is the cat, and bird is class '
_FOOTWEAR = 'the paper calls {5, 7, 9} "tops"; they are sandal, sneaker and ankle boot'

CLASS_SPLITS: dict[tuple[str, str], ClassSplit] = {
    **{("mnist", setting): _split((9,)) for setting in AGGREGATE},
    **{("mnist", setting): _split((0, 1, 2, 3, 4)) for setting in OTHERS},
    **{("fashion_mnist", setting): _split((9,)) for setting in AGGREGATE},
    **{("fashion_mnist", setting): _split((5, 7, 9), note=_FOOTWEAR) for setting in OTHERS},
    ("fashion_mnist", "similar_dissimilar_unlabeled"): _split(
        (5, 7, 9), (0, 1, 2, 3, 4), f"{_FOOTWEAR}; in this setting the authors' code takes {{0, 1, 2, 3, 4}} instead"
    ),
    **{("cifar10", setting): _split((3,), note=_CAT_NOT_BIRD + "2") for setting in AGGREGATE},
    **{("cifar10", setting): _split((0, 1, 8, 9)) for setting in OTHERS},
    **{("stl10", setting): _split((3,), note=_CAT_NOT_BIRD + "1") for setting in AGGREGATE},
    **{
        ("stl10", setting): _split(
            (0, 2, 8, 9),
            (0, 1, 8, 9),
            "airplane, car, ship, truck, as the paper says; its code takes CIFAR-10's numbers, and 1 is bird here",
        )
        for setting in OTHERS
    },
    **{
        ("cifar100", setting): _split(
            tuple(sorted(CIFAR100.index(name) for row in ANIMALS for name in CIFAR100_SUPERCLASSES[row])),
            note="the 8 superclasses of animals; insects and people are negative",
        )
        for setting in OTHERS
    },
}
"""What `class_split` looks up. CIFAR-100 has no binary problem of bags, ImageNet-100 none at all."""


def class_split(name: str, setting: str) -> ClassSplit:
    """The positive classes of a data set in a setting of the paper.

    >>> class_split("stl10", "positive_unlabeled").positive
    (0, 2, 8, 9)
    >>> class_split("stl10", "positive_unlabeled").released_code
    (0, 1, 8, 9)
    """
    if (name, setting) not in CLASS_SPLITS:
        settings = [other for source, other in CLASS_SPLITS if source == name]
        hint = f"; it has {', '.join(settings)}" if settings else ""
        raise DataError(f"the paper has no binary problem of {name!r} for {setting!r}{hint}")
    return CLASS_SPLITS[name, setting]
