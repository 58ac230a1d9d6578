"""CC, RC, PRODEN, LWS, LWC and RCR: worked numbers, slow oracles, the equalities between them, and digits learned."""

import itertools
import math
from functools import partial

import pytest
import torch
from methods.driving import accuracy, setup_of, train
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn import functional

from glws import em_loss
from glws.data import WeakDataset
from glws.data.weaken import partial_labels
from glws.errors import DataError
from glws.kinds import Labels, PartialLabels
from glws.methods import AbstractMethod, Outputs, Progress, Step, step_of
from glws.methods._confidence_table import CONFIDENCES
from glws.methods._partial import CC, RCR, LeveragedWeighted, WeightedCandidates
from glws.models import build

RC = partial(WeightedCandidates, weights_from="fresh_pass")
METHODS = {
    "cc": CC(),
    "rc": RC(),
    "proden": WeightedCandidates(),
    "lws": LeveragedWeighted("lws"),
    "lwc": LeveragedWeighted("lwc"),
    "released lws": LeveragedWeighted("glws"),
    "rcr": RCR(ramp_epochs=0),
}
ALL = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)

# The worked example: two instances, four classes, and what the network says at the next visit and in other views.
SETS = [[1, 1, 0, 0], [0, 1, 1, 1]]
NOW = torch.tensor([[2.0, 1.0, 0.5, -1.0], [0.2, -0.3, 0.4, 0.1]], dtype=torch.float64)
NEXT = torch.tensor([[2.5, 0.5, 0.0, -1.0], [0.0, -0.5, 0.9, 0.1]], dtype=torch.float64)
STRONG = torch.tensor([[1.5, 1.2, 0.1, -0.5], [0.0, -0.2, 0.6, 0.3]], dtype=torch.float64)
STRONG_2 = torch.tensor([[1.0, 1.4, 0.0, -0.8], [0.3, -0.6, 0.2, 0.5]], dtype=torch.float64)
VIEWS = {"weak": NOW, "strong": STRONG, "strong_2": STRONG_2}


def data_of(sets: object) -> WeakDataset:
    weak = PartialLabels.of(sets)
    return WeakDataset(torch.zeros(len(weak), 1), torch.arange(len(weak))[:, None], weak)


def state_of(method: AbstractMethod, data: WeakDataset) -> dict[str, Tensor]:
    return method.init(setup_of(data, build("linear", [1], data.weak[0].num_classes)))


def seen(method: AbstractMethod, data: WeakDataset, logits: object, state: object = None, **others: object) -> Step:
    """All the data as one batch, with these logits in every view, or in each view its own."""
    views = logits if isinstance(logits, dict) else dict.fromkeys(VIEWS, logits)
    batch = data.batch([torch.arange(len(data))])
    return step_of(batch, views, state=state_of(method, data) if state is None else state, **others)


def loss_of(method: AbstractMethod, sets: object, logits: object, **others: object) -> Tensor:
    return method.loss(seen(method, data_of(sets), logits, **others))


def gradient(method: AbstractMethod, sets: object, logits: Tensor, **others: object) -> Tensor:
    moving = logits.clone().requires_grad_()
    (found,) = torch.autograd.grad(loss_of(method, sets, moving, **others), moving)
    return found


def close(found: object, wanted: object, tolerance: float = 1e-6) -> None:
    """Worked numbers have six digits."""
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        torch.as_tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=tolerance,
    )


def random_problem(seed: int, groups: int = 7, classes: int = 5) -> tuple[Tensor, Tensor]:
    """Candidate sets, one of them full and one of a single class, and uneven logits."""
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (groups,), generator=source)
    sets = PartialLabels.from_labels(labels, classes, 0.4, generator=source).candidates
    sets[0], sets[1] = True, functional.one_hot(labels[1], classes).bool()
    return sets, 2 * torch.randn(groups, classes, generator=source, dtype=torch.float64)


# ------------------------------------------------------------ worked numbers


def test_cc_is_the_worked_number() -> None:
    for row, wanted in enumerate([0.181920, 0.311835]):
        close(loss_of(CC(), SETS[row : row + 1], NOW[row : row + 1]), wanted)
    close(loss_of(CC(), SETS, NOW), 0.246877)
    close(gradient(CC(), SETS, NOW)[0], [-0.060799, -0.022367, 0.067994, 0.015172])


def test_a_set_of_all_classes_teaches_cc_nothing_and_an_empty_one_is_refused() -> None:
    assert loss_of(CC(), [[1, 1, 1, 1]], NOW[:1]).abs() < 1e-15
    assert gradient(CC(), [[1, 1, 1, 1]], NOW[:1]).abs().max() < 1e-15
    with pytest.raises(DataError, match="the set of candidates is empty"):
        data_of([[0, 0, 0, 0]])


def test_cc_is_the_likelihood_that_em_adds() -> None:
    sets, logits = random_problem(3)
    answer = em_loss(logits.log_softmax(1)[:, None], PartialLabels.of(sets))
    close(loss_of(CC(), sets, logits), answer.supervised, 1e-12)


@pytest.mark.parametrize("method", [RC(), WeightedCandidates()], ids=["rc", "proden"])
def test_rc_and_proden_start_with_all_candidates_alike(method: WeightedCandidates) -> None:
    for row, wanted in enumerate([0.995182, 1.450484]):
        close(loss_of(method, SETS[row : row + 1], NOW[row : row + 1]), wanted)
    close(loss_of(method, SETS, NOW), 1.222833)


def test_proden_takes_its_weights_from_the_pass_of_the_loss() -> None:
    method, data = WeightedCandidates(), data_of(SETS)
    state = state_of(method, data)
    step = seen(method, data, NOW, state)
    method.loss(step)
    method.update(step)
    close(state[CONFIDENCES], [[0.731059, 0.268941, 0, 0], [0, 0.221947, 0.446947, 0.331106]])
    for row, wanted in enumerate([0.759119, 1.318736]):
        alone = {CONFIDENCES: state[CONFIDENCES][row : row + 1]}
        close(loss_of(method, SETS[row : row + 1], NEXT[row : row + 1], state=alone), wanted)
    step = seen(method, data, NEXT, state)
    close(method.loss(step), 1.038927)
    method.update(step)
    close(state[CONFIDENCES], [[0.880797, 0.119203, 0, 0], [0, 0.145406, 0.589648, 0.264946]])


def changing(data: WeakDataset, first: Tensor, then: Tensor, state: dict[str, Tensor], passes: int = 1) -> Step:
    """A step whose network says something else when it is asked again, as after an optimizer's step."""
    said = itertools.chain([first] * passes, itertools.repeat(then))
    network = lambda _: Outputs(logits := next(said), logits)  # noqa: E731
    return Step(data.batch([torch.arange(len(data))]), network, lambda view: torch.zeros(1), state=state)


def test_rc_takes_its_weights_from_the_network_after_the_step_and_proden_does_not() -> None:
    data = data_of(SETS)
    for method, wanted in [(RC(), NEXT), (WeightedCandidates(), NOW)]:
        state = state_of(method, data)
        step = changing(data, NOW, NEXT, state)
        close(method.loss(step), 1.222833)
        method.update(step)
        close(state[CONFIDENCES], torch.where(data.weak[0].candidates, wanted, -torch.inf).softmax(1))


def test_the_released_start_of_proden_is_the_sum_over_candidates() -> None:
    close(loss_of(WeightedCandidates(), SETS, NOW, state={CONFIDENCES: torch.tensor(SETS).float()}), 3.170908)


def test_a_weight_that_became_zero_grows_again() -> None:
    method, data = WeightedCandidates(), data_of([[1, 1, 0]])
    state = state_of(method, data)
    for logits, wanted in [([0.0, 300.0, 0.0], [0, 1, 0]), ([2.0, 0.0, 5.0], [0.880797, 0.119203, 0])]:
        method.update(seen(method, data, torch.tensor([logits]), state))
        close(state[CONFIDENCES], [wanted])


@pytest.mark.parametrize(
    ("variant", "leverage", "first", "then"),
    [
        ("lws", 1.0, 0.410019, 0.865710),
        ("lws", 2.0, 0.590174, 1.419611),
        ("lwc", 1.0, 0.853829, 1.286465),
        ("lwc", 2.0, 0.914931, 1.504945),
    ],
)
def test_the_leveraged_weighted_loss_is_the_worked_number(
    variant: str, leverage: float, first: float, then: float
) -> None:
    method, data = LeveragedWeighted(variant, leverage), data_of(SETS)
    step = seen(method, data, NOW)
    close(method.loss(step), first)
    method.update(step)
    close(step.state[CONFIDENCES], [[0.731059, 0.268941, 0.817574, 0.182426], [1, 0.221947, 0.446947, 0.331106]])
    close(method.loss(step), then)


def test_lws_has_the_worked_parts_of_candidates_and_others() -> None:
    first = [(0.097036, 0.222850), (0.362694, 0.137458)]
    then = [(0.159474, 0.557969), (0.464143, 0.549834)]
    for row in range(2):
        data = data_of(SETS[row : row + 1])
        step = seen(LeveragedWeighted(), data, NOW[row : row + 1])
        for wanted in (first[row], then[row]):
            inside, both = (LeveragedWeighted(leverage=leverage).loss(step) for leverage in (0.0, 1.0))
            close([inside, both - inside], wanted)
            LeveragedWeighted().update(step)


def test_lws_takes_its_weights_from_the_network_after_the_step() -> None:
    data, method = data_of(SETS), LeveragedWeighted()
    step = changing(data, NOW, NEXT, state_of(method, data))
    method.loss(step)
    method.update(step)
    wanted = torch.where(data.weak[0].candidates, NEXT, -torch.inf).softmax(1)
    close(step.state[CONFIDENCES] * data.weak[0].candidates, wanted)


def test_the_released_lws_averages_over_the_candidates_for_ever() -> None:
    for leverage in (0.0, 1.0, 7.0):
        method = LeveragedWeighted("glws", leverage)
        step = seen(method, data_of(SETS), NOW)
        close(method.loss(step), 1.222833)
        method.update(step)
        close(method.loss(step), 1.222833)


def test_others_that_do_not_exist_weigh_nothing() -> None:
    method = LeveragedWeighted("lwc", leverage=5.0)
    step = seen(method, data_of([[1, 1, 1, 1]]), NOW[:1])
    method.update(step)
    close(step.state[CONFIDENCES], NOW[:1].softmax(1))
    close(method.loss(step), -(NOW[0].softmax(0) * NOW[0].log_softmax(0)).sum())


def test_rcr_is_the_worked_number() -> None:
    step = seen(RCR(), data_of(SETS), VIEWS, progress=Progress(epoch=25))
    close(RCR().loss(step), 0.467286)
    close(step.notes["excluded"], 0.244409)
    close(step.notes["consistency"], 0.891509)
    RCR().update(step)
    close(step.state[CONFIDENCES], [[0.574443, 0.425557, 0, 0], [0, 0.196066, 0.422048, 0.381885]])
    RCR().loss(step)
    close(step.notes["consistency"], 0.795329)


def test_rcr_takes_its_confidences_from_the_passes_of_the_loss() -> None:
    data = data_of(SETS)
    step = changing(data, NOW, NEXT, state_of(RCR(), data), passes=3)
    RCR().loss(step)
    RCR().update(step)
    close(step.state[CONFIDENCES], torch.where(data.weak[0].candidates, NOW, -torch.inf).softmax(1))


def test_rcr_has_the_worked_divergence_of_each_view() -> None:
    worked = {"weak": (0.302035, 0.351872), "strong": (0.209565, 0.275632), "strong_2": (0.213765, 0.430148)}
    for view, wanted in worked.items():
        for row in range(2):
            method = RCR(views=(view,))
            step = seen(method, data_of(SETS[row : row + 1]), {view: VIEWS[view][row : row + 1]})
            method.loss(step)
            close(step.notes["consistency"], wanted[row])


def test_the_released_rcr_is_a_third_of_the_weight_and_the_entropy_of_the_confidences() -> None:
    entropy = (math.log(2) + math.log(3)) / 2
    value = loss_of(RCR(weight=1 / 3), SETS, VIEWS, progress=Progress(epoch=25))
    close(value + 0.25 * entropy, 0.542671)


def test_the_weight_of_rcr_grows_to_its_full_height() -> None:
    at_once = loss_of(RCR(weight=2.0, ramp_epochs=0), SETS, VIEWS)
    close(at_once, 0.244409 + 2 * 0.891509, 2e-6)  # twice a number of six digits
    for epoch, share in [(0, 0.0), (5, 0.5), (10, 1.0), (40, 1.0)]:
        found = loss_of(RCR(weight=2.0, ramp_epochs=10), SETS, VIEWS, progress=Progress(epoch=epoch))
        close(found, 0.244409 + 2 * share * 0.891509, 2e-6)


def test_the_gradient_of_rcr_goes_through_all_views_and_not_into_the_confidences() -> None:
    moving = {view: logits.clone().requires_grad_() for view, logits in VIEWS.items()}
    method = RCR(ramp_epochs=0)
    step = seen(method, data_of(SETS), moving)
    found = torch.autograd.grad(method.loss(step), list(moving.values()))
    even = torch.tensor(SETS) / torch.tensor(SETS).sum(1, keepdim=True)
    for view, slope in zip(("strong", "strong_2"), found[1:], strict=True):
        close(slope, (VIEWS[view].softmax(1) - even) / 2)
    assert (found[0] - (NOW.softmax(1) - even) / 2)[
        :, 0
    ].abs().min() > 0.01  # the excluded classes add to the weak view


# ------------------------------------------------------------ slow oracles


def slow_loss(name: str, sets: Tensor, logits: list[list[float]], weights: list[list[float]]) -> float:
    """The published formulas in plain Python, class by class."""
    total = 0.0
    for candidates, row, weight in zip(sets.tolist(), logits, weights, strict=True):
        mass = [math.exp(z) for z in row]
        p = [m / sum(mass) for m in mass]
        if name == "cc":
            total -= math.log(sum(p[k] for k in range(len(p)) if candidates[k]))
            continue
        for k, inside in enumerate(candidates):
            if name in ("rc", "proden"):
                total -= weight[k] * math.log(p[k])
            elif name == "lws":
                total += weight[k] / (1 + math.exp(row[k] if inside else -row[k]))
            elif name in ("lwc", "released lws"):
                total -= weight[k] * math.log(p[k] if inside else 1 - p[k])
            else:
                total -= 0.0 if inside else math.log(1 - p[k])
                total += 3 * weight[k] * math.log(weight[k] / p[k]) if weight[k] else 0.0
    return total / len(weights)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_losses_are_the_published_formulas_before_and_after_an_update(name: str, seed: int) -> None:
    sets, logits = random_problem(seed)
    method, data = METHODS[name], data_of(sets)
    state = state_of(method, data)
    for visit in range(2):
        now = logits * (1 + visit)
        step = seen(method, data, now, state)
        weights = state.get(CONFIDENCES, torch.zeros(7, 5)).tolist()
        close(method.loss(step), slow_loss(name, sets, now.tolist(), weights), 1e-6)
        method.update(step)


# ------------------------------------------------------------ equalities and consistency


@pytest.mark.parametrize("method", [RC(), WeightedCandidates()], ids=["rc", "proden"])
def test_with_weights_of_the_same_pass_the_gradient_is_that_of_cc(method: WeightedCandidates) -> None:
    sets, logits = random_problem(11)
    state = {CONFIDENCES: torch.where(sets, logits, -torch.inf).softmax(1)}
    close(gradient(method, sets, logits, state=state), gradient(CC(), sets, logits), 1e-12)


@pytest.mark.parametrize("name", ["cc", "rc", "proden", "lwc"])
def test_a_set_of_one_class_is_a_label(name: str) -> None:
    labels = torch.tensor([2, 0, 3])
    logits = random_problem(5, groups=3, classes=4)[1]
    method = LeveragedWeighted("lwc", leverage=0.0) if name == "lwc" else METHODS[name]
    step = seen(method, data_of(functional.one_hot(labels, 4)), logits)
    wanted = functional.cross_entropy(logits, labels)
    close(method.loss(step), wanted / 4 if name == "lwc" else wanted, 1e-7)
    method.update(step)
    close(method.loss(step), wanted, 1e-7)


def test_with_labels_the_consistency_of_rcr_is_the_cross_entropy_of_all_views() -> None:
    labels = torch.tensor([1, 3])
    step = seen(RCR(), data_of(functional.one_hot(labels, 4)), VIEWS)
    RCR().loss(step)
    close(step.notes["consistency"], sum(functional.cross_entropy(logits, labels) for logits in VIEWS.values()))


# Two inputs, three classes; sets are uniform among those that hold the class and are not all classes.
TRUE = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2]], dtype=torch.float64)
INPUTS = torch.tensor([0.6, 0.4], dtype=torch.float64)
POSSIBLE = torch.tensor([s for s in itertools.product([0, 1], repeat=3) if 0 < sum(s) < 3], dtype=torch.bool)
CHANCES = (TRUE @ POSSIBLE.double().T) / 3 * INPUTS[:, None]
"""p(x, S) for every input and every set."""


def expected_loss(method: AbstractMethod, logits: Tensor) -> Tensor:
    """Exactly: the sum over inputs and sets; the weights of the classes are those of the candidates in the truth."""
    total = logits.new_zeros(())
    for x, s in itertools.product(range(2), range(len(POSSIBLE))):
        state = {CONFIDENCES: (TRUE[x] * POSSIBLE[s] / TRUE[x][POSSIBLE[s]].sum())[None]}
        total = total + CHANCES[x, s] * loss_of(method, POSSIBLE[s : s + 1], logits[x : x + 1], state=state)
    return total


def test_the_chances_of_the_toy_add_up() -> None:
    close(CHANCES.sum(1), INPUTS, 1e-12)


def test_rc_with_the_true_confidences_is_the_supervised_risk() -> None:
    logits = random_problem(8, groups=2, classes=3)[1]
    supervised = -(INPUTS[:, None] * TRUE * logits.log_softmax(1)).sum()
    close(expected_loss(RC(), logits), supervised, 1e-12)


@pytest.mark.parametrize("method", [CC(), RC(), WeightedCandidates()], ids=["cc", "rc", "proden"])
def test_the_truth_is_stationary(method: AbstractMethod) -> None:
    logits = TRUE.log().requires_grad_()
    (slope,) = torch.autograd.grad(expected_loss(method, logits), logits)
    close(slope, torch.zeros(2, 3), 1e-12)
    elsewhere = (TRUE.log() + torch.tensor([0.5, 0.0, -0.2])).detach().requires_grad_()
    (slope,) = torch.autograd.grad(expected_loss(method, elsewhere), elsewhere)
    assert slope.abs().max() > 0.01


# ------------------------------------------------------------ what every method must stand


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_gradient_and_state_are_finite_at_extreme_logits(method: AbstractMethod, dtype: torch.dtype) -> None:
    logits = torch.tensor([[50, -50, 0, 0], [-50, 50, 50, -50], [-50, -50, -50, 50]], dtype=dtype)
    logits.requires_grad_()
    step = seen(method, data_of([[0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1]]), logits)
    for _ in range(2):
        loss = method.loss(step)
        (slope,) = torch.autograd.grad(loss, logits)
        assert loss.dtype == dtype
        assert loss.isfinite()
        assert slope.isfinite().all()
        method.update(step)
        assert all(values.isfinite().all() for values in step.state.values())


@ALL
def test_the_table_is_float32_without_gradient_and_rows_outside_the_batch_stay(method: AbstractMethod) -> None:
    sets, logits = random_problem(2)
    data = data_of(sets)
    state = state_of(method, data)
    before = {name: values.clone() for name, values in state.items()}
    chosen = torch.tensor([5, 2])
    batch = data.batch([chosen])  # its rows are the instances in order: 2, then 5
    views = dict.fromkeys(VIEWS, logits[[2, 5]].requires_grad_())
    step = step_of(batch, views, state=state)
    method.loss(step)
    method.update(step)
    others = torch.tensor([0, 1, 3, 4, 6])
    for name, values in state.items():
        assert values.dtype == torch.float32
        assert not values.requires_grad
        assert values[others].equal(before[name][others])
        if name == CONFIDENCES and method != METHODS["released lws"]:
            inside = values[chosen] * sets[chosen]
            assert not values[chosen].equal(before[name][chosen])
            close(inside, torch.where(sets[chosen], logits[chosen], -torch.inf).softmax(1).detach())


@ALL
def test_an_instance_with_two_sets_has_two_rows(method: AbstractMethod) -> None:
    sets = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0]])
    twice = WeakDataset(torch.zeros(2, 1), [[1], [0], [1]], PartialLabels.of(sets))
    steps = [seen(method, twice, NOW), seen(method, data_of(sets), NOW[[1, 0, 1]])]
    for _ in range(2):
        first, second = (method.loss(step) for step in steps)
        close(first, second, 1e-12)
        for step in steps:
            method.update(step)


@ALL
def test_a_batch_of_nothing_costs_nothing(method: AbstractMethod) -> None:
    data = data_of(SETS)
    batch = data.batch([torch.arange(0)])
    logits = torch.zeros(0, 4, requires_grad=True)
    state = state_of(method, data)
    before = {name: values.clone() for name, values in state.items()}
    step = step_of(batch, dict.fromkeys(VIEWS, logits), state=state)
    loss = method.loss(step)
    loss.backward()
    method.update(step)
    assert loss == 0
    assert all(values.equal(before[name]) for name, values in state.items())


@ALL
def test_other_kinds_are_refused_in_one_line(method: AbstractMethod) -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0], [1]], Labels.of([0, 1], 2))
    with pytest.raises(DataError) as caught:
        method.check(data)
    takes = "a set of candidate classes for each instance (PartialLabels)"
    assert str(caught.value) == f"{type(method).__name__} learns from {takes}, found Labels"
    method.check(data_of(SETS))


def test_rcr_without_views_is_refused() -> None:
    with pytest.raises(DataError, match="RCR: views must name at least one view"):
        RCR(views=())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@ALL
def test_a_gpu_gives_the_same_losses(method: AbstractMethod) -> None:
    sets, logits = random_problem(4)
    data = data_of(sets)
    state = state_of(method, data)
    moved = {name: values.cuda() for name, values in state.items()}
    here, there = seen(method, data, logits, state), seen(method, data, logits.cuda(), moved)
    for _ in range(2):
        close(method.loss(there).cpu(), method.loss(here), 1e-7)
        method.update(here)
        method.update(there)


@pytest.mark.slow
@ALL
def test_digits_are_learned_from_candidate_sets(method: AbstractMethod) -> None:
    pixels, labels = (torch.as_tensor(values) for values in load_digits(return_X_y=True))
    pixels = (pixels / 16).float()
    drawn = partial_labels(labels[:1400], 10, 0.3, generator=torch.Generator().manual_seed(0))
    data = WeakDataset(pixels[:1400], drawn.groups, drawn.weak)
    noise = torch.Generator().manual_seed(1)
    model = train(
        method,
        data,
        build("mlp", [64], 10, hidden=[64]),
        num_epochs=15,
        num_batches=14,
        learning_rate=0.001 if method == METHODS["lws"] else 0.005,  # sigmoids saturate under longer steps
        view=lambda x, name: x + 0.1 * torch.randn(x.shape, generator=noise),
    )
    assert accuracy(model, pixels[1400:], labels[1400:]) > 0.75  # chance is 0.1
