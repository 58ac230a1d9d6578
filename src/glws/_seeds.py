"""Seeds derived from a seed and a purpose, so that no random state needs to be stored."""

from __future__ import annotations

import hashlib

import torch


def derived_seed(seed: int, *purpose: int | str) -> int:
    """A pseudo-random number of 63 bits that depends on the seed and the purpose only.

    >>> derived_seed(0, "order", 3) == derived_seed(0, "order", 3) != derived_seed(0, "order", 4)
    True
    """
    words = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big") >> 1


def derived_generator(device: torch.device | str, seed: int, *purpose: int | str) -> torch.Generator:
    """A generator on that device, seeded for that purpose."""
    return torch.Generator(device).manual_seed(derived_seed(seed, *purpose))
