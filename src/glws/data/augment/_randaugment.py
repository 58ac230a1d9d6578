"""`RandAugment`: a few random operations on each image (Cubuk, Zoph, Shlens, Le, 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from glws._messages import hint
from glws.data.augment import _photometric as photometric
from glws.data.augment._geometry import Movement, moved
from glws.data.augment._levels import Images, PerImage, check_images, constant, from_levels, to_levels
from glws.errors import DataError

MAX_MAGNITUDE = 10


class Operation(NamedTuple):
    """An operation whose parameter ranges from `neutral`, without effect, to `neutral + extent`, or to both sides."""

    neutral: float = 0.0
    extent: float = 0.0
    both_sides: bool = False


OPERATIONS: dict[str, Operation] = {
    "identity": Operation(),
    "autocontrast": Operation(),
    "equalize": Operation(),
    "brightness": Operation(1, 0.9, both_sides=True),
    "contrast": Operation(1, 0.9, both_sides=True),
    "posterize": Operation(8, -4),
    "solarize": Operation(256, -256),
    "saturation": Operation(1, 0.9, both_sides=True),
    "sharpness": Operation(1, 0.9, both_sides=True),
    "rotate": Operation(0, 30, both_sides=True),
    "shear_x": Operation(0, 0.3, both_sides=True),
    "shear_y": Operation(0, 0.3, both_sides=True),
    "translate_x": Operation(0, 0.3, both_sides=True),
    "translate_y": Operation(0, 0.3, both_sides=True),
}
"""The operations, and their extent at magnitude 10: factors, bits, threshold, degrees, shares of a side."""

MOVEMENTS = {
    "rotate": "degrees",
    "shear_x": "shear_x",
    "shear_y": "shear_y",
    "translate_x": "right",
    "translate_y": "down",
}
"""The geometric operations, and their names as parts of one `Movement`."""
Chosen = Mapping[str, Bool[Tensor, "batch"]]
Parameters = Mapping[str, PerImage]


@dataclass(frozen=True)
class RandAugment:
    """`num_ops` distinct operations on each image, sampled from `operations` independently.

    `magnitude` is 0..10 as in the paper; with `varied` an operation uses a random share of its magnitude, uniformly
    (as in FixMatch, Sohn et al., 2020). Movements are bilinear, with the level `fill` outside the image.

    Unlike in the paper, the operations of an image are distinct, and are applied in the order of `OPERATIONS`; the
    movements among them are combined. An operation that is not chosen has its neutral parameter, so the whole batch
    goes through all of them together: one table lookup, two blends and one warp.

    >>> images = torch.full((2, 3, 8, 8), 200, dtype=torch.uint8)
    >>> RandAugment()(images, torch.Generator().manual_seed(0)).dtype
    torch.uint8
    """

    num_ops: int = 2
    magnitude: float = 10.0
    varied: bool = True
    operations: tuple[str, ...] = tuple(OPERATIONS)
    fill: int = 127

    def __post_init__(self) -> None:
        if not 0 <= self.magnitude <= MAX_MAGNITUDE:
            raise DataError(f"the magnitude of RandAugment must be within 0..{MAX_MAGNITUDE}, found {self.magnitude}")
        for name in self.operations:
            if name not in OPERATIONS:
                raise DataError(f"no operation is called {name!r}; {hint(name, OPERATIONS)}")
        if not 0 <= self.num_ops <= len(set(self.operations)):
            raise DataError(f"cannot choose {self.num_ops} distinct operations among {len(set(self.operations))}")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The augmented images, in their original type and range."""
        check_images("RandAugment", images, generator)
        is_chosen, parameters = self.sample(images, generator)
        return from_levels(applied(to_levels(images), is_chosen, parameters, self.fill), images)

    def sample(self, images: Tensor, generator: torch.Generator) -> tuple[Chosen, Parameters]:
        """For each operation, the mask of images that it is chosen for, and its parameter for each image."""
        names, device = [name for name in OPERATIONS if name in self.operations], images.device
        lots, strength, side = torch.rand((3, len(images), len(names)), generator=generator, device=device)
        places = lots.argsort(dim=1, stable=True)[:, : self.num_ops]
        is_chosen = torch.zeros_like(lots, dtype=torch.bool).scatter_(1, places, True)
        chosen = [OPERATIONS[name] for name in names]
        neutral = constant(tuple(float(operation.neutral) for operation in chosen), device)
        up, down = (_extents(chosen, sign, self.magnitude, device) for sign in (1, -1))
        change = torch.where(side < 0.5, up, down)
        change = change * strength if self.varied else change
        values = torch.addcmul(neutral, is_chosen, change)
        named = [dict(zip(names, columns.unbind(1), strict=True)) for columns in (is_chosen, values)]
        return named[0], named[1]


def _extents(
    chosen: Sequence[Operation], sign: int, magnitude: float, device: torch.device
) -> Float[Tensor, "operations"]:
    """The extent of each operation, with a random sign if it has both."""
    share = magnitude / MAX_MAGNITUDE
    return constant(tuple(share * extent * (sign if both_sides else 1) for _, extent, both_sides in chosen), device)


def applied(images: Images, is_chosen: Chosen, parameters: Parameters, fill: float) -> Images:
    """All named operations, in the order of `OPERATIONS`, each with a parameter for each image."""
    images = photometric.looked_up(images, combined_tables(images, is_chosen, parameters))
    if "saturation" in parameters:
        images = photometric.saturation(images, parameters["saturation"])
    if "sharpness" in parameters:
        images = photometric.sharpness(images, parameters["sharpness"])
    if not any(name in parameters for name in MOVEMENTS):
        return images
    movement = Movement(**{MOVEMENTS[name]: value for name, value in parameters.items() if name in MOVEMENTS})
    return moved(images, movement.looking_back(images), fill).round()


def combined_tables(images: Images, is_chosen: Chosen, parameters: Parameters) -> photometric.Tables:
    """One table for each image and channel: all operations on single values."""
    histogram = photometric.histograms(images) if {"equalize", "contrast"} & parameters.keys() else None
    tables = _spread_tables(images, histogram, is_chosen)
    if "brightness" in parameters:
        tables = photometric.brightness(tables, parameters["brightness"])
    if "contrast" in parameters:
        assert histogram is not None
        middle = photometric.mean_gray(histogram, tables, images.shape[2:].numel())
        tables = photometric.contrast(tables, parameters["contrast"], middle)
    if "posterize" in parameters:
        tables = photometric.posterize(tables, parameters["posterize"])
    if "solarize" in parameters:
        tables = photometric.solarize(tables, parameters["solarize"])
    return tables


def _spread_tables(
    images: Images, histogram: Int[Tensor, "batch channels levels"] | None, is_chosen: Chosen
) -> photometric.Tables:
    """The tables of autocontrast and equalize, which use the whole range of levels.

    Equalize after autocontrast is equalize: the order of the levels is the same, and so are their counts.
    """
    tables = photometric.identity_tables(images)
    if "autocontrast" not in is_chosen and "equalize" not in is_chosen:
        return tables
    darkest, brightest = images.flatten(2).aminmax(dim=2)
    if "autocontrast" in is_chosen:
        tables = photometric.autocontrast(tables, is_chosen["autocontrast"], darkest, brightest)
    if "equalize" in is_chosen:
        assert histogram is not None
        spread = photometric.equalized(histogram, brightest)
        tables = torch.where(is_chosen["equalize"][:, None, None], spread, tables)
    return tables
