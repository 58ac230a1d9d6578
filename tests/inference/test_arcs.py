"""Weights of arcs: gradients against enumeration, CTC, a hidden Markov model, a random field, and learned structure."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from strategies import random_automaton, random_log_probs
from torch import Tensor

from glws.automata import Automaton
from glws.errors import DataError
from glws.inference import arc_likelihood

Arc = tuple[int, int, int]


def arcs_of(automaton: Automaton) -> list[Arc]:
    columns = (automaton.sources.tolist(), automaton.symbols.tolist(), automaton.targets.tolist())
    return list(zip(*columns, strict=True))


def by_paths(log_probs: Tensor, automaton: Automaton, log_weights: Tensor) -> Tensor:
    """log of the sum over all sequences of arcs, of one group."""
    arcs, terms = arcs_of(automaton), []
    for path in itertools.product(range(len(arcs)), repeat=len(log_probs)):
        if all(arcs[one][2] == arcs[other][0] for one, other in itertools.pairwise(path)):
            first, last = (arcs[path[0]][0], arcs[path[-1]][2])
            ends = float(automaton.log_start[first] + automaton.log_final[last])
            parts = [log_weights[arc] + log_probs[step, arcs[arc][1]] for step, arc in enumerate(path)]
            terms.append(ends + torch.stack(parts).sum())
    return torch.logsumexp(torch.stack(terms), 0) if terms else torch.tensor(-torch.inf)


def drawn(seed: int) -> Automaton:
    return random_automaton(np.random.default_rng(seed), 3, max_states=3, weighted=True)


@pytest.mark.parametrize("seed", [seed for seed in range(20) if 1 <= len(drawn(seed).sources) <= 12])
def test_likelihood_and_both_gradients_equal_the_sum_over_paths(seed: int) -> None:
    automaton = drawn(seed)
    lengths = [3, 2]
    log_probs = random_log_probs(seed, 2, 3, 3).requires_grad_()
    weights = random_log_probs(seed + 1, 2, 1, len(automaton.sources))[:, 0].detach().requires_grad_()
    found = arc_likelihood(log_probs, automaton, weights, lengths)
    other = torch.stack([by_paths(log_probs[g, : lengths[g]], automaton, weights[g]) for g in range(2)])
    torch.testing.assert_close(found, other, rtol=1e-12, atol=1e-12)
    possible = other > -torch.inf
    if bool(possible.any()):
        gradients, expected = (torch.autograd.grad(z[possible].sum(), [log_probs, weights]) for z in (found, other))
        torch.testing.assert_close(gradients, expected, rtol=0, atol=1e-10)


def ctc(target: list[int], classes: int) -> Automaton:
    """Blanks (class 0) between the labels of the target, which may be repeated."""
    extended = [0, *itertools.chain.from_iterable((label, 0) for label in target)]
    arcs = []
    for state, label in enumerate(extended):
        for before in (state, state - 1, state - 2):
            if before >= 0 and (before > state - 2 or (label != 0 and label != extended[before])):
                arcs.append((before + 1, label, state + 1))
    arcs += [(0, extended[state], state + 1) for state in range(min(2, len(extended)))]
    return Automaton(len(extended) + 1, classes, arcs, 0, [len(extended), len(extended) - 1])


@pytest.mark.parametrize("target", [[1, 2, 3], [2, 2, 1], [4]])
def test_ctc_is_an_automaton(target: list[int]) -> None:
    log_probs = random_log_probs(len(target), 2, 9, 5).requires_grad_()
    automaton, lengths = ctc(target, 5), [9, 7]
    found = arc_likelihood(log_probs, automaton, torch.zeros(len(automaton.sources)).double(), lengths)
    targets = torch.tensor([target, target])
    other = -torch.nn.functional.ctc_loss(
        log_probs.transpose(0, 1), targets, lengths, [len(target)] * 2, reduction="none"
    )
    torch.testing.assert_close(found, other, rtol=1e-12, atol=1e-10)


def chain(states: int) -> Automaton:
    """The labels are the states: any may follow any."""
    arcs = [(before, label, label) for before in range(states) for label in range(states)]
    first = [(states, label, label) for label in range(states)]
    return Automaton(states + 1, states, [*arcs, *first], states, range(states))


def tied(table: Tensor, automaton: Automaton) -> Tensor:
    """The weight of each arc, by its source and its symbol."""
    return table[automaton.sources.tolist(), automaton.symbols.tolist()]


def test_a_linear_chain_random_field_is_an_automaton() -> None:
    """log Z of unary scores and a table of transitions, by the sum over all labelings."""
    unary, table = random_log_probs(1, 1, 5, 3), random_log_probs(2, 1, 3, 3)[0].detach().requires_grad_()
    automaton = chain(3)
    weights = torch.cat([table, torch.zeros(1, 3, dtype=torch.float64)])[
        automaton.sources.tolist(), automaton.symbols.tolist()
    ]
    found = arc_likelihood(unary, automaton, weights)
    scores = [
        sum(unary[0, step, label] for step, label in enumerate(y)) + sum(table[a, b] for a, b in itertools.pairwise(y))
        for y in itertools.product(range(3), repeat=5)
    ]
    other = torch.logsumexp(torch.stack(scores), 0)
    torch.testing.assert_close(found[0], other, rtol=0, atol=1e-10)
    torch.testing.assert_close(*(torch.autograd.grad(z, table)[0] for z in (found[0], other)), rtol=0, atol=1e-10)


def test_an_em_step_of_a_hidden_markov_model() -> None:
    """Expected transitions, by the sum over all sequences of states."""
    states, observed = 2, torch.tensor([0, 2, 1, 1, 0, 2])
    start, moves = torch.tensor([0.6, 0.4]).double(), torch.tensor([[0.7, 0.3], [0.2, 0.8]]).double()
    emits = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6]]).double()
    automaton = chain(states)
    table = torch.cat([moves, start[None]]).log().requires_grad_()
    log_z = arc_likelihood(emits[:, observed].T[None].log(), automaton, tied(table, automaton))
    (counts,) = torch.autograd.grad(log_z.sum(), table)
    expected, total = torch.zeros(3, 2).double(), 0.0
    for path in itertools.product(range(states), repeat=len(observed)):
        weight = float(start[path[0]] * torch.stack([emits[s, o] for s, o in zip(path, observed, strict=True)]).prod())
        weight *= float(np.prod([moves[a, b] for a, b in itertools.pairwise(path)]))
        expected[2, path[0]] += weight
        for a, b in itertools.pairwise(path):
            expected[a, b] += weight
        total += weight
    torch.testing.assert_close(counts, expected / total, rtol=0, atol=1e-10)
    assert float(log_z.detach()) == pytest.approx(np.log(total), abs=1e-10)


def test_em_learns_the_transitions_of_a_planted_automaton() -> None:
    """Symbols go round in threes; every arc of a state that knows the last symbol has a weight to learn."""
    generator = torch.Generator().manual_seed(0)
    truth = (torch.arange(12) + torch.randint(3, (40, 1), generator=generator)) % 3
    log_probs = torch.full((40, 12, 3), 0.1).scatter(2, truth[:, :, None], 0.8).log().double()
    automaton, table = chain(3), torch.full((4, 3), 1 / 3).double().log()
    for _ in range(40):
        table.requires_grad_()
        log_z = arc_likelihood(log_probs, automaton, tied(table, automaton))
        (counts,) = torch.autograd.grad(log_z.sum(), table)
        table = (counts / counts.sum(1, keepdim=True)).log()
    assert torch.equal(table[:3].argmax(1), torch.tensor([1, 2, 0]))
    assert table[:3].exp().amax(1).min() > 0.95


def test_float32_is_as_good_as_its_input() -> None:
    automaton, log_probs = chain(3), random_log_probs(3, 2, 30, 3)
    weights = random_log_probs(4, 1, 1, len(automaton.sources))[0, 0]
    single = arc_likelihood(log_probs.float(), automaton, weights.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), arc_likelihood(log_probs, automaton, weights), rtol=1e-5, atol=1e-5)


def test_shapes_that_do_not_fit_are_named() -> None:
    with pytest.raises(DataError, match=r"^log_weights must be \[12\] or \[1, 12\], found \[3\]$"):
        arc_likelihood(torch.zeros(1, 2, 3), chain(3), torch.zeros(3))
    with pytest.raises(DataError, match=r"^the automaton is over 3 classes, log_probs over 2$"):
        arc_likelihood(torch.zeros(1, 2, 2), chain(3), torch.zeros(12))
