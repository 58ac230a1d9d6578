"""Complementary labels: worked numbers, slow oracles, the unbiased risk on an exact toy, and digits learned."""

import itertools
import math

import pytest
import torch
from methods.driving import accuracy, setup_of, train
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from glws.data import WeakDataset
from glws.data.weaken import complementary_labels
from glws.errors import DataError
from glws.kinds import Labels, PartialLabels
from glws.methods import AbstractMethod, Step, step_of
from glws.methods._complementary import SHARES, ComplementaryLoss, ComplementaryRisk, class_risks
from glws.methods._partial import CC
from glws.models import build

METHODS = {
    "forward": ComplementaryLoss("forward"),
    "scl_log": ComplementaryLoss("log"),
    "scl_exp": ComplementaryLoss("exp"),
    "free": ComplementaryRisk(),
    "non_negative": ComplementaryRisk("non_negative"),
    "gradient_ascent": ComplementaryRisk("gradient_ascent"),
}
ALL = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)

# Two batches of four instances, three classes that are excluded equally often in the data.
EXCLUDED = [0, 0, 1, 2]
EVEN = {SHARES: torch.full((3,), 1 / 3, dtype=torch.float64)}
FIRST = torch.tensor([[0.5, -0.2, 1], [2, 0.1, -0.3], [0, 0.4, 0.3], [1.2, 0.7, -0.5]], dtype=torch.float64)
SECOND = torch.tensor([[-3, 1, 0.5], [-2.5, 0, 1], [0.3, -2, 0.8], [0.4, 0.7, 0.5]], dtype=torch.float64)


def data_of(weak: PartialLabels) -> WeakDataset:
    return WeakDataset(torch.zeros(len(weak), 1), torch.arange(len(weak))[:, None], weak)


def seen(method: AbstractMethod, weak: PartialLabels, logits: Tensor, state: dict[str, Tensor] | None = None) -> Step:
    data = data_of(weak)
    method.check(data)
    if state is None:
        state = method.init(setup_of(data, build("linear", [1], weak.num_classes)))
    return step_of(data.batch([torch.arange(len(data))]), {"weak": logits}, state=state)


def loss_of(
    method: AbstractMethod, excluded: list[int], logits: Tensor, state: dict[str, Tensor] | None = EVEN
) -> Tensor:
    weak = PartialLabels.complementary(excluded, logits.shape[1])
    return method.loss(seen(method, weak, logits, state))


def gradient(method: AbstractMethod, excluded: list[int], logits: Tensor) -> Tensor:
    moving = logits.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss_of(method, excluded, moving), moving)
    return found


def close(found: object, wanted: object, tolerance: float = 1e-6) -> None:
    """Worked numbers have six digits."""
    pair = [torch.as_tensor(values, dtype=torch.float64) for values in (found, wanted)]
    torch.testing.assert_close(*pair, rtol=0, atol=tolerance)


# ------------------------------------------------------------ worked numbers


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("forward", 1.341116),
        ("scl_log", 0.647969),
        ("scl_exp", 1.545520),
        ("free", 1.237382),
        ("non_negative", 1.237382),
        ("gradient_ascent", 1.237382),
    ],
)
def test_losses_of_the_first_batch_are_the_worked_numbers(name: str, wanted: float) -> None:
    close(loss_of(METHODS[name], EXCLUDED, FIRST), wanted)


def test_losses_of_the_second_batch_are_the_worked_numbers() -> None:
    close(loss_of(ComplementaryRisk(), EXCLUDED, SECOND), -1.112895)
    close(loss_of(ComplementaryRisk("non_negative"), EXCLUDED, SECOND), 0.010551)
    close(loss_of(ComplementaryRisk("gradient_ascent"), EXCLUDED, SECOND), 1.123446)
    close(loss_of(ComplementaryRisk("gradient_ascent", count_weighted=True), EXCLUDED, SECOND), 1.759844)


@pytest.mark.parametrize(
    ("logits", "wanted"), [(FIRST, [0.414410, 0.706775, 0.116198]), (SECOND, [-0.636398, -0.487048, 0.010551])]
)
def test_the_risks_of_the_classes_are_the_worked_numbers(logits: Tensor, wanted: list[float]) -> None:
    step = seen(ComplementaryRisk(), PartialLabels.complementary(EXCLUDED, 3), logits, EVEN)
    close(ComplementaryRisk().loss(step), sum(wanted), 2e-6)  # a sum of three rounded numbers
    close(step.notes["smallest_class_risk"], min(wanted))
    assert step.notes["negative_class_risks"] == sum(risk < 0 for risk in wanted)


def test_the_free_risk_of_one_instance_is_the_worked_number() -> None:
    for row, wanted in enumerate([1.345911, 4.423006, 1.445911, -0.618223]):
        alone = loss_of(ComplementaryRisk(), EXCLUDED[row : row + 1], FIRST[row : row + 1], state=None)
        close(alone, wanted)


# ------------------------------------------------------------ slow oracles and equalities


def slow_risks(logits: list[list[float]], excluded: list[int], shares: list[float]) -> list[float]:
    """R_k, mean by mean."""
    classes = len(shares)
    losses = [[math.log(sum(math.exp(z) for z in row)) - row[k] for k in range(classes)] for row in logits]
    means = [[0.0] * classes for _ in range(classes)]
    for j, k in itertools.product(range(classes), repeat=2):
        chosen = [loss[k] for loss, label in zip(losses, excluded, strict=True) if label == j]
        means[j][k] = sum(chosen) / len(chosen) if chosen else 0.0
    return [
        -(classes - 1) * shares[k] * means[k][k] + sum(shares[j] * means[j][k] for j in range(classes))
        for k in range(classes)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_risks_are_those_written_out_also_with_a_class_missing(seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(6, 4, generator=source, dtype=torch.float64)
    excluded = torch.randint(3, (6,), generator=source).tolist()  # never class 3
    shares = torch.tensor([0.1, 0.4, 0.2, 0.3], dtype=torch.float64)
    risks = slow_risks(logits.tolist(), excluded, shares.tolist())
    below = sum(-risk for risk in risks if risk < 0)
    state = {SHARES: shares}
    close(loss_of(METHODS["free"], excluded, logits, state), sum(risks), 1e-12)
    close(loss_of(METHODS["non_negative"], excluded, logits, state), sum(max(0.0, risk) for risk in risks), 1e-12)
    close(loss_of(METHODS["gradient_ascent"], excluded, logits, state), below if below else sum(risks), 1e-12)


def test_the_shares_are_those_of_the_data_not_of_the_batch() -> None:
    weak = PartialLabels.complementary([0, 0, 1, 2, 1, 2, 2, 2], 3)
    data = data_of(weak)
    state = ComplementaryRisk().init(setup_of(data, build("linear", [1], 3)))
    close(state[SHARES], [0.25, 0.25, 0.5])
    assert state[SHARES].dtype == torch.float32
    step = step_of(data.batch([torch.arange(4)]), {"weak": FIRST}, state=state)
    close(ComplementaryRisk().loss(step), sum(slow_risks(FIRST.tolist(), EXCLUDED, [0.25, 0.25, 0.5])))


def test_forward_and_log_and_cc_have_the_same_gradient_of_one_complementary_label() -> None:
    forward, log, cc = (gradient(method, EXCLUDED, FIRST) for method in (METHODS["forward"], METHODS["scl_log"], CC()))
    close(forward, cc, 1e-12)
    close(log, cc, 1e-12)


def test_gradient_ascent_leaves_the_other_classes_alone() -> None:
    """The slope is that of the negative risks alone, upwards."""
    moving = SECOND.clone().requires_grad_()
    losses = -moving.log_softmax(1)
    means = torch.stack([losses[:2].mean(0), losses[2], losses[3]]) / 3
    negative = sum(means[:, k].sum() - 2 * means[k, k] for k in (0, 1))
    (wanted,) = torch.autograd.grad(-negative, moving)
    close(gradient(METHODS["gradient_ascent"], EXCLUDED, SECOND), wanted, 1e-12)


def test_several_complementary_labels_are_a_set_of_candidates() -> None:
    weak = PartialLabels.of([[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 0]])
    logits = torch.tensor([[0.3, -1, 2, 0.1], [1, 2, 0, 0.5], [0.2, 0.4, -0.6, 1]], dtype=torch.float64)
    p = logits.softmax(1).tolist()
    forward = [-math.log((p[0][0] + p[0][3]) / math.comb(3, 2)), 0.0, -math.log(p[2][2] / math.comb(3, 3))]
    log = [-math.log(1 - p[0][1]) - math.log(1 - p[0][2]), 0.0, -sum(math.log(1 - p[2][k]) for k in (0, 1, 3))]
    exp = [math.exp(p[0][1]) + math.exp(p[0][2]), 0.0, sum(math.exp(p[2][k]) for k in (0, 1, 3))]
    for name, wanted in {"forward": forward, "scl_log": log, "scl_exp": exp}.items():
        method = METHODS[name]
        close(method.loss(seen(method, weak, logits)), sum(wanted) / 3, 1e-12)


def test_the_free_risk_is_the_supervised_risk_on_an_exact_distribution() -> None:
    """Counts of (input, class) on the whole data; each wrong class is excluded equally often."""
    counts = torch.tensor([[4, 2, 6], [2, 10, 0]])
    inputs = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows, labels, excluded = [], [], []
    for x, y in itertools.product(range(2), range(3)):
        for _, wrong in itertools.product(range(int(counts[x, y]) // 2), [k for k in range(3) if k != y]):
            rows, labels, excluded = [*rows, x], [*labels, y], [*excluded, wrong]
    logits = inputs[rows]
    supervised = functional.cross_entropy(logits, torch.tensor(labels))
    close(loss_of(ComplementaryRisk(), excluded, logits, state=None), supervised)
    close(loss_of(METHODS["non_negative"], excluded, logits, state=None), supervised)


def test_the_risk_of_each_class_is_its_share_of_the_supervised_risk() -> None:
    """R_k = p(y = k) E[ℓ_k | y = k], which is why none can be negative."""
    labels = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2])
    excluded = torch.tensor([1, 2, 1, 2, 0, 2, 0, 1])
    logits = torch.tensor([[1.0, 0, 2]] * 4 + [[0.5, 1, 0]] * 2 + [[0, 0.2, 0.4]] * 2, dtype=torch.float64)
    losses = -logits.log_softmax(1)
    shares = torch.bincount(excluded).double() / 8
    wanted = [float(losses[labels == k, k].sum() / 8) for k in range(3)]
    close(class_risks(losses, excluded, shares), wanted, 1e-12)
    close(loss_of(METHODS["gradient_ascent"], excluded.tolist(), logits, state=None), sum(wanted))


# ------------------------------------------------------------ what every method must stand


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_are_finite_at_extreme_logits(method: AbstractMethod, dtype: torch.dtype) -> None:
    logits = torch.tensor([[50, -50, 0], [-50, 50, 50], [-50, -50, 50]], dtype=dtype, requires_grad=True)
    loss = method.loss(seen(method, PartialLabels.complementary([0, 1, 0], 3), logits))
    (slope,) = torch.autograd.grad(loss, logits)
    assert loss.dtype == dtype
    assert loss.isfinite()
    assert slope.isfinite().all()


@ALL
def test_a_batch_of_nothing_costs_nothing(method: AbstractMethod) -> None:
    data = data_of(PartialLabels.complementary(EXCLUDED, 3))
    logits = torch.zeros(0, 3, requires_grad=True)
    step = step_of(data.batch([torch.arange(0)]), {"weak": logits}, state=EVEN)
    loss = method.loss(step)
    loss.backward()
    assert loss == 0


@ALL
def test_an_instance_may_have_several_complementary_labels_in_groups_of_their_own(method: AbstractMethod) -> None:
    weak = PartialLabels.complementary(EXCLUDED, 3)
    twice = WeakDataset(torch.zeros(2, 1), [[1], [0], [1], [1]], weak)
    batch = twice.batch([torch.arange(4)])
    found = method.loss(step_of(batch, {"weak": FIRST[:2]}, state=EVEN))
    close(found, loss_of(method, EXCLUDED, FIRST[[1, 0, 1, 1]]), 1e-12)


@ALL
def test_other_kinds_are_refused_in_one_line(method: AbstractMethod) -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2))
    with pytest.raises(DataError) as caught:
        method.check(data)
    assert str(caught.value) == f"{type(method).__name__} learns from {method.takes} (PartialLabels), found Labels"


def test_the_unbiased_risk_needs_exactly_one_complementary_label() -> None:
    data = data_of(PartialLabels.of([[1, 1, 0], [1, 0, 0]]))
    with pytest.raises(DataError) as caught:
        ComplementaryRisk().check(data)
    assert str(caught.value) == (
        "group 1: ComplementaryRisk takes one complementary label for each instance, found 2 excluded classes; "
        "ComplementaryLoss and CC take any number"
    )
    with pytest.raises(DataError, match=r"group 0: .* found 0 excluded classes"):
        ComplementaryRisk().check(data_of(PartialLabels.of([[1, 1, 1]])))
    ComplementaryLoss().check(data)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@ALL
def test_a_gpu_gives_the_same_losses(method: AbstractMethod) -> None:
    moved = {SHARES: EVEN[SHARES].cuda()}
    close(loss_of(method, EXCLUDED, SECOND.cuda(), moved).cpu(), loss_of(method, EXCLUDED, SECOND), 1e-9)


@pytest.mark.slow
@ALL
def test_five_digits_are_learned_from_what_they_are_not(method: AbstractMethod) -> None:
    pixels, labels = (torch.as_tensor(values) for values in load_digits(n_class=5, return_X_y=True))
    pixels = (pixels / 16).float()
    drawn = complementary_labels(labels[:700], 5, generator=torch.Generator().manual_seed(0))
    data = WeakDataset(pixels[:700], drawn.groups, drawn.weak)
    model = build("mlp", [64], 5, hidden=[32])
    train(method, data, model, num_epochs=30, num_batches=7, learning_rate=0.002)
    assert accuracy(model, pixels[700:], labels[700:]) > 0.6  # chance is 0.2
