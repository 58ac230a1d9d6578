"""The loop: same seed, same bits; a training that was cut off shows no seam; what is watched is told."""

import os
import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from glws.data import Groups, WeakDataset
from glws.data.augment import views
from glws.errors import CheckpointError, DataError
from glws.evaluation import balanced_posterior, scores
from glws.kinds import ClassCounts, Labels, Proportions, Unlabeled
from glws.methods import GLWS, AbstractMethod, Epoch, Setup, State, Step, Supervised
from glws.models import build
from glws.training import Fitted, Labeled, Observer, RunFolder, Snapshots, Training, TrainingConfig, World, fit


def bags(seed: int = 0, number: int = 12) -> WeakDataset:
    """Ragged bags of points whose class is the sign of the first coordinate, with the count of positives."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(60, 4, generator=generator)
    lengths = torch.randint(2, 6, (number,), generator=generator)
    groups = [torch.randint(60, (int(length),), generator=generator).tolist() for length in lengths]
    counts = [int((x[group, 0] > 0).sum()) for group in groups]
    return WeakDataset(x, groups, Proportions.of(counts))


def trained(data: WeakDataset, folder: Path | None = None, **options: object) -> Fitted:
    wanted = {"epochs": 4, "batch_size": 5, "learning_rate": 0.05, "save_every": 0.0, **options}
    config = TrainingConfig(**wanted)  # type: ignore[arg-type]
    model = build("mlp", [4], 2, torch.Generator().manual_seed(1), hidden=[8], dropout=0.3)
    test = Labeled.of(data.instances.take(torch.arange(20)), torch.arange(20) % 2)
    with opened(folder) as run:
        return fit(model, data, method(config), config, test=test, held_out=bags(7), snapshots=Snapshots(run, 0.0))


def opened(folder: Path | None) -> AbstractContextManager[RunFolder | None]:
    """A run folder, new or gone on with."""
    if folder is None:
        return nullcontext()
    if RunFolder.holds_run(folder):
        return RunFolder.resume(folder)
    return RunFolder.create(folder, {"a": 1}, seed=0, command=["test"])


def method(config: TrainingConfig) -> GLWS:
    return GLWS(e_step="teacher" if config.average else "weak")


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


@pytest.mark.parametrize(
    "options", [{}, {"optimizer": "sgd"}, {"average": 0.9}, {"clip": 0.1}, {"precision": "float64"}]
)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(options: dict[str, object]) -> None:
    first, second, third = (trained(bags(), seed=seed, **options) for seed in (0, 0, 1))
    assert same_weights(first.model, second.model)
    assert first.history == second.history
    assert not same_weights(first.model, third.model)


def test_training_leaves_the_global_stream_where_it_was() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    trained(bags())
    assert torch.equal(torch.get_rng_state(), before)


class Alarm(Observer):
    """Sends this process a signal when so many steps are done."""

    def __init__(self, at: int, number: int = signal.SIGTERM) -> None:
        self.at, self.number = at, number

    def stepped(self, step: int) -> None:
        if step == self.at:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("at", [1, 3, 4, 7])
@pytest.mark.parametrize("options", [{}, {"average": 0.9, "optimizer": "sgd"}])
def test_a_training_that_was_asked_to_stop_goes_on_to_the_same_bits(
    at: int, options: dict[str, object], tmp_path: Path
) -> None:
    whole = trained(bags(), tmp_path / "whole", **options)
    config = TrainingConfig(epochs=4, batch_size=5, learning_rate=0.05, save_every=0.0, **options)  # type: ignore[arg-type]
    data = bags()

    def once(observer: Observer) -> Fitted:
        model = build("mlp", [4], 2, torch.Generator().manual_seed(1), hidden=[8], dropout=0.3)
        test = Labeled.of(data.instances.take(torch.arange(20)), torch.arange(20) % 2)
        with opened(tmp_path / "cut") as run:
            others = {"snapshots": Snapshots(run, 1e9), "observer": observer}
            return fit(model, data, method(config), config, test=test, held_out=bags(7), **others)

    (tmp_path / "cut" / "checkpoints").mkdir(parents=True)
    cut = once(Alarm(at))
    assert cut.stopped_by == signal.SIGTERM
    rest = once(Observer())
    assert rest.stopped_by is None
    assert same_weights(rest.model, whole.model)
    assert rest.history == whole.history
    for name in ("metrics.jsonl", "metrics.csv"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


class Normed(nn.Sequential):
    """A network with batch norm."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))


@pytest.mark.parametrize("evaluate_average", [True, False])
def test_an_average_that_is_evaluated_has_batch_norm_of_its_own(evaluate_average: bool) -> None:
    config = TrainingConfig(epochs=3, batch_size=5, learning_rate=0.05, average=0.9, evaluate_average=evaluate_average)
    training = Training(Normed(), bags(), GLWS(), config, None, World())
    training.run(None, None, Snapshots(None), Observer())
    assert isinstance(training.averaged, Normed)
    copied = training.model[1].running_mean  # type: ignore[index]
    assert torch.equal(training.averaged[1].running_mean, copied) != evaluate_average


@pytest.mark.parametrize(("view", "higher"), [("weak", 0.0), ("strong", 3.0)])
def test_batch_norm_of_an_average_is_that_of_batches_as_they_were_trained_on(view: str, higher: float) -> None:
    """An instance that is in many groups counts as often as it came, in the view of the M-step."""
    x, often = torch.randn(30, 4, generator=torch.Generator().manual_seed(0)), torch.arange(200) % 8
    members = torch.cat([often, torch.arange(8, 30)])
    data = WeakDataset(x, members[:, None], Labels.of(members % 2, 2))
    look = replace(views("tables"), strong=lambda seen, generator: seen + 3.0)
    config = TrainingConfig(epochs=2, batch_size=6, learning_rate=0.05, average=0.9, evaluate_average=True)
    training = Training(Normed(), data, GLWS(m_step=view), config, look, World())
    training.run(None, None, Snapshots(None), Observer())
    assert isinstance(training.averaged, Normed)
    steps = range(training.order.steps_per_epoch)
    batches = [data.batch(training.order.groups(1, number)).instances + higher for number in steps]
    wanted = torch.stack([training.averaged[0](batch).mean(0) for batch in batches]).mean(0)
    torch.testing.assert_close(training.averaged[1].running_mean, wanted)
    assert not torch.allclose(wanted, training.averaged[0](x + higher).mean(0), atol=0.01)  # each instance once


def test_an_average_with_batch_norm_that_was_cut_off_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    given = {"average": 0.9, "evaluate_average": True, "epochs": 4, "batch_size": 5, "evaluate_every": 2}
    config, data = TrainingConfig(learning_rate=0.05, save_every=0.0, **given), bags()  # type: ignore[arg-type]
    test = Labeled.of(data.instances.take(torch.arange(20)), torch.arange(20) % 2)

    def once(folder: Path, observer: Observer) -> Fitted:
        with opened(folder) as run:
            others = {"snapshots": Snapshots(run, 1e9), "observer": observer}
            return fit(Normed(), data, GLWS(e_step="teacher"), config, test=test, **others)

    whole = once(tmp_path / "whole", Observer())
    assert once(tmp_path / "cut", Alarm(7)).stopped_by == signal.SIGTERM
    rest = once(tmp_path / "cut", Observer())
    assert rest.history == whole.history
    assert torch.equal(
        rest.predict(data.instances.take(torch.arange(60))), whole.predict(data.instances.take(torch.arange(60)))
    )


def test_a_finished_training_is_not_trained_further(tmp_path: Path) -> None:
    first, second = trained(bags(), tmp_path), trained(bags(), tmp_path)
    assert same_weights(first.model, second.model)
    assert first.history == second.history


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    trained(bags(), tmp_path)
    config = TrainingConfig(epochs=4, batch_size=5)
    with opened(tmp_path) as run, pytest.raises(CheckpointError, match="of another network or method"):
        fit(build("linear", [4], 2), bags(), None, config, snapshots=Snapshots(run))


@dataclass(frozen=True)
class Remembering(AbstractMethod):
    """Counts how often each instance was seen, weighs by it, and remembers the epochs."""

    summary: ClassVar[str] = "a test"
    takes: ClassVar[str] = "labels"

    def init(self, setup: Setup) -> State:
        return {"seen": torch.zeros(len(setup.data.instances)), "epochs": torch.zeros(1)}

    def modules(self, setup: Setup) -> nn.ModuleDict:
        return nn.ModuleDict({"head": nn.Linear(setup.num_features, 1)})

    def begin_epoch(self, epoch: Epoch) -> None:
        epoch.state["epochs"] += epoch.predict(torch.arange(3)).exp().sum() / 3

    def loss(self, step: Step) -> Tensor:
        weights = 1 + step.state["seen"][step.batch.numbers]
        outputs = step.outputs("weak_2")
        extra = step.modules["head"](outputs.features).square().mean()
        return (weights * outputs.logits.logsumexp(1)).mean() + extra + step.inputs("strong").mean()

    def update(self, step: Step) -> None:
        step.state["seen"][step.batch.numbers] += 1


def test_what_a_method_remembers_survives_a_stop(tmp_path: Path) -> None:
    data, config = bags(), TrainingConfig(epochs=3, batch_size=5, save_every=0.0)

    def once(folder: Path | None, observer: Observer) -> tuple[Fitted, nn.Module]:
        model = build("mlp", [4], 2, hidden=[8])
        torch.manual_seed(3)
        with opened(folder) as run:
            fitted = fit(model, data, Remembering(), config, snapshots=Snapshots(run, 1e9), observer=observer)
        return fitted, model

    (tmp_path / "checkpoints").mkdir()
    once(tmp_path, Alarm(4))
    rest, whole = once(tmp_path, Observer()), once(None, Observer())
    assert same_weights(rest[1], whole[1])
    assert rest[0].history == whole[0].history


class Listener(Observer):
    def __init__(self) -> None:
        self.rows: list[Mapping[str, object]] = []
        self.warnings: list[str] = []

    def epoch_ended(self, row: Mapping[str, object]) -> None:
        self.rows.append(row)

    def warned(self, message: str) -> None:
        self.warnings.append(message)


@dataclass(frozen=True)
class Constant(AbstractMethod):
    """Learns to call everything class 1."""

    summary: ClassVar[str] = "a test"
    takes: ClassVar[str] = "anything"

    def loss(self, step: Step) -> Tensor:
        return -step.logits().log_softmax(1)[:, 1].mean()


def test_collapse_is_noticed_and_ordinary_training_is_not_blamed() -> None:
    listener, config = Listener(), TrainingConfig(epochs=16, learning_rate=0.1)
    fitted = fit(build("linear", [4], 2), bags(), Constant(), config, observer=listener)
    assert listener.warnings == fitted.warnings[:1]  # it is said once, not after every epoch
    assert len(fitted.warnings) > 1
    assert "of the training instances are predicted to be of class 1" in fitted.warnings[-1]
    assert len(listener.rows) == 16
    assert not fit(build("linear", [4], 2), bags(), None, config).warnings


def test_nan_in_the_instances_stops_before_the_weights_move() -> None:
    data = bags()
    data.instances.values[3] = torch.nan  # type: ignore[attr-defined]
    model = build("linear", [4], 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(DataError, match="log-probability nan"):
        fit(model, data, None, TrainingConfig(epochs=2, batch_size=12))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


class Certain(nn.Module):
    """Says class 0, always and certainly."""

    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.output(x) * 0
        return logits + torch.tensor([0.0, -torch.inf])


def test_impossible_groups_are_counted_or_stop_training_as_asked() -> None:
    data = WeakDataset(torch.randn(4, 4), [[0, 1], [2, 3]], Proportions.of([1, 0]))
    fitted = fit(Certain(), data, GLWS(e_step="same"), TrainingConfig(epochs=1, batch_size=2))
    assert fitted.history[0]["impossible_groups"] == 1
    with pytest.raises(DataError, match=r"rule out 1 group\(s\)"):
        fit(Certain(), data, GLWS(e_step="same"), TrainingConfig(epochs=1, batch_size=2, on_impossible="error"))


def test_shares_of_classes_change_how_tests_are_judged_and_nothing_else() -> None:
    plain, told = trained(bags()), trained(bags(), shares=[0.95, 0.05])
    assert same_weights(plain.model, told.model)
    x, labels = bags().instances.take(torch.arange(20)), torch.arange(20) % 2
    even = balanced_posterior(plain.predict(x), torch.tensor([0.95, 0.05]))
    torch.testing.assert_close(told.predict_for_scores(x), even)
    assert torch.equal(told.predict(x), plain.predict(x))
    assert torch.equal(plain.predict_for_scores(x), plain.predict(x))
    assert told.history[-1]["test_accuracy"] == scores(even, labels).accuracy != plain.history[-1]["test_accuracy"]
    assert told.history[-1]["held_out_log_likelihood"] == plain.history[-1]["held_out_log_likelihood"]
    with pytest.raises(DataError, match="2 classes but 3 shares"):
        trained(bags(), shares=[0.5, 0.3, 0.2])


def test_the_wrong_kind_of_weak_label_is_one_line() -> None:
    with pytest.raises(DataError, match=r"^Supervised learns from true labels \(Labels\), found Proportions$"):
        fit(build("linear", [4], 2), bags(), Supervised())


def test_views_differ_between_steps_and_draws_and_come_back_in_another_run() -> None:
    seen: list[Tensor] = []

    @dataclass(frozen=True)
    class Looking(Constant):
        def loss(self, step: Step) -> Tensor:
            seen.extend([step.inputs("weak"), step.inputs("weak_2"), step.inputs("strong")])
            return super().loss(step)

    data = WeakDataset(torch.rand(6, 64), Groups.singles(6), Labels.of([0, 1, 0, 1, 0, 1], 2))
    for _ in range(2):
        fit(build("linear", [64], 2), data, Looking(), TrainingConfig(epochs=2, batch_size=6), views=views("digits"))
    half = len(seen) // 2
    assert all(torch.equal(one, other) for one, other in zip(seen[:half], seen[half:], strict=True))
    assert not any(torch.equal(seen[0], other) for other in seen[1:half])


def test_unlabeled_instances_start_from_their_prior_beside_labels() -> None:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(2))
    groups = [Groups.singles(4), Groups.of(torch.arange(40).view(4, 10))]
    data = WeakDataset(x, groups, [Labels.of([1, 1, 1, 1], 2), Unlabeled.of([0.3] * 4)])
    config = TrainingConfig(epochs=1, batch_size=(4, 4), learning_rate=1e-3)
    started = fit(build("linear", [3], 2), data, GLWS(e_step="same", m_step="weak"), config).history[0]["loss"]
    guess = torch.tensor([0.7, 0.3])
    logits = build("linear", [3], 2)(x).log_softmax(1)
    expected = -logits[:4, 1].mean() - (guess * logits).sum(1).mean()
    assert started == pytest.approx(float(expected.detach()), abs=1e-5)


def counted_bags(instances: int, counts: list[int], scale: float = 1.0) -> WeakDataset:
    x = scale * torch.randn(2 * instances, 3, generator=torch.Generator().manual_seed(0))
    return WeakDataset(x, torch.arange(2 * instances).view(2, instances), ClassCounts.of([counts, counts[::-1]]))


def test_the_log_says_how_far_approximate_posteriors_may_be_off() -> None:
    """Bags of 150 with 6e6 count vectors; small bags are exact, and the log says nothing of errors."""
    large, small = counted_bags(150, [10, 20, 30, 40, 50]), counted_bags(15, [1, 2, 3, 4, 5])
    config = TrainingConfig(epochs=1, batch_size=2)
    row = fit(build("linear", [3], 5), large, config=config, held_out=large).history[-1]
    assert 0 < float(row["approximation_error"]) < 0.05
    assert 0 < float(row["held_out_approximation_error"]) < 0.05
    exact = fit(build("linear", [3], 5), small, config=config, held_out=small).history[-1]
    assert not {"approximation_error", "held_out_approximation_error"} & set(exact)


def test_posteriors_that_are_far_off_are_warned_of_once() -> None:
    """Bags of 15, for which the tilt is coarse where predictions are sharp."""
    watched = Watcher()
    method = GLWS(multiclass="tilted")
    fitted = fit(
        build("linear", [3], 5),
        counted_bags(15, [1, 2, 3, 4, 5], 10.0),
        method,
        TrainingConfig(epochs=3, batch_size=2),
        observer=watched,
    )
    (warning,) = [line for line in fitted.warnings if "approximate" in line]
    assert warning.startswith("posteriors are approximate and may be off by 0.")
    assert warning.endswith("(estimate, epoch 1); those of smaller groups are exact")
    assert watched.lines == [warning]


class Watcher(Observer):
    def __init__(self) -> None:
        self.lines = list[str]()

    def warned(self, message: str) -> None:
        self.lines.append(message)


def test_scores_are_those_of_the_predictions_of_the_last_epoch() -> None:
    fitted = trained(bags())
    x = bags().instances.take(torch.arange(20))
    torch.testing.assert_close(fitted.evaluation.tested, fitted.predict_for_scores(x))
    assert fitted.evaluation.row.items() <= fitted.history[-1].items()
    assert fitted.evaluation.row.keys() >= {"test_accuracy", "held_out_log_likelihood"}


def test_a_training_that_was_cut_off_after_its_last_epoch_is_evaluated(tmp_path: Path) -> None:
    first, again = trained(bags(), tmp_path / "run"), trained(bags(), tmp_path / "run")
    assert again.evaluation.row == first.evaluation.row
