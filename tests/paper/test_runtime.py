"""The losses that are timed say the same as each other and as the enumeration, and times come back as written."""

import itertools
import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from glws.errors import DataError
from reproduction import runtime
from reproduction.__main__ import run as command
from reproduction.runtime import (
    CLASSES,
    COUNT_LOSS,
    GROUPS,
    LISTED,
    LONGEST_LISTED,
    PLAIN,
    UUM,
    Bags,
    Row,
    Runtime,
    losses,
    measured,
    read_runtime,
    with_gradient,
)


class Times(NamedTuple):
    median: float
    turns: int


def at_once(calls: Mapping[str, Callable[[], object]]) -> dict[str, Times]:
    """In place of a clock."""
    return {name: Times(0.25, 3) for name in calls}


def enumerated(bags: Bags) -> float:
    """-log P(count) or of presence, mean over bags and classes, over all 2^L ways to be of a class or not."""
    probs = bags.logits.double().softmax(-1).view(GROUPS, bags.length, CLASSES)
    total = 0.0
    for group, number in itertools.product(range(GROUPS), range(CLASSES)):
        ones, count = probs[group, :, number].tolist(), int(bags.counts[group, number])
        chance = 0.0
        for labels in itertools.product((0, 1), repeat=bags.length):
            fits = sum(labels) == count if bags.setting == "proportions" else any(labels) == (count > 0)
            chance += fits * math.prod(one if label else 1 - one for one, label in zip(ones, labels, strict=True))
        total -= math.log(chance)
    return total / (GROUPS * CLASSES)


@pytest.mark.parametrize("setting", ["multi_instance", "proportions"])
@pytest.mark.parametrize("length", [3, 6])
def test_count_losses_agree_with_the_enumeration_and_each_other(setting: str, length: int) -> None:
    bags = Bags.drawn(setting, length)
    found = losses(bags)
    for name in (PLAIN, COUNT_LOSS):
        assert float(found[name](bags.logits)) == pytest.approx(enumerated(bags), rel=1e-5)  # float32
    plain, ours = (with_gradient(found[name], bags.logits)() for name in (PLAIN, COUNT_LOSS))
    torch.testing.assert_close(plain, ours, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("length", [2, 5])
def test_listed_arrangements_give_our_uum(length: int) -> None:
    bags = Bags.drawn("proportions", length)
    found = losses(bags)
    assert float(found[LISTED](bags.logits)) == pytest.approx(float(found[UUM](bags.logits)), rel=1e-5)
    listed, ours = (with_gradient(found[name], bags.logits)() for name in (LISTED, UUM))
    torch.testing.assert_close(listed, ours, rtol=1e-4, atol=1e-6)


def test_arrangements_are_listed_for_short_bags_of_proportions_only() -> None:
    assert LISTED not in losses(Bags.drawn("multi_instance", 3))
    assert LISTED not in losses(Bags.drawn("proportions", LONGEST_LISTED + 1))


def test_times_of_all_losses_come_back_as_written(tmp_path: Path) -> None:
    said: list[str] = []
    threads = torch.get_num_threads()
    found = measured(at_once, "a machine", lengths=(3, 12), report=said.append)
    assert torch.get_num_threads() == threads
    assert len(said) == 4
    assert len(found.rows) == 4 + 4 + 5 + 4
    assert found.rows[0] == Row("multi_instance", "GLWS", 3, 0.25, 3)
    (tmp_path / "runtime.json").write_text(found.text())
    assert read_runtime(tmp_path / "runtime.json") == found


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "JSONDecodeError"),
        (json.dumps({"rows": []}), "KeyError: 'machine'"),
        (json.dumps({"machine": "", "rows": [{"length": 3}]}), "TypeError"),
        ("[]", "TypeError"),
    ],
)
def test_broken_times_are_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "runtime.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"^[^\n]*runtime\.json holds no times[^\n]*; measure again$") as caught:
        read_runtime(path)
    assert message in str(caught.value)


def test_command_writes_the_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runtime, "measured", partial(measured, lengths=(3,)))
    monkeypatch.setattr("benchmarks.engines.timing.interleaved", at_once)
    assert command(["runtime", "--device", "cpu", "--out", str(tmp_path / "new" / "times.json")]) == 0
    assert "multi_instance, bags of 3: GLWS 250 ms" in capsys.readouterr().out
    found: Runtime = read_runtime(tmp_path / "new" / "times.json")
    assert "one thread" in found.machine
    assert "not installed" not in found.machine
    assert {row.length for row in found.rows} == {3}
