"""The tasks: which images form a group, its weak label, and the form of it.

Addition: two numbers of N digits, and every digit of their sum. Groups hold a_0, b_0, a_1, b_1, ... from the lowest
digit; the automaton of the carry also reads the digits of the sum, which are known. Sum: N digits and their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from glws import Automaton
from glws._seeds import derived_generator
from glws.inference import AbstractForm, Automata, KnownLabels, Sums

Program = Literal["addition", "sum"]
ADDITIONS, SUMS = (1, 2, 4, 15, 100, 1000), (4, 16, 64, 256, 1024)
SUM_GROUPS = 6000
"""Groups of sums for 60,000 images."""
MOST_IMAGES = 512
"""Additions take fewer groups in a step where 16 would have more images."""
EPOCHS, EPOCH_IMAGES = 100, 600_000
"""Epochs, and fewer where an epoch has more images than this."""


@dataclass(frozen=True)
class Task:
    """A program and the number of digits of its numbers, or of its sum."""

    program: Program
    digits: int

    @property
    def name(self) -> str:
        """As it is asked for: addition-15."""
        return f"{self.program}-{self.digits}"

    @property
    def images(self) -> int:
        """The images of a group."""
        return 2 * self.digits if self.program == "addition" else self.digits

    @property
    def groups_per_step(self) -> int:
        """16, and fewer for additions of long numbers, of which there are few."""
        return max(1, min(16, MOST_IMAGES // self.images)) if self.program == "addition" else 16

    @property
    def epochs(self) -> int:
        """100, and fewer for long sums, of which an epoch shows every image many times."""
        shown = SUM_GROUPS * self.images if self.program == "sum" else 0
        return min(EPOCHS, max(10, EPOCHS * EPOCH_IMAGES // max(shown, 1)))

    def groups(self, images: int, seed: int, part: str) -> Int[Tensor, "groups members"]:
        """Images of each group: additions use every image once, sums as many as they need, in rounds."""
        generator = derived_generator("cpu", seed, "groups", part, self.name)
        rounds, count = 1, images // self.images
        if self.program == "sum":
            count = max(1, images * SUM_GROUPS // 60_000)
            rounds = -(-count * self.images // images)
        order = torch.cat([torch.randperm(images, generator=generator) for _ in range(rounds)])
        return order[: count * self.images].view(count, self.images)

    def known(self, labels: Int[Tensor, "groups members"]) -> Int[Tensor, "groups known"]:
        """The weak label of such groups: the digits of the sum of two numbers, lowest first, or the sum."""
        if self.program == "sum":
            return labels.sum(1, keepdim=True)
        columns = labels.view(len(labels), self.digits, 2).sum(2)
        carry, digits = torch.zeros_like(columns[:, 0]), []
        for column in columns.unbind(1):
            digits.append((column + carry) % 10)
            carry = (column + carry) // 10
        return torch.stack([*digits, carry], 1)

    def form(self, known: Int[Tensor, "groups known"]) -> AbstractForm:
        """The form of these weak labels."""
        if self.program == "sum":
            total = known[:, 0].double()
            return Sums(total, total, tuple(range(10)))
        labels = known.new_full((len(known), self.digits + 1, 3), -1)
        labels[:, :, 2] = known
        labels[:, -1, :2] = 0  # the last column has the carry only
        index = known.new_zeros(len(known))
        return KnownLabels(Automata((carry_automaton(),), index), labels.flatten(1))


@cache
def carry_automaton() -> Automaton:
    """Reads a digit of each number and the digit of the sum that belongs to them; remembers the carry.

    >>> carry_automaton().accepts([8, 9, 7, 1, 2, 4])  # 18 + 29 = 47
    True
    """
    return Automaton.from_fold(
        (0, 0),
        lambda s, y: (s[0] + 1, s[1] + y) if s[0] < 2 else (0, s[1] // 10) if y == s[1] % 10 else None,
        lambda s: s == (0, 0),
        num_classes=10,
    )


TASKS = {
    task.name: task
    for task in (*(Task("addition", digits) for digits in ADDITIONS), *(Task("sum", digits) for digits in SUMS))
}
