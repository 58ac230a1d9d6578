"""R4, R7: what must hold between answers, whatever the automaton. Asymmetric inputs throughout."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import automata, many, random_log_probs

import glws
from glws.automata import Automaton, anything, at_least, between, exactly

TOLERANCE = 1e-10
seeds = st.integers(0, 10_000)


def likelihood(automaton: Automaton, log_probs: torch.Tensor) -> float:
    return float(glws.infer(log_probs, automaton).log_likelihood.exp())


@many
@given(automata(), seeds, st.integers(1, 5))
def test_gradient_is_the_posterior(automaton: Automaton, seed: int, length: int) -> None:
    log_probs = random_log_probs(seed, 2, length, automaton.num_symbols).requires_grad_()
    answer = glws.infer(log_probs, automaton)
    answer.log_likelihood[~answer.impossible].sum().backward()
    if answer.num_impossible == 0:
        assert torch.allclose(log_probs.grad, answer.marginals, atol=TOLERANCE)


@many
@given(automata(), seeds, st.integers(1, 5))
def test_posteriors_sum_to_one(automaton: Automaton, seed: int, length: int) -> None:
    answer = glws.infer(random_log_probs(seed, 3, length, automaton.num_symbols), automaton)
    expected = (~answer.impossible).double()[:, None].expand(3, length)
    assert torch.allclose(answer.marginals.sum(-1), expected, atol=TOLERANCE)


@many
@given(automata(num_symbols=2, weighted=False), seeds, st.integers(0, 5))
def test_a_language_and_its_complement_share_probability_one(automaton: Automaton, seed: int, length: int) -> None:
    log_probs = random_log_probs(seed, 1, length, 2)
    assert abs(likelihood(automaton, log_probs) + likelihood(~automaton, log_probs) - 1) < TOLERANCE


@many
@given(automata(num_symbols=2, weighted=False), automata(num_symbols=2, weighted=False), seeds, st.integers(0, 4))
def test_either_is_one_plus_other_minus_both(left: Automaton, right: Automaton, seed: int, length: int) -> None:
    log_probs = random_log_probs(seed, 1, length, 2)
    separate = likelihood(left, log_probs) + likelihood(right, log_probs)
    assert abs(separate - likelihood(left & right, log_probs) - likelihood(left | right, log_probs)) < TOLERANCE


@many
@given(seeds, st.integers(1, 9), st.integers(2, 4))
def test_counts_partition_probability(seed: int, length: int, classes: int) -> None:
    log_probs = random_log_probs(seed, 1, length, classes)
    total = sum(likelihood(exactly(m, of=1, num_symbols=classes), log_probs) for m in range(length + 1))
    assert abs(total - 1) < TOLERANCE


@many
@given(seeds, st.integers(1, 8), st.data())
def test_posterior_of_an_exact_count_sums_to_the_count(seed: int, length: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, length))
    answer = glws.infer(random_log_probs(seed, 2, length, 3), exactly(count, of=2, num_symbols=3))
    assert torch.allclose(answer.marginals[..., 2].sum(1), torch.full((2,), float(count), dtype=torch.float64))


@many
@given(seeds, st.integers(2, 7), st.integers(0, 3), st.integers(0, 4))
def test_permuting_instances_permutes_the_posterior_of_a_count(seed: int, length: int, low: int, width: int) -> None:
    automaton = between(low, low + width, of=[0, 2], num_symbols=3)
    log_probs = random_log_probs(seed, 1, length, 3)
    order = torch.randperm(length, generator=torch.Generator().manual_seed(seed))
    answer, permuted = glws.infer(log_probs, automaton), glws.infer(log_probs[:, order], automaton)
    assert torch.allclose(permuted.marginals, answer.marginals[:, order], atol=TOLERANCE)


@many
@given(automata(num_symbols=3), seeds, st.integers(0, 4))
def test_relabeling_classes_commutes(automaton: Automaton, seed: int, length: int) -> None:
    order = torch.randperm(3, generator=torch.Generator().manual_seed(seed))
    renamed = Automaton(
        automaton.num_states,
        3,
        zip(automaton.sources, order.numpy()[automaton.symbols], automaton.targets, automaton.log_weights, strict=True),
        {s: w for s, w in enumerate(automaton.log_start) if w > -np.inf},
        {s: w for s, w in enumerate(automaton.log_final) if w > -np.inf},
        sum_paths=automaton.sum_paths,
    )
    log_probs = random_log_probs(seed, 1, length, 3)
    answer = glws.infer(log_probs, automaton)
    other = glws.infer(log_probs[..., torch.argsort(order)], renamed)
    assert torch.allclose(answer.log_likelihood, other.log_likelihood, atol=TOLERANCE)
    assert torch.allclose(answer.marginals, other.marginals[..., order], atol=TOLERANCE)


@many
@given(automata(), seeds, st.integers(0, 4), st.integers(1, 3))
def test_padding_and_companions_change_nothing(automaton: Automaton, seed: int, length: int, extra: int) -> None:
    classes = automaton.num_symbols
    alone = glws.infer(random_log_probs(seed, 1, length, classes), automaton)
    padded = torch.full((2, length + extra, classes), torch.nan, dtype=torch.float64)
    padded[0, :length] = random_log_probs(seed, 1, length, classes)[0]
    padded[1] = random_log_probs(seed + 1, 1, length + extra, classes)[0]
    company = glws.infer(padded, [automaton, anything(classes)], [length, length + extra])
    assert torch.allclose(company.log_likelihood[:1], alone.log_likelihood, atol=1e-12)
    assert torch.allclose(company.marginals[0, :length], alone.marginals[0], atol=1e-12)
    assert torch.all(company.marginals[0, length:] == 0)


@many
@given(automata(), seeds, st.integers(0, 4))
def test_an_unconstrained_instance_keeps_its_prior(automaton: Automaton, seed: int, length: int) -> None:
    classes = automaton.num_symbols
    one_more = (automaton + Automaton(2, classes, [(0, k, 1) for k in range(classes)], final=[1])).trim()
    log_probs = random_log_probs(seed, 1, length + 1, classes)
    answer, longer = glws.infer(log_probs[:, :length], automaton), glws.infer(log_probs, one_more)
    assert torch.allclose(longer.log_likelihood, answer.log_likelihood, atol=TOLERANCE)
    if not answer.num_impossible:
        assert torch.allclose(longer.marginals[:, :length], answer.marginals, atol=TOLERANCE)
        assert torch.allclose(longer.marginals[:, length], log_probs[:, length].exp(), atol=TOLERANCE)


@many
@given(automata(), seeds, st.integers(0, 5))
def test_reversing_machine_and_input_reverses_the_posterior(automaton: Automaton, seed: int, length: int) -> None:
    log_probs = random_log_probs(seed, 1, length, automaton.num_symbols)
    answer = glws.infer(log_probs, automaton)
    mirrored = glws.infer(log_probs.flip(1), automaton.reverse())
    assert torch.allclose(answer.log_likelihood, mirrored.log_likelihood, atol=TOLERANCE)
    assert torch.allclose(answer.marginals, mirrored.marginals.flip(1), atol=TOLERANCE)


@many
@given(automata(weighted=False), seeds, st.integers(0, 5))
def test_determinizing_and_minimizing_change_nothing(automaton: Automaton, seed: int, length: int) -> None:
    log_probs = random_log_probs(seed, 1, length, automaton.num_symbols)
    answer = glws.infer(log_probs, automaton, engine="trellis")
    for other in (automaton.determinize(), automaton.minimize(), automaton.trim()):
        same = glws.infer(log_probs, other, engine="trellis")
        assert torch.allclose(answer.log_likelihood, same.log_likelihood, atol=TOLERANCE)
        assert torch.allclose(answer.marginals, same.marginals, atol=TOLERANCE)


@many
@given(seeds, st.integers(2, 6))
def test_em_on_a_table_never_lowers_the_likelihood(seed: int, length: int) -> None:
    """A model with one free distribution for each of three kinds of instance; the M-step is the mean posterior."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.randint(3, (8, length), generator=generator)
    theta = torch.rand(3, 2, generator=generator, dtype=torch.float64).log_softmax(-1)
    weak = [at_least(1 + g % 2) if g % 3 else exactly(g % (length + 1)) for g in range(8)]
    before = -torch.inf
    for _ in range(5):
        answer = glws.infer(theta[kind], weak)
        total = float(answer.log_likelihood.sum())
        assert total >= before - 1e-9
        before = total
        expected = torch.zeros(3, 2, dtype=torch.float64).index_add_(0, kind.flatten(), answer.marginals.flatten(0, 1))
        theta = torch.where(expected.sum(1, keepdim=True) > 0, (expected / expected.sum(1, keepdim=True)).log(), theta)
