"""PiCO: the worked step, slow oracles of its parts, the order of its state, and digits learned."""

import math
from dataclasses import replace

import pytest
import torch
from methods.driving import accuracy, network_of, setup_of, train
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from glws.data import WeakDataset
from glws.data.weaken import partial_labels
from glws.errors import DataError
from glws.kinds import Labels, PartialLabels
from glws.methods import Outputs, Progress, Setup, Step
from glws.methods._confidence_table import CONFIDENCES
from glws.methods._pico import (
    HEAD,
    PROTOTYPES,
    QUEUE,
    QUEUE_LABELS,
    QUEUE_PLACE,
    PiCO,
    class_contrast,
    instance_contrast,
    updated_prototypes,
)
from glws.models import build
from glws.training import Observer, Snapshots, Training, TrainingConfig, World

# The worked step: two instances, three classes, two dimensions, a queue of three.
SETS = torch.tensor([[1, 1, 0], [0, 1, 1]])
LOGITS = torch.tensor([[1, 0.5, 2], [0.2, 0.1, -0.4]], dtype=torch.float64)
QUERIES = torch.tensor([[0.6, 0.8], [0.8, -0.6]], dtype=torch.float64)
KEYS = torch.tensor([[0.8, 0.6], [1, 0]], dtype=torch.float64)
SMALL = PiCO(queue_size=3, dimension=2)
SIZES = "queue_size and dimension must be at least 1 and temperature above 0"
STARTED = Progress(step=1, num_steps=8, epoch=1, num_epochs=8)


def worked_state() -> dict[str, Tensor]:
    return {
        CONFIDENCES: SETS.double() / 2,
        QUEUE: torch.tensor([[0, 1], [-0.6, 0.8], [0, -1]], dtype=torch.float64),
        QUEUE_LABELS: torch.tensor([0, 2, 1]),
        QUEUE_PLACE: torch.tensor(0),
        PROTOTYPES: torch.tensor([[0, 1], [1, 0], [-1, 0]], dtype=torch.float64),
    }


def data_of(sets: object) -> WeakDataset:
    weak = PartialLabels.of(sets)
    return WeakDataset(torch.zeros(len(weak), 1), torch.arange(len(weak))[:, None], weak)


def same_head() -> nn.ModuleDict:
    return nn.ModuleDict({HEAD: nn.Identity()})


def step_with(
    data: WeakDataset,
    logits: Tensor,
    queries: Tensor,
    keys: Tensor,
    state: dict[str, Tensor],
    progress: Progress = STARTED,
    chosen: Tensor | None = None,
) -> Step:
    """A step whose features are the embeddings themselves."""
    return Step(
        batch=data.batch([torch.arange(len(data)) if chosen is None else chosen]),
        network=lambda _: Outputs(logits, queries),
        view=lambda name: torch.zeros(1),
        averaged=lambda _: Outputs(torch.zeros_like(logits), keys),
        state=state,
        modules=same_head(),
        averaged_modules=same_head(),
        progress=progress,
    )


def worked_step(progress: Progress = STARTED, **changed: Tensor) -> Step:
    parts = {"logits": LOGITS, "queries": QUERIES, "keys": KEYS} | changed
    return step_with(data_of(SETS), **parts, state=worked_state(), progress=progress)


def close(found: object, wanted: object, tolerance: float = 1e-6) -> None:
    """Worked numbers have six digits."""
    pair = [torch.as_tensor(values, dtype=torch.float64) for values in (found, wanted)]
    torch.testing.assert_close(*pair, rtol=0, atol=tolerance)


def small_setup(data: WeakDataset, num_features: int = 4) -> Setup:
    classes = data.weak[0].num_classes
    return Setup(data, classes, num_features, torch.device("cpu"), torch.Generator().manual_seed(0))


# ------------------------------------------------------------ the worked step


def test_a_step_is_the_worked_one() -> None:
    step = worked_step()
    close(SMALL.loss(step), 2.150983)
    close(step.notes["classification"], 1.468473)
    close(step.notes["contrast"], 1.365022)
    close(step.state[CONFIDENCES], [[0.525, 0.475, 0], [0, 0.525, 0.475]])
    close(step.state[PROTOTYPES], [[0.006012, 0.999982], [0.999982, -0.006012], [-1, 0]])
    close(step.state[QUEUE], [[0.8, 0.6], [1, 0], [0, -1]])
    assert step.state[QUEUE_LABELS].tolist() == [0, 1, 1]  # the best candidates: class 2 is outside the first set
    assert step.state[QUEUE_PLACE] == 2


def test_the_loss_of_each_instance_is_the_worked_one() -> None:
    for row, wanted in enumerate([1.701869, 1.235076]):
        one = slice(row, row + 1)
        state = worked_state() | {CONFIDENCES: SETS[one].double() / 2}
        step = step_with(data_of(SETS[one]), LOGITS[one], QUERIES[one], KEYS[one], state)
        SMALL.loss(step)
        close(step.notes["classification"], wanted)
    pool, pool_labels = torch.cat([QUERIES, KEYS, worked_state()[QUEUE]]), torch.tensor([0, 1, 0, 1, 0, 2, 1])
    for row, wanted in enumerate([1.245056, 1.484987]):
        order = torch.tensor([row, 1 - row, *range(2, 7)])  # a query alone: itself first in its pool
        found = class_contrast(
            QUERIES[row : row + 1], pool_labels[row : row + 1], pool[order], pool_labels[order], temperature=0.07
        )
        close(found, wanted)
    for row, wanted in enumerate([0.096911, 0.055844]):
        one = slice(row, row + 1)
        close(instance_contrast(QUERIES[one], KEYS[one], worked_state()[QUEUE], 0.07), wanted)


def test_while_warming_up_the_contrast_is_that_of_moco_and_targets_stay() -> None:
    step = worked_step(Progress(epoch=0, num_epochs=8))
    loss = SMALL.loss(step)
    even = -(SETS / 2 * LOGITS.log_softmax(1)).sum(1).mean()
    close(step.notes["contrast"], 0.076377)
    close(loss, even + 0.5 * 0.076377)
    close(step.state[CONFIDENCES], SETS / 2)
    close(step.state[PROTOTYPES], [[0.006012, 0.999982], [0.999982, -0.006012], [-1, 0]])
    assert step.state[QUEUE_LABELS].tolist() == [0, 1, 1]


def test_the_momentum_of_the_targets_in_an_epoch_is_that_of_the_epoch_before() -> None:
    for epoch, momentum in [(1, 0.95), (2, 0.95 - 0.15 / 8), (8, 0.95 - 0.15 * 7 / 8)]:
        step = worked_step(Progress(epoch=epoch, num_epochs=8))
        SMALL.loss(step)
        close(step.state[CONFIDENCES][0], [1 - momentum / 2, momentum / 2, 0])


def test_the_nearest_prototype_is_that_before_it_moves() -> None:
    """The query would pull its own prototype to itself first, if it moved first."""
    queries = torch.tensor([[0.0, 1.0], [0.8, -0.6]], dtype=torch.float64)
    step = worked_step(queries=queries)
    step.state[PROTOTYPES] = torch.tensor([[0.6, 0.8], [0.5, math.sqrt(0.75)], [-1, 0]], dtype=torch.float64)
    replace(SMALL, prototype_momentum=0.01).loss(step)
    close(step.state[CONFIDENCES][0], [0.475, 0.525, 0])  # class 1 was nearer, class 0 is the best candidate


# ------------------------------------------------------------ slow oracles


@pytest.mark.parametrize("seed", range(3))
def test_prototypes_move_one_instance_after_another(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    prototypes = functional.normalize(torch.randn(4, 3, generator=source, dtype=torch.float64))
    queries = functional.normalize(torch.randn(9, 3, generator=source, dtype=torch.float64))
    labels = torch.randint(3, (9,), generator=source)
    slow = prototypes.clone()
    for query, label in zip(queries, labels.tolist(), strict=True):
        slow[label] = 0.7 * slow[label] + 0.3 * query
    close(updated_prototypes(prototypes, queries, labels, 0.7), slow / slow.norm(dim=1, keepdim=True), 1e-12)
    assert updated_prototypes(torch.zeros(4, 3), queries[:0].float(), labels[:0], 0.7).equal(torch.zeros(4, 3))


def slow_contrast(
    queries: Tensor, labels: list[int], pool: Tensor, pool_labels: list[int], temperature: float
) -> float:
    total = 0.0
    for i, query in enumerate(queries):
        others = [a for a in range(len(pool)) if a != i]
        scores = {a: float(query @ pool[a]) / temperature for a in others}
        log_sum = math.log(sum(math.exp(score) for score in scores.values()))
        positives = [a for a in others if pool_labels[a] == labels[i]]
        total -= sum(scores[a] - log_sum for a in positives) / len(positives)
    return total / len(queries)


@pytest.mark.parametrize("seed", range(3))
def test_the_contrast_is_the_mean_over_positives_of_their_shares_in_the_pool(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    points = functional.normalize(torch.randn(14, 3, generator=source, dtype=torch.float64))
    labels = torch.randint(3, (5,), generator=source)
    pool_labels = torch.cat([labels, labels, torch.tensor([-1, 0, 2, -1])])
    found = class_contrast(points[:5], labels, points, pool_labels, 0.3)
    close(found, slow_contrast(points[:5], labels.tolist(), points, pool_labels.tolist(), 0.3), 1e-12)


def test_the_queue_goes_round_and_keeps_the_newest() -> None:
    method, kept = PiCO(queue_size=5, dimension=2), []
    data = data_of([[1, 1, 0]] * 8)
    state = method.init(small_setup(data))
    start = state[QUEUE].clone()
    source = torch.Generator().manual_seed(4)
    for size in (2, 2, 2, 8, 1, 3):
        keys = functional.normalize(torch.randn(size, 2, generator=source))
        logits = torch.randn(size, 3, generator=source)
        method.loss(step_with(data, logits, keys, keys, state, STARTED, torch.arange(size)))
        kept += list(zip(keys, logits[:, :2].argmax(1).tolist(), strict=True))
        newest = list(enumerate(kept))[-5:]
        for number, (key, label) in newest:
            close(state[QUEUE][number % 5], key)
            assert state[QUEUE_LABELS][number % 5] == label
        for number in range(len(kept), 5):
            assert state[QUEUE][number].equal(start[number])
            assert state[QUEUE_LABELS][number] == -1
        assert state[QUEUE_PLACE] == len(kept) % 5


# ------------------------------------------------------------ heads, gradients, what every method must stand


def test_the_start_is_even_targets_unit_directions_without_label_and_equal_heads() -> None:
    data = data_of([[1, 1, 0], [1, 0, 0]])
    method = PiCO(queue_size=6, dimension=3)
    state, modules = method.init(small_setup(data)), method.modules(small_setup(data))
    close(state[CONFIDENCES], [[0.5, 0.5, 0], [1, 0, 0]])
    close(state[QUEUE].norm(dim=1), torch.ones(6))
    assert state[QUEUE_LABELS].tolist() == [-1] * 6
    assert state[PROTOTYPES].equal(torch.zeros(3, 3))
    assert {values.dtype for values in state.values()} == {torch.float32, torch.int64}
    assert all(values.requires_grad for values in modules.parameters())
    assert modules[HEAD](torch.zeros(2, 4)).shape == (2, 3)


def test_one_moving_average_of_constant_decay_holds_the_network_and_the_head() -> None:
    method = PiCO(key_momentum=0.75, queue_size=8, dimension=2)
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    data = WeakDataset(x, torch.arange(16)[:, None], PartialLabels.of([[1, 1, 0], [0, 1, 1]] * 8))
    config = TrainingConfig(epochs=1, batch_size=4, learning_rate=0.1, device="cpu")
    training = Training(build("mlp", [3], 3, hidden=[5]), data, method, config, None, World())
    assert training.averaged is not None
    pairs = [(training.averaged, training.model), (training.averaged_modules, training.modules)]
    expected = [[weight.detach().clone() for weight in model.parameters()] for _, model in pairs]
    assert all(expected)

    def follow(step: int) -> None:
        for averages, (_, model) in zip(expected, pairs, strict=True):
            for mine, weight in zip(averages, model.parameters(), strict=True):
                mine.mul_(0.75).add_(weight.detach(), alpha=0.25)

    observer = Observer()
    observer.stepped = follow  # type: ignore[method-assign]
    training.run(None, None, Snapshots(None), observer)
    for averages, (copy, model) in zip(expected, pairs, strict=True):
        for mine, found, weight in zip(averages, copy.parameters(), model.parameters(), strict=True):
            close(found, mine, 1e-5)
            assert not found.requires_grad
            assert not found.equal(weight)


def test_gradients_go_through_logits_and_queries_and_not_into_keys_or_state() -> None:
    data = data_of(SETS)
    moving = [values.clone().requires_grad_() for values in (LOGITS, QUERIES, KEYS)]
    step = step_with(data, *moving, state=worked_state())
    SMALL.loss(step).backward()
    assert all(values.grad is not None and values.grad.abs().sum() > 0 for values in moving[:2])
    assert moving[2].grad is None
    assert not any(values.requires_grad for values in step.state.values())


def test_the_gradient_goes_through_queries_in_the_pool_too() -> None:
    """Both instances with the same best candidate: each is a positive of the other. Compared with differences."""
    sets, logits = torch.tensor([[1, 1, 0], [1, 1, 0]]), LOGITS[[0, 0]]
    turned = torch.tensor([0.3, -1.1], dtype=torch.float64, requires_grad=True)

    def loss_at(angles: Tensor) -> Tensor:
        queries = torch.stack([angles.cos(), angles.sin()], 1)
        return SMALL.loss(step_with(data_of(sets), logits, queries, KEYS, worked_state()))

    (slope,) = torch.autograd.grad(loss_at(turned), turned)
    for place in range(2):
        step = 1e-6 * functional.one_hot(torch.tensor(place), 2).double()
        difference = (loss_at(turned.detach() + step) - loss_at(turned.detach() - step)) / 2e-6
        close(slope[place], difference, 1e-7)


def test_with_labels_the_classification_is_the_cross_entropy() -> None:
    labels = torch.tensor([2, 0])
    data = data_of(functional.one_hot(labels, 3))
    state = worked_state() | {CONFIDENCES: functional.one_hot(labels, 3).float()}
    step = step_with(data, LOGITS, QUERIES, KEYS, state)
    SMALL.loss(step)
    close(step.notes["classification"], functional.cross_entropy(LOGITS, labels), 1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epoch", [0, 1])
def test_loss_gradient_and_state_are_finite_at_extreme_logits(dtype: torch.dtype, epoch: int) -> None:
    data = data_of([[0, 1, 1], [1, 0, 0], [1, 1, 1]])
    method = PiCO(queue_size=4, dimension=2)
    logits = torch.tensor([[50, -50, 0], [-50, 50, 50], [-50, -50, 50]], dtype=dtype, requires_grad=True)
    features = torch.tensor([[1.0, 0, 0, 0], [0, 0, 0, 0], [50, -50, 50, 0]], dtype=dtype, requires_grad=True)
    step = step_with(data, logits, features, features, method.init(small_setup(data)), Progress(epoch=epoch))
    step.modules = step.averaged_modules = method.modules(small_setup(data))
    loss = method.loss(step)
    slopes = torch.autograd.grad(loss, [logits, features])
    assert loss.dtype == dtype
    assert loss.isfinite()
    assert all(slope.isfinite().all() for slope in slopes)
    assert all(values.isfinite().all() for values in step.state.values())


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_batch_of_nothing_costs_nothing(epoch: int) -> None:
    state = worked_state()
    nothing = [values[:0].clone().requires_grad_() for values in (LOGITS, QUERIES, KEYS)]
    step = step_with(data_of(SETS), *nothing, state, Progress(epoch=epoch), torch.arange(0))
    loss = SMALL.loss(step)
    loss.backward()
    assert loss == 0
    for name, before in worked_state().items():
        close(step.state[name], before, 1e-12)


def test_rows_outside_the_batch_stay_and_an_instance_with_two_sets_has_two_rows() -> None:
    sets = torch.tensor([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]])
    data = WeakDataset(torch.zeros(2, 1), [[1], [0], [1], [0]], PartialLabels.of(sets))
    state = worked_state() | {CONFIDENCES: sets / sets.sum(1, keepdim=True)}
    step = step_with(data, LOGITS, QUERIES, KEYS, state, STARTED, torch.tensor([0, 2, 1]))
    SMALL.loss(step)
    even = sets / sets.sum(1, keepdim=True)
    assert state[CONFIDENCES][3].equal(even[3])
    rows, guesses = torch.tensor([0, 1, 2]), [1, 1, 0]  # prototypes 1, 0, 2 are near instance 1, and 0, 1, 2 instance 0
    close(state[CONFIDENCES][rows], 0.95 * even[rows] + 0.05 * functional.one_hot(torch.tensor(guesses), 3))


def test_other_kinds_are_refused_in_one_line() -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2))
    with pytest.raises(DataError) as caught:
        PiCO().check(data)
    takes = "a set of candidate classes for each instance (PartialLabels)"
    assert str(caught.value) == f"PiCO learns from {takes}, found Labels"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue_size": 0}, f"{SIZES}, found 0, 128 and 0.07"),
        ({"key_momentum": 1.0}, "key_momentum must be at least 0 and less than 1, found 1"),
        ({"temperature": 0.0}, f"{SIZES}, found 8192, 128 and 0.0"),
        ({"target_momentum": (0.9,)}, "target_momentum must be two numbers, found [0.9]"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as caught:
        PiCO(**options)
    assert str(caught.value) == f"PiCO: {message}"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_gpu_gives_the_same_step(epoch: int) -> None:
    here, there = worked_step(Progress(epoch=epoch)), worked_step(Progress(epoch=epoch))
    there.network = lambda _: Outputs(LOGITS.cuda(), QUERIES.cuda())
    there.averaged = lambda _: Outputs(LOGITS.cuda(), KEYS.cuda())
    there.state = {name: values.cuda() for name, values in there.state.items()}
    close(SMALL.loss(there).cpu(), SMALL.loss(here), 1e-9)
    for name, values in here.state.items():
        close(there.state[name].cpu(), values, 1e-9)
    data = data_of(SETS)
    setup = replace(small_setup(data), device=torch.device("cuda"))
    assert all(values.is_cuda for values in SMALL.init(setup).values())
    assert all(values.is_cuda for values in SMALL.modules(setup).parameters())


@pytest.mark.slow
def test_digits_are_learned_from_candidate_sets() -> None:
    pixels, labels = (torch.as_tensor(values) for values in load_digits(return_X_y=True))
    pixels = (pixels / 16).float()
    drawn = partial_labels(labels[:1400], 10, 0.3, generator=torch.Generator().manual_seed(0))
    data = WeakDataset(pixels[:1400], drawn.groups, drawn.weak)
    noise = torch.Generator().manual_seed(1)
    model = build("mlp", [64], 10, hidden=[64])
    assert network_of(model)(pixels[:2]).features.shape == (2, setup_of(data, model).num_features)
    train(
        PiCO(queue_size=512, dimension=32, key_momentum=0.9),
        data,
        model,
        num_epochs=12,
        num_batches=14,
        learning_rate=0.005,
        view=lambda x, name: x + 0.1 * torch.randn(x.shape, generator=noise),
        averaged=model,
    )
    assert accuracy(model, pixels[1400:], labels[1400:]) > 0.8  # chance is 0.1
