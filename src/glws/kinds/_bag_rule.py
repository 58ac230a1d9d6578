"""`BagRule`: which questions about a whole bag its label answers, and their log-odds given predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glws.errors import DataError
from glws.inference import PresenceWeights, infer


@dataclass(frozen=True)
class BagRule:
    """Yes-or-no questions about a bag as a whole: whether an instance of one of these classes is in it.

        log_odds = log P(some y_j in the set | x) - log P(no y_j in the set | x)

    `sets` has the class numbers of each question: one question for `MultiInstance`, one for each class for
    `PresentClasses`. With `share` and `reported`, bags are sampled by their label as in `MultiInstance`, and the
    log-odds are those of bags sampled in the same way.

    >>> rule = BagRule(((1,),), 2)
    >>> rule.log_odds(torch.tensor([[[0.5, 0.5], [0.8, 0.2]]]).log(), torch.tensor([2])).sigmoid()
    tensor([[0.6000]], dtype=torch.float64)
    """

    sets: tuple[tuple[int, ...], ...]
    num_classes: int
    share: float | None = None
    reported: tuple[float, float] = (0.5, 0.5)

    def log_odds(
        self, log_probs: Float[Tensor, "groups instances classes"], lengths: Int[Tensor, "groups"]
    ) -> Float[Tensor, "groups questions"]:
        """The log-odds of each question for each bag; -inf for a bag without instances."""
        sides = [self._log_likelihood(log_probs.double(), lengths, answer) for answer in (0, 1)]
        odds = torch.where(sides[1] > -torch.inf, sides[1] - sides[0], -torch.inf)
        if self.share is None:
            return odds
        chances = log_selection(lengths, self.share, self.reported, torch.eye(2).log()).to(odds)
        return odds + (chances[:, 1] - chances[:, 0])[:, None]

    def without_each(self, log_probs: Float[Tensor, "instances classes"]) -> Float[Tensor, "instances"]:
        """The log-odds that the bag would have without each of its instances, for a single question.

            log P(none without j) = Σ_{i ≠ j} log p_i(not in the set)

        With `share` the size of the bag is taken as it is.

        >>> BagRule(((1,),), 2).without_each(torch.tensor([[0.5, 0.5], [0.8, 0.2]]).log()).sigmoid()
        tensor([0.2000, 0.5000], dtype=torch.float64)
        """
        (counted,) = self.sets
        others = [number for number in range(self.num_classes) if number not in counted]
        log_absent = log_probs.double()[:, others].logsumexp(1).clamp_max(0.0)
        is_certain = log_absent == -torch.inf
        finite = torch.where(is_certain, 0.0, log_absent)
        log_none = finite.sum() - finite
        log_none = torch.where(
            is_certain.sum() - is_certain.long() > 0,
            -torch.inf,
            log_none.clamp_max(0.0),
        )
        odds = torch.log(-torch.expm1(log_none)) - log_none
        if self.share is None:
            return odds
        lengths = torch.tensor([len(log_probs)])
        chances = log_selection(lengths, self.share, self.reported, torch.eye(2).log())[0]
        return odds + (chances[1] - chances[0]).to(odds)

    def _log_likelihood(self, log_probs: Tensor, lengths: Tensor, answer: int) -> Float[Tensor, "groups questions"]:
        number, asked = len(log_probs), len(self.sets)
        weights = torch.full((number * asked, 2), -torch.inf, device=log_probs.device)
        weights[:, answer] = 0.0
        form = PresenceWeights(self._masks(log_probs.device).repeat(number, 1), weights)
        repeated = log_probs.repeat_interleave(asked, 0), lengths.to(log_probs.device).repeat_interleave(asked)
        return infer(repeated[0], form, repeated[1]).log_likelihood.view(number, asked)

    def _masks(self, device: torch.device) -> Tensor:
        masks = torch.zeros(len(self.sets), self.num_classes, dtype=torch.bool, device=device)
        for question, numbers in enumerate(self.sets):
            masks[question, list(numbers)] = True
        return masks

    def names(self, classes: Sequence[str]) -> tuple[str, ...]:
        """What is asked, for each question: the name of the class, or of several.

        >>> BagRule(((1,), (0, 2)), 3).names(["cat", "dog", "bird"])
        ('dog', 'cat or bird')
        """
        return tuple(" or ".join(classes[number] for number in numbers) for numbers in self.sets)

    def answers(self, classes: Sequence[str]) -> tuple[str, str]:
        """What a bag is called by the answer, no or yes, where there is a single question.

        >>> BagRule(((1,),), 2).answers(["normal", "tumor"]), BagRule(((1,),), 3).answers(["cat", "dog", "bird"])
        (('normal', 'tumor'), ('no dog', 'dog'))
        """
        (yes,), (counted,) = self.names(classes), self.sets
        others = [name for number, name in enumerate(classes) if number not in counted]
        return (others[0] if len(classes) == 2 and len(others) == 1 else f"no {yes}"), yes

    def as_dict(self) -> dict[str, Any]:
        """Plain values, which `from_dict` reads."""
        return asdict(self)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> BagRule:
        """From plain values."""
        try:
            sets = tuple(tuple(int(number) for number in one) for one in stored["sets"])
            share, (none, some) = stored["share"], stored["reported"]
            made = cls(sets, int(stored["num_classes"]), share if share is None else float(share), (none, some))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"the stored rule for bags cannot be read: {error!r}") from error
        if not all(0 <= number < made.num_classes for numbers in made.sets for number in numbers):
            raise DataError(f"the stored rule for bags names classes that are not among its {made.num_classes}")
        return made


def log_selection(
    lengths: Int[Tensor, "groups"],
    share: float,
    reported: tuple[float, float],
    log_rates: Float[Tensor, "2 2"],
) -> Float[Tensor, "groups 2"]:
    """log P(sampled | reported none) and log P(sampled | reported some), up to a common constant.

    `log_rates` are log P(report | truth) as [truth, report]. 0 for a report that a group of this size cannot have.
    """
    log_none = lengths.double() * math.log1p(-share)
    log_truth = torch.stack([log_none, torch.log(-torch.expm1(log_none))], 1)
    reports = torch.logsumexp(log_truth[:, :, None] + log_rates.double().to(lengths.device), 1)
    chances = torch.tensor(reported, dtype=torch.float64, device=lengths.device).log() - reports
    return torch.where(reports > -torch.inf, chances, 0.0)
