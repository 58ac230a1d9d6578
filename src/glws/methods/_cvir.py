"""CVIR and TED: positives against the least positive unlabeled instances."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from glws.data import WeakDataset
from glws.data.weaken import down, nearest
from glws.errors import DataError
from glws.kinds import Labels, Unlabeled
from glws.methods._abstract import Epoch, Setup
from glws.methods._positive_unlabeled import (
    AbstractPositiveUnlabeled,
    check_optional_prior,
    no_loss,
    positive_share,
    sets_of,
    shuffled_numbers,
)
from glws.methods._recipe import Recipe
from glws.methods._risks import margin
from glws.methods._step import Progress, State, Step
from glws.selection import best_bin_estimate

PUBLISHED_WARM_EPOCHS = 100
PUBLISHED_EPOCHS = 1000


class AbstractValueIgnoring(AbstractPositiveUnlabeled):
    """Positives against the unlabeled instances that remain after the most positive ones are ignored.

    The state holds a 0 or 1 for each instance: `held_out` if it is never trained on, `kept` if it counts as negative
    in this epoch if it is unlabeled. An instance that is in the unlabeled set several times is ignored altogether
    once one of its copies is.
    """

    view: str

    def init(self, setup: Setup) -> State:
        """Nothing is held out, and nothing is ignored yet."""
        return _selection(torch.zeros(len(setup.data.instances), dtype=torch.int64, device=setup.device))

    def begin_epoch(self, epoch: Epoch) -> None:
        """Ignore the most positive unlabeled instances, once the warm start is over."""
        if epoch.progress.epoch >= self.warm(epoch.progress):
            numbers = _numbers(epoch, Unlabeled, held_out=False)
            ignored = numbers[most_positive(plain_scores(epoch, numbers), self.share(epoch))]
            kept = 1 - epoch.state["held_out"]
            kept[ignored.to(kept.device)] = 0
            epoch.state["kept"] = kept

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """Cross-entropy of positives against the unlabeled instances that are kept."""
        scores = margin(step.logits(self.view))
        numbers, sets = step.batch.numbers.to(scores.device), sets_of(step.batch, scores.device)
        positive = sets.positive[step.state["held_out"][numbers[sets.positive]] == 0]
        unlabeled = sets.unlabeled[step.state["kept"][numbers[sets.unlabeled]] == 1]
        if not len(positive) or not len(unlabeled):
            return no_loss(scores)
        return (functional.softplus(-scores[positive]).mean() + functional.softplus(scores[unlabeled]).mean()) / 2

    @abstractmethod
    def warm(self, progress: Progress) -> int:
        """The number of epochs in which nothing is ignored."""

    @abstractmethod
    def share(self, epoch: Epoch) -> float:
        """α: the share of positives among the unlabeled instances."""

    def recipe(self) -> Recipe | None:
        """CIFAR-10."""
        return Recipe(
            "CIFAR-10: the code of Garg et al.",
            {
                "optimizer": "sgd",
                "learning_rate": 0.1,
                "momentum": 0.9,
                "nesterov": False,
                "decay_biases": True,
                "weight_decay": 0.0005,
                "schedule": "constant",
            },
        )


@dataclass(frozen=True)
class CVIR(AbstractValueIgnoring):
    """Conditional value ignoring risk, with a known share α of positives (Garg et al., NeurIPS 2021).

    Before each epoch the unlabeled instances are ranked by the network, on the plain view; the floor(α N) most positive
    ones are ignored in this epoch, and

        loss = ½ mean_P CE(·, 1) + ½ mean_{U kept} CE(·, 0)

    A batch with no positive or no kept instance has loss 0. `prior` overrides α, the share of positives among the
    unlabeled. In the first `warm_epochs` nothing is ignored: positives against unlabeled (none as published).
    """

    summary: ClassVar[str] = "positives against the least positive of the unlabeled (Garg et al., NeurIPS 2021)"

    prior: float | None = None
    warm_epochs: int = 0
    view: str = "weak"

    def __post_init__(self) -> None:
        check_optional_prior(self.prior)

    def warm(self, progress: Progress) -> int:
        """The option `warm_epochs`."""
        return self.warm_epochs

    def share(self, epoch: Epoch) -> float:
        """α: the option `prior`, else the class prior of the data."""
        if self.prior is not None:
            return self.prior
        parts = zip(epoch.data.weak, epoch.data.groups, strict=True)
        (found,) = (positive_share(weak, groups.lengths) for weak, groups in parts if isinstance(weak, Unlabeled))
        return found


@dataclass(frozen=True)
class TED(AbstractValueIgnoring):
    """CVIR with an estimated share of positives: (TED)^n (Garg et al., NeurIPS 2021).

    After a warm start, positives against unlabeled, the share α is estimated before each epoch by `best_bin_estimate`
    on instances that are never trained on, `held_out` of the positives and of the unlabeled; the epoch is then that of
    `CVIR` with this α, which is `share` in the log. No class prior is needed, and that of the data is ignored.

    The default of `warm_epochs` is the published 100 of 1000 epochs or more, a tenth of fewer, and at least 1. The
    held-out instances are drawn from the training data, while the paper is given two sets.
    """

    summary: ClassVar[str] = "CVIR with best-bin estimates of the share of positives (Garg et al., NeurIPS 2021)"

    warm_epochs: int | None = None
    held_out: float = 0.2
    view: str = "weak"

    def __post_init__(self) -> None:
        if self.warm_epochs == 0:
            raise DataError("TED needs at least 1 warm epoch: an untrained network cannot estimate the share")
        if not 0 < self.held_out < 1:
            raise DataError(f"held_out must be between 0 and 1, found {self.held_out:g}")

    def check(self, data: WeakDataset) -> None:
        """Raise `DataError` unless there are enough positives and unlabeled instances to hold some out."""
        super().check(data)
        sizes = [nearest(self.held_out * len(each)) for each in _instances_of_sets(data)]
        if sizes[0] < 2 or sizes[1] < 1:
            found = f"a share of {self.held_out:g} is {sizes[0]} and {sizes[1]}"
            raise DataError(f"TED holds out at least 2 positives and 1 unlabeled instance, but {found}")

    def init(self, setup: Setup) -> State:
        """Draw the held-out instances, once; nothing else is ignored yet."""
        held_out = torch.zeros(len(setup.data.instances), dtype=torch.int64)
        for numbers in _instances_of_sets(setup.data):
            order = shuffled_numbers(len(numbers), setup.generator, numbers.device)
            held_out[numbers[order[: nearest(self.held_out * len(numbers))]]] = 1
        return _selection(held_out.to(setup.device)) | {"share": torch.zeros((), device=setup.device)}

    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The loss of CVIR."""
        step.note("share", step.state["share"])
        return super().loss(step)

    def warm(self, progress: Progress) -> int:
        """The option `warm_epochs`, else as published."""
        if self.warm_epochs is not None:
            return self.warm_epochs
        tenth = progress.num_epochs * PUBLISHED_WARM_EPOCHS // PUBLISHED_EPOCHS
        return max(min(tenth, PUBLISHED_WARM_EPOCHS), 1)

    def share(self, epoch: Epoch) -> float:
        """α, estimated from the held-out instances."""
        kinds = (Labels, Unlabeled)
        positive, unlabeled = (plain_scores(epoch, _numbers(epoch, kind, held_out=True)) for kind in kinds)
        found = best_bin_estimate(positive, unlabeled).share
        epoch.state["share"] = torch.full_like(epoch.state["share"], found)
        return found


def most_positive(scores: Float[Tensor, "members"], share: float) -> Int[Tensor, "rejected"]:
    """The places of the floor(share · members) largest scores; the first of equal ones.

    >>> most_positive(torch.tensor([0.9, 0.2, 0.65, 0.4, 0.05]), 0.4)
    tensor([0, 2])
    """
    return scores.argsort(descending=True, stable=True)[: down(share * len(scores))]


def plain_scores(epoch: Epoch, numbers: Int[Tensor, "members"]) -> Float[Tensor, "members"]:
    """The network's scores of these instances in the plain view, in float64."""
    distinct, places = torch.unique(numbers, return_inverse=True)
    return margin(epoch.predict(distinct)).detach().double().cpu()[places]


def _selection(held_out: Int[Tensor, "instances"]) -> State:
    """The state: held-out instances, and those that are trained on as negative if unlabeled."""
    return {"held_out": held_out, "kept": 1 - held_out}


def _numbers(epoch: Epoch, kind: type[Labels] | type[Unlabeled], held_out: bool) -> Int[Tensor, "members"]:
    """The instances of a kind, with repetition, that are held out, or those that are not."""
    (groups,) = (groups for weak, groups in zip(epoch.data.weak, epoch.data.groups, strict=True) if type(weak) is kind)
    numbers = groups.indices.cpu()
    return numbers[epoch.state["held_out"].cpu()[numbers] == int(held_out)]


def _instances_of_sets(data: WeakDataset) -> tuple[Int[Tensor, "positives"], Int[Tensor, "others"]]:
    """The distinct labeled instances, and the distinct instances that are only unlabeled."""
    parts = zip(data.weak, data.groups, strict=True)
    by_kind = {type(weak): torch.unique(groups.indices.cpu()) for weak, groups in parts}
    positive, unlabeled = by_kind[Labels], by_kind[Unlabeled]
    return positive, unlabeled[~torch.isin(unlabeled, positive)]
