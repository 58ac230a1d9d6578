"""R9-R11 and the edges: no NaN ever, the impossible is defined, half precision, messages."""

import pytest
import torch
from strategies import random_automaton, random_log_probs

import glws
from glws.automata import Automaton, all_equal, any_of, anything, exactly, from_table, none_of, nothing, string
from glws.errors import AutomatonError, DataError
from glws.inference import TableWeights

WEAK = {
    "count": exactly(2, of=1, num_symbols=3),
    "any": any_of(2, 3),
    "none": none_of(0, 3),
    "equal": all_equal(3),
    "string": string([0, 1, 2, 0], 3),
    "weighted": from_table(torch.rand(3, 3, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)),
}
VALUES = torch.tensor([1e4, -1e4, 1e30, -1e30, -torch.inf, 5e-324, 0.0, -1.0, 2.5, -300.0, -90.0], dtype=torch.float64)


def limits(dtype: torch.dtype) -> torch.Tensor:
    info = torch.finfo(dtype)
    ends = torch.tensor([info.max, info.min, info.tiny, -torch.inf], dtype=torch.float64)
    return torch.cat([VALUES.clamp(info.min, info.max), ends])


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("autocast", [False, True])
def test_adversarial_inputs_give_no_nan(name: str, dtype: torch.dtype, autocast: bool) -> None:
    """48 cases of 250 groups: 12,000 adversarial inputs."""
    generator = torch.Generator().manual_seed(hash(name) % 1000)
    values = limits(dtype).to(dtype)
    choice = torch.randint(len(values), (250, 4, 3), generator=generator)
    log_probs = values[choice].requires_grad_()
    with torch.autocast("cpu", enabled=autocast):
        answer = glws.infer(log_probs, WEAK[name])
    answer.log_likelihood[~answer.impossible].sum().backward()
    assert not answer.log_likelihood.isnan().any()
    assert not answer.marginals.isnan().any()
    assert log_probs.grad is not None
    assert log_probs.grad.isfinite().all()


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_within_1e_4_of_double(name: str, dtype: torch.dtype) -> None:
    rounded = random_log_probs(4, 50, 4, 3).to(dtype)
    half, double = glws.infer(rounded, WEAK[name]), glws.infer(rounded.double(), WEAK[name])
    assert half.marginals.dtype == torch.float32
    assert (half.marginals.double() - double.marginals).abs().max() < 1e-4
    assert (half.log_likelihood.double() - double.log_likelihood).abs().max() < 1e-4


@pytest.mark.parametrize("engine", ["auto", "trellis", "enumeration"])
def test_impossible_groups_are_minus_infinity_with_zero_gradient_and_are_counted(engine: str) -> None:
    log_probs = random_log_probs(1, 3, 3, 2)
    log_probs[1] = torch.tensor([0.0, -torch.inf])  # surely class 0, but one of class 1 is demanded
    log_probs.requires_grad_()
    answer = glws.infer(log_probs, any_of(1), engine=engine)
    answer.log_likelihood.sum().backward()
    assert answer.log_likelihood[1] == -torch.inf
    assert answer.num_impossible == 1
    assert answer.impossible.tolist() == [False, True, False]
    assert torch.all(answer.marginals[1] == 0)
    assert torch.all(log_probs.grad[1] == 0)
    assert log_probs.grad.isfinite().all()


@pytest.mark.parametrize("engine", ["auto", "trellis"])
def test_an_instance_without_any_possible_class_makes_its_group_impossible(engine: str) -> None:
    log_probs = random_log_probs(1, 2, 3, 3)
    log_probs[0, 1] = -torch.inf
    for weak in WEAK.values():
        answer = glws.infer(log_probs, weak, engine=engine)
        assert answer.log_likelihood[0] == -torch.inf
        assert torch.all(answer.marginals[0] == 0)


def test_a_constraint_that_no_labeling_of_that_length_meets_is_impossible() -> None:
    answer = glws.infer(random_log_probs(2, 2, 3, 2), exactly(5), [3, 2])
    assert answer.num_impossible == 2
    assert torch.all(answer.marginals == 0)
    assert torch.all(answer.mode() == -1)
    assert torch.all(answer.sample(2) == -1)
    assert torch.all(answer.entropy() == 0)


def test_empty_groups_have_the_weight_of_the_empty_labeling() -> None:
    log_probs = random_log_probs(3, 4, 2, 2)
    answer = glws.infer(log_probs, [anything(2), exactly(1), exactly(0), any_of(1)], [0, 0, 0, 0])
    assert answer.log_likelihood.tolist() == [0.0, -torch.inf, 0.0, -torch.inf]
    nobody = glws.infer(log_probs[:, :0], anything(2))
    assert nobody.log_likelihood.tolist() == [0.0] * 4
    assert nobody.marginals.shape == (4, 0, 2)
    assert glws.infer(log_probs[:0], anything(2)).log_likelihood.shape == (0,)


def test_nan_in_padding_is_ignored_and_its_gradient_is_zero() -> None:
    log_probs = random_log_probs(5, 2, 4, 2)
    log_probs[0, 2:] = torch.nan
    log_probs.requires_grad_()
    answer = glws.infer(log_probs, any_of(1), torch.tensor([2, 4]))
    answer.log_likelihood.sum().backward()
    assert torch.isfinite(answer.log_likelihood).all()
    assert torch.all(log_probs.grad[0, 2:] == 0)


def test_double_backward_is_a_clear_error() -> None:
    log_probs = random_log_probs(6, 1, 3, 2).requires_grad_()
    likelihood = glws.infer(log_probs, exactly(1)).log_likelihood.sum()
    (gradient,) = torch.autograd.grad(likelihood, log_probs, create_graph=True)
    with pytest.raises(RuntimeError, match="second derivative of a log-likelihood is not available"):
        torch.autograd.grad(gradient.sum(), log_probs)


def test_evidence_gets_the_gradient_too() -> None:
    log_probs, evidence = random_log_probs(7, 1, 3, 2), random_log_probs(8, 1, 3, 2).requires_grad_()
    answer = glws.infer(log_probs, exactly(1), evidence=evidence)
    answer.log_likelihood.sum().backward()
    assert torch.allclose(evidence.grad, answer.marginals)


def test_gradcheck_passes() -> None:
    log_probs = random_log_probs(9, 2, 3, 2).requires_grad_()
    for weak in (exactly(1), any_of(1), string([0, 1, 1])):
        assert torch.autograd.gradcheck(lambda x, weak=weak: glws.infer(x, weak).log_likelihood, log_probs)


def test_samples_follow_the_posterior() -> None:
    """20,000 draws: frequencies within five standard errors of the posterior, and only allowed labelings."""
    log_probs = random_log_probs(10, 2, 3, 2)
    answer = glws.infer(log_probs, [exactly(2), any_of(1)])
    drawn = answer.sample(20_000, torch.Generator().manual_seed(0))
    frequency = torch.stack([(drawn == k).double().mean(0) for k in (0, 1)], -1)
    error = (answer.marginals * (1 - answer.marginals) / 20_000).sqrt()
    assert torch.all((frequency - answer.marginals).abs() <= 5 * error + 1e-12)
    assert torch.all(drawn[:, 0].sum(1) == 2)
    pairs = (drawn[:, 0, 0] * drawn[:, 0, 1]).double().mean()  # a joint statistic, not only marginals
    joint = log_probs[0, 0, 1] + log_probs[0, 1, 1] + log_probs[0, 2, 0] - answer.log_likelihood[0]
    assert abs(float(pairs - joint.exp())) < 5 * 0.5 / 20_000**0.5


def test_samples_repeat_with_the_same_generator() -> None:
    answer = glws.infer(random_log_probs(11, 2, 4, 3), exactly(2, of=1, num_symbols=3))
    first, second = (answer.sample(5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, second)


def test_sum_over_paths_has_no_single_best_labeling() -> None:
    import numpy as np

    automaton = random_automaton(np.random.default_rng(0), 2)
    assert not automaton.is_unambiguous()
    answer = glws.infer(random_log_probs(12, 1, 3, 2), automaton)
    for method in (answer.mode, answer.entropy):
        with pytest.raises(AutomatonError, match="sums over several paths"):
            method()
    assert answer.sample(1).shape == (1, 1, 3)


def test_forms_can_be_asked_directly() -> None:
    weights = torch.rand(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    log_probs = random_log_probs(13, 4, 1, 3)
    one = glws.infer(log_probs, TableWeights(weights.log()))
    assert torch.allclose(one.log_likelihood, (log_probs[:, 0] + weights.log()).logsumexp(-1))
    table = torch.rand(4, 3, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64).log()
    pairs = random_log_probs(14, 4, 2, 3)
    for engine in ("closed", "trellis", "enumeration"):
        two = glws.infer(pairs, TableWeights(table), engine=engine)
        joint = pairs[:, 0, :, None] + pairs[:, 1, None, :] + table
        assert torch.allclose(two.log_likelihood, joint.flatten(1).logsumexp(-1), atol=1e-12)


GOOD = random_log_probs(0, 2, 3, 2)
WRONG = {
    "log_probs must be a floating point tensor, found list": lambda: glws.infer([[0.5, 0.5]], anything(2)),
    "log_probs must be a floating point tensor, found a tensor of torch.int64": lambda: glws.infer(
        torch.zeros(1, 1, 2, dtype=torch.int64), anything(2)
    ),
    r"log_probs must be \[groups, instances, classes\], found shape \[3, 2\]": lambda: glws.infer(GOOD[0], anything(2)),
    "group 0: the automaton is over 3 classes, log_probs over 2": lambda: glws.infer(GOOD, anything(3)),
    "group 1: the automaton is over 3 classes": lambda: glws.infer(GOOD, [anything(2), anything(3)]),
    "there are 2 groups but 1 automata": lambda: glws.infer(GOOD, [anything(2)]),
    "group 1: expected an Automaton, found str": lambda: glws.infer(GOOD, [anything(2), "any(1)"]),
    "group 0: expected an Automaton, found int": lambda: glws.infer(GOOD, 3),
    "lengths must hold one number for each of 2 groups": lambda: glws.infer(GOOD, anything(2), [1]),
    "group 1: length 4 must be in 0..3": lambda: glws.infer(GOOD, anything(2), [3, 4]),
    "group 0: length -1 must be in 0..3": lambda: glws.infer(GOOD, anything(2), [-1, 2]),
    "lengths must be whole numbers, found torch.float": lambda: glws.infer(GOOD, anything(2), [1.5, 2.0]),
    r"evidence must have the shape of log_probs, \[2, 3, 2\], found \[2, 3\]": lambda: glws.infer(
        GOOD, anything(2), evidence=GOOD[..., 0]
    ),
    "group 1, instance 2, class 0: log-probability nan": lambda: glws.infer(
        torch.where(torch.arange(12).view(2, 3, 2) == 10, torch.nan, GOOD), anything(2)
    ),
    "group 0, instance 1, class 1: log-probability inf": lambda: glws.infer(
        torch.where(torch.arange(12).view(2, 3, 2) == 3, torch.inf, GOOD), anything(2)
    ),
    "engine must be one of auto, .* found 'fast'": lambda: glws.infer(GOOD, anything(2), engine="fast"),
    'engine "closed" does not answer this; "trellis" does': lambda: glws.infer(
        GOOD, string([0, 1, 1]), engine="closed"
    ),
    r"enumeration would list 2\^40 labelings": lambda: glws.infer(
        torch.zeros(1, 40, 2), anything(2), engine="enumeration"
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_mistakes_get_one_clear_line(message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        WRONG[message]()
    assert "\n" not in str(caught.value)


def test_nothing_is_impossible_for_every_length() -> None:
    assert glws.infer(random_log_probs(0, 2, 3, 2), nothing(2), [0, 3]).num_impossible == 2


def test_a_single_state_without_arcs_accepts_only_the_empty_group() -> None:
    answer = glws.infer(random_log_probs(0, 2, 3, 2), Automaton(1, 2, [], final=[0]), [0, 3])
    assert answer.log_likelihood.tolist() == [0.0, -torch.inf]
    assert answer.mode().tolist() == [[-1, -1, -1], [-1, -1, -1]]
