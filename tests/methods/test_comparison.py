"""Ordered pairs: worked numbers, exact expectations under both rules of drawing, what pruning keeps, and learning."""

from copy import deepcopy

import pytest
import torch
from methods.driving import accuracy, setup_of, train
from methods.toy_pairs import (
    GIVEN_NEGATIVE,
    GIVEN_POSITIVE,
    PRIORS,
    ROUNDING,
    SUPERVISED,
    assert_defined_at_the_edges,
    assert_refuses_other_kinds,
    assert_same_for_any_head,
    assert_same_on_a_gpu,
    b1,
    b2,
    batch_of,
    big_population,
    close,
    compared_pairs,
    drawn_loss,
    each,
    gaussians,
    gradient_of,
    joint,
    logits_of,
    loss_of,
    pairs_step,
    spread,
    supervised_risk,
    world_step,
)
from torch import Tensor, nn

from glws.data import WeakDataset
from glws.data.weaken import pair_comparison
from glws.errors import ConfigError, DataError
from glws.kinds import PairComparison
from glws.methods import GLWS, AbstractMethod, Epoch, Progress, step_of
from glws.methods._comparison import (
    Pcomp,
    PcompTeacher,
    RankPruning,
    agreeing,
    comparison_risks,
    disagreement,
    impurity,
    kept_by_rank,
    noise_rate,
    pruned_risk,
)
from glws.methods._risks import surrogate
from glws.methods._unlabeled_unlabeled import two_set_parts
from glws.models import MLP, build
from glws.training import Training, TrainingConfig, World

FIRSTS = PairComparison.of([0] * 4)
RULES = ["swap", "discard"]
CORRECTIONS = ["none", "relu", "abs"]
AFTER_WARM_UP = Progress(epoch=5, num_epochs=10)
METHODS = [Pcomp(0.4), Pcomp(0.4, "relu"), Pcomp(0.4, "abs", "discard"), RankPruning(0.4), PcompTeacher(0.4)]
METHODS += [RankPruning(0.4, "discard", weights="released"), PcompTeacher(0.7, consistency="cross_entropy")]
named = pytest.mark.parametrize("method", METHODS, ids=repr)


def firsts(number: int) -> PairComparison:
    return PairComparison.of([0] * number)


def pruned(method: AbstractMethod, scores: Tensor, **others: object) -> Tensor:
    return loss_of(method, scores, FIRSTS, progress=AFTER_WARM_UP, **others)


# The risks.


def test_the_partial_risks_have_the_worked_numbers() -> None:
    close(torch.stack(comparison_risks(b1(), 0.4, "discard")), [0.035416, 0.336874])
    close(torch.stack(comparison_risks(b2(), 0.4, "discard")), [-2.159766, -1.427149])
    close(torch.stack(comparison_risks(b1(), 0.4, "swap")), [0.121271, 0.394637])
    close(torch.stack(comparison_risks(b2(), 0.4, "swap")), [-1.072266, -0.702149])


def test_the_unbiased_risk_has_the_worked_numbers() -> None:
    close(loss_of(Pcomp(0.4, rule="discard"), b1(), FIRSTS), 0.372290)
    close(loss_of(Pcomp(0.4, rule="discard"), b2(), FIRSTS), -3.586914)
    close(loss_of(Pcomp(0.4), b1(), FIRSTS), 0.515908)
    close(loss_of(Pcomp(0.4), b2(), FIRSTS), -1.774414)


def test_the_gradient_of_the_unbiased_risk_has_the_worked_numbers() -> None:
    gradient = gradient_of(Pcomp(0.4, rule="discard"), b1(), FIRSTS)
    close(gradient[:, 0], [-0.146504, -0.186166, -0.127364, -0.171253])
    close(gradient[:, 1], [0.187754, 0.214566, 0.221095, 0.173148])


@pytest.mark.parametrize("correction", ["relu", "abs"])
@pytest.mark.parametrize("rule", RULES)
def test_corrections_leave_positive_partial_risks_alone(correction: str, rule: str) -> None:
    method, plain = Pcomp(0.4, correction, rule), Pcomp(0.4, rule=rule)
    close(loss_of(method, b1(), FIRSTS), loss_of(plain, b1(), FIRSTS), ROUNDING)
    close(gradient_of(method, b1(), FIRSTS), gradient_of(plain, b1(), FIRSTS), ROUNDING)


def test_relu_stops_at_negative_partial_risks() -> None:
    method = Pcomp(0.4, "relu", "discard")
    assert loss_of(method, b2(), FIRSTS).item() == 0
    assert not gradient_of(method, b2(), FIRSTS).any()


def test_abs_turns_back_from_negative_partial_risks() -> None:
    method = Pcomp(0.4, "abs", "discard")
    close(loss_of(method, b2(), FIRSTS), 3.586914)
    gradient = gradient_of(method, b2(), FIRSTS)
    close(gradient[:, 0], [0.102698, 0.107114, 0.101004, 0.111379])
    close(gradient[:, 1], [-0.151799, -0.154743, -0.150669, -0.157586])
    close(gradient, -gradient_of(Pcomp(0.4, rule="discard"), b2(), FIRSTS), ROUNDING)


def test_a_correction_looks_at_each_class_by_itself() -> None:
    scores = batch_of([2.0, 0.5], [-3.0, 1.0])
    positive, negative = comparison_risks(scores, 0.4, "swap")
    assert positive.item() < 0 < negative.item()
    weak = firsts(2)
    close(loss_of(Pcomp(0.4, "relu"), scores, weak), negative, ROUNDING)
    close(loss_of(Pcomp(0.4, "abs"), scores, weak), negative - positive, ROUNDING)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_risk_is_unbiased_on_pairs_of_its_own_rule(prior: float, rule: str) -> None:
    inputs, _ = compared_pairs(prior, rule)
    risk = Pcomp(prior, rule=rule).loss(world_step(inputs, firsts(len(inputs))))
    close(risk, SUPERVISED[prior])
    close(risk, supervised_risk(prior), ROUNDING)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior", PRIORS)
def test_each_partial_risk_is_the_share_of_its_class(prior: float, rule: str) -> None:
    inputs, _ = compared_pairs(prior, rule)
    scores = torch.tensor([1.5, 0.2, -1.0], dtype=torch.float64)
    positive, negative = comparison_risks(scores[inputs], prior, rule)
    close(positive, (joint(prior)[1] * surrogate(scores)).sum(), ROUNDING)
    close(negative, (joint(prior)[0] * surrogate(-scores)).sum(), ROUNDING)


@pytest.mark.parametrize(("prior", "wrong"), [(0.4, 0.384486), (0.8, 0.358169)])
def test_the_risk_of_discarded_pairs_is_biased_on_swapped_ones(prior: float, wrong: float) -> None:
    inputs, _ = compared_pairs(prior, "swap")
    close(Pcomp(prior, rule="discard").loss(world_step(inputs, firsts(len(inputs)))), wrong)


@pytest.mark.parametrize(
    ("rule", "first", "second"),
    [
        ("discard", [0.363158, 0.3, 0.336842], [0.205263, 0.3, 0.494737]),
        ("swap", [0.42, 0.3, 0.28], [0.18, 0.3, 0.52]),
    ],
)
def test_the_places_of_the_world_have_the_worked_shares(rule: str, first: list[float], second: list[float]) -> None:
    inputs, _ = compared_pairs(0.4, rule)
    for place, shares in enumerate([first, second]):
        close(torch.bincount(inputs[:, place]) / len(inputs), shares)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior", PRIORS)
def test_noise_rates_and_impurities_are_the_frequencies_of_the_world(prior: float, rule: str) -> None:
    inputs, labels = compared_pairs(prior, rule)
    first, second = labels.double().mean(0)
    close(1 - first, impurity(prior, rule), ROUNDING)
    close(second, impurity(1 - prior, rule), ROUNDING)
    close(second / (first + second), noise_rate(prior, rule), ROUNDING)
    close((1 - first) / (2 - first - second), noise_rate(1 - prior, rule), ROUNDING)
    mixture = first * GIVEN_POSITIVE + (1 - first) * GIVEN_NEGATIVE
    close(torch.bincount(inputs[:, 0]) / len(inputs), mixture, 1e-6)  # the quotient of whole numbers is in float32


def test_the_spread_of_a_pair_is_the_worked_one() -> None:
    inputs, _ = compared_pairs(0.4, "discard")
    method = Pcomp(0.4, rule="discard")
    values = each(2, lambda pair: method.loss(world_step(pair, firsts(1))))
    close(spread(values, inputs), 0.973859)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_risk_of_generated_pairs_is_the_supervised_one(prior: float, rule: str) -> None:
    inputs, labels = big_population()
    generator = torch.Generator().manual_seed(0)
    record = pair_comparison(labels, 200_000, prior, rule=rule, replacement="always", generator=generator)
    found = float(drawn_loss(Pcomp(prior, rule=rule), record, inputs))
    assert abs(found - SUPERVISED[prior]) < 4 * 0.974 / 200_000**0.5
    other = float(drawn_loss(Pcomp(prior, rule=RULES[rule == "swap"]), record, inputs))
    assert abs(other - SUPERVISED[prior]) > 0.05


# Relations.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_places_are_two_unlabeled_sets_with_different_shares(prior: float, rule: str) -> None:
    shares = 1 - impurity(prior, rule), impurity(1 - prior, rule)
    wanted = two_set_parts(b1()[:, 0], b1()[:, 1], shares, prior, "logistic")
    close(torch.stack(comparison_risks(b1(), prior, rule)), torch.stack(wanted).detach(), ROUNDING)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_exchanging_classes_and_places_changes_nothing(correction: str, rule: str) -> None:
    given = loss_of(Pcomp(0.3, correction, rule), b1(), FIRSTS)
    close(loss_of(Pcomp(0.7, correction, rule), -b1().flip(1), FIRSTS), given, ROUNDING)


def test_exchanging_classes_and_places_changes_nothing_when_pruned() -> None:
    for method in (RankPruning(0.3), RankPruning(0.3, "discard", weights="released")):
        other = RankPruning(0.7, method.rule, weights=method.weights)
        close(pruned(other, -b1().flip(1)), pruned(method, b1()), ROUNDING)


@named
def test_the_winner_comes_first_wherever_it_stands(method: AbstractMethod) -> None:
    turned = b1().detach().clone()
    turned[1:3] = turned[1:3].flip(1)
    weak = PairComparison.of([0, 1, 1, 0])
    for progress in (Progress(), AFTER_WARM_UP):
        found = loss_of(method, turned, weak, progress=progress)
        close(found, loss_of(method, b1(), FIRSTS, progress=progress), ROUNDING)


@named
def test_only_the_difference_of_the_logits_counts(method: AbstractMethod) -> None:
    assert_same_for_any_head(method, b1(), FIRSTS)


@named
def test_the_loss_is_defined_at_the_edges(method: AbstractMethod) -> None:
    assert_defined_at_the_edges(method, PairComparison.of([0, 1, 1, 0]))


# Pruning.


def estimated_by_rank_pruning(noisy: Tensor, scores: Tensor) -> dict[str, float]:
    """Steps 1 to 5 of rank pruning for any noisy labels (Northcutt et al., 2017), from scores P(noisy = 1 | x)."""
    low, high = scores[noisy == 1].mean(), scores[noisy == 0].mean()
    sure, unsure = noisy[scores >= low].double(), noisy[scores <= high].double()
    positive_rate, negative_rate = float(1 - sure.mean()), float(unsure.mean())
    share = float(noisy.double().mean())
    positives = (share - negative_rate) / (1 - positive_rate - negative_rate)
    return {
        "low": float(low),
        "high": float(high),
        "positive_rate": positive_rate,
        "negative_rate": negative_rate,
        "positives": positives,
        "impure_positive": negative_rate * (1 - positives) / share,
        "impure_negative": positive_rate * positives / (1 - share),
    }


def test_rank_pruning_of_any_noisy_labels_has_the_worked_numbers() -> None:
    noisy = torch.tensor([1, 1, 1, 1, 0, 0, 0, 0])
    scores = torch.tensor([0.9, 0.8, 0.6, 0.2, 0.7, 0.3, 0.2, 0.1], dtype=torch.float64)
    found = estimated_by_rank_pruning(noisy, scores)
    close(torch.tensor(list(found.values())), [0.625, 0.325, 1 / 3, 1 / 4, 0.6, 0.2, 0.4])
    close(1 / (1 - torch.tensor([found["positive_rate"], found["negative_rate"]])), [1.5, 1.333333])
    assert [int(4 * found["impure_positive"]), int(4 * found["impure_negative"])] == [0, 1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("prior", PRIORS)
def test_the_prior_says_what_rank_pruning_estimates_from_well_ranked_pairs(prior: float, rule: str) -> None:
    _, labels = compared_pairs(prior, rule)
    noisy = torch.tensor([1, 0]).expand_as(labels).reshape(-1)
    rates = [noise_rate(prior, rule), noise_rate(1 - prior, rule)]
    scores = torch.tensor([rates[1], 1 - rates[0]], dtype=torch.float64)[labels.reshape(-1)]
    found = estimated_by_rank_pruning(noisy, scores)
    close(torch.tensor([found["positive_rate"], found["negative_rate"]], dtype=torch.float64), rates, 1e-9)
    impurities = [impurity(prior, rule), impurity(1 - prior, rule)]
    close(torch.tensor([found["impure_positive"], found["impure_negative"]], dtype=torch.float64), impurities, 1e-9)


def test_selection_by_sign_has_the_worked_numbers() -> None:
    assert agreeing(b1()).tolist() == [[True, True], [False, False], [True, False], [True, True]]
    close(surrogate(b1()[:, 0])[[0, 2, 3]].sum(), 1.216911)
    close(surrogate(-b1()[:, 1])[[0, 3]].sum(), 0.737359)


@pytest.mark.parametrize(
    ("rule", "weights", "first_batch", "second_batch"),
    [
        ("discard", "noise", 0.360431, 0.057128),
        ("discard", "prior", 0.371311, 0.057890),
        ("discard", "released", 0.254151, 0.025164),
        ("swap", "noise", 0.321814, None),
        ("swap", "prior", 0.321814, None),
    ],
)
def test_pruning_has_the_worked_numbers(
    rule: str, weights: str, first_batch: float, second_batch: float | None
) -> None:
    method = RankPruning(0.4, rule, weights=weights)
    close(pruned(method, b1()), first_batch)
    if second_batch is not None:
        close(pruned(method, b2()), second_batch)


@pytest.mark.parametrize("weights", ["noise", "prior", "released"])
def test_pruning_is_the_sum_written_out(weights: str) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(9, 2, generator=generator, dtype=torch.float64)
    selected = torch.rand(9, 2, generator=generator) < 0.6
    prior, rule, total = 0.3, "discard", 0.0
    kept = 1 - prior * (1 - prior)
    for place, own in ((0, prior), (1, 1 - prior)):
        rate = own / (1 + own)
        weight = {"noise": 0.5 / (1 - rate), "prior": kept, "released": rate}[weights]
        number = int(selected[:, place].sum()) if weights == "released" else 9
        for pair in range(9):
            if selected[pair, place]:
                total += weight * float(surrogate(scores[pair, 0] if place == 0 else -scores[pair, 1])) / number
    close(pruned_risk(scores, selected, prior, rule, weights), total, ROUNDING)


@pytest.mark.parametrize(("prior", "pooled", "wrong"), [(0.4, 0.368421, 0.536410), (0.8, 0.857143, 0.455319)])
def test_perfectly_pruned_pairs_give_the_risk(prior: float, pooled: float, wrong: float) -> None:
    scores = torch.tensor([1.5, 0.2, -1.0], dtype=torch.float64)
    for rule in RULES:
        inputs, labels = compared_pairs(prior, rule)
        perfect = torch.stack([labels[:, 0] == 1, labels[:, 1] == 0], 1)
        noise, exact = (pruned_risk(scores[inputs], perfect, prior, rule, name) for name in ("noise", "prior"))
        share = float(labels.double().mean())
        close(exact, supervised_risk(prior), ROUNDING)
        close(noise, supervised_risk(share), ROUNDING)
        close(noise, SUPERVISED[prior] if rule == "swap" else wrong)
        close(torch.tensor(share), prior if rule == "swap" else pooled)


def test_no_gradient_goes_through_the_selection() -> None:
    gradient = gradient_of(RankPruning(0.4, "discard"), b1(), FIRSTS, progress=AFTER_WARM_UP)
    assert (gradient != 0).tolist() == agreeing(b1()).tolist()
    close(gradient[0, 0], -1.4 / 8 * torch.sigmoid(-b1()[0, 0]), ROUNDING)


def test_selecting_nothing_gives_a_zero_that_can_be_trained_on() -> None:
    scores = torch.zeros(4, 2, dtype=torch.float64)
    for weights in ("noise", "prior", "released"):
        method = RankPruning(0.4, weights=weights)
        assert pruned(method, scores).item() == 0
        assert not gradient_of(method, scores, FIRSTS, progress=AFTER_WARM_UP).any()


def test_everything_is_selected_during_warm_up() -> None:
    losses = surrogate(b1()[:, 0]).mean() / (2 - 0.4) + surrogate(-b1()[:, 1]).mean() / (2 - 0.6)
    close(loss_of(RankPruning(0.4), b1(), FIRSTS), losses, ROUNDING)
    close(loss_of(RankPruning(0.4, warm_up_epochs=0), b1(), FIRSTS), pruned(RankPruning(0.4), b1()), ROUNDING)


def test_the_selection_may_look_at_another_view() -> None:
    seen = b1().detach().roll(1, 0)
    views = {"weak": logits_of(b1().reshape(-1)), "weak_2": logits_of(seen.reshape(-1))}
    step = step_of(pairs_step(b1(), FIRSTS).batch, views, progress=AFTER_WARM_UP)
    assert agreeing(seen).tolist() != agreeing(b1()).tolist()
    expected = pruned_risk(b1(), agreeing(seen), 0.4, "swap", "noise")
    close(RankPruning(0.4, selection_view="weak_2").loss(step), expected, ROUNDING)


def pairs_of_their_own(number: int) -> WeakDataset:
    """Pairs (0, 1), (2, 3), ..."""
    return WeakDataset(torch.zeros(2 * number, 1), torch.arange(2 * number).view(-1, 2), firsts(number))


def ranked(method: RankPruning, scores: Tensor, epoch: int) -> dict[str, Tensor]:
    """What the method remembers after ranking pairs with these scores."""
    data = pairs_of_their_own(len(scores))
    state = method.init(setup_of(data, MLP((1,), 2)))
    logits = logits_of(scores.reshape(-1))
    progress = Progress(epoch=epoch, num_epochs=10)
    method.begin_epoch(Epoch(data, state, progress, lambda numbers: logits[numbers], torch.Generator()))
    return state


def test_ranking_leaves_out_the_share_that_is_impure() -> None:
    scores = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    kept = kept_by_rank(scores, 0.4, "swap")
    assert (~kept).sum(0).tolist() == [18, 8]
    assert float(scores[~kept[:, 0], 0].max()) < float(scores[kept[:, 0], 0].min())
    assert float(scores[~kept[:, 1], 1].min()) > float(scores[kept[:, 1], 1].max())


def test_the_ranks_are_remembered_as_a_tensor_after_the_warm_up() -> None:
    method = RankPruning(0.4, selection="rank")
    scores = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    assert bool(ranked(method, scores, epoch=4)["kept"].all())
    state = ranked(method, scores, epoch=5)
    assert state["kept"].dtype == torch.int64
    assert torch.equal(state["kept"] > 0, kept_by_rank(scores, 0.4, "swap"))
    assert ranked(RankPruning(0.4), scores, epoch=5) == {}


def test_ranks_belong_to_pairs_wherever_they_are_in_a_batch() -> None:
    method = RankPruning(0.4, selection="rank")
    scores = torch.randn(20, 2, generator=torch.Generator().manual_seed(1))
    state = ranked(method, scores, epoch=5)
    expected = pruned_risk(scores, kept_by_rank(scores, 0.4, "swap"), 0.4, "swap", "noise")
    for order in (torch.arange(20), torch.randperm(20, generator=torch.Generator().manual_seed(2))):
        batch = pairs_of_their_own(20).batch([order])
        step = step_of(batch, {"weak": logits_of(scores.reshape(-1))}, state=state, progress=AFTER_WARM_UP)
        torch.testing.assert_close(method.loss(step), expected)


# The teacher.

TAUGHT = batch_of([0.6, -0.2, 1.1, 0.3], [-0.4, 0.2, 1.0, -0.9])


def with_two_logits(scores: Tensor) -> Tensor:
    return torch.stack([torch.zeros_like(scores), scores], -1)


def test_disagreement_has_the_worked_numbers() -> None:
    given, taught = with_two_logits(b1()), with_two_logits(TAUGHT)
    close(disagreement(given, taught, "squared"), 0.005753)
    close(((b1().sigmoid() - TAUGHT.sigmoid()) ** 2).mean(), 0.002877)
    close(disagreement(given, taught, "cross_entropy"), 0.647828)


def test_the_teacher_has_the_worked_numbers() -> None:
    close(pruned(PcompTeacher(0.4, "discard", consistency_weight=0), b1(), taught=TAUGHT), 0.360431)
    close(pruned(PcompTeacher(0.4, "discard"), b1(), taught=TAUGHT), 0.417966, 3e-6)  # 10 times a number of six digits
    released = PcompTeacher(0.4, "discard", "released", "cross_entropy", consistency_weight=1)
    close(pruned(released, b1(), taught=TAUGHT), 0.901979)


def test_the_teacher_selects_and_gets_no_gradient() -> None:
    taught = -TAUGHT.detach().requires_grad_()
    selected = agreeing(taught)
    expected = pruned_risk(b1(), selected, 0.4, "swap", "noise")
    found = pruned(PcompTeacher(0.4, consistency_weight=0), b1(), taught=taught)
    close(found, expected, ROUNDING)
    assert selected.tolist() != agreeing(b1()).tolist()


def test_the_gradient_of_soft_cross_entropy_is_the_gap_to_the_teacher() -> None:
    plain, taught = PcompTeacher(0.4, consistency_weight=0), TAUGHT.detach()
    both = PcompTeacher(0.4, consistency="cross_entropy", consistency_weight=3)
    gap = gradient_of(both, b1(), FIRSTS, taught=taught) - gradient_of(plain, b1(), FIRSTS, taught=taught)
    close(gap, 3 * (b1().sigmoid() - taught.sigmoid()) / 8, ROUNDING)


# Errors.


@pytest.mark.parametrize("kind", [Pcomp, RankPruning, PcompTeacher])
@pytest.mark.parametrize("prior", [0.0, 1.0, -0.2, 1.7, float("nan")])
def test_a_prior_that_is_no_share_is_refused(kind: type, prior: float) -> None:
    with pytest.raises(DataError) as caught:
        kind(prior)
    assert str(caught.value) == f"the prior, the share of the positive class, must lie between 0 and 1, found {prior}"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pcomp(0.4, "elu"), "correction must be one of none, relu, abs, found 'elu'"),
        (lambda: Pcomp(0.4, rule="sort"), "rule must be one of swap, discard, found 'sort'"),
        (lambda: RankPruning(0.4, "sort"), "rule must be one of swap, discard, found 'sort'"),
        (lambda: RankPruning(0.4, weights="one"), "weights must be one of noise, prior, released, found 'one'"),
        (lambda: RankPruning(0.4, selection="top"), "selection must be one of sign, rank, found 'top'"),
        (lambda: PcompTeacher(0.4, consistency="kl"), "consistency must be one of squared, cross_entropy, found 'kl'"),
    ],
)
def test_options_that_do_not_exist_are_refused(make: object, message: str) -> None:
    with pytest.raises(DataError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == message


@named
def test_other_kinds_are_refused_in_one_line(method: AbstractMethod) -> None:
    name = type(method).__name__
    message = f"{name} learns from ordered pairs (PairComparison), found Labels"
    assert_refuses_other_kinds(method, message)


@named
def test_three_classes_are_refused_in_one_line(method: AbstractMethod) -> None:
    data = WeakDataset(torch.zeros(2, 1), [[0, 1]], PairComparison.of([0], num_classes=3))
    with pytest.raises(DataError) as caught:
        method.check(data)
    assert str(caught.value) == f"{type(method).__name__} is for two classes, the weak labels are over 3"


# Learning.


def averaged_along(model: nn.Module, decay: float = 0.97) -> nn.Module:
    """A moving average that is brought up to date whenever the model is asked again."""
    copy = deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def follow(module: nn.Module, _: object) -> None:
        for mine, other in zip(copy.parameters(), module.parameters(), strict=True):
            mine.lerp_(other, 1 - decay)

    model.register_forward_pre_hook(follow)
    return copy


LEARNERS = [Pcomp(0.4, correction, rule) for correction in CORRECTIONS for rule in RULES]
LEARNERS += [RankPruning(0.4), RankPruning(0.4, selection="rank"), RankPruning(0.4, "discard", weights="prior")]
LEARNERS += [PcompTeacher(0.4, consistency_weight=1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("method", LEARNERS, ids=repr)
def test_two_gaussians_are_told_apart(method: AbstractMethod) -> None:
    instances, labels, _ = gaussians(4000, 0.4)
    generator = torch.Generator().manual_seed(0)
    data = pair_comparison(labels, 1500, 0.4, rule=method.rule, generator=generator).dataset(instances)
    model = MLP((10,), 2, hidden=(16,))
    train(method, data, model, num_epochs=8, num_batches=20, averaged=averaged_along(model))
    tested, truth, _ = gaussians(2000, 0.4, seed=1)
    assert accuracy(model, tested, truth) > 0.83  # 0.90 at best, 0.60 by saying one class


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@named
def test_the_loss_is_the_same_on_a_gpu(method: AbstractMethod) -> None:
    assert_same_on_a_gpu(method, b1(), FIRSTS)


def test_the_teacher_averages_with_the_decay_of_the_method() -> None:
    x = torch.randn(16, 3, generator=torch.Generator().manual_seed(1))
    data = WeakDataset(x, torch.arange(16).view(8, 2), PairComparison.of([0, 1] * 4))
    model = build("linear", [3], 2)
    assert PcompTeacher(0.4).teacher_decay == 0.97
    for method, config, decay in (
        (PcompTeacher(0.4), TrainingConfig(), 0.97),
        (PcompTeacher(0.4, decay=0.0), TrainingConfig(), 0.0),
        (PcompTeacher(0.4, decay=0.9), TrainingConfig(average=0.9), 0.9),
        (GLWS(e_step="teacher"), TrainingConfig(), 0.999),
        (GLWS(e_step="teacher"), TrainingConfig(average=0.99), 0.99),
    ):
        assert Training(model, data, method, config, None, World()).decay == decay
    with pytest.raises(ConfigError) as caught:
        Training(model, data, PcompTeacher(0.4), TrainingConfig(average=0.999), None, World())
    assert str(caught.value) == (
        "`training.average` is 0.999, but PcompTeacher averages with decay 0.97; "
        "leave it out and set the option of the method"
    )


def test_a_decay_of_one_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        PcompTeacher(0.4, decay=1.0)
    assert str(caught.value) == "decay must be at least 0 and less than 1, found 1"
