"""Texts that are exactly sums are answered by the engine of sums, like their automata."""

from __future__ import annotations

import pytest
import torch

from glws.automata import sum_range
from glws.inference import Automata, infer
from glws.inference import Sums as SumsForm
from glws.kinds import Constraints

PRICES = {"price": [0.5, 2, 1.25, -1]}
SUMS = [
    "sum(y) == 4",
    "sum(y) >= 4 and sum(y) < 7",
    "4 <= sum(y[0:5]) <= 7.5",
    "2 * sum(y) + 1 > 8",
    "sum(y) > 3.5",
    "9 >= sum(y)",
    "sum(y[::-1]) == 4",
    "sum(price) <= 3.75",
    "2 < sum(price) <= 3.75",
    "sum(y) == 2.5",
    "sum(y) == 2 * length - 3",
]
OTHERS = [
    "sum(y) != 4",
    "sum(y) % 3 == 1",
    "sum(y[0:3]) == 4",
    "sum(y[::2]) == 4",
    "sum(y) == 4 and any(1)",
    "sum(y) == 4 or sum(y) == 5",
    "not sum(y) == 4",
    "sum(y) == 4 and sum(price) < 3",
    "count(1) == 2",
    "y[0] + sum(y) == 4",
    "sum(y) + 0 * y[7] == 4",
]


@pytest.mark.parametrize("text", SUMS)
def test_a_sum_is_answered_as_its_automaton_is(text: str) -> None:
    log_probs = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1)).double()
    weak = Constraints.of([text, text], 4, values=PRICES)
    form = weak.form(torch.tensor([5, 5]))
    assert isinstance(form, SumsForm)
    found = infer(log_probs, weak)
    other = infer(log_probs, [weak.automaton(group, 5) for group in (0, 1)])
    assert found.engine == "sums"
    torch.testing.assert_close(found.log_likelihood, other.log_likelihood)
    torch.testing.assert_close(found.marginals, other.marginals)


@pytest.mark.parametrize("text", OTHERS)
def test_anything_else_stays_an_automaton(text: str) -> None:
    assert sum_range(text, 4, 5, PRICES) is None
    assert isinstance(Constraints.of([text], 4, values=PRICES).form(torch.tensor([5])), Automata)


def test_different_sums_and_lengths_share_a_form_and_other_texts_do_not() -> None:
    lengths = torch.tensor([3, 6])
    weak = Constraints.of(["sum(y) == 4", "sum(y) >= 5"], 4)
    log_probs = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(2)).double()
    assert isinstance(weak.form(lengths), SumsForm)
    other = infer(log_probs, [weak.automaton(0, 3), weak.automaton(1, 6)], lengths)
    torch.testing.assert_close(infer(log_probs, weak, lengths).marginals, other.marginals)
    assert isinstance(Constraints.of(["sum(y) == 4", "any(1)"], 4).form(lengths), Automata)
    assert isinstance(Constraints.of(["sum(y) == 4", "sum(price) == 3"], 4, values=PRICES).form(lengths), Automata)


def test_known_labels_count_for_the_sum() -> None:
    log_probs = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(3)).double()
    weak = Constraints.of(["sum(y) == 6", "sum(y) == 5"], 4, known=[{1: 3}, {}])
    found = infer(log_probs, weak, [2, 3])
    other = infer(log_probs, [weak.automaton(0, 2), weak.automaton(1, 3)], [2, 3])
    torch.testing.assert_close(found.log_likelihood, other.log_likelihood)
    torch.testing.assert_close(found.marginals, other.marginals)


def test_a_text_about_a_thousand_digits_is_answered() -> None:
    log_probs = torch.randn(2, 1000, 10, generator=torch.Generator().manual_seed(4)).log_softmax(-1)
    answer = infer(log_probs, Constraints.of(["sum(y) == 4510", "sum(y) <= 4400"], 10))
    digits = answer.marginals.double() @ torch.arange(10.0).double()
    assert abs(float(digits[0].sum()) - 4510) < 0.1
    assert 4300 < float(digits[1].sum()) < 4400
