"""What holds for every method of the catalog: it trains, survives a stop, refuses other kinds, is listed."""

import os
import signal
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from methods.small_data import MADE, NUM_FEATURES, PRIOR, binary, classes, combinations, data_of, instances
from torch import Tensor

from glws.cli import run
from glws.data import WeakDataset
from glws.data.augment import Views, views
from glws.errors import ConfigError, DataError
from glws.methods import METHODS, AbstractMethod, Setup, build_method, method_class
from glws.models import build
from glws.training import Fitted, Labeled, Observer, RunFolder, Snapshots, Training, TrainingConfig, World
from glws.training import _run_folder as run_folder

EPOCHS = 2


def method_named(name: str, **options: object) -> AbstractMethod:
    """With the prior, if it has to be told, and not larger than the data."""
    if method_class(name).needs_prior:
        options["prior"] = PRIOR
    if name == "pico":
        options |= {"queue_size": 50, "dimension": 6}
    return build_method(name, options)


def options_of(name: str) -> set[str]:
    return {item.name for item in fields(method_class(name))}  # type: ignore[arg-type]


def training_of(
    combination: str, method: AbstractMethod, precision: str = "float32", look: Views | None = None
) -> Training:
    data = data_of(combination)
    config = TrainingConfig(EPOCHS, batch_size(data), learning_rate=0.01, precision=precision)  # type: ignore[arg-type]
    network = build("mlp", [NUM_FEATURES], data.weak[0].num_classes, torch.Generator().manual_seed(1), hidden=[6])
    return Training(network, data, method, config, look, World())


def batch_size(data: WeakDataset) -> tuple[int, ...]:
    """Three steps an epoch, the last kind with a batch of its own size."""
    return tuple(-(-len(groups) // 3) for groups in data.groups)


def finished(training: Training, snapshots: Snapshots | None = None, observer: Observer | None = None) -> Fitted:
    truth = classes() if training.num_classes > 2 else binary()
    return training.run(Labeled.of(instances(), truth), None, snapshots or Snapshots(None), observer or Observer())


def remembered(training: Training) -> dict[str, Tensor]:
    """Everything that a training holds: weights, the average of them, modules, the method's state, the meters."""
    averaged = {} if training.averaged is None else training.averaged.state_dict()
    parts = {
        "model": training.model.state_dict(),
        "averaged": averaged,
        "modules": training.modules.state_dict(),
        "averaged_modules": training.averaged_modules.state_dict(),
        "state": training.state,
        "meters": training.meters.tensors,
    }
    return {f"{part}.{name}": value for part, tensors in parts.items() for name, value in tensors.items()}


class Alarm(Observer):
    """Sends this process a signal when so many steps are done."""

    def __init__(self, at: int) -> None:
        self.at = at

    def stepped(self, step: int) -> None:
        if step == self.at:
            os.kill(os.getpid(), signal.SIGTERM)


def is_number(training: Training) -> bool:
    return all(bool(torch.isfinite(value.double()).all()) for value in remembered(training).values())


def remembers(case: tuple[str, str]) -> bool:
    """Whether a method keeps anything of its own between steps: what it may lose."""
    method, data = method_named(case[0]), data_of(case[1])
    setup = Setup(data, data.weak[0].num_classes, NUM_FEATURES, torch.device("cpu"), torch.Generator().manual_seed(0))
    return bool(method.init(setup)) or len(method.modules(setup)) > 0 or method.needs_teacher


CASES = [(name, combination) for name in METHODS for combination in combinations(name)]
ONE_VIEW = [case for case in CASES if "view" in options_of(case[0]) and "teacher_view" not in options_of(case[0])]
REMEMBERING = [case for case in CASES if remembers(case)]
OTHERS = [case for case in CASES if not remembers(case)]


def check_stop(combination: str, method: AbstractMethod, path: Path) -> None:
    """A training that a signal ended after the first step of its second epoch goes on to the same bits."""
    whole, cut, rest = (training_of(combination, method) for _ in range(3))
    expected = finished(whole)
    assert len(expected.history) == EPOCHS
    assert is_number(whole)
    with RunFolder.create(path, {}, seed=0) as folder:
        stopped = finished(cut, Snapshots(folder, 1e9), Alarm(whole.order.steps_per_epoch + 1))
    assert stopped.stopped_by == signal.SIGTERM
    with RunFolder.resume(path) as folder:
        assert finished(rest, Snapshots(folder, 1e9)).history == expected.history
    first, second = remembered(whole), remembered(rest)
    assert first.keys() == second.keys()
    assert {value.dtype for value in whole.state.values()} <= {torch.float32, torch.int64}
    assert not [key for key in first if not torch.equal(first[key], second[key])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For a run that does not ask git where it is, which would take longest."""
    monkeypatch.setattr(run_folder, "environment", lambda command=None: {})
    return tmp_path / "run"


@pytest.mark.parametrize(("name", "combination"), REMEMBERING)
def test_what_a_method_remembers_survives_a_stop_bit_by_bit(name: str, combination: str, folder: Path) -> None:
    check_stop(combination, method_named(name), folder)


@pytest.mark.parametrize(
    ("name", "combination", "options"),
    [
        ("uum", "ClassCounts", {"stored": True}),
        ("rank_pruning", "PairComparison", {"selection": "rank"}),
        ("glws", "PairSimilarity", {"e_step": "teacher"}),
        ("cvir", "Labels Unlabeled", {"warm_epochs": 1}),
    ],
)
def test_what_an_option_makes_it_remember_survives_too(
    name: str, combination: str, options: dict[str, object], folder: Path
) -> None:
    check_stop(combination, method_named(name, **options), folder)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "combination"), OTHERS)
def test_other_methods_survive_a_stop(name: str, combination: str, folder: Path) -> None:
    check_stop(combination, method_named(name), folder)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "combination"), CASES)
def test_float64_all_the_way(name: str, combination: str) -> None:
    training = training_of(combination, method_named(name), "float64")
    fitted = finished(training)
    assert is_number(training)
    assert {value.dtype for value in training.model.state_dict().values()} == {torch.float64}
    assert fitted.predict(instances()).dtype == torch.float64


def never_seen(instances: Tensor, generator: torch.Generator) -> Tensor:
    raise AssertionError("another view than the one that is trained on")


@pytest.mark.parametrize(("name", "combination"), ONE_VIEW)
def test_a_method_that_is_told_its_view_looks_at_no_other(name: str, combination: str) -> None:
    look = views("tables")
    training = training_of(combination, method_named(name, view="strong"), look=replace(look, weak=never_seen))
    finished(training)
    assert is_number(training)


@pytest.mark.parametrize(
    ("name", "option"), [("uum", "weight_view"), ("llp_vat", "target_view"), ("rank_pruning", "selection_view")]
)
def test_a_view_beside_the_one_that_is_trained_on_can_be_named_or_left_out(name: str, option: str) -> None:
    assert getattr(method_named(name), option) is None
    assert getattr(method_named(name, **{option: "weak_2"}), option) == "weak_2"
    with pytest.raises(ConfigError, match=rf"`method\.{option}` must be plain, weak or strong, .*, or null\. Got"):
        method_named(name, **{option: "wea"})


@pytest.mark.parametrize("name", [name for name in METHODS if method_class(name).kinds])
def test_the_wrong_kind_of_weak_label_is_one_line(name: str) -> None:
    kind = method_class(name)
    for other in MADE.keys() - set(combinations(name)):
        with pytest.raises(DataError) as caught:
            method_named(name).check(data_of(other))
        message = str(caught.value)
        assert "\n" not in message
        assert message.startswith(f"{kind.__name__} learns from {kind.takes} (")
        assert message.endswith(f", found {' with '.join(other.split())}")


@pytest.mark.parametrize("name", METHODS)
def test_a_misspelled_option_is_answered_with_the_nearest(name: str) -> None:
    option = fields(method_class(name))[0].name  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=rf"no such key `method\.{option}x`; did you mean `method\.{option}`\?$"):
        build_method(name, {f"{option}x": 1})


@pytest.mark.parametrize("name", METHODS)
def test_a_misspelled_name_is_answered_with_the_nearest(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^no method is called '{name}_'; did you mean '{name}'\?$"):
        build_method(f"{name}_")


@pytest.mark.parametrize("name", [name for name in METHODS if method_class(name).needs_prior])
def test_a_method_that_needs_the_prior_says_so_and_refuses_impossible_ones(name: str) -> None:
    with pytest.raises(ConfigError, match=f"^`method`: {name} needs prior$"):
        build_method(name)
    for prior in (0.0, 1.0, -0.2):
        with pytest.raises(ConfigError, match="the prior, the share of the positive class, must lie between 0 and 1"):
            build_method(name, {"prior": prior})


def test_the_command_lists_every_method_with_what_it_takes_and_whether_it_needs_a_prior(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["methods"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line[:1].strip()]
    listed = {line.split()[0]: line for line in lines}
    assert listed.keys() >= METHODS.keys()
    for name in METHODS:
        kind, line = method_class(name), listed[name]
        assert kind.takes[:30] in line
        assert ("needed" in line) == kind.needs_prior
