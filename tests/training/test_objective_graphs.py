"""The recorded objective against the method itself, with a stand-in for CUDA graphs that calls what it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from glws.data import WeakDataset
from glws.inference.automata_form import by_enumeration, spelled_out
from glws.inference.forms import Answer, Counts, PresenceWeights, TableWeights
from glws.inference.joint.forms import JointCounts, PresenceSet
from glws.methods import GLWS
from glws.methods.step import step_of
from glws.objective import Multiclass
from glws.supervision import ClassCounts, Labels, PartialLabels, PresentClasses, Proportions, Unlabeled
from glws.training import objective_graphs
from glws.training.objective_graphs import ObjectiveGraphs


class CalledAgain:
    """Instead of `Replayed`: what it reads may change in place between calls, and nothing else."""

    def __init__(self, function: Callable[[], tuple[Tensor, ...]]) -> None:
        self.function = function
        function()

    def __call__(self) -> tuple[Tensor, ...]:
        return tuple(result.clone() for result in self.function())


@pytest.fixture(autouse=True)
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective_graphs, "Replayed", CalledAgain)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    for kind in (TableWeights, Counts):
        monkeypatch.setattr(kind, "is_unwatched", lambda form, device: True)


def data(kinds: int) -> WeakDataset:
    drawn = torch.Generator().manual_seed(0)
    sizes = torch.randint(2, 7, (12,), generator=drawn).tolist()
    groups = [torch.randint(60, (size,), generator=drawn).tolist() for size in sizes]
    labels = torch.randint(2, (60,), generator=drawn)
    counts = Proportions.of([int(labels[group].sum()) for group in groups])
    if kinds == 1:
        return WeakDataset(torch.zeros(60, 1), groups, counts)
    candidates = PartialLabels.of(torch.tensor([[1, 0], [1, 1], [0, 1]]).bool())
    return WeakDataset(torch.zeros(60, 1), [groups, [[3], [5], [9]]], [counts, candidates])


OTHER_EYES = GLWS(e_step="weak", supervised=1.0)
METHODS = [OTHER_EYES, GLWS(), GLWS(m_step="weak"), GLWS(supervised=0.3, reduction="group")]


@pytest.mark.parametrize("method", [*METHODS, GLWS(weights=(0.5, 2.0))], ids=str)
def test_loss_gradient_and_notes_are_those_of_the_method(method: GLWS) -> None:
    learned, drawn = data(1 if method.weights is None else 2), torch.Generator().manual_seed(1)
    graphs = ObjectiveGraphs(method)
    for chosen in torch.arange(12).split(3):
        batch = learned.batch([chosen, torch.tensor([0, 2])][: len(learned.weak)])
        views = {name: torch.randn(len(batch.instances), 2, generator=drawn) for name in ("weak", "strong")}
        answers = [asked(call, batch, views) for call in (method.loss, graphs)]
        for one, other in zip(*answers, strict=True):
            torch.testing.assert_close(one, other)
    assert len(graphs._recorded) < 4  # shapes recur


def asked(call: Callable[..., Tensor | None], batch: object, views: dict[str, Tensor]) -> Sequence[Tensor]:
    leaves = {name: logits.clone().requires_grad_() for name, logits in views.items()}
    step = step_of(batch, leaves)  # type: ignore[arg-type]
    loss = call(step)
    assert loss is not None
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [torch.zeros(1) if leaf.grad is None else leaf.grad for leaf in leaves.values()]
    return [loss.detach(), *gradients, *(step.notes[name] for name in sorted(step.notes))]


def several_classes(kind: type[ClassCounts] | type[PresentClasses]) -> WeakDataset:
    drawn = torch.Generator().manual_seed(3)
    sizes = torch.randint(2, 7, (12,), generator=drawn).tolist()
    groups = [torch.randint(60, (size,), generator=drawn).tolist() for size in sizes]
    labels = torch.randint(3, (60,), generator=drawn)
    flat = torch.cat([labels[group] for group in groups])
    padded = torch.nn.utils.rnn.pad_sequence(list(flat.split(sizes)), batch_first=True)
    return WeakDataset(torch.zeros(60, 1), groups, kind.from_labels(padded, sizes, num_classes=3))


@pytest.mark.parametrize("kind", [ClassCounts, PresentClasses])
@pytest.mark.parametrize("multiclass", ["per_class", "joint", "auto"])
@pytest.mark.parametrize("is_recorded", [True, False])
def test_several_classes_are_asked_about_as_the_method_says(
    kind: type[ClassCounts] | type[PresentClasses],
    multiclass: Multiclass,
    is_recorded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(JointCounts, "solve", solved_by_enumeration)  # its fused kernel needs a GPU
    for form in (Counts, PresenceWeights, JointCounts, PresenceSet):
        monkeypatch.setattr(form, "is_unwatched", lambda form, device: is_recorded)
    method, learned, drawn = (
        GLWS(multiclass=multiclass, e_step="weak", supervised=0.5),
        several_classes(kind),
        torch.Generator().manual_seed(1),
    )
    graphs = ObjectiveGraphs(method)
    for chosen in torch.arange(12).split(3):
        batch = learned.batch([chosen])
        views = {name: torch.randn(len(batch.instances), 3, generator=drawn) for name in ("weak", "strong")}
        for one, other in zip(*(asked(call, batch, views) for call in (method.loss, graphs)), strict=True):
            torch.testing.assert_close(one, other)
    assert bool(graphs._recorded) == is_recorded


def solved_by_enumeration(form: JointCounts, potentials: Tensor, lengths: Tensor) -> Answer:
    automata = spelled_out(form, lengths)
    return by_enumeration(automata, potentials, lengths)


def test_the_host_does_the_sums_of_what_it_has_to_look_at() -> None:
    groups = torch.arange(40).view(4, 10)
    learned = WeakDataset(
        torch.zeros(50, 1),
        [groups, torch.arange(40, 50)[:, None]],
        [Unlabeled.of([0.3, 0.3, 0.6, 0.6]), Labels.of([1] * 10, 2)],
    )
    batch, drawn = learned.batch([torch.tensor([0, 3]), torch.arange(4)]), torch.Generator().manual_seed(5)
    views = {"strong": torch.randn(len(batch.instances), 2, generator=drawn)}
    method = GLWS(weights=(1.0, 0.2), start_epochs=0)
    graphs = ObjectiveGraphs(method)
    for one, other in zip(*(asked(call, batch, views) for call in (method.loss, graphs)), strict=True):
        torch.testing.assert_close(one, other)
    assert not graphs._recorded


def test_evidence_and_first_guesses_are_left_to_the_method() -> None:
    labels = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2), torch.zeros(2, 2))
    step = step_of(labels.batch([torch.arange(2)]), {"strong": torch.zeros(2, 2), "weak": torch.zeros(2, 2)})
    assert ObjectiveGraphs(GLWS())(step) is None
    unlabeled = WeakDataset(torch.zeros(4, 1), [[0, 1, 2, 3]], Unlabeled.of([0.5]))
    step = step_of(unlabeled.batch([torch.arange(1)]), {"strong": torch.zeros(4, 2)})
    assert ObjectiveGraphs(GLWS(start_epochs=1))(step) is None
