"""Photometric operations on levels, with a parameter for each image; each has a neutral parameter.

They follow Pillow's `ImageOps` and `ImageEnhance`, for which RandAugment was written, up to rounding: to the nearest
level here, once per operation. Operations on single values are tables of 256 entries for each image
and channel: any number of them is one lookup.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glws.data.augment._levels import BRIGHTEST, Images, PerImage, constant, numbers, per_image, rounded

Tables = Float[Tensor, "batch channels levels"]
PerChannel = Float[Tensor, "batch channels"]
GRAY = (0.299, 0.587, 0.114)
"""The weights of red, green and blue in brightness (ITU-R BT.601)."""


def identity_tables(images: Images) -> Float[Tensor, "1 1 levels"]:
    """The table that leaves every level unchanged."""
    return constant(tuple(map(float, range(BRIGHTEST + 1))), images.device)[None, None]


def looked_up(images: Images, tables: Tables) -> Images:
    """Each pixel replaced by the entry of its image's and channel's table."""
    return tables.expand(*images.shape[:2], -1).gather(2, images.flatten(2).long()).view_as(images)


def brightness(tables: Tables, factor: PerImage) -> Tables:
    """Scale the levels: factor 0 is black, 1 neutral."""
    return rounded(tables * factor[:, None, None])


def contrast(tables: Tables, factor: PerImage, middle: PerImage) -> Tables:
    """Scale the distance from the mean gray: factor 0 is the mean gray everywhere, 1 neutral."""
    return rounded(torch.lerp(middle[:, None, None], tables, factor[:, None, None]))


def posterize(tables: Tables, bits: PerImage) -> Tables:
    """Keep the leading bits of a level, their number rounded; 8 is neutral."""
    step = torch.exp2(8 - bits.round())[:, None, None]
    return (tables / step).floor() * step


def solarize(tables: Tables, threshold: PerImage) -> Tables:
    """Invert the levels from the threshold on; 256 is neutral."""
    return torch.where(tables < threshold[:, None, None], tables, BRIGHTEST - tables)


def autocontrast(tables: Tables, chosen: Bool[Tensor, "batch"], darkest: PerChannel, brightest: PerChannel) -> Tables:
    """Scale each channel of the chosen images to 0..255, rounding down; a channel of one level stays."""
    width = (brightest - darkest)[:, :, None]
    stretched = ((tables - darkest[:, :, None]) * BRIGHTEST).div(width, rounding_mode="floor").clamp(0, BRIGHTEST)
    return torch.where(chosen[:, None, None] & (width > 0), stretched, tables)


def equalized(histogram: Int[Tensor, "batch channels levels"], brightest: PerChannel) -> Tables:
    """Tables that make the levels of each channel equally frequent, or the identity.

    The table counts the pixels below a level in steps of (pixels not of the brightest level) / 255.
    """
    below = histogram.cumsum(2) - histogram
    step = below.gather(2, brightest.long()[:, :, None]) // BRIGHTEST
    table = (below + step // 2) // step.clamp(min=1)
    return torch.where(step > 0, table.clamp(max=BRIGHTEST), numbers(BRIGHTEST + 1, histogram.device)).float()


def histograms(images: Images) -> Int[Tensor, "batch channels levels"]:
    """The number of pixels of each level in each channel, as integers, independent of the order."""
    batch, channels = images.shape[:2]
    counts = torch.zeros(batch * channels * (BRIGHTEST + 1), dtype=torch.int64, device=images.device)
    first = numbers(batch * channels, images.device)[:, None] * (BRIGHTEST + 1)
    places = (images.flatten(2).flatten(0, 1).long() + first).flatten()
    counts.scatter_add_(0, places, numbers(2, images.device)[1].expand_as(places))
    return counts.view(batch, channels, BRIGHTEST + 1)


def gray(values: Float[Tensor, "batch channels *rest"]) -> Float[Tensor, "batch 1 *rest"]:
    """The brightness of three channels; of another number of channels, their mean."""
    if values.shape[1] != len(GRAY):
        return values.mean(1, keepdim=True)
    weights = constant(GRAY, values.device).view(1, 3, *[1] * (values.ndim - 2))
    return (values * weights).sum(1, keepdim=True)


def mean_gray(histogram: Int[Tensor, "batch channels levels"], tables: Tables, pixels: int) -> PerImage:
    """The mean brightness of images with these levels after the lookup, rounded to a level."""
    return gray((histogram * tables).sum(2) / pixels)[:, 0].round()


def saturation(images: Images, factor: PerImage) -> Images:
    """Blend with gray: factor 0 is gray, 1 neutral. An image of one channel stays."""
    return rounded(torch.lerp(gray(images), images, per_image(factor)))


def sharpness(images: Images, factor: PerImage) -> Images:
    """Blend with a smoothed image: factor 0 is smoothed, 1 neutral, above 1 sharper. Borders stay.

    The weights of the smoothing are 1 1 1, 1 5 1, 1 1 1 over 13.
    """
    if min(images.shape[2:]) < 3:
        return images
    inner = images[:, :, 1:-1, 1:-1]
    detail = functional.pad(inner - functional.avg_pool2d(images, 3, stride=1), (1, 1, 1, 1))
    return rounded(torch.addcmul(images, detail, per_image(factor - 1), value=9 / 13))
