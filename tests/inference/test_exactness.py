"""R1, R3: every engine answers to enumeration, on random asymmetric inputs."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
import torch
from strategies import random_automaton, random_log_probs

import glws
from glws.automata import Automaton, any_of, anything, exactly, from_table, none_of, nothing, string
from glws.inference import trellis_posterior
from glws.inference._trellis import build

TOLERANCE = 1e-10  # float64; errors of a few ulp accumulate over at most seven steps


class Answer(NamedTuple):
    log_likelihood: torch.Tensor
    marginals: torch.Tensor


def assert_same(answer: glws.Posterior | Answer, oracle: glws.Posterior, tolerance: float = TOLERANCE) -> None:
    possible = oracle.log_likelihood > -torch.inf
    assert torch.equal(answer.log_likelihood > -torch.inf, possible)
    error = (answer.log_likelihood - oracle.log_likelihood)[possible].abs()
    assert error.max() <= tolerance if len(error) else True
    assert (answer.marginals - oracle.marginals).abs().max() <= tolerance if answer.marginals.numel() else True


def in_plain_torch(potentials: torch.Tensor, automata: list[Automaton], lengths: list[int]) -> Answer:
    """The trellis without any compiled kernel, as other devices use it."""
    trellis = build(automata, torch.arange(len(automata)))
    return Answer(*trellis_posterior(potentials, torch.tensor(lengths), trellis))


def compare_random_batch(seed: int, groups: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    classes, instances = int(rng.integers(1, 4)), int(rng.integers(0, 6))
    automata = [random_automaton(rng, classes, weighted=weighted) for _ in range(groups)]
    lengths = rng.integers(0, instances + 1, size=groups).tolist()
    log_probs = random_log_probs(seed, groups, instances, classes)
    evidence = random_log_probs(seed + 1, groups, instances, classes) if seed % 2 else None
    oracle = glws.infer(log_probs, automata, lengths, evidence, engine="enumeration")
    for engine in ("trellis", "auto"):
        assert_same(glws.infer(log_probs, automata, lengths, evidence, engine=engine), oracle)
    assert_same(in_plain_torch(oracle.potentials, automata, lengths), oracle)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 20))])
def test_weighted_automata_equal_enumeration(seed: int) -> None:
    compare_random_batch(seed, groups=100, weighted=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1080))
def test_eight_thousand_more_weighted_automata_equal_enumeration(seed: int) -> None:
    compare_random_batch(seed, groups=100, weighted=True)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 30))])
def test_boolean_automata_count_a_labeling_once(seed: int) -> None:
    """3,000 random NFAs, most of them ambiguous: p(w) is that of the accepted labelings, and at most 1."""
    compare_random_batch(500 + seed, groups=100, weighted=False)


@pytest.mark.slow
def test_boolean_nfas_never_exceed_probability_one() -> None:
    rng = np.random.default_rng(7)
    automata = [random_automaton(rng, 2, weighted=False) for _ in range(3000)]
    assert sum(not automaton.is_unambiguous() for automaton in automata) > 500
    answer = glws.infer(random_log_probs(7, 3000, 5, 2), automata)
    assert answer.log_likelihood.max() <= 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("length", [*range(5), *(pytest.param(length, marks=pytest.mark.slow) for length in (5, 6))])
def test_all_two_state_binary_automata_equal_enumeration(length: int) -> None:
    arcs = list(product((0, 1), repeat=3))
    automata = [
        Automaton(2, 2, [arc for arc, present in zip(arcs, bits, strict=True) if present], final=final)
        for bits in product((False, True), repeat=8)
        for final in ([], [0], [1], [0, 1])
    ]
    assert len(automata) == 1024
    log_probs = random_log_probs(length, 1024, length, 2)
    assert_same(glws.infer(log_probs, automata), glws.infer(log_probs, automata, engine="enumeration"))


CLOSED_CASES = {
    "single": (random_log_probs(1, 50, 1, 5), [from_table(row) for row in np.random.default_rng(1).random((50, 5))]),
    "pair": (random_log_probs(2, 50, 2, 4), [from_table(t) for t in np.random.default_rng(2).random((50, 4, 4))]),
    "none": (random_log_probs(3, 50, 5, 3), none_of([0, 2], 3)),
    "any": (random_log_probs(4, 50, 5, 3), any_of([1, 2], 3)),
    "anything": (random_log_probs(5, 50, 5, 3), anything(3)),
    "mixed": (random_log_probs(6, 4, 4, 3), [any_of(1, 3), none_of(0, 3), string([0, 1, 2, 0], 3), exactly(2, 1, 3)]),
}


@pytest.mark.parametrize("name", CLOSED_CASES)
@pytest.mark.parametrize("engine", ["auto", "trellis"])
def test_closed_forms_equal_enumeration(name: str, engine: str) -> None:
    log_probs, weak = CLOSED_CASES[name]
    lengths = None if log_probs.shape[1] < 3 else [(3 * g) % log_probs.shape[1] for g in range(len(log_probs))]
    lengths = None if name == "mixed" else lengths
    oracle = glws.infer(log_probs, weak, lengths, engine="enumeration")
    assert_same(glws.infer(log_probs, weak, lengths, engine=engine), oracle)


def test_at_least_one_is_exact_where_every_probability_is_tiny() -> None:
    """Probabilities of e^-800 are not floats, but their ratios are."""
    positive = torch.tensor([-800.0, -801.0, -803.0], dtype=torch.float64)
    log_probs = torch.stack([torch.zeros(3, dtype=torch.float64), positive], -1)[None]
    answer = glws.infer(log_probs, any_of(1))
    assert torch.allclose(answer.log_likelihood, positive.logsumexp(0), rtol=1e-12)
    assert torch.allclose(answer.marginals[0, :, 1], positive.softmax(0), rtol=1e-12)


def test_the_language_nothing_is_impossible_and_anything_is_certain() -> None:
    log_probs = random_log_probs(8, 3, 4, 2)
    assert torch.all(glws.infer(log_probs, nothing(2)).log_likelihood == -torch.inf)
    certain = glws.infer(log_probs, anything(2))
    assert certain.log_likelihood.abs().max() < 1e-12
    assert torch.allclose(certain.marginals, log_probs.exp(), atol=1e-12)


def test_ambiguous_weighted_automaton_is_refused_until_the_sum_is_meant() -> None:
    arcs = [(0, 0, 0, -0.5), (0, 0, 1), (1, 0, 1), (0, 1, 1)]
    log_probs = random_log_probs(9, 1, 2, 2)
    with pytest.raises(glws.errors.AutomatonError, match=r"more than one path for the labeling \(0,\).*sum_paths=True"):
        glws.infer(log_probs, Automaton(2, 2, arcs, final=[0, 1]))
    meant = Automaton(2, 2, arcs, final=[0, 1], sum_paths=True)
    assert_same(glws.infer(log_probs, meant), glws.infer(log_probs, meant, engine="enumeration"))
