"""Levels: images as whole numbers 0..255 in float32, for all arithmetic on pixels.

The operations of RandAugment are defined on bytes. Bytes are unchanged, floats within 0..1 are rounded to the nearest
of the 256 levels; afterwards an image has its original type and range.
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
    """Levels as bytes, or as floats within 0..1, like the other images."""
    if like.dtype == torch.uint8:
        return levels.to(torch.uint8)
    return (levels / BRIGHTEST).to(like.dtype)


def rounded(values: Tensor) -> Tensor:
    """The nearest levels."""
    return values.round().clamp(0, BRIGHTEST)


def per_image(values: PerImage) -> Float[Tensor, "batch 1 1 1"]:
    """One value for each image, in a shape that broadcasts with images."""
    return values[:, None, None, None]


@lru_cache(maxsize=256)
def constant(
    values: tuple[float, ...], device: torch.device, dtype: torch.dtype = torch.float32
) -> Float[Tensor, "values"]:
    """Constants on a device, copied there once: copies would delay the device in every step."""
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype, device=device)


@lru_cache(maxsize=256)
def numbers(length: int, device: torch.device) -> Int[Tensor, "length"]:
    """0, 1, ... on a device, cached; do not write to it."""
    with torch.inference_mode(False):
        return torch.arange(length, device=device)


@lru_cache(maxsize=256)
def from_the_middle(side: int, device: torch.device) -> Float[Tensor, "side"]:
    """The offset of each pixel of a row from the middle; cached, do not write to it."""
    with torch.inference_mode(False):
        return torch.arange(side, dtype=torch.float32, device=device) - (side - 1) / 2


@lru_cache(maxsize=256)
def reflections(side: int, device: torch.device) -> Int[Tensor, "places"]:
    """Place i of a row continued by reflection at its first and last pixel, for -side < i < 2 side - 1; cached.

    Negative places are at the end, for negative indices.
    """
    places = [*range(side), *range(side - 2, -1, -1), *range(side - 1, 0, -1)]
    with torch.inference_mode(False):
        return torch.tensor(places, device=device)


def check_images(what: str, images: Tensor, generator: torch.Generator) -> None:
    """Raise `DataError` unless this is a batch of images with a generator on the same device."""
    if images.ndim != 4:
        raise DataError(f"{what} takes images [batch, channels, height, width], found shape {list(images.shape)}")
    if images.dtype != torch.uint8 and not images.is_floating_point():
        raise DataError(f"{what} takes bytes, or floats within 0..1, found {images.dtype}")
    check_generator(what, images, generator)


def check_generator(what: str, instances: Tensor, generator: torch.Generator) -> None:
    """Raise `DataError` if the generator is on another device than the data."""
    if generator.device.type != instances.device.type:
        raise DataError(
            f"{what}: the generator is on {generator.device.type}, the data on {instances.device.type}; "
            f'create it with torch.Generator("{instances.device.type}")'
        )
