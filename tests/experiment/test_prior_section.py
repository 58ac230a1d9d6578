"""The section about the class prior, and the interval of an estimate."""

from __future__ import annotations

import pytest
import torch

from glws.data import Groups, WeakDataset
from glws.experiment._prior_section import prior_sections
from glws.kinds import Labels, PositiveUnlabeled
from glws.selection import resolve_priors


def test_the_share_that_is_called_positive_depends_on_the_prior_as_it_should() -> None:
    rows = torch.linspace(0.05, 0.95, 10)[:, None]
    weak = PositiveUnlabeled.of([0] * 9 + [1], prior=0.5)
    data = WeakDataset(rows, Groups.singles(10), weak)
    (section,) = prior_sections(data, lambda x: torch.cat([1 - x, x], 1).log())
    assert "it was given, 0.500" in section.paragraphs[0]
    expected = {0.4: 3, 0.45: 3, 0.5: 4, 0.55: 4, 0.6: 5}  # of nine: above 0.625, 0.556, 0.5, 0.455, 0.417
    found = {float(name.split()[1]): value for name, value in section.values.items()}
    assert found == {prior: f"{number / 9:.1%} called positive" for prior, number in expected.items()}


def test_an_estimate_keeps_its_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(300, 2, generator=generator) + 3, torch.randn(700, 2, generator=generator)])
    data = WeakDataset(x, Groups.singles(1000), PositiveUnlabeled.of([True] * 60 + [False] * 940))
    (weak,) = resolve_priors(data).weak
    assert isinstance(weak, PositiveUnlabeled)
    assert weak.prior is not None
    low, high = weak.limits
    assert 0.06 < low <= weak.prior <= high < 0.5
    (section,) = prior_sections(resolve_priors(data), lambda rows: torch.zeros(len(rows), 2).log_softmax(1))
    assert f"estimated, {weak.prior:.3f} with a 95 % interval from {low:.3f} to {high:.3f}" in section.paragraphs[0]
    assert next(iter(section.values)) == f"prior {low:.3f}"


def test_a_range_that_was_given_bounds_the_interval() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(300, 2, generator=generator) + 3, torch.randn(700, 2, generator=generator)])
    weak = PositiveUnlabeled.of([True] * 60 + [False] * 940, prior=[0.1, 0.2])
    (found,) = resolve_priors(WeakDataset(x, Groups.singles(1000), weak)).weak
    assert isinstance(found, PositiveUnlabeled)
    assert found.prior == pytest.approx(0.2)
    assert found.limits[1] <= 0.2


def test_other_kinds_have_no_such_section() -> None:
    data = WeakDataset(torch.zeros(2, 1), Groups.singles(2), Labels.of([0, 1], 2))
    assert list(prior_sections(data, lambda rows: torch.zeros(len(rows), 2))) == []
