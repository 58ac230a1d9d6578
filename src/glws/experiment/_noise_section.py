"""The section of a report about learned noise."""

from __future__ import annotations

import math
from collections.abc import Iterator

from glws.report import Section
from glws.training import LearnedNoise, NoiseEstimate

ABOUT = (
    "How often weak labels are wrong, learned by EM from groups that the network was not trained on. Intervals are "
    "those of the observed information, the sharpness of the predictions being unknown. Training groups say less than "
    "the others if the network has memorized wrong labels."
)


def noise_sections(noise: LearnedNoise) -> Iterator[Section]:
    """The parameters of the noise that was learned, with intervals; none if it was given."""
    if noise.estimates:
        yield Section("Learned noise", (ABOUT,), dict(map(_parameter, noise.estimates)))


def _parameter(estimate: NoiseEstimate) -> tuple[str, str]:
    value = estimate.describe().removeprefix(f"{estimate.kind}: {estimate.name}").strip()
    by_training = "" if math.isnan(estimate.by_training) else f"; by training groups {estimate.by_training:.3g}"
    return f"{estimate.kind}: {estimate.name}", f"{value}, from {estimate.start:.3g}{by_training}"
