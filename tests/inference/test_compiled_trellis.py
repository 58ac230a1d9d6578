"""The compiled trellis gives the answers of the plain one, and of enumeration, whatever it is given."""

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
import torch
from strategies import random_automaton, random_log_probs
from torch import Tensor

from glws.automata import Automaton, all_equal, any_of, anything, exactly, from_table, none_of, nothing, string
from glws.inference import enumerate_posterior, trellis_posterior
from glws.inference._compiled_trellis import compiled_posterior, is_available
from glws.inference._trellis import build

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_available(), reason="numba is not installed")]

Answer = tuple[Tensor, Tensor]
TOLERANCES = {torch.float64: (1e-10, 1e-10), torch.float32: (1e-4, 1e-5)}  # of log Z and of q; a few ulp at each step


def plain(potentials: Tensor, lengths: Tensor, automata: Sequence[Automaton], index: Tensor) -> Answer:
    return trellis_posterior(potentials.double(), lengths, build(automata, index))


def assert_same(answer: Answer, oracle: Answer, likelihood: float = 1e-10, posterior: float = 1e-10) -> None:
    possible = oracle[0] > -torch.inf
    assert torch.equal(answer[0] > -torch.inf, possible)
    assert not answer[0].isnan().any()
    known, right = answer[0].double()[possible], oracle[0][possible]
    assert torch.all((known == right) | ((known - right).abs() <= likelihood * right.abs().clamp_min(1.0)))
    if oracle[1].numel():
        assert (answer[1].double() - oracle[1]).abs().max() <= posterior


def random_batch(seed: int, groups: int, num_automata: int, instances: int) -> tuple:
    """Weighted and boolean automata in one batch, some groups with the same one, all lengths."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(1, 5))
    automata = [random_automaton(rng, classes, max_states=6, weighted=bool(n % 2)) for n in range(num_automata)]
    index = torch.from_numpy(rng.integers(0, num_automata, groups))
    lengths = torch.from_numpy(rng.integers(0, instances + 1, groups))
    here = torch.arange(instances) < lengths[:, None]
    potentials = torch.where(here[:, :, None], random_log_probs(seed, groups, instances, classes), 0.0)
    return potentials, lengths, automata, index


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_equals_the_plain_trellis_on_random_automata(seed: int, dtype: torch.dtype) -> None:
    """2,000 automata; from one group for each to hundreds side by side."""
    rng = np.random.default_rng(seed)
    batch = random_batch(seed, int(rng.integers(1, 300)), (1, 5, 200)[seed % 3], int(rng.integers(0, 40)))
    assert_same(compiled_posterior(batch[0].to(dtype), *batch[1:]), plain(*batch), *TOLERANCES[dtype])


@pytest.mark.parametrize("seed", range(100, 110))
def test_equals_enumeration_on_random_automata(seed: int) -> None:
    potentials, lengths, automata, index = random_batch(seed, 150, 150, 4)
    oracle = enumerate_posterior(potentials, lengths.tolist(), [automata[i].resolve() for i in index.tolist()])
    assert_same(compiled_posterior(potentials, lengths, automata, index), oracle)


def one_automaton(potentials: Tensor, automaton: Automaton) -> tuple:
    groups, instances, _ = potentials.shape
    return potentials, torch.full((groups,), instances), [automaton], torch.zeros(groups, dtype=torch.int64)


@pytest.mark.parametrize("groups", [1, 2, 3, 7, 8, 9, 40, 64, 65, 100])
def test_any_number_of_groups(groups: int) -> None:
    batch = one_automaton(random_log_probs(groups, groups, 37, 3), exactly(11, of=1, num_symbols=3))
    assert_same(compiled_posterior(*batch), plain(*batch))


@pytest.mark.parametrize("instances", [1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 2047, 2048, 2049])
@pytest.mark.parametrize("groups", [1, 9])
def test_any_length(instances: int, groups: int) -> None:
    batch = one_automaton(random_log_probs(instances, groups, instances, 2), exactly(2) | exactly(5))
    assert_same(compiled_posterior(*batch), plain(*batch))


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_ragged_lengths_of_an_automaton_with_a_period(dtype: torch.dtype) -> None:
    """Only even lengths are possible, and the states that can come to an end alternate."""
    period = Automaton(2, 2, [(0, 0, 1), (0, 1, 1), (1, 1, 0)], final=[0])
    potentials = random_log_probs(3, 50, 49, 2)
    lengths = torch.arange(50)
    here = (torch.arange(49) < lengths[:, None])[:, :, None]
    batch = (torch.where(here, potentials, 0.0), lengths, [period], torch.zeros(50, dtype=torch.int64))
    assert_same(compiled_posterior(batch[0].to(dtype), *batch[1:]), plain(*batch), *TOLERANCES[dtype])


def complete(states: int, classes: int, seed: int) -> Automaton:
    """An arc for each state and class: sums of four states, and of four classes, are worked out together."""
    targets = np.random.default_rng(seed).integers(states, size=(states, classes))
    arcs = [(s, k, int(targets[s, k])) for s in range(states) for k in range(classes)]
    return Automaton(states, classes, arcs, final=range(0, states, 2))


@pytest.mark.parametrize(("states", "classes"), [(1, 1), (2, 9), (4, 5), (5, 3), (8, 10), (11, 17)])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_complete_automata_of_any_size_and_ragged_lengths(states: int, classes: int, dtype: torch.dtype) -> None:
    potentials = random_log_probs(states, 90, 41, classes)
    lengths = torch.randint(0, 42, (90,), generator=torch.Generator().manual_seed(classes))
    lengths[:30] = 41
    here = (torch.arange(41) < lengths[:, None])[:, :, None]
    automata = [complete(states, classes, seed) for seed in range(2)]
    batch = (torch.where(here, potentials, 0.0), lengths, automata, (torch.arange(90) % 5 == 0).long())
    assert_same(compiled_posterior(batch[0].to(dtype), *batch[1:]), plain(*batch), *TOLERANCES[dtype])


def test_a_state_that_is_reached_late_is_left_out_before() -> None:
    """Until then sums of four states are not taken: the one that is not there would outweigh the others."""
    arcs = [(s, k, min(s + k, 7)) for s in range(8) for k in range(2)]
    potentials = random_log_probs(6, 16, 60, 2)
    batch = one_automaton(potentials, Automaton(8, 2, arcs, final=[7, 2]))
    assert_same(compiled_posterior(*batch), plain(*batch))


def test_padding_may_hold_anything() -> None:
    potentials, lengths, automata, index = random_batch(5, 60, 10, 12)
    here = (torch.arange(12) < lengths[:, None])[:, :, None]
    filled = torch.where(here, potentials, torch.nan)
    answer = compiled_posterior(filled, lengths, automata, index)
    assert_same(answer, compiled_posterior(potentials, lengths, automata, index), 0, 0)


def rare(length: int, dtype: torch.dtype) -> tuple:
    """Half of the labels are 1, each of probability about 1e-6."""
    positive = 1e-6 * (1 + torch.rand(3, length, dtype=torch.float64, generator=torch.Generator().manual_seed(length)))
    potentials = torch.stack([(-positive).log1p(), positive.log()], -1).to(dtype)
    return one_automaton(potentials, exactly(length // 2))


RARE = [(4, torch.float32), (40, torch.float32), (2000, torch.float32), (40, torch.float64), (400, torch.float64)]


@pytest.mark.parametrize(("length", "dtype"), RARE)
def test_what_is_too_rare_for_the_type_is_redone(length: int, dtype: torch.dtype) -> None:
    batch = rare(length, dtype)
    oracle = plain(*batch)
    tolerance = 1e-9 if dtype == torch.float64 else 1e-5
    assert_same(compiled_posterior(*batch), oracle, tolerance, tolerance)


@pytest.mark.parametrize(("dtype", "length", "is_redone"), [(torch.float64, 60, False), (torch.float64, 200, True)])
def test_log_space_is_used_where_needed_and_only_there(dtype: torch.dtype, length: int, is_redone: bool) -> None:
    batch = rare(length, dtype)
    compiled_posterior(*batch)
    from glws.inference._compiled_trellis import solution

    with patch.object(solution, "trellis_posterior", wraps=trellis_posterior) as log_space:
        compiled_posterior(*batch)
    assert log_space.called == is_redone


NO_NEED = {
    "confident": (200.0 * random_log_probs(1, 20, 100, 3), anything(3)),
    "one-hot": (
        torch.where(torch.arange(3) == torch.arange(100)[:, None] % 3, 0.0, -torch.inf).double().expand(20, -1, -1),
        exactly(33, of=1, num_symbols=3),
    ),
    "half": (random_log_probs(2, 20, 400, 2), exactly(200)),
    "masked": (random_log_probs(3, 20, 100, 3).where(torch.arange(100)[:, None] % 4 > 0, -torch.inf), any_of(2, 3)),
    "all equal": (random_log_probs(4, 20, 8, 3), all_equal(3)),
}
NO_NEED["masked"] = (NO_NEED["masked"][0].where(torch.arange(3) != 1, -1.0), any_of(2, 3))


@pytest.mark.parametrize("name", NO_NEED)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_hard_zeros_and_unlikely_states_are_no_reason_to_redo(name: str, dtype: torch.dtype) -> None:
    from glws.inference._compiled_trellis import solution

    batch = one_automaton(NO_NEED[name][0].to(dtype), NO_NEED[name][1])
    with patch.object(solution, "posterior") as wider, patch.object(solution, "_in_log_space") as log_space:
        answer = solution._by_kernel(*batch)
    assert not wider.called
    assert not log_space.called
    assert_same(answer, plain(*batch), *TOLERANCES[dtype])


def test_losses_in_both_directions_are_noticed() -> None:
    """Two ways to be right: one of few rare labels, one of many; neither pass sees how they compare by itself."""
    arcs = [(0, 0, 0), (0, 1, 1), (1, 1, 1), (1, 0, 0), (0, 2, 2), (2, 2, 2), (2, 1, 3), (3, 0, 3), (3, 1, 3)]
    automaton = Automaton(4, 3, arcs, final={0: 0.0, 3: 0.0})
    generator = torch.Generator().manual_seed(0)
    for scale in (10.0, 100.0, 1000.0):
        potentials = -scale * torch.rand(50, 60, 3, generator=generator, dtype=torch.float64)
        batch = one_automaton(potentials, automaton)
        assert_same(compiled_posterior(*batch), plain(*batch))
        single = (potentials.float(), *batch[1:])
        assert_same(compiled_posterior(*single), plain(*single), 1e-5, 1e-4)  # float32 knows a potential of 1e3 to 6e-5


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scale", [30.0, 300.0])
def test_steep_predictions_on_random_automata(seed: int, scale: float) -> None:
    potentials, lengths, automata, index = random_batch(1000 + seed, 200, 40, 30)
    steep = scale * potentials
    assert_same(compiled_posterior(steep, lengths, automata, index), plain(steep, lengths, automata, index))
    single = steep.float()
    oracle = plain(single, lengths, automata, index)
    assert_same(compiled_posterior(single, lengths, automata, index), oracle, 1e-5, 1e-4)


@pytest.mark.parametrize("log_weight", [-50.0, -300.0, -2000.0, 40.0, 500.0, -1e30, 1e307])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_extreme_weights_of_arcs(log_weight: float, dtype: torch.dtype) -> None:
    arcs = [(0, 0, 0), (0, 1, 1, log_weight), (1, 0, 1), (1, 1, 0, -1.0)]
    automaton = Automaton(2, 2, arcs, final={0: log_weight, 1: 0.5})
    batch = one_automaton(random_log_probs(1, 10, 20, 2), automaton)
    oracle = plain(*batch)
    likelihood, posterior = TOLERANCES[dtype]
    answer = compiled_posterior(batch[0].to(dtype), *batch[1:])
    assert_same((answer[0].double(), answer[1]), (oracle[0].to(dtype).double(), oracle[1]), likelihood, posterior)


WEAK = {
    "count": exactly(2, of=1, num_symbols=3),
    "any": any_of(2, 3),
    "none": none_of(0, 3),
    "equal": all_equal(3),
    "string": string([0, 1, 2, 0], 3),
    "weighted": from_table(torch.rand(3, 3, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)),
}
MODERATE = (1e4, -1e4, -torch.inf, 5e-324, 0.0, -1.0, 2.5, -300.0, -90.0)


def drawn(values: Sequence[float], dtype: torch.dtype, seed: int) -> Tensor:
    choice = torch.randint(len(values), (400, 4, 3), generator=torch.Generator().manual_seed(seed))
    return torch.tensor(values, dtype=dtype)[choice]


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_adversarial_inputs_give_no_nan(name: str, dtype: torch.dtype) -> None:
    """Up to the limits of the type only the kind of answer is compared: sums of 1e30 and 1 depend on their order."""
    info = torch.finfo(dtype)
    batch = one_automaton(drawn([*MODERATE, 1e30, -1e30, info.max, info.min, info.tiny], dtype, 1), WEAK[name])
    answer = compiled_posterior(*batch)
    oracle = trellis_posterior(batch[0], batch[1], build(*batch[2:]))
    assert not answer[0].isnan().any()
    assert answer[1].isfinite().all()
    assert torch.equal(answer[0] == -torch.inf, oracle[0] == -torch.inf)


@pytest.mark.parametrize("name", WEAK)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_adversarial_inputs_give_the_plain_answer(name: str, dtype: torch.dtype) -> None:
    batch = one_automaton(drawn(MODERATE, dtype, 2), WEAK[name])
    answer, oracle = compiled_posterior(*batch), plain(*batch)
    assert_same(answer, oracle, *TOLERANCES[dtype])


def test_hard_zeros_give_posteriors_of_zero() -> None:
    potentials = random_log_probs(7, 30, 20, 3)
    potentials[torch.rand(30, 20, 3, generator=torch.Generator().manual_seed(3)) < 0.3] = -torch.inf
    batch = one_automaton(potentials, exactly(4, of=1, num_symbols=3))
    log_likelihood, marginals = compiled_posterior(*batch)
    assert torch.all(marginals[potentials == -torch.inf] == 0)
    assert_same((log_likelihood, marginals), plain(*batch))


def test_impossible_groups_are_minus_infinity_and_zero() -> None:
    potentials = random_log_probs(8, 4, 6, 2)
    potentials[0, 2] = -torch.inf
    potentials[1, :, 1] = -torch.inf
    index = torch.tensor([0, 1, 2, 3])
    automata = [anything(2), exactly(1), nothing(2), exactly(9)]
    for dtype in TOLERANCES:
        log_likelihood, marginals = compiled_posterior(potentials.to(dtype), torch.full((4,), 6), automata, index)
        assert torch.all(log_likelihood == -torch.inf)
        assert torch.all(marginals == 0)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_hundred_classes_of_which_few_are_told_apart(dtype: torch.dtype) -> None:
    batch = one_automaton(random_log_probs(9, 20, 50, 100), exactly(3, of=7, num_symbols=100))
    assert_same(compiled_posterior(batch[0].to(dtype), *batch[1:]), plain(*batch), *TOLERANCES[dtype])


def number(automaton: Automaton, length: int, field: str) -> int:
    from glws.inference._compiled_trellis import plan

    return int(plan.plan_of(automaton, length, False).numbers[getattr(plan, field)])


def test_classes_with_the_same_arcs_are_summed_once() -> None:
    assert number(exactly(3, of=7, num_symbols=100), 50, "MOST_SUMS") == 1  # the sum of the 99


def test_short_rare_sums_stay_arcs() -> None:
    arcs = [(0, 0, 0), (0, 1, 1), (0, 2, 1), (1, 0, 1), (1, 1, 0), (1, 2, 1)]
    assert number(Automaton(2, 3, arcs, final=[1]), 5, "MOST_SUMS") == 0


def test_four_states_of_complete_automata_are_taken_together_and_those_of_sparse_ones_are_not() -> None:
    assert number(complete(8, 10, 0), 20, "BACK_TOGETHER") == 4
    assert number(Automaton(8, 8, [(s, s, (s + 1) % 8) for s in range(8)], final=range(8)), 20, "BACK_TOGETHER") == 1


# Living arcs


def adder() -> Automaton:
    """The digits of two numbers and of their sum, column by column, from the lowest."""
    return Automaton.from_fold(
        (0, 0),
        lambda s, y: (s[0] + 1, s[1] + y) if s[0] < 2 else (0, s[1] // 10) if y == s[1] % 10 else None,
        lambda s: s == (0, 0),
        10,
    )


def test_steps_with_the_same_living_arcs_share_a_layer() -> None:
    from glws.inference._compiled_trellis.plan import LAYERS, PLACES, SUM_BOUNDS, plan_of

    found = plan_of(adder(), 3000, False).numbers
    layers = found[found[LAYERS] : found[SUM_BOUNDS]]
    assert len(layers) == 3000
    assert layers.max() < 9  # first column, last column, and all others
    assert found[found[PLACES] + 3000] < 3000 * 16  # 11 states are alive on average, in rows of four and at least one


def test_an_automaton_that_counts_its_steps_costs_what_is_alive_at_one() -> None:
    """The digits of the sum are built in: each column has states of its own."""
    digits = np.random.default_rng(0).integers(10, size=60).tolist()

    def step(state: tuple[int, int], y: int) -> tuple[int, int] | None:
        place, total = state
        if place == 120 or (place % 2 and (total + y) % 10 != digits[place // 2]):
            return None
        return place + 1, (total + y) // 10 if place % 2 else total + y

    layered = Automaton.from_fold((0, 0), step, lambda s: s == (120, 0), 10)
    assert layered.num_states > 700
    from glws.inference._compiled_trellis.plan import PLACES, plan_of

    found = plan_of(layered, 120, False).numbers
    assert found[found[PLACES] + 120] < 120 * 12
    for groups in (1, 3, 40):
        batch = one_automaton(random_log_probs(groups, groups, 120, 10), layered)
        assert_same(compiled_posterior(*batch), plain(*batch))


@pytest.mark.parametrize("groups", [1, 5, 33])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_known_digits_are_evidence_without_doubt(groups: int, dtype: torch.dtype) -> None:
    potentials = random_log_probs(groups, groups, 30, 10)
    known = torch.randint(10, (groups, 10), generator=torch.Generator().manual_seed(groups))
    is_known = torch.nn.functional.one_hot(known, 10).bool()
    potentials[:, 2::3] = torch.where(is_known, potentials[:, 2::3], -torch.inf)
    batch = one_automaton(potentials, adder())
    assert_same(compiled_posterior(batch[0].to(dtype), *batch[1:]), plain(*batch), *TOLERANCES[dtype])


@pytest.mark.parametrize("limit", ["MAX_STATES", "MAX_ARCS"])
def test_plans_that_would_be_too_large_have_all_states_at_all_steps(limit: str) -> None:
    from glws.inference._compiled_trellis import plan

    counting = exactly(9, of=1, num_symbols=3)
    batch = one_automaton(random_log_probs(1, 12, 41, 3), counting)
    with patch.object(plan, limit, 40):
        whole = plan.plan_of(counting, 41, False).numbers
        assert whole[whole[plan.LAYERS] : whole[plan.SUM_BOUNDS]].max() == 0
        assert_same(compiled_posterior(*batch), plain(*batch))


def test_sums_of_sums_that_no_edge_carries_itself() -> None:
    """Classes 2 and 3 are one column, which occurs only within the sum that two edges carry."""
    arcs = [(0, 1, 1), (0, 2, 1), (0, 3, 1), (1, 0, 2), (1, 1, 1), (1, 2, 1), (1, 3, 1), (2, 0, 2), (2, 1, 0)]
    for groups in (1, 3, 64):
        batch = one_automaton(random_log_probs(groups, groups, 200, 4), Automaton(3, 4, arcs, final=[0, 1, 2]))
        assert_same(compiled_posterior(*batch), plain(*batch))


def test_classes_without_arcs_have_no_posterior_and_do_not_hide_the_others() -> None:
    potentials = random_log_probs(10, 10, 30, 4)
    potentials[:, :, 0] += 500.0  # never allowed, and 1e217 times as likely
    batch = one_automaton(potentials, exactly(5, of=1, num_symbols=4) & none_of(0, 4))
    answer = compiled_posterior(*batch)
    assert torch.all(answer[1][:, :, 0] == 0)
    assert_same(answer, plain(*batch))


def test_no_groups_and_no_instances() -> None:
    nobody = compiled_posterior(*one_automaton(torch.zeros(0, 3, 2), anything(2)))
    assert nobody[0].shape == (0,)
    assert nobody[1].shape == (0, 3, 2)
    empty = compiled_posterior(*one_automaton(torch.zeros(2, 0, 2), exactly(0) | exactly(3)))
    assert empty[0].tolist() == [0.0, 0.0]
    assert empty[1].shape == (2, 0, 2)
    lengths, index = torch.tensor([0, 0]), torch.tensor([0, 1])
    mixed = compiled_posterior(torch.zeros(2, 3, 2), lengths, [exactly(0), exactly(1)], index)
    assert mixed[0].tolist() == [0.0, -torch.inf]


def test_input_need_not_be_contiguous_and_is_left_alone() -> None:
    potentials = random_log_probs(11, 12, 3, 20).transpose(1, 2)
    batch = one_automaton(potentials, exactly(6, of=1, num_symbols=3))
    before = potentials.clone()
    assert_same(compiled_posterior(*batch), plain(*batch))
    assert torch.equal(potentials, before)


def test_answers_do_not_depend_on_the_company() -> None:
    """A group alone, and the same among others: sums in the same order, so the same to a few ulp."""
    potentials, lengths, automata, index = random_batch(12, 100, 4, 25)
    together = compiled_posterior(potentials, lengths, automata, index)
    for group in range(0, 100, 7):
        alone = slice(group, group + 1)
        single = compiled_posterior(potentials[alone], lengths[alone], automata, index[alone])
        assert_same(single, (together[0][alone], together[1][alone]), 1e-12, 1e-12)


def test_plans_are_remembered_up_to_a_total_size() -> None:
    from glws.inference._compiled_trellis import solution

    recent = solution._Recent(1000)
    automata = [exactly(count) for count in range(20)]
    for automaton in automata:
        recent.find(id(automaton), (automaton,), lambda: (np.zeros(10), np.zeros(15)))
    assert len(recent) == 5
    assert recent.room == 0
    recent.find(id(automata[0]), (automata[0],), lambda: (np.zeros(1000),))  # larger than all of it
    assert len(recent) == 1


def test_a_new_automaton_in_the_place_of_one_that_is_gone_has_its_own_plan() -> None:
    from glws.inference._compiled_trellis import solution

    recent = solution._Recent(1000)
    first, second = exactly(1), exactly(2)
    recent.find("same place", (first,), lambda: (np.zeros(1),))
    assert recent.find("same place", (second,), lambda: (np.ones(1),)) == (np.ones(1),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_labels_that_known_ones_exclude_have_posterior_zero(dtype: torch.dtype) -> None:
    """By evidence, not by the automaton: 47 = a + b, digit by digit, the digits of the sum being read as well."""
    addition = Automaton.from_fold(
        (0, 0),
        lambda s, y: (s[0] + 1, s[1] + y) if s[0] < 2 else (0, s[1] // 10) if y == s[1] % 10 else None,
        lambda s: s == (0, 0),
        10,
    )
    log_probs = torch.randn(20, 6, 10, generator=torch.Generator().manual_seed(0)).to(dtype).log_softmax(-1)
    log_probs[:, 2] = torch.where(torch.arange(10) == 7, 0.0, -torch.inf)
    log_probs[:, 5] = torch.where(torch.arange(10) == 4, 0.0, -torch.inf)
    lengths, index = torch.full((20,), 6), torch.zeros(20).long()
    _, marginals = compiled_posterior(log_probs, lengths, [addition], index)
    _, oracle = trellis_posterior(log_probs.double(), lengths, build([addition], index))
    assert torch.equal(marginals > 0, oracle > 0)
    torch.testing.assert_close(marginals.double(), oracle, rtol=0, atol=1e-5)
