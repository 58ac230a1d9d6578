"""The steps of an augmentation: frozen values, called with a batch and a generator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from glws.data.augment._geometry import Movement, cropped, cut_out, moved
from glws.data.augment._levels import BRIGHTEST, check_generator, check_images, constant, from_levels, to_levels
from glws.errors import DataError


class Augmentation(Protocol):
    """A random change of a batch; the generator is the only source of randomness."""

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The same number of instances, of the same shape."""


@dataclass(frozen=True)
class Chain:
    """Several steps in sequence.

    >>> weak = Chain((Crop(4), Normalize((0.5,), (0.25,))))
    >>> weak(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), torch.Generator()).unique().tolist()
    [-2.0]
    """

    steps: tuple[Augmentation, ...]

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The output of the last step."""
        for step in self.steps:
            images = step(images, generator)
        return images


@dataclass(frozen=True)
class Crop:
    """A window of the image's own size, up to `padding` pixels off in each direction, optionally flipped.

    With `flip` it is mirrored half of the time. Beyond the border the image is continued by reflection. Numbers of any
    type and range are unchanged.
    """

    padding: int = 4
    flip: bool = True

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The windows."""
        check_images("a crop", images, generator)
        if not 0 <= self.padding < min(images.shape[2:]):
            raise DataError(f"a padding of {self.padding} does not fit images of shape {list(images.shape[1:])}")
        number, device = len(images), images.device
        offsets = torch.randint(-self.padding, self.padding + 1, (2, number), generator=generator, device=device)
        flipped = torch.rand(number, generator=generator, device=device) < 0.5 if self.flip else None
        return cropped(images, offsets[0], offsets[1], flipped)


@dataclass(frozen=True)
class Affine:
    """Small random movements of a whole image, for digits: each quantity uniform within ± its option.

    `degrees` of rotation; `scale` as a share (0.1: from 1/1.1 to 1.1 times); `translate` as a share of the side;
    `shear` in pixels per pixel, along either axis. `fill` is the level of the background.
    """

    degrees: float = 15.0
    scale: float = 0.1
    translate: float = 0.1
    shear: float = 0.15
    fill: int = 0

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The moved images, in their original type and range."""
        check_images("a movement", images, generator)
        amounts = torch.rand((6, len(images)), generator=generator, device=images.device) * 2 - 1
        movement = Movement(
            degrees=amounts[0] * self.degrees,
            scale=torch.exp(amounts[1] * math.log1p(self.scale)),
            shear_x=amounts[2] * self.shear,
            shear_y=amounts[3] * self.shear,
            right=amounts[4] * self.translate,
            down=amounts[5] * self.translate,
        )
        levels = to_levels(images)
        return from_levels(moved(levels, movement.looking_back(levels), self.fill).round(), images)


@dataclass(frozen=True)
class Cutout:
    """A square at a random place replaced by the level `fill` (DeVries and Taylor, 2017).

    Its side is `share` of the image's shorter side; with `varied`, a random share of that, uniformly (as in FixMatch).
    """

    share: float = 0.5
    varied: bool = True
    fill: int = 127

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The images with their squares, in their original type and range."""
        check_images("a cutout", images, generator)
        height, width = images.shape[2:]
        longest = self.share * min(height, width)
        amounts = torch.rand((3, len(images)), generator=generator, device=images.device)
        extents, starts = (
            constant(values, images.device)[:, None]
            for values in (
                (height, width, longest if self.varied else 0.0),
                (-height / 2, -width / 2, 0.0 if self.varied else longest),
            )
        )
        middle_y, middle_x, side = torch.addcmul(starts, amounts, extents)
        fill = self.fill if images.dtype == torch.uint8 else self.fill / BRIGHTEST
        return cut_out(images, middle_y, middle_x, side, fill)


@dataclass(frozen=True)
class Normalize:
    """(value - mean) / std for each channel or column; bytes are divided by 255 before.

    A single mean and std hold for all channels; without any, bytes only become floats within 0..1.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std) or any(not value > 0 for value in self.std):
            raise DataError(f"each mean needs a std above 0, found mean {self.mean} and std {self.std}")

    def __call__(self, images: Tensor, generator: torch.Generator | None = None) -> Float[Tensor, "batch ..."]:
        """Normalized floats; the generator is not used."""
        unit = BRIGHTEST if images.dtype == torch.uint8 else 1
        if len(self.mean) not in (0, 1, images.shape[1]):
            raise DataError(f"{len(self.mean)} means for {images.shape[1]} channels or columns")
        if not self.mean:
            return images if unit == 1 else images / unit
        values, shape = images.float() if unit > 1 else images, (1, -1, *[1] * (images.ndim - 2))
        factors = tuple(1 / (unit * std) for std in self.std)
        starts = tuple(-mean / std for mean, std in zip(self.mean, self.std, strict=True))
        factor, start = (constant(numbers, images.device, values.dtype).view(shape) for numbers in (factors, starts))
        return torch.addcmul(start, values, factor)


@dataclass(frozen=True)
class Noise:
    """Gaussian noise of standard deviation `scale` on every value: for tables, after normalization."""

    scale: float = 0.0

    def __call__(self, images: Float[Tensor, "batch ..."], generator: torch.Generator) -> Float[Tensor, "batch ..."]:
        """The values with their noise; unchanged if the scale is 0."""
        if self.scale == 0 and images.dtype != torch.uint8:
            return images  # ids, and inputs of several tensors, too
        if not images.is_floating_point():
            raise DataError(f"noise is added to floats, found {images.dtype}; normalize first")
        check_generator("noise", images, generator)
        noise = torch.randn(images.shape, generator=generator, device=images.device, dtype=images.dtype)
        return images + self.scale * noise


@dataclass(frozen=True)
class Folded:
    """Rows of pixels viewed as images, augmented, and flattened again. Images are passed through.

    >>> Folded(Affine(), (1, 8, 8))(torch.zeros(5, 64), torch.Generator()).shape
    torch.Size([5, 64])
    """

    augmentation: Augmentation
    shape: tuple[int, int, int]

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """The same number of rows, of the same length."""
        if images.ndim != 2:
            return self.augmentation(images, generator)
        if images.shape[1] != math.prod(self.shape):
            raise DataError(f"rows of {images.shape[1]} numbers are not images of shape {list(self.shape)}")
        return self.augmentation(images.reshape(-1, *self.shape), generator).flatten(1)
