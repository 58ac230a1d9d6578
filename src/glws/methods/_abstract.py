"""What a method is: a loss for each step, the little it remembers, and what it can learn from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from glws._reprs import short_repr
from glws.data import Batch, WeakDataset
from glws.errors import DataError
from glws.kinds import AbstractSupervision
from glws.methods._recipe import Recipe
from glws.methods._recording import Recording
from glws.methods._step import Outputs, Progress, State, Step


@dataclass(frozen=True)
class Setup:
    """What a method may know before training: the data, the sizes, the device, and where to draw from."""

    __repr__ = short_repr

    data: WeakDataset
    num_classes: int
    num_features: int
    device: torch.device
    generator: torch.Generator


@dataclass(frozen=True)
class Epoch:
    """What a method may do before an epoch: ask the network for the logits of any instances, in the plain view."""

    __repr__ = short_repr

    data: WeakDataset
    state: State
    progress: Progress
    predict: Callable[[Int[Tensor, "chosen"]], Float[Tensor, "chosen classes"]]
    generator: torch.Generator


class AbstractMethod(ABC):
    """A way to learn from weak labels. A method is a frozen dataclass of its options; it holds no tensors itself.

    The training loop calls `check`, `init` and `modules` once, `begin_epoch` and `end_epoch` around each epoch, and for
    each step `loss`, then (after the optimizer) `update`. What changes between steps lives in the state, a dictionary
    of tensors: it is saved with every checkpoint, so that an interrupted run resumes bit for bit.
    """

    summary: ClassVar[str]
    """One line: what it is, and whose."""
    takes: ClassVar[str]
    """The weak labels it learns from, in words."""
    kinds: ClassVar[tuple[tuple[type[AbstractSupervision], ...], ...]] = ()
    """The combinations of kinds it learns from, in any order; none means any."""
    adds_up: ClassVar[bool] = False
    """Whether its loss is a sum over groups, so that a process can compute the part of its own (`Step.everyone`)."""
    needs_prior: ClassVar[bool] = False
    """Whether somebody has to tell it the share of the positive class."""
    needs_features: ClassVar[bool] = True
    """Whether it may read the features of the network's outputs in training."""
    needs_teacher: ClassVar[bool] = False
    """Whether it asks for a moving average of the network."""
    predicts_groups: ClassVar[bool] = False
    """Whether it predicts what a whole group is, by `group_probs`."""
    has_attention: ClassVar[bool] = False
    """Whether it weighs the instances of a group, and `attention` gives the weights."""
    teacher_warms_up: ClassVar[bool] = True
    """Whether that average starts with a smaller decay, (1 + step) / (10 + step), so that it soon leaves the start."""

    @property
    def teacher_decay(self) -> float | None:
        """The decay of that moving average; None where the method leaves it to `training.average`."""
        return None

    @property
    def trained_view(self) -> str:
        """The view of the instances that the network is trained on: the option `view`, if there is one."""
        return str(getattr(self, "view", "weak"))

    def recipe(self) -> Recipe | None:
        """How its authors trained it; None where that is not known."""
        return None

    def check(self, data: WeakDataset) -> None:
        """Raises `DataError` in one line if the data are of the wrong kind."""
        found = sorted(type(weak).__name__ for weak in data.weak)
        wanted = [sorted(kind.__name__ for kind in kinds) for kinds in self.kinds]
        if wanted and found not in wanted:
            options = " or ".join(" with ".join(kinds) for kinds in wanted)
            raise DataError(f"{type(self).__name__} learns from {self.takes} ({options}), found {' with '.join(found)}")

    def with_shares(self, owner: Sequence[int], share: Sequence[float]) -> AbstractMethod:
        """The method for data whose kinds were split: the kind that each part is of, and its share of those rows.

        A method that weights kinds uses the shares, so that every row counts once.
        """
        return self

    def init(self, setup: Setup) -> State:
        """What it remembers at the start."""
        return {}

    def modules(self, setup: Setup) -> nn.ModuleDict:
        """Networks of its own that are trained along, such as a projection head."""
        return nn.ModuleDict()

    def begin_epoch(self, epoch: Epoch) -> None:  # noqa: B027
        """Called before each epoch; may change the state."""

    def end_epoch(self, epoch: Epoch) -> None:  # noqa: B027
        """Called after each epoch, before the network is evaluated; may change the state."""

    @abstractmethod
    def loss(self, step: Step) -> Float[Tensor, ""]:
        """The loss of one step."""

    def recording(self, batch: Batch, progress: Progress) -> Recording | None:
        """What a step on this batch needs to be replayed from a CUDA graph; None, the default, where it is run eagerly.

        A method may answer if its loss reads nothing else than the network, its teacher, these views and weak labels:
        no state, no modules, no random numbers of its own, nothing that changes in the course of training. `update` is
        not called after a step that is replayed.
        """
        return None

    def update(self, step: Step) -> None:  # noqa: B027
        """Called after the optimizer's step; may change the state."""

    def restored_modules(self, weights: Mapping[str, Tensor]) -> nn.ModuleDict:
        """The networks that `group_probs` asks, from the weights that a checkpoint stores of `modules`."""
        return nn.ModuleDict()

    def group_probs(
        self,
        outputs: Outputs,
        lengths: Int[Tensor, "groups"],
        modules: nn.ModuleDict,
    ) -> Float[Tensor, "groups classes"]:
        """What whole groups are, from the outputs [groups, instances, ...] and the trained modules of the method."""
        raise DataError(f"{type(self).__name__} predicts instances, not groups")

    def attention(
        self, outputs: Outputs, lengths: Int[Tensor, "groups"], modules: nn.ModuleDict
    ) -> Float[Tensor, "groups instances heads"]:
        """The weight of each instance in the prediction for its group, of methods with attention."""
        raise DataError(f"{type(self).__name__} has no attention; attention_mil has")

    def log_probs(self, logits: Float[Tensor, "rows classes"], state: State) -> Float[Tensor, "rows classes"]:
        """What the logits say of the classes: their log-softmax, unless the method learns another scale."""
        return logits.log_softmax(-1)
