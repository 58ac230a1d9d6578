"""Groups and instances as the report shows them: put into words, their images written as PNG into the page."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from glws._messages import counted
from glws.report._content import Example, Floats, Image, Instance, KnownPart, Surprise
from glws.report._plots import belief_bars, size_histogram
from glws.report._wording import NOT_GIVEN, decimal, shown

LARGE_IMAGE = 128
SMALL_IMAGE = 64
SHARP = 64  # images up to this size are shown with their pixels sharp
MAX_FEATURES = 8
MAX_MEMBERS = 12


class KnownView(NamedTuple):
    """A kind of weak labels: its groups in a sentence, a histogram (SVG) where sizes differ, words, a drawing."""

    kind: str
    sentence: str
    histogram: str
    descriptions: tuple[str, ...]
    drawing: str
    drawing_of: str


class InstanceView(NamedTuple):
    """An instance: image address or features, and what the model, the posterior and the truth say."""

    name: str
    image: str
    is_sharp: bool
    features: list[tuple[str, str]]
    hidden_features: int
    predicted: str
    believed: str
    label: str
    is_wrong: bool
    is_changed: bool


class ExampleView(NamedTuple):
    """An instance with its bars (SVG) and the weak label of its group."""

    instance: InstanceView
    bars: str
    known: str


class SurpriseView(NamedTuple):
    """A group, its likelihood in words, and the instances whose labels its weak label changes most."""

    group: str
    known: str
    likelihood: str
    members: list[InstanceView]
    hidden: int
    features: list[str]
    has_images: bool


def known_view(part: KnownPart) -> KnownView:
    """The kind as the page shows it."""
    sizes = part.group_sizes
    drawing = "" if part.automaton_svg is None else drawing_address(part.automaton_svg)
    histogram = size_histogram(sizes, f"Group sizes: {part.kind}") if len(set(sizes.tolist())) > 1 else ""
    return KnownView(part.kind, _sizes(part), histogram, part.descriptions, drawing, part.automaton_of)


def _sizes(part: KnownPart) -> str:
    sizes, groups = part.group_sizes, counted(part.num_groups, "group")
    if not len(sizes):
        return "no groups"
    low, high = int(sizes.min()), int(sizes.max())
    if low == high:
        return f"{groups} of {counted(low, 'instance')}" + (" each" if len(sizes) > 1 else "")
    return f"{groups} of {low:,} to {high:,} instances, {np.mean(sizes):.1f} on average"


def example_view(example: Example, classes: Sequence[str]) -> ExampleView:
    """The example as the page shows it."""
    instance = example.instance
    title = "Prediction" if instance.posterior is None else "Prediction and posterior"
    bars = belief_bars(classes, instance.prediction, instance.posterior, title)
    return ExampleView(instance_view(instance, classes, LARGE_IMAGE), bars, example.known)


def surprise_view(surprise: Surprise, classes: Sequence[str]) -> SurpriseView:
    """The group as the page shows it: of a large one, the instances whose posterior is farthest from the prediction."""
    order = sorted(range(len(surprise.instances)), key=lambda number: -_moved(surprise.instances[number]))
    chosen = [surprise.instances[number] for number in sorted(order[:MAX_MEMBERS])]
    members = [instance_view(instance, classes, SMALL_IMAGE) for instance in chosen]
    features = list(dict.fromkeys(name for member in members for name, _ in member.features))[:MAX_FEATURES]
    hidden = len(surprise.instances) - len(chosen)
    has_images = any(member.image for member in members)
    likelihood = likelihood_text(surprise.log_likelihood)
    return SurpriseView(surprise.group, surprise.known, likelihood, members, hidden, features, has_images)


def likelihood_text(log_likelihood: float) -> str:
    """A log-likelihood and what it means.

    >>> likelihood_text(-4.60517), likelihood_text(float("-inf"))
    ('log-likelihood −4.605, probability 0.01', 'log-likelihood −∞: impossible under the predictions')
    """
    text = f"log-likelihood {decimal(log_likelihood)}"
    if log_likelihood == -math.inf:
        return f"{text}: impossible under the predictions"
    if not -700 < log_likelihood <= 0:  # a density, or too small for a number
        return text
    return f"{text}, probability {math.exp(log_likelihood):.2g}".replace("e-", "e−")


def instance_view(instance: Instance, classes: Sequence[str], largest: int) -> InstanceView:
    """The instance as the page shows it."""
    image = instance.image
    features = [(str(name), shown(value)) for name, value in instance.features.items()]
    predicted, believed = _leader(instance.prediction), _leader(instance.posterior)
    return InstanceView(
        name=instance.name,
        image="" if image is None else image_address(image, largest),
        is_sharp=image is not None and max(image.shape[1:]) <= SHARP,
        features=features[:MAX_FEATURES],
        hidden_features=max(len(features) - MAX_FEATURES, 0),
        predicted=_leader_text(instance.prediction, predicted, classes),
        believed=_leader_text(instance.posterior, believed, classes),
        label="" if instance.label is None else classes[instance.label],
        is_wrong=instance.label is not None and predicted != instance.label,
        is_changed=believed is not None and believed != predicted,
    )


def feature_cells(member: InstanceView, names: Sequence[str]) -> list[str]:
    """The values of these features, a dash where the instance has none."""
    values: Mapping[str, str] = dict(member.features)
    return [values.get(name, NOT_GIVEN) for name in names]


def _leader(probs: Floats | None) -> int | None:
    return None if probs is None or not np.isfinite(probs).any() else int(np.nanargmax(probs))


def _leader_text(probs: Floats | None, leader: int | None, classes: Sequence[str]) -> str:
    if probs is None:
        return ""
    return "not a number" if leader is None else f"{classes[leader]} ({float(probs[leader]):.2f})"


def _moved(instance: Instance) -> float:
    """Half the distance between prediction and posterior: the share of belief that the weak label moved."""
    if instance.posterior is None:
        return 0.0
    return float(np.nansum(np.abs(instance.posterior - instance.prediction))) / 2


SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOR_TYPES = {1: 0, 3: 2}  # gray, RGB


def png(image: Image) -> bytes:
    """The bytes of a PNG file of an image [channels, height, width] with one channel (gray) or three (RGB).

    >>> png(np.zeros((1, 2, 3), np.uint8))[:8]
    b'\\x89PNG\\r\\n\\x1a\\n'
    """
    channels, height, width = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    rows = image.transpose(1, 2, 0).reshape(height, width * channels)
    unfiltered = np.zeros((height, 1), np.uint8)  # each row starts with the number of its filter: none
    pixels = np.hstack([unfiltered, rows]).tobytes()
    return SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(pixels, 9)) + _chunk(b"IEND", b"")


def image_address(image: Image, largest: int) -> str:
    """The image as a `data:` address, made smaller until neither side is longer than `largest` pixels."""
    return "data:image/png;base64," + base64.b64encode(png(shrunk(image, largest))).decode()


def drawing_address(svg: str) -> str:
    """An SVG document as a `data:` address: shown as an image, nothing in it can run or reach the page."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8", "replace")).decode()


def shrunk(image: Image, largest: int) -> Image:
    """The image with square blocks of pixels averaged into one, so that neither side is longer than `largest`.

    >>> shrunk(np.array([[[0, 10, 7], [20, 30, 7]]], np.uint8), 2).tolist()
    [[[15]]]
    """
    channels, height, width = image.shape
    block = -(-max(height, width) // largest)
    if block == 1:
        return image
    high, wide = max(height // block, 1), max(width // block, 1)  # what is left of a block at the edge is cut off
    tall, broad = min(block, height), min(block, width)
    blocks = image[:, : high * tall, : wide * broad].reshape(channels, high, tall, wide, broad)
    means: Image = blocks.mean(axis=(2, 4)).round().astype(np.uint8)
    return means


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
