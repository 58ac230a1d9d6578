"""The input of a method in one step: batch, outputs of the network, progress of training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws._reprs import short_repr
from glws.data import Batch

State = dict[str, Tensor]
"""The state of a method between steps, by name; it is part of every checkpoint."""


class Outputs:
    """The network's outputs for every row of a batch: logits, and the input of its last layer.

    Features may be given as a function: what has to travel between processes does so when it is asked for.

    >>> logits, features = Outputs(torch.zeros(1, 2), lambda: torch.ones(1, 3))
    >>> features
    tensor([[1., 1., 1.]])
    """

    def __init__(self, logits: Tensor, features: Tensor | Callable[[], Tensor]) -> None:
        self.logits = logits
        self._features = features

    @property
    def features(self) -> Float[Tensor, "rows features"]:
        """The input of the last layer."""
        if not isinstance(self._features, Tensor):
            self._features = self._features()
        return self._features

    def __iter__(self) -> Iterator[Tensor]:
        yield self.logits
        yield self.features

    def __repr__(self) -> str:
        return f"Outputs(logits {list(self.logits.shape)})"


@dataclass(frozen=True)
class Progress:
    """The progress of training: step and epoch, counted from 0, and their totals.

    >>> Progress(step=5, num_steps=20, epoch=1, num_epochs=4).share
    0.25
    """

    step: int = 0
    num_steps: int = 1
    epoch: int = 0
    num_epochs: int = 1

    @property
    def share(self) -> float:
        """The completed share of training, from 0 to 1."""
        return self.step / max(self.num_steps, 1)


Network = Callable[[Tensor], Outputs]
"""From instances to logits and features."""


@dataclass(eq=False)
class Step:
    """One step of training, as a method sees it.

    `batch` holds every group of the step. `view(name)` gives its instances as inputs of the network: "weak" or
    "strong" ones augmented, "plain" ones without augmentation; "weak_2" is another sample of the weak view, and so on.
    `network` is the one in training, `averaged` its moving average (only if the method or the training needs one), and
    `averaged_modules` are the moving averages of `modules`, with the same decay. In distributed training a process sees
    its own share of the instances, but all outputs: outputs are those of all rows, with gradients through its own.
    Unless there is `everyone`, which a method may get that `adds_up`: then `batch` holds the groups that this process
    owns, outputs are those of its rows, and `everyone` gives the same few numbers of all processes, [processes,
    numbers], in one exchange. Such a method notes what one process would, `loss` included, and sets `predicted`, how
    often each class is predicted.
    `state` and `modules` come from the method's `init` and `modules`; `notes` are scalars for the log, averaged over an
    epoch.
    """

    __repr__ = short_repr

    batch: Batch
    network: Network
    view: Callable[[str], Tensor]
    averaged: Network | None = None
    state: State = field(default_factory=dict)
    modules: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    averaged_modules: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    progress: Progress = field(default_factory=Progress)
    generator: torch.Generator = field(default_factory=torch.Generator)
    notes: dict[str, Tensor] = field(default_factory=dict)
    everyone: Callable[[Tensor], Tensor] | None = None
    predicted: Tensor | None = None
    _views: dict[str, Tensor] = field(default_factory=dict)
    _outputs: dict[str, Outputs] = field(default_factory=dict)

    def inputs(self, view: str = "weak") -> Tensor:
        """The instances of this process in that view; the same tensor within a step."""
        if view not in self._views:
            self._views[view] = self.view(view)
        return self._views[view]

    def outputs(self, view: str = "weak") -> Outputs:
        """The network's outputs for that view, with gradient; computed once."""
        if view not in self._outputs:
            self._outputs[view] = self.network(self.inputs(view))
        return self._outputs[view]

    def logits(self, view: str = "weak") -> Float[Tensor, "rows classes"]:
        """The network's logits for that view, with gradient; computed once."""
        return self.outputs(view).logits

    @torch.no_grad()
    def detached(self, view: str = "weak") -> Float[Tensor, "rows classes"]:
        """The network's logits for that view, without gradient; reused if already computed."""
        outputs = self._outputs.get(view)
        return (self.network(self.inputs(view)) if outputs is None else outputs).logits.detach()

    @torch.no_grad()
    def fresh(self, view: str = "weak") -> Float[Tensor, "rows classes"]:
        """The current network's logits, without gradient: after the optimizer's step, in `update`."""
        return self.network(self.inputs(view)).logits

    @torch.no_grad()
    def teacher(self, view: str = "weak") -> Outputs:
        """The outputs of the moving average of the network, without gradient."""
        assert self.averaged is not None, "the method has no teacher: set needs_teacher"
        return self.averaged(self.inputs(view))

    def seen(self) -> Float[Tensor, "rows classes"]:
        """Logits of any view already computed, without gradient: the network's current predictions."""
        return next(iter(self._outputs.values())).logits.detach() if self._outputs else self.fresh()

    def note(self, name: str, value: Tensor | float) -> None:
        """Add a number to the log."""
        self.notes[name] = value.detach() if isinstance(value, Tensor) else torch.as_tensor(value)


def step_of(batch: Batch, logits: Mapping[str, Tensor], **others: object) -> Step:
    """A step whose network gives these logits for each view, to test the loss of a method.

    >>> from glws.data import WeakDataset
    >>> from glws.kinds import Labels
    >>> data = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2))
    >>> step_of(next(data.batches(1)), {"weak": torch.zeros(2, 2)}).logits()
    tensor([[0., 0.],
            [0., 0.]])
    """
    names = list(logits)

    def network(numbered: Tensor) -> Outputs:
        chosen = logits[names[int(numbered)]]
        return Outputs(chosen, chosen)

    return Step(batch, network, lambda view: torch.tensor(names.index(view)), **others)  # type: ignore[arg-type]
