"""`MixtureTraining`: the training of `model="auto"`, which chooses among models by held-out weak labels."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from glws._seeds import derived_generator
from glws.data import NamedInstances, ShardInstances, WeakDataset, augment, informative_sets, instance_shape
from glws.data.augment import Views
from glws.errors import CheckpointError, DataError
from glws.inference import waiting_for_kernels
from glws.kinds import is_learned
from glws.methods import AbstractMethod, default_method
from glws.models import build
from glws.selection import WeakLabels
from glws.training._checkpoint import Saved, Snapshots
from glws.training._config import TrainingConfig
from glws.training._devices import chosen_device
from glws.training._evaluate import AT_ONCE, Evaluation, Labeled
from glws.training._guard import collapse, implied_rates
from glws.training._loop import Fitted, Row, Training
from glws.training._mixture import Learner, inside, learner_of_tensors
from glws.training._mixture_search import Member, MixtureSearch, Selection
from glws.training._noise import LearnedNoise
from glws.training._observer import Observer
from glws.training._predictor import Predictor
from glws.training._signals import StopSignals
from glws.training._world import World

MOST_VALUES = 1 << 25
"""Tables of more numbers are not searched: one network is trained on them, batch by batch."""
FREE = ("seed", "device", "save_every", "timeout", "deterministic", "on_impossible", "shares")
"""Options of the training that a search keeps; any other is about one network."""
UNTRAINED = nn.Module()


def is_searchable(data: WeakDataset, world: World | None = None) -> bool:
    """Whether `model="auto"` can choose for these data: rows of numbers that fit in memory, in one process.

    >>> from glws.kinds import Labels
    >>> data = [WeakDataset(torch.zeros(2, *shape), [[0], [1]], Labels.of([0, 1], 2)) for shape in ([3], [1, 8, 8])]
    >>> [is_searchable(each) for each in data]
    [True, False]
    """
    instances = data.instances
    is_one = world is None or world.size == 1
    if not is_one or data.evidence is not None or isinstance(instances, NamedInstances | ShardInstances):
        return False
    first = instances.take(torch.zeros(1, dtype=torch.int64))
    shape = instance_shape(instances)
    return first.is_floating_point() and len(shape) == 1 and len(instances) * shape[0] <= MOST_VALUES


def is_left_open(config: TrainingConfig) -> bool:
    """Whether no option of the training is given that is about one network."""
    usual = TrainingConfig()
    return all(getattr(config, name) == getattr(usual, name) for name in vars(usual) if name not in FREE)


class MixtureTraining:
    """A search in stages, with checkpoints after stages; `run` does all of it and leaves a `Fitted`.

    A killed search resumes after the stages that it had finished. Noise that is learned is learned with one network
    first.
    """

    def __init__(
        self,
        data: WeakDataset,
        config: TrainingConfig,
        views: Views | None = None,
        method: AbstractMethod | None = None,
    ) -> None:
        if not is_searchable(data):
            raise DataError(
                f'model="auto" chooses for rows of numbers in memory, at most {MOST_VALUES:,} numbers; pass a model, '
                "for instance glws.models.build(...)"
            )
        chosen_device(config.device)  # it must be there, although the search runs on the CPU
        self.source, self.config = data, config
        self.views = views or augment.views("tables")
        self.method = method or default_method()
        self.world, self.device, self.model = World(), torch.device("cpu"), UNTRAINED
        self.history: list[Row] = []
        self.warnings: list[str] = []
        self.step = 0
        self.noise = LearnedNoise()
        self._learners: list[Learner] = []
        self._is_noise_learned = not any(map(is_learned, data.weak))

    def __repr__(self) -> str:
        return f"MixtureTraining({self.source!r}, {len(self.history)} candidates tried)"

    @waiting_for_kernels()
    def run(
        self, test: Labeled | None, held_out: WeakDataset | None, snapshots: Snapshots, observer: Observer
    ) -> Fitted:
        """Tries all candidates, or those until a signal comes, and mixes the best ones."""
        with StopSignals() as stop, observer:
            snapshots.restore(self)
            stored, logged = list(self._learners), len(self.history)
            self._learn_noise()
            search = self._search()
            observer.started(min(len(stored), search.most_stages), search.most_stages)
            tried = 0

            def keep(learner: Learner, members: Sequence[Member]) -> bool:
                nonlocal tried
                if len(self._learners) == self.step:
                    self._learners.append(learner)
                self.step += 1
                for member in members:
                    tried += 1
                    if tried > logged:
                        self._log(_row_of(member, tried, self.step), snapshots, observer)
                observer.stepped(self.step)
                is_stopped = stop.received is not None
                snapshots.save(self, now=is_stopped)
                return is_stopped

            self.step = 0
            found = search.run(stored, keep)
            self.model = found.mixture
            self._guard(found, observer)
            evaluation = Evaluation()
            if found.is_complete:
                self.step = search.most_stages + 1
                evaluation = self._evaluation(test, held_out)
                if tried == len(self.history):
                    row: Row = {"epoch": tried + 1, "step": self.step, "candidate": "mixture", **evaluation.row}
                    self._log(row, snapshots, observer)
                snapshots.save(self, now=True)
        stopped_by = None if found.is_complete else (stop.received or signal.SIGINT)
        return Fitted(
            found.mixture, self.history, self.warnings, self._predictor, evaluation, self.noise, stopped_by, found
        )

    def _log(self, row: Row, snapshots: Snapshots, observer: Observer) -> None:
        self.history.append(row)
        snapshots.note(self, row)
        observer.epoch_ended(row)

    def _search(self) -> MixtureSearch:
        """The search on all rows, in the plain view."""
        data = informative_sets(self.noise.applied(self.source), self.config.seed)
        pieces = torch.split(torch.arange(len(data.instances)), AT_ONCE)
        rows = [self.views.plain(data.instances.take(piece).float().cpu(), torch.Generator()) for piece in pieces]
        return MixtureSearch(torch.cat(rows), WeakLabels(tuple(data.groups), tuple(data.weak)), self.config.seed)

    def _learn_noise(self) -> None:
        if self._is_noise_learned:
            return
        shape, num_classes = instance_shape(self.source.instances), self.source.weak[0].num_classes
        network = build("mlp", shape, num_classes, derived_generator("cpu", self.config.seed, "model"))
        training = Training(network, self.source, self.method, replace(self.config, device="cpu"), self.views, World())
        self.noise = training.run(None, None, Snapshots(None), Observer()).noise
        self._is_noise_learned = True

    @property
    def _predictor(self) -> Predictor:
        return Predictor(self.model, self.config, self.device, self.views, self.method, {}, nn.ModuleDict())

    def _evaluation(self, test: Labeled | None, held_out: WeakDataset | None) -> Evaluation:
        held_out = None if held_out is None else self.noise.applied(held_out)
        predict = self._predictor
        return Evaluation.of(predict, test, held_out, self.world, predict.for_scores, predict.read_bags)

    def _guard(self, found: Selection, observer: Observer) -> None:
        """Warns if nearly all rows are predicted to be of one class."""
        table = found.held_out_log_probs
        rates = torch.from_numpy(np.bincount(table.argmax(1), minlength=table.shape[1]) / len(table))
        message = collapse(rates, implied_rates(self.noise.applied(self.source)))
        self.warnings[:] = [] if message is None else [message]
        for line in self.warnings:
            observer.warned(line)

    # ------------------------------------------------------------ checkpoints

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint holds: the models of the finished stages, the mixture, and the learned noise."""
        parts = {f"search/{number}": learner.state_dict() for number, learner in enumerate(self._learners)}
        parts |= {"model": self.model.state_dict(), "noise": dict(self.noise.counts)}
        return {f"{part}/{name}": tensor.cpu() for part, found in parts.items() for name, tensor in found.items()}

    def put_back(self, found: Saved) -> None:
        """Goes on from a checkpoint."""
        tensors = found.checkpoint.tensors
        numbers = {int(name.split("/")[1]) for name in tensors if name.startswith("search/")}
        try:
            if not numbers:
                raise KeyError("search")
            self._learners = [learner_of_tensors(inside(tensors, f"search/{number}/")) for number in sorted(numbers)]
        except (RuntimeError, KeyError, IndexError) as error:
            raise CheckpointError(f"the checkpoint of step {found.step:,} is not that of a search") from error
        counts = inside(tensors, "noise/")
        if counts:
            self.noise, self._is_noise_learned = LearnedNoise(counts), True


def _row_of(member: Member, number: int, stage: int) -> Row:
    """A candidate in the log: its name, and the mean log-likelihood of held-out weak labels."""
    return {"epoch": number, "step": stage, "candidate": member.name, "score": float(member.fits.mean())}
