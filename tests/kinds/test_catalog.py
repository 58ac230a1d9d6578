"""What kinds say of themselves: their names, columns and options, and defaults for what they do not say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from glws import kinds
from glws.data.tables._block_reading import COLUMN_READERS
from glws.errors import DataError
from glws.estimator._targets import holds_classes, kind_of
from glws.inference import TableWeights
from glws.kinds import KINDS, READINGS, AbstractSupervision, find_kind, kind_from_columns, single_reading

ALL = [
    found
    for found in vars(kinds).values()
    if isinstance(found, type) and issubclass(found, AbstractSupervision) and not found.__abstractmethods__
]


def test_every_kind_with_a_name_is_in_the_catalog_and_every_other_is_made_by_one_that_is() -> None:
    assert {kind.name for kind in ALL if kind.name} == set(KINDS)
    assert all(kind is KINDS[kind.name] for kind in ALL if kind.name)
    assert all(not kind.columns and not kind.options for kind in ALL if not kind.name)


def test_columns_are_read_in_ways_that_tables_know() -> None:
    assert set(COLUMN_READERS) == set(READINGS)
    readings = {how for kind in KINDS.values() for columns in kind.columns for how in columns.values()}
    assert {single_reading(how) for how in readings} <= set(READINGS)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_a_kind_says_that_it_takes_classes_apart_exactly_if_it_can(kind: type[AbstractSupervision]) -> None:
    assert kind.is_multiclass == (kind.per_class is not AbstractSupervision.per_class)


@dataclass(frozen=True, eq=False)
class Plain(AbstractSupervision):
    """Nothing but what every kind must say."""

    marks: Tensor
    num_classes = 2

    def form(self, lengths: Tensor) -> TableWeights:
        return TableWeights(torch.zeros(len(self), 2))

    def log_weight(self, group: int, labels: object) -> float:
        return 0.0


def test_what_a_kind_does_not_say_has_a_default() -> None:
    weak = Plain(torch.ones(3))
    assert (weak.name, weak.columns, weak.options, weak.size, weak.num_labels) == ("", (), (), None, None)
    assert not weak.may_be_unknown
    weak.check_readable(torch.ones(3, dtype=torch.int64))
    for ask in (weak.per_class, lambda: weak.solved_by("exact")):
        with pytest.raises(DataError, match='Plain says nothing about several classes at once; use multiclass="auto"'):
            ask()
    with pytest.raises(DataError, match="Plain cannot be drawn from labels: it does not define weaken"):
        Plain.weaken(torch.zeros(3), 2, generator=torch.Generator())
    with pytest.raises(DataError, match="Plain cannot be read from columns: it does not define from_columns"):
        kind_from_columns(Plain, {}, ("a", "b"), np.ones(3, np.int64), {})


def test_options_of_a_wrong_type_are_an_error_of_the_data() -> None:
    with pytest.raises(DataError, match=r"the options {'flip': 'much'} do not fit: "):
        kind_from_columns(KINDS["pair_similarity"], {"same": np.ones(2)}, ("a", "b"), np.ones(2), {"flip": "much"})


def test_the_estimator_knows_a_kind_by_name_by_value_and_by_class() -> None:
    assert kind_of("proportions.share") is kind_of("proportions") is find_kind("proportions")
    assert kind_of(Plain) is Plain
    assert kind_of(lambda values: Plain(torch.ones(1))) is None
    held = {kind: holds_classes(kind) for kind in (*KINDS, None, Plain)}
    assert {kind for kind, is_so in held.items() if is_so} == {"labels", "noisy_labels", None}
