"""The kernels against plain torch: on a CUDA device, or on the CPU where Triton interprets (TRITON_INTERPRET=1)."""

from __future__ import annotations

import importlib.util
import math
import os

import numpy as np
import pytest
import torch
from strategies import random_automaton, random_log_probs

from glws.automata import Automaton, exactly
from glws.inference import CountResult, Exactly, count_posterior, trellis_posterior
from glws.inference import _gpu as gpu
from glws.inference._gpu import counts, tables, trellis
from glws.inference._trellis import build

HAS_CUDA = torch.cuda.is_available()
if importlib.util.find_spec("triton") is None or not (HAS_CUDA or os.environ.get("TRITON_INTERPRET") == "1"):
    pytest.skip("needs Triton, and a CUDA device or TRITON_INTERPRET=1", allow_module_level=True)

DEVICE = torch.device("cuda" if HAS_CUDA else "cpu")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter is numpy, and log 0 is meant
# Plain torch is exact to about 1e-13 in float64. In float32 the kernels round at every step: 6e-8 a step, at random.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
DTYPES = [torch.float64, torch.float32]
Answer = tuple[torch.Tensor, torch.Tensor]


def assert_same(answer: Answer | CountResult, expected: Answer | CountResult, tolerance: float) -> None:
    log_likelihood, marginals = (part.cpu() for part in answer)
    # -inf must be met exactly; of a finite one, the error may grow with its size.
    torch.testing.assert_close(log_likelihood, expected[0], rtol=tolerance, atol=tolerance, equal_nan=True)
    torch.testing.assert_close(marginals, expected[1], rtol=0.0, atol=tolerance, equal_nan=True)


# The trellis


def ask_trellis(
    potentials: torch.Tensor, lengths: torch.Tensor, automata: list[Automaton], index: torch.Tensor
) -> Answer:
    machine = tables.arc_tables(automata, DEVICE)
    assert trellis.fits(machine)
    return trellis.gpu_trellis_posterior(potentials.to(DEVICE), lengths.to(DEVICE), machine, index.to(DEVICE))


def check_trellis(
    potentials: torch.Tensor, lengths: torch.Tensor, automata: list[Automaton], index: torch.Tensor
) -> None:
    is_real = (torch.arange(potentials.shape[1]) < lengths[:, None])[:, :, None]
    expected = trellis_posterior(torch.where(is_real, potentials, 0.0), lengths, build(automata, index))
    answer = ask_trellis(torch.where(is_real, potentials, math.nan), lengths, automata, index)  # padding is not read
    assert_same(answer, expected, TOLERANCE[potentials.dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(8))
def test_trellis_agrees_on_random_automata_of_ragged_groups(seed: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(seed)
    groups, instances, classes = int(rng.integers(1, 8)), int(rng.integers(1, 11)), (1, 3, 5)[seed % 3]
    automata = [random_automaton(rng, classes, 6, weighted=seed % 2 == 0) for _ in range(3)]
    potentials = random_log_probs(seed, groups, instances, classes, scale=1.0 + 100.0 * (seed % 3 == 0)).to(dtype)
    potentials[torch.from_numpy(rng.random(potentials.shape) < 0.1)] = -math.inf
    lengths, index = torch.from_numpy(rng.integers(0, [[instances + 1], [3]], size=(2, groups)))
    check_trellis(potentials, lengths, automata, index)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("states", [17, 40])
def test_trellis_of_many_states_agrees(states: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(states)
    arcs = [(s, k, int(rng.integers(states)), float(rng.normal())) for s in range(states) for k in range(3)]
    automaton = Automaton(
        states, 3, arcs, {0: 0.5, 3: -1.0}, {s: float(rng.normal()) for s in range(0, states, 3)}, sum_paths=True
    )
    potentials = random_log_probs(states, 2, 21, 3).to(dtype)
    check_trellis(potentials, torch.tensor([21, 13]), [automaton], torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_states_that_linear_space_loses_are_found_in_log_space(dtype: torch.dtype) -> None:
    # After 20 labels of probability e^-60 each, float32 has flushed the only path; at e^-1000 float64 has too.
    depth = 60.0 if dtype == torch.float32 else 1000.0
    potentials = torch.tensor([0.0, -depth], dtype=dtype).expand(3, 24, 2).contiguous()
    potentials[1] *= 1e-3  # an easy group beside the hard ones
    check_trellis(potentials, torch.tensor([24, 24, 21]), [exactly(20)], torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_impossible_groups_have_zeros_and_no_nan(dtype: torch.dtype) -> None:
    potentials = random_log_probs(0, 4, 3, 2).to(dtype)
    potentials[0, :, 1] = -math.inf
    potentials[1, 1] = -math.inf
    lengths = torch.tensor([3, 3, 1, 0])
    log_likelihood, marginals = ask_trellis(potentials, lengths, [exactly(2)], torch.zeros(4, dtype=torch.int64))
    assert (log_likelihood == -math.inf).all()
    assert (marginals == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_trellis_never_gives_nan(seed: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(seed)
    largest = min(torch.finfo(dtype).max, 1e300)  # sums of nine stay within float64
    choices = torch.tensor([0.0, -1.0, 1e30, -1e30, largest, -largest, -math.inf, -80.0, -700.0], dtype=dtype)
    potentials = choices[torch.from_numpy(rng.integers(0, len(choices), size=(5, 9, 3)))]
    automata, index = [random_automaton(np.random.default_rng(1), 3)], torch.zeros(5, dtype=torch.int64)
    log_likelihood, marginals = ask_trellis(potentials, torch.full((5,), 9), automata, index)
    assert not log_likelihood.isnan().any()
    totals = marginals.double().sum(2)  # all 1 or all 0 in a group; beyond float32, log Z may be -inf
    torch.testing.assert_close(totals, totals[:, :1].round().expand_as(totals), rtol=0.0, atol=1e-5)
    assert (totals[log_likelihood > -math.inf] > 0.5).all()


def test_tables_are_kept_for_the_same_automata() -> None:
    automata = [exactly(2), exactly(3)]
    assert tables.arc_tables(automata, DEVICE) is tables.arc_tables(list(automata), DEVICE)
    assert tables.arc_tables(automata[:1], DEVICE) is not tables.arc_tables(automata, DEVICE)


def test_only_cuda_tensors_are_answered() -> None:
    assert not gpu.is_available(torch.zeros(1))
    assert gpu.is_available(torch.zeros(1, device=DEVICE)) == HAS_CUDA


# Counts


def ask_counts(zero: torch.Tensor, one: torch.Tensor, lengths: torch.Tensor, count: torch.Tensor) -> CountResult:
    return counts.gpu_count_posterior(*(part.to(DEVICE) for part in (zero, one, lengths, count)))


def check_counts(zero: torch.Tensor, one: torch.Tensor, lengths: torch.Tensor, count: torch.Tensor) -> None:
    expected = count_posterior(zero, one, lengths, Exactly(count), "characteristic")
    assert_same(ask_counts(zero, one, lengths, count), expected, TOLERANCE[zero.dtype])


@pytest.fixture(params=["one launch", "many programs"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short groups by both kernels: chunks of 32 instances make them long."""
    if request.param == "many programs":
        for name, value in {"LONG": 0, "_CHUNK": 32, "_SAMPLE": 16}.items():
            monkeypatch.setattr(counts, name, value)


def draw(rng: np.random.Generator, problems: int, instances: int) -> Answer:
    """Logits of scale 0.1 to 100, shifted by up to ±50, on potentials that are not normalized; some labels certain."""
    zero = 3.0 * rng.normal(size=(problems, instances))
    one = zero + 10.0 ** rng.uniform(-1, 2) * rng.normal(size=zero.shape) + rng.choice([-50.0, -3.0, 0.0, 3.0, 50.0])
    zero[rng.random(zero.shape) < 0.05] = -np.inf
    one[rng.random(zero.shape) < 0.05] = -np.inf
    return torch.from_numpy(zero), torch.from_numpy(one)


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("instances", [1, 3, 10, 40, 500])
def test_counts_agree(instances: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(instances)
    zero, one = (part.to(dtype) for part in draw(rng, 3, instances))
    lengths = torch.tensor([instances, instances, int(rng.integers(instances + 1))])
    count = torch.tensor([instances // 4, instances - 1, int(lengths[2]) // 2])
    check_counts(zero, one, lengths, count)


@pytest.mark.usefixtures("_both_ways")
def test_counts_agree_at_the_extremes() -> None:
    flat = torch.zeros(7, 40, dtype=torch.float64)
    rare, far = flat - 14.0, flat + torch.linspace(-1e6, 3e6, 40, dtype=torch.float64)
    for one, counted in [(rare, 20), (flat, 1), (far, 17), (far * 1e200, 30), (flat + 50.0, 3)]:
        count = torch.tensor([counted, 0, 40, 39, -1, 41, counted + 1])
        check_counts(flat, one, torch.full((7,), 40), count)


@pytest.mark.usefixtures("_both_ways")
def test_what_cannot_be_counted_is_impossible_and_nan_stays_in_its_problem() -> None:
    zero, one = (torch.zeros(4, 3, dtype=torch.float64) for _ in range(2))
    one[0] = -math.inf
    zero[1] = one[1] = -math.inf
    zero[2, 1] = math.nan
    log_likelihood, marginals = ask_counts(zero, one, torch.tensor([3, 3, 3, 2]), torch.tensor([1, 1, 1, 1]))
    assert log_likelihood[:2].tolist() == [-math.inf, -math.inf]
    assert (marginals[:2] == 0).all()
    assert log_likelihood[2].isnan()
    assert marginals[2].isnan().all()
    assert marginals[3].tolist() == pytest.approx([0.5, 0.5, 0.0])


@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("seed", range(6))
def test_counts_never_give_nan(seed: int) -> None:
    rng = np.random.default_rng(seed)
    choices = np.array([0.0, -1.0, 1e30, -1e30, 1e308, -1e308, -np.inf, -80.0, 700.0, 5e-324, np.inf])
    zero, one = (torch.from_numpy(rng.choice(choices, size=(6, 20))) for _ in range(2))
    log_likelihood, marginals = ask_counts(zero, one, torch.full((6,), 20), torch.arange(6) * 4)
    assert not log_likelihood.isnan().any()
    assert ((marginals >= 0) & (marginals <= 1)).all()


@pytest.mark.parametrize("shift", [-12.0, 0.0])
def test_a_long_group_agrees(shift: float) -> None:
    size = 300_000 if HAS_CUDA else 600
    one = torch.randn(1, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + shift
    for counted in (1, size // 4):
        check_counts(torch.zeros_like(one), one, torch.tensor([size]), torch.tensor([counted]))


# Both, on a device: graphs and determinism


def run_both() -> tuple[torch.Tensor, ...]:
    potentials = random_log_probs(1, 6, 12, 2).to(DEVICE)
    lengths, index = torch.full((6,), 12, device=DEVICE), torch.zeros(6, dtype=torch.int64, device=DEVICE)
    machine = tables.arc_tables([exactly(5)], DEVICE)

    def call() -> tuple[torch.Tensor, ...]:
        short = counts.gpu_count_posterior(potentials[:, :, 0], potentials[:, :, 1], lengths, lengths // 3)
        return (*trellis.gpu_trellis_posterior(potentials, lengths, machine, index), *short)

    if not HAS_CUDA:
        return call()
    direct = call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    for part in captured:
        part.fill_(math.nan)
    graph.replay()
    for part, expected in zip(captured, direct, strict=True):
        assert torch.equal(part, expected)
    return captured


def test_the_same_bits_twice_also_from_a_captured_graph() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        first, second = run_both(), run_both()
    finally:
        torch.use_deterministic_algorithms(False)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
