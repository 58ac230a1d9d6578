"""Automata that count are answered by the counts engine, and it agrees with the trellis."""

import numpy as np
import pytest
import torch
from strategies import random_log_probs

import glws
from glws.automata import (
    Automaton,
    all_equal,
    any_of,
    at_least,
    at_most,
    between,
    exactly,
    from_counts,
    none_of,
    string,
)
from glws.inference import Between, Counts, Exactly, Weighted, chosen_engine

EVEN = Automaton(2, 3, [(0, 0, 0), (0, 1, 1), (0, 2, 0), (1, 0, 1), (1, 1, 0), (1, 2, 1)], final=[0])
COUNTING = {
    "exactly": exactly(2, of=1, num_symbols=3),
    "exactly of two": exactly(3, of=[0, 2], num_symbols=3),
    "between": between(1, 3, of=2, num_symbols=3),
    "at least": at_least(2, of=0, num_symbols=3),
    "at most": at_most(2, of=0, num_symbols=3),
    "even": EVEN,
    "noisy": from_counts([-2.0, -0.5, 0.0, -1.0, -np.inf, -3.0], of=[1, 2], num_symbols=3),
}


@pytest.mark.parametrize("name", COUNTING)
def test_what_counts_is_answered_by_counts(name: str) -> None:
    automaton, log_probs = COUNTING[name], random_log_probs(1, 9, 6, 3)
    lengths = [0, 1, 2, 3, 4, 5, 6, 6, 5]
    assert chosen_engine(automaton, 6) == "counts"
    fast, slow = (glws.infer(log_probs, automaton, lengths, engine=engine) for engine in ("counts", "trellis"))
    assert torch.equal(fast.impossible, slow.impossible)
    assert torch.allclose(fast.log_likelihood, slow.log_likelihood, atol=1e-10)
    assert torch.allclose(fast.marginals, slow.marginals, atol=1e-10)


def test_a_batch_of_everything_is_split_and_put_together() -> None:
    automata = [*COUNTING.values(), any_of(1, 3), none_of([0, 2], 3), all_equal(3), string([0, 1, 2, 0, 1, 2], 3)]
    weak = [automata[(5 * group) % len(automata)] for group in range(33)]
    log_probs = random_log_probs(2, 33, 6, 3)
    auto, oracle = glws.infer(log_probs, weak), glws.infer(log_probs, weak, engine="enumeration")
    assert torch.equal(auto.impossible, oracle.impossible)
    assert torch.allclose(auto.log_likelihood, oracle.log_likelihood, atol=1e-10)
    assert torch.allclose(auto.marginals, oracle.marginals, atol=1e-10)


@pytest.mark.parametrize(
    "weights",
    [
        Exactly(torch.tensor([0, 2, 5])),
        Between(torch.tensor([1, 0, 3]), torch.tensor([2, 9, 2])),
        Weighted(torch.randn(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)),
    ],
    ids=lambda weights: type(weights).__name__,
)
def test_the_form_of_counts_agrees_with_its_automata(weights: Exactly | Between | Weighted) -> None:
    counted = torch.tensor([[False, True, False], [True, True, False], [False, False, True]])
    log_probs = random_log_probs(3, 3, 5, 3)
    answers = [glws.infer(log_probs, Counts(counted, weights), [5, 4, 5], engine=e) for e in ("auto", "enumeration")]
    assert torch.equal(answers[0].impossible, answers[1].impossible)
    assert torch.allclose(answers[0].log_likelihood, answers[1].log_likelihood, atol=1e-10)
    assert torch.allclose(answers[0].marginals, answers[1].marginals, atol=1e-10)
    chosen = Counts(counted, weights).select(torch.tensor([2, 0]))
    again = glws.infer(log_probs[[2, 0]], chosen, [5, 5])
    assert torch.allclose(again.marginals, answers[0].marginals[[2, 0]], atol=1e-12)


def test_the_engines_are_chosen_by_structure() -> None:
    assert chosen_engine(string([0, 1, 1]), 3) == "trellis"
    assert chosen_engine(string([0, 1]), 2) == "closed"
    assert chosen_engine(any_of(1), 9) == "closed"
    assert chosen_engine(exactly(4), 9) == "counts"
