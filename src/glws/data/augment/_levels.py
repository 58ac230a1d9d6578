"""Levels: images as whole numbers 0..255 in float32, the form in which all arithmetic on pixels is done.

The operations of RandAugment are defined on bytes. Bytes are taken as they are, floats within 0..1 to the nearest of
the 256 levels; afterwards an image has the type and range it came with.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError

Images = Float[Tensor, "batch channels height width"]
PerImage = Float[Tensor, "batch"]
BRIGHTEST = 255


def to_levels(images: Tensor) -> Images:
    """Bytes, or floats within 0..1, as levels."""
    if images.dtype == torch.uint8:
        return images.float()
    return rounded(images.float() * BRIGHTEST)


def from_levels(levels: Images, like: Tensor) -> Tensor:
    """Levels as bytes, or as floats within 0..1: whatever the other images are."""
    if like.dtype == torch.uint8:
        return levels.to(torch.uint8)
    return (levels / BRIGHTEST).to(like.dtype)


def rounded(values: Tensor) -> Tensor:
    """The nearest levels."""
    return values.round().clamp(0, BRIGHTEST)


def per_image(values: PerImage) -> Float[Tensor, "batch 1 1 1"]:
    """One value for each image, to be combined with images."""
    return values[:, None, None, None]


@lru_cache(maxsize=256)
def constant(
    values: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "values"]:
    """Fixed numbers on a device, copied there once: copies would hold up the device in every step."""
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=256)
def numbers(length: int, device: torch.device) -> Int[Tensor, "length"]:
    """0, 1, ... on a device, made once; not to be written to."""
    with torch.inference_mode(False):
        return torch.arange(length, device=device)


@lru_cache(maxsize=256)
def from_the_middle(side: int, device: torch.device) -> Float[Tensor, "side"]:
    """How far each pixel of a row lies right of the middle, in pixels; made once, not to be written to."""
    with torch.inference_mode(False):
        return torch.arange(side, dtype=torch.float32, device=device) - (side - 1) / 2


@lru_cache(maxsize=256)
def reflections(side: int, device: torch.device) -> Int[Tensor, "places"]:
    """Place i of a row continued by reflection at its first and last pixel, for -side < i < 2 side - 1; made once.

    Negative places are at the end, where a negative index finds them.
    """
    places = [*range(side), *range(side - 2, -1, -1), *range(side - 1, 0, -1)]
    with torch.inference_mode(False):
        return torch.tensor(places, device=device)


def check_images(what: str, images: Tensor, generator: torch.Generator) -> None:
    """Raises `DataError` for what is no batch of images, or a generator that lives elsewhere."""
    if images.ndim != 4:
        raise DataError(f"{what} takes images [batch, channels, height, width], found shape {list(images.shape)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise DataError(f"{what} takes bytes, or floats within 0..1, found {images.dtype}")
    check_generator(what, images, generator)


def check_generator(what: str, instances: Tensor, generator: torch.Generator) -> None:
    """Raises `DataError` if random numbers would be drawn on another device than the data's."""
    if generator.device.type != instances.device.type:
        raise DataError(
            f"{what}: the generator is on {generator.device.type}, the data on {instances.device.type}; "
            f'make it with torch.Generator("{instances.device.type}")'
        )
