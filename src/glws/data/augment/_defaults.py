"""The views of each data set: weak for the E-step, strong for the M-step, plain for evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from glws._messages import hint
from glws.data.augment._randaugment import RandAugment
from glws.data.augment._steps import Affine, Augmentation, Chain, Crop, Cutout, Folded, Noise, Normalize
from glws.errors import DataError


@dataclass(frozen=True)
class Views:
    """Three views of the same instances, with the same normalization."""

    weak: Augmentation
    strong: Augmentation
    plain: Augmentation


def _photographs(normalize: Normalize, padding: int, fill: int = 127) -> Views:
    """Crop and flip; for the strong view also RandAugment and cutout."""
    crop, strong = Crop(padding), (RandAugment(fill=fill), Cutout(fill=fill))
    return Views(Chain((crop, normalize)), Chain((crop, *strong, normalize)), normalize)


def _digits(normalize: Normalize, weak: Augmentation, strong: Augmentation) -> Views:
    """Views of digits, without flips or inverted ink, which would change the digit."""
    return Views(Chain((weak, normalize)), Chain((strong, Cutout(0.3, fill=0), normalize)), normalize)


_SMALL_DIGITS = _digits(Normalize((0.3053,), (0.3760,)), Affine(5, 0.05, 0.05, 0.05), Affine(12, 0.1, 0.1, 0.1))

_GARMENTS = Normalize((0.2860,), (0.3530,))


def _garments(*strong: Augmentation, padding: int = 2) -> Views:
    """Crop and flip; for the strong view also these steps."""
    crop = Crop(padding)
    return Views(Chain((crop, _GARMENTS)), Chain((crop, *strong, _GARMENTS)), _GARMENTS)


AUGMENTATIONS: dict[str, Views] = {
    "mnist": _digits(Normalize((0.1307,), (0.3081,)), Crop(2, flip=False), Affine(15, 0.15, 0.1, 0.15)),
    "fashion_mnist": _photographs(Normalize((0.2860,), (0.3530,)), padding=2, fill=0),
    "fashion_mnist_cutout": _garments(Cutout(0.4, fill=0)),
    "fashion_mnist_still": _garments(Cutout(0.4, fill=0), padding=0),
    "fashion_mnist_affine": _garments(Affine(8, 0.1, 0.06, 0.08), Cutout(0.3, fill=0)),
    "cifar10": _photographs(Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)), padding=4),
    "cifar100": _photographs(Normalize((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)), padding=4),
    "stl10": _photographs(Normalize((0.4467, 0.4398, 0.4066), (0.2603, 0.2566, 0.2713)), padding=12),
    "imagenet100": _photographs(Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), padding=28),
    "digits": Views(
        *(Folded(view, (1, 8, 8)) for view in (_SMALL_DIGITS.weak, _SMALL_DIGITS.strong, _SMALL_DIGITS.plain))
    ),
    "tables": Views(Normalize(), Noise(0.0), Normalize()),
}
"""The views of each data set; `tables` are assumed to be normalized, and get no noise by default. Fashion-MNIST has
others to choose from, with fewer steps after the crop, and one without it."""


def views(name: str) -> Views:
    """The views of a data set by its name.

    >>> views("cifar10").weak.steps[0]
    Crop(padding=4, flip=True)
    """
    if name not in AUGMENTATIONS:
        raise DataError(f"no augmentation is called {name!r}; {hint(name, AUGMENTATIONS)}")
    return AUGMENTATIONS[name]
