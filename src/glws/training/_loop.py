"""The training loop of all methods and kinds of weak labels. `fit` is the entry point; read `Training.run` first."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glws._reprs import html_table, short_number
from glws._seeds import derived_generator, derived_seed
from glws.data import Batch, WeakDataset, augment, check_learnable, training_sets, united
from glws.data.augment import Views
from glws.errors import ConfigError, DataError
from glws.inference import waiting_for_kernels
from glws.inference._problem import skip_nan_check
from glws.methods import AbstractMethod, Epoch, Progress, Setup, Step, default_method
from glws.selection import resolve_priors
from glws.training._batches import Prepared
from glws.training._checkpoint import Saved, Snapshots, put_back, stored_tensors
from glws.training._config import TrainingConfig
from glws.training._devices import DeviceInstances, batch_on, chosen_device, on_device, reproducible, seed_global
from glws.training._evaluate import AT_ONCE, Evaluation, Labeled
from glws.training._gradients import summed_gradients
from glws.training._graphs import ViewGraphs
from glws.training._guard import collapse, implied_rates, imprecise, weakly_identified
from glws.training._host_objective import loss_on_host
from glws.training._length import with_length, with_rate
from glws.training._meters import Meters, predicted_counts, row_of
from glws.training._mixture_search import Selection
from glws.training._network import (
    Forward,
    average,
    averaged_copy,
    cast,
    keeps_integers,
    number_of_features,
    ready,
)
from glws.training._noise import LearnedNoise, NoiseLearning
from glws.training._observer import Observer, shown_progress
from glws.training._order import Order
from glws.training._ownership import Ownership
from glws.training._predictor import Predictor
from glws.training._reading_ahead import read_ahead
from glws.training._schedule import build_optimizer, learning_rate, moved, set_learning_rate
from glws.training._shared_statistics import shared_statistics
from glws.training._signals import StopSignals
from glws.training._step_graphs import StepGraphs
from glws.training._world import World

if TYPE_CHECKING:
    from glws.training._mixture_training import MixtureTraining

Row = dict[str, float | int | str]
SHOWN = ("epoch", "loss", "test_accuracy", "held_out_log_likelihood")
"""What a repr shows of the last epoch."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training leaves: the network, a row of numbers for each epoch, and what the guard had to say.

    `predict` gives log-probabilities for instances as the data hold them (`Predictor`). `evaluation` has the
    predictions of the last epoch for the test set and the held-out groups, and every score that follows from them.
    `stopped_by` is the number of the signal that ended training early, Ctrl-C or other, None if it is complete;
    `stop_if_asked` passes it on. `selection` has the candidates of `model="auto"`, None for a model of your own.
    """

    def __repr__(self) -> str:
        last = {name: short_number(value) for name, value in self.history[-1].items()} if self.history else {}
        shown = ", ".join(f"{name} {last[name]}" for name in SHOWN if name in last)
        return f"Fitted({type(self.model).__name__}{', ' if shown else ''}{shown})"

    def _repr_html_(self) -> str:
        if self.selection is not None:
            rows = [
                [each.name, f"{each.score:.4f}", f"{each.standard_error:.4f}", f"{each.weight:.2f}"]
                for each in self.selection.candidates
            ]
            return html_table(repr(self), ["candidate", "held-out score", "standard error", "weight"], rows)
        last = self.history[-1] if self.history else {}
        return html_table(repr(self), ["last epoch", ""], [[name, short_number(value)] for name, value in last.items()])

    def plot_history(self, *names: str, ax: Any = None) -> Any:
        """Draws the named columns of the history (by default the usual ones), or candidates; needs matplotlib."""
        from glws._plots import plot_candidates, plot_history

        if self.selection is not None and not names:
            return plot_candidates(self.selection.candidates, ax)
        return plot_history(self.history, names, ax)

    model: nn.Module
    history: list[Row]
    warnings: list[str]
    predict: Predictor
    evaluation: Evaluation
    noise: LearnedNoise
    stopped_by: int | None = None
    selection: Selection | None = None

    def predict_for_scores(self, instances: Tensor) -> Float[Tensor, "rows classes"]:
        """The predictions that test scores are of, which differ if the training was given the shares of classes."""
        return self.predict.for_scores(instances)

    def predict_groups(self, instances: Any, groups: Any) -> Float[Tensor, "groups classes"]:
        """The probabilities of what groups are, of a method that predicts whole groups."""
        return self.predict.group_probs(instances, groups)

    def stop_if_asked(self) -> None:
        """The loop only ends its step when a signal asks it to stop; whoever called it stops as well."""
        if self.stopped_by == signal.SIGINT:
            raise KeyboardInterrupt
        if self.stopped_by is not None:
            raise SystemExit(128 + self.stopped_by)


def fit(
    model: nn.Module | Literal["auto"] = "auto",
    data: WeakDataset | None = None,
    method: AbstractMethod | None = None,
    config: TrainingConfig | None = None,
    *,
    views: Views | None = None,
    test: Labeled | None = None,
    held_out: WeakDataset | None = None,
    snapshots: Snapshots | None = None,
    observer: Observer | None = None,
    world: World | None = None,
    verbose: bool = False,
) -> Fitted:
    """Trains a network on weakly labeled data; the last epoch is the result.

    `model` is any module that gives logits `[batch, classes]`; it is trained in place. Without one, `fit(data=data)`
    chooses among models of table rows by held-out weak labels (`Fitted.selection`). Without a `method` it is EM on
    whatever is known; without `views` nothing is augmented. `test` are labeled instances and `held_out` groups
    held out, evaluated after each epoch. `snapshots` say where training is saved and resumed from. `verbose` shows a
    progress bar, or lines where nobody is looking; Ctrl-C ends training early with what was learned until then
    (`Fitted.stopped_by`).

    The same seed gives the same bits, and so does an interrupted training that resumes from its snapshots:
    what is random is drawn from the seed and the number of the step.

    >>> from glws.models import build
    >>> from glws.kinds import Proportions
    >>> x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> counts = (x[:, 0] > 0).view(10, 4).sum(1)
    >>> data = WeakDataset(x, torch.arange(40).view(10, 4), Proportions.of(counts))
    >>> fitted = fit(build("linear", [3], 2), data, config=TrainingConfig(epochs=60, batch_size=5, learning_rate=0.1))
    >>> bool(((fitted.predict(x).argmax(1) == 1) == (x[:, 0] > 0)).double().mean() > 0.9)
    True
    """
    if data is None:
        raise DataError("there is nothing to learn from: fit(model, data), or fit(data=data) to have a model chosen")
    data = resolve_priors(data)
    check_learnable(data.groups, data.weak)
    if isinstance(model, str):
        search = _search(data, method, config or TrainingConfig(), views)
        return search.run(test, held_out, snapshots or Snapshots(None), observer or shown_progress(verbose))
    training = Training(model, data, method or default_method(), config or TrainingConfig(), views, world or World())
    return training.run(test, held_out, snapshots or Snapshots(None), observer or shown_progress(verbose))


def _search(
    data: WeakDataset, method: AbstractMethod | None, config: TrainingConfig, views: Views | None
) -> MixtureTraining:
    from glws.training._mixture_training import MixtureTraining, is_left_open

    if method is not None or not is_left_open(config):
        raise ConfigError('model="auto" chooses by itself how to train; pass a model to choose method or training')
    return MixtureTraining(data, config, views)


class Training:
    """Everything that changes while a network is trained."""

    def __init__(
        self,
        model: nn.Module,
        data: WeakDataset,
        method: AbstractMethod,
        config: TrainingConfig,
        views: Views | None,
        world: World,
    ) -> None:
        data, owner, share = training_sets(data, method.kinds, config.seed)
        method = method.with_shares(owner, share)
        method.check(data)
        self.config = config = with_rate(with_length(config, data), model)
        self.method, self.world = method, world
        self.device = chosen_device(config.device)
        self.noise = NoiseLearning(data, config.seed)
        self._start = on_device(self.noise.train, self.device)
        self.data = united(self._start)
        data = united(self.noise.train)
        self.views = views or augment.views("tables")
        self.order = Order.of(data, config.batch_size, config.seed, config.step_instances, config.order)
        if not self.order.steps_per_epoch:
            raise DataError("there are no groups to train on")
        self.model = ready(model, config, self.device)
        self.num_classes = data.weak[0].num_classes
        if config.shares is not None and len(config.shares) != self.num_classes:
            raise DataError(f"there are {self.num_classes} classes but {len(config.shares)} shares of classes")
        setup = self._setup()
        self.modules = method.modules(setup)
        ready(self.modules, config, self.device)
        self.state = method.init(setup)
        needs_copy = config.average is not None or method.needs_teacher
        self.decay = _decay(method, config)
        self.averaged = averaged_copy(self.model) if needs_copy else None
        self.averaged_modules = averaged_copy(self.modules) if needs_copy else nn.ModuleDict()
        self.predict = self._predictor()
        self._weights = [*self.model.parameters(), *self.modules.parameters()]
        self.optimizer = build_optimizer([self.model, self.modules], config, self.device)
        self.meters = Meters(self.num_classes, self.device)
        self.implied = implied_rates(data)
        self.history: list[Row] = []
        self.warnings: list[str] = []
        self.step = 0
        self._epoch_data: tuple[int, WeakDataset] | None = None
        self._evaluation: Evaluation | None = None
        has_features = method.needs_features
        self._forward = Forward(self.model, config, self.device, world, has_features)
        self._teacher = Forward(self.averaged, config, self.device, world, has_features) if self.averaged else None
        is_replayed = config.speed == "graphs" and self.device.type == "cuda"
        self._view_graphs = ViewGraphs(self.views) if is_replayed else None
        self._steps = self._step_graphs() if is_replayed else None
        owned = Ownership(world).own if world.size > 1 and method.adds_up else None
        self._prepared = Prepared(self.order, data, owned)

    def __repr__(self) -> str:
        steps = self.num_epochs * self.order.steps_per_epoch
        return f"Training({type(self.model).__name__} by {type(self.method).__name__}, step {self.step} of {steps})"

    def _step_graphs(self) -> StepGraphs | None:
        """Where a whole step can be recorded: in one process, with all instances on the GPU, if the method says how.

        Not with learned noise, which changes in the course of training.
        """
        instances = self.data.instances
        says_nothing = type(self.method).recording is AbstractMethod.recording
        if says_nothing or self.world.size > 1 or not isinstance(instances, DeviceInstances) or self.noise.data.weak:
            return None
        return StepGraphs(self.method, self._forward, self._teacher, self.views, instances.values, self.config.clip)

    def _predictor(self) -> Predictor:
        """By the network that is evaluated: that which is trained, or its moving average."""
        model, modules = self.model, self.modules
        if self.config.evaluate_average and self.averaged is not None:
            model, modules = self.averaged, self.averaged_modules
        return Predictor(model, self.config, self.device, self.views, self.method, self.state, modules)

    # ------------------------------------------------------------ the loop

    @waiting_for_kernels()
    def run(
        self, test: Labeled | None, held_out: WeakDataset | None, snapshots: Snapshots, observer: Observer
    ) -> Fitted:
        """Trains to the end, or until a signal comes; from where the snapshots left off."""
        last = self.num_epochs * self.order.steps_per_epoch
        synced = self.world if self.config.sync_batch_norm else World()
        with (
            StopSignals() as stop,
            reproducible(self.device, self.config.deterministic),
            shared_statistics(self.model, synced),
            observer,
        ):
            snapshots.restore(self)
            observer.started(self.step, last)
            while self.step < last:
                if self.step % self.order.steps_per_epoch == 0:
                    self._begin_epoch()
                asked = self.world.begin_any(stop.received is not None)  # it travels during the step
                try:
                    self._train_step()
                except KeyboardInterrupt:  # raised, as where no handler of signals is allowed
                    if not self.history or self.world.size > 1:
                        raise
                    stop.received = signal.SIGINT
                    break
                if self.noise.is_due(self.step, last):
                    self._learn_noise()
                observer.stepped(self.step)
                is_stopped = asked() if self.world.size > 1 else stop.received is not None
                if self.step % self.order.steps_per_epoch == 0:
                    snapshots.note(self, self._end_epoch(test, held_out, observer))
                    snapshots.save(self, now=self.step == last or is_stopped)
                if is_stopped and self.step < last:
                    snapshots.save(self, now=True)
                    break
            is_cut = self.step < last
            if not is_cut and self._evaluation is None:  # it was cut off after its last epoch
                self._evaluation = self._evaluate(test, held_out)
        stopped_by = (stop.received or signal.SIGTERM) if is_cut else None
        evaluation = self._evaluation or Evaluation()
        noise = self.noise.learned if is_cut else self._concluded_noise(observer)
        return Fitted(self.model, self.history, self.warnings, self.predict, evaluation, noise, stopped_by)

    @property
    def num_epochs(self) -> int:
        """How many epochs there are in all."""
        assert self.config.epochs is not None, "with_length has chosen it"
        return self.config.epochs

    @property
    def progress(self) -> Progress:
        """Where training stands."""
        steps, epochs = self.order.steps_per_epoch, self.num_epochs
        return Progress(self.step, steps * epochs, self.step // steps, epochs)

    def _begin_epoch(self) -> None:
        self.meters.reset()
        self.method.begin_epoch(self._epoch())

    def _epoch(self) -> Epoch:
        generator = derived_generator(self.device, self.config.seed, "epoch", self.step)
        return Epoch(self.data, self.state, self.progress, self._logits_of, generator)

    def _train_step(self) -> None:
        progress = self.progress
        seed_global(self.device, derived_seed(self.config.seed, "dropout", self.step, self.world.rank))
        set_learning_rate(self.optimizer, learning_rate(self.config, progress.share))
        self.model.train()
        if not self._graph_step(progress):
            self._eager_step(progress)
        self.step += 1

    def _graph_step(self, progress: Progress) -> bool:
        """The whole step from a graph, if that can be."""
        if self._steps is None:
            return False
        epoch, number = progress.epoch, progress.step % self.order.steps_per_epoch
        batch = self._prepared.batch(self._this_epoch(epoch), epoch, number)
        noted = self._steps(batch, progress, self._view_seed)
        if noted is None:
            return False
        self._check_impossible(lambda: dict(zip(noted.names, noted.row, strict=False)))
        self._move()
        self.meters.add(*noted)
        return True

    def _eager_step(self, progress: Progress) -> None:
        """Runs one step eagerly: the reference for the recorded step."""
        self._forward.begin_step()
        step = self._step(progress)
        with skip_nan_check():
            loss = self._loss(step)
        if "loss" not in step.notes:
            step.note("loss", loss)
        self._check(step.notes["loss"])
        self._check_impossible(lambda: step.notes)
        for weight in self._weights:
            weight.grad = None  # torch's `zero_grad` takes as long as a small network
        with summed_gradients(self.model, self.world):
            loss.backward()  # type: ignore[no-untyped-call]
        if self.config.clip is not None:
            step.note("gradient_norm", nn.utils.clip_grad_norm_(self._weights, self.config.clip))
        self._move()
        self.method.update(step)
        predicted = predicted_counts(step.seen()) if step.predicted is None else step.predicted
        self.meters.add(tuple(step.notes), row_of(step.notes.values(), self.device), predicted)

    def _move(self) -> None:
        """The weights follow the gradients, and their moving average follows them."""
        moved(self.optimizer)
        if self.averaged is not None:
            for copy, model in ((self.averaged, self.model), (self.averaged_modules, self.modules)):
                average(copy, model, self.decay, self.step, self.method.teacher_warms_up)

    def _learn_noise(self) -> None:
        """An M-step of the noise, by the network that is trained."""
        self.noise.learn(self._trained, self.world)
        self.use_noise()

    def _concluded_noise(self, observer: Observer) -> LearnedNoise:
        """The learned noise with intervals; what is weakly identified is a warning."""
        noise = self.noise.concluded(self._trained, self.world)
        for message in weakly_identified(noise.estimates, self.noise.from_training):
            self.warnings.append(message)
            observer.warned(message)
        return noise

    @property
    def _trained(self) -> Predictor:
        """The predictions of the network that is trained, whichever is evaluated."""
        return replace(self.predict, model=self.model, modules=self.modules)

    def use_noise(self) -> None:
        """From now on the weak labels are those of the learned noise."""
        self.data, self._epoch_data = united(self.noise.learned.applied(self._start)), None

    def _step(self, progress: Progress) -> Step:
        batch, is_own = self._batch(progress.epoch, progress.step % self.order.steps_per_epoch)
        for network in filter(None, (self._forward, self._teacher)):
            network.world = World() if is_own else self.world
        return Step(
            batch=batch,
            network=self._forward,
            view=lambda name: self._view(name, batch.instances),
            averaged=self._teacher,
            state=self.state,
            modules=self.modules,
            averaged_modules=self.averaged_modules,
            progress=progress,
            generator=derived_generator(self.device, self.config.seed, "method", self.step, self.world.rank),
            everyone=self.world.table if is_own else None,
        )

    def _batch(self, epoch: int, number: int) -> tuple[Batch, bool]:
        """What a step of an epoch, counted from 0, is trained on: the groups that this process owns, if it owns some.

        Otherwise all groups, and of their instances those of this process.
        """
        data = self._this_epoch(epoch)
        read_ahead(data, self.order, epoch, number)
        batch, is_own = self._prepared.batch(data, epoch, number), self._prepared.is_own(number)
        batch = data.loaded(batch, None if is_own else self.world.share)
        return batch_on(batch, self.device), is_own

    def _this_epoch(self, epoch: int) -> WeakDataset:
        """The data of an epoch: samples of one population are regrouped each time."""
        if self._epoch_data is None or self._epoch_data[0] != epoch:
            generator = derived_generator("cpu", self.config.seed, "dealt", epoch)
            self._epoch_data = epoch, self.data.regrouped(generator)
        return self._epoch_data[1]

    def _view(self, name: str, instances: Tensor) -> Tensor:
        view, seed = name.split("_")[0], self._view_seed(name)
        if self._view_graphs is not None and len(instances):
            return self._view_graphs(view, instances, seed)
        seen: Tensor = getattr(self.views, view)(instances, torch.Generator(self.device).manual_seed(seed))
        return seen

    def _view_seed(self, name: str) -> int:
        return derived_seed(self.config.seed, name, self.step, self.world.rank)

    def _loss(self, step: Step) -> Tensor:
        known = loss_on_host(self.method, step) if self._steps is not None else None
        return self.method.loss(step) if known is None else known

    def _check(self, loss: Tensor) -> None:
        """Raises on a non-finite loss. On CUDA it is checked once per epoch, to avoid a sync."""
        if self.device.type == "cpu" and not math.isfinite(loss.item()):
            raise DataError(f"step {self.step}: the loss is {float(loss.detach())}; the instances may hold NaN")

    def _check_impossible(self, notes: Callable[[], Mapping[str, Tensor]]) -> None:
        if self.config.on_impossible == "error":
            impossible = notes().get("impossible_groups")
            if impossible is not None and bool(impossible > 0):
                raise DataError(f"step {self.step}: the predictions rule out {int(impossible)} group(s) altogether")

    def _end_epoch(self, test: Labeled | None, held_out: WeakDataset | None, observer: Observer) -> Row:
        self.method.end_epoch(self._epoch())
        row = self._row(test, held_out)
        if not abs(float(row["loss"])) < float("inf"):
            raise DataError(f"epoch {row['epoch']}: the loss is {row['loss']}; the instances may hold NaN")
        self.history.append(row)
        message = collapse(self.meters.predicted_rates(), self.implied)
        if message is not None:
            epoch = int(row["epoch"])
            is_old = bool(self.warnings) and self.warnings[-1].startswith(f"epoch {epoch - 1}:")
            self.warnings.append(f"epoch {epoch}: {message}")
            if not is_old:
                observer.warned(self.warnings[-1])
        message = imprecise(row, self.warnings)
        if message is not None:
            self.warnings.insert(0, message)
            observer.warned(message)
        observer.epoch_ended(row)
        return row

    def _row(self, test: Labeled | None, held_out: WeakDataset | None) -> Row:
        epoch = self.step // self.order.steps_per_epoch
        row: Row = {"epoch": epoch, "step": self.step, **self.meters.means()}
        row |= self.noise.row
        row["learning_rate"] = learning_rate(self.config, (self.step - 1) / max(self.progress.num_steps, 1))
        if epoch % self.config.evaluate_every and epoch != self.num_epochs:
            return row
        self._settle_average()
        self._evaluation = self._evaluate(test, held_out)
        return row | self._evaluation.row

    def _evaluate(self, test: Labeled | None, held_out: WeakDataset | None) -> Evaluation:
        held_out = None if held_out is None else self.noise.learned.applied(held_out)
        scored, bags = self.predict.for_scores, self.predict.read_bags
        return Evaluation.of(self.predict, test, held_out, self.world, scored, bags)

    def _settle_average(self) -> None:
        """Gives the moving average, where it is what is evaluated, statistics of batch norm of its own.

        They are those of batches as they are trained on. Of other instances, or of the same ones in other shares, they
        would tilt the decisions: batch statistics shift with the class balance. Each process uses its own
        instances, as in training.
        """
        if self.averaged is None or not self.config.evaluate_average:
            return
        seed_global(self.device, derived_seed(self.config.seed, "settled", self.step, self.world.rank))
        Forward(self.averaged, self.config, self.device, World()).settle(self._trained_batches())

    def _trained_batches(self) -> Iterator[Tensor]:
        """Batches of the finished epoch, drawn again in the view that is trained on, until there are enough."""
        epoch, rows = self.progress.epoch - 1, 0
        for number in range(self.order.steps_per_epoch):
            instances = self._batch(epoch, number)[0].instances
            if len(instances) > 1:  # of one instance there is no variance
                yield self._view(f"{self.method.trained_view}_settled_{number}", instances)
            rows += len(instances)
            if rows >= SETTLED_BY:
                break

    # ------------------------------------------------------------ checkpoints

    def tensors(self) -> dict[str, Tensor]:
        """Everything that a step depends on."""
        return stored_tensors(self)

    def put_back(self, found: Saved) -> None:
        """Goes on from a checkpoint."""
        put_back(self, found)

    # ------------------------------------------------------------ predictions

    @torch.no_grad()
    def _logits_of(self, numbers: Tensor) -> Tensor:
        pieces = torch.split(numbers, AT_ONCE)
        return torch.cat([self.predict.outputs(self.data.instances.take(piece)).logits for piece in pieces])

    def _setup(self) -> Setup:
        generator = derived_generator("cpu", self.config.seed, "init")
        first = self.data.instances.take(torch.zeros(1, dtype=torch.int64)).to(self.device)
        instances = self.views.plain(first, torch.Generator(self.device))
        dtype = torch.float64 if self.config.precision == "float64" else torch.float32
        features = number_of_features(self.model, cast(instances, dtype, keeps_integers(self.model)))
        return Setup(self.data, self.num_classes, features, self.device, generator)


def _decay(method: AbstractMethod, config: TrainingConfig) -> float:
    """The decay of the moving average: that of the method, or of the training where the method leaves it open."""
    own, name = method.teacher_decay, type(method).__name__
    if own is not None and config.average not in (None, own):
        raise ConfigError(
            f"`training.average` is {config.average:g}, but {name} averages with decay {own:g}; "
            "leave it out and set the option of the method"
        )
    return next((decay for decay in (own, config.average) if decay is not None), DECAY)


SETTLED_BY = 8192
"""So many instances, or all of an epoch, tell what the statistics of batch norm are."""
DECAY = 0.999
"""Of the moving average, where a method asks for a teacher and neither it nor the configuration says."""
