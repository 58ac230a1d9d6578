"""Recorded steps against launched ones: with a stand-in for CUDA graphs that calls what it is given, and with them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from glws._objective import Multiclass
from glws.data import Batch, WeakDataset
from glws.data.augment import Views, views
from glws.inference import Counts, JointCounts, PresenceSet, Solution
from glws.inference._automata_form import as_automata, by_enumeration
from glws.kinds import (
    ClassCounts,
    ExpectedCount,
    Labels,
    MultiInstance,
    PairSimilarity,
    PartialLabels,
    PresentClasses,
    Proportions,
    Unlabeled,
)
from glws.methods import GLWS, AbstractMethod, Progress, Recording, Step, Supervised, method_class
from glws.methods import METHODS as METHODS_BY_NAME
from glws.methods._partial import CC
from glws.models import build
from glws.training import Training, TrainingConfig, World
from glws.training import _step_graphs as step_graphs
from glws.training._step_graphs import Packed, StepGraphs

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class CalledAgain:
    """Instead of `GraphReplay`: what it reads may change in place between calls, and nothing else."""

    def __init__(self, function: Callable[[], tuple[Tensor, ...]], generators: Sequence[torch.Generator] = ()) -> None:
        self.function = function
        function()

    def again(self) -> tuple[Tensor, ...]:
        return self.function()


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything can be recorded, by calling it."""
    monkeypatch.setattr(step_graphs, "GraphReplay", CalledAgain)
    monkeypatch.setattr("glws.inference._forms.AbstractForm.is_capturable", lambda form, device: True)
    for kind in (Counts, JointCounts, PresenceSet, ExpectedCount):
        monkeypatch.setattr(kind, "is_capturable", lambda form, device: True)


def bags(num_classes: int, weak: Callable[[Tensor, list[int]], Any], width: int = 5) -> WeakDataset:
    drawn = torch.Generator().manual_seed(3)
    sizes = torch.randint(2, 7, (12,), generator=drawn).tolist()
    groups = [torch.randint(60, (size,), generator=drawn).tolist() for size in sizes]
    labels = torch.randint(num_classes, (60,), generator=drawn)
    padded = torch.nn.utils.rnn.pad_sequence([labels[group] for group in groups], batch_first=True)
    return WeakDataset(torch.randn(60, width, generator=drawn), groups, weak(padded, sizes))


def counts() -> WeakDataset:
    return bags(2, Proportions.from_labels)


def counts_and_candidates() -> WeakDataset:
    one, candidates = counts(), PartialLabels.of(torch.tensor([[1, 0], [1, 1], [0, 1]]).bool())
    return WeakDataset(one.instances, [one.groups[0], [[3], [5], [9]]], [one.weak[0], candidates])


def trained(
    method: AbstractMethod,
    data: WeakDataset,
    is_recorded: bool,
    steps: int = 7,
    look: Views | None = None,
    **config: Any,
) -> Training:
    shape = data.instances.take(torch.zeros(1, dtype=torch.int64)).shape[1:]
    model = build("linear" if len(shape) == 1 else "lenet5", shape, data.weak[0].num_classes, torch.Generator())
    training = Training(
        model,
        data,
        method,
        TrainingConfig(**{"batch_size": 3, "learning_rate": 0.05, "precision": "float64", "device": "cpu", **config}),
        look,
        World(),
    )
    if is_recorded:
        values = data.instances.take(torch.arange(len(data.instances)))
        forward, teacher, clip = training._forward, training._teacher, training.config.clip
        training._steps = StepGraphs(method, forward, teacher, training.views, values, clip)
    training._begin_epoch()
    for _ in range(steps):
        training._train_step()
    return training


def same(one: Training, other: Training) -> None:
    for first, second in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(first, second)
    assert one.meters.means() == pytest.approx(other.meters.means(), rel=1e-5)
    torch.testing.assert_close(one.meters.predicted_rates(), other.meters.predicted_rates())


METHODS = [
    GLWS(e_step="weak", supervised=1.0),
    GLWS(),
    GLWS(m_step="weak"),
    GLWS(supervised=0.3, reduction="group"),
    GLWS(e_step="teacher", supervised=1.0),
]


@pytest.mark.usefixtures("called")
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_a_recorded_step_learns_and_notes_what_a_launched_one_does(method: GLWS, clip: float | None) -> None:
    recorded, launched = (trained(method, counts(), one, clip=clip) for one in (True, False))
    same(recorded, launched)
    assert 0 < len(recorded._steps._recorded) < 7  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class Marks:
    """Labels as tensors, for a method that no catalog knows."""

    labels: Tensor

    def is_capturable(self, device: torch.device) -> bool:
        return True

    def tensors(self) -> list[Tensor]:
        return [self.labels]

    def with_tensors(self, left: Iterator[Tensor]) -> "Marks":
        return Marks(next(left))


@dataclass(frozen=True)
class Squares(AbstractMethod):
    """Squared errors, the class 0 where the label is not known."""

    summary: ClassVar[str] = "squared errors"
    takes: ClassVar[str] = "true labels"

    def loss(self, step: Step) -> Tensor:
        (part,) = step.batch.parts
        predicted = step.logits("strong").softmax(-1)[part.rows[:, 0]]
        labels: Tensor = part.weak.labels.to(predicted.device)  # type: ignore[attr-defined]
        errors = predicted - one_hot(labels.clamp_min(0), 3)
        return (errors**2).sum(1).mean()

    def recording(self, batch: Batch, progress: Progress) -> Recording:
        return Recording(("strong",), (Marks(batch.parts[0].weak.labels),), lambda placed: placed)  # type: ignore[attr-defined]


def labels() -> WeakDataset:
    drawn = torch.Generator().manual_seed(4)
    known = torch.randint(-1, 3, (40,), generator=drawn)
    return WeakDataset(torch.randn(40, 5, generator=drawn), torch.arange(40)[:, None], Labels.of(known, 3))


@pytest.mark.usefixtures("called")
@pytest.mark.parametrize("method", [Supervised(), Squares()], ids=str)
def test_any_method_that_says_what_it_reads_is_recorded(method: AbstractMethod) -> None:
    recorded, launched = (trained(method, labels(), one, batch_size=10) for one in (True, False))
    same(recorded, launched)
    assert len(recorded._steps._recorded) == 1  # type: ignore[union-attr]


@pytest.mark.usefixtures("called")
def test_a_method_that_says_nothing_is_run_eagerly() -> None:
    silent = CC()
    assert silent.recording(counts().batch([torch.arange(2)]), Progress()) is None
    candidates = PartialLabels.of(torch.rand(12, 3, generator=torch.Generator().manual_seed(1)) < 0.7)
    data = WeakDataset(torch.randn(12, 5), torch.arange(12)[:, None], candidates)
    training = trained(silent, data, is_recorded=True)
    assert not training._steps._recorded  # type: ignore[union-attr]


def test_the_trainer_knows_no_method_by_its_name() -> None:
    names = {method_class(name).__name__ for name in METHODS_BY_NAME}
    for path in Path(step_graphs.__file__).parent.glob("*.py"):
        tree = list(ast.walk(ast.parse(path.read_text())))
        used = {node.id for node in tree if isinstance(node, ast.Name)}
        used |= {alias.name for node in tree if isinstance(node, ast.ImportFrom) for alias in node.names}
        assert not names & used, path.name


@pytest.mark.usefixtures("called")
def test_several_kinds_are_recorded_together() -> None:
    same(*(trained(GLWS(weights=(0.5, 2.0)), counts_and_candidates(), one) for one in (True, False)))


@pytest.mark.usefixtures("called")
def test_views_are_drawn_from_the_seeds_of_the_step() -> None:
    drawn = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (32, 1, 28, 28), dtype=torch.uint8, generator=drawn)
    pairs = torch.randperm(32, generator=drawn).view(16, 2)
    data = WeakDataset(images, pairs, PairSimilarity.of(torch.rand(16, generator=drawn) < 0.5, 2))
    method = GLWS(e_step="weak", supervised=1.0)
    same(*(trained(method, data, one, steps=4, look=views("mnist"), batch_size=4) for one in (True, False)))


@pytest.mark.usefixtures("called")
@pytest.mark.parametrize("kind", [ClassCounts, PresentClasses])
@pytest.mark.parametrize("multiclass", ["per_class", "joint", "auto"])
def test_several_classes_are_asked_about_as_the_method_says(
    kind: type[ClassCounts] | type[PresentClasses], multiclass: Multiclass, monkeypatch: pytest.MonkeyPatch
) -> None:
    for form in (JointCounts, PresenceSet):
        monkeypatch.setattr(form, "solution", solved_by_enumeration)  # their fused kernels need a GPU
    method = GLWS(multiclass=multiclass, e_step="weak", supervised=0.5)
    data = bags(3, lambda labels, sizes: kind.from_labels(labels, sizes, num_classes=3))
    recorded, launched = (trained(method, data, one) for one in (True, False))
    same(recorded, launched)
    assert recorded._steps._recorded  # type: ignore[union-attr]


def solved_by_enumeration(form: JointCounts | PresenceSet, potentials: Tensor, lengths: Tensor) -> Solution:
    return Solution(*by_enumeration(as_automata(form, lengths), potentials, lengths))


def test_what_the_host_looks_at_is_launched() -> None:
    unlabeled = WeakDataset(
        torch.randn(24, 3),
        [torch.arange(20).view(4, 5), torch.arange(20, 24)[:, None]],
        [Unlabeled.hypergeometric([0.3] * 4, [20] * 4), Labels.of([1] * 4, 2)],
    )
    training = trained(GLWS(start_epochs=0), unlabeled, is_recorded=True)
    assert training._steps is not None
    assert not training._steps._recorded
    same(training, trained(GLWS(start_epochs=0), unlabeled, is_recorded=False))


@pytest.mark.usefixtures("called")
def test_first_guesses_and_evidence_are_launched() -> None:
    data = WeakDataset(
        torch.randn(24, 3),
        [torch.arange(20).view(4, 5), torch.arange(20, 24)[:, None]],
        [Unlabeled.of([0.3] * 4), Labels.of([1] * 4, 2)],
    )
    training = trained(GLWS(start_epochs=1), data, is_recorded=True, steps=2, batch_size=2)
    assert not training._steps._recorded  # type: ignore[union-attr]
    training._train_step()  # the second epoch
    assert training._steps._recorded  # type: ignore[union-attr]
    told = WeakDataset(torch.randn(3, 3), [[0], [1], [2]], Labels.of([1, 0, 1], 2), torch.randn(3, 2))
    assert not trained(GLWS(), told, is_recorded=True)._steps._recorded  # type: ignore[union-attr]


def test_tensors_of_all_types_are_packed_and_written_again() -> None:
    drawn = torch.Generator().manual_seed(0)

    def some() -> list[Tensor]:
        return [
            torch.randint(100, (5,), generator=drawn),
            torch.rand(3, 2, generator=drawn) < 0.5,
            torch.randn(2, 1, 3, generator=drawn, dtype=torch.float64),
            torch.zeros(0, 4),
            torch.randn(1, 7, generator=drawn).expand(3, -1),
            torch.tensor(3, dtype=torch.int32),
        ]

    place = Packed(some(), torch.device("cpu"))
    for _ in range(2):
        values = some()
        place.fill(values)
        for view, value in zip(place.views, values, strict=True):
            assert torch.equal(view, value)
            assert view.data_ptr() % 8 == 0


# On a GPU


@needs_gpu
@pytest.mark.parametrize("method", [*METHODS, GLWS(start_epochs=0)], ids=str)
@pytest.mark.parametrize("kind", ["counts", "per class", "joint", "presence", "pairs", "expected", "binomial"])
def test_replayed_steps_learn_what_launched_ones_do(method: GLWS, kind: str) -> None:
    if kind == "per class":
        method = GLWS(**{**method.__dict__, "multiclass": "per_class"})
    speeds = [replayed(method, on_gpu(kind), speed) for speed in ("graphs", "eager")]
    assert speeds[0]._steps is not None
    assert speeds[0]._steps._recorded
    same(*speeds)


@needs_gpu
@pytest.mark.parametrize("method", [Supervised(), Squares()], ids=str)
def test_any_method_is_replayed_as_it_is_launched(method: AbstractMethod) -> None:
    speeds = [replayed(method, labels(), speed) for speed in ("graphs", "eager")]
    assert speeds[0]._steps._recorded  # type: ignore[union-attr]
    same(*speeds)


def on_gpu(kind: str) -> WeakDataset:
    if kind == "pairs":
        drawn = torch.Generator().manual_seed(0)
        same = torch.rand(30, generator=drawn) < 0.5
        return WeakDataset(
            torch.randn(60, 5, generator=drawn), torch.arange(60).view(30, 2), PairSimilarity.of(same, 3)
        )
    if kind in ("expected", "binomial"):
        drawn, weak = torch.Generator().manual_seed(0), Unlabeled.of([0.2, 0.7] * 6, count=kind)  # type: ignore[arg-type]
        return WeakDataset(torch.randn(60, 5, generator=drawn), torch.arange(60).view(12, 5), weak)
    if kind in ("per class", "joint"):
        return bags(3, lambda labels, sizes: ClassCounts.from_labels(labels, sizes, num_classes=3))
    if kind == "presence":
        return bags(2, MultiInstance.from_labels)
    return counts()


def replayed(method: AbstractMethod, data: WeakDataset, speed: str) -> Training:
    model = build("linear", (5,), data.weak[0].num_classes, torch.Generator())
    config = TrainingConfig(batch_size=3, learning_rate=0.05, precision="float64", device="cuda", speed=speed)  # type: ignore[arg-type]
    training = Training(model, data, method, config, None, World())
    training._begin_epoch()
    for _ in range(7):
        training._train_step()
    return training
