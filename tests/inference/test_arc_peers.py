"""Hidden Markov models, random fields and CTC as automata, next to libraries for each; skipped where one is missing."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from inference.test_arcs import chain, ctc, tied
from strategies import random_log_probs
from torch import Tensor

from glws.inference import arc_likelihood


def shares(seed: int, *shape: int) -> Tensor:
    return random_log_probs(seed, 1, *shape)[0].detach().softmax(-1)


@pytest.mark.parametrize(("states", "symbols"), [(2, 3), (4, 2), (3, 6)])
def test_an_em_step_is_that_of_hmmlearn(states: int, symbols: int) -> None:
    peer: Any = pytest.importorskip("hmmlearn.hmm")
    start, moves, emits = shares(1, 1, states)[0], shares(2, states, states), shares(3, states, symbols)
    generator = torch.Generator().manual_seed(states)
    lengths = [7, 1, 12, 4]
    observed = torch.randint(symbols, (sum(lengths),), generator=generator)

    model = peer.CategoricalHMM(states, n_features=symbols, n_iter=1, init_params="", random_state=0)
    model.startprob_, model.transmat_, model.emissionprob_ = start.numpy(), moves.numpy(), emits.numpy()
    log_likelihood = model.score(observed.numpy()[:, None], lengths)
    model.fit(observed.numpy()[:, None], lengths)

    automaton = chain(states)
    table = torch.cat([moves, start[None]]).log().requires_grad_()
    places = torch.nn.utils.rnn.pad_sequence(list(observed.split(lengths)), batch_first=True)
    scores = emits.log()[:, places].permute(1, 2, 0).clone().requires_grad_()
    log_z = arc_likelihood(scores, automaton, tied(table, automaton), lengths)
    transitions, occupied = torch.autograd.grad(log_z.sum(), [table, scores])
    emitted = torch.zeros(symbols, states).double().index_add_(0, places.flatten(), occupied.flatten(0, 1)).T

    assert float(log_z.detach().sum()) == pytest.approx(log_likelihood, abs=1e-10)
    for found, theirs in (
        (transitions[states], model.startprob_),
        (transitions[:states], model.transmat_),
        (emitted, model.emissionprob_),
    ):
        np.testing.assert_allclose(found / found.sum(-1, keepdim=True), theirs, rtol=0, atol=1e-10)


def test_the_loss_of_a_random_field_is_that_of_pytorch_crf() -> None:
    peer: Any = pytest.importorskip("torchcrf")
    classes, lengths = 4, [6, 3, 1]
    field = peer.CRF(classes, batch_first=True).double()
    unary = random_log_probs(1, 3, 6, classes).detach().requires_grad_()
    labels = torch.randint(classes, (3, 6), generator=torch.Generator().manual_seed(0))
    real = torch.arange(6) < torch.tensor(lengths)[:, None]
    theirs = field(unary, labels, mask=real, reduction="none")

    automaton, is_last = chain(classes), torch.arange(6) == torch.tensor(lengths)[:, None] - 1
    scores = unary + is_last[:, :, None] * field.end_transitions
    table = torch.cat([field.transitions, field.start_transitions[None]])
    log_z = arc_likelihood(scores, automaton, tied(table, automaton), lengths)
    chosen = (scores.gather(2, labels[:, :, None])[:, :, 0] * real).sum(1) + field.start_transitions[labels[:, 0]]
    moves = (field.transitions[labels[:, :-1], labels[:, 1:]] * real[:, 1:]).sum(1)
    ours = chosen + moves - log_z

    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    learned = [unary, field.transitions, field.start_transitions, field.end_transitions]
    found, other = (torch.autograd.grad(loss.sum(), learned, retain_graph=True) for loss in (ours, theirs))
    for one, two in itertools.zip_longest(found, other):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`:UserWarning")
def test_log_z_and_marginals_of_a_random_field_are_those_of_torch_struct() -> None:
    peer: Any = pytest.importorskip("torch_struct")
    potentials = random_log_probs(5, 1, 3, 3)[0].detach()  # [after, before]
    tabled = potentials.repeat(2, 7, 1, 1).requires_grad_()
    theirs = peer.LinearChainCRF(tabled)
    automaton = chain(3)
    table = torch.cat([potentials.T, torch.zeros(1, 3).double()]).requires_grad_()
    log_z = arc_likelihood(torch.zeros(2, 8, 3).double(), automaton, tied(table, automaton))
    torch.testing.assert_close(log_z, theirs.partition, rtol=0, atol=1e-10)
    (moves,) = torch.autograd.grad(log_z.sum(), table)
    torch.testing.assert_close(moves[:3], theirs.marginals.detach().sum((0, 1)).T, rtol=0, atol=1e-10)


@pytest.mark.parametrize("target", [[1, 2, 3], [2, 2, 1], [4]])
def test_the_gradient_of_ctc_is_that_of_torch(target: list[int]) -> None:
    """By the logits: torch takes for granted that its log-probabilities come from a log-softmax."""
    logits = random_log_probs(7, 2, 9, 5).detach().requires_grad_()
    automaton, lengths = ctc(target, 5), [9, 7]
    weights = torch.zeros(len(automaton.sources)).double()
    ours = -arc_likelihood(logits.log_softmax(2), automaton, weights, lengths)
    theirs = torch.nn.functional.ctc_loss(
        logits.log_softmax(2).transpose(0, 1), torch.tensor([target] * 2), lengths, [len(target)] * 2, reduction="none"
    )
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    found, other = (torch.autograd.grad(loss.sum(), logits)[0] for loss in (ours, theirs))
    torch.testing.assert_close(found, other, rtol=0, atol=1e-10)
