"""Zero-shot class probabilities from CLIP: images against one sentence per class. Needs `open_clip_torch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate, normalize

from glws._optional import needed
from glws.data.sources import ImageFiles
from glws.errors import DataError

TEMPLATE = "a photo of a {}."


@dataclass(frozen=True, eq=False)
class ClipScorer:
    """A CLIP model with its tokenizer: `model` has `encode_image`, `encode_text` and `logit_scale`.

    Created by `load`, or from any two objects with this interface, such as your own model.
    """

    model: Any
    tokenizer: Any

    @classmethod
    def load(cls, model_name: str = "ViT-B-16", pretrained: str | Path = "openai", device: str = "cpu") -> ClipScorer:
        """Load a model name of `open_clip` with a tag of its published weights, or a local `.safetensors` file.

        A tag is downloaded by `open_clip` on first use; loading a file never executes code. OpenAI's weights
        in a file need the name with "-quickgelu", which the tag "openai" implies.
        """
        open_clip = needed("open_clip", "open_clip_torch", "scoring images with CLIP")
        model = open_clip.create_model(model_name, pretrained=_checked_weights(pretrained), device=device)
        return cls(model.eval(), open_clip.get_tokenizer(model_name))

    @torch.no_grad()
    def probabilities(
        self, images: Any, class_names: Sequence[str], template: str = TEMPLATE, batch_size: int = 256
    ) -> Float[Tensor, "images classes"]:
        """softmax over classes of scale · cos(image, sentence), for the sentences `template.format(name)`.

        `images` are [images, channels, height, width], bytes or floats within 0..1, color or gray, or `ImageFiles`;
        they are read `batch_size` at a time, so a mapped file works. Sum the columns of positive classes with
        `positive_scores`; CLIP has no class prior, so let `at_prior` estimate it.
        """
        if len(images) == 0 or len(class_names) < 2:
            raise DataError(f"CLIP needs at least 1 image and 2 classes, found {len(images)} and {len(class_names)}")
        sentences = self._sentences(class_names, template)
        starts = range(0, len(images), batch_size)
        return torch.cat([self._scores(_some(images, start, start + batch_size), sentences) for start in starts])

    def _sentences(self, class_names: Sequence[str], template: str) -> Float[Tensor, "classes features"]:
        if template.format("x") == template:
            raise DataError(f"template must have a place {{}} for the name of the class, found {template!r}")
        tokens = self.tokenizer([template.format(name) for name in class_names])
        return normalize(self.model.encode_text(tokens.to(self._device)).float(), dim=-1)

    def _scores(self, images: Any, sentences: Float[Tensor, "classes features"]) -> Float[Tensor, "batch classes"]:
        visual = self.model.visual
        prepared = prepared_images(images, visual.image_size, visual.image_mean, visual.image_std)
        features = normalize(self.model.encode_image(prepared.to(self._device)).float(), dim=-1)
        logits = self.model.logit_scale.exp().float() * features @ sentences.T
        answer: Tensor = logits.double().softmax(1).cpu()
        return answer

    @property
    def _device(self) -> torch.device:
        device: torch.device = self.model.logit_scale.device
        return device


def prepared_images(
    images: Any, size: int | tuple[int, int], mean: Sequence[float], std: Sequence[float]
) -> Float[Tensor, "batch 3 height width"]:
    """Images in the input format of CLIP: three channels, the shorter side resized, cropped, normalized.

    >>> prepared_images(torch.full((1, 1, 8, 12), 255, dtype=torch.uint8), 4, [0.5] * 3, [0.5] * 3).unique()
    tensor([1.])
    """
    pixels = torch.as_tensor(images)
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
        raise DataError(f"images must be [images, 1 or 3, height, width], found shape {list(pixels.shape)}")
    scaled = pixels.float() / (1.0 if pixels.is_floating_point() else 255.0)
    target = (size, size) if isinstance(size, int) else tuple(size)
    enlarge = max(side / have for side, have in zip(target, pixels.shape[2:], strict=True))
    shape = [max(round(have * enlarge), side) for have, side in zip(pixels.shape[2:], target, strict=True)]
    resized = interpolate(scaled, shape, mode="bicubic", antialias=True, align_corners=False).clamp(0.0, 1.0)
    top, left = ((have - side) // 2 for have, side in zip(shape, target, strict=True))
    cut = resized[:, :, top : top + target[0], left : left + target[1]].expand(-1, 3, -1, -1)
    center, spread = (torch.tensor(list(values)).view(1, 3, 1, 1) for values in (mean, std))
    return (cut - center) / spread


def _some(images: Any, start: int, stop: int) -> Any:
    if isinstance(images, ImageFiles):
        return images.take(range(start, min(stop, len(images))))
    return images[start:stop]


def _checked_weights(pretrained: str | Path) -> str:
    """The tag unchanged; a file only if its format holds nothing but numbers."""
    path = Path(pretrained)
    if path.suffix == ".safetensors":
        if not path.is_file():
            raise DataError(f"there is no file {path}")
    elif path.suffix or isinstance(pretrained, Path) or path.is_file():
        raise DataError(f"weights in a file must be .safetensors, which cannot execute code, found {path}")
    elif not pretrained:
        raise DataError(
            "pretrained must be a tag of published weights or a .safetensors file; random weights are useless"
        )
    return str(pretrained)
