"""Pseudo-labels, FixMatch, FreeMatch and SoftMatch: the worked batch, what moves, and the edges."""

import pytest
import torch
from methods.driving import accuracy, train
from methods.toy_unlabeled import ROUNDING, close, setup_for
from torch import Tensor
from torch.nn import functional

from glws.data import Groups, WeakDataset, load
from glws.errors import DataError
from glws.kinds import Labels, Unlabeled
from glws.methods import Progress, Step, step_of
from glws.methods._semi_supervised import (
    AbstractSemiSupervised,
    FixMatch,
    FreeMatch,
    PseudoLabel,
    SoftMatch,
    confidence_weights,
    fairness_term,
)
from glws.models import MLP

WEAK = [[4, 0.5, 0], [0.2, 3.9, 0.1], [1, 1.2, 0.3], [0.1, 0.2, 2]]
STRONG = [[2, 0, 0.5], [0, 1, 0], [0.3, 0.2, 0.1], [0, 0.5, 1.5]]
LABELED = [[1, 0, -1], [0, 2, 0]]
KNOWN = 0.323575
CONFIDENCE = torch.tensor([0.953732, 0.955024, 0.449378, 0.760533], dtype=torch.float64)
METHODS = [PseudoLabel(), FixMatch(), FreeMatch(), SoftMatch(), FreeMatch(momentum=0.5), SoftMatch(momentum=0.5)]


def worked_data(two_kinds: bool = False) -> WeakDataset:
    """Two labeled instances and four without, in one kind or in two."""
    x = torch.zeros(6, 1)
    if two_kinds:
        kinds = [Labels.of([0, 1], 3), Labels.of([-1] * 4, 3)]
        return WeakDataset(x, [[[0], [1]], [[2], [3], [4], [5]]], kinds)
    return WeakDataset(x, [[5], [0], [3], [1], [2], [4]], Labels.of([-1, 0, -1, 1, -1, -1], 3))


def worked_logits(dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    noise = [[9.0, 1.0, 0.0], [0.0, 9.0, 1.0]]  # strong views of labeled instances are not looked at
    return {
        "weak": torch.tensor([*LABELED, *WEAK], dtype=dtype).requires_grad_(),
        "strong": torch.tensor([*noise, *STRONG], dtype=dtype).requires_grad_(),
    }


def step_on(
    method: AbstractSemiSupervised,
    data: WeakDataset,
    logits: dict[str, Tensor],
    chosen: list[list[int]] | None = None,
    **others: object,
) -> Step:
    wanted = chosen or [list(range(len(groups))) for groups in data.groups]
    batch = data.batch([torch.tensor(groups, dtype=torch.int64) for groups in wanted])
    rows = {name: values[batch.numbers] for name, values in logits.items()}
    return step_of(batch, rows, **{"state": method.init(setup_for(data, 3)), **others})


def worked_step(method: AbstractSemiSupervised, **others: object) -> Step:
    return step_on(method, worked_data(), worked_logits(), **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("two_kinds", [False, True])
@pytest.mark.parametrize(
    ("method", "loss"),
    [
        (FixMatch(), 0.538025),
        (FixMatch(unlabeled_weight=2.0), KNOWN + 2 * 0.214450),
        (PseudoLabel(), 0.329412),
        (PseudoLabel(ramp=0.0), KNOWN + 0.023348),
        (FreeMatch(fairness=0.0), KNOWN + 0.606028),
        (FreeMatch(momentum=0.5), 0.653026),
        (FreeMatch(momentum=0.5, fairness=0.0), KNOWN + 0.330542),
        (SoftMatch(momentum=0.5), 0.904605),
    ],
)
def test_the_worked_batch_has_the_worked_loss(method: AbstractSemiSupervised, loss: float, two_kinds: bool) -> None:
    progress = Progress(step=10, num_steps=100)
    step = step_on(method, worked_data(two_kinds), worked_logits(), progress=progress)
    close(method.loss(step), loss, 1.5e-6)  # two rounded terms


def test_pseudo_labels_count_more_and_more_until_the_ramp_is_over() -> None:
    for step, share in ((0, 0.0), (10, 0.25), (20, 0.5), (40, 1.0), (90, 1.0)):
        loss = PseudoLabel().loss(worked_step(PseudoLabel(), progress=Progress(step=step, num_steps=100)))
        close(loss, KNOWN + share * 0.023348, 1.5e-6)


def test_freematch_brings_its_averages_up_to_date_before_masking() -> None:
    method = FreeMatch(momentum=0.5)
    step = worked_step(method)
    method.loss(step)
    close(step.state["confidence"], 0.556500)
    close(step.state["prediction"], [0.349043, 0.361531, 0.289425])
    close(step.state["histogram"], [0.291667, 0.416667, 0.291667])
    close(method.thresholds(step.state), [0.537278, 0.556500, 0.445508])
    close(step.notes["chosen"], 0.75)
    close(FreeMatch(clip=0.5).thresholds(step.state), [0.5, 0.5, 0.445508])


def test_freematch_begins_with_low_thresholds() -> None:
    method = FreeMatch()
    step = worked_step(method)
    method.loss(step)
    close(step.state["confidence"], 0.333780)
    close(method.thresholds(step.state), [0.333755, 0.333780, 0.333635])
    close(step.notes["chosen"], 1.0)


def test_fairness_has_the_worked_number_and_a_gradient_by_hand() -> None:
    state = {
        "prediction": torch.tensor([0.349043, 0.361531, 0.289425]),
        "histogram": torch.tensor([0.291667, 0.416667, 0.291667]),
    }
    logits = torch.tensor([STRONG[0], STRONG[1], STRONG[3]], dtype=torch.float64).requires_grad_()
    found = fairness_term(logits, state)
    close(found, -1.091670, 1e-6)
    ratio = logits.softmax(1).mean(0) / torch.tensor([1 / 3] * 3, dtype=torch.float64)
    wanted = torch.tensor([0.391506, 0.283859, 0.324635], dtype=torch.float64)
    by_hand = (wanted * (ratio / ratio.sum()).log()).sum()
    close(torch.autograd.grad(found, logits)[0], torch.autograd.grad(by_hand, logits)[0], 1e-6)


def test_fairness_leaves_out_classes_that_nothing_is_taken_for() -> None:
    state = {"prediction": torch.full((3,), 1 / 3), "histogram": torch.full((3,), 1 / 3)}
    logits = torch.tensor([[2.0, 0, 0], [1.0, 0, 0], [0, 3.0, 0]], dtype=torch.float64)
    ratio = logits.softmax(1).mean(0)[:2] / torch.tensor([2 / 3, 1 / 3], dtype=torch.float64)
    close(fairness_term(logits, state), ((ratio / ratio.sum()).log() / 3).sum().item(), 1e-7)
    assert fairness_term(logits[:0], state).item() == 0


def test_softmatch_has_the_worked_averages_and_weights() -> None:
    method = SoftMatch(momentum=0.5)
    step = worked_step(method)
    method.loss(step)
    close(step.state["mean"], 0.556158)
    close(step.state["variance"], 0.533920)
    close(step.notes["weight"], (3 + 0.909256) / 4)
    close(step.state["prediction"], torch.tensor(WEAK, dtype=torch.float64).softmax(1).mean(0), 1e-7)
    aligned = torch.tensor([0.947443, 0.941684, 0.396798, 0.830007], dtype=torch.float64)
    weights = confidence_weights(aligned, step.state["mean"], step.state["variance"], 2.0)
    close(weights, [1.0, 1.0, 0.909256, 1.0])


def test_weights_below_the_mean_are_those_worked_out() -> None:
    weights = confidence_weights(CONFIDENCE, torch.tensor(0.9), torch.tensor(0.01), 2.0)
    close(weights, [1.0, 1.0, 0.0, 0.020441], 2e-6)  # μ and σ² are float32


def test_softmatch_without_alignment_takes_confidence_as_it_is() -> None:
    method = SoftMatch(momentum=0.5, align=False)
    step = worked_step(method)
    method.loss(step)
    close(step.state["mean"], 0.5 / 3 + 0.5 * CONFIDENCE.mean())
    close(step.state["variance"], 0.5 + 0.5 * CONFIDENCE.var(), 1e-6)
    assert int(step.state["num_seen"]) == 0


def test_softmatch_moves_its_mean_prediction_after_the_first_batch() -> None:
    method = SoftMatch(momentum=0.75)
    step = worked_step(method)
    method.loss(step)
    first = step.state["prediction"].clone()
    logits = worked_logits()
    logits["weak"] = logits["weak"].roll(1, 1)
    method.loss(step_on(method, worked_data(), logits, state=step.state))
    close(step.state["prediction"], 0.75 * first + 0.25 * first.roll(1), 1e-6)
    assert int(step.state["num_seen"]) == 2


@pytest.mark.parametrize("method", [FixMatch(), FreeMatch(momentum=0.5), SoftMatch(momentum=0.5)])
def test_no_gradient_goes_into_the_guesses(method: AbstractSemiSupervised) -> None:
    logits = worked_logits()
    method.loss(step_on(method, worked_data(), logits)).backward()
    weak, strong = logits["weak"].grad, logits["strong"].grad
    assert weak is not None
    assert strong is not None
    assert not bool(weak[2:].any())
    assert bool(weak[:2].any(1).all())
    assert not bool(strong[:2].any())
    assert bool(strong[2].any())


def test_means_are_over_all_unlabeled_instances() -> None:
    logits = worked_logits()
    FixMatch().loss(step_on(FixMatch(), worked_data(), logits)).backward()
    predicted = logits["strong"][2].softmax(0) - torch.tensor([1.0, 0, 0])
    assert logits["strong"].grad is not None
    close(logits["strong"].grad[2], predicted / 4, ROUNDING)


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_may_lack_labels_or_unlabeled_instances(method: AbstractSemiSupervised) -> None:
    progress = Progress(step=1, num_steps=1)
    data, logits = worked_data(two_kinds=True), worked_logits()
    labeled = method.loss(step_on(method, data, logits, chosen=[[0, 1], []], progress=progress))
    close(labeled, KNOWN)
    unlabeled = method.loss(step_on(method, data, logits, chosen=[[], [0, 1, 2, 3]], progress=progress))
    both = method.loss(step_on(method, data, logits, progress=progress))
    close(unlabeled + labeled, both.item(), ROUNDING)
    nothing = {name: values[:0] for name, values in logits.items()}
    batch = data.batch([torch.arange(0), torch.arange(0)])
    assert method.loss(step_of(batch, nothing, state=method.init(setup_for(data, 3)))).item() == 0


@pytest.mark.parametrize("method", METHODS)
def test_one_unlabeled_instance_is_enough(method: AbstractSemiSupervised) -> None:
    step = step_on(method, worked_data(two_kinds=True), worked_logits(), chosen=[[0], [2]])
    assert bool(method.loss(step).isfinite())
    assert all(bool(values.isfinite().all()) for values in step.state.values())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sure_predictions_are_finite(method: AbstractSemiSupervised, dtype: torch.dtype) -> None:
    logits = {name: (50 * torch.eye(3, dtype=dtype).repeat(2, 1)).requires_grad_() for name in ("weak", "strong")}
    logits["strong"] = logits["strong"].roll(1, 1).detach().requires_grad_()
    loss = method.loss(step_on(method, worked_data(), logits))
    loss.backward()
    assert loss.dtype == dtype
    assert bool(loss.isfinite())
    assert all(values.grad is None or bool(values.grad.isfinite().all()) for values in logits.values())


@pytest.mark.parametrize("method", METHODS)
def test_the_state_is_plain_tensors(method: AbstractSemiSupervised) -> None:
    step = worked_step(method)
    method.loss(step)
    assert {values.dtype for values in step.state.values()} <= {torch.float32, torch.int64}
    assert not any(values.requires_grad for values in step.state.values())


def test_an_instance_twice_is_two_instances() -> None:
    data = WeakDataset(torch.zeros(6, 1), [[0], [0], [2], [2], [3]], Labels.of([0, 0, -1, -1, -1], 3))
    logits = worked_logits()
    found = FixMatch().loss(step_on(FixMatch(), data, logits))
    known = functional.cross_entropy(logits["weak"][:1], torch.tensor([0]))
    strong = functional.cross_entropy(logits["strong"][[2, 2, 3]], torch.tensor([0, 0, 1]))
    close(found, (known + strong).item(), ROUNDING)


def test_wrong_kind_is_refused_in_one_line() -> None:
    expected = r"FixMatch learns from labels of some instances \(-1 for the others\) \(Labels or Labels with Labels\)"
    with pytest.raises(DataError, match=f"^{expected}, found Unlabeled$"):
        FixMatch().check(WeakDataset(torch.zeros(2, 1), [[0, 1]], Unlabeled.of([0.5])))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS[:4], ids=["pseudo_label", "fixmatch", "freematch", "softmatch"])
def test_learns_the_digits_from_five_labels_of_each(method: AbstractSemiSupervised) -> None:
    source, generator = load("digits"), torch.Generator().manual_seed(0)
    instances, labels = torch.as_tensor(source.train.inputs), torch.as_tensor(source.train.labels).long()
    known = torch.cat([(labels == number).nonzero()[:5, 0] for number in range(10)])
    groups = [known.repeat(4)[:, None], Groups.singles(len(labels))]  # seven unlabeled instances for each labeled one
    data = WeakDataset(instances, groups, [Labels.of(labels[known].repeat(4), 10), Labels.of([-1] * len(labels), 10)])

    def view(batch: Tensor, name: str) -> Tensor:
        noise = {"weak": 0.05, "strong": 0.25}[name]
        return batch + noise * torch.randn(batch.shape, generator=generator)

    model = MLP((64,), 10, hidden=(64,))
    train(method, data, model, num_epochs=15, num_batches=10, learning_rate=5e-3, view=view)
    test = torch.as_tensor(source.test.inputs), torch.as_tensor(source.test.labels).long()
    assert accuracy(model, *test) > 0.8
