"""Geometric operations, with parameters for each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from glws.data.augment._levels import Images, PerImage, constant, from_the_middle, numbers, per_image, reflections

Amount = Float[Tensor, "*batch"] | float
Backwards = Float[Tensor, "*batch 3 2"]


class Movement(NamedTuple):
    """A movement of images about their middle: first scale, then shear, rotation, and shift.

    All zeros with a scale of 1 leave an image unchanged. Numbers or tensors of one shape.
    """

    degrees: Amount = 0.0
    """Counter-clockwise."""
    scale: Amount = 1.0
    """Above 1 enlarges."""
    shear_x: Amount = 0.0
    """A row is shifted to the right by this many pixels for each pixel below the middle."""
    shear_y: Amount = 0.0
    """A column is shifted downwards by this many pixels for each pixel right of the middle."""
    right: Amount = 0.0
    """Shift to the right, as a share of the width."""
    down: Amount = 0.0
    """Shift downwards, as a share of the height."""

    def looking_back(self, images: Images) -> Backwards:
        """From a pixel of the result to its place in the image: (x, y) goes to x B[0] + y B[1] + B[2].

        x and y are pixels from the middle; places are grid_sample's, -1 and 1 at the outer edges of the image. With
        the shift d, the rotation R, the shear S and the scale s, a place is (R S s)⁻¹ ((x, y) - d).
        """
        height, width = images.shape[2:]
        degrees, scale, shear_x, shear_y, right, down = _of_one_shape(self, images.device)
        angle = torch.deg2rad(degrees)
        cosine, sine = angle.cos(), angle.sin()
        unturned = _matrix(cosine, sine, -sine, cosine)
        unsheared = torch.addcmul(
            unturned, torch.stack([shear_x, shear_y], -1)[..., None, :], unturned.flip(-1), value=-1
        )
        linear = unsheared / ((1 - shear_x * shear_y) * scale)[..., None, None]
        shift = torch.stack([right, down], -1) * constant((-width, -height), images.device)
        start = (linear * shift[..., None]).sum(-2, keepdim=True)
        return torch.cat([linear, start], -2) * constant((2 / width, 2 / height), images.device)


def _matrix(first: Tensor, second: Tensor, third: Tensor, fourth: Tensor) -> Float[Tensor, "*batch 2 2"]:
    return torch.stack([first, second, third, fourth], -1).view(*first.shape, 2, 2)


def _of_one_shape(amounts: Sequence[Amount], device: torch.device) -> list[Tensor]:
    tensors = [amount if isinstance(amount, Tensor) else torch.full((), amount, device=device) for amount in amounts]
    shape = max((amount.shape for amount in tensors), key=len)
    return [amount.expand(shape) for amount in tensors]


def moved(images: Images, places: Backwards, fill: float) -> Images:
    """Each image after its own movement, bilinear between pixels, with `fill` outside the image."""
    batch, _, height, width = images.shape
    per_x, per_y, start = places.expand(batch, 3, 2)[:, :, None, None].unbind(1)
    across, along = (
        from_the_middle(width, images.device)[:, None],
        from_the_middle(height, images.device)[:, None, None],
    )
    grid = torch.addcmul(torch.addcmul(start, per_y, along), per_x, across)
    if fill == 0:
        return functional.grid_sample(images, grid, "bilinear", "zeros", align_corners=False)
    return functional.grid_sample(images - fill, grid, "bilinear", "zeros", align_corners=False) + fill


def cropped(
    images: Tensor,
    top: Int[Tensor, "batch"],
    left: Int[Tensor, "batch"],
    flipped: Bool[Tensor, "batch"] | None,
) -> Tensor:
    """Windows of the images' own size, `top` below and `left` right of them, optionally flipped.

    Outside, the image is continued by reflection at the middle of its border pixels. Nothing is computed, only copied:
    any type of number is unchanged.
    """
    batch, channels, height, width = images.shape
    rows = reflections(height, images.device)[top[:, None] + numbers(height, images.device)]
    columns, mirror = numbers(width, images.device)[None], reflections(width, images.device)
    if flipped is not None:
        # The places from the last pixel on, reflected, are the columns from right to left.
        columns = torch.where(flipped[:, None], mirror[width - 1 : 2 * width - 1], columns)
    columns = mirror[left[:, None] + columns]
    places = (rows[:, :, None] * width + columns[:, None, :]).view(batch, 1, height * width)
    return images.flatten(2).gather(2, places.expand(-1, channels, -1)).view(images.shape)


def cut_out(images: Images, middle_y: PerImage, middle_x: PerImage, side: PerImage, fill: float) -> Images:
    """Squares replaced by `fill`, with middles in pixels from the image's; parts outside are ignored."""
    y = from_the_middle(images.shape[2], images.device)[:, None]
    x = from_the_middle(images.shape[3], images.device)
    half = per_image(side / 2)
    inside = ((y - per_image(middle_y)).abs() < half) & ((x - per_image(middle_x)).abs() < half)
    return torch.where(inside, fill, images)
