"""A plain loop that drives a method, for tests: what the training loop does, without all it does besides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from glws.data import WeakDataset
from glws.methods import AbstractMethod, Epoch, Network, Outputs, Progress, Setup, Step, step_of


def network_of(model: nn.Module) -> Network:
    """The model (one of glws.models) as a method sees it: its logits, and what its last layer is given."""

    def network(instances: Tensor) -> Outputs:
        seen: list[Tensor] = []
        hook = model.output.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        logits = model(instances)
        hook.remove()
        return Outputs(logits, seen[0])

    return network


def setup_of(data: WeakDataset, model: nn.Module, seed: int = 0) -> Setup:
    """What a method may know before it is trained on these data with this model."""
    output = model.output
    generator = torch.Generator().manual_seed(seed)
    return Setup(data, output.out_features, output.in_features, torch.device("cpu"), generator)


def train(
    method: AbstractMethod,
    data: WeakDataset,
    model: nn.Module,
    *,
    num_epochs: int = 10,
    num_batches: int = 10,
    learning_rate: float = 0.01,
    view: Callable[[Tensor, str], Tensor] = lambda instances, name: instances,
    averaged: nn.Module | None = None,
    seed: int = 0,
) -> nn.Module:
    """The model, trained by the method with Adam. `view` makes a view by its name; `averaged` is the teacher, fixed."""
    method.check(data)
    setup, network = setup_of(data, model, seed), network_of(model)
    state, modules, generator = method.init(setup), method.modules(setup), setup.generator
    optimizer = torch.optim.Adam([*model.parameters(), *modules.parameters()], lr=learning_rate)
    teacher = None if averaged is None else network_of(averaged)

    def predict(numbers: Tensor) -> Tensor:
        with torch.no_grad():
            return network(data.instances.take(numbers)).logits

    for epoch in range(num_epochs):
        start = Progress(epoch * num_batches, num_epochs * num_batches, epoch, num_epochs)
        method.begin_epoch(Epoch(data, state, start, predict, generator))
        for number, batch in enumerate(data.batches(num_batches, generator)):
            progress = Progress(start.step + number, start.num_steps, epoch, num_epochs)
            views = lambda name, batch=batch: view(batch.instances, name)  # noqa: E731
            step = Step(batch, network, views, teacher, state, modules, modules, progress, generator)
            optimizer.zero_grad()
            method.loss(step).backward()
            optimizer.step()
            method.update(step)
    return model


def accuracy(model: nn.Module, instances: Tensor, labels: Tensor) -> float:
    """The share of instances whose largest logit is at their label."""
    with torch.no_grad():
        return float((model(instances).argmax(1) == labels).double().mean())


def step_on(data: WeakDataset, logits: Tensor | Mapping[str, Tensor], **others: object) -> Step:
    """A step on all groups of the data at once; the network gives these logits for all instances, by view ("weak")."""
    batch = data.batch([torch.arange(len(groups)) for groups in data.groups])
    views = {"weak": logits} if isinstance(logits, Tensor) else logits
    return step_of(batch, {name: values[batch.numbers] for name, values in views.items()}, **others)


def digits() -> tuple[Tensor, Tensor]:
    """The 1797 digits of scikit-learn, 64 numbers from 0 to 1 each, and their labels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
