"""Quartets are the same products in another order, with nobody where one is missing."""

from collections import Counter

import numpy as np
import pytest

from glws.inference._compiled_trellis.quartets import FOUR, MAX_PADDING, Quartets, joined, quartets, rounded_up

NOBODY = 99


def products_of(found: Quartets) -> Counter:
    """(sum, shared, other) of every entry that is somebody."""
    entries = found.others.reshape(-1, FOUR).tolist()
    listed: Counter = Counter()
    for quartet, (begin, end) in enumerate(zip(found.bounds[:-1], found.bounds[1:], strict=True)):
        for entry in range(begin, end):
            for place, other in enumerate(entries[entry]):
                if other != NOBODY:
                    listed[FOUR * quartet + place, int(found.shared[entry]), other] += 1
    return listed


@pytest.mark.parametrize("seed", range(20))
def test_quartets_hold_every_product_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sums, shared = int(rng.integers(4, 10)), int(rng.integers(1, 6))
    products = [(s, k, int(rng.integers(5)), 1.0) for s in range(sums) for k in range(shared) for _ in range(2)]
    found = quartets(products, sums, NOBODY)
    assert found is not None
    assert len(found.bounds) == rounded_up(sums) // FOUR + 1
    assert products_of(found) == Counter(product[:3] for product in products)


def test_sums_with_little_in_common_have_no_quartets() -> None:
    apart = [(s, s, 0, 1.0) for s in range(8)]
    assert quartets(apart, 8, NOBODY) is None
    assert FOUR > MAX_PADDING  # each entry would have one product of four


def test_weights_have_no_quartets() -> None:
    same = [(s, k, 0, 1.0) for s in range(4) for k in range(3)]
    assert quartets(same, 4, NOBODY) is not None
    assert quartets([*same[:-1], (3, 2, 0, 0.5)], 4, NOBODY) is None


def test_joined_quartets_are_found_where_they_begin() -> None:
    one = quartets([(s, k, s + k, 1.0) for s in range(4) for k in range(3)], 4, NOBODY)
    two = quartets([(s, k, s * k, 1.0) for s in range(8) for k in range(2)], 8, NOBODY)
    together, begins = joined([one, None, two])
    assert begins.tolist() == [0, -1, 2]
    for part, begin in ((one, 0), (two, 2)):
        bounds = together.bounds[begin : begin + len(part.bounds)]
        assert np.array_equal(np.diff(bounds), np.diff(part.bounds))
        assert np.array_equal(together.shared[bounds[0] : bounds[-1]], part.shared)
        assert np.array_equal(together.others[FOUR * bounds[0] : FOUR * bounds[-1]], part.others)
