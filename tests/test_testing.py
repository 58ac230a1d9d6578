"""The checks themselves: good kinds pass, and broken ones are caught by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from strategies import random_automaton
from torch import Tensor

from glws.automata import all_equal, at_least, exactly, from_table
from glws.inference import AbstractForm, PresenceWeights
from glws.kinds import SHARED, AbstractSupervision, Constraints
from glws.testing import CHECKS, check_supervision


@dataclass(frozen=True, eq=False)
class AtLeastOne(AbstractSupervision):
    """A bag is positive or negative: the smallest kind there can be."""

    positive: Tensor
    num_classes: int = field(default=2, metadata=SHARED)

    def form(self, lengths: Tensor) -> AbstractForm:
        counted = torch.zeros(len(self), self.num_classes, dtype=torch.bool)
        counted[:, 1] = True
        allowed = torch.stack([~self.positive, self.positive], 1)
        return PresenceWeights(counted, allowed.double().log())

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        return 0.0 if (1 in labels) == bool(self.positive[group]) else -torch.inf


@dataclass(frozen=True, eq=False)
class Upside(AtLeastOne):
    """The same with its meaning turned round in one place."""

    def log_weight(self, group: int, labels: Sequence[int]) -> float:
        return 0.0 if (0 in labels) == bool(self.positive[group]) else -torch.inf


def test_a_small_kind_passes_every_check() -> None:
    names = check_supervision(AtLeastOne(torch.tensor([True, False, True])), [3, 2, 4])
    assert len(names) == len(CHECKS) >= 20


def test_constraints_pass_every_check() -> None:
    table = [[0.5, 0.0, 0.25], [1.0, 0.5, 0.0], [0.1, 0.2, 0.3]]
    wanted = [
        "count(1) == 1",
        "y[0] != y[-1]",
        exactly(2, 1, 3),
        all_equal(3),
        from_table(table),
        at_least(1, [0, 2], 3),
    ]
    check_supervision(Constraints.of(wanted, 3), [3, 2, 4, 3, 2, 1])


def test_random_languages_pass_every_check() -> None:
    import numpy as np

    rng = np.random.default_rng(3)
    automata = [random_automaton(rng, 2, weighted=False) for _ in range(40)]
    possible = [automaton for automaton in automata if automaton.count(4)]
    assert len(possible) > 10
    check_supervision(Constraints.of(possible, 2), [4] * len(possible))


def test_a_kind_whose_definition_disagrees_is_caught() -> None:
    with pytest.raises(AssertionError, match="check_automaton_has_the_weights_of_the_definition"):
        check_supervision(Upside(torch.tensor([True, False])), [3, 2])


@dataclass(frozen=True, eq=False)
class Boasting(AtLeastOne):
    """Says more of the bags than it knows."""

    def known_presence(self) -> Tensor:
        return torch.stack([torch.ones_like(self.positive), self.positive], 1)


def test_a_kind_that_says_more_than_it_knows_is_caught() -> None:
    with pytest.raises(AssertionError, match=r"hold_in_every_labeling.*group 0 may have labels"):
        check_supervision(Boasting(torch.tensor([True, False])), [3, 2])


def test_a_group_that_nothing_satisfies_is_named() -> None:
    with pytest.raises(ValueError, match=r'group 1: "count\(1\) == 5" cannot hold in a group of 3 instances'):
        Constraints.of(["any(1)", "count(1) == 5"], 2).check([2, 3], 2)
